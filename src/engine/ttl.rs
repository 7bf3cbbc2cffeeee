//! `state_ttl`: a device that was silent for so long gives its state back.
//!
//! ```text
//! last record          idle                        state_ttl
//! •────────────────────┤ ── open windows shown ─── ┤ windows fire, state goes
//!                                                   └▶ tombstone: its watermark
//! ```
//!
//! Its watermark goes to where nothing of it is open any more: its windows fire as if
//! it had got there by itself, what ordered output held for it goes out, what was known
//! of copies is forgotten. The slot is then free for another device. The silence is that
//! of the idle clock: only what could have been heard counts.
//!
//! A watermark that devices share does not move: only those that the device has
//! for itself end. A group ends with the last of its devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::limits::TOMBSTONES_MAX;
use crate::model::time::{EventTime, Span};

use super::add::window_tag;
use super::devices::{self, SlotKind};
use super::emit::Emit;
use super::join::Rise;
use super::scope::Rules;
use super::spec::{Scope, StreamSpec, WindowKind, WindowSpec};
use super::stream::Stream;
use super::timers::LiveTime;
use super::tombstones::{HashedName, Tombstone};
use super::watermark::Watermark;

impl Stream {
    /// The silence of a device begins now.
    #[inline]
    pub(super) fn arm_expiry(&mut self, slot: u32, live: LiveTime) {
        if let Some(ttl) = self.spec.state_ttl {
            let at = live.plus(ttl + Span::MILLI);
            self.expire_at(slot, at);
            // The last of its devices may move away, and then nobody ends it.
            if let Some(group) = self.devices.get(slot).group {
                self.expire_at(group, at);
                self.touch(group);
            }
        }
    }

    pub(super) fn expire_at(&mut self, slot: u32, at: LiveTime) {
        let before = core::mem::replace(&mut self.devices.get_mut(slot).expires_at, at);
        // One entry for each device that has a deadline; see `timers.rs`.
        if before == LiveTime::NEVER {
            self.expiry.push(at, slot);
        }
    }

    /// Ends the devices that were silent for too long.
    pub(super) fn handle_expiry(&mut self, out: &mut Emit<'_>, live: LiveTime) {
        let mut expired = Vec::new();
        while let Some((entry, slot)) = self.expiry.pop_due(live) {
            let at = core::mem::replace(&mut self.devices.get_mut(slot).expires_at, LiveTime::NEVER);
            if at == LiveTime::NEVER {
                // Of a device or group that has ended since.
                continue;
            }
            if at > entry {
                self.expire_at(slot, at);
            } else {
                expired.push(slot);
            }
        }
        if expired.is_empty() {
            return;
        }
        let is_device = |slot: &u32| self.devices.get(*slot).kind == SlotKind::Device;
        let (expired, mut groups): (Vec<u32>, Vec<u32>) = expired.into_iter().partition(is_device);
        for slot in &expired {
            self.end(out, *slot);
        }
        self.turn_idle(out, &expired);
        groups.extend(expired.iter().filter_map(|slot| self.devices.get(*slot).group));
        for slot in expired {
            *out.carry_cost -= self.carry.forget(slot);
            self.bury(out.device_cost, slot);
            self.ledger.expired += 1;
        }
        groups.sort_unstable();
        groups.dedup();
        if !groups.is_empty() {
            let populated: BTreeSet<u32> = self.devices.slots().filter_map(|(_, _, device)| device.group).collect();
            groups.retain(|group| !populated.contains(group));
        }
        for group in groups {
            self.end(out, group);
            self.bury(out.device_cost, group);
        }
        if self.devices.device_count() == 0 {
            // Nobody is left who could move a watermark that devices share.
            self.release_beyond(out, 0);
        }
    }

