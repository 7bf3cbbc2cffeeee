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

mod frame;
mod index;
mod lane;
mod reader;
mod writer;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::frame::frames;
use self::lane::Lane;
use self::writer::Writer;
use super::files;
use super::quarantine;
use crate::engine::chain::Chain;
use crate::engine::outbox::LaneKind;
use crate::engine::ring::slots::SlotError;
use crate::engine::store::StoreError;

pub use self::reader::ChainReader;
pub use self::writer::{MakeMedium, Medium};

const NAME: &str = "outbox";
/// Databases open for writing, over all lanes: each takes some 10 MiB of memory when it
/// is full. One more and the one that waited longest is closed for good.
const OPEN_MAX: usize = 2;
/// Room that a new database takes before the first block is in it.
const BEGIN_BYTES: u64 = 256 * 1024;
/// Answers that the medium fails, before a block counts as unreadable: a bad sector
/// never heals, and must not hold back what lies behind it.
const FAILURES_MAX: u32 = 3;

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
            failing: (0, 0, 0),
        })
    }

    /// How much of the reserve a file keeps: it does not count as free, and is.
    pub fn set_held(&mut self, bytes: u64) {
        self.held = bytes;
    }

    /// Databases open for writing at the moment.
    pub fn open_databases(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.writer.is_some()).count()
    }

    /// Databases there are.
    pub fn databases(&self) -> usize {
        self.lanes.iter().map(|lane| lane.links.len()).sum()
    }

    fn lane(&mut self, lane: u8) -> Result<&mut Lane, StoreError> {
        let known = self.lanes.get_mut(usize::from(lane));
        known.ok_or_else(|| StoreError::Failed(format!("there is no lane {lane}")))
    }

    /// Gives up the writer of a lane, and whatever of it was not durable.
    fn give_up(&mut self, lane: u8) {
        let place = &mut self.lanes[usize::from(lane)];
        if let Some(writer) = place.writer.take() {
            self.lost |= writer.dirty;
        }
        if let Some(mut link) = place.links.last_entry() {
            link.get_mut().last = None;
        }
    }

    /// Makes the writer's blocks durable.
    fn sync_lane(&mut self, lane: u8) -> Result<(), StoreError> {
        let place = &mut self.lanes[usize::from(lane)];
        let Some(writer) = place.writer.as_mut().filter(|writer| writer.dirty) else { return Ok(()) };
        let result = writer.sync();
        if let Some(first) = place.links.keys().next_back().copied() {
            place.measure(first);
        }
        result.map_err(|error| {
            self.give_up(lane);
            sort(error)
        })
    }

    /// Begins the database whose first block is `number`. What is there from that
    /// number on is of no page: the power went before it could be named.
    fn begin(&mut self, lane: u8, number: u64) -> Result<(), StoreError> {
        if self.lanes[usize::from(lane)].writer.is_some() {
            self.sync_lane(lane)?;
            self.lanes[usize::from(lane)].writer = None;
        }
        self.close_others()?;
        let place = &mut self.lanes[usize::from(lane)];
        make_dir(place.dir()).map_err(|error| sort_io(&error))?;
        while let Some((&stale, _)) = place.links.range(number..).next_back() {
            place.remove(stale).map_err(|error| sort_io(&error))?;
        }
        place.make_way(number).map_err(|error| sort_io(&error))?;
        place.sweep();
        let medium = (self.make)(&place.place(number)).map_err(sort)?;
        place.links.insert(number, lane::Link { bytes: lane::BESIDE_BYTES, last: None });
        place.writer = Some(Writer::new(medium));
        Ok(())
    }

    /// Leaves room for one more open database.
    fn close_others(&mut self) -> Result<(), StoreError> {
        while self.open_databases() >= OPEN_MAX {
            let open = self.lanes.iter().filter_map(|lane| Some((lane.writer.as_ref()?.used, lane.number)));
            let Some((_, oldest)) = open.min() else { break };
            self.sync_lane(oldest)?;
            self.lanes[usize::from(oldest)].writer = None;
        }
        Ok(())
    }

    fn check_room(&self, bytes: u64) -> Result<(), StoreError> {
        let free = files::free_bytes(&self.dir).map_err(|error| sort_io(&error))?;
        if free.saturating_add(self.held) < self.reserve.saturating_add(bytes) { Err(StoreError::Full) } else { Ok(()) }
    }

    /// Reads a block of the database `first`; `Ok(false)` when it has none.
    fn read_from(&mut self, lane: u8, first: u64, number: u64, into: &mut Vec<u8>) -> io::Result<bool> {
        let place = &mut self.lanes[usize::from(lane)];
        let written = place.writer.is_some() && place.links.keys().next_back() == Some(&first);
        let had_index = place.has_index(first);
        let index = place.index(first, false)?;
        if index.block(lane, number, into)? {
            return Ok(true);
        }
        if written && had_index && place.index(first, true)?.block(lane, number, into)? {
            return Ok(true);
        }
        let empty = place.index(first, false)?.last().is_none();
        if empty && !written {
            let damaged = place.place(first);
            match quarantine::put_aside(&self.dir, &damaged) {
                Ok(aside) => tracing::error!(kept = %aside.display(), "a database of the outbox has nothing readable"),
                Err(error) => tracing::error!(%error, "a database of the outbox has nothing readable"),
            }
            place.forget(first);
        }
        Ok(false)
    }

    /// Counts a failure of the medium; after some of them the block counts as lost.
    fn note_failing(&mut self, lane: u8, number: u64, error: &io::Error) -> Result<bool, StoreError> {
        let (of_lane, of_number, times) = self.failing;
        let times = if (of_lane, of_number) == (lane, number) { times + 1 } else { 1 };
        self.failing = (lane, number, times);
        if times < FAILURES_MAX { Err(StoreError::Failed(error.to_string())) } else { Ok(false) }
    }
}

