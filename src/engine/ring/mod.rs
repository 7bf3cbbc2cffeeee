//! The page ring: [`Store`] over a medium of small named slots. PURE.
//!
//! ```text
//! set A   snapshot g   | page s+1 | page s+2 (2 parts) | …   ← active
//! set B   snapshot g-1 | its pages, obsolete                 ← takes snapshot g+1
//! ```
//!
//! - A value is at most `PAGE_BYTES_MAX`; larger pages and snapshots are packed,
//!   then split over several slots. A set has `PAGE_SLOTS_MAX` page slots and
//!   [`SNAPSHOT_SLOTS_MAX`] snapshot slots.
//! - Every attempt at a snapshot takes a generation of its own, and a page that
//!   failed is written again to the same slots under the same seq; the checksum
//!   of the whole in each part keeps two attempts apart.
//! - After damage the first write must be a snapshot: it goes to the other set
//!   under a generation above everything seen, so that pages behind a hole are
//!   never taken for the continuation of new ones.
//!
//! How the state is found again is in `recover.rs`, the value format in
//! `part.rs`. Not done: slots of a snapshot that has shrunk are not given back.

mod part;
mod recover;
pub mod scan;
pub mod slots;

use std::borrow::Cow;

use part::{Header, PAYLOAD_BYTES_MAX};
use slots::{Set, SlotError, SlotKind, Slots};

use crate::engine::chain::Chain;
use crate::engine::store::{Loaded, Store, StoreError, WriteState};
use crate::model::limits::{self, PAGE_SLOTS_MAX};

/// Snapshot slots in one set: room for a state of [`STATE_BYTES_MAX`] that nothing
/// can compress. (sled's list of slot names must stay within one page of 64 KiB: some
/// 10,000 names of at most 6 bytes as stored.)
pub const SNAPSHOT_SLOTS_MAX: usize = 2_800;

/// Bytes of a page or snapshot before packing. What unpacks to more is taken
/// for damaged, so that a few stored bytes cannot claim the board's memory. What the
/// engine may hold is below it: see `limits::STATE_COST_MAX`.
pub const STATE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Pages of so many bytes, and of so many times the snapshot, are worth a new one: the
/// medium holds two sets of them, and a start reads them and makes all that is in them
/// again. A quarter more is written at most.
const PAGES_BYTES: usize = 896 * 1024;
const SNAPSHOTS_PER_PAGES: usize = 4;

/// A compressor that finds nothing to compress adds less than this to each MiB (zstd:
/// 3 bytes for each block of 128 KiB, and a header).
const PACKING_OVERHEAD_PER_MIB: usize = 4 * 1024;

const _: () = assert!(limits::STATE_COST_MAX <= STATE_BYTES_MAX, "what the engine may hold is a state");
const _: () = assert!(
    STATE_BYTES_MAX + STATE_BYTES_MAX / (1024 * 1024) * PACKING_OVERHEAD_PER_MIB
        <= SNAPSHOT_SLOTS_MAX * PAYLOAD_BYTES_MAX,
    "every state fits the slots of a snapshot"
);

/// How values are compressed. The engine knows no compressor; the agent does.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Packs; a result that is not shorter is ignored and the input stored.
    pub pack: fn(&[u8]) -> Vec<u8>,
    /// Undoes it; `None` for anything `pack` did not make, or which would be
    /// longer than [`STATE_BYTES_MAX`]. Never panics.
    pub unpack: fn(&[u8]) -> Option<Vec<u8>>,
    /// Begins to pack something that comes in pieces; `None`: it is gathered first.
    pub pieces: Option<fn() -> Box<dyn Packer>>,
}

/// Packs what comes in pieces. The result is for [`Packing::unpack`].
pub trait Packer {
    /// Takes the next piece in.
    fn push(&mut self, piece: &[u8]);

    /// All of it, packed; `None` when that failed.
    fn finish(self: Box<Self>) -> Option<Vec<u8>>;
}

impl Packing {
    /// Stores everything as it is.
    pub const NONE: Packing = Packing { pack: <[u8]>::to_vec, unpack: |stored| Some(stored.to_vec()), pieces: None };
}

