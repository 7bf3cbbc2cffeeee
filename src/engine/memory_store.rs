//! A medium in memory: [`MemorySlots`] under the [`Ring`]. PURE.
//!
//! Replay uses it as a plain store. Tests and the simulator use it as a disk
//! that behaves badly on purpose, and the same way for the same seed:
//!
//! - [`crash_after`](MemorySlots::crash_after) cuts the power at the n-th write
//!   or sync. From then on everything fails, until [`reopen`](MemorySlots::reopen)
//!   gives what survived: each value written since the last sync is kept, lost
//!   or torn, independently of the others.
//! - blocks of the chains are under the same power; a sync of slots is none of blocks.
//! - [`fail_at`](MemorySlots::fail_at) lets one write or sync fail. After a
//!   failed sync the unsynced values are kept, lost or torn at once, and no
//!   later sync brings them back, as with a real kernel.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::rng::Rng;

use super::chain::Chain;
use super::ring::slots::{SlotError, SlotId, Slots};
use super::ring::{Packing, Ring};
use super::store::StoreError;

/// The engine's store when nothing has to survive.
pub type MemoryStore = Ring<MemorySlots>;

/// An empty store in memory, without faults.
pub fn memory_store() -> MemoryStore {
    Ring::new(MemorySlots::new(0), Packing::NONE)
}

/// Slots in memory that can crash, tear and fail.
#[derive(Clone, Debug)]
pub struct MemorySlots {
    /// What a reader sees now.
    current: BTreeMap<SlotId, Vec<u8>>,
    /// The values before the writes since the last sync (`None`: unwritten),
    /// in the order of those writes.
    unsynced: Vec<(SlotId, Option<Vec<u8>>)>,
    /// The chains: blocks by lane and number.
    blocks: BTreeMap<(u8, u64), Vec<u8>>,
    /// Those since the last sync of blocks.
    unsynced_blocks: BTreeSet<(u8, u64)>,
    random: Rng,
    operations: u64,
    crash_at: Option<u64>,
    fault: Option<(u64, SlotError)>,
}

impl MemorySlots {
    /// An empty medium. `seed` decides what a crash does to unsynced values.
    #[must_use]
    pub fn new(seed: u64) -> MemorySlots {
        MemorySlots {
            current: BTreeMap::new(),
            unsynced: Vec::new(),
            blocks: BTreeMap::new(),
            unsynced_blocks: BTreeSet::new(),
            random: Rng::new(seed),
            operations: 0,
            crash_at: None,
            fault: None,
        }
    }

    /// Cuts the power at the `n`-th write or sync from now (from 1): it and
    /// everything after it fails, until [`reopen`](Self::reopen).
    pub fn crash_after(&mut self, n: u64) {
        self.crash_at = Some(self.operations + n);
    }

    /// Lets the `n`-th write or sync from now (from 1) fail with `error`.
    pub fn fail_at(&mut self, n: u64, error: SlotError) {
        self.fault = Some((self.operations + n, error));
    }

    /// True when the power is off.
    pub fn crashed(&self) -> bool {
        self.crash_at.is_some_and(|at| self.operations >= at)
    }

    /// Writes and syncs so far, to aim `crash_after` at every one of them.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// The medium after a power cut (now, or when it crashed): what was synced,
    /// and of the rest whatever the seed decides. No faults are pending.
    #[must_use]
    pub fn reopen(mut self) -> MemorySlots {
        self.settle();
        self.settle_blocks();
        MemorySlots { crash_at: None, fault: None, ..self }
    }

    /// The value in a slot, to damage it as a bad medium would.
    pub fn value_mut(&mut self, slot: SlotId) -> Option<&mut Vec<u8>> {
        self.current.get_mut(&slot)
    }

