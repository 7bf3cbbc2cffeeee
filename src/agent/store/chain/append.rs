//! Blocks on their way to the medium: which database takes them, and what becomes of
//! them when it fails.

use std::fs;
use std::io;
use std::path::Path;

use super::frame::frames;
use super::lane::{BESIDE_BYTES, Link};
use super::writer::Writer;
use super::{DiskChain, files, sort, sort_io};
use crate::engine::store::StoreError;

/// Databases open for writing, over all lanes: each takes some 5 to 10 MiB of memory
/// when it is full. One more and the one that waited longest is closed until it is
/// written to again.
const OPEN_MAX: usize = 3;
/// Room that a new database takes before the first block is in it.
const BEGIN_BYTES: u64 = 256 * 1024;
impl DiskChain {
    pub(super) fn append(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        let frames = frames(lane, number, block).ok_or(StoreError::TooLarge { bytes: block.len() })?;
        let stored: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        self.check_room(stored * 2 + BEGIN_BYTES)?;
        self.appends += 1;
        let appends = self.appends;
        let takes = self.lane(lane)?.writer.as_ref().is_some_and(|writer| writer.takes(number, &frames));
        self.close_others(lane)?;
        if !takes {
            self.begin(lane, number)?;
        }
        let place = &mut self.lanes[usize::from(lane)];
        let writer = place.writer.as_mut().expect("begun above");
        writer.used = appends;
        let bytes = writer.cost_of(&frames);
        let before = writer.dirty;
        self.written += bytes;
        if let Err(error) = writer.write(number, &frames) {
            // This one is refused here; what is told later is the loss of those before it.
            writer.dirty = before;
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
    pub(super) fn sync_lane(&mut self, lane: u8) -> Result<(), StoreError> {
        let place = &mut self.lanes[usize::from(lane)];
        let Some(writer) = place.writer.as_mut().filter(|writer| writer.dirty) else { return Ok(()) };
        let result = writer.sync();
        place.note_written();
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
        let place = &mut self.lanes[usize::from(lane)];
        make_dir(place.dir()).map_err(|error| sort_io(&error))?;
        while let Some((&stale, _)) = place.links.range(number..).next_back() {
            place.remove(stale).map_err(|error| sort_io(&error))?;
        }
        place.make_way(number).map_err(|error| sort_io(&error))?;
        place.sweep();
        // Listed before it is made: half of one must not stay behind, or after a restart it
        // would stand for blocks that are elsewhere.
        place.links.insert(number, Link { bytes: BESIDE_BYTES, last: None });
        match (self.make)(&place.place(number)) {
            Ok(medium) => {
                place.writer = Some(Writer::new(medium));
                Ok(())
            }
            Err(error) => {
                // If that fails too, it is done before the next one is made.
                _ = place.remove(number);
                Err(sort(error))
            }
        }
    }

    /// Leaves room for one more open database beside that of `lane`.
    fn close_others(&mut self, lane: u8) -> Result<(), StoreError> {
        loop {
            let others = self.lanes.iter().filter(|other| other.number != lane);
            let open =
                others.filter_map(|other| Some((other.writer.as_ref().filter(|one| one.open)?.used, other.number)));
            let open: Vec<_> = open.collect();
            let Some((_, oldest)) = open.iter().min().filter(|_| open.len() >= OPEN_MAX) else { return Ok(()) };
            self.sync_lane(*oldest)?;
            if let Some(writer) = &mut self.lanes[usize::from(*oldest)].writer {
                writer.rest();
            }
        }
    }

    fn check_room(&self, bytes: u64) -> Result<(), StoreError> {
        let free = files::free_bytes(&self.dir).map_err(|error| sort_io(&error))?;
        if free.saturating_add(self.held) < self.reserve.saturating_add(bytes) { Err(StoreError::Full) } else { Ok(()) }
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
