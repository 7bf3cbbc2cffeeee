//! `carry_forward`: a device that sends only what has changed is completed with what it
//! said before (last observation carried forward).
//!
//! ```text
//! sent    10:00 {u: 230, i: 1.5}   10:01 {i: 1.7}           10:02 {u: 231}
//! counts  10:00 {u: 230, i: 1.5}   10:01 {u: 230, i: 1.7}   10:02 {u: 231, i: 1.7}
//! ```
//!
//! - Known is, by device and field, the value of the newest event time; of equal times the
//!   one that came last.
//! - A record gets what is known of the fields that it lacks, as far as that is not newer
//!   than the record, and not older by more than `carry_forward`. So an older record that
//!   comes late gets what held at its time, or nothing: never a value of its future. Of a
//!   field that was said anew in between, it is not known any more what held then.
//! - A field that is absent, null or unusable (out of range, no number) is lacking. A record
//!   without any usable value is rejected as ever: there is nothing to complete.
//! - What counts is whole: computed fields, filter, windows, joins, what is passed on, what
//!   goes to lane `late`. What is known, and what `dedup` compares, is what was sent.
//! - Records that are accepted are remembered, and those that the filter passes over or has
//!   no answer to: the device said it. Those from the future, copies, and rejected ones are
//!   not. So a device whose every record was filtered has a place among the devices;
//!   where there is none left, it is not remembered.
//! - Marks and sequence numbers are of one record: they are not carried.
//!
//! Bounded by `limits::CARRY_BYTES_MAX` for all streams together. Full: a field that is
//! new to its device is not remembered and counted (`fields_not_carried`); those that are
//! known stay right. Freed with the device. A stream without it has nothing here, and pays
//! one branch for each record.

use crate::model::ids::{FieldIx, Name, StateIx};
use crate::model::limits::{CARRY_BYTES_MAX, FIELDS_MAX};
use crate::model::record::Record;
use crate::model::time::{EventTime, Span};

use super::emit::Emit;
use super::intake::Whole;
use super::spec::{DedupBy, DedupSpec, FieldsSpec, StreamSpec};
use super::stream::Stream;
use super::timers::LiveTime;

const _: () = assert!(FIELDS_MAX <= 64, "each field has a bit in `Memory::changed`");

/// What a device takes of a snapshot, and each of its fields: place, kind, time, value.
const DEVICE_COST: usize = 16;
const FIELD_COST: usize = 20;

/// What the devices of one stream said last.
#[derive(Clone, Debug, Default)]
pub(super) struct Carry {
    /// By slot.
    devices: Vec<Memory>,
    /// Slots that changed since the last commit; one that was given again may be there twice.
    changed: Vec<u32>,
    /// The place of the sequence number, once it has one.
    number: Option<FieldIx>,
}

/// What one device said last.
#[derive(Clone, Debug, Default, PartialEq)]
struct Memory {
    /// By field.
    held: Vec<Held>,
    /// Fields that changed since the last commit: a bit each.
    changed: u64,
}

/// What a device said last of one field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Held {
    pub(super) field: FieldIx,
    pub(super) datum: Datum,
    pub(super) at: EventTime,
}

/// A value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Datum {
    Number(f64),
    State(StateIx),
}

impl Carry {
    /// What it takes of a snapshot, at most.
    pub(super) fn cost(&self) -> usize {
        self.devices.iter().map(Memory::cost).sum()
    }

    /// Nothing is known of the device in this slot any more. Returns what that gives back.
    pub(super) fn forget(&mut self, slot: u32) -> usize {
        self.devices.get_mut(slot as usize).map_or(0, |memory| core::mem::take(memory).cost())
    }

    /// Goes on under this spec. Fields, by `names`, have the `places` of today; those that
    /// are configured no more, or as something else, are forgotten.
    pub(super) fn fit(&mut self, spec: &StreamSpec, places: &[Option<FieldIx>], names: &[Name]) {
        self.number = None;
        if spec.carry_forward.is_none() {
            *self = Carry::default();
            return;
        }
        let fields = &spec.mapping.fields;
        for memory in &mut self.devices {
            memory.held.retain_mut(|held| {
                let Some(Some(place)) = places.get(usize::from(held.field.0)) else { return false };
                let Some(name) = names.get(usize::from(held.field.0)) else { return false };
                held.field = *place;
                let is_state = matches!(held.datum, Datum::State(_));
                match fields {
                    FieldsSpec::Named(_) => {
                        fields.find(name.as_str()).is_some() && fields.is_state(name.as_str()) == is_state
                    }
                    FieldsSpec::All { .. } => !is_state,
                }
            });
            memory.held.sort_unstable_by_key(|held| held.field);
        }
    }

