//! The content of one open window of one device.

use smallvec::SmallVec;

use super::Interval;
use crate::engine::aggregate::{Accumulator, Aggregates, State};
use crate::engine::states::StateTable;
use crate::model::ids::FieldIx;
use crate::model::record::{Record, TimeSource};
use crate::model::time::{EventTime, ProcTime};

/// Accumulators of a pane. Those of one field with the usual four aggregates lie in the
/// pane itself: most of what a record costs with many devices is fetching their state
/// from memory, and each block of its own is fetched after the one that names it.
pub type Accumulators = SmallVec<[Accumulator; 4]>;

/// Running state of one window. Accumulators stand in one flat list, field by
/// field, each with one accumulator per configured aggregate.
///
/// In this order in memory: what every record touches is in a few lines of the cache.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Pane {
    /// Which of the stream's windows.
    pub window: u8,
    /// The watermark has fired it; it lives on for late records.
    pub fired: bool,
    /// Something was added since it was last emitted.
    pub unseen: bool,
    /// Changed since the last commit, by more than what is noted.
    pub dirty: bool,
    /// Changed since the last commit by additions that are noted: see `additions.rs`.
    pub noted: bool,
    /// Records may be missing: state was lost while it was open.
    pub partial: bool,
    /// A record in it has no time of its own.
    pub receive_time: bool,
    /// The revision that the next emission has.
    pub revision: u32,
    /// What the accumulators hold beside their fixed size.
    held: u32,
    /// First time of the window.
    pub start: EventTime,
    /// First time after it.
    pub end: EventTime,
    /// Records in it.
    pub count: u64,
    /// Records that the ledger still counts as `open`.
    pub unsettled: u64,
    /// Bit `f`: field `f` has a value.
    pub present: u64,
    /// `field * aggregates + aggregate`.
    pub accumulators: Accumulators,
    /// The time in its id: of a session, that of the record which opened it, however it
    /// grows; otherwise the start.
    pub opened: EventTime,
    /// When it is shown next, as an early pane or a coalesced update; `NEVER` without
    /// either.
    pub show_at: ProcTime,
    /// See [`Pane::replaces`].
    #[expect(clippy::box_collection, reason = "rare, and every other pane is smaller for it")]
    replaces: Option<Box<Vec<EventTime>>>,
}

/// What a record may add to a pane.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Fields that are new to it are taken.
    pub new_fields: bool,
    /// What its accumulators hold may rise by this.
    pub bytes: usize,
}

/// Persisted bytes of a pane without fields: an estimate.
const PANE_COST: usize = 48;

impl Pane {
    /// An empty pane, on a recycled buffer.
    pub fn open(window: u8, interval: Interval, partial: bool, mut buffer: Accumulators) -> Pane {
        buffer.clear();
        Pane {
            window,
            start: interval.start,
            end: interval.end,
            opened: interval.start,
            count: 0,
            unsettled: 0,
            revision: 0,
            fired: false,
            unseen: false,
            dirty: false,
            noted: false,
            partial,
            receive_time: false,
            present: 0,
            accumulators: buffer,
            show_at: ProcTime::NEVER,
            held: 0,
            replaces: None,
        }
    }

    /// What a pane of one record takes of a snapshot, estimated.
    pub fn cost_of(record: &Record<'_>, aggregates: &Aggregates) -> usize {
        PANE_COST + (record.values.len() + record.states.len()) * aggregates.field_cost()
    }

    /// What this one takes of a snapshot, estimated.
    pub fn cost(&self, aggregates: &Aggregates) -> usize {
        PANE_COST + self.present.count_ones() as usize * aggregates.field_cost() + self.held as usize
    }

    /// What the record's fields that are new to it would add to that.
    #[inline]
    pub fn growth(&self, record: &Record<'_>, aggregates: &Aggregates) -> usize {
        let is_new = |field: &FieldIx| self.present >> field.0 & 1 == 0;
        let values = record.values.iter().filter(|(field, _)| is_new(field)).count();
        let states = record.states.iter().filter(|(field, _)| is_new(field)).count();
        (values + states) * aggregates.field_cost()
    }

