//! The directory with the samples: a ring of the newest ones for each stream and reason.
//!
//! ```text
//! <storage.path>/rejected/<stream, percent-encoded>@<reason>     0600, the directory 0700
//! ```
//!
//! A sample is appended and not synced: a crash of the process costs nothing, a power cut the last
//! ones, and a torn frame is skipped. A file with twice as many frames as are kept is replaced by
//! one with the newest, so that each sample is written twice at most. All files together are
//! bounded by `limits::SAMPLES_DISK_MAX`: when they are full, the largest gives up its older half, and
//! one loud device does not push out the rare ones. Nothing is written while the medium has less free
//! than the outbox leaves.
//!
//! **A replay takes each sample in at most once.** Before the engine is handed one it is marked as
//! in doubt, durably; after the commit it is removed, or the mark is. A crash in between leaves the
//! mark: it may have been taken in, or not. Such a sample is shown, and taken in again only when
//! somebody says so. (The other order, first the commit and then the removal, would count it twice
//! after a crash, without a trace; a loss is seen, and was counted as rejected before.)

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::agent::store::files;
use crate::engine::samples::{Part, Sample, Verdict};
use crate::model::ids::{Name, push_escaped};
use crate::model::limits::{SAMPLES_DISK_MAX, SAMPLES_KEPT};
use crate::model::record::RejectReason;

use super::frame::{self, Found, Kept};
use super::query::{Selection, reason, unescaped};

const NAME: &str = "rejected";
/// Frames of a file at which it is replaced.
const FRAMES_MAX: usize = 2 * SAMPLES_KEPT;
const TEMPORARY: &str = ".new";

/// Which ring.
pub(super) type Key = (Name, RejectReason);

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    bytes: u64,
    frames: usize,
    /// The number of the next sample.
    next: u64,
    /// Nothing may be appended: it ends in the middle of a frame.
    torn: bool,
}

/// See the module's description. One owner in the agent.
#[derive(Debug)]
pub struct Shelf {
    dir: PathBuf,
    rings: BTreeMap<Key, Ring>,
    /// Bytes that stay free on the medium.
    reserve: u64,
}

/// Samples on their way to the engine, and those that do not go there.
#[derive(Debug, Default)]
pub struct Begun {
    /// Marked as in doubt.
    pub samples: Vec<Kept>,
    /// With why not.
    pub left: Vec<(Kept, Obstacle)>,
}

/// Why a sample cannot be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// Only its begin was kept.
    Cut,
    /// A replay of it was interrupted: it may have been taken in.
    InDoubt,
    /// Some of its many records were taken in before, and it is not known which.
    UnknownPart,
}

impl Shelf {
    /// What is in the state's directory `state`. Changes nothing: whatever cannot be read or is no
    /// ring is left where it is.
    pub fn look(state: &Path, reserve: u64) -> Shelf {
        let mut shelf = Shelf { dir: state.join(NAME), rings: BTreeMap::new(), reserve };
        let names = fs::read_dir(&shelf.dir).into_iter().flatten().flatten();
        let keys: Vec<Key> = names.filter_map(|entry| key_of(entry.file_name().to_str()?)).collect();
        for key in keys {
            // One that cannot be read is as good as empty; the next sample replaces it.
            let bytes = fs::metadata(shelf.path(&key)).map_or(0, |found| found.len());
            let Found { kept, damaged } = shelf.read_all(&key).unwrap_or_else(|_| Found::unreadable());
            let next = kept.iter().map(|kept| kept.number.saturating_add(1)).max().unwrap_or(1);
            shelf.rings.insert(key, Ring { bytes, frames: kept.len(), next, torn: damaged });
        }
        shelf
    }

    /// As [`Shelf::look`], for the owner: what an interrupted change has left is removed.
    pub fn open(state: &Path, reserve: u64) -> Shelf {
        // No directory, or one that takes no changes: then there is nothing to remove, or no way.
        let _ = files::remove_matching(&state.join(NAME), |name| name.ends_with(TEMPORARY));
        Shelf::look(state, reserve)
    }

