//! The devices of one stream: a slot each, found by name. So have the groups of
//! devices and the stream itself where windows or watermarks are theirs.

use core::hash::BuildHasher;
use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::model::ids::DeviceId;
use crate::model::limits::DEVICES_MAX;
use crate::model::time::{EventTime, ProcTime};

use super::names::Names;
use super::scope::Common;
use super::timers::LiveTime;
use super::tombstones::{HashedName, hashed};
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
    /// None: the slot is free.
    Vacant,
}

/// Persisted bytes of a device beside its name, of what `adaptive` measures of it, and
/// of its tombstone: none takes more.
const DEVICE_COST: usize = 72;
const LATENESS_COST: usize = 430;
pub(super) const TOMBSTONE_COST: usize = 72;

/// What a device, or a group, takes of a snapshot without its windows.
pub(super) const fn cost_of(name_bytes: usize, adaptive: bool) -> usize {
    DEVICE_COST + name_bytes + if adaptive { LATENESS_COST } else { 0 }
}

/// The key of windows over all devices of a stream.
pub(super) const WHOLE_STREAM: &str = "*";

/// Event-time progress and open windows of one device, group or stream.
///
/// In this order in memory: what every record touches is in one line of the cache.
#[repr(C)]
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// Open windows, ordered by (window, start).
    pub panes: Vec<Pane>,
    /// The watermark at which the next of its panes fires or expires.
    pub due: EventTime,
    /// A device: its own watermark. A group: the one that its devices share in scope `group`.
    pub watermark: Watermark,
    /// See [`Device::newest`].
    highest: Watermark,
    /// When its silence makes it idle; `NEVER` when it is, or can not be.
    pub idle_at: LiveTime,
    /// What it is.
    pub kind: SlotKind,
    /// A device: nothing was heard of it for the timeout, or ever.
    pub idle: bool,
    /// The stream's idle timers hold its one entry.
    pub has_timer: bool,
    /// Changed since the last commit.
    pub dirty: bool,
    /// A device: when its silence ends its state; `NEVER` when it does not.
    pub expires_at: LiveTime,
    /// Its entry among the panes that are shown by the clock; `NEVER` without one.
    pub shows_at: ProcTime,
    /// What its windows have seen already: a watermark that it shares with others
    /// counts for it from here on only. It was in another group, or under another scope.
    pub floor: Watermark,
    /// A device: the slot of the group that it was last in.
    pub group: Option<u32>,
    /// A group: what its devices have in common.
    pub common: Option<Box<Common>>,
    /// A device: how late its records were, with strategy `adaptive`.
    pub lateness: Option<Box<Histogram>>,
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
    /// Free slots; the lowest is given first, so that a restart changes nothing.
    vacant: BTreeSet<u32>,
    /// Slots that were given since the last commit, in order. Nearly always the next one
    /// is the last one, and a list has no nodes that come to lie between the panes of
    /// devices, which are fetched ahead the better the more regular their places are.
    given: Vec<u32>,
    /// Slots that were freed since the last commit, and had been given before it.
    freed: BTreeSet<u32>,
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
            vacant: BTreeSet::new(),
            given: Vec::new(),
            freed: BTreeSet::new(),
            // A fixed seed: nothing iterates the index, and the number of
            // devices is bounded, so that chosen names cannot slow it down much.
            hasher: FixedState::with_seed(0x7469_6465_6761_7465),
        }
    }
}

