//! The databases of one lane, in order of their first block. PURE bookkeeping but for
//! the directories: what is in a database is `index.rs`, how it is written `writer.rs`.
//!
//! A database holds the blocks from the number in its name up to before the next
//! one's. Where numbers come again after a crash, a new database begins with the
//! first of them: nothing is ever overwritten, and older copies behind it are out of
//! reach.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::files;
use super::index::Index;
use super::writer::Writer;

/// The name that sled gives to its data file.
const DATA: &str = "db";
/// Ends the name of a directory that is being removed.
const FREED: &str = ".freed";
/// What a database takes beside its data file: settings, page table, directories.
pub(super) const BESIDE_BYTES: u64 = 24 * 1024;

/// One lane's chain.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) number: u8,
    dir: PathBuf,
    pub(super) links: BTreeMap<u64, Link>,
    /// Of the last link.
    pub(super) writer: Option<Writer>,
    /// The index of one link, in most cases the first.
    index: Option<(u64, Index)>,
    /// Something was written since it was read.
    index_behind: bool,
    /// Directories were renamed and are still there.
    litter: bool,
}

/// One database.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Link {
    /// Bytes on the medium.
    pub(super) bytes: u64,
    /// The highest number in it, once that is known.
    pub(super) last: Option<u64>,
}

impl Lane {
    /// Lists the databases in `dir`, and removes what an interrupted removal left.
    /// Opens none of them.
    pub(super) fn list(dir: &Path, number: u8) -> io::Result<Lane> {
        // A file, a pipe or a dangling link in its place holds no blocks.
        if fs::symlink_metadata(dir).is_ok() && !dir.is_dir() {
            fs::remove_file(dir)?;
        }
        let mut lane = Lane::look(dir, number)?;
        lane.sweep();
        Ok(lane)
    }

    /// Lists the databases in `dir`, and changes nothing.
    pub(super) fn look(dir: &Path, number: u8) -> io::Result<Lane> {
        let mut links = BTreeMap::new();
        let mut litter = false;
        match fs::read_dir(dir) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry?;
                    let name = entry.file_name();
                    let first = name.to_str().and_then(first_of);
                    match first {
                        Some(first) if entry.path().is_dir() => {
                            links.insert(first, Link { bytes: bytes_of(&entry.path()), last: None });
                        }
                        _ => litter = true,
                    }
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
        Ok(Lane { number, dir: dir.to_owned(), links, writer: None, index: None, index_behind: false, litter })
    }

