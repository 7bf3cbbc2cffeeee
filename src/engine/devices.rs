//! The devices of one stream: a slot each, found by name. So have the groups of
//! devices and the stream itself where windows or watermarks are theirs.

use core::hash::BuildHasher;
use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::model::ids::DeviceId;
use crate::model::time::EventTime;

use super::names::Names;
use super::scope::Common;
use super::timers::LiveTime;
use super::watermark::Watermark;
use super::watermark::adaptive::Histogram;
use super::window::pane::Pane;

/// Whose windows a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotKind {
    /// Those of a device.
    Device,
    /// Those of all devices with one group label, which is the slot's name.
    Group,
    /// Those of all devices. Its name is [`WHOLE_STREAM`].
    Stream,
}

/// Persisted bytes of a device beside its name, and of what `adaptive` measures of it:
/// no device takes more.
const DEVICE_COST: usize = 64;
const LATENESS_COST: usize = 430;

/// What a device, or a group, takes of a snapshot without its windows.
pub(super) const fn cost_of(name_bytes: usize, adaptive: bool) -> usize {
    DEVICE_COST + name_bytes + if adaptive { LATENESS_COST } else { 0 }
}

/// The key of windows over all devices of a stream.
pub(super) const WHOLE_STREAM: &str = "*";

/// Event-time progress and open windows of one device, group or stream.
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// What it is.
    pub kind: SlotKind,
    /// A device: its own watermark. A group: the one that its devices share in scope `group`.
    pub watermark: Watermark,
    /// What its windows have seen already: a watermark that it shares with others
    /// counts for it from here on only. It was in another group, or under another scope.
    pub floor: Watermark,
    /// Highest accepted event time.
    pub newest: Option<EventTime>,
    /// A device: the slot of the group that it was last in.
    pub group: Option<u32>,
    /// A group: what its devices have in common.
    pub common: Option<Box<Common>>,
    /// A device: how late its records were, with strategy `adaptive`.
    pub lateness: Option<Box<Histogram>>,
    /// A device: nothing was heard of it for the timeout, or ever.
    pub idle: bool,
    /// When its silence makes it idle; `NEVER` when it is, or can not be.
    pub idle_at: LiveTime,
    /// The stream's idle timers hold its one entry.
    pub has_timer: bool,
    /// Changed since the last commit.
    pub dirty: bool,
    /// The watermark at which the next of its panes fires or expires.
    pub due: EventTime,
    /// Open windows, ordered by (window, start).
    pub panes: Vec<Pane>,
}

/// Slots in order of first appearance. Iteration is over slots, so that no
/// output depends on hashing.
#[derive(Clone, Debug)]
pub(super) struct DeviceTable {
    names: Names,
    slots: Vec<Device>,
    index: HashTable<u32>,
    /// By slot: whose record came after the last one of it; and whose came last.
    after: Vec<u32>,
    last: u32,
    /// Slots of groups, in order of their names.
    groups: BTreeMap<DeviceId, u32>,
    /// The slot of the stream itself.
    whole: Option<u32>,
    hasher: FixedState,
}

impl Default for DeviceTable {
    fn default() -> DeviceTable {
        DeviceTable {
            names: Names::default(),
            slots: Vec::new(),
            index: HashTable::new(),
            after: Vec::new(),
            last: 0,
            groups: BTreeMap::new(),
            whole: None,
            // A fixed seed: nothing iterates the index, and the number of
            // devices is bounded, so that chosen names cannot slow it down much.
            hasher: FixedState::with_seed(0x7469_6465_6761_7465),
        }
    }
}

impl DeviceTable {
    /// Slots given, to devices, groups and the stream.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Devices known.
    pub(super) fn device_count(&self) -> usize {
        self.index.len()
    }

