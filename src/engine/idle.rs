//! Who is there: devices that fall silent, come back, or are said to be on or off.
//!
//! A device is idle after `idle_timeout` of silence, or at once when something that
//! knows it says that it is offline; it is back with its next record, or when it is
//! said to be online. All that fall idle at one moment do so together.

use crate::model::ids::DeviceId;
use crate::model::record::RejectReason;
use crate::model::time::Span;

use super::devices::SlotKind;
use super::emit::Emit;
use super::join::Rise;
use super::outbox::row::PaneKind;
use super::records::WHOLE;
use super::scope::Rules;
use super::spec::{OnIdle, Scope};
use super::stream::Stream;
use super::timers::LiveTime;
use super::watermark::Watermark;

impl Stream {
    /// Turns devices idle whose deadline has come.
    pub(super) fn handle_idle(&mut self, out: &mut Emit<'_>, live: LiveTime) {
        let mut fallen = Vec::new();
        while let Some((entry, slot)) = self.timers.pop_due(live) {
            let device = self.devices.get_mut(slot);
            device.has_timer = false;
            if device.idle_at == LiveTime::NEVER {
                // It was said to be offline before.
                continue;
            }
            if device.idle_at > entry {
                let at = device.idle_at;
                self.arm_idle(slot, at);
                continue;
            }
            self.fall_idle(out, slot);
            fallen.push(slot);
        }
        self.go_on_without(out, &fallen);
    }

    /// Something that knows says that a device is on or off. False when it is not known.
    pub(super) fn handle_availability(
        &mut self,
        out: &mut Emit<'_>,
        live: LiveTime,
        device: &str,
        online: bool,
    ) -> bool {
        let Some(slot) = self.devices.find(device) else { return false };
        self.set_availability(out, live, &[slot], online);
        true
    }

    /// As [`Stream::handle_availability`], for all devices: what connects them is on or off.
    pub(super) fn handle_availability_of_all(&mut self, out: &mut Emit<'_>, live: LiveTime, online: bool) {
        let slots: Vec<u32> = self.devices.devices().collect();
        self.set_availability(out, live, &slots, online);
    }

    /// The same for those in `slots`.
    pub(super) fn set_availability(&mut self, out: &mut Emit<'_>, live: LiveTime, slots: &[u32], online: bool) {
        if online {
            for slot in slots {
                self.hear(live, *slot);
                self.rejoin(*slot);
            }
            for slot in slots {
                if self.raise_common(*slot) {
                    self.fire_passed(out, *slot);
                }
            }
            return;
        }
        self.turn_idle(out, slots);
    }

    /// Those of the devices that are active fall idle, all at one moment.
    pub(super) fn turn_idle(&mut self, out: &mut Emit<'_>, slots: &[u32]) {
        let awake = slots.iter().copied().filter(|slot| !self.devices.get(*slot).idle);
        let fallen: Vec<u32> = awake.collect();
        for slot in &fallen {
            self.fall_idle(out, *slot);
        }
        self.go_on_without(out, &fallen);
    }

    /// A device that exists before it has sent anything: under scope `stream` the
    /// watermark waits for it until it is idle.
    pub(super) fn register(&mut self, device_cost: &mut usize, live: LiveTime, name: &DeviceId) {
        if self.devices.find(name.as_str()).is_some() {
            return;
        }
        let Ok(slot) = self.slot_of(device_cost, name.as_str()) else { return };
        self.hear(live, slot);
        self.rejoin(slot);
    }

    /// The slot of a device, which may be in no group yet.
    pub(super) fn slot_of(&mut self, device_cost: &mut usize, device: &str) -> Result<u32, RejectReason> {
        match self.devices.find(device) {
            Some(slot) => Ok(slot),
            None if self.devices.device_count() >= self.spec.devices_max => Err(RejectReason::TooManyDevices),
            None => self.add_device(device_cost, device),
        }
    }

    /// Gives a device that is not known its slot.
    pub(super) fn add_device(&mut self, device_cost: &mut usize, device: &str) -> Result<u32, RejectReason> {
        let name = DeviceId::new(device).ok_or(RejectReason::BadDevice)?;
        self.take_room(device_cost, &name).ok_or(RejectReason::TooManyDevices)?;
        let slot = self.devices.add(&name);
        self.revive(device_cost, slot);
        Ok(slot)
    }

    /// The device is there: it is active, and its silence begins now.
    pub(super) fn hear(&mut self, live: LiveTime, slot: u32) {
        self.wake(slot);
        if let Some(timeout) = self.spec.watermark.idle_timeout {
            self.arm_idle(slot, live.plus(timeout + Span::MILLI));
        }
        self.arm_expiry(slot, live);
        self.changes.ledger = true;
        self.touch(slot);
    }

