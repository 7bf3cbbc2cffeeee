//! The page ring's slots in sled. THE ONLY FILE THAT NAMES SLED.
//!
//! Used against its documentation, because measured so (notes/storage.md):
//!
//! - One tree per slot with one key: a tree with many keys is rewritten leaf by
//!   leaf. At most 10,000 trees with two-byte names, or the list of names grows
//!   over 64 KiB, a quarter of a segment, and becomes a file that sled never syncs.
//! - `flush()` is not durable: our own fdatasync of the data file follows it.
//!   After opening, everything sled may have created is synced too.
//! - After an I/O error sled refuses everything for good, and may wait for ever
//!   when the disk is full. So space is checked before each write
//!   ([`FREE_BYTES_MIN`]), and after an error the database is opened again.
//! - It panics on damaged files: every call is caught.
//! - Dropping it releases its lock some time later: opening retries.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{files, guard};
use crate::engine::ring::slots::{SlotError, SlotId, Slots};

/// A write is refused as full below this much free space: more than one commit
/// can need, so that sled itself never meets a full disk.
pub const FREE_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// sled's lock outlives the database that held it by a moment. Nobody else can
/// hold it: the store's own lock is taken first.
const LOCK_TRIES: u32 = 500;
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// Four values of `PAGE_BYTES_MAX` and the list of names fit: what is over a quarter
/// of it becomes a file of its own.
const SEGMENT_BYTES: usize = 256 * 1024;
const CACHE_BYTES: u64 = 1024 * 1024;
/// The name that sled gives to its data file.
const DATA: &str = "db";
const KEY: &[u8] = b"v";
/// sled appends changes of a page to it, ten times, before it writes the page anew; until
/// then the space of all of them is taken, and so a ring of pages takes ten times its
/// size, and grows for as long, which costs metadata of the file system with each commit.
/// Small changes use the ten up, so that each value replaces the one before.
const CHAIN: u8 = 9;
const CHAIN_KEY: &[u8] = b"c";

/// Why sled did not open. One variant per reaction.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Free some space.
    Full,
    /// Not about the data: permissions, read-only, out of handles, the lock.
    Io(io::Error),
    /// The files are damaged.
    Damaged(String),
}

/// Slots in a sled database.
#[derive(Debug)]
pub(super) struct SledSlots {
    dir: PathBuf,
    /// `None` after an error, until the next call opens it again.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    db: sled::Db,
    /// The slots written so far, so that reading an empty one creates no tree.
    names: BTreeSet<Vec<u8>>,
    /// Our own handle to the data file, for fdatasync.
    data: File,
}

impl SledSlots {
    /// Opens or creates the database in `dir`, repairing what sled left
    /// behind: half-written and damaged snapshots of its page table.
    pub(super) fn create(dir: &Path) -> Result<SledSlots, Trouble> {
        std::fs::create_dir_all(dir).map_err(sort)?;
        // A process killed while writing one leaves it, and sled takes it for
        // a snapshot: every later open would fail.
        files::remove_matching(dir, |name| name.starts_with("snap.") && name.ends_with(".generating")).map_err(sort)?;
        let open = match Open::new(dir) {
            Err(Trouble::Damaged(_)) => {
                // Both are derived: from the log, and from the constants here.
                files::remove_matching(dir, |name| name.starts_with("snap.") || name == "conf").map_err(sort)?;
                Open::new(dir)?
            }
            other => other?,
        };
        Ok(SledSlots { dir: dir.to_owned(), open: Some(open) })
    }

    /// The database, opened again after an error.
    fn open(&mut self) -> Result<&mut Open, SlotError> {
        if self.open.is_none() {
            self.open = Some(Open::new(&self.dir).map_err(Trouble::into_slot_error)?);
        }
        Ok(self.open.as_mut().expect("opened above"))
    }

    /// Runs `work` on the database; after any error it is closed, since sled
    /// does not recover from one.
    fn write_to(&mut self, work: impl FnOnce(&mut Open) -> Result<(), Trouble>) -> Result<(), SlotError> {
        let open = self.open()?;
        let result = guard::catch(|| work(open)).unwrap_or_else(|panic| Err(Trouble::Damaged(panic)));
        result.map_err(|trouble| {
            self.close();
            trouble.into_slot_error()
        })
    }

    /// Dropping flushes, which may panic as well.
    fn close(&mut self) {
        let open = self.open.take();
        _ = guard::catch(|| drop(open));
    }