/// How far a store has come. Later states compare greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Mark {
    /// The snapshot it rests on.
    pub generation: u64,
    /// The last page committed.
    pub seq: u64,
}

/// The page ring over a medium.
#[derive(Debug)]
pub struct Ring<S> {
    slots: S,
    packing: Packing,
    active: Set,
    mark: Mark,
    /// The newest generation that was attempted, successfully or not.
    generation_tried: u64,
    /// The page slot that the next page starts at.
    next_slot: u16,
    /// Damage was found, or nothing is left: nothing may follow what is there.
    snapshot_due: bool,
    /// A write failed: rewriting everything is the way back to a known state.
    snapshot_wanted: bool,
    bytes_written: u64,
    /// Of the snapshot, and of the pages after it, as stored; since the start.
    snapshot_bytes: usize,
    page_bytes: usize,
    value: Vec<u8>,
}

impl<S: Slots> Ring<S> {
    /// A ring over `slots`, which may hold an older state: call
    /// [`Store::load`] before anything else.
    pub fn new(slots: S, packing: Packing) -> Ring<S> {
        Ring {
            slots,
            packing,
            active: Set::A,
            mark: Mark::default(),
            generation_tried: 0,
            next_slot: 0,
            snapshot_due: false,
            snapshot_wanted: false,
            bytes_written: 0,
            snapshot_bytes: 0,
            page_bytes: 0,
            value: Vec::new(),
        }
    }

    /// How far the durable state has come.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Gives up continuing what is there: the next write must be a snapshot,
    /// and its generation will be above `floor` and everything seen.
    pub fn reset(&mut self, floor: Mark) {
        self.generation_tried = self.generation_tried.max(floor.generation);
        self.mark.seq = self.mark.seq.max(floor.seq);
        self.snapshot_due = true;
    }

    /// The medium, to look at or to put faults into.
    pub fn slots_mut(&mut self) -> &mut S {
        &mut self.slots
    }

    /// Gives the medium back.
    pub fn into_slots(self) -> S {
        self.slots
    }

    /// Writes all parts, of which `head` is the first, and makes them durable.
    fn write(&mut self, head: Header, stored: &[u8]) -> Result<(), StoreError> {
        let result = self.write_parts(head, stored).and_then(|()| self.slots.sync());
        result.map_err(|error| match error {
            SlotError::Full => StoreError::Full,
            SlotError::Failed(why) => {
                self.snapshot_wanted = true;
                StoreError::Failed(why)
            }
            SlotError::Gone(why) => {
                self.snapshot_due = true;
                StoreError::Failed(why)
            }
        })
    }

    fn write_parts(&mut self, head: Header, stored: &[u8]) -> Result<(), SlotError> {
        for part in 0..head.parts {
            let from = usize::from(part) * PAYLOAD_BYTES_MAX;
            let to = stored.len().min(from + PAYLOAD_BYTES_MAX);
            let header = head.sibling(part);
            header.put(&stored[from..to], &mut self.value);
            self.bytes_written += self.value.len() as u64;
            self.slots.write(header.slot(), &self.value)?;
        }
        Ok(())
    }
}

