//! The medium under the ring: named slots that hold one small value each.
//!
//! This is all the ring asks of a disk. A value may be torn, lost or kept by a
//! power cut until `sync` returns; the ring's checksums sort that out.

/// Which half of the ring: the active one holds the state, the other one takes
/// the next snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Set {
    /// Where a new store starts.
    A,
    /// Where its first snapshot goes.
    B,
}

impl Set {
    /// Both, in order.
    pub const ALL: [Set; 2] = [Set::A, Set::B];

    /// The one that is not this.
    #[must_use]
    pub fn other(self) -> Set {
        match self {
            Set::A => Set::B,
            Set::B => Set::A,
        }
    }
}

/// What a slot is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotKind {
    /// A part of the set's snapshot.
    Snapshot,
    /// A part of a page committed after that snapshot.
    Page,
}

/// The name of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    /// The half it belongs to.
    pub set: Set,
    /// What it is for.
    pub kind: SlotKind,
    /// Its place, from 0, below 2¹⁴.
    pub index: u16,
}

impl SlotId {
    /// Every index is below this.
    pub const INDEX_END: u16 = 1 << 14;

    /// The name as stored. Two bytes, because sled lists every name in one meta
    /// page that must stay below 64 KiB.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 2] {
        assert!(self.index < SlotId::INDEX_END, "the slot limits are below this");
        let set = match self.set {
            Set::A => 0,
            Set::B => SlotId::INDEX_END << 1,
        };
        let kind = match self.kind {
            SlotKind::Snapshot => 0,
            SlotKind::Page => SlotId::INDEX_END,
        };
        (set | kind | self.index).to_be_bytes()
    }
}

/// Why the medium did not do it. One variant per reaction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SlotError {
    /// No space. Nothing the ring relies on was changed; try again later.
    #[error("the medium is full")]
    Full,
    /// Nothing is known about what was written since the last sync.
    #[error("the medium failed: {0}")]
    Failed(String),
    /// Everything is gone, and the medium begins anew.
    #[error("the medium is gone: {0}")]
    Gone(String),
}

/// A medium of slots. One owner, synchronous calls.
pub trait Slots {
    /// Puts the slot's value into `into` (cleared first). False: never written.
    ///
    /// # Errors
    /// The value cannot be read; the ring takes it for damaged.
    fn read(&mut self, slot: SlotId, into: &mut Vec<u8>) -> Result<bool, SlotError>;

    /// Replaces the slot's value; durable after the next `sync`.
    ///
    /// # Errors
    /// See [`SlotError`].
    fn write(&mut self, slot: SlotId, value: &[u8]) -> Result<(), SlotError>;

    /// When this returns, a power cut cannot take away what was written.
    ///
    /// # Errors
    /// See [`SlotError`]; what was written since the last sync may be kept,
    /// lost or torn, now or at the next power cut.
    fn sync(&mut self) -> Result<(), SlotError>;

    /// Gives back memory that the next operation can have again: nothing will be asked
    /// for a while. What was synced stays.
    fn rest(&mut self) {}
}
