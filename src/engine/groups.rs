//! Devices by group label: which group a device is in, and whose windows a record
//! belongs to when devices share them.
//!
//! A device that comes with another label moves: the old group goes on without it,
//! and the new one counts it from this record on. Its own windows go with it, and
//! what its old group's watermark has passed stays passed for them.

use crate::model::ids::DeviceId;
use crate::model::record::RejectReason;
use crate::model::template::Template;
use crate::model::time::EventTime;

use super::calculations::Calculations;
use super::devices::SlotKind;
use super::emit::Emit;
use super::join::Rise;
use super::scope::{Common, Rules};
use super::spec::{KeySpec, OnIdle, Scope, StreamSpec, TopicSpec};
use super::stream::Stream;
use super::watermark::Watermark;

/// Whether the stream needs a label of each record.
pub(super) fn are_used(spec: &StreamSpec) -> bool {
    matches!(spec.watermark.scope, Scope::Group(_)) || spec.windows.iter().any(|window| window.key == KeySpec::Group)
}

/// Something of a stream asks for labels.
pub(super) fn use_labels(spec: &StreamSpec) -> bool {
    let by_group = |topic: &TopicSpec| topic.group.as_ref().is_some_and(Template::has_labels);
    are_used(spec) && spec.topics.iter().any(by_group) || Calculations::new(&spec.rules).use_labels()
}

impl Stream {
    /// The group that a slot belongs to, or is.
    pub(super) fn group_of(&self, slot: u32) -> Option<u32> {
        let device = self.devices.get(slot);
        if device.kind == SlotKind::Group { Some(slot) } else { device.group }
    }

    /// What a group, or the stream, has in common, and the watermark that it shares.
    pub(super) fn common(&self, group: Option<u32>) -> Option<(&Common, Watermark)> {
        match group {
            None => Some((&self.common, self.shared)),
            Some(group) => {
                let group = self.devices.get(group);
                Some((group.common.as_deref()?, group.watermark))
            }
        }
    }

    /// What decides about the watermark of a slot; `None` in scope `device`, and for a
    /// device in no group.
    pub(super) fn common_mut(&mut self, slot: u32) -> Option<&mut Common> {
        match self.spec.watermark.scope {
            Scope::Device => None,
            Scope::Shared | Scope::Stream(_) => Some(&mut self.common),
            Scope::Group(_) => {
                let group = self.group_of(slot)?;
                self.devices.get_mut(group).common.as_deref_mut()
            }
        }
    }

    /// The watermark that `slot` shares rises to what its members allow. True when it rose.
    pub(super) fn raise_common(&mut self, slot: u32) -> bool {
        let rules = Rules::of(&self.spec.watermark);
        match self.spec.watermark.scope {
            Scope::Device | Scope::Shared => false,
            Scope::Stream(_) => self.shared.raise(self.common.members.combined(rules)),
            Scope::Group(_) => {
                let Some(group) = self.group_of(slot) else { return false };
                let device = self.devices.get_mut(group);
                let allowed = device.common.as_ref().map(|common| common.members.combined(rules));
                let rises = device.watermark.raise(allowed.unwrap_or_default());
                if rises {
                    self.touch(group);
                }
                rises
            }
        }
    }

    /// The slot of the group with this label; a new one if it is not known.
    pub(super) fn group_slot(&mut self, out: &mut Emit<'_>, label: &str) -> Result<u32, RejectReason> {
        if let Some(slot) = self.devices.find_group(label) {
            return Ok(slot);
        }
        let label = DeviceId::new(label).ok_or(RejectReason::BadGroup)?;
        if self.devices.group_count() >= self.spec.devices_max {
            return Err(RejectReason::TooManyGroups);
        }
        self.take_room(out.device_cost, &label).ok_or(RejectReason::TooManyGroups)?;
        let slot = self.devices.add_group(label);
        self.revive(out.device_cost, slot);
        Ok(slot)
    }

    /// Moves a device to another group.
    pub(super) fn move_to_group(&mut self, out: &mut Emit<'_>, slot: u32, group: u32) {
        let seen = self.watermark_of(slot);
        let device = self.devices.get_mut(slot);
        device.floor.raise(seen);
        let (own, due, idle, old) = (device.watermark, device.due, device.idle, device.group);
        let has_panes = !device.panes.is_empty();
        if let Some(old) = old {
            self.leave_group(out, slot, old);
        }
        self.devices.get_mut(slot).group = Some(group);
        let rules = Rules::of(&self.spec.watermark);
        let has_members = matches!(self.spec.watermark.scope, Scope::Group(_));
        let target = self.devices.get_mut(group);
        let reached = target.watermark;
        if let Some(common) = &mut target.common {
            common.active += usize::from(!idle);
            if has_members && idle {
                common.members.add_idle(slot, own, rules);
            } else if has_members {
                common.members.add(slot, own, false, rules, reached);
            }
            if has_members && has_panes {
                common.due.insert((due, slot));
            }
        }
        self.touch(slot);
        if let Some(taps) = &mut out.taps {
            // It is under another watermark now.
            taps.note_rise(Rise::Device(slot));
        }
        if has_members && reached.time().is_some_and(|reached| due <= reached) {
            self.fire_due(out, slot, reached.time().unwrap_or(EventTime::MIN));
        }
    }

    fn leave_group(&mut self, out: &mut Emit<'_>, slot: u32, group: u32) {
        let rules = Rules::of(&self.spec.watermark);
        let device = self.devices.get(slot);
        let (own, due, idle) = (device.watermark, device.due, device.idle);
        let Some(common) = &mut self.devices.get_mut(group).common else { return };
        common.active -= usize::from(!idle);
        let last = common.active == 0 && !idle;
        common.members.remove(slot, own);
        common.members.leave_laggards_out(rules);
        common.due.remove(&(due, slot));
        // Nobody is left who could complete what the group has open.
        if last && self.spec.on_idle == OnIdle::Emit {
            self.emit_unseen(out, group);
        }
        if self.raise_common(group) {
            self.fire_common(out, Some(group));
        }
        if last && matches!(self.spec.watermark.scope, Scope::Group(_)) {
            self.release_idle(out, group);
        }
    }

    /// Whose windows a record of the device in `slot` belongs to, and under which watermark.
    #[cold]
    pub(super) fn shared_key(&mut self, key: KeySpec, slot: u32, at: EventTime) -> (u32, Watermark) {
        let owner = match key {
            KeySpec::Device => slot,
            KeySpec::Group => self.devices.get(slot).group.unwrap_or(slot),
            KeySpec::Stream => match self.devices.whole() {
                Some(whole) => whole,
                None => self.devices.add_whole(),
            },
        };
        let device = self.devices.get_mut(owner);
        device.saw(at);
        self.touch(owner);
        (owner, self.watermark_of(owner))
    }
}
