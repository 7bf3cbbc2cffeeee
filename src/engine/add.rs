//! A record meets the windows of its device, under the watermark as it was before
//! the record.
//!
//! Books: a record counts once per window definition, by its best outcome. One that
//! is in several sliding windows is `open` until the first of those that the
//! watermark had not passed fires.

use crate::model::limits::{GROWTH_COST_MAX, OPEN_COST_MAX, OPEN_WINDOWS_MAX};
use crate::model::record::Record;
use crate::model::time::{EventTime, Span};

use super::aggregate::Aggregates;
use super::devices::Device;
use super::emit::{Emit, emit_late, emit_pane};
use super::fire::{due_of, keep_buffer};
use super::outbox::row::{LateReason, PaneKind};
use super::spec::{LatePolicy, WindowKind, WindowSpec};
use super::states::StateTable;
use super::stream::Stream;
use super::watermark::Watermark;
use super::window::pane::{Pane, Room};
use super::window::{Interval, session, sliding, tumbling};

/// What became of a record in one window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// In a window that has yet to fire.
    Open,
    /// In a window that had fired, and has fired again.
    LateUpdate,
    /// The window has expired.
    Expired,
    /// There would be too many open windows.
    NoRoom,
    /// The window is shut: its id was used under another definition.
    Redefined,
}

