//! Writes one database of a chain: frames into slots of their own, never over
//! another. sled rewrites a tree of many keys several times (measured: 4 bytes on the
//! medium for each byte stored), trees of one key hardly (1.36).

use std::fmt;
use std::path::Path;

use crate::engine::ring::slots::{Set, SlotError, SlotId, SlotKind, Slots};

/// A medium of slots that the engine thread owns.
pub type Medium = Box<dyn Slots + Send>;
/// Makes a medium in a new directory.
pub type MakeMedium = Box<dyn FnMut(&Path) -> Result<Medium, SlotError> + Send>;

/// Bytes of one database on the medium, as estimated by [`Writer::cost_of`].
const LINK_BYTES_MAX: u64 = 4_000_000;
/// Frames of one database: the list of their trees is written again with each.
const FRAMES_MAX: usize = 512;

/// The database that new blocks go to.
pub(super) struct Writer {
    medium: Medium,
    next_slot: u16,
    cost: u64,
    /// The last number written, if any.
    last: Option<u64>,
    /// Something was written since the last sync.
    pub(super) dirty: bool,
    /// Its database is open.
    pub(super) open: bool,
    /// When it was last written to, in appends.
    pub(super) used: u64,
}

impl Writer {
    pub(super) fn new(medium: Medium) -> Writer {
        Writer { medium, next_slot: 0, cost: 0, last: None, dirty: false, open: true, used: 0 }
    }

    /// True when a block of that number and these frames can follow.
    pub(super) fn takes(&self, number: u64, frames: &[Vec<u8>]) -> bool {
        let follows = self.last.is_none_or(|last| number > last);
        let room = self.cost + self.cost_of(frames) <= LINK_BYTES_MAX
            && usize::from(self.next_slot) + frames.len() <= FRAMES_MAX;
        // A block that is larger than a database has one for itself.
        follows && (room || self.next_slot == 0)
    }

    /// What frames take on the medium: with each of them the list of trees is written
    /// again, and not every frame fits the rest of a segment.
    pub(super) fn cost_of(&self, frames: &[Vec<u8>]) -> u64 {
        let list = 256 + 4 * u64::from(self.next_slot);
        frames.iter().map(|frame| frame.len() as u64 * 17 / 16 + list).sum()
    }

    pub(super) fn write(&mut self, number: u64, frames: &[Vec<u8>]) -> Result<(), SlotError> {
        self.open = true;
        self.dirty = true;
        self.last = Some(number);
        self.cost += self.cost_of(frames);
        for frame in frames {
            let slot = SlotId { set: Set::A, kind: SlotKind::Page, index: self.next_slot };
            self.next_slot += 1;
            self.medium.write(slot, frame)?;
        }
        Ok(())
    }

    /// Closes the database until the next write; what is in it was synced.
    pub(super) fn rest(&mut self) {
        self.medium.rest();
        self.open = false;
    }

    pub(super) fn sync(&mut self) -> Result<(), SlotError> {
        self.medium.sync()?;
        self.dirty = false;
        Ok(())
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("next_slot", &self.next_slot).field("dirty", &self.dirty).finish_non_exhaustive()
    }
}