    /// What changed is durable.
    pub(super) fn mark_committed(&mut self) {
        for slot in self.changed.drain(..) {
            if let Some(memory) = self.devices.get_mut(slot as usize) {
                memory.changed = 0;
            }
        }
    }

    /// Slots of which something is known.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        (0_u32..).zip(&self.devices).filter(|(_, memory)| !memory.held.is_empty()).map(|(slot, _)| slot)
    }

    /// Slots that changed since the last commit, in order.
    pub(super) fn changed_slots(&self) -> Vec<u32> {
        let mut slots: Vec<u32> = self.changed.iter().copied().filter(|slot| self.of(*slot).changed != 0).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// What is known of a device.
    pub(super) fn held(&self, slot: u32) -> impl Iterator<Item = &Held> + Clone {
        self.of(slot).held.iter()
    }

    /// What of it changed since the last commit.
    pub(super) fn changed_of(&self, slot: u32) -> impl Iterator<Item = &Held> + Clone {
        let memory = self.of(slot);
        memory.held.iter().filter(|held| memory.changed & bit(held.field) != 0)
    }

    fn of(&self, slot: u32) -> &Memory {
        const NOTHING: &Memory = &Memory { held: Vec::new(), changed: 0 };
        self.devices.get(slot as usize).unwrap_or(NOTHING)
    }

    /// As it was persisted, in the place of what was known of the field.
    pub(super) fn restore(&mut self, slot: u32, held: Held) {
        let memory = self.memory(slot);
        match memory.place(held.field) {
            Ok(place) => memory.held[place] = held,
            Err(place) => memory.held.insert(place, held),
        }
    }

    fn memory(&mut self, slot: u32) -> &mut Memory {
        let place = slot as usize;
        if self.devices.len() <= place {
            self.devices.resize_with(place + 1, Memory::default);
        }
        &mut self.devices[place]
    }

    /// Takes in what a device said. False when it is new to it and there is no room.
    fn remember(&mut self, cost: &mut usize, slot: u32, said: Held) -> bool {
        let memory = self.memory(slot);
        match memory.place(said.field) {
            Ok(place) if memory.held[place].at > said.at => return true,
            Ok(place) => memory.held[place] = said,
            Err(place) => {
                let growth = FIELD_COST + if memory.held.is_empty() { DEVICE_COST } else { 0 };
                if *cost + growth > CARRY_BYTES_MAX {
                    return false;
                }
                *cost += growth;
                memory.held.insert(place, said);
            }
        }
        let was_changed = memory.changed != 0;
        memory.changed |= bit(said.field);
        if !was_changed {
            self.changed.push(slot);
        }
        true
    }
}

impl Memory {
    fn cost(&self) -> usize {
        if self.held.is_empty() { 0 } else { DEVICE_COST + FIELD_COST * self.held.len() }
    }

    fn place(&self, field: FieldIx) -> Result<usize, usize> {
        self.held.binary_search_by_key(&field, |held| held.field)
    }
}

impl Held {
    /// It may be what held at `at`, and is not too old for that.
    fn holds_at(&self, at: EventTime, age_max: Span) -> bool {
        self.at <= at && self.at.lag_behind(at) <= age_max
    }
}

fn bit(field: FieldIx) -> u64 {
    1_u64.checked_shl(u32::from(field.0)).unwrap_or(0)
}

impl Stream {
    /// Completes `whole`, which is what was sent, where the stream carries values forward.
    pub(super) fn carry_into(&mut self, sent: &Record<'_>, whole: &mut Whole) {
        let Some(age_max) = self.spec.carry_forward else { return };
        if self.carry.number.is_none()
            && let Some(DedupSpec { by: DedupBy::Sequence { field }, .. }) = &self.spec.dedup
        {
            self.carry.number = self.fields.find(field.as_str());
        }
        if sent.states.is_empty() && sent.values.iter().all(|(field, _)| self.is_of_one_record(*field)) {
            // Nothing but a mark or a number.
            return;
        }
        let Some(slot) = self.devices.find(sent.device) else { return };
        for held in self.carry.held(slot).filter(|held| held.holds_at(sent.at, age_max)) {
            // One that has become a mark or a number since is still there.
            if !self.is_of_one_record(held.field) {
                whole.add(held);
            }
        }
    }