/// What an addition needs to know.
struct Addition<'r> {
    slot: u32,
    window: usize,
    record: &'r Record<'r>,
    watermark: Watermark,
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
        self.windows[window].accepted += 1;
        let addition = Addition { slot, window, record, watermark };
        match self.spec.windows[window].kind {
            WindowKind::Tumbling { size, offset_ms } => {
                let interval = self.newest_that_holds(slot, window, record.at);
                let interval = interval.unwrap_or_else(|| tumbling::assign(record.at, size, offset_ms));
                let outcome = self.add_to_pane(out, &addition, interval, true);
                self.settle(out, &addition, outcome);
            }
            WindowKind::Sliding { size, slide, offset_ms } => {
                self.add_to_sliding(out, &addition, sliding::covering(record.at, size, slide, offset_ms));
            }
            WindowKind::Session { gap } => {
                let outcome = self.add_to_session(out, &addition, gap);
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

    fn add_to_sliding(&mut self, out: &mut Emit<'_>, addition: &Addition<'_>, covering: sliding::Covering) {
        // Newest first: the last one that has yet to fire is the first that will.
        let watermark = addition.watermark;
        let first_to_fire = covering.clone().filter(|interval| !watermark.has_passed(interval.end)).last();
        let mut best = None;
        for interval in covering {
            let settles = Some(interval) == first_to_fire;
            let outcome = self.add_to_pane(out, addition, interval, settles);
            best = match (best, outcome) {
                (_, Outcome::Open) if settles => Some(Outcome::Open),
                (Some(Outcome::Open), _) => Some(Outcome::Open),
                (_, Outcome::LateUpdate) | (Some(Outcome::LateUpdate), _) => Some(Outcome::LateUpdate),
                (_, Outcome::NoRoom) | (Some(Outcome::NoRoom), _) => Some(Outcome::NoRoom),
                (_, Outcome::Redefined) | (Some(Outcome::Redefined), _) => Some(Outcome::Redefined),
                (best, Outcome::Expired) => best.or(Some(Outcome::Expired)),
                // In a later window, but not in the one that fires first: no room there.
                (best, Outcome::Open) => best.or(Some(Outcome::NoRoom)),
            };
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
            return Outcome::Expired;
        }
        let tag = window_tag(addition.window);
        let device = self.devices.get_mut(addition.slot);
        let index = match device.pane_position(tag, interval.start) {
            Ok(index) => index,
            Err(_) if self.fences.stops(&spec.name, addition.slot, interval.start) => return Outcome::Redefined,
            Err(_) if !has_room(out, device, addition.record, spec) => return Outcome::NoRoom,
            Err(index) => {
                let partial = out.partial_before.is_some_and(|lost| interval.start < lost);
                let buffer = self.spare.pop().unwrap_or_default();
                let pane = Pane::open(tag, interval, partial, buffer);
                *out.open_cost += pane.cost(&spec.aggregates);
                device.insert_pane(index, pane);
                self.open_panes += 1;
                index
            }
        };
        let pane = &mut device.panes[index];
        self.ledger.fields_left_out += take_in(out, pane, addition.record, &spec.aggregates, self.fields.states());
        let late = addition.watermark.has_passed(interval.end);
        pane.fired |= late;
        pane.unsettled += u64::from(settles && !late);
        let due = due_of(pane, spec);
        self.due_no_later_than(addition.slot, due);
        if late {
            self.emit_late_update(out, addition, index);
            return Outcome::LateUpdate;
        }
        Outcome::Open
    }

    /// Lateness is judged on the merged session: a record that would be late alone
    /// is kept if it touches a live one.
    fn add_to_session(&mut self, out: &mut Emit<'_>, addition: &Addition<'_>, gap: Span) -> Outcome {
        let spec = &self.spec.windows[addition.window];
        let tag = window_tag(addition.window);
        let alone = session::alone(addition.record.at, gap);
        let device = self.devices.get_mut(addition.slot);
        let first_of_kind = device.panes.partition_point(|pane| pane.window < tag);
        let past_of_kind = device.panes.partition_point(|pane| pane.window <= tag);
        let (touched, merged) = session::merge(&device.panes[first_of_kind..past_of_kind], alone);
        let watermark = addition.watermark;
        if watermark.has_expired(merged.end, spec.lateness) {
            return Outcome::Expired;
        }
        if touched.is_empty() {
            if self.fences.stops(&spec.name, addition.slot, merged.start) {
                return Outcome::Redefined;
            }
            if !has_room(out, device, addition.record, spec) {
                return Outcome::NoRoom;
            }
        }
        let first = first_of_kind + touched.start;
        let mut pane = if touched.is_empty() {
            let partial = out.partial_before.is_some_and(|lost| merged.start < lost);
            Pane::open(tag, merged, partial, self.spare.pop().unwrap_or_default())
        } else {
            // Nearly always the one session that goes on: nothing is copied.
            device.panes.remove(first)
        };
        let mut cost_before = if touched.is_empty() { 0 } else { pane.cost(&spec.aggregates) };
        self.open_panes += usize::from(touched.is_empty());
        if pane.start != merged.start {
            self.changes.removed.push((addition.slot, tag, pane.start));
            pane.begin_at(merged.start);
        }
        for _ in 1..touched.len() {
            let other = device.panes.remove(first);
            cost_before += other.cost(&spec.aggregates);
            self.open_panes -= 1;
            self.changes.removed.push((addition.slot, tag, other.start));
            pane.merge(&other, &spec.aggregates);
            keep_buffer(&mut self.spare, other.accumulators);
        }
        pane.end = merged.end;
        *out.open_cost += pane.cost(&spec.aggregates);
        *out.open_cost -= cost_before;
        self.ledger.fields_left_out += take_in(out, &mut pane, addition.record, &spec.aggregates, self.fields.states());
        let late = watermark.has_passed(merged.end);
        // What was still open is published by the firing that follows.
        let settled = if late { core::mem::take(&mut pane.unsettled) } else { 0 };
        pane.fired = late;
        pane.unsettled += u64::from(!late);
        let due = due_of(&pane, spec);
        device.insert_pane(first, pane);
        let books = &mut self.windows[addition.window];
        books.open -= settled;
        books.late_update += settled;
        self.recompute_due(addition.slot, due);
        if late {
            self.emit_late_update(out, addition, first);
            return Outcome::LateUpdate;
        }
        Outcome::Open
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

/// Whether another pane may be opened for the record.
fn has_room(out: &Emit<'_>, device: &Device, record: &Record<'_>, spec: &WindowSpec) -> bool {
    let cost = Pane::cost_of(record, &spec.aggregates);
    device.panes.len() < OPEN_WINDOWS_MAX && *out.open_cost + cost <= OPEN_COST_MAX
}

/// Adds the record; without fields that are new to the pane when there is no room for
/// more. Returns the number of those.
#[inline]
fn take_in(
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

fn window_tag(window: usize) -> u8 {
    u8::try_from(window).expect("limits::WINDOWS_MAX fits a byte")
}
