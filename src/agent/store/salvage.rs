//! Reads the pages from the bytes of sled's file, for when sled cannot open it
//! or falls back to an older state.
//!
//! sled gives up a whole file for one damaged block (in a third of the damage
//! tests), and opening it overwrites what lies behind the damage: so this is
//! done before, at every start. It reads the file once from front to back,
//! which the kernel would have to do anyway for the checks that follow.
//!
//! And because the process may be killed while sled overwrites, what was found is first
//! kept in a file of its own, `pages.saved`: the same values, one after the other. It is
//! read like the database, and goes with the next snapshot.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::FREE_BYTES_MIN;
use super::files;
use super::packing::ZSTD;
use crate::engine::ring::scan::{Index, LOOKAHEAD, Place};
use crate::engine::ring::slots::{SlotError, SlotId, Slots};
use crate::engine::ring::{Mark, Ring};
use crate::engine::store::{Loaded, Store as _};

/// Bytes looked at in one go, beside the look-ahead.
const STEP: usize = 256 * 1024;
/// Bytes of a file looked at. The ring's is below 64 MiB; a damaged length must
/// not keep the agent from starting.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The file of what was found, in the store's directory.
const SAVED: &str = "pages.saved";

/// What the file `db` in `pages` still holds, and how far that reaches; it is in
/// `pages.saved` too, if there is room. Nothing when the file is missing or
/// unreadable: then there is nothing to do.
pub(super) fn salvage(dir: &Path, pages: &Path) -> (Loaded, Mark) {
    let mut slots = RawSlots::default();
    for file in [pages.join("db"), dir.join(SAVED)] {
        if fs::metadata(&file).is_ok_and(|found| found.is_file())
            && let Ok(file) = File::open(file)
        {
            // As far as it could be read.
            _ = slots.scan(file);
        }
    }
    let mut ring = Ring::new(slots, ZSTD);
    let loaded = ring.load().unwrap_or_default();
    let mark = ring.mark();
    if let Err(error) = ring.slots_mut().save(dir, mark) {
        tracing::warn!(%error, "a repair of the store that is interrupted could cost something");
    }
    (loaded, mark)
}

/// What was saved is in the newest snapshot, or worth less.
pub(super) fn forget(dir: &Path) {
    _ = fs::remove_file(dir.join(SAVED));
}

/// Slots to read only, at the places where their values were found.
#[derive(Debug, Default)]
struct RawSlots {
    /// Each with where it begins, as if they were one.
    files: Vec<(u64, File)>,
    end: u64,
    index: Index,
}

impl RawSlots {
    fn scan(&mut self, file: File) -> io::Result<()> {
        let (start, index) = (self.end, &mut self.index);
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
            offset += index.handle(start + offset, &window[..len], len.min(STEP)) as u64;
        }
        self.files.push((start, file));
        self.end = start + end;
        Ok(())
    }

    fn read_place(&self, place: Place, into: &mut Vec<u8>) -> io::Result<()> {
        into.resize(place.len, 0);
        let file = self.files.iter().rev().find(|(start, _)| *start <= place.offset);
        let (start, file) = file.expect("places are in one of the files");
        file.read_exact_at(into, place.offset - start)
    }

    /// Writes what the state of `mark` rests on to a file of its own, in one step.
    fn save(&self, dir: &Path, mark: Mark) -> io::Result<()> {
        let places: Vec<Place> = self.index.of_generation(mark.generation).collect();
        let bytes: usize = places.iter().map(|place| place.len).sum();
        if places.is_empty() || files::free_bytes(dir)? < FREE_BYTES_MIN + bytes as u64 {
            return Ok(());
        }
        let temporary = dir.join(format!("{SAVED}.new"));
        files::make_way(&temporary)?;
        files::make_way(&dir.join(SAVED))?;
        let mut file = BufWriter::new(File::create(&temporary)?);
        let mut value = Vec::new();
        for place in places {
            self.read_place(place, &mut value)?;
            file.write_all(&value)?;
        }
        file.into_inner()?.sync_all()?;
        fs::rename(temporary, dir.join(SAVED))?;
        files::sync_dir(dir)
    }
}

impl Slots for RawSlots {
    fn read(&mut self, slot: SlotId, into: &mut Vec<u8>) -> Result<bool, SlotError> {
        into.clear();
        let Some(place) = self.index.place(slot) else { return Ok(false) };
        let read = self.read_place(place, into);
        read.map(|()| true).map_err(|error| SlotError::Failed(error.to_string()))
    }

    fn write(&mut self, _: SlotId, _: &[u8]) -> Result<(), SlotError> {
        Err(SlotError::Failed("a damaged database is not written to".into()))
    }

    fn sync(&mut self) -> Result<(), SlotError> {
        Err(SlotError::Failed("a damaged database is not written to".into()))
    }
}