impl Chain for DiskChain {
    fn append_block(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        let frames = frames(lane, number, block).ok_or(StoreError::TooLarge { bytes: block.len() })?;
        let stored: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        self.check_room(stored * 2 + BEGIN_BYTES)?;
        self.appends += 1;
        let appends = self.appends;
        let takes = self.lane(lane)?.writer.as_ref().is_some_and(|writer| writer.takes(number, &frames));
        if !takes {
            self.begin(lane, number)?;
        }
        let place = self.lane(lane)?;
        let writer = place.writer.as_mut().expect("begun above");
        writer.used = appends;
        let bytes = writer.cost_of(&frames);
        if let Err(error) = writer.write(number, &frames) {
            self.give_up(lane);
            return Err(sort(error));
        }
        if let Some(mut link) = place.links.last_entry() {
            let link = link.get_mut();
            link.bytes += bytes;
            link.last = Some(number);
        }
        Ok(bytes)
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
        into.clear();
        let place = self.lane(lane)?;
        let Some(first) = place.link_of(number) else { return Ok(false) };
        if place.writer.as_ref().is_some_and(|writer| writer.dirty) && place.link_of(u64::MAX) == Some(first) {
            self.sync_lane(lane)?;
        }
        match self.read_from(lane, first, number, into) {
            Ok(found) => {
                if !found {
                    into.clear();
                    tracing::error!(lane, number, "a block of the outbox cannot be read any more");
                }
                Ok(found)
            }
            Err(error) => {
                // A handle to a medium that went away would never recover.
                self.lane(lane)?.forget_index();
                self.note_failing(lane, number, &error)
            }
        }
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
        self.sync_lane_for_reading(lane)?;
        self.lane(lane)?.find_blocks().map_err(|error| StoreError::Failed(error.to_string()))
    }

    fn chain_bytes(&self) -> u64 {
        self.lanes.iter().map(Lane::bytes).sum()
    }
}

impl DiskChain {
    fn sync_lane_for_reading(&mut self, lane: u8) -> Result<(), StoreError> {
        self.lane(lane)?;
        self.sync_lane(lane)
    }
}

/// Makes `<dir>/outbox/<lane>`, and its names durable.
fn make_dir(lane: &Path) -> io::Result<()> {
    if lane.is_dir() {
        return Ok(());
    }
    let mut made = Vec::new();
    let mut missing = lane;
    while !missing.is_dir() {
        made.push(missing);
        let Some(parent) = missing.parent() else { break };
        missing = parent;
    }
    for dir in made.into_iter().rev() {
        files::make_way(dir)?;
        if fs::symlink_metadata(dir).is_ok() {
            fs::remove_file(dir)?;
        }
        fs::create_dir(dir)?;
        dir.parent().map_or(Ok(()), files::sync_dir)?;
    }
    Ok(())
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
