//! Windows that may not be opened again, because their ids were used under a
//! definition of before.
//!
//! A window that is opened twice counts its revisions from 0 twice, with other
//! content: a receiver would keep whichever came first, and lose the other. So
//! when a window's size or offset changes under its name, when the name goes away,
//! or when `lateness` grows (what has expired would open again), a fence is set for
//! each device: windows of that name which start at or before it stay shut, and
//! their records go to lane `late` as `redefined`.
//!
//! Where a stream begins anew under its name, because it means something else or was taken out
//! and put back, its devices are not known: then the fence is in front of a device, or of what is
//! left of one (`tombstones.rs`), by its hashed name, or of all of them. Together with the borders
//! of `retire.rs` they are bounded: see `fit/borders.rs`.
//!
//! Fences change with the configuration only, which is followed by a snapshot: pages know
//! nothing of them, but that those of a slot go when the slot is freed.

use std::collections::BTreeMap;

use crate::model::ids::Name;
use crate::model::time::EventTime;

use super::devices::DeviceTable;
use super::stream::Stream;
use super::tombstones::HashedName;
use super::wire::{Damaged, Reader, put_fixed, put_i64, put_str, put_u64};

/// Names with fences in one stream; the oldest goes first.
const NAMES_MAX: usize = 16;

/// Windows of streams that are configured no more; the oldest go first.
const GRAVES_MAX: usize = 256;

/// Bytes of a fence in front of a slot, in memory; a snapshot has less.
const SLOT_COST: usize = 24;
/// The same for one in front of a name.
const NAME_COST: usize = 40;

/// The fences of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Fences {
    by_slot: Vec<Fence>,
    /// In front of devices that may come again.
    by_name: Vec<Named>,
    /// In front of everybody.
    everywhere: Vec<(Name, EventTime)>,
}

#[derive(Clone, Debug)]
struct Fence {
    window: Name,
    /// By the slot of the device: the last start that is shut.
    until: BTreeMap<u32, EventTime>,
}

#[derive(Clone, Debug)]
struct Named {
    window: Name,
    until: BTreeMap<HashedName, EventTime>,
}

/// The windows of streams that are configured no more, up to the last one that any device had.
#[derive(Clone, Debug, Default)]
pub(super) struct Graves(Vec<Grave>);

#[derive(Clone, Debug)]
struct Grave {
    stream: Name,
    window: Name,
    until: EventTime,
}

impl Fences {
    pub(super) fn is_empty(&self) -> bool {
        self.by_slot.is_empty() && self.by_name.is_empty() && self.everywhere.is_empty()
    }

    /// Shuts the windows of a device that start at `until` or before, whatever slot it gets.
    pub(super) fn shut_for(&mut self, window: &Name, device: HashedName, until: EventTime) {
        let place = self.by_name.iter().position(|named| named.window == *window).unwrap_or_else(|| {
            if self.by_name.len() >= NAMES_MAX {
                self.by_name.remove(0);
            }
            self.by_name.push(Named { window: window.clone(), until: BTreeMap::new() });
            self.by_name.len() - 1
        });
        let known = self.by_name[place].until.entry(device).or_insert(until);
        *known = until.max(*known);
    }

    /// Shuts the windows of all devices that start at `until` or before.
    pub(super) fn shut_everywhere(&mut self, window: &Name, until: EventTime) {
        if let Some((_, known)) = self.everywhere.iter_mut().find(|(known, _)| known == window) {
            *known = until.max(*known);
            return;
        }
        if self.everywhere.len() >= NAMES_MAX {
            self.everywhere.remove(0);
        }
        self.everywhere.push((window.clone(), until));
    }