    /// What was written is worth nothing unless the next start finds it: the
    /// file may have been removed, or another medium mounted over it.
    fn check_name(&mut self) -> Result<(), SlotError> {
        let Some(open) = &self.open else { return Ok(()) };
        let identity = |found: Metadata| (found.dev(), found.ino());
        let ours = open.data.metadata().map(identity);
        let named = std::fs::metadata(self.dir.join(DATA)).map(identity);
        match (ours, named) {
            (Ok(ours), Ok(named)) if ours == named => Ok(()),
            (Ok(_), Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(SlotError::Failed(error.to_string())),
            (Err(error), _) => Err(SlotError::Failed(error.to_string())),
            (Ok(_), _) => {
                self.close();
                Err(SlotError::Gone("the database was removed or replaced while it was in use".into()))
            }
        }
    }

    fn check_space(&self) -> Result<(), SlotError> {
        let free = files::free_bytes(&self.dir).map_err(|error| SlotError::Failed(error.to_string()))?;
        if free < FREE_BYTES_MIN { Err(SlotError::Full) } else { Ok(()) }
    }
}

impl Slots for SledSlots {
    fn read(&mut self, slot: SlotId, into: &mut Vec<u8>) -> Result<bool, SlotError> {
        into.clear();
        let open = self.open()?;
        let name = slot.to_bytes();
        if !open.names.contains(&name[..]) {
            return Ok(false);
        }
        // An error here is about this slot: others may still be readable.
        let value = guard::catch(|| open.db.open_tree(name)?.get(KEY));
        let value = value.map_err(SlotError::Failed)?;
        let Some(value) = value.map_err(|error| Trouble::from(error).into_slot_error())? else { return Ok(false) };
        into.extend_from_slice(&value);
        Ok(true)
    }

    fn write(&mut self, slot: SlotId, value: &[u8]) -> Result<(), SlotError> {
        self.check_space()?;
        self.write_to(|open| {
            let name = slot.to_bytes();
            let tree = open.db.open_tree(name)?;
            for link in 0..CHAIN {
                tree.insert(CHAIN_KEY, &[link])?;
            }
            tree.insert(KEY, value)?;
            if !open.names.contains(&name[..]) {
                open.names.insert(name.to_vec());
            }
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<(), SlotError> {
        if self.open.is_none() {
            return Err(SlotError::Failed("the database was closed after an error".into()));
        }
        self.write_to(|open| {
            open.db.flush()?;
            open.data.sync_data().map_err(sort)
        })?;
        self.check_name()
    }

    /// The next write opens it again.
    fn rest(&mut self) {
        self.close();
    }
}

impl Drop for SledSlots {
    fn drop(&mut self) {
        self.close();
    }
}

impl Open {
    /// Opens the database, waiting for the lock of one just dropped.
    fn new(dir: &Path) -> Result<Open, Trouble> {
        let mut tries = 0;
        loop {
            match guard::catch(|| Open::once(dir)).unwrap_or_else(|panic| Err(Trouble::Damaged(panic))) {
                Err(Trouble::Io(error)) if is_lock(&error) && tries < LOCK_TRIES => {
                    tries += 1;
                    wait();
                }
                result => return result,
            }
        }
    }

    fn once(dir: &Path) -> Result<Open, Trouble> {
        let db = sled::Config::new()
            .path(dir)
            .flush_every_ms(None)
            .segment_size(SEGMENT_BYTES)
            .cache_capacity(CACHE_BYTES)
            .open()?;
        let names = db.tree_names().iter().map(|name| name.to_vec()).collect();
        let data = File::open(dir.join(DATA)).map_err(sort)?;
        files::sync_tree(dir).map_err(sort)?;
        Ok(Open { db, names, data })
    }
}

#[expect(clippy::disallowed_methods, reason = "sled gives no signal when its lock is free; bounded by LOCK_TRIES")]
fn wait() {
    std::thread::sleep(LOCK_WAIT);
}

/// sled reports its lock as an error of no kind; only the text tells.
fn is_lock(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other && error.to_string().contains("could not acquire lock")
}

impl Trouble {
    pub(super) fn into_slot_error(self) -> SlotError {
        match self {
            Trouble::Full => SlotError::Full,
            Trouble::Io(error) => SlotError::Failed(error.to_string()),
            Trouble::Damaged(why) => SlotError::Failed(why),
        }
    }
}

impl From<sled::Error> for Trouble {
    fn from(error: sled::Error) -> Trouble {
        match error {
            sled::Error::Io(error) => sort(error),
            sled::Error::Corruption { .. }
            | sled::Error::Unsupported(_)
            | sled::Error::ReportableBug(_)
            | sled::Error::CollectionNotFound(_) => Trouble::Damaged(error.to_string()),
        }
    }
}

/// Which reaction an I/O error calls for. What is not clearly about something
/// else is about the data: a bad block reads as an I/O error of no kind.
fn sort(error: io::Error) -> Trouble {
    use io::ErrorKind::{OutOfMemory, PermissionDenied, ReadOnlyFilesystem};
    // ENFILE and EMFILE have no kind.
    let handles = matches!(error.raw_os_error(), Some(23 | 24));
    if files::is_full(&error) {
        Trouble::Full
    } else if handles || is_lock(&error) || matches!(error.kind(), OutOfMemory | PermissionDenied | ReadOnlyFilesystem)
    {
        Trouble::Io(error)
    } else {
        Trouble::Damaged(error.to_string())
    }
}
