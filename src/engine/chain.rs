//! The seam to durable storage of the outbox's older rows: one chain of numbered
//! blocks for each lane.
//!
//! Young rows lie in the pages of [`Store`](super::store::Store); what the uplink has
//! not taken for long moves here, block by block, so that neither memory nor
//! snapshots grow with an outage. A block becomes part of the outbox by the page
//! that names it: the order is append, [`Chain::sync_blocks`], commit. A block that no
//! page names (the power went in between) is written again under its number.
//!
//! What is in a block, and whether it is the right one, is known to `outbox/`
//! alone: it keeps a checksum of each.

use super::store::StoreError;

/// Chains of blocks. One owner, synchronous calls. `lane` is the place in
/// [`LaneKind::ALL`](super::outbox::LaneKind::ALL). What is not implemented is that of a
/// store without chains: it takes no block, and the outbox stays in memory.
pub trait Chain {
    /// Writes block `number` of a lane, in place of one that has it; durable when the
    /// next [`Chain::sync_blocks`] returns. Numbers of a lane rise by one, except that
    /// after a crash some come again. Returns the bytes that it takes on the medium.
    ///
    /// # Errors
    /// [`StoreError::Full`]: nothing was written, for the medium has no room beside what
    /// is reserved. [`StoreError::Failed`]: nothing is known about it; it can be tried again.
    fn append_block(&mut self, _lane: u8, _number: u64, _block: &[u8]) -> Result<u64, StoreError> {
        Err(StoreError::Full)
    }

    /// When this returns, a power cut cannot take away what was appended.
    ///
    /// # Errors
    /// As for [`Chain::append_block`]; the blocks since the last sync have to be appended again.
    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        Err(StoreError::Full)
    }

    /// Puts a block into `into` (cleared first). False: it is not there, or cannot be
    /// read any more.
    ///
    /// # Errors
    /// [`StoreError::Failed`]: the medium does not answer at the moment; what is there is
    /// not known. It is asked again later.
    fn read_block(&mut self, _lane: u8, _number: u64, _into: &mut Vec<u8>) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Frees the blocks of a lane before `first`, as far as that is cheap: space comes
    /// back in pieces of some MiB. Their numbers are never asked for again.
    ///
    /// # Errors
    /// As for [`Chain::read_block`]; it is said again with the next number.
    fn free_blocks(&mut self, _lane: u8, _first: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// The numbers of the blocks of a lane that can be read, in order. Looks at all of
    /// them: only for a state that was lost, where no page says which there are.
    ///
    /// # Errors
    /// As for [`Chain::read_block`].
    fn find_blocks(&mut self, _lane: u8) -> Result<Vec<u64>, StoreError> {
        Ok(Vec::new())
    }

    /// Bytes that all chains take on the medium, what is freed later included.
    fn chain_bytes(&self) -> u64 {
        0
    }
}