    /// Samples that are kept.
    pub fn count(&self) -> usize {
        self.rings.values().map(|ring| ring.frames.min(SAMPLES_KEPT)).sum()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.rings.values().map(|ring| ring.bytes).sum()
    }

    /// Keeps one more.
    ///
    /// # Errors
    /// The medium does not take it, or has no room beyond the reserve.
    pub fn keep(&mut self, sample: Sample) -> io::Result<()> {
        make_dir(&self.dir)?;
        if files::free_bytes(&self.dir)? < self.reserve {
            return Err(ErrorKind::StorageFull.into());
        }
        let key = (sample.stream.clone(), sample.reason);
        let number = self.rings.get(&key).map_or(1, |ring| ring.next);
        let kept = Kept { number, in_doubt: false, sample };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &kept);
        self.make_room(bytes.len() as u64)?;
        let ring = self.rings.entry(key.clone()).or_default();
        ring.next = number.saturating_add(1);
        if ring.torn || ring.frames >= FRAMES_MAX {
            let mut newest = self.read(&key).unwrap_or_default();
            newest.push(kept);
            return self.replace(&key, newest);
        }
        ring.torn = true; // Until all of it is there.
        let path = self.path(&key);
        files::make_way(&path)?;
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)?.write_all(&bytes)?;
        if let Some(ring) = self.rings.get_mut(&key) {
            ring.torn = false;
            ring.frames += 1;
            ring.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// Those of one stream and reason, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read; damage in it is none.
    pub(super) fn read(&self, key: &Key) -> io::Result<Vec<Kept>> {
        let mut kept = self.read_all(key)?.kept;
        kept.drain(..kept.len().saturating_sub(SAMPLES_KEPT));
        Ok(kept)
    }

    /// The rings that are asked for, with what can be read of each, and whether some cannot.
    pub(super) fn select<'a>(&'a self, selection: &'a Selection) -> impl Iterator<Item = (&'a Key, Vec<Kept>, bool)> {
        let keys = self.rings.iter().filter(|(key, ring)| ring.bytes > 0 && selection.has(key));
        keys.map(|(key, ring)| self.read(key).map_or((key, Vec::new(), true), |kept| (key, kept, ring.torn)))
    }

    /// The samples that are to be taken in are marked, and handed out. `again`: also those in doubt.
    ///
    /// # Errors
    /// The mark cannot be made durable: then none of that ring, and of those after it, is handed out.
    pub(super) fn begin(&mut self, selection: &Selection, again: bool) -> (Begun, io::Result<()>) {
        let mut begun = Begun::default();
        let keys: Vec<Key> = self.select(selection).map(|(key, ..)| key.clone()).collect();
        for key in keys {
            if let Err(error) = self.begin_ring(&key, again, &mut begun) {
                return (begun, Err(error));
            }
        }
        (begun, Ok(()))
    }

    fn begin_ring(&mut self, key: &Key, again: bool, begun: &mut Begun) -> io::Result<()> {
        let mut all = self.read(key)?;
        let (mut samples, mut left) = (Vec::new(), Vec::new());
        for kept in &mut all {
            if let Some(obstacle) = obstacle(kept, again) {
                left.push((kept.clone(), obstacle));
            } else {
                kept.in_doubt = true;
                samples.push(kept.clone());
            }
        }
        if !samples.is_empty() {
            self.replace(key, all)?;
        }
        begun.samples.extend(samples);
        begun.left.extend(left);
        Ok(())
    }

    /// What became of those that were handed out; `None`: the engine has not seen them.
    ///
    /// # Errors
    /// Not all of it could be written: those stay in doubt.
    pub(super) fn settle(&mut self, settled: &[(Key, u64, Option<Verdict>)]) -> io::Result<()> {
        let mut keys: Vec<&Key> = settled.iter().map(|(key, ..)| key).collect();
        keys.dedup();
        let mut result = Ok(());
        for key in keys {
            let rewritten = self.read(key).and_then(|all| {
                let rest = all.into_iter().filter_map(|kept| {
                    let found = settled.iter().find(|(of, number, _)| of == key && *number == kept.number);
                    match found {
                        None => Some(kept),
                        Some((_, _, verdict)) => after(kept, verdict.as_ref()),
                    }
                });
                let rest = rest.collect();
                self.replace(key, rest)
            });
            result = result.and(rewritten);
        }
        result
    }

    /// Until so many more bytes are within the bound.
    fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        while self.bytes() + bytes > SAMPLES_DISK_MAX {
            let largest = self.rings.iter().filter(|(_, ring)| ring.bytes > 0).max_by_key(|(_, ring)| ring.bytes);
            let Some(key) = largest.map(|(key, _)| key.clone()) else { return Ok(()) };
            let mut kept = self.read(&key).unwrap_or_default();
            kept.drain(..kept.len().div_ceil(2));
            self.replace(&key, kept)?;
        }
        Ok(())
    }

    fn read_all(&self, key: &Key) -> io::Result<Found> {
        let mut bytes = Vec::new();
        let path = self.path(key);
        if !fs::metadata(&path)?.is_file() {
            return Err(ErrorKind::InvalidData.into());
        }
        // Whatever somebody has put there.
        File::open(path)?.take(SAMPLES_DISK_MAX).read_to_end(&mut bytes)?;
        Ok(frame::read(&bytes, &key.0, key.1))
    }

    /// The file with these samples and no others, in one step and durably; without any, none.
    fn replace(&mut self, key: &Key, mut kept: Vec<Kept>) -> io::Result<()> {
        kept.drain(..kept.len().saturating_sub(SAMPLES_KEPT));
        let path = self.path(key);
        if kept.is_empty() {
            files::make_way(&path)?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            // Its numbers go on: whoever still holds one must not mean another sample.
            let ring = self.rings.entry(key.clone()).or_default();
            *ring = Ring { next: ring.next, ..Ring::default() };
            return files::sync_dir(&self.dir);
        }
        let mut bytes = Vec::new();
        for kept in &kept {
            frame::write(&mut bytes, kept);
        }
        let temporary = self.dir.join(format!("{}{TEMPORARY}", file_name(key)));
        files::make_way(&temporary)?;
        files::make_way(&path)?;
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        files::step();
        fs::rename(&temporary, &path)?;
        let next = kept.iter().map(|kept| kept.number.saturating_add(1)).max().unwrap_or(1);
        let ring = self.rings.entry(key.clone()).or_default();
        *ring = Ring { bytes: bytes.len() as u64, frames: kept.len(), next: ring.next.max(next), torn: false };
        files::sync_dir(&self.dir)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(file_name(key))
    }
}