    /// Groups known.
    pub(super) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The slot of a device, if it is known.
    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.index.find(hash, |slot| self.names.get(*slot) == name).copied()
    }

    /// As [`DeviceTable::find`], for a record. Devices that report at fixed intervals,
    /// or are polled, come in the same order again and again: then the one that followed
    /// the last time is the one, and nothing is searched.
    #[inline]
    pub(super) fn find_next(&mut self, name: &str) -> Option<u32> {
        let guess = *self.after.get(self.last as usize)?;
        let found = if self.names.get(guess) == name { guess } else { self.find(name)? };
        self.after[self.last as usize] = found;
        self.last = found;
        Some(found)
    }

    /// The slot of a group, if it is known.
    pub(super) fn find_group(&self, label: &str) -> Option<u32> {
        self.groups.get(label).copied()
    }

    /// The slot of the stream itself, if it has one.
    #[inline]
    pub(super) fn whole(&self) -> Option<u32> {
        self.whole
    }

    /// Gives a new device its slot. The caller has looked for it and has
    /// checked the bound.
    pub(super) fn add(&mut self, name: &DeviceId) -> u32 {
        let hash = self.hasher.hash_one(name.as_str());
        let slot = self.push(name.as_str(), SlotKind::Device);
        let names = &self.names;
        let hasher = &self.hasher;
        self.index.insert_unique(hash, slot, |slot| hasher.hash_one(names.get(*slot)));
        slot
    }

    /// As [`DeviceTable::add`], for a group.
    pub(super) fn add_group(&mut self, label: DeviceId) -> u32 {
        let slot = self.push(label.as_str(), SlotKind::Group);
        self.get_mut(slot).common = Some(Box::default());
        self.groups.insert(label, slot);
        slot
    }

    /// Gives the stream itself a slot. It has none yet.
    pub(super) fn add_whole(&mut self) -> u32 {
        let slot = self.push(WHOLE_STREAM, SlotKind::Stream);
        self.whole = Some(slot);
        slot
    }

    fn push(&mut self, name: &str, kind: SlotKind) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("limits::DEVICES_MAX fits 32 bits");
        self.names.push(name);
        self.after.push(0);
        self.slots.push(Device {
            kind,
            watermark: Watermark::default(),
            floor: Watermark::default(),
            newest: None,
            group: None,
            common: None,
            lateness: None,
            idle: true,
            idle_at: LiveTime::NEVER,
            has_timer: false,
            dirty: false,
            due: EventTime::MAX,
            panes: Vec::new(),
        });
        slot
    }

    /// The slots of devices, in order of first appearance.
    pub(super) fn devices(&self) -> impl Iterator<Item = u32> {
        self.slots().filter(|(_, _, device)| device.kind == SlotKind::Device).map(|(slot, ..)| slot)
    }

    /// The name in a slot.
    pub(super) fn name(&self, slot: u32) -> &str {
        self.names.get(slot)
    }

    /// A copy of it: at most 128 bytes, no allocation.
    pub(super) fn id(&self, slot: u32) -> DeviceId {
        DeviceId::new(self.name(slot)).expect("it was one when it was added")
    }

    /// The device in a slot that [`DeviceTable::find`] or [`DeviceTable::add`] gave.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> &Device {
        &self.slots[slot as usize]
    }

    /// As [`DeviceTable::get`], to change it.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Device {
        &mut self.slots[slot as usize]
    }

    /// All slots, in order of first appearance.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, &str, &Device)> {
        (0_u32..).zip(self.names.iter()).zip(&self.slots).map(|((slot, name), device)| (slot, name, device))
    }
}

impl Device {
    /// Room for four at first, and then for half as many again: enough for most, so that
    /// the panes of all devices stay where they were put, one behind the other, and are
    /// fetched ahead; and not more, for this is most of the memory.
    pub(super) fn insert_pane(&mut self, index: usize, pane: Pane) {
        if self.panes.len() == self.panes.capacity() {
            let more = if self.panes.is_empty() { 4 } else { self.panes.len().div_ceil(2) };
            self.panes.reserve_exact(more);
        }
        self.panes.insert(index, pane);
    }

    /// Where the pane of that window is, or where it belongs.
    #[inline]
    pub(super) fn pane_position(&self, window: u8, start: EventTime) -> Result<usize, usize> {
        // The newest window is asked for nearly always.
        match self.panes.last() {
            None => Err(0),
            Some(last) if (last.window, last.start) == (window, start) => Ok(self.panes.len() - 1),
            Some(last) if (last.window, last.start) < (window, start) => Err(self.panes.len()),
            Some(_) => self.panes.binary_search_by_key(&(window, start), |pane| (pane.window, pane.start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_name_and_kept_in_order_of_appearance() {
        let mut table = DeviceTable::default();
        for number in 0..1_000_u32 {
            let name = DeviceId::new(&format!("device-{number}")).expect("valid");
            assert_eq!(table.find(name.as_str()), None);
            assert_eq!(table.add(&name), number);
        }
        for number in 0..1_000_u32 {
            assert_eq!(table.find(&format!("device-{number}")), Some(number));
        }
        assert!(table.slots().map(|(slot, ..)| slot).eq(0..1_000));
    }

    #[test]
    fn a_device_a_group_and_the_stream_may_have_one_name() {
        let mut table = DeviceTable::default();
        let name = || DeviceId::new(WHOLE_STREAM).expect("valid");
        assert_eq!((table.add(&name()), table.add_group(name()), table.add_whole()), (0, 1, 2));
        assert_eq!((table.find("*"), table.find_group("*"), table.whole()), (Some(0), Some(1), Some(2)));
        assert_eq!((table.len(), table.device_count(), table.group_count()), (3, 1, 1));
    }
}