    /// Where the database that begins with `first` is.
    pub(super) fn place(&self, first: u64) -> PathBuf {
        self.dir.join(format!("{first:016x}"))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The database that would have `number`.
    pub(super) fn link_of(&self, number: u64) -> Option<u64> {
        self.links.range(..=number).next_back().map(|(first, _)| *first)
    }

    /// The index of a database. `anew`: the one in memory may be older than the file.
    pub(super) fn index(&mut self, first: u64, anew: bool) -> io::Result<&Index> {
        let known = self.index.as_ref().is_some_and(|(of, _)| *of == first) && !anew;
        if !known {
            self.index = None;
            self.index_behind = false;
            let index = Index::read(&self.place(first).join(DATA), self.number)?;
            if let Some(link) = self.links.get_mut(&first) {
                link.last = link.last.max(index.last());
            }
            self.index = Some((first, index));
        }
        Ok(&self.index.as_ref().expect("read above").1)
    }

    /// The numbers of the blocks that can be read. Looks at the files of all databases; one
    /// that cannot be read must not take the others with it.
    ///
    /// # Errors
    /// There are some, and none of them can be read.
    pub(super) fn find_blocks(&mut self) -> io::Result<Vec<u64>> {
        let firsts: Vec<u64> = self.links.keys().copied().collect();
        let mut found = Vec::new();
        let mut failure = None;
        let mut answered = false;
        for (at, first) in firsts.iter().enumerate() {
            let end = firsts.get(at + 1);
            let ours = |number: &u64| *number >= *first && end.is_none_or(|end| number < end);
            match self.index(*first, true) {
                Ok(index) => {
                    answered = true;
                    found.extend(index.numbers().filter(ours).filter(|number| index.has(*number)));
                }
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            tracing::error!(%error, lane = self.number, "a database of the outbox cannot be read");
            if !answered {
                return Err(error);
            }
        }
        Ok(found)
    }

    /// Blocks were written: the index in memory may not have them.
    pub(super) fn note_written(&mut self) {
        self.index_behind = true;
    }

    /// True when it may be worth reading the index again.
    pub(super) fn is_index_behind(&self) -> bool {
        self.index_behind
    }

    /// Has the next reading look at the medium again.
    pub(super) fn forget_index(&mut self) {
        self.index = None;
    }

    /// Takes the index over from an earlier look at the same files, if the file under the
    /// name is still the same one.
    pub(super) fn take_index_of(&mut self, before: &mut Lane) {
        self.index = before.index.take().filter(|(first, index)| index.is_of(&self.place(*first).join(DATA)));
    }

    /// Forgets a database that somebody else moved away.
    pub(super) fn forget(&mut self, first: u64) {
        self.links.remove(&first);
        self.index.take_if(|(of, _)| *of == first);
    }

    /// Removes a database: after a power cut it is there, or is recognised as removed.
    pub(super) fn remove(&mut self, first: u64) -> io::Result<()> {
        let place = self.place(first);
        if self.links.last_key_value().is_some_and(|(last, _)| *last == first) {
            self.writer = None;
        }
        match self.set_aside(&place, first) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
        self.forget(first);
        self.sweep();
        Ok(())
    }

    fn set_aside(&mut self, place: &Path, first: u64) -> io::Result<()> {
        let mut copies = 0;
        let aside = loop {
            let aside = self.dir.join(format!("{first:016x}.{copies}{FREED}"));
            if !aside.exists() {
                break aside;
            }
            copies += 1;
        };
        fs::rename(place, aside)?;
        self.litter = true;
        files::sync_dir(&self.dir)
    }

    /// Removes a directory in the way of a new database.
    pub(super) fn make_way(&mut self, first: u64) -> io::Result<()> {
        let place = self.place(first);
        if fs::symlink_metadata(&place).is_ok() { self.set_aside(&place, first) } else { Ok(()) }
    }

    /// Deletes what is no database of ours; what cannot be deleted is tried again.
    pub(super) fn sweep(&mut self) {
        if !self.litter {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        self.litter = false;
        for entry in entries.flatten() {
            let is_ours = entry.path().is_dir() && entry.file_name().to_str().and_then(first_of).is_some();
            if !is_ours && files::make_way(&entry.path()).and_then(|()| remove_file(&entry.path())).is_err() {
                self.litter = true;
            }
        }
    }

    /// What its databases take on the medium.
    pub(super) fn bytes(&self) -> u64 {
        self.links.values().map(|link| link.bytes).sum()
    }

    /// Asks the medium what a database takes.
    pub(super) fn measure(&mut self, first: u64) {
        let bytes = bytes_of(&self.place(first));
        if let Some(link) = self.links.get_mut(&first) {
            link.bytes = bytes;
        }
    }
}

/// [`files::make_way`] leaves a file where it is.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn bytes_of(link: &Path) -> u64 {
    fs::metadata(link.join(DATA)).map_or(0, |data| data.blocks() * 512) + BESIDE_BYTES
}

/// The number in the name of a database.
fn first_of(name: &str) -> Option<u64> {
    let first = u64::from_str_radix(name, 16).ok()?;
    (format!("{first:016x}") == name).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_give_are_databases() {
        assert_eq!(first_of("00000000000000ff"), Some(255));
        for name in ["ff", "00000000000000FF", "+0000000000000ff", "00000000000000ff.0.freed", "", "lost+found"] {
            assert_eq!(first_of(name), None, "{name}");
        }
    }

    #[test]
    fn what_an_interrupted_removal_left_is_gone_after_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["0000000000000001.0.freed", "0000000000000002"] {
            fs::create_dir_all(dir.path().join(name).join("blobs")).unwrap();
        }
        fs::write(dir.path().join("stray"), "x").unwrap();
        let lane = Lane::list(dir.path(), 3).unwrap();
        assert_eq!(lane.links.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(lane.links.values().all(|link| link.last.is_none()), "none was opened");
    }
}
