//! Blocks on their way back: from the file of the database that has them, or not at
//! all.

use std::io;

use super::super::quarantine;
use super::DiskChain;
use crate::engine::store::StoreError;

/// Answers that the medium fails, before a block counts as unreadable: a bad sector
/// never heals, and must not hold back what lies behind it.
const FAILURES_MAX: u32 = 3;

impl DiskChain {
    pub(super) fn read(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
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

    pub(super) fn find(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.lane(lane)?;
        self.sync_lane(lane)?;
        let found = self.lanes[usize::from(lane)].find_blocks();
        found.map_err(|error| StoreError::Failed(error.to_string()))
    }

    /// Reads a block of the database `first`; `Ok(false)` when it has none.
    fn read_from(&mut self, lane: u8, first: u64, number: u64, into: &mut Vec<u8>) -> io::Result<bool> {
        let place = &mut self.lanes[usize::from(lane)];
        if place.index(first, false)?.block(lane, number, into)? {
            return Ok(true);
        }
        if place.is_index_behind() && place.index(first, true)?.block(lane, number, into)? {
            return Ok(true);
        }
        let written = place.writer.is_some() && place.links.keys().next_back() == Some(&first);
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
