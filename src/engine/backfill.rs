//! Records beyond allowed lateness, aggregated: deltas that add to results which are
//! published already.
//!
//! For each device and window definition there is at most one burst: a delta for every
//! expired window that late records fell into. It is emitted as a whole when nothing came
//! for `quiet`, or when it is `max_age` old, whichever is first, in processing time. So a
//! thousand late records of one window are one row.
//!
//! **The law.** The accumulator of a window's highest revision, with each of its deltas
//! merged into it once, is the accumulator of all its records. A window that expired
//! before it had any has its deltas alone. For sliding windows it holds for each of them:
//! a record that some of its windows take and others do not, because they have expired,
//! is in the deltas of those. In the books it counts once, by its best outcome.
//!
//! Full: deltas count in `limits::OPEN_COST_MAX`. Where there is no room, all pending
//! deltas of the stream are emitted; without room even then a record is side output.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::limits::BACKFILL_WINDOWS_MAX;
use crate::model::time::{EventTime, ProcTime};

use super::Canary;
use super::add::{Addition, Outcome, take_in, window_tag};
use super::emit::{Emit, emit_pane};
use super::fire::keep_buffer;
use super::outbox::row::PaneKind;
use super::spec::LatePolicy;
use super::stream::Stream;
use super::window::Interval;
use super::window::pane::Pane;

/// Slot of the device and number of the window definition.
pub(super) type BurstKey = (u32, u8);

/// All bursts of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Backfill {
    pub bursts: BTreeMap<BurstKey, Burst>,
    /// One entry for each burst, not later than it is due.
    deadlines: BTreeSet<(ProcTime, BurstKey)>,
    /// Those that began, grew or ended since the last commit.
    pub changed: BTreeSet<BurstKey>,
}

/// Late records of one device.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    /// Ordered by start.
    pub deltas: Vec<Pane>,
    /// Emitted then, unless another record comes.
    pub quiet_at: ProcTime,
    /// Emitted then at the latest.
    pub full_at: ProcTime,
    /// Began after the last commit.
    pub fresh: bool,
    /// Its entry in the deadlines.
    entry: ProcTime,
}

impl Burst {
    /// A burst without deltas.
    pub(super) fn new(quiet_at: ProcTime, full_at: ProcTime) -> Burst {
        Burst { deltas: Vec::new(), quiet_at, full_at, fresh: true, entry: ProcTime::NEVER }
    }

    fn due(&self) -> ProcTime {
        self.quiet_at.min(self.full_at)
    }

    /// Where the delta of the window that starts there is, or belongs.
    pub(super) fn position(&self, start: EventTime) -> Result<usize, usize> {
        self.deltas.binary_search_by_key(&start, |delta| delta.start)
    }
}

impl Backfill {
    /// No burst is due before it.
    pub(super) fn earliest(&self) -> Option<ProcTime> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The entries anew, from the bursts' own deadlines.
    pub(super) fn rearm(&mut self) {
        self.deadlines.clear();
        for (key, burst) in &mut self.bursts {
            burst.entry = burst.due();
            self.deadlines.insert((burst.entry, *key));
        }
    }

    /// Everything so far is durable.
    pub(super) fn mark_committed(&mut self) {
        for key in core::mem::take(&mut self.changed) {
            let Some(burst) = self.bursts.get_mut(&key) else { continue };
            burst.fresh = false;
            burst.deltas.iter_mut().for_each(|delta| delta.dirty = false);
        }
    }

    fn take(&mut self, key: BurstKey) -> Option<Burst> {
        let burst = self.bursts.remove(&key)?;
        self.deadlines.remove(&(burst.entry, key));
        self.changed.insert(key);
        Some(burst)
    }
}