impl DeviceTable {
    /// Slots that there are, of devices, groups and the stream, and vacant ones.
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
        let is_it = self.names.get(guess) == name && self.get(guess).kind == SlotKind::Device;
        let found = if is_it { guess } else { self.find(name)? };
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
        let slot = self.vacant.pop_first().unwrap_or_else(|| self.grow());
        if let Err(at) = self.given.binary_search(&slot) {
            self.given.insert(at, slot);
        }
        self.names.set(slot, name);
        let device = self.get_mut(slot);
        // What is in a heap or a list stays there until it is met.
        let (has_timer, dirty) = (device.has_timer, device.dirty);
        *device = Device { kind, has_timer, dirty, ..Device::vacant() };
        slot
    }

    /// A vacant slot more, at the end.
    fn grow(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("limits::DEVICES_MAX fits 32 bits");
        self.names.push_empty();
        self.after.push(0);
        self.slots.push(Device::vacant());
        slot
    }

    /// Takes the slot of a device or group back. It has no panes.
    pub(super) fn free(&mut self, slot: u32) {
        let name = self.names.get(slot);
        match self.get(slot).kind {
            SlotKind::Device => {
                let hash = self.hasher.hash_one(name);
                if let Ok(entry) = self.index.find_entry(hash, |found| *found == slot) {
                    entry.remove();
                }
            }
            SlotKind::Group => _ = self.groups.remove(name),
            SlotKind::Stream => self.whole = None,
            SlotKind::Vacant => return,
        }
        let device = self.get_mut(slot);
        // What is in a heap or a list stays there until it is met.
        let (has_timer, dirty) = (device.has_timer, device.dirty);
        *device = Device { has_timer, dirty, ..Device::vacant() };
        // Its name stays until another has the slot: joins may ask for it yet.
        self.vacant.insert(slot);
        match self.given.binary_search(&slot) {
            Ok(at) => _ = self.given.remove(at),
            Err(_) => _ = self.freed.insert(slot),
        }
    }

    /// As it was persisted: this slot is given. False when it is not vacant, or far
    /// beyond the others.
    pub(super) fn restore(&mut self, slot: u32, kind: SlotKind, name: DeviceId) -> bool {
        let known = match kind {
            SlotKind::Device => self.find(name.as_str()).is_some(),
            SlotKind::Group => self.find_group(name.as_str()).is_some(),
            SlotKind::Stream => self.whole.is_some(),
            SlotKind::Vacant => true,
        };
        if known || slot as usize > 3 * DEVICES_MAX {
            return false;
        }
        while self.slots.len() <= slot as usize {
            let vacant = self.grow();
            self.vacant.insert(vacant);
        }
        if !self.vacant.contains(&slot) {
            return false;
        }
        // The one that comes next is the one that is asked for.
        let others = core::mem::replace(&mut self.vacant, BTreeSet::from([slot]));
        match kind {
            SlotKind::Device => self.add(&name),
            SlotKind::Group => self.add_group(name),
            SlotKind::Stream | SlotKind::Vacant => self.add_whole(),
        };
        self.vacant = others;
        self.vacant.remove(&slot);
        true
    }

    /// Slots that were freed since the last commit, and had been given before it.
    pub(super) fn freed(&self) -> &BTreeSet<u32> {
        &self.freed
    }

    /// Slots that were given since the last commit.
    pub(super) fn given(&self) -> &[u32] {
        &self.given
    }

    /// All slots that are not vacant.
    pub(super) fn occupied(&self) -> impl Iterator<Item = u32> + Clone {
        self.slots().filter(|(_, _, device)| device.kind != SlotKind::Vacant).map(|(slot, ..)| slot)
    }

    /// What was given and freed is durable.
    pub(super) fn mark_committed(&mut self) {
        self.given.clear();
        self.freed.clear();
    }

    /// The slots of devices, in order of first appearance.
    pub(super) fn devices(&self) -> impl Iterator<Item = u32> {
        self.slots().filter(|(_, _, device)| device.kind == SlotKind::Device).map(|(slot, ..)| slot)
    }

    /// The name in a slot.
    pub(super) fn name(&self, slot: u32) -> &str {
        self.names.get(slot)
    }

    /// What is left of it in a tombstone.
    pub(super) fn hashed_name(&self, slot: u32) -> HashedName {
        hashed(self.get(slot).kind, self.name(slot))
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

    /// All slots, vacant ones too.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, &str, &Device)> + Clone {
        (0_u32..).zip(self.names.iter()).zip(&self.slots).map(|((slot, name), device)| (slot, name, device))
    }
}