impl<S: Slots> Store for Ring<S> {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let found = recover::recover(&mut self.slots, self.packing);
        self.active = found.active;
        self.mark = Mark { generation: found.generation, seq: found.seq };
        self.next_slot = found.next_slot;
        self.generation_tried = self.generation_tried.max(found.generation_seen);
        self.snapshot_due = !found.loaded.damage.is_empty();
        Ok(found.loaded)
    }

    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        if self.snapshot_due {
            return Err(StoreError::SnapshotDue);
        }
        let (packed, stored) = packed(self.packing, page)?;
        let parts = parts_of(&stored);
        let free = PAGE_SLOTS_MAX - usize::from(self.next_slot);
        let Some(parts) = u16::try_from(parts).ok().filter(|_| parts <= free) else {
            self.snapshot_wanted = true;
            return Err(StoreError::SnapshotDue);
        };
        let Mark { generation, seq } = self.mark;
        let head = Header {
            set: self.active,
            kind: SlotKind::Page,
            packed,
            first: self.next_slot,
            generation,
            tried: self.generation_tried,
            seq: seq + 1,
            whole: crc32fast::hash(&stored),
            part: 0,
            parts,
        };
        self.write(head, &stored)?;
        self.mark.seq = head.seq;
        self.next_slot += parts;
        self.page_bytes += stored.len();
        Ok(())
    }

    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.snapshot_in_pieces(&|sink| sink(state))
    }

    fn snapshot_in_pieces(&mut self, write: &WriteState<'_>) -> Result<(), StoreError> {
        let (packed, stored) = packed_in_pieces(self.packing, write)?;
        let parts = parts_of(&stored);
        let Some(parts) = u16::try_from(parts).ok().filter(|_| parts <= SNAPSHOT_SLOTS_MAX) else {
            return Err(StoreError::TooLarge { bytes: stored.len() });
        };
        self.generation_tried += 1;
        let head = Header {
            set: self.active.other(),
            kind: SlotKind::Snapshot,
            packed,
            first: 0,
            generation: self.generation_tried,
            tried: self.generation_tried,
            seq: self.mark.seq,
            whole: crc32fast::hash(&stored),
            part: 0,
            parts,
        };
        self.write(head, &stored)?;
        self.active = head.set;
        self.mark.generation = head.generation;
        self.next_slot = 0;
        self.snapshot_bytes = stored.len();
        self.page_bytes = 0;
        self.snapshot_due = false;
        self.snapshot_wanted = false;
        Ok(())
    }

    fn wants_snapshot(&self) -> bool {
        let slots_run_out = usize::from(self.next_slot) * 4 >= PAGE_SLOTS_MAX * 3;
        let worth_it = self.page_bytes >= PAGES_BYTES.max(self.snapshot_bytes.saturating_mul(SNAPSHOTS_PER_PAGES));
        self.snapshot_due || self.snapshot_wanted || slots_run_out || worth_it
    }

    fn bytes_written(&self) -> u64 {
        self.bytes_written
    }
}

/// A medium that has both keeps the blocks beside the ring.
impl<S: Slots + Chain> Chain for Ring<S> {
    fn append_block(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        self.slots.append_block(lane, number, block)
    }

    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        self.slots.sync_blocks()
    }

    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.slots.read_block(lane, number, into)
    }

    fn free_blocks(&mut self, lane: u8, first: u64) -> Result<(), StoreError> {
        self.slots.free_blocks(lane, first)
    }

    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.slots.find_blocks(lane)
    }

    fn chain_bytes(&self) -> u64 {
        self.slots.chain_bytes()
    }
}

/// The bytes to store, and whether they are packed.
fn packed(packing: Packing, bytes: &[u8]) -> Result<(bool, Cow<'_, [u8]>), StoreError> {
    if bytes.len() > STATE_BYTES_MAX {
        return Err(StoreError::TooLarge { bytes: bytes.len() });
    }
    let packed = (packing.pack)(bytes);
    Ok(if packed.len() < bytes.len() { (true, Cow::Owned(packed)) } else { (false, Cow::Borrowed(bytes)) })
}

/// As [`packed`], for what comes in pieces.
fn packed_in_pieces(packing: Packing, write: &WriteState<'_>) -> Result<(bool, Vec<u8>), StoreError> {
    let Some(start) = packing.pieces else {
        let mut whole = Vec::new();
        write(&mut |piece| whole.extend_from_slice(piece));
        let (packed, stored) = packed(packing, &whole)?;
        return Ok((packed, stored.into_owned()));
    };
    let (mut packer, mut bytes) = (start(), 0);
    write(&mut |piece| {
        bytes += piece.len();
        packer.push(piece);
    });
    if bytes > STATE_BYTES_MAX {
        return Err(StoreError::TooLarge { bytes });
    }
    let stored = packer.finish().ok_or_else(|| StoreError::Failed("the state could not be packed".into()))?;
    Ok((true, stored))
}

/// Slots needed; nothing takes one slot too.
fn parts_of(stored: &[u8]) -> usize {
    stored.len().div_ceil(PAYLOAD_BYTES_MAX).max(1)
}

#[cfg(test)]
mod tests;