impl Stream {
    /// The window has expired.
    #[cold]
    pub(super) fn add_beyond_lateness(
        &mut self,
        out: &mut Emit<'_>,
        addition: &Addition<'_>,
        interval: Interval,
    ) -> Outcome {
        let spec = &self.spec.windows[addition.window];
        let LatePolicy::Backfill { quiet, max_age } = spec.late else { return Outcome::Expired };
        if self.is_shut(addition.window, addition.slot, interval.start) {
            return Outcome::Redefined;
        }
        let cost = Pane::cost_of(addition.record, &self.spec.windows[addition.window].aggregates);
        let key = (addition.slot, window_tag(addition.window));
        let place = |stream: &Stream| stream.backfill.bursts.get(&key).map(|burst| burst.position(interval.start));
        if !matches!(place(self), Some(Ok(_))) {
            if self.backfill.bursts.get(&key).is_some_and(|burst| burst.deltas.len() >= BACKFILL_WINDOWS_MAX) {
                self.emit_deltas(out, key);
            }
            if !self.has_room(out, cost) {
                return Outcome::NoRoom;
            }
        }
        let now = out.now.proc;
        let aggregates = &self.spec.windows[addition.window].aggregates;
        let burst = self.backfill.bursts.entry(key).or_insert_with(|| Burst::new(now + quiet, now + max_age));
        burst.quiet_at = now + quiet;
        let index = burst.position(interval.start).unwrap_or_else(|index| {
            let buffer = self.spare.pop().unwrap_or_default();
            let delta = Pane::open(key.1, interval, false, buffer);
            *out.open_cost += delta.cost(aggregates);
            burst.deltas.insert(index, delta);
            index
        });
        self.ledger.fields_left_out +=
            take_in(out, &mut burst.deltas[index], addition.record, aggregates, self.fields.states());
        if burst.entry == ProcTime::NEVER {
            burst.entry = burst.due();
            self.backfill.deadlines.insert((burst.entry, key));
        }
        self.backfill.changed.insert(key);
        Outcome::Backfilled
    }

    /// Emits the bursts that are due at `upto`.
    pub(super) fn emit_due_deltas(&mut self, out: &mut Emit<'_>, upto: ProcTime) {
        while let Some((at, key)) = self.backfill.deadlines.first().copied()
            && at <= upto
        {
            let burst = self.backfill.bursts.get_mut(&key).expect("a deadline is that of a burst");
            if burst.due() <= upto {
                self.emit_deltas(out, key);
            } else {
                burst.entry = burst.due();
                self.backfill.deadlines.remove(&(at, key));
                self.backfill.deadlines.insert((burst.entry, key));
            }
        }
    }

    /// Emits all bursts.
    #[cold]
    pub(super) fn emit_all_deltas(&mut self, out: &mut Emit<'_>) {
        while let Some((key, _)) = self.backfill.bursts.first_key_value() {
            self.emit_deltas(out, *key);
        }
    }

    /// Emits one burst, and lets go of it.
    pub(super) fn emit_deltas(&mut self, out: &mut Emit<'_>, key: BurstKey) {
        *out.open_cost -= self.emit_burst(out, key);
    }

    /// The same for one that is not in the open cost, as after a start. Returns what it
    /// would be there.
    pub(super) fn emit_burst(&mut self, out: &mut Emit<'_>, key: BurstKey) -> usize {
        let Some(burst) = self.backfill.take(key) else { return 0 };
        let (slot, window) = key;
        let name = self.devices.id(slot);
        let watermark = self.watermark_of(slot);
        let aggregates = &self.spec.windows[usize::from(window)].aggregates;
        let mut cost = 0;
        for mut delta in burst.deltas {
            let times = if out.canary == Some(Canary::RepeatDeltas) { 2 } else { 1 };
            for _ in 0..times {
                emit_pane(out, &self.spec, &self.fields, name.as_str(), &mut delta, PaneKind::Delta, watermark);
            }
            cost += delta.cost(aggregates);
            keep_buffer(&mut self.spare, delta.accumulators);
        }
        cost
    }
}
