//! The chains of the outbox on disk: what the uplink has not taken for long.
//!
//! ```text
//! <dir>/outbox/<lane>/<number of the first block, 16 hex digits>/   a sled database of ≤ 4 MB
//! ```
//!
//! - Blocks are packed, cut into frames (`frame.rs`), and appended to the last database
//!   of the lane; a new one is begun when it is full, after every start, after an error,
//!   and where numbers come again.
//! - To read, the file of a database is searched for frames (`index.rs`); sled opens
//!   none that another process wrote. So nothing that was found damaged gets worse by
//!   being read, and reading costs no memory but one index for each lane.
//! - Space comes back by deleting whole databases from the oldest (`lane.rs`).
//! - At the start directories are listed, nothing is opened.

mod append;
mod frame;
mod index;
mod lane;
mod read;
mod reader;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use self::lane::Lane;
use super::files;
use crate::engine::chain::Chain;
use crate::engine::outbox::LaneKind;
use crate::engine::ring::slots::SlotError;
use crate::engine::store::StoreError;

pub use self::reader::ChainReader;
pub use self::writer::{MakeMedium, Medium};

const NAME: &str = "outbox";

/// The chains of all lanes.
pub struct DiskChain {
    /// The store's directory.
    dir: PathBuf,
    lanes: Vec<Lane>,
    make: MakeMedium,
    /// Bytes that must stay free beside a block.
    reserve: u64,
    /// Bytes of that which a file of ours keeps.
    held: u64,
    /// Blocks were lost that no sync has reported yet.
    lost: bool,
    appends: u64,
    /// Bytes handed to the medium so far, as estimated.
    written: u64,
    /// The block that could not be read last, and how often.
    failing: (u8, u64, u32),
}

impl fmt::Debug for DiskChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskChain").field("dir", &self.dir).field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

impl DiskChain {
    /// The chains in the store's directory `dir`. `reserve`: bytes that a block must leave free.
    ///
    /// # Errors
    /// The directories cannot be listed.
    pub fn open(dir: &Path, reserve: u64) -> io::Result<DiskChain> {
        DiskChain::with_medium(dir, reserve, Box::new(super::database))
    }

    /// As [`DiskChain::open`], on another medium than sled: to put faults into.
    ///
    /// # Errors
    /// As for [`DiskChain::open`].
    pub fn with_medium(dir: &Path, reserve: u64, make: MakeMedium) -> io::Result<DiskChain> {
        let lanes = LaneKind::ALL.iter().zip(0..).map(|(lane, number)| {
            let place = dir.join(NAME).join(lane.as_str());
            Lane::list(&place, number)
        });
        let lanes = lanes.collect::<io::Result<Vec<_>>>()?;
        Ok(DiskChain {
            dir: dir.to_owned(),
            lanes,
            make,
            reserve,
            held: 0,
            lost: false,
            appends: 0,
            written: 0,
            failing: (0, 0, 0),
        })
    }

    /// How much of the reserve a file keeps: it does not count as free, and is.
    pub fn set_held(&mut self, bytes: u64) {
        self.held = bytes;
    }

    /// Bytes handed to the medium so far.
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// Databases open for writing at the moment.
    pub fn open_databases(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.writer.as_ref().is_some_and(|writer| writer.open)).count()
    }

    /// Databases there are.
    pub fn databases(&self) -> usize {
        self.lanes.iter().map(|lane| lane.links.len()).sum()
    }

    fn lane(&mut self, lane: u8) -> Result<&mut Lane, StoreError> {
        let known = self.lanes.get_mut(usize::from(lane));
        known.ok_or_else(|| StoreError::Failed(format!("there is no lane {lane}")))
    }
}

impl Chain for DiskChain {
    fn append_block(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        self.append(lane, number, block)
    }

    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        let mut result = Ok(());
        for lane in 0..self.lanes.len() {
            let lane = u8::try_from(lane).expect("few lanes");
            result = self.sync_lane(lane).and(result);
        }
        if core::mem::take(&mut self.lost) && result.is_ok() {
            return Err(StoreError::Failed("blocks were lost when the medium failed".into()));
        }
        result
    }

    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.read(lane, number, into)
    }

    fn free_blocks(&mut self, lane: u8, first: u64) -> Result<(), StoreError> {
        let place = self.lane(lane)?;
        place.sweep();
        loop {
            let mut oldest = place.links.iter();
            let (Some((&oldest, &link)), next) = (oldest.next(), oldest.next().map(|(next, _)| *next)) else {
                return Ok(());
            };
            if oldest >= first {
                return Ok(());
            }
            let all_freed = match (next, link.last) {
                (Some(next), _) => next <= first,
                (None, Some(last)) => last < first,
                // Written by another process: look once.
                (None, None) => match place.index(oldest, false) {
                    Ok(index) => index.last().is_none_or(|last| last < first),
                    Err(_) => false,
                },
            };
            if !all_freed {
                return Ok(());
            }
            place.remove(oldest).map_err(|error| sort_io(&error))?;
        }
    }

    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.find(lane)
    }

    fn chain_bytes(&self) -> u64 {
        self.lanes.iter().map(Lane::bytes).sum()
    }
}

fn sort(error: SlotError) -> StoreError {
    match error {
        SlotError::Full => StoreError::Full,
        SlotError::Failed(why) | SlotError::Gone(why) => StoreError::Failed(why),
    }
}

fn sort_io(error: &io::Error) -> StoreError {
    if files::is_full(error) { StoreError::Full } else { StoreError::Failed(error.to_string()) }
}