impl Found {
    fn unreadable() -> Found {
        Found { kept: Vec::new(), damaged: true }
    }
}

impl Kept {
    pub(super) fn key(&self) -> Key {
        (self.sample.stream.clone(), self.sample.reason)
    }
}

fn obstacle(kept: &Kept, again: bool) -> Option<Obstacle> {
    if !kept.sample.is_whole {
        return Some(Obstacle::Cut);
    }
    if kept.sample.part == Part::Unknown {
        return Some(Obstacle::UnknownPart);
    }
    (kept.in_doubt && !again).then_some(Obstacle::InDoubt)
}

/// What is left of a sample.
fn after(kept: Kept, verdict: Option<&Verdict>) -> Option<Kept> {
    let part = match verdict {
        None | Some(Verdict::NoStream | Verdict::OtherRecords) => kept.sample.part,
        Some(Verdict::Taken(outcome)) => outcome.rest?,
    };
    Some(Kept { in_doubt: false, sample: Sample { part, ..kept.sample }, ..kept })
}

fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    // Something else has its name: a file, a dangling link.
    if fs::symlink_metadata(dir).is_ok() {
        fs::remove_file(dir)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn file_name((stream, reason): &Key) -> String {
    let mut name = String::new();
    push_escaped(&mut name, stream.as_str()).expect("memory does not fail");
    name.push('@');
    name.push_str(reason.as_str());
    name
}

fn key_of(file: &str) -> Option<Key> {
    let (stream, word) = file.split_once('@')?;
    Some((unescaped(stream)?, reason(word)?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::frame::tests::{name, sample};
    use super::*;
    use crate::engine::samples::Outcome;

    const REASON: RejectReason = RejectReason::NotJson;

    fn key(stream: &str) -> Key {
        (name(stream), REASON)
    }

    fn keep(shelf: &mut Shelf, stream: &str, count: usize, bytes: usize) {
        for _ in 0..count {
            shelf.keep(sample(stream, REASON, &vec![b'x'; bytes])).unwrap();
        }
    }

    fn numbers(shelf: &Shelf, stream: &str) -> Vec<u64> {
        shelf.read(&key(stream)).map_or(Vec::new(), |all| all.iter().map(|kept| kept.number).collect())
    }

    fn all() -> Selection {
        Selection::default()
    }

    #[test]
    fn the_newest_are_kept_and_files_are_bounded_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "a/b @", 100, 4_000);
        let newest: Vec<u64> = (85..=100).collect();
        assert_eq!(numbers(&shelf, "a/b @"), newest);
        let again = Shelf::look(dir.path(), 0);
        assert_eq!((numbers(&again, "a/b @"), again.bytes()), (newest, shelf.bytes()));
        let file = dir.path().join("rejected/a%2Fb%20%40@not_json");
        let found = fs::metadata(&file).unwrap();
        assert!(found.len() == shelf.bytes() && found.len() < 33 * 4_300, "{} bytes", found.len());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(dir.path().join("rejected")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(dir.path().join("rejected")).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn all_together_are_bounded_and_the_loud_ones_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "rare", 1, 100);
        for n in 0..60 {
            keep(&mut shelf, &format!("loud-{n}"), 20, 4_000);
            assert!(shelf.bytes() <= SAMPLES_DISK_MAX);
        }
        assert_eq!(numbers(&shelf, "rare"), [1]);
        assert_eq!(Shelf::look(dir.path(), 0).bytes(), shelf.bytes());
    }

    #[test]
    fn a_torn_end_is_skipped_and_mended_by_the_next_sample() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "s", 3, 50);
        let file = dir.path().join("rejected/s@not_json");
        let bytes = fs::read(&file).unwrap();
        for cut in 1..bytes.len() {
            fs::write(&file, &bytes[..cut]).unwrap();
            let mut shelf = Shelf::look(dir.path(), 0);
            let before = numbers(&shelf, "s");
            keep(&mut shelf, "s", 1, 50);
            let after = numbers(&shelf, "s");
            assert_eq!(after[..before.len()], before, "cut at {cut}");
            assert_eq!(after.len(), before.len() + 1);
            assert_eq!(numbers(&Shelf::look(dir.path(), 0), "s"), after);
        }
    }

    #[test]
    fn what_an_interrupted_change_has_left_is_removed_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::open(dir.path(), 0);
        keep(&mut shelf, "s", 2, 5);
        fs::write(dir.path().join("rejected/s@not_json.new"), "half of").unwrap();
        assert_eq!(numbers(&Shelf::look(dir.path(), 0), "s"), [1, 2]);
        assert_eq!(numbers(&Shelf::open(dir.path(), 0), "s"), [1, 2]);
        assert_eq!(fs::read_dir(dir.path().join("rejected")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_in_the_way_is_no_reason_to_fail() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("rejected"), "a file").unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "s", 1, 5);
        fs::remove_file(dir.path().join("rejected/s@not_json")).unwrap();
        fs::create_dir_all(dir.path().join("rejected/s@not_json/x")).unwrap();
        fs::write(dir.path().join("rejected/README"), "no ring").unwrap();
        fs::write(dir.path().join("rejected/s@no_such_reason"), "no ring").unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "s", 2, 5);
        assert_eq!(numbers(&shelf, "s"), [1, 2]);
    }

    #[test]
    fn nothing_is_written_when_the_medium_has_no_more_than_the_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), u64::MAX);
        let error = shelf.keep(sample("s", REASON, b"x")).unwrap_err();
        assert!(files::is_full(&error), "{error}");
        assert_eq!((shelf.count(), shelf.bytes()), (0, 0));
    }

    #[test]
    fn a_sample_is_marked_before_it_is_handed_out_and_stays_marked_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "s", 2, 5);
        let (begun, marked) = shelf.begin(&all(), false);
        marked.unwrap();
        assert_eq!((begun.samples.len(), begun.left.len()), (2, 0));

        let mut crashed = Shelf::look(dir.path(), 0);
        let (begun, _) = crashed.begin(&all(), false);
        assert!(begun.samples.is_empty());
        assert!(begun.left.iter().all(|(_, why)| *why == Obstacle::InDoubt) && begun.left.len() == 2);
        assert_eq!(crashed.begin(&all(), true).0.samples.len(), 2, "somebody said so");
    }

    #[test]
    fn what_was_taken_in_goes_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "s", 4, 5);
        let (begun, _) = shelf.begin(&all(), false);
        keep(&mut shelf, "s", 1, 5);
        let part = Part::Records { of: 64, places: 2 };
        let verdicts = [
            Some(Verdict::Taken(Outcome { accepted: 1, ..Outcome::default() })),
            Some(Verdict::Taken(Outcome { rejected: 1, rest: Some(part), ..Outcome::default() })),
            Some(Verdict::NoStream),
            None,
        ];
        let settled: Vec<_> =
            begun.samples.iter().zip(verdicts).map(|(kept, verdict)| (kept.key(), kept.number, verdict)).collect();
        shelf.settle(&settled).unwrap();
        let shelf = Shelf::look(dir.path(), 0);
        assert_eq!(numbers(&shelf, "s"), [2, 3, 4, 5]);
        let left = shelf.read(&key("s")).unwrap();
        assert!(left.iter().all(|kept| !kept.in_doubt));
        assert_eq!(left[0].sample.part, part);
    }

    #[test]
    fn numbers_go_on_after_the_last_sample_was_taken_in() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        keep(&mut shelf, "s", 1, 5);
        let taken = Some(Verdict::Taken(Outcome { accepted: 1, ..Outcome::default() }));
        shelf.begin(&all(), false).1.unwrap();
        shelf.settle(&[(key("s"), 1, taken)]).unwrap();
        assert_eq!((shelf.count(), shelf.bytes(), shelf.select(&all()).count()), (0, 0, 0));
        assert_eq!(fs::read_dir(dir.path().join("rejected")).unwrap().count(), 0);
        keep(&mut shelf, "s", 1, 5);
        assert_eq!(numbers(&shelf, "s"), [2]);
    }

    #[test]
    fn what_was_cut_or_cannot_be_told_apart_is_not_handed_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        shelf.keep(Sample { is_whole: false, ..sample("s", REASON, b"x") }).unwrap();
        shelf.keep(Sample { part: Part::Unknown, ..sample("s", REASON, b"x") }).unwrap();
        let (begun, marked) = shelf.begin(&all(), true);
        marked.unwrap();
        let why: Vec<Obstacle> = begun.left.iter().map(|(_, why)| *why).collect();
        assert_eq!((begun.samples.len(), why), (0, vec![Obstacle::Cut, Obstacle::UnknownPart]));
    }
}
