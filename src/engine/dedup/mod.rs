//! Readings that come twice: from devices that send again, or through several gateways.
//!
//! What is remembered is bounded per device by the horizon, and for all devices by
//! `limits::DEDUP_BYTES_MAX`, which the configuration is checked against. Nothing is
//! allocated per record: a device has its memory from its first reading on.
//!
//! A duplicate is counted and gone: it meets no window and moves no watermark. But the
//! device that sent it is there, so its silence begins anew.
//!
//! ```text
//! persisted: kind (0 none, 1 sequence, 2 time and values) | horizon | field? |
//!            devices n, (slot | what the kind says)
//! ```

mod seen;
mod sequence;

use crate::model::ids::{FieldIx, Name};
use crate::model::limits::DEDUP_HORIZON_MAX;
use crate::model::record::{Record, TimeSource};

use super::emit::Emit;
use super::fields::FieldTable;
use super::snapshot::Extent;
use super::spec::{DedupBy, DedupSpec};
use super::stream::Stream;
use super::timers::LiveTime;
use super::wire::{Damaged, Reader, put_str, put_u64};

use seen::{Seen, fingerprint};
use sequence::{Age, Sequence, Verdict};

/// What one stream remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Dedup {
    /// Under which rule.
    spec: Option<DedupSpec>,
    /// The place of the sequence field, once it has one.
    field: Option<FieldIx>,
    /// By slot.
    devices: Vec<Option<Memory>>,
    /// Slots that changed since the last commit, each once.
    changed: Vec<u32>,
    /// The values of a record but the sequence number; a buffer.
    bare: Vec<(FieldIx, f64)>,
}

#[derive(Clone, Debug)]
struct Memory {
    changed: bool,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Sequence(Sequence),
    Seen(Seen),
}

impl Dedup {
    /// Nothing remembered yet.
    pub(super) fn new(spec: Option<DedupSpec>) -> Dedup {
        Dedup { spec, ..Dedup::default() }
    }

    /// Goes on under this rule, with what is still of use.
    pub(super) fn fit(&mut self, spec: Option<DedupSpec>) {
        self.field = None;
        if self.spec == spec {
            return;
        }
        let by = |spec: &Option<DedupSpec>| spec.as_ref().map(|spec| spec.by.clone());
        if by(&self.spec) != by(&spec) {
            *self = Dedup::new(spec);
            return;
        }
        let horizon = spec.as_ref().map_or(0, |spec| spec.horizon);
        for memory in self.devices.iter_mut().flatten() {
            match &mut memory.kind {
                Kind::Sequence(sequence) => sequence.resize(horizon),
                Kind::Seen(seen) => seen.resize(horizon),
            }
        }
        self.spec = spec;
    }

    /// Nothing is known of the device in this slot any more.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Some(memory) = self.devices.get_mut(slot as usize) {
            *memory = None;
        }
    }

    fn change(&mut self, slot: u32) {
        if let Some(Some(memory)) = self.devices.get_mut(slot as usize)
            && !core::mem::replace(&mut memory.changed, true)
        {
            self.changed.push(slot);
        }
    }

    /// What the sequence number of a record says. `None` without a number.
    fn judge_sequence(&mut self, slot: u32, record: &Record<'_>, age: Age, horizon: usize) -> Option<Verdict> {
        let field = self.field?;
        let value = record.values.iter().find(|(place, _)| *place == field)?.1;
        let number = whole(value)?;
        let verdict = match self.memory(slot) {
            Some(Memory { kind: Kind::Sequence(sequence), .. }) => sequence.judge(number, age, horizon),
            memory => {
                let kind = Kind::Sequence(Sequence::begin(number, horizon));
                *memory = Some(Memory { changed: false, kind });
                Verdict::New { missing: 0, restarted: false }
            }
        };
        if verdict != Verdict::Duplicate {
            self.change(slot);
        }
        Some(verdict)
    }

    fn is_seen(&mut self, slot: u32, print: u64, horizon: usize) -> bool {
        let memory = self.memory(slot);
        let Memory { kind: Kind::Seen(seen), .. } =
            memory.get_or_insert_with(|| Memory { changed: false, kind: Kind::Seen(Seen::new(horizon)) })
        else {
            return false;
        };
        let is_new = seen.insert(print, horizon);
        if is_new {
            self.change(slot);
        }
        !is_new
    }

    fn memory(&mut self, slot: u32) -> &mut Option<Memory> {
        let place = slot as usize;
        if self.devices.len() <= place {
            self.devices.resize_with(place + 1, || None);
        }
        &mut self.devices[place]
    }

    /// What changed is durable.
    pub(super) fn mark_committed(&mut self) {
        for slot in self.changed.drain(..) {
            let Some(Some(memory)) = self.devices.get_mut(slot as usize) else { continue };
            memory.changed = false;
            if let Kind::Seen(seen) = &mut memory.kind {
                seen.mark_committed();
            }
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, extent: Extent) {
        let Some(spec) = &self.spec else { return out.push(0) };
        match &spec.by {
            DedupBy::Sequence { field } => {
                out.push(1);
                put_str(out, field.as_str());
            }
            DedupBy::TimeAndValues => out.push(2),
        }
        put_u64(out, spec.horizon as u64);
        let whole = extent == Extent::Whole;
        let devices = (0_u32..).zip(&self.devices).filter_map(|(slot, memory)| Some((slot, memory.as_ref()?)));
        if whole {
            put_u64(out, devices.clone().count() as u64);
            devices.for_each(|(slot, memory)| memory.write(out, slot, true));
        } else {
            let changed =
                self.changed.iter().filter_map(|slot| Some((*slot, self.devices.get(*slot as usize)?.as_ref()?)));
            put_u64(out, changed.clone().count() as u64);
            changed.for_each(|(slot, memory)| memory.write(out, slot, false));
        }
    }

    /// Applies what either extent wrote. `slots`: those that there are.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are something else.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, slots: usize) -> Result<(), Damaged> {
        let by = match reader.u8()? {
            0 => {
                self.fit(None);
                return Ok(());
            }
            1 => DedupBy::Sequence { field: Name::new(reader.str()?).ok_or(Damaged)? },
            2 => DedupBy::TimeAndValues,
            _ => return Err(Damaged),
        };
        let horizon: usize = reader.uint()?;
        if !(1..=DEDUP_HORIZON_MAX).contains(&horizon) {
            return Err(Damaged);
        }
        self.fit(Some(DedupSpec { by: by.clone(), horizon }));
        for _ in 0..reader.u64()? {
            let slot: u32 = reader.uint()?;
            if slot as usize >= slots {
                return Err(Damaged);
            }
            let memory = self.memory(slot);
            match (&by, memory) {
                (DedupBy::Sequence { .. }, memory) => {
                    let kind = Kind::Sequence(Sequence::read(reader, horizon)?);
                    *memory = Some(Memory { changed: false, kind });
                }
                (DedupBy::TimeAndValues, Some(Memory { kind: Kind::Seen(seen), .. })) => seen.read(reader, horizon)?,
                (DedupBy::TimeAndValues, memory) => {
                    let mut seen = Seen::new(horizon);
                    seen.read(reader, horizon)?;
                    *memory = Some(Memory { changed: false, kind: Kind::Seen(seen) });
                }
            }
        }
        Ok(())
    }
}

