//! A record meets the windows of its device, under the watermark as it was before
//! the record.
//!
//! Books: a record counts once per window definition, by its best outcome. One that
//! is in several sliding windows is `open` until the first of those that the
//! watermark had not passed fires.

mod session;

use crate::model::limits::{GROWTH_COST_MAX, OPEN_COST_MAX, OPEN_WINDOWS_MAX};
use crate::model::record::Record;
use crate::model::time::{EventTime, Span};

use super::aggregate::Aggregates;
use super::emit::{Emit, emit_late, emit_pane};
use super::fire::due_of;
use super::outbox::row::{LateReason, PaneKind};
use super::spec::{LatePolicy, LateUpdates, WindowKind};
use super::states::StateTable;
use super::stream::Stream;
use super::watermark::Watermark;
use super::window::pane::{Pane, Room};
use super::window::{Interval, sliding, tumbling};

/// What became of a record in one window. In ascending order: of several windows the
/// best outcome counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Outcome {
    /// The window has expired.
    Expired,
    /// The window has expired, and a delta of it has taken the record.
    Backfilled,
    /// The window is shut: its id was used under another definition.
    Redefined,
    /// There would be too many open windows.
    NoRoom,
    /// In a window that had fired: it fires again, now or with others.
    LateUpdate,
    /// In a window that has yet to fire.
    Open,
}

/// What an addition needs to know.
pub(super) struct Addition<'r> {
    pub slot: u32,
    pub window: usize,
    pub record: &'r Record<'r>,
    pub watermark: Watermark,
}

impl Stream {
    /// Adds a record to one window definition.
    pub(super) fn add_to_window(
        &mut self,
        out: &mut Emit<'_>,
        slot: u32,
        window: usize,
        record: &Record<'_>,
        watermark: Watermark,
    ) {
        let Some(starts) = self.starts_for(window, slot, record.at) else { return };
        self.windows[window].accepted += 1;
        let addition = Addition { slot, window, record, watermark };
        match self.spec.windows[window].kind {
            WindowKind::Tumbling { size, offset_ms } => {
                let interval = self.newest_that_holds(slot, window, record.at);
                let interval = interval.unwrap_or_else(|| tumbling::assign(record.at, size, offset_ms));
                let outcome = self.add_to_pane(out, &addition, interval, true);
                self.settle(out, &addition, outcome);
            }
            WindowKind::Calendar { .. } => {
                let interval = self.newest_that_holds(slot, window, record.at);
                let interval = interval.unwrap_or_else(|| self.calendar(window).assign(record.at));
                let outcome = self.add_to_pane(out, &addition, interval, true);
                self.settle(out, &addition, outcome);
            }
            WindowKind::Sliding { size, slide, offset_ms } => {
                let covering = sliding::covering(record.at, size, slide, offset_ms);
                self.add_to_sliding(out, &addition, covering.filter(|interval| starts.hold(interval.start)));
            }
            WindowKind::Session { gap, max_length } => {
                let outcome = self.add_to_session(out, &addition, gap, max_length);
                self.settle(out, &addition, outcome);
            }
        }
    }

    /// The device's newest window, if it holds `at`, which it nearly always does:
    /// two comparisons save a division.
    #[inline]
    fn newest_that_holds(&self, slot: u32, window: usize, at: EventTime) -> Option<Interval> {
        let newest = self.devices.get(slot).panes.last()?;
        let interval = newest.interval();
        (usize::from(newest.window) == window && interval.holds(at)).then_some(interval)
    }

    fn add_to_sliding(
        &mut self,
        out: &mut Emit<'_>,
        addition: &Addition<'_>,
        covering: impl Iterator<Item = Interval> + Clone,
    ) {
        // Newest first: the last one that has yet to fire is the first that will.
        let watermark = addition.watermark;
        let first_to_fire = covering.clone().filter(|interval| !watermark.has_passed(interval.end)).last();
        let mut best = None;
        for interval in covering {
            let settles = Some(interval) == first_to_fire;
            let outcome = self.add_to_pane(out, addition, interval, settles);
            // In a later window: what the one that fires first says counts.
            best = best.max((outcome != Outcome::Open || settles).then_some(outcome));
        }
        if let Some(best) = best {
            self.settle(out, addition, best);
        } else if self.is_late(addition) {
            self.settle(out, addition, Outcome::Expired);
        } else {
            // Between two windows, by configuration.
            self.windows[addition.window].no_window += 1;
        }
    }