    /// Takes a record of numbers in, with accumulators of fixed size.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>, aggregates: &Aggregates) {
        self.note(record);
        for (field, value) in record.values {
            for accumulator in self.field_mut(*field, aggregates) {
                accumulator.add(*value, record.at);
            }
        }
    }

    /// Takes any record in, within what there is room for. Returns the number of fields
    /// that were left out.
    pub fn add_within(
        &mut self,
        record: &Record<'_>,
        aggregates: &Aggregates,
        states: &StateTable,
        mut room: Room,
    ) -> u64 {
        self.note(record);
        let mut left_out = 0;
        for (field, value) in record.values {
            if room.new_fields || self.present >> field.0 & 1 == 1 {
                self.grow_within(*field, aggregates, &mut room, |accumulator, room| {
                    accumulator.add_within(*value, record.at, room);
                });
            } else {
                left_out += 1;
            }
        }
        for (field, place) in record.states {
            if room.new_fields || self.present >> field.0 & 1 == 1 {
                self.grow_within(*field, aggregates, &mut room, |accumulator, room| {
                    accumulator.add_state(State { place: *place, states }, record.at, room);
                });
            } else {
                left_out += 1;
            }
        }
        left_out
    }

    fn grow_within(
        &mut self,
        field: FieldIx,
        aggregates: &Aggregates,
        room: &mut Room,
        add: impl Fn(&mut Accumulator, usize),
    ) {
        let (mut before, mut after) = (0, 0);
        for accumulator in self.field_mut(field, aggregates) {
            let held = accumulator.held();
            add(accumulator, room.bytes);
            before += held;
            after += accumulator.held();
            room.bytes = (room.bytes + held).saturating_sub(accumulator.held());
        }
        self.held = bounded(self.held as usize + after - before);
    }

    #[inline]
    fn note(&mut self, record: &Record<'_>) {
        self.count += 1;
        self.unseen = true;
        self.receive_time |= record.source == TimeSource::Receive;
    }

    /// Counts anew what the accumulators hold.
    pub fn recount(&mut self) {
        self.held = bounded(self.accumulators.iter().map(Accumulator::held).sum());
    }

    #[inline]
    fn field_mut(&mut self, field: FieldIx, aggregates: &Aggregates) -> &mut [Accumulator] {
        self.present |= 1_u64 << field.0;
        let first = usize::from(field.0) * aggregates.len();
        let past = first + aggregates.len();
        if self.accumulators.len() < past {
            self.grow(past, aggregates);
        }
        &mut self.accumulators[first..past]
    }

    /// Makes room up to `past`: fields are numbered as they first appear.
    #[cold]
    pub fn grow(&mut self, past: usize, aggregates: &Aggregates) {
        while self.accumulators.len() < past {
            self.accumulators.extend(aggregates.start());
        }
    }

    /// The window.
    pub fn interval(&self) -> Interval {
        Interval { start: self.start, end: self.end }
    }

    /// Takes in everything that `other`, a later session of the same window definition,
    /// holds. The id stays, for sessions do not overlap and the earlier one was opened
    /// earlier; the revision goes on from the higher one of both.
    pub fn merge(&mut self, other: &Pane, aggregates: &Aggregates) {
        self.count += other.count;
        self.unsettled += other.unsettled;
        self.revision = self.revision.max(other.revision);
        self.unseen |= other.unseen;
        self.partial |= other.partial;
        self.receive_time |= other.receive_time;
        self.show_at = self.show_at.min(other.show_at);
        for field in other.fields() {
            let mine = self.field_mut(field, aggregates);
            for (mine, other) in mine.iter_mut().zip(other.field(field, aggregates.len())) {
                mine.merge(other);
            }
        }
        if aggregates.grow() {
            self.recount();
        }
        for id in other.replaces() {
            self.replace(*id);
        }
        if other.revision > 0 {
            self.replace(other.opened);
        }
    }

    /// Ids of sessions that were published and are part of this one now: when they were
    /// opened.
    pub fn replaces(&self) -> &[EventTime] {
        self.replaces.as_deref().map_or(&[], Vec::as_slice)
    }

    /// One more of those.
    pub fn replace(&mut self, id: EventTime) {
        self.replaces.get_or_insert_default().push(id);
    }

    /// Moves the fields to new places; one without a place is dropped.
    pub fn renumber(&mut self, places: &[Option<FieldIx>], aggregates: &Aggregates) {
        let old = core::mem::replace(self, Pane::open(self.window, self.interval(), self.partial, Accumulators::new()));
        for field in old.fields() {
            if let Some(place) = places.get(usize::from(field.0)).copied().flatten() {
                self.field_mut(place, aggregates).clone_from_slice(old.field(field, aggregates.len()));
            }
        }
        let (present, accumulators) = (self.present, core::mem::take(&mut self.accumulators));
        *self = Pane { present, accumulators, ..old };
        self.recount();
    }

    /// The fields that have a value, in the order of the field table.
    pub fn fields(&self) -> impl Iterator<Item = FieldIx> + use<> {
        let mut left = self.present;
        core::iter::from_fn(move || {
            let field = u16::try_from(left.trailing_zeros()).expect("at most 64");
            // Clears the lowest bit that is set.
            left &= left.checked_sub(1)?;
            Some(FieldIx(field))
        })
    }

    /// The accumulators of one field that has a value.
    pub fn field(&self, field: FieldIx, aggregates: usize) -> &[Accumulator] {
        let first = usize::from(field.0) * aggregates;
        &self.accumulators[first..first + aggregates]
    }
}

/// `limits::OPEN_COST_MAX` is far below.
fn bounded(held: usize) -> u32 {
    u32::try_from(held).unwrap_or(u32::MAX)
}