    /// What another stream of this name had. `devices`: those of that stream.
    pub(super) fn take_over(&mut self, other: &Fences, devices: &DeviceTable) {
        for fence in &other.by_slot {
            for (slot, until) in &fence.until {
                self.shut_for(&fence.window, devices.hashed_name(*slot), *until);
            }
        }
        for named in &other.by_name {
            for (device, until) in &named.until {
                self.shut_for(&named.window, *device, *until);
            }
        }
        for (window, until) in &other.everywhere {
            self.shut_everywhere(window, *until);
        }
    }

    /// Bytes that the fences take which grow with the devices.
    pub(super) fn cost(&self) -> usize {
        let slots: usize = self.by_slot.iter().map(|fence| fence.until.len()).sum();
        let names: usize = self.by_name.iter().map(|named| named.until.len()).sum();
        slots * SLOT_COST + names * NAME_COST
    }

    /// Makes one fence in front of all devices of those in front of names. False: there are none.
    pub(super) fn merge_names(&mut self) -> bool {
        let named = core::mem::take(&mut self.by_name);
        for Named { window, until } in &named {
            if let Some(until) = until.values().max() {
                self.shut_everywhere(window, *until);
            }
        }
        !named.is_empty()
    }

    /// The same for those in front of slots.
    pub(super) fn merge_slots(&mut self) -> bool {
        let fences = core::mem::take(&mut self.by_slot);
        for Fence { window, until } in &fences {
            if let Some(until) = until.values().max() {
                self.shut_everywhere(window, *until);
            }
        }
        !fences.is_empty()
    }

    /// The last start that is shut, of any device.
    fn highest(&self, window: &Name) -> Option<EventTime> {
        let by_slot =
            self.by_slot.iter().filter(|fence| fence.window == *window).flat_map(|fence| fence.until.values());
        let by_name =
            self.by_name.iter().filter(|named| named.window == *window).flat_map(|named| named.until.values());
        let everywhere = self.everywhere.iter().filter(|(known, _)| known == window).map(|(_, until)| until);
        by_slot.chain(by_name).chain(everywhere).copied().max()
    }

    /// Shuts the windows of a device that start at `until` or before.
    pub(super) fn shut(&mut self, window: &Name, slot: u32, until: EventTime) {
        let place = self.by_slot.iter().position(|fence| fence.window == *window).unwrap_or_else(|| {
            if self.by_slot.len() >= NAMES_MAX {
                self.by_slot.remove(0);
            }
            self.by_slot.push(Fence { window: window.clone(), until: BTreeMap::new() });
            self.by_slot.len() - 1
        });
        let known = self.by_slot[place].until.entry(slot).or_insert(until);
        *known = until.max(*known);
    }

    /// The last start that is shut for a device. `devices`: in one of whose slots it is.
    pub(super) fn last_shut(&self, window: &Name, slot: u32, devices: &DeviceTable) -> Option<EventTime> {
        let of_slot = self.by_slot.iter().filter(|fence| fence.window == *window);
        let of_slot = of_slot.filter_map(|fence| fence.until.get(&slot));
        let of_name = self.by_name.iter().filter(|named| named.window == *window);
        let of_name = of_name.filter_map(|named| named.until.get(&devices.hashed_name(slot)));
        let everywhere = self.everywhere.iter().filter(|(known, _)| known == window).map(|(_, until)| until);
        of_slot.chain(of_name).chain(everywhere).copied().max()
    }

    /// The fences of a slot.
    pub(super) fn of(&self, slot: u32) -> impl Iterator<Item = (&Name, EventTime)> {
        self.by_slot.iter().filter_map(move |fence| Some((&fence.window, *fence.until.get(&slot)?)))
    }

    /// The slot is another device's from now on.
    pub(super) fn forget(&mut self, slot: u32) {
        for fence in &mut self.by_slot {
            fence.until.remove(&slot);
        }
    }