    /// Flink's rule for a record that no window took.
    fn is_late(&self, addition: &Addition<'_>) -> bool {
        let lateness = self.spec.windows[addition.window].lateness;
        addition.watermark.time().is_some_and(|watermark| addition.record.at + lateness <= watermark)
    }

    #[inline]
    fn settle(&mut self, out: &mut Emit<'_>, addition: &Addition<'_>, outcome: Outcome) {
        let Addition { window, record, watermark, .. } = *addition;
        let books = &mut self.windows[window];
        match outcome {
            Outcome::Open => books.open += 1,
            Outcome::LateUpdate => books.late_update += 1,
            Outcome::Backfilled => books.backfilled += 1,
            Outcome::Expired => self.too_late(out, window, record, watermark, LateReason::Late),
            Outcome::NoRoom => self.too_late(out, window, record, watermark, LateReason::TooManyWindows),
            Outcome::Redefined => self.too_late(out, window, record, watermark, LateReason::Redefined),
        }
    }

    /// Adds to the pane of `interval`. `settles`: the record is `open` there.
    #[inline]
    fn add_to_pane(
        &mut self,
        out: &mut Emit<'_>,
        addition: &Addition<'_>,
        interval: Interval,
        settles: bool,
    ) -> Outcome {
        let spec = &self.spec.windows[addition.window];
        if addition.watermark.has_expired(interval.end, spec.lateness) {
            return self.add_beyond_lateness(out, addition, interval);
        }
        let index = match self.devices.get(addition.slot).pane_position(window_tag(addition.window), interval.start) {
            Ok(index) => index,
            Err(index) => match self.open_pane(out, addition, interval, index) {
                Ok(()) => index,
                Err(refused) => return refused,
            },
        };
        let spec = &self.spec.windows[addition.window];
        let pane = &mut self.devices.get_mut(addition.slot).panes[index];
        let was_whole = pane.dirty;
        let left_out = take_in(out, pane, addition.record, &spec.aggregates, self.fields.states());
        self.ledger.fields_left_out += left_out;
        let late = addition.watermark.has_passed(interval.end);
        pane.fired |= late;
        pane.unsettled += u64::from(settles && !late);
        let plain = !late && left_out == 0 && spec.early.is_none() && !spec.aggregates.grow();
        if !was_whole && plain && addition.record.states.is_empty() {
            let window = window_tag(addition.window);
            pane.noted = self.changes.additions.note(addition.slot, window, interval.start, settles, addition.record);
            pane.dirty = !pane.noted;
        }
        let (due, early) = (due_of(pane, spec), spec.early);
        self.due_no_later_than(addition.slot, due);
        if late {
            self.update(out, addition, index);
            return Outcome::LateUpdate;
        }
        if let Some(every) = early {
            self.show_by(addition.slot, index, out.now.proc + every);
        }
        Outcome::Open
    }

    /// Opens the window of `interval` at place `index` of the device's panes.
    fn open_pane(
        &mut self,
        out: &mut Emit<'_>,
        addition: &Addition<'_>,
        interval: Interval,
        index: usize,
    ) -> Result<(), Outcome> {
        if self.is_shut(addition.window, addition.slot, interval.start) {
            return Err(Outcome::Redefined);
        }
        let cost = Pane::cost_of(addition.record, &self.spec.windows[addition.window].aggregates);
        if self.devices.get(addition.slot).panes.len() >= OPEN_WINDOWS_MAX || !self.has_room(out, cost) {
            return Err(Outcome::NoRoom);
        }
        let partial = out.partial_before.is_some_and(|lost| interval.start < lost)
            || (!self.retiring.is_empty() && self.is_cut(addition.window, addition.slot, interval.end));
        let buffer = self.spare.pop().unwrap_or_default();
        let mut pane = Pane::open(window_tag(addition.window), interval, partial, buffer);
        pane.dirty = true;
        // Without fields: those are counted as they come.
        *out.open_cost += pane.cost(&self.spec.windows[addition.window].aggregates);
        self.devices.get_mut(addition.slot).insert_pane(index, pane);
        self.open_panes += 1;
        Ok(())
    }

