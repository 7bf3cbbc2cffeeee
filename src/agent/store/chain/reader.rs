//! The chains as somebody sees them who must not change anything: another thread while
//! the agent runs, or another program while it does not. It needs no lock: what is in a
//! database is never overwritten, and one that is gone is not there.

use std::io;
use std::path::{Path, PathBuf};

use super::lane::Lane;
use super::{NAME, sort_io};
use crate::engine::chain::Chain;
use crate::engine::outbox::LaneKind;
use crate::engine::store::StoreError;

/// Reads blocks, and takes none.
#[derive(Debug)]
pub struct ChainReader {
    /// The store's directory.
    dir: PathBuf,
    /// As they were when they were looked at last.
    lanes: [Option<Lane>; LaneKind::ALL.len()],
}

impl ChainReader {
    /// Of the store in `dir`. Looks at nothing yet.
    pub fn new(dir: &Path) -> ChainReader {
        ChainReader { dir: dir.to_owned(), lanes: Default::default() }
    }

    /// A lane as it is now: databases come and go, and where numbers come again, the newest
    /// one has them. Of what was there before only the index is worth keeping.
    fn lane(&mut self, lane: u8) -> Result<&mut Lane, StoreError> {
        let kind = LaneKind::ALL.get(usize::from(lane));
        let kind = kind.ok_or_else(|| StoreError::Failed(format!("there is no lane {lane}")))?;
        let found = Lane::look(&self.dir.join(NAME).join(kind.as_str()), lane);
        let mut found = found.map_err(|error| sort_io(&error))?;
        let place = &mut self.lanes[usize::from(lane)];
        if let Some(before) = place {
            found.take_index_of(before);
        }
        Ok(place.insert(found))
    }
}

impl Chain for ChainReader {
    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        into.clear();
        let place = self.lane(lane)?;
        let Some(first) = place.link_of(number) else { return Ok(false) };
        // The index may be older than the file.
        for anew in [false, true] {
            match place.index(first, anew).and_then(|index| index.block(lane, number, into)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => {
                    place.forget_index();
                    return Err(sort_io(&error));
                }
            }
        }
        into.clear();
        Ok(false)
    }

    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.lane(lane)?.find_blocks().map_err(|error| sort_io(&error))
    }

    fn chain_bytes(&self) -> u64 {
        self.lanes.iter().flatten().map(Lane::bytes).sum()
    }
}
