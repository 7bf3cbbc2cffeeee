//! What is in the store of an agent that does not run, without changing anything there.
//!
//! sled writes when it opens a database, and the ladder of `mod.rs` repairs what it
//! finds. So the pages are copied to a temporary directory first, and the ladder works
//! there. The chain is read where it is: for that no database is opened.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};

use super::chain::ChainReader;
use super::{OpenError, SledStore, Trouble, find, give_up, open_with, sort};
use crate::engine::chain::Chain;
use crate::engine::store::{Loaded, Store, StoreError, WriteState};

/// Bytes of one file that are copied: a damaged length must not fill the temporary directory.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// What is copied in one piece, and counts as zeros when it cannot be read.
const PIECE: usize = 4_096;
/// What the ladder does not look at, and what is read where it is.
const LEFT_OUT: &[&str] = &["lock", "reserve", "outbox", "quarantine", "rejected"];
/// Names that are tried for the temporary directory.
const NAMES_MAX: u32 = 100;

/// A copy of the pages, removed when it is dropped.
#[derive(Debug)]
struct Copy {
    dir: PathBuf,
    unreadable: u64,
}

/// Whether a process uses the store in `dir`. Makes no file.
///
/// # Errors
/// The lock cannot be looked at: permissions, most likely.
pub fn is_in_use(dir: &Path) -> io::Result<bool> {
    let lock = match File::open(dir.join("lock")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    // Shared: two who look do not take each other for an agent.
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What [`super::open`] would find in `dir`, and the chain there. Nobody is kept from
/// starting meanwhile: [`is_in_use`] tells afterwards.
///
/// # Errors
/// There is no such directory, it cannot be read, or there is no room for a copy.
pub fn look(dir: &Path) -> Result<(Loaded, ChainReader), OpenError> {
    let copy = Copy::of(dir)?;
    let (ring, mut loaded) = find(&copy.dir).map_err(|trouble| give_up(&copy.dir, trouble))?;
    drop(ring);
    // It speaks of the copy.
    let place = copy.dir.display().to_string();
    loaded.damage.retain(|text| !text.contains(&place));
    loaded.damage.extend(copy.complaint());
    Ok((loaded, ChainReader::new(dir)))
}

/// The store in `dir` for somebody who wants to see what would be done with it: pages are
/// written to a copy, and the chain takes nothing.
#[derive(Debug)]
pub struct Rehearsal {
    // Before the copy: fields are dropped in order.
    store: SledStore,
    chain: ChainReader,
    copy: Copy,
    dir: PathBuf,
}

impl Rehearsal {
    /// On a copy of the pages in `dir`.
    ///
    /// # Errors
    /// As for [`look`].
    pub fn open(dir: &Path) -> Result<Rehearsal, OpenError> {
        let copy = Copy::of(dir)?;
        let store = open_with(&copy.dir, 0)?;
        Ok(Rehearsal { store, chain: ChainReader::new(dir), copy, dir: dir.to_owned() })
    }

    /// What was damaged, as it would be said of the store itself.
    pub fn damage(&self) -> Vec<String> {
        let (from, to) = (self.copy.dir.display().to_string(), self.dir.display().to_string());
        let damage = self.store.damage().iter().map(|text| text.replace(&from, &to));
        damage.chain(self.copy.complaint()).collect()
    }
}

impl Store for Rehearsal {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.store.load()
    }

    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.store.commit(page)
    }

    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.store.snapshot(state)
    }

    fn snapshot_in_pieces(&mut self, write: &WriteState<'_>) -> Result<(), StoreError> {
        self.store.snapshot_in_pieces(write)
    }

    fn wants_snapshot(&self) -> bool {
        self.store.wants_snapshot()
    }

    fn bytes_written(&self) -> u64 {
        self.store.bytes_written()
    }
}

impl Chain for Rehearsal {
    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.chain.read_block(lane, number, into)
    }

    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.chain.find_blocks(lane)
    }
}

impl Copy {
    fn of(dir: &Path) -> Result<Copy, OpenError> {
        let unusable = |source| OpenError::Unusable { dir: dir.to_owned(), source };
        fs::read_dir(dir).map_err(unusable)?;
        let place = make_temporary().map_err(|error| give_up(&std::env::temp_dir(), sort(error)))?;
        let mut copy = Copy { dir: place, unreadable: 0 };
        let target = copy.dir.clone();
        copy.copy_dir(dir, &target, LEFT_OUT).map_err(|error| match sort(error) {
            Trouble::Full => OpenError::Full(target.clone()),
            trouble @ (Trouble::Io(_) | Trouble::Damaged(_)) => give_up(dir, trouble),
        })?;
        Ok(copy)
    }

    /// What is neither a file nor a directory is left out; a start removes it.
    fn copy_dir(&mut self, from: &Path, to: &Path, left_out: &[&str]) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            if left_out.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::create_dir(&target)?;
                self.copy_dir(&path, &target, &[])?;
            } else if fs::metadata(&path).is_ok_and(|found| found.is_file()) {
                self.copy_file(&path, &target)?;
            }
        }
        Ok(())
    }

    /// Where the medium does not give a page of the file, there are zeros in the copy.
    fn copy_file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, mut copy) = (File::open(from)?, File::create(to)?);
        let end = source.metadata()?.len().min(FILE_BYTES_MAX);
        let mut piece = vec![0; PIECE * 16];
        let mut offset = 0;
        while offset < end {
            let len = piece.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            if source.read_exact_at(&mut piece[..len], offset).is_err() {
                for (at, page) in (offset..).step_by(PIECE).zip(piece[..len].chunks_mut(PIECE)) {
                    if source.read_exact_at(page, at).is_err() {
                        page.fill(0);
                        self.unreadable += 1;
                    }
                }
            }
            copy.write_all(&piece[..len])?;
            offset += len as u64;
        }
        Ok(())
    }

    fn complaint(&self) -> Option<String> {
        (self.unreadable > 0).then(|| format!("the medium does not give {} pieces of 4 KiB", self.unreadable))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What is left lies where things are tidied up.
        _ = fs::remove_dir_all(&self.dir);
    }
}

/// A new directory that nobody else can look into.
fn make_temporary() -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let place = std::env::temp_dir().join(format!("tidegate-look-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&place) {
            Ok(()) => return Ok(place),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => number += 1,
            Err(error) => return Err(error),
        }
    }
}
