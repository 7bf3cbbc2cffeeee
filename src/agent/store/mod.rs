//! Durable storage of the engine: the page ring over sled, and what to do when
//! a file is damaged.
//!
//! ```text
//! <dir>/lock         held by the process that uses the store
//! <dir>/pages/       sled: conf, db, snap.*, blobs/
//! <dir>/pages.saved  what the start found in it, until the next snapshot
//! <dir>/pages.new/   a database that is being repaired
//! <dir>/outbox/      what the uplink has not taken for long (chain/)
//! <dir>/reserve      space kept from other programs (ballast.rs)
//! <dir>/witness      how far the pages had come at a snapshot (witness.rs)
//! <dir>/progress     and at the last commit (progress.rs)
//! <dir>/quarantine/  at most 3 databases that were found damaged
//! <dir>/rejected/    samples of rejected messages (agent/rejected/)
//! ```
//!
//! The ladder, so that damage never keeps the agent from starting: note the
//! pages in the raw bytes of sled's file (salvage.rs) → remove sled's leftovers
//! and open → remove what sled can rebuild and open → check every checksum and
//! sequence → use what the raw bytes have beyond that → write what could be saved
//! into a new database, put the damaged one aside, and say what happened
//! ([`Loaded::damage`]). The first write after that must be a snapshot, under a new
//! epoch; until it is followed by [`Store::witness`], every start reports the
//! damage again.
//!
//! Only three things stop it ([`OpenError`]): another process, a full disk and
//! a directory it may not use. None of them is touched by the ladder.

mod ballast;
mod chain;
pub(in crate::agent) mod files;
mod guard;
pub mod look;
mod packing;
mod progress;
mod quarantine;
mod salvage;
mod sled;
mod witness;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::ballast::Ballast;
use self::progress::Progress;
use self::sled::{SledSlots, Trouble};
use self::witness::{Testimony, Witness};
use crate::engine::chain::Chain;
use crate::engine::ring::slots::SlotError;
use crate::engine::ring::{Mark, Ring};
use crate::engine::store::{Loaded, Store, StoreError, WriteState};
use crate::model::limits::RESERVE_DEFAULT;

pub use self::chain::{ChainReader, DiskChain, MakeMedium, Medium};
pub use self::packing::ZSTD;
pub use self::sled::FREE_BYTES_MIN;

const PAGES: &str = "pages";
/// What takes the place of a damaged database.
const FRESH: &str = "pages.new";
/// The process before may still be ending: its lock goes with it.
const LOCK_TRIES: u32 = 20;
const LOCK_WAIT: Duration = Duration::from_millis(25);

