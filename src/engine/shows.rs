//! Panes that are shown by the clock: early ones, and coalesced updates.
//!
//! The first change that nobody has seen arms the pane's deadline, in processing time,
//! which runs whether or not the input does. Whatever emits the pane before disarms it.
//! Per device there is one entry, not later than the first deadline of its panes; one
//! that comes up too early is put back.

use crate::model::time::ProcTime;

use super::emit::{Emit, emit_pane};
use super::outbox::row::PaneKind;
use super::stream::Stream;

impl Stream {
    /// Shows the pane at place `index` at `at`, unless it is shown before.
    pub(super) fn show_by(&mut self, slot: u32, index: usize, at: ProcTime) {
        let device = self.devices.get_mut(slot);
        let pane = &mut device.panes[index];
        pane.show_at = pane.show_at.min(at);
        if at < device.shows_at {
            self.set_show(slot, at);
        }
    }

    /// Emits what is due at `upto`.
    pub(super) fn show_due(&mut self, out: &mut Emit<'_>, upto: ProcTime) {
        while let Some((at, slot)) = self.shows.first().copied()
            && at <= upto
        {
            self.show_panes(out, slot, upto);
        }
    }

    /// Panes of the device were emitted for other reasons.
    pub(super) fn refresh_show(&mut self, slot: u32) {
        let device = self.devices.get(slot);
        if device.shows_at != ProcTime::NEVER {
            let next = device.panes.iter().map(|pane| pane.show_at).min();
            self.set_show(slot, next.unwrap_or(ProcTime::NEVER));
        }
    }

    fn show_panes(&mut self, out: &mut Emit<'_>, slot: u32, upto: ProcTime) {
        let watermark = self.watermark_of(slot);
        let name = self.devices.id(slot);
        let mut next = ProcTime::NEVER;
        for pane in &mut self.devices.get_mut(slot).panes {
            if pane.show_at > upto {
                next = next.min(pane.show_at);
                continue;
            }
            // A session may have grown beyond the watermark since its update was due.
            let kind = if pane.fired { PaneKind::Late } else { PaneKind::Early };
            pane.dirty = true;
            emit_pane(out, &self.spec, &self.fields, name.as_str(), pane, kind, watermark);
        }
        self.touch(slot);
        self.set_show(slot, next);
    }

    pub(super) fn set_show(&mut self, slot: u32, at: ProcTime) {
        let device = self.devices.get_mut(slot);
        self.shows.remove(&(device.shows_at, slot));
        device.shows_at = at;
        if at != ProcTime::NEVER {
            self.shows.insert((at, slot));
        }
    }
}