    /// Every slot that holds something, in order.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> {
        self.current.keys().copied()
    }

    /// The block of a lane, to damage it as a bad medium would.
    pub fn block_mut(&mut self, lane: u8, number: u64) -> Option<&mut Vec<u8>> {
        self.blocks.get_mut(&(lane, number))
    }

    /// Every block that is there: lane and number.
    pub fn blocks(&self) -> impl Iterator<Item = (u8, u64)> {
        self.blocks.keys().copied()
    }

    /// Loses every slot, and keeps the chains.
    pub fn forget_slots(&mut self) {
        self.current.clear();
        self.unsynced.clear();
    }

    /// Loses a value without a trace.
    pub fn remove(&mut self, slot: SlotId) {
        self.current.remove(&slot);
    }

    /// Decides the fate of every unsynced write. The newest goes first: only when
    /// it is lost, the value that the write before it left is in question.
    fn settle(&mut self) {
        let mut settled = BTreeSet::new();
        while let Some((slot, old)) = self.unsynced.pop() {
            if settled.contains(&slot) {
                continue;
            }
            match self.random.below(4) {
                0 | 1 => _ = settled.insert(slot),
                2 => self.put_back(slot, old),
                _ => {
                    let torn = self.tear(slot, old.as_deref());
                    self.put_back(slot, Some(torn));
                    settled.insert(slot);
                }
            }
        }
    }

    /// A block that was not synced is there, is not, or is cut short.
    fn settle_blocks(&mut self) {
        for block in core::mem::take(&mut self.unsynced_blocks) {
            match self.random.below(3) {
                0 => {}
                1 => _ = self.blocks.remove(&block),
                _ => {
                    let bytes = self.blocks.entry(block).or_default();
                    let keep = self.random.below(bytes.len() as u64 + 1);
                    bytes.truncate(usize::try_from(keep).expect("at most the length of a Vec"));
                }
            }
        }
    }

    fn put_back(&mut self, slot: SlotId, old: Option<Vec<u8>>) {
        match old {
            Some(value) => self.current.insert(slot, value),
            None => self.current.remove(&slot),
        };
    }

    /// The start of the new value, then the rest of the old one or nothing.
    fn tear(&mut self, slot: SlotId, old: Option<&[u8]>) -> Vec<u8> {
        let mut torn = self.current.get(&slot).cloned().unwrap_or_default();
        let keep = self.random.below(torn.len() as u64 + 1);
        torn.truncate(usize::try_from(keep).expect("at most the length of a Vec"));
        if self.random.below(2) == 0
            && let Some(rest) = old.and_then(|old| old.get(torn.len()..))
        {
            torn.extend_from_slice(rest);
        }
        torn
    }

    /// Counts an operation and says whether it fails.
    fn operate(&mut self) -> Result<(), SlotError> {
        if self.crashed() {
            return Err(SlotError::Failed("the power is off".into()));
        }
        self.operations += 1;
        if self.crashed() {
            return Err(SlotError::Failed("the power goes off".into()));
        }
        match self.fault.take_if(|(at, _)| *at <= self.operations) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

impl Slots for MemorySlots {
    fn read(&mut self, slot: SlotId, into: &mut Vec<u8>) -> Result<bool, SlotError> {
        into.clear();
        let Some(value) = self.current.get(&slot) else { return Ok(false) };
        into.extend_from_slice(value);
        Ok(true)
    }

    fn write(&mut self, slot: SlotId, value: &[u8]) -> Result<(), SlotError> {
        let was_off = self.crashed();
        let result = self.operate();
        // A write that fails may still have reached the medium; one that was
        // refused for want of space has not, nor one after the power cut.
        if !was_off && result != Err(SlotError::Full) {
            let old = self.current.insert(slot, value.to_vec());
            self.unsynced.push((slot, old));
        }
        result
    }

    fn sync(&mut self) -> Result<(), SlotError> {
        let result = self.operate();
        if result.is_ok() {
            self.unsynced.clear();
        } else if !self.crashed() {
            self.settle();
        }
        result
    }
}

impl Chain for MemorySlots {
    fn append_block(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        let was_off = self.crashed();
        let result = self.operate();
        if !was_off && result != Err(SlotError::Full) {
            self.blocks.insert((lane, number), block.to_vec());
            self.unsynced_blocks.insert((lane, number));
        }
        result.map(|()| block.len() as u64).map_err(into_store_error)
    }

    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        self.operate().map_err(into_store_error)?;
        self.unsynced_blocks.clear();
        Ok(())
    }

    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        into.clear();
        let Some(block) = self.blocks.get(&(lane, number)) else { return Ok(false) };
        into.extend_from_slice(block);
        Ok(true)
    }

    fn free_blocks(&mut self, lane: u8, first: u64) -> Result<(), StoreError> {
        self.operate().map_err(into_store_error)?;
        self.blocks.retain(|(of, number), _| *of != lane || *number >= first);
        self.unsynced_blocks.retain(|(of, number)| *of != lane || *number >= first);
        Ok(())
    }

    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        Ok(self.blocks.keys().filter(|(of, _)| *of == lane).map(|(_, number)| *number).collect())
    }

    fn chain_bytes(&self) -> u64 {
        self.blocks.values().map(|block| block.len() as u64).sum()
    }
}

fn into_store_error(error: SlotError) -> StoreError {
    match error {
        SlotError::Full => StoreError::Full,
        SlotError::Failed(why) | SlotError::Gone(why) => StoreError::Failed(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ring::slots::{Set, SlotKind};

    fn slot(index: u16) -> SlotId {
        SlotId { set: Set::A, kind: SlotKind::Page, index }
    }

    fn read(slots: &mut MemorySlots, index: u16) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        slots.read(slot(index), &mut value).unwrap().then_some(value)
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_leaves_the_rest_to_the_seed() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let mut slots = MemorySlots::new(seed);
            slots.write(slot(0), b"old").unwrap();
            slots.sync().unwrap();
            slots.write(slot(0), b"newer").unwrap();
            slots.write(slot(1), b"x").unwrap();
            slots.crash_after(1);
            slots.sync().unwrap_err();
            slots.sync().unwrap_err();
            slots.write(slot(2), b"never").unwrap_err();
            assert!(slots.crashed());

            let mut slots = slots.reopen();
            assert_eq!(read(&mut slots, 2), None);
            outcomes.insert((read(&mut slots, 0).unwrap(), read(&mut slots, 1)));
            slots.sync().expect("the power is back");
        }
        let kept_and_lost = (b"newer".to_vec(), None);
        let lost_and_kept = (b"old".to_vec(), Some(b"x".to_vec()));
        assert!(outcomes.contains(&kept_and_lost) && outcomes.contains(&lost_and_kept), "{outcomes:?}");
        assert!(outcomes.iter().any(|(first, _)| first != b"old" && first != b"newer"), "one is torn");
    }

    #[test]
    fn an_injected_fault_hits_one_operation_only() {
        let mut slots = MemorySlots::new(1);
        slots.fail_at(2, SlotError::Full);
        slots.write(slot(0), b"a").unwrap();
        assert_eq!(slots.write(slot(0), b"b"), Err(SlotError::Full));
        assert_eq!(read(&mut slots, 0).unwrap(), b"a", "a refused write changes nothing");
        slots.write(slot(0), b"c").unwrap();
        slots.sync().unwrap();
        assert_eq!(read(&mut slots, 0).unwrap(), b"c");
    }
}