impl Memory {
    fn write(&self, out: &mut Vec<u8>, slot: u32, all: bool) {
        put_u64(out, u64::from(slot));
        match &self.kind {
            Kind::Sequence(sequence) => sequence.write(out),
            Kind::Seen(seen) => seen.write(out, all),
        }
    }
}

impl Stream {
    /// Whether a record, as it was sent, is a copy of one that was taken in. Called once per
    /// record, before anything else that the record does. A mark is no value.
    pub(super) fn is_duplicate(&mut self, slot: u32, record: &Record<'_>) -> bool {
        let Some(spec) = &self.spec.dedup else { return false };
        let horizon = spec.horizon;
        match &spec.by {
            DedupBy::TimeAndValues => {
                let values = record.values.iter().filter(|(field, _)| Some(*field) != self.marker);
                let values = values.map(|(field, value)| (name_of(&self.fields, *field), *value));
                let states = record
                    .states
                    .iter()
                    .map(|(field, state)| (name_of(&self.fields, *field), self.fields.states().text(*state)));
                self.dedup.is_seen(slot, fingerprint(record.at, values, states), horizon)
            }
            DedupBy::Sequence { field } => {
                if self.dedup.field.is_none() {
                    self.dedup.field = self.fields.find(field.as_str());
                }
                let newest = self.devices.get(slot).newest();
                let age = match record.source {
                    TimeSource::Receive => Age::Unknown,
                    TimeSource::Device => match newest {
                        Some(newest) if record.at <= newest => Age::NotNewer,
                        Some(newest) if record.at <= newest + self.spec.watermark.strategy.longest_wait() => {
                            Age::HardlyNewer
                        }
                        Some(_) | None => Age::Newer,
                    },
                };
                match self.dedup.judge_sequence(slot, record, age, horizon) {
                    Some(Verdict::Duplicate) => return true,
                    Some(Verdict::New { missing, restarted }) => {
                        self.ledger.sequence_gaps += missing;
                        self.ledger.sequence_restarts += u64::from(restarted);
                    }
                    // Taken in: it may be new, and nothing says that it is not.
                    None => self.ledger.sequence_missing += 1,
                }
                false
            }
        }
    }

    /// A duplicate came: its device is there.
    pub(super) fn hear_duplicate(&mut self, out: &mut Emit<'_>, live: LiveTime, slot: u32) {
        self.ledger.received += 1;
        self.ledger.duplicate += 1;
        let was_idle = self.devices.get(slot).idle;
        self.hear(live, slot);
        if was_idle {
            self.rejoin(slot);
            if self.raise_common(slot) {
                self.fire_passed(out, slot);
            }
        }
    }

    /// Takes a record to its windows, without the number by which copies are told.
    pub(super) fn add_to_windows(&mut self, out: &mut Emit<'_>, slot: u32, record: &Record<'_>) {
        let Some(field) = self.dedup.field else { return self.add_values_to_windows(out, slot, record) };
        let mut bare = core::mem::take(&mut self.dedup.bare);
        bare.clear();
        bare.extend(record.values.iter().filter(|(place, _)| *place != field));
        self.add_values_to_windows(out, slot, &Record { values: &bare, ..*record });
        self.dedup.bare = bare;
    }
}

/// A whole number that a float holds exactly.
fn whole(value: f64) -> Option<u64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    let fits = (0.0..LIMIT).contains(&value) && value.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and below 2^53")]
    fits.then_some(value as u64)
}

fn name_of(fields: &FieldTable, field: FieldIx) -> &str {
    fields.name(field).expect("a record's fields come from this table").as_str()
}
