//! Space that is ours whatever else fills the disk: a file that holds it, given
//! back when a commit finds no room.
//!
//! ```text
//! <dir>/reserve    half of the reserve, at most 16 MiB, really allocated
//! ```
//!
//! Where the file system can allocate without writing (ext4, f2fs, btrfs, xfs, tmpfs)
//! that costs a few blocks of its books; elsewhere it is written once, with noise,
//! because some file systems would shrink zeros to nothing.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::files;
use crate::model::limits::BALLAST_BYTES_MAX;

const NAME: &str = "reserve";

/// The file, and whether it is there.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    dir: PathBuf,
    /// All that is to stay free, the file included.
    reserve: u64,
    held: bool,
    /// Why it is not there.
    complaint: Option<String>,
}

impl Ballast {
    /// Finds the file in `dir`, or makes it when there is room.
    pub(super) fn open(dir: &Path, reserve: u64) -> Ballast {
        let path = dir.join(NAME);
        let mut ballast = Ballast { path, dir: dir.to_owned(), reserve, held: false, complaint: None };
        let allocated = |file: &fs::Metadata| file.is_file() && file.blocks() * 512 >= ballast.bytes();
        ballast.held = fs::symlink_metadata(&ballast.path).is_ok_and(|file| {
            // Another size: the configuration has changed, or the power went while it was made.
            allocated(&file) && file.len() == ballast.bytes()
        });
        if !ballast.held {
            _ = fs::remove_file(&ballast.path);
            ballast.make();
        }
        ballast
    }

    /// Bytes of the file.
    fn bytes(&self) -> u64 {
        (self.reserve / 2).min(BALLAST_BYTES_MAX)
    }

    /// Bytes that the file holds at the moment.
    pub(super) fn held_bytes(&self) -> u64 {
        if self.held { self.bytes() } else { 0 }
    }

    /// Gives the space to whoever writes next; true when there was something to give.
    pub(super) fn give_back(&mut self) -> bool {
        if !self.held || fs::remove_file(&self.path).is_err() {
            return false;
        }
        self.held = false;
        tracing::error!(bytes = self.bytes(), "the disk is full: the reserve is given back, so that commits go on");
        self.complain(self.too_full());
        true
    }

    /// Makes the file when there is room beside what is to stay free.
    pub(super) fn make(&mut self) {
        if self.held {
            return;
        }
        let enough = files::free_bytes(&self.dir).map(|free| free >= self.reserve);
        let made = enough.and_then(|enough| {
            if enough {
                allocate(&self.path, self.bytes())?;
                files::sync_dir(&self.dir)?;
            }
            Ok(enough)
        });
        match made {
            Ok(true) => {
                self.held = true;
                if self.complaint.take().is_some() {
                    tracing::info!(bytes = self.bytes(), "there is room again: the reserve is taken");
                }
            }
            Ok(false) => self.complain(self.too_full()),
            Err(error) => {
                _ = fs::remove_file(&self.path);
                self.complain(format!("no space can be reserved on the disk: {error}"));
            }
        }
    }

    fn too_full(&self) -> String {
        format!("the disk is nearly full: less is free than `storage.reserve` ({} MiB)", self.reserve >> 20)
    }

    fn complain(&mut self, about: String) {
        if self.complaint.as_ref() != Some(&about) {
            tracing::warn!("{about}");
            self.complaint = Some(about);
        }
    }

    /// Why the space is not reserved, for people.
    pub(super) fn complaint(&self) -> Option<String> {
        self.complaint.clone()
    }
}

fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    files::make_way(path)?;
    let mut file = File::create(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_noise(&mut file, bytes)?,
        Err(error) => return Err(error.into()),
    }
    file.sync_all()
}

/// Bytes that no file system finds a shorter form for.
fn write_noise(file: &mut File, bytes: u64) -> io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut left = bytes;
    let mut piece = Vec::with_capacity(64 * 1024);
    while left > 0 {
        piece.clear();
        while piece.len() < piece.capacity() {
            // Xorshift: good enough for a compressor.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            piece.extend_from_slice(&state.to_le_bytes());
        }
        let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&piece[..len])?;
        left -= len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVE: u64 = 2 * 1024 * 1024;

    #[test]
    fn it_is_allocated_found_again_given_back_once_and_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut ballast = Ballast::open(dir.path(), RESERVE);
        let file = dir.path().join(NAME);
        assert_eq!(ballast.held_bytes(), RESERVE / 2);
        assert!(file.metadata().unwrap().blocks() * 512 >= RESERVE / 2, "really allocated");
        assert_eq!(Ballast::open(dir.path(), RESERVE).complaint(), None);
        assert!(ballast.give_back() && !ballast.give_back());
        assert!(!file.exists() && ballast.complaint().is_some());
        ballast.make();
        assert!(file.exists() && ballast.complaint().is_none());
    }

    #[test]
    fn one_of_another_size_or_kind_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(NAME);
        let sparse = File::create(&file).unwrap();
        sparse.set_len(RESERVE / 2).unwrap();
        for _ in 0..2 {
            assert_eq!(Ballast::open(dir.path(), RESERVE).held_bytes(), RESERVE / 2);
            assert!(file.metadata().unwrap().blocks() * 512 >= RESERVE / 2);
            fs::remove_file(&file).unwrap();
            fs::create_dir_all(file.join("not empty")).unwrap();
        }
    }

    #[test]
    fn without_room_there_is_none_and_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let ballast = Ballast::open(dir.path(), u64::MAX / 2);
        assert_eq!(ballast.held_bytes(), 0);
        assert!(ballast.complaint().is_some());
    }

    #[test]
    fn noise_is_as_long_as_asked_and_does_not_pack() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("noise");
        write_noise(&mut File::create(&path).unwrap(), 200_001).unwrap();
        let noise = fs::read(path).unwrap();
        assert_eq!(noise.len(), 200_001);
        assert!((super::super::ZSTD.pack)(&noise).len() > 199_000);
    }
}