    /// Keeps the fences for which `is_needed` says so.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&Name, u32, EventTime) -> bool) {
        for fence in &mut self.by_slot {
            let window = &fence.window;
            fence.until.retain(|slot, until| is_needed(window, *slot, *until));
        }
        self.by_slot.retain(|fence| !fence.until.is_empty());
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.by_slot.len() as u64);
        for fence in &self.by_slot {
            put_str(out, fence.window.as_str());
            put_u64(out, fence.until.len() as u64);
            for (slot, until) in &fence.until {
                put_u64(out, u64::from(*slot));
                put_i64(out, until.as_millis());
            }
        }
    }

    /// The fences that are not in front of slots.
    pub(super) fn write_others(&self, out: &mut Vec<u8>) {
        put_u64(out, self.by_name.len() as u64);
        for named in &self.by_name {
            put_str(out, named.window.as_str());
            put_u64(out, named.until.len() as u64);
            for (device, until) in &named.until {
                put_fixed(out, device.0);
                put_fixed(out, device.1);
                put_i64(out, until.as_millis());
            }
        }
        put_u64(out, self.everywhere.len() as u64);
        for (window, until) in &self.everywhere {
            put_str(out, window.as_str());
            put_i64(out, until.as_millis());
        }
    }

    /// Reads what [`Fences::write`] wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are no fences.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Fences, Damaged> {
        let mut fences = Fences::default();
        for _ in 0..reader.u64()? {
            let window = Name::new(reader.str()?).ok_or(Damaged)?;
            for _ in 0..reader.u64()? {
                let (slot, until) = (reader.uint()?, EventTime::from_millis(reader.i64()?));
                fences.shut(&window, slot, until);
            }
        }
        Ok(fences)
    }

    /// Reads what [`Fences::write_others`] wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are no fences.
    pub(super) fn read_others(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for _ in 0..reader.u64()? {
            let window = Name::new(reader.str()?).ok_or(Damaged)?;
            for _ in 0..reader.u64()? {
                let device = (reader.fixed()?, reader.fixed()?);
                self.shut_for(&window, device, EventTime::from_millis(reader.i64()?));
            }
        }
        for _ in 0..reader.u64()? {
            let window = Name::new(reader.str()?).ok_or(Damaged)?;
            self.shut_everywhere(&window, EventTime::from_millis(reader.i64()?));
        }
        Ok(())
    }
}

impl Graves {
    /// For a stream that has ended.
    pub(super) fn dig(&mut self, stream: &Stream) {
        let newest = stream.everybody().map(|(_, newest)| newest).max();
        for window in stream.spec.windows.iter().map(|window| &window.name) {
            let Some(until) = newest.max(stream.fences.highest(window)) else { continue };
            self.add(&stream.spec.name, window, until);
        }
    }

    fn add(&mut self, stream: &Name, window: &Name, until: EventTime) {
        let mut graves = self.0.iter_mut();
        if let Some(grave) = graves.find(|grave| grave.stream == *stream && grave.window == *window) {
            grave.until = until.max(grave.until);
            return;
        }
        if self.0.len() >= GRAVES_MAX {
            self.0.remove(0);
        }
        self.0.push(Grave { stream: stream.clone(), window: window.clone(), until });
    }

    /// For a stream that begins: nothing of one that had its name before is used again.
    pub(super) fn fence(&self, stream: &mut Stream) {
        for grave in self.0.iter().filter(|grave| grave.stream == stream.spec.name) {
            stream.fences.shut_everywhere(&grave.window, grave.until);
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        for grave in &self.0 {
            put_str(out, grave.stream.as_str());
            put_str(out, grave.window.as_str());
            put_i64(out, grave.until.as_millis());
        }
    }

    /// Reads what [`Graves::write`] wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are none.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Graves, Damaged> {
        let mut graves = Graves::default();
        for _ in 0..reader.u64()? {
            let stream = Name::new(reader.str()?).ok_or(Damaged)?;
            let window = Name::new(reader.str()?).ok_or(Damaged)?;
            graves.add(&stream, &window, EventTime::from_millis(reader.i64()?));
        }
        Ok(graves)
    }
}
