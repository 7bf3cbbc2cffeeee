//! Reads the pages from the bytes of sled's file, for when sled cannot open it
//! or falls back to an older state.
//!
//! sled gives up a whole file for one damaged block (in a third of the damage
//! tests), and opening it overwrites what lies behind the damage: so this is
//! done before, at every start. It reads the file once from front to back,
//! which the kernel would have to do anyway for the checks that follow.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::packing::ZSTD;
use crate::engine::ring::scan::{Index, LOOKAHEAD};
use crate::engine::ring::slots::{SlotError, SlotId, Slots};
use crate::engine::ring::{Mark, Ring};
use crate::engine::store::{Loaded, Store as _};

/// Bytes looked at in one go, beside the look-ahead.
const STEP: usize = 256 * 1024;
/// Bytes of a file looked at. The ring's is below 64 MiB; a damaged length must
/// not keep the agent from starting.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What the file `db` in `pages` still holds, and how far that reaches.
/// Nothing when the file is missing or unreadable: then there is nothing to do.
pub(super) fn salvage(pages: &Path) -> (Loaded, Mark) {
    let slots = File::open(pages.join("db")).and_then(RawSlots::scan);
    let Ok(slots) = slots else { return Default::default() };
    let mut ring = Ring::new(slots, ZSTD);
    let loaded = ring.load().unwrap_or_default();
    (loaded, ring.mark())
}

/// Slots to read only, at the places where their values were found.
#[derive(Debug)]
struct RawSlots {
    file: File,
    index: Index,
}

impl RawSlots {
    fn scan(file: File) -> io::Result<RawSlots> {
        let mut index = Index::default();
        let end = file.metadata()?.len().min(FILE_BYTES_MAX);
        let mut window = vec![0; STEP + LOOKAHEAD];
        let mut offset = 0;
        while offset < end {
            // A block that cannot be read counts as zeros.
            window.fill(0);
            let len = window.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            for (at, block) in (offset..).step_by(4_096).zip(window[..len].chunks_mut(4_096)) {
                _ = file.read_exact_at(block, at);
            }
            offset += index.handle(offset, &window[..len], len.min(STEP)) as u64;
        }
        Ok(RawSlots { file, index })
    }
}

impl Slots for RawSlots {
    fn read(&mut self, slot: SlotId, into: &mut Vec<u8>) -> Result<bool, SlotError> {
        into.clear();
        let Some(place) = self.index.place(slot) else { return Ok(false) };
        into.resize(place.len, 0);
        let read = self.file.read_exact_at(into, place.offset);
        read.map(|()| true).map_err(|error| SlotError::Failed(error.to_string()))
    }

    fn write(&mut self, _: SlotId, _: &[u8]) -> Result<(), SlotError> {
        Err(SlotError::Failed("a damaged database is not written to".into()))
    }

    fn sync(&mut self) -> Result<(), SlotError> {
        Err(SlotError::Failed("a damaged database is not written to".into()))
    }
}