    /// Remembers what an accepted record of the device in `slot` said.
    pub(super) fn remember(&mut self, out: &mut Emit<'_>, slot: u32, sent: &Record<'_>) {
        let numbers = sent.values.iter().map(|(field, value)| (*field, Datum::Number(*value)));
        let states = sent.states.iter().map(|(field, state)| (*field, Datum::State(*state)));
        for (field, datum) in numbers.chain(states) {
            if self.is_of_one_record(field) {
                continue;
            }
            if !self.carry.remember(out.carry_cost, slot, Held { field, datum, at: sent.at }) {
                self.ledger.fields_not_carried += 1;
            }
        }
    }

    /// The same for a record that the filter passes over, or has no answer to.
    pub(super) fn remember_unaccepted(&mut self, out: &mut Emit<'_>, live: LiveTime, sent: &Record<'_>) {
        if self.spec.carry_forward.is_none() || self.is_from_the_future(out.now, sent) {
            return;
        }
        let Ok(slot) = self.slot_of(out.device_cost, sent.device) else { return };
        self.remember(out, slot, sent);
        // What is known of it goes with its state: it was not silent.
        self.arm_expiry(slot, live);
        self.touch(slot);
    }

    fn is_of_one_record(&self, field: FieldIx) -> bool {
        self.marker == Some(field) || self.carry.number == Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(field: u16, value: f64, at: i64) -> Held {
        Held { field: FieldIx(field), datum: Datum::Number(value), at: EventTime::from_millis(at) }
    }

    #[test]
    fn of_equal_times_the_last_to_come_is_known_and_an_older_one_is_not() {
        let (mut carry, mut cost) = (Carry::default(), 0);
        for (value, at) in [(1.0, 10), (2.0, 10), (3.0, 9)] {
            assert!(carry.remember(&mut cost, 4, said(7, value, at)));
        }
        assert_eq!(carry.held(4).collect::<Vec<_>>(), [&said(7, 2.0, 10)]);
        assert_eq!((cost, carry.cost(), carry.forget(4), carry.cost()), (36, 36, 36, 0));
    }

    #[test]
    fn a_value_holds_from_its_time_on_for_as_long_as_it_may() {
        let held = said(0, 1.0, 100);
        let holds = |at: i64| held.holds_at(EventTime::from_millis(at), Span::from_millis(5));
        assert_eq!([99, 100, 105, 106].map(holds), [false, true, true, false]);
        assert!(said(0, 1.0, i64::MIN).holds_at(EventTime::MAX, Span::from_millis(u64::MAX)));
    }

    #[test]
    fn a_page_hears_of_fields_that_were_said_and_of_slots_that_were_given_again_once() {
        let (mut carry, mut cost) = (Carry::default(), 0);
        carry.remember(&mut cost, 2, said(0, 1.0, 1));
        carry.remember(&mut cost, 2, said(63, 1.0, 1));
        carry.mark_committed();
        carry.remember(&mut cost, 2, said(63, 2.0, 2));
        carry.remember(&mut cost, 0, said(1, 2.0, 2));
        assert_eq!(carry.changed_slots(), [0, 2]);
        assert_eq!(carry.changed_of(2).collect::<Vec<_>>(), [&said(63, 2.0, 2)]);
        cost -= carry.forget(2);
        assert_eq!(carry.changed_slots(), [0], "it ended: nothing of it is written");
        carry.remember(&mut cost, 2, said(5, 3.0, 3));
        assert_eq!((carry.changed_slots(), carry.changed_of(2).count()), (vec![0, 2], 1));
        assert_eq!(cost, carry.cost());
        carry.mark_committed();
        assert_eq!(carry.changed_slots().len(), 0);
    }

    #[test]
    fn full_is_full_for_what_is_new_only() {
        let (mut carry, mut cost) = (Carry::default(), CARRY_BYTES_MAX - DEVICE_COST - FIELD_COST);
        assert!(carry.remember(&mut cost, 0, said(0, 1.0, 1)));
        assert!(!carry.remember(&mut cost, 0, said(1, 1.0, 1)) && !carry.remember(&mut cost, 1, said(0, 1.0, 1)));
        assert!(carry.remember(&mut cost, 0, said(0, 2.0, 2)));
        assert_eq!((cost, carry.held(0).next()), (CARRY_BYTES_MAX, Some(&said(0, 2.0, 2))));
    }
}