/// Why the store cannot be used. One variant per reaction.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Stop the other one, or leave it to it.
    #[error("another tidegate is running on {}", .0.display())]
    Locked(PathBuf),
    /// Free some space and start again. Old quarantines are already gone.
    #[error("no space left for the store in {}", .0.display())]
    Full(PathBuf),
    /// The directory cannot be used: permissions, a read-only mount, a path
    /// that is not a directory. A human has to look.
    #[error("the store in {} cannot be used", dir.display())]
    Unusable {
        /// The store's directory.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// The engine's store on disk. Release it by dropping it.
#[derive(Debug)]
pub struct SledStore {
    // Before the lock: fields are dropped in order.
    ring: Ring<SledSlots>,
    dir: PathBuf,
    /// What `open` found, until it is fetched.
    loaded: Option<Loaded>,
    progress: Progress,
    chain: DiskChain,
    ballast: Ballast,
    /// What the start found may be in a file of its own.
    saved: bool,
    _lock: File,
}

/// As [`open_with`], with the default reserve.
///
/// # Errors
/// See [`OpenError`].
pub fn open(dir: &Path) -> Result<SledStore, OpenError> {
    open_with(dir, RESERVE_DEFAULT)
}

/// Opens or creates the store in `dir` and finds out what survived; `load` then
/// hands it over. Damage is repaired or put aside, never a reason to fail. `reserve`:
/// bytes of the medium that the outbox leaves free.
///
/// # Errors
/// See [`OpenError`]. Nothing of the state was changed.
pub fn open_with(dir: &Path, reserve: u64) -> Result<SledStore, OpenError> {
    let unusable = |source| OpenError::Unusable { dir: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(|error| give_up(dir, sort(error)))?;
    let lock = lock(dir)?;
    files::sync_dir(dir).map_err(unusable)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    files::sync_dir(parent).map_err(unusable)?;

    let mut ballast = Ballast::open(dir, reserve);
    let mut found = find(dir);
    if matches!(found, Err(Trouble::Full)) && ballast.give_back() {
        found = find(dir);
    }
    // What was put aside earlier is worth less than starting.
    if matches!(found, Err(Trouble::Full)) && quarantine::clear(dir) {
        found = find(dir);
    }
    let (ring, loaded) = found.map_err(|trouble| give_up(dir, trouble))?;
    let chain = DiskChain::open(dir, reserve).map_err(unusable)?;
    let progress = Progress::open(dir);
    let (dir, loaded) = (dir.to_owned(), Some(loaded));
    Ok(SledStore { ring, progress, chain, ballast, saved: true, dir, loaded, _lock: lock })
}

fn give_up(dir: &Path, trouble: Trouble) -> OpenError {
    match trouble {
        Trouble::Full => OpenError::Full(dir.to_owned()),
        Trouble::Io(source) => OpenError::Unusable { dir: dir.to_owned(), source },
        Trouble::Damaged(why) => OpenError::Unusable { dir: dir.to_owned(), source: io::Error::other(why) },
    }
}

fn sort(error: io::Error) -> Trouble {
    if files::is_full(&error) { Trouble::Full } else { Trouble::Io(error) }
}

/// Our own lock, beside sled's: it is released the moment it is dropped, so a
/// refusal means another process (or another handle in this one).
#[expect(clippy::disallowed_methods, reason = "a lock has no deadline to wait for; bounded by LOCK_TRIES")]
fn lock(dir: &Path) -> Result<File, OpenError> {
    let unusable = |source| OpenError::Unusable { dir: dir.to_owned(), source };
    let path = dir.join("lock");
    files::make_way(&path).map_err(|error| give_up(dir, sort(error)))?;
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(|error| give_up(dir, sort(error)))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
    }
    Err(OpenError::Locked(dir.to_owned()))
}

/// The ladder, from the lock on.
fn find(dir: &Path) -> Result<(Ring<SledSlots>, Loaded), Trouble> {
    finish_anew(dir).map_err(sort)?;
    let pages = dir.join(PAGES);
    if pages.is_dir() {
        files::remove_special(&pages).map_err(sort)?;
    }
    let testimony = Testimony::read(dir).map_err(sort)?;
    let known = testimony.mark().max(Progress::read(dir));
    // Before sled sees the file: what it cannot make sense of, it overwrites.
    let (saved, saved_mark) = salvage::salvage(dir, &pages);
    files::step();
    let (found, mut loaded) = match SledSlots::create(&pages) {
        Ok(slots) => {
            let mut ring = Ring::new(slots, ZSTD);
            let loaded = ring.load().map_err(|error| Trouble::Damaged(error.to_string()))?;
            (Some(ring), loaded)
        }
        Err(Trouble::Damaged(why)) => {
            (None, Loaded { damage: vec![format!("the database does not open: {why}")], ..Loaded::default() })
        }
        Err(trouble) => return Err(trouble),
    };
    files::step();
    let mut reached = found.as_ref().map(Ring::mark).unwrap_or_default();
    let mut replace = !loaded.damage.is_empty();
    // Without a sign of damage sled decides: a page of which not all had been
    // written at a power cut may be found in the file.
    if (replace || reached < known) && saved_mark > reached {
        loaded.damage.push(format!(
            "generation {} page {} was read from the file itself",
            saved_mark.generation, saved_mark.seq
        ));
        loaded.damage.extend(saved.damage);
        loaded = Loaded { damage: loaded.damage, ..saved };
        reached = saved_mark;
        replace = true;
    } else {
        drop(saved);
    }
    note_testimony(testimony, reached, &mut loaded);
    if reached < known && testimony.mark() < known {
        loaded.damage.push(format!(
            "commits are missing: generation {} page {} instead of generation {} page {}",
            reached.generation, reached.seq, known.generation, known.seq
        ));
    }
    let floor = known.max(reached);
    let mut ring = match found {
        Some(ring) if !replace => ring,
        damaged => {
            drop(damaged);
            files::step();
            start_anew(dir, floor, &mut loaded)?
        }
    };
    if !loaded.damage.is_empty() {
        ring.reset(floor.max(ring.mark()));
    }
    Ok((ring, loaded))
}

/// Saves what could be read of the damaged database into a new one, and only then
/// puts the damaged one aside: a power cut on the way takes nothing.
fn start_anew(dir: &Path, floor: Mark, loaded: &mut Loaded) -> Result<Ring<SledSlots>, Trouble> {
    // First of all: if the power goes now, the next start must know.
    let lost = Witness { epoch: loaded.epoch_floor, mark: floor, lost: true };
    lost.write(dir).map_err(sort)?;
    files::step();
    let fresh = dir.join(FRESH);
    let build = |loaded: &Loaded| {
        remove(&fresh)?;
        files::step();
        let mut ring = Ring::new(SledSlots::create(&fresh)?, ZSTD);
        Ok(save(&mut ring, floor, loaded))
    };
    match build(loaded) {
        Err(Trouble::Full) | Ok(Err(StoreError::Full)) if quarantine::clear(dir) => build(loaded),
        other => other,
    }?
    .unwrap_or_else(|error| loaded.damage.push(format!("what was saved is in memory only: {error}")));
    files::step();
    let pages = dir.join(PAGES);
    if pages.exists() {
        let aside = quarantine::put_aside(dir, &pages).map_err(sort)?;
        loaded.damage.push(format!("the damaged database is kept as {}", aside.display()));
    }
    files::step();
    finish_anew(dir).map_err(sort)?;
    files::step();
    let mut ring = Ring::new(SledSlots::create(&pages)?, ZSTD);
    files::step();
    ring.load().map_err(|error| Trouble::Damaged(error.to_string()))?;
    Ok(ring)
}

/// The last step of [`start_anew`], also of one that the power cut short: a new
/// database without an old one is complete, one beside it is not.
fn finish_anew(dir: &Path) -> io::Result<()> {
    let (fresh, pages) = (dir.join(FRESH), dir.join(PAGES));
    if !fresh.exists() {
        return Ok(());
    }
    if pages.exists() {
        return fs::remove_dir_all(fresh);
    }
    fs::rename(fresh, pages)?;
    files::sync_dir(dir)
}

fn remove(dir: &Path) -> Result<(), Trouble> {
    if dir.exists() { fs::remove_dir_all(dir).map_err(sort) } else { Ok(()) }
}

/// What the witness knows better than the pages.
fn note_testimony(testimony: Testimony, reached: Mark, loaded: &mut Loaded) {
    match testimony {
        Testimony::Nothing => (),
        Testimony::Damaged => loaded.damage.push("the witness file is damaged; a fallback cannot be excluded".into()),
        Testimony::Says(witness) => {
            loaded.epoch_floor = witness.epoch;
            let Mark { generation, seq } = witness.mark;
            if reached < witness.mark {
                loaded.damage.push(format!(
                    "state older than the witness: generation {} page {} instead of generation {generation} page {seq}",
                    reached.generation, reached.seq
                ));
            }
            if witness.lost {
                loaded.damage.push("damage was found before, and no snapshot was taken since".into());
            }
        }
    }
}

/// Writes what could be read of a damaged database into a new one, so that a
/// power cut before the engine's snapshot does not take that too.
fn save(ring: &mut Ring<SledSlots>, floor: Mark, loaded: &Loaded) -> Result<(), StoreError> {
    let Some(snapshot) = &loaded.snapshot else { return Ok(()) };
    ring.reset(floor);
    files::step();
    ring.snapshot(snapshot)?;
    loaded.pages.iter().try_for_each(|page| {
        files::step();
        ring.commit(page)
    })
}

/// A database for a chain, in a directory of its own.
fn database(dir: &Path) -> Result<Medium, SlotError> {
    let slots = SledSlots::create(dir).map_err(Trouble::into_slot_error)?;
    Ok(Box::new(slots))
}

impl SledStore {
    /// What `open` found damaged, until [`Store::load`] hands it over.
    pub fn damage(&self) -> &[String] {
        self.loaded.as_ref().map_or(&[], |loaded| &loaded.damage)
    }

    /// Writes; on a full disk once more, in the space that is kept for that.
    fn with_room(&mut self, write: impl Fn(&mut SledStore) -> Result<(), StoreError>) -> Result<(), StoreError> {
        match write(self) {
            Err(StoreError::Full) if self.ballast.give_back() => write(self),
            result => result,
        }
    }
}

impl Store for SledStore {
    /// What [`open`] found. Once: the state is not kept in memory twice.
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.loaded.take().ok_or_else(|| StoreError::Failed("the state was handed over before".into()))
    }

    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.with_room(|store| store.ring.commit(page))?;
        self.progress.note(self.ring.mark());
        Ok(())
    }

    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.snapshot_in_pieces(&|sink| sink(state))
    }

    fn snapshot_in_pieces(&mut self, write: &WriteState<'_>) -> Result<(), StoreError> {
        self.with_room(|store| store.ring.snapshot_in_pieces(write))?;
        if core::mem::take(&mut self.saved) {
            salvage::forget(&self.dir);
        }
        self.progress.note(self.ring.mark());
        // The pace at which it is worth looking whether there is room again.
        self.ballast.make();
        Ok(())
    }

    fn witness(&mut self, epoch: u64) -> Result<(), StoreError> {
        self.with_room(|store| {
            let witness = Witness { epoch, mark: store.ring.mark(), lost: false };
            witness.write(&store.dir).map_err(|error| {
                if files::is_full(&error) { StoreError::Full } else { StoreError::Failed(error.to_string()) }
            })
        })
    }

    fn complaint(&self) -> Option<String> {
        self.ballast.complaint()
    }

    fn wants_snapshot(&self) -> bool {
        self.ring.wants_snapshot()
    }

    fn bytes_written(&self) -> u64 {
        self.ring.bytes_written() + self.chain.bytes_written()
    }
}

impl Chain for SledStore {
    fn append_block(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        self.chain.set_held(self.ballast.held_bytes());
        self.chain.append_block(lane, number, block)
    }

    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        self.chain.sync_blocks()
    }

    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.chain.read_block(lane, number, into)
    }

    fn free_blocks(&mut self, lane: u8, first: u64) -> Result<(), StoreError> {
        self.chain.free_blocks(lane, first)
    }

    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.chain.find_blocks(lane)
    }

    fn chain_bytes(&self) -> u64 {
        self.chain.chain_bytes()
    }
}

#[cfg(test)]
mod tests;