    /// Finishes what a device or group has open.
    fn end(&mut self, out: &mut Emit<'_>, slot: u32) {
        let end = self.end_of(slot);
        let seen = self.watermark_of(slot).max(end);
        let device = self.devices.get_mut(slot);
        let orders = match (self.spec.watermark.scope, device.kind) {
            (Scope::Device, SlotKind::Device) | (Scope::Group(_), SlotKind::Group) => {
                device.watermark.raise(end);
                true
            }
            _ => {
                device.floor.raise(seen);
                false
            }
        };
        if orders {
            if let Some(taps) = &mut out.taps {
                let is_device = self.spec.watermark.scope == Scope::Device;
                taps.note_rise(if is_device { Rise::Device(slot) } else { Rise::Group(slot) });
            }
            self.release_passed(out, slot);
        }
        if let Some(end) = end.time() {
            self.fire_due(out, slot, end);
        }
        for window in 0..self.spec.windows.len() {
            self.emit_deltas(out, (slot, window_tag(window)));
        }
    }

    /// The watermark at which a slot has nothing left: all windows of its own have
    /// expired, and what it has put out in order or under another definition is past.
    fn end_of(&self, slot: u32) -> Watermark {
        let device = self.devices.get(slot);
        let windows = &self.spec.windows;
        let panes = device.panes.iter().map(|pane| {
            let lateness = windows[usize::from(pane.window)].lateness;
            (pane.end - Span::MILLI) + lateness
        });
        let fences = self.fences.of(slot).filter_map(|(name, until)| {
            let spec = windows.iter().find(|spec| spec.name == *name)?;
            Some((until + longest(spec.kind) - Span::MILLI) + spec.lateness)
        });
        let readings = self.ordered.newest_of(slot).into_iter().chain(self.ordered.floor(slot));
        let orders = !matches!(self.spec.watermark.scope, Scope::Shared | Scope::Stream(_));
        let end = panes.chain(fences).chain(readings.filter(|_| orders)).max();
        Watermark::restore(end)
    }

    /// Frees a slot down to its tombstone.
    fn bury(&mut self, device_cost: &mut usize, slot: u32) {
        let rules = Rules::of(&self.spec.watermark);
        let device = self.devices.get(slot);
        let (own, kind) = (device.watermark, device.kind);
        let tombstone = Tombstone { watermark: own, floor: device.floor, newest: device.newest() };
        if kind == SlotKind::Device
            && let Some(common) = self.common_mut(slot)
        {
            common.members.remove(slot, own);
            common.members.leave_laggards_out(rules);
        }
        let name = self.devices.id(slot);
        let evicted = self.tombstones.add(kind, name.as_str(), tombstone, self.spec.tombstones_max());
        self.ledger.tombstones_evicted += evicted;
        *device_cost -= devices::cost_of(name.as_str().len(), self.measures_each_device());
        *device_cost += devices::TOMBSTONE_COST;
        *device_cost -= usize::try_from(evicted).expect("as many as there were") * devices::TOMBSTONE_COST;
        self.dedup.forget(slot);
        self.fences.forget(slot);
        self.retiring.iter_mut().for_each(|retiring| retiring.forget(slot));
        self.devices.free(slot);
        self.changes.ledger = true;
    }

    /// The newest record of each device and group, also of those that are gone.
    pub(super) fn everybody(&self) -> impl Iterator<Item = (HashedName, EventTime)> {
        let newest = |slot| Some((self.devices.hashed_name(slot), self.devices.get(slot).newest()?));
        let gone = self.tombstones.all().filter_map(|(name, tombstone)| Some((name, tombstone.newest?)));
        self.devices.occupied().filter_map(newest).chain(gone)
    }

    /// A device or group that has just got its slot goes on from its tombstone.
    pub(super) fn revive(&mut self, device_cost: &mut usize, slot: u32) {
        let kind = self.devices.get(slot).kind;
        let Some(tombstone) = self.tombstones.take(kind, self.devices.name(slot)) else { return };
        *device_cost -= devices::TOMBSTONE_COST;
        let device = self.devices.get_mut(slot);
        device.watermark = tombstone.watermark;
        device.floor = tombstone.floor;
        device.set_newest(tombstone.newest);
    }
}