    /// The device is active.
    pub(super) fn wake(&mut self, slot: u32) {
        let device = self.devices.get_mut(slot);
        if device.idle {
            device.idle = false;
            self.count_active(slot, true);
        }
    }

    #[cold]
    fn count_active(&mut self, slot: u32, active: bool) {
        let step = |count: usize| if active { count + 1 } else { count - 1 };
        self.common.active = step(self.common.active);
        if let Some(group) = self.devices.get(slot).group
            && let Some(common) = &mut self.devices.get_mut(group).common
        {
            common.active = step(common.active);
        }
    }

    /// Among those that decide about a watermark, a device is active again with
    /// the one that it had.
    pub(super) fn rejoin(&mut self, slot: u32) {
        let rules = Rules::of(&self.spec.watermark);
        let own = self.devices.get(slot).watermark;
        let combined = self.decided(slot);
        if matches!(self.spec.watermark.scope, Scope::Stream(_) | Scope::Group(_))
            && let Some(common) = self.common_mut(slot)
        {
            let counted = common.members.remove(slot, own);
            common.members.add(slot, own, counted, rules, combined);
        }
    }

    /// As it was persisted: among those that decide, and counted.
    pub(super) fn restore_member(&mut self, slot: u32) {
        let device = self.devices.get(slot);
        if device.kind != SlotKind::Device {
            return;
        }
        let (own, idle) = (device.watermark, device.idle);
        if !idle {
            self.count_active(slot, true);
            return self.rejoin(slot);
        }
        let rules = Rules::of(&self.spec.watermark);
        if let Some(common) = self.common_mut(slot) {
            common.members.add_idle(slot, own, rules);
        }
    }

    fn fall_idle(&mut self, out: &mut Emit<'_>, slot: u32) {
        let rules = Rules::of(&self.spec.watermark);
        let device = self.devices.get_mut(slot);
        device.idle_at = LiveTime::NEVER;
        device.idle = true;
        let own = device.watermark;
        self.count_active(slot, false);
        self.ledger.idled += 1;
        if matches!(self.spec.watermark.scope, Scope::Stream(_) | Scope::Group(_))
            && let Some(common) = self.common_mut(slot)
        {
            common.members.remove(slot, own);
            common.members.add_idle(slot, own, rules);
        }
        self.changes.ledger = true;
        self.touch(slot);
        match self.spec.on_idle {
            OnIdle::Emit => self.emit_unseen(out, slot),
            OnIdle::Close => self.close(out, slot),
            OnIdle::Hold => {}
        }
    }

    /// Windows that devices share are shown when all of these are idle; and then the
    /// watermarks go on without those that have fallen idle.
    fn go_on_without(&mut self, out: &mut Emit<'_>, fallen: &[u32]) {
        if fallen.is_empty() {
            return;
        }
        let mut groups: Vec<u32> = fallen.iter().filter_map(|slot| self.devices.get(*slot).group).collect();
        groups.sort_unstable();
        groups.dedup();
        if self.spec.on_idle == OnIdle::Emit {
            for group in &groups {
                if self.common(Some(*group)).is_some_and(|(common, _)| common.active == 0) {
                    self.emit_unseen(out, *group);
                }
            }
            if let Some(whole) = self.devices.whole().filter(|_| self.common.active == 0) {
                self.emit_unseen(out, whole);
            }
        }
        match self.spec.watermark.scope {
            Scope::Device => fallen.iter().for_each(|slot| self.release_idle(out, *slot)),
            Scope::Shared | Scope::Stream(_) => {
                if self.raise_common(fallen[0]) {
                    self.fire_common(out, None);
                }
                if self.common.active == 0 {
                    self.release_idle(out, WHOLE);
                }
            }
            Scope::Group(_) => {
                for group in groups {
                    if self.raise_common(group) {
                        self.fire_common(out, Some(group));
                    }
                    if self.common(Some(group)).is_some_and(|(common, _)| common.active == 0) {
                        self.release_idle(out, group);
                    }
                }
            }
        }
    }

    /// `on_idle = "close"`: the watermark goes to the end of the newest open window.
    fn close(&mut self, out: &mut Emit<'_>, slot: u32) {
        let device = self.devices.get_mut(slot);
        let Some(end) = device.panes.iter().map(|pane| pane.end).max() else { return };
        device.watermark.raise(Watermark::behind(end, Span::ZERO));
        if let Some(taps) = &mut out.taps {
            taps.note_rise(Rise::Device(slot));
        }
        if let Some(watermark) = device.watermark.time().filter(|watermark| device.due <= *watermark) {
            self.fire_as(out, slot, watermark, PaneKind::Idle);
        }
    }

    pub(super) fn arm_idle(&mut self, slot: u32, at: LiveTime) {
        let device = self.devices.get_mut(slot);
        device.idle_at = at;
        if !device.has_timer {
            device.has_timer = true;
            self.timers.push(at, slot);
        }
    }
}
