//! Readings that are passed on as they are: on arrival, or sorted by event time.
//!
//! **Ordered.** A reading that the watermark of its scope has passed is late and goes
//! to lane `late`. Others are held until the watermark passes them, and then go out by
//! event time. So within a scope the output never steps back, unless a reading has to
//! leave early:
//!
//! - the buffer is full (`ordered_max`, or its share of a snapshot): the one with the
//!   lowest event time of all makes room;
//! - nobody in the scope is active: all of the scope go, unless `on_idle = "hold"`.
//!
//! Early ones leave in order too, and say `early`. What comes afterwards and is older
//! than they were goes to lane `late` as `out_of_order`.

use crate::model::limits::OPEN_COST_MAX;
use crate::model::record::Record;
use crate::model::time::EventTime;

use super::emit::{Emit, emit_late, emit_reading, emit_stored_reading, write_reading};
use super::ordered::{Ordered, Place};
use super::outbox::row::{LateReason, mark_early};
use super::spec::{OnIdle, Records, Scope, StreamSpec};
use super::stream::Stream;

/// The only scope of a stream whose devices share one watermark.
pub(super) const WHOLE: u32 = 0;

impl Stream {
    /// Passes a record on, before it moves any watermark.
    #[inline]
    pub(super) fn pass_on(&mut self, out: &mut Emit<'_>, slot: u32, record: &Record<'_>) {
        match self.spec.records {
            Records::Off => {}
            Records::Arrival => {
                self.records.accepted += 1;
                self.records.on_time += 1;
                emit_reading(out, &self.spec, &self.fields, record);
            }
            Records::Ordered { held_max } => {
                self.records.accepted += 1;
                self.put_in_order(out, slot, record, held_max);
            }
        }
    }

    fn put_in_order(&mut self, out: &mut Emit<'_>, slot: u32, record: &Record<'_>, held_max: usize) {
        let scope = self.ordering_scope(slot);
        let passed = self.ordering_watermark(scope).filter(|watermark| record.at <= *watermark);
        let behind = self.ordered.floor(scope).filter(|floor| record.at < *floor);
        let verdict = match (passed, behind) {
            (Some(watermark), _) => Some((LateReason::Late, record.at.lag_behind(watermark))),
            (None, Some(floor)) => Some((LateReason::OutOfOrder, record.at.lag_behind(floor))),
            (None, None) => None,
        };
        if let Some((reason, lag)) = verdict {
            self.records.side_output += 1;
            emit_late(out, &self.spec, None, &self.fields, record, reason, lag);
            return;
        }
        let mut row = self.ordered.buffer();
        write_reading(&mut row, out, &self.spec, &self.fields, record);
        let cost = Ordered::cost_of(&row);
        while self.ordered.len() >= held_max || *out.open_cost + cost > OPEN_COST_MAX {
            match self.ordered.lowest() {
                Some(lowest) if lowest.at <= record.at => self.release_early(out, lowest),
                // It is the lowest itself, or there is no room at all.
                Some(_) | None => {
                    self.records.early += 1;
                    self.ordered.raise_floor(scope, record.at);
                    mark_early(&mut row);
                    emit_stored_reading(out, &row);
                    return self.ordered.recycle(row);
                }
            }
        }
        *out.open_cost += cost;
        self.records.open += 1;
        self.ordered.add(scope, record.at, row);
    }

    /// Whose order a device's readings are part of: that of its watermark.
    fn ordering_scope(&self, slot: u32) -> u32 {
        match self.spec.watermark.scope {
            Scope::Device => slot,
            Scope::Shared | Scope::Stream(_) => WHOLE,
            Scope::Group(_) => self.group_of(slot).unwrap_or(slot),
        }
    }

    /// The watermark for which a scope waits. What a device has seen in another group
    /// does not matter here: each group has an order of its own.
    fn ordering_watermark(&self, scope: u32) -> Option<EventTime> {
        match self.spec.watermark.scope {
            Scope::Device | Scope::Group(_) => self.devices.get(scope).watermark.time(),
            Scope::Shared | Scope::Stream(_) => self.shared.time(),
        }
    }

    /// Releases what the watermark of a scope has passed.
    #[inline]
    pub(super) fn release_passed(&mut self, out: &mut Emit<'_>, scope: u32) {
        if self.ordered.is_unused() {
            return;
        }
        let Some(watermark) = self.ordering_watermark(scope) else { return };
        while let Some(place) = self.ordered.next_of(scope, watermark) {
            let Some(row) = self.ordered.take(place) else { return };
            *out.open_cost -= Ordered::cost_of(&row);
            self.records.open -= 1;
            self.records.on_time += 1;
            emit_stored_reading(out, &row);
            self.ordered.recycle(row);
            self.changes.ledger = true;
        }
        self.ordered.drop_floor(scope, watermark);
    }

    /// Nobody in the scope is active any more: what it holds would wait for as long as
    /// that lasts.
    pub(super) fn release_idle(&mut self, out: &mut Emit<'_>, scope: u32) {
        if self.spec.on_idle != OnIdle::Hold && !self.ordered.is_unused() {
            self.release_passed(out, scope);
            self.release_scope_early(out, scope);
        }
    }

    /// Releases all that a scope holds, before the watermark.
    pub(super) fn release_scope_early(&mut self, out: &mut Emit<'_>, scope: u32) {
        while let Some(place) = self.ordered.next_of(scope, EventTime::MAX) {
            self.release_early(out, place);
        }
    }

    /// Releases from the lowest on until at most `held_max` are held.
    pub(super) fn release_beyond(&mut self, out: &mut Emit<'_>, held_max: usize) {
        while self.ordered.len() > held_max
            && let Some(lowest) = self.ordered.lowest()
        {
            self.release_early(out, lowest);
        }
    }

    fn release_early(&mut self, out: &mut Emit<'_>, place: Place) {
        let Some(row) = self.ordered.take_early(place) else { return };
        *out.open_cost -= Ordered::cost_of(&row);
        self.records.open -= 1;
        self.records.early += 1;
        emit_stored_reading(out, &row);
        self.ordered.recycle(row);
        self.changes.ledger = true;
    }
}

/// Releases, as early, the readings that may wait no more: there is room for fewer, or
/// their order was that of another scope. True when there were any.
pub(super) fn shed_held(out: &mut Emit<'_>, old: &mut Stream, wanted: Option<&StreamSpec>) -> bool {
    let held = old.ordered.len();
    let same_order = |wanted: &&StreamSpec| {
        core::mem::discriminant(&wanted.watermark.scope) == core::mem::discriminant(&old.spec.watermark.scope)
    };
    let wanted = wanted.filter(same_order);
    // Nothing is counted yet: `rearm` does it, for what is left.
    *out.open_cost += old.ordered.cost();
    old.release_beyond(out, wanted.map_or(0, |wanted| wanted.records.held_max()));
    *out.open_cost -= old.ordered.cost();
    if wanted.is_none() {
        old.ordered.forget_floors();
    }
    old.ordered.len() < held
}
