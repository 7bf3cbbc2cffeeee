//! The disk: [`MemorySlots`] behind a handle, so that the world can hurt it while
//! the driver owns it.

use std::cell::RefCell;
use std::rc::Rc;

use tidegate::engine::chain::Chain;
use tidegate::engine::memory_store::MemorySlots;
use tidegate::engine::ring::slots::{SlotError, SlotId, Slots};
use tidegate::engine::store::StoreError;

#[derive(Clone, Debug)]
pub(crate) struct Disk(Rc<RefCell<Medium>>);

#[derive(Debug)]
struct Medium {
    slots: MemorySlots,
    full: bool,
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Disk {
        Disk(Rc::new(RefCell::new(Medium { slots: MemorySlots::new(seed), full: false })))
    }

    /// Refuses every write until told otherwise.
    pub(crate) fn set_full(&self, full: bool) {
        self.0.borrow_mut().full = full;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().full
    }

    /// The power goes off at the `n`-th operation from now.
    pub(crate) fn crash_after(&self, n: u64) {
        self.0.borrow_mut().slots.crash_after(n);
    }

    /// The `n`-th operation from now fails.
    pub(crate) fn fail_at(&self, n: u64, error: SlotError) {
        self.0.borrow_mut().slots.fail_at(n, error);
    }

    pub(crate) fn crashed(&self) -> bool {
        self.0.borrow().slots.crashed()
    }

    /// What survived, with the power back.
    pub(crate) fn reopen(&self) {
        let mut medium = self.0.borrow_mut();
        medium.slots = medium.slots.clone().reopen();
    }
}

impl Slots for Disk {
    fn read(&mut self, slot: SlotId, into: &mut Vec<u8>) -> Result<bool, SlotError> {
        self.0.borrow_mut().slots.read(slot, into)
    }

    fn write(&mut self, slot: SlotId, value: &[u8]) -> Result<(), SlotError> {
        let mut medium = self.0.borrow_mut();
        if medium.full { Err(SlotError::Full) } else { medium.slots.write(slot, value) }
    }

    fn sync(&mut self) -> Result<(), SlotError> {
        self.0.borrow_mut().slots.sync()
    }
}

impl Chain for Disk {
    fn append_block(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        let mut medium = self.0.borrow_mut();
        if medium.full { Err(StoreError::Full) } else { medium.slots.append_block(lane, number, block) }
    }

    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        self.0.borrow_mut().slots.sync_blocks()
    }

    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.0.borrow_mut().slots.read_block(lane, number, into)
    }

    fn free_blocks(&mut self, lane: u8, first: u64) -> Result<(), StoreError> {
        self.0.borrow_mut().slots.free_blocks(lane, first)
    }

    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.0.borrow_mut().slots.find_blocks(lane)
    }

    fn chain_bytes(&self) -> u64 {
        self.0.borrow().slots.chain_bytes()
    }
}