/// Fits what is left of devices to the configuration of today: no watermark moves back,
/// and no window is opened under an id that was used under another definition.
pub(super) fn fit_tombstones(old: &mut Stream, wanted: &StreamSpec) {
    // Whatever their order.
    let windows = |spec: &StreamSpec| {
        let window = |window: &WindowSpec| (window.name.clone(), (window.kind, window.lateness, window.late));
        spec.windows.iter().map(window).collect::<BTreeMap<_, _>>()
    };
    let scopes = (old.spec.watermark.scope, wanted.watermark.scope);
    let redefined = windows(&old.spec) != windows(wanted);
    if scopes.0 == scopes.1 && !redefined {
        return;
    }
    let longest = wanted.windows.iter().map(|window| longest(window.kind) + window.lateness).max();
    let shared = old.shared;
    old.tombstones.change_all(|tombstone| {
        let mut seen = match scopes.0 {
            Scope::Device => tombstone.watermark,
            Scope::Shared | Scope::Stream(_) => tombstone.floor.max(shared),
            Scope::Group(_) => tombstone.floor,
        };
        if let Some(longest) = longest.filter(|_| redefined) {
            seen.raise(tombstone.newest_plus(longest));
        }
        match scopes.1 {
            Scope::Device => _ = tombstone.watermark.raise(seen),
            Scope::Shared | Scope::Stream(_) | Scope::Group(_) => {
                tombstone.floor.raise(seen);
                // What only this device has seen must not become what all have.
                if scopes.0 == Scope::Device {
                    tombstone.watermark = tombstone.watermark.min(tombstone.newest_plus(Span::ZERO));
                }
            }
        }
        if scopes.1 == Scope::Shared {
            tombstone.watermark = Watermark::NONE;
        }
    });
}

/// Deadlines anew, from what was persisted; a device without one has all of its time.
pub(super) fn rearm_expiry(stream: &mut Stream, live: LiveTime) {
    for slot in stream.all_slots() {
        let device = stream.devices.get_mut(slot);
        let at = core::mem::replace(&mut device.expires_at, LiveTime::NEVER);
        match (stream.spec.state_ttl, device.kind) {
            (Some(_), SlotKind::Device | SlotKind::Group) if at != LiveTime::NEVER => stream.expire_at(slot, at),
            (Some(_), SlotKind::Device | SlotKind::Group) => stream.arm_expiry(slot, live),
            _ => {}
        }
    }
}

/// As [`WindowKind::length`], of the calendar's longest.
fn longest(kind: WindowKind) -> Span {
    match kind {
        // A month of 31 days, a day of 25 hours.
        WindowKind::Calendar { .. } => kind.length() + Span::from_secs(86_400),
        WindowKind::Tumbling { .. } | WindowKind::Sliding { .. } | WindowKind::Session { .. } => kind.length(),
    }
}

impl StreamSpec {
    /// Tombstones that may be kept.
    fn tombstones_max(&self) -> usize {
        (4 * self.devices_max).min(TOMBSTONES_MAX)
    }

    /// The silence after which nothing of a device can matter to its windows any more:
    /// when it comes back, its clock is past all of them.
    pub fn shortest_ttl(&self) -> Span {
        let windows = self.windows.iter().map(|window| longest(window.kind) + window.lateness);
        windows.max().unwrap_or(Span::ZERO) + self.watermark.strategy.longest_wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::Name;
    use crate::model::template::Template;
    use crate::model::topic::TopicPattern;

    #[test]
    fn the_number_of_tombstones_follows_the_devices_up_to_a_limit() {
        let name = Name::new("s").expect("valid");
        let topic = TopicPattern::parse("d/{device}").expect("valid");
        let device = Template::parse("{device}", &topic).expect("valid");
        let mut spec = StreamSpec::new(name, topic, device);
        spec.devices_max = 7;
        assert_eq!(spec.tombstones_max(), 28);
        spec.devices_max = 100_000;
        assert_eq!(spec.tombstones_max(), 65_536);
        assert_eq!(spec.shortest_ttl(), Span::ZERO);
    }
}
