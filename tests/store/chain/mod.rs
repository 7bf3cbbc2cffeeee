//! The chains of the outbox on disk: a model, damage, rotation and freeing.

mod damage;
mod faults;
mod model;
mod rotation;

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::agent::store::DiskChain;
use tidegate::engine::chain::Chain;

use crate::random::Random;

pub(crate) const BACKLOG: u8 = 3;
pub(crate) const LATE: u8 = 4;

/// Thousands of syncs: not the disk's business.
pub(crate) fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

pub(crate) fn open(dir: &Path) -> DiskChain {
    DiskChain::open(dir, 0).unwrap()
}

pub(crate) fn read(chain: &mut DiskChain, lane: u8, number: u64) -> Option<Vec<u8>> {
    let mut block = vec![1];
    chain.read_block(lane, number, &mut block).unwrap().then_some(block)
}

/// The directories of a lane's databases, oldest first.
pub(crate) fn links(dir: &Path, lane: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("outbox").join(lane));
    let mut links: Vec<PathBuf> = entries.map_or(vec![], |found| found.map(|entry| entry.unwrap().path()).collect());
    links.sort();
    links
}

/// A block that does not pack.
pub(crate) fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(len).collect()
}

/// What the files take on the medium.
pub(crate) fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(dir).map_or(vec![], |found| found.map(|entry| entry.unwrap()).collect());
    let of = |entry: &std::fs::DirEntry| {
        let own = entry.metadata().unwrap();
        own.blocks() * 512 + if own.is_dir() { disk_bytes(&entry.path()) } else { 0 }
    };
    entries.iter().map(of).sum()
}
