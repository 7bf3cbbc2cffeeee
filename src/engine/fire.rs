//! What a watermark passes: panes fire, and expire after their allowed lateness.

use crate::model::time::{EventTime, Span};

use super::emit::{Emit, emit_pane};
use super::outbox::row::PaneKind;
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
                let device = self.devices.get(slot);
                if let Some(watermark) = device.watermark.time()
                    && device.due <= watermark
                {
                    self.fire_due(out, slot, watermark);
                }
            }
            Scope::Shared | Scope::Stream(_) | Scope::Group(_) => self.fire_shared(out),
        }
    }

    /// Windows of all devices, in the order in which they are due.
    pub(super) fn fire_shared(&mut self, out: &mut Emit<'_>) {
        let Some(watermark) = self.shared.time() else { return };
        while let Some((due, slot)) = self.due.first().copied()
            && due <= watermark
        {
            self.fire_due(out, slot, due);
        }
    }

    /// Fires and expires the panes of one device that are due up to `upto`.
    pub(super) fn fire_due(&mut self, out: &mut Emit<'_>, slot: u32, upto: EventTime) {
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
                emit_pane(out, &self.spec, &self.fields, name.as_str(), pane, PaneKind::OnTime, watermark);
            }
            if watermark.has_expired(end, spec.lateness) {
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
    }

    fn retire(&mut self, out: &mut Emit<'_>, slot: u32, pane: Pane) {
        *out.open_cost -= pane.cost(self.spec.windows[usize::from(pane.window)].aggregates.len());
        self.changes.removed.push((slot, pane.window, pane.start));
        self.open_panes -= 1;
        keep_buffer(&mut self.spare, pane.accumulators);
    }

    /// Shows what a quiet device's open windows hold so far.
    pub(super) fn emit_unseen(&mut self, out: &mut Emit<'_>, slot: u32) {
        let watermark = self.watermark_of(slot);
        let name = self.devices.id(slot);
        for pane in &mut self.devices.get_mut(slot).panes {
            if !pane.fired && pane.unseen {
                pane.dirty = true;
                emit_pane(out, &self.spec, &self.fields, name.as_str(), pane, PaneKind::Idle, watermark);
            }
        }
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
        if self.spec.watermark.scope != Scope::Device {
            self.due.remove(&(device.due, slot));
            if !device.panes.is_empty() {
                self.due.insert((due, slot));
            }
        }
        device.due = due;
    }
}

/// The watermark at which something happens to a pane: it fires, or it expires.
pub(super) fn due_of(pane: &Pane, spec: &WindowSpec) -> EventTime {
    let last = pane.end - Span::MILLI;
    if pane.fired { last + spec.lateness } else { last }
}

/// Keeps a buffer for the next pane, unless it is none, there are enough or it is large.
pub(super) fn keep_buffer(spare: &mut Vec<Accumulators>, buffer: Accumulators) {
    if buffer.spilled() && spare.len() < SPARE_PANES && buffer.capacity() <= SPARE_ACCUMULATORS {
        spare.push(buffer);
    }
}
