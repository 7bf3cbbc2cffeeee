//! The content of one open window of one device.

use smallvec::SmallVec;

use super::Interval;
use crate::engine::aggregate::{Accumulator, Aggregates};
use crate::model::ids::FieldIx;
use crate::model::record::{Record, TimeSource};
use crate::model::time::EventTime;

/// Accumulators of a pane. Those of one field with the usual four aggregates lie in the
/// pane itself: most of what a record costs with many devices is fetching their state
/// from memory, and each block of its own is fetched after the one that names it.
pub type Accumulators = SmallVec<[Accumulator; 4]>;

/// Running state of one window. Accumulators stand in one flat list, field by
/// field, each with one accumulator per configured aggregate.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts; as bytes they cost nothing")]
pub struct Pane {
    /// Which of the stream's windows.
    pub window: u8,
    /// First time of the window.
    pub start: EventTime,
    /// First time after it.
    pub end: EventTime,
    /// Records in it.
    pub count: u64,
    /// Records that the ledger still counts as `open`.
    pub unsettled: u64,
    /// The revision that the next emission has.
    pub revision: u32,
    /// The watermark has fired it; it lives on for late records.
    pub fired: bool,
    /// Something was added since it was last emitted.
    pub unseen: bool,
    /// Changed since the last commit.
    pub dirty: bool,
    /// Records may be missing: state was lost while it was open.
    pub partial: bool,
    /// A record in it has no time of its own.
    pub receive_time: bool,
    /// Bit `f`: field `f` has a value.
    pub present: u64,
    /// `field * aggregates + aggregate`.
    pub accumulators: Accumulators,
    /// Starts of sessions that were published and are part of this one now.
    pub replaces: Vec<EventTime>,
}

/// Persisted bytes of a pane without fields, and of one accumulator: estimates.
const PANE_COST: usize = 48;
const ACCUMULATOR_COST: usize = 16;

impl Pane {
    /// An empty pane, on a recycled buffer.
    pub fn open(window: u8, interval: Interval, partial: bool, mut buffer: Accumulators) -> Pane {
        buffer.clear();
        Pane {
            window,
            start: interval.start,
            end: interval.end,
            count: 0,
            unsettled: 0,
            revision: 0,
            fired: false,
            unseen: false,
            dirty: false,
            partial,
            receive_time: false,
            present: 0,
            accumulators: buffer,
            replaces: Vec::new(),
        }
    }

    /// What a pane of one record takes of a snapshot, estimated.
    pub fn cost_of(record: &Record<'_>, aggregates: usize) -> usize {
        PANE_COST + record.values.len() * aggregates * ACCUMULATOR_COST
    }

    /// What this one takes of a snapshot, estimated.
    pub fn cost(&self, aggregates: usize) -> usize {
        PANE_COST + self.present.count_ones() as usize * aggregates * ACCUMULATOR_COST
    }

    /// What the record's fields that are new to it would add to that.
    #[inline]
    pub fn growth(&self, record: &Record<'_>, aggregates: usize) -> usize {
        let new = record.values.iter().filter(|(field, _)| self.present >> field.0 & 1 == 0).count();
        new * aggregates * ACCUMULATOR_COST
    }

    /// Takes a record in, but for the fields that are new. Returns their number.
    #[cold]
    pub fn add_known(&mut self, record: &Record<'_>, aggregates: &Aggregates) -> u64 {
        let mut left_out = 0;
        for value in record.values {
            if self.present >> value.0.0 & 1 == 1 {
                for accumulator in self.field_mut(value.0, aggregates) {
                    accumulator.add(value.1, record.at);
                }
            } else {
                left_out += 1;
            }
        }
        self.count += 1;
        self.unseen = true;
        self.receive_time |= record.source == TimeSource::Receive;
        left_out
    }

    /// Takes a record in.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>, aggregates: &Aggregates) {
        self.count += 1;
        self.unseen = true;
        self.receive_time |= record.source == TimeSource::Receive;
        for (field, value) in record.values {
            for accumulator in self.field_mut(*field, aggregates) {
                accumulator.add(*value, record.at);
            }
        }
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

    /// An earlier record moves the start of a session, and so its id.
    pub fn begin_at(&mut self, start: EventTime) {
        if self.revision > 0 {
            self.replaces.push(self.start);
        }
        self.start = start;
    }

    /// Takes in everything that `other`, a later session of the same window definition,
    /// holds. The revision goes on from the higher one of both.
    pub fn merge(&mut self, other: &Pane, aggregates: &Aggregates) {
        self.count += other.count;
        self.unsettled += other.unsettled;
        self.revision = self.revision.max(other.revision);
        self.unseen |= other.unseen;
        self.partial |= other.partial;
        self.receive_time |= other.receive_time;
        for field in other.fields() {
            let mine = self.field_mut(field, aggregates);
            for (mine, other) in mine.iter_mut().zip(other.field(field, aggregates.len())) {
                mine.merge(other);
            }
        }
        self.replaces.extend_from_slice(&other.replaces);
        if other.revision > 0 {
            self.replaces.push(other.start);
        }
    }

    /// The same records under other aggregates. One that was not computed before
    /// lacks them: then the pane is partial.
    pub fn rearrange(&mut self, before: &Aggregates, now: &Aggregates) {
        if before == now {
            return;
        }
        let old = core::mem::take(&mut self.accumulators);
        let places: Vec<_> = now.kinds.iter().map(|kind| before.kinds.iter().position(|known| known == kind)).collect();
        for field in self.fields() {
            let values = &old[usize::from(field.0) * before.len()..][..before.len()];
            for (accumulator, place) in self.field_mut(field, now).iter_mut().zip(&places) {
                if let Some(place) = place {
                    accumulator.clone_from(&values[*place]);
                }
            }
        }
        self.partial |= places.contains(&None);
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