    /// Whether `cost` more may be held. Pending deltas are emitted when that helps.
    pub(super) fn has_room(&mut self, out: &mut Emit<'_>, cost: usize) -> bool {
        if *out.open_cost + cost <= OPEN_COST_MAX {
            return true;
        }
        self.emit_all_deltas(out);
        *out.open_cost + cost <= OPEN_COST_MAX
    }

    /// A window that had fired has changed: it is emitted again, at once or with what
    /// else will come.
    fn update(&mut self, out: &mut Emit<'_>, addition: &Addition<'_>, index: usize) {
        match self.spec.windows[addition.window].late_updates {
            LateUpdates::Each => self.emit_late_update(out, addition, index),
            LateUpdates::Every(every) => self.show_by(addition.slot, index, out.now.proc + every),
        }
    }

    fn emit_late_update(&mut self, out: &mut Emit<'_>, addition: &Addition<'_>, index: usize) {
        let name = self.devices.id(addition.slot);
        let pane = &mut self.devices.get_mut(addition.slot).panes[index];
        emit_pane(out, &self.spec, &self.fields, name.as_str(), pane, PaneKind::Late, addition.watermark);
    }

    fn too_late(
        &mut self,
        out: &mut Emit<'_>,
        window: usize,
        record: &Record<'_>,
        watermark: Watermark,
        reason: LateReason,
    ) {
        let spec = &self.spec.windows[window];
        if spec.late == LatePolicy::Drop && reason == LateReason::Late {
            self.windows[window].dropped += 1;
            return;
        }
        self.windows[window].side_output += 1;
        let lag = watermark.time().map_or(Span::ZERO, |watermark| record.at.lag_behind(watermark));
        emit_late(out, &self.spec, Some(spec), &self.fields, record, reason, lag);
    }
}

/// Adds the record; without fields that are new to the pane when there is no room for
/// more. Returns the number of those.
#[inline]
pub(super) fn take_in(
    out: &mut Emit<'_>,
    pane: &mut Pane,
    record: &Record<'_>,
    aggregates: &Aggregates,
    states: &StateTable,
) -> u64 {
    pane.dirty = true;
    let growth = pane.growth(record, aggregates);
    let has_room = growth == 0 || *out.open_cost + growth <= OPEN_COST_MAX;
    if aggregates.grow() || !record.states.is_empty() || !has_room {
        return take_in_within(out, pane, record, aggregates, states, has_room);
    }
    *out.open_cost += growth;
    pane.add(record, aggregates);
    0
}

/// The same for accumulators that hold more the more they take in, for states, and when
/// there is no room.
fn take_in_within(
    out: &mut Emit<'_>,
    pane: &mut Pane,
    record: &Record<'_>,
    aggregates: &Aggregates,
    states: &StateTable,
    has_room: bool,
) -> u64 {
    let before = pane.cost(aggregates);
    let growth = if has_room { pane.growth(record, aggregates) } else { 0 };
    let room = Room { new_fields: has_room, bytes: GROWTH_COST_MAX.saturating_sub(*out.open_cost + growth) };
    let left_out = pane.add_within(record, aggregates, states, room);
    *out.open_cost = *out.open_cost + pane.cost(aggregates) - before;
    left_out
}

pub(super) fn window_tag(window: usize) -> u8 {
    u8::try_from(window).expect("limits::WINDOWS_MAX fits a byte")
}