impl Device {
    fn vacant() -> Device {
        Device {
            kind: SlotKind::Vacant,
            watermark: Watermark::default(),
            floor: Watermark::default(),
            highest: Watermark::NONE,
            lateness: None,
            group: None,
            common: None,
            idle: true,
            idle_at: LiveTime::NEVER,
            shows_at: ProcTime::NEVER,
            has_timer: false,
            expires_at: LiveTime::NEVER,
            dirty: false,
            due: EventTime::MAX,
            panes: Vec::new(),
        }
    }

    /// Highest accepted event time.
    pub(super) fn newest(&self) -> Option<EventTime> {
        self.highest.time()
    }

    /// A record was accepted.
    #[inline]
    pub(super) fn saw(&mut self, at: EventTime) {
        self.highest.raise(Watermark::restore(Some(at)));
    }

    /// As it was persisted.
    pub(super) fn set_newest(&mut self, newest: Option<EventTime>) {
        self.highest = Watermark::restore(newest);
    }

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

    /// Puts a pane where it belongs, in the place of one of the same window.
    pub(super) fn put_pane(&mut self, pane: Pane) {
        match self.pane_position(pane.window, pane.start) {
            Ok(index) => self.panes[index] = pane,
            Err(index) => self.insert_pane(index, pane),
        }
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
    fn a_freed_slot_is_given_again_lowest_first_and_a_commit_hears_of_both() {
        let mut table = DeviceTable::default();
        let name = |number: u32| DeviceId::new(&format!("d{number}")).expect("valid");
        for number in 0..5 {
            table.add(&name(number));
        }
        table.mark_committed();
        for slot in [3, 1] {
            table.free(slot);
        }
        assert_eq!((table.find("d3"), table.device_count(), table.len()), (None, 3, 5));
        assert_eq!((table.add(&name(7)), table.find("d7")), (1, Some(1)));
        table.free(1);
        assert_eq!((table.add(&name(8)), table.add(&name(9)), table.add(&name(10))), (1, 3, 5));
        table.free(5);
        assert!(table.freed().iter().eq(&[1, 3]) && table.given().iter().eq(&[1, 3]));
        assert!(table.occupied().eq(0..5));

        let mut restored = DeviceTable::default();
        for (slot, number) in [(4, 4), (1, 8), (0, 0), (3, 9)] {
            assert!(restored.restore(slot, SlotKind::Device, name(number)));
        }
        assert!(!restored.restore(4, SlotKind::Device, name(5)), "it is taken");
        assert!(!restored.restore(2, SlotKind::Device, name(8)), "it has one");
        assert_eq!(restored.add(&name(11)), 2);
        assert_eq!((restored.find("d9"), restored.find("d8"), restored.len()), (Some(3), Some(1), 5));
    }

    #[test]
    fn a_device_a_group_and_the_stream_may_have_one_name() {
        let mut table = DeviceTable::default();
        let name = || DeviceId::new(WHOLE_STREAM).expect("valid");
        assert_eq!((table.add(&name()), table.add_group(name()), table.add_whole()), (0, 1, 2));
        assert_eq!((table.find("*"), table.find_group("*"), table.whole()), (Some(0), Some(1), Some(2)));
        assert_eq!((table.len(), table.device_count(), table.group_count()), (3, 1, 1));
    }

    #[test]
    fn the_device_that_followed_the_last_time_is_only_a_guess() {
        let mut table = DeviceTable::default();
        let name = |text: &str| DeviceId::new(text).expect("valid");
        table.add_group(name("a"));
        assert_eq!(table.find_next("a"), None, "a group is no device");
        assert_eq!((table.add(&name("a")), table.add(&name("b"))), (1, 2));
        for order in [["a", "b", "a", "b"], ["b", "b", "a", "a"]] {
            for device in order {
                assert_eq!(table.find_next(device), table.find(device), "{device}");
            }
        }
        table.free(2);
        assert_eq!((table.find_next("a"), table.find_next("b")), (Some(1), None));
        assert_eq!((table.add(&name("c")), table.find_next("c"), table.find_next("b")), (2, Some(2), None));
    }
}
