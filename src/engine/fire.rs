//! What a watermark passes: panes fire, and expire after their allowed lateness.

use crate::model::time::{EventTime, Span};

use super::emit::{Emit, emit_pane};
use super::join::Rise;
use super::outbox::row::PaneKind;
use super::records::WHOLE;
use super::spec::{Scope, WindowSpec};
use super::stream::Stream;
use super::window::pane::{Accumulators, Pane};

/// Pane buffers kept for reuse, and the accumulators that one of them may have room
/// for: at most some 8 MiB together.
const SPARE_PANES: usize = 4_096;
const SPARE_ACCUMULATORS: usize = 64;

impl Stream {
    pub(super) fn fire_passed(&mut self, out: &mut Emit<'_>, slot: u32) {
        match self.spec.watermark.scope {
            Scope::Device => {
                if let Some(taps) = &mut out.taps {
                    taps.note_rise(Rise::Device(slot));
                }
                self.release_passed(out, slot);
                let device = self.devices.get(slot);
                if let Some(watermark) = device.watermark.time()
                    && device.due <= watermark
                {
                    self.fire_due(out, slot, watermark);
                }
            }
            Scope::Shared | Scope::Stream(_) => self.fire_common(out, None),
            Scope::Group(_) => {
                if let Some(group) = self.group_of(slot) {
                    self.fire_common(out, Some(group));
                }
            }
        }
    }

    /// What a watermark that several share has passed, in the order in which it is
    /// due. `group`: that of a group; else that of the stream.
    pub(super) fn fire_common(&mut self, out: &mut Emit<'_>, group: Option<u32>) {
        if let Some(taps) = &mut out.taps {
            taps.note_rise(group.map_or(Rise::Stream, Rise::Group));
        }
        self.release_passed(out, group.unwrap_or(WHOLE));
        while let Some((common, watermark)) = self.common(group)
            && let Some(watermark) = watermark.time()
            && let Some((due, slot)) = common.due.first().copied()
            && due <= watermark
        {
            self.fire_due(out, slot, due);
        }
    }

    /// Fires what any watermark has passed.
    pub(super) fn fire_all(&mut self, out: &mut Emit<'_>) {
        let occupied: Vec<u32> = self.devices.occupied().collect();
        for slot in occupied {
            self.fire_passed(out, slot);
            // In no group, or with a floor above the watermark of its group.
            if let Some(floor) = self.devices.get(slot).floor.time()
                && self.devices.get(slot).due <= floor
            {
                self.fire_due(out, slot, floor);
            }
        }
    }

    /// Fires and expires the panes of one slot that are due up to `upto`.
    pub(super) fn fire_due(&mut self, out: &mut Emit<'_>, slot: u32, upto: EventTime) {
        self.fire_as(out, slot, upto, PaneKind::OnTime);
    }

    /// As [`Stream::fire_due`]; what fires is of this kind.
    pub(super) fn fire_as(&mut self, out: &mut Emit<'_>, slot: u32, upto: EventTime, kind: PaneKind) {
        let watermark = self.watermark_of(slot);
        let name = self.devices.id(slot);
        let mut panes = core::mem::take(&mut self.devices.get_mut(slot).panes);
        let mut next_due = EventTime::MAX;
        let mut index = 0;
        while index < panes.len() {
            let pane = &mut panes[index];
            let window = usize::from(pane.window);
            let spec = &self.spec.windows[window];
            let end = pane.end;
            if due_of(pane, spec) > upto {
                next_due = next_due.min(due_of(pane, spec));
                index += 1;
                continue;
            }
            if !pane.fired {
                pane.fired = true;
                pane.dirty = true;
                let books = &mut self.windows[window];
                books.open -= pane.unsettled;
                books.on_time += pane.unsettled;
                pane.unsettled = 0;
                emit_pane(out, &self.spec, &self.fields, name.as_str(), pane, kind, watermark);
            }
            if watermark.has_expired(end, spec.lateness) {
                // Nothing more will come; an update that waits goes now or never.
                let last = if spec.final_pane { Some(PaneKind::Final) } else { pane.unseen.then_some(PaneKind::Late) };
                if let Some(kind) = last {
                    emit_pane(out, &self.spec, &self.fields, name.as_str(), pane, kind, watermark);
                }
                let pane = panes.remove(index);
                self.retire(out, slot, pane);
            } else {
                next_due = next_due.min(due_of(pane, spec));
                index += 1;
            }
        }
        self.devices.get_mut(slot).panes = panes;
        self.changes.ledger = true;
        self.touch(slot);
        self.set_due(slot, next_due);
        self.refresh_show(slot);
    }

    fn retire(&mut self, out: &mut Emit<'_>, slot: u32, pane: Pane) {
        *out.open_cost -= pane.cost(&self.spec.windows[usize::from(pane.window)].aggregates);
        self.changes.removed.push((slot, pane.window, pane.start));
        self.open_panes -= 1;
        keep_buffer(&mut self.spare, pane.accumulators);
    }

    /// Shows what a quiet device's open windows hold so far.
    pub(super) fn emit_unseen(&mut self, out: &mut Emit<'_>, slot: u32) {
        let watermark = self.watermark_of(slot);
        let name = self.devices.id(slot);
        self.touch(slot);
        for pane in &mut self.devices.get_mut(slot).panes {
            if !pane.fired && pane.unseen {
                pane.dirty = true;
                emit_pane(out, &self.spec, &self.fields, name.as_str(), pane, PaneKind::Idle, watermark);
            }
        }
        self.refresh_show(slot);
    }

    #[inline]
    pub(super) fn due_no_later_than(&mut self, slot: u32, due: EventTime) {
        if due < self.devices.get(slot).due {
            self.set_due(slot, due);
        }
    }

    /// A pane has changed its bounds: what was due may not be any more. `due`: that
    /// of the pane.
    pub(super) fn recompute_due(&mut self, slot: u32, due: EventTime) {
        let windows = &self.spec.windows;
        let panes = self.devices.get(slot).panes.iter();
        let earliest = panes.map(|pane| due_of(pane, &windows[usize::from(pane.window)])).min();
        self.set_due(slot, earliest.unwrap_or(due));
    }

    pub(super) fn set_due(&mut self, slot: u32, due: EventTime) {
        let device = self.devices.get_mut(slot);
        let before = core::mem::replace(&mut device.due, due);
        let has_panes = !device.panes.is_empty();
        if self.spec.watermark.scope != Scope::Device
            && let Some(common) = self.common_mut(slot)
        {
            common.due.remove(&(before, slot));
            if has_panes {
                common.due.insert((due, slot));
            }
        }
    }
}

/// The watermark at which something happens to a pane: it fires, or it expires.
pub(super) fn due_of(pane: &Pane, spec: &WindowSpec) -> EventTime {
    let last = pane.end - Span::MILLI;
    if pane.fired { last + spec.lateness } else { last }
}

/// Keeps a buffer for the next pane, unless it is none, there are enough or it is large.
pub(super) fn keep_buffer(spare: &mut Vec<Accumulators>, mut buffer: Accumulators) {
    // What they hold is not kept.
    buffer.clear();
    if buffer.spilled() && spare.len() < SPARE_PANES && buffer.capacity() <= SPARE_ACCUMULATORS {
        spare.push(buffer);
    }
}
