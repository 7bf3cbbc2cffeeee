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
    /// As they were when one was looked at last.
    lanes: [Option<Lane>; LaneKind::ALL.len()],
}

impl ChainReader {
    /// Of the store in `dir`. Looks at nothing yet.
    pub fn new(dir: &Path) -> ChainReader {
        ChainReader { dir: dir.to_owned(), lanes: Default::default() }
    }

    /// A lane; `anew`: as it is now.
    fn lane(&mut self, lane: u8, anew: bool) -> Result<&mut Lane, StoreError> {
        let kind = LaneKind::ALL.get(usize::from(lane));
        let kind = kind.ok_or_else(|| StoreError::Failed(format!("there is no lane {lane}")))?;
        let place = &mut self.lanes[usize::from(lane)];
        if anew || place.is_none() {
            let found = Lane::look(&self.dir.join(NAME).join(kind.as_str()), lane);
            *place = Some(found.map_err(|error| sort_io(&error))?);
        }
        Ok(place.as_mut().expect("looked at above"))
    }
}

impl Chain for ChainReader {
    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        into.clear();
        // What was seen may be older than the file, or the directory.
        for anew in [false, true] {
            let place = self.lane(lane, anew)?;
            let Some(first) = place.link_of(number) else { continue };
            match place.index(first, false).and_then(|index| index.block(lane, number, into)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
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
        self.lane(lane, true)?.find_blocks().map_err(|error| sort_io(&error))
    }

    fn chain_bytes(&self) -> u64 {
        self.lanes.iter().flatten().map(Lane::bytes).sum()
    }
}
