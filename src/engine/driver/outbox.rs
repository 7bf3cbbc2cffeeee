//! The outbox and its chain: older rows to the disk and back, room for new ones, space
//! that is free again.
//!
//! ```text
//! before a commit   evict what is beyond a bound (a block is read once more, to say what it was)
//!                   append blocks ▶ sync them ▶ the page that names them
//! after it          free the blocks that nothing names any more
//! for the uplink    read the block whose rows are next
//! ```

use crate::model::time::{Now, ProcTime};

use super::super::chain::Chain;
use super::super::outbox::{LaneKind, Next, Pack, Piece, Spill, block_crc, stored};
use super::super::step::Effect;
use super::super::store::{Store, StoreError};
use super::{Driver, Failure};

/// Tries to read a block that the medium does not give, one after the other.
const READS_MAX: usize = 8;

/// What the driver remembers of the chain.
#[derive(Debug, Default)]
pub(super) struct ChainState {
    /// Why it takes or gives nothing; null: it does.
    failure: Option<Failure>,
    /// When it is tried again.
    retry_at: Option<ProcTime>,
    /// Blocks before these are free.
    freed: [u64; LaneKind::ALL.len()],
    block: Vec<u8>,
    /// Blocks that no page named at the start.
    adopted: u64,
}

impl ChainState {
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.reason.as_str())
    }

    pub(super) fn next_deadline(&self) -> Option<ProcTime> {
        self.retry_at
    }
}

impl<S: Store + Chain> Driver<S> {
    /// How payloads are compressed, where the configuration asks for it.
    pub fn set_packer(&mut self, pack: Pack) {
        self.engine.outbox_mut().set_packer(pack);
    }

    /// Gives up what is beyond the bounds and moves what memory need not hold to the
    /// chain. What that changes waits for the next commit.
    pub(super) fn make_room(&mut self, now: Now, all: bool) {
        self.engine.outbox_mut().set_now(now);
        if self.chain.retry_at.is_some_and(|at| at <= now.proc) {
            self.chain.retry_at = None;
            self.engine.outbox_mut().set_chain_refuses(false);
            self.engine.outbox_mut().set_chain_silent(false);
        }
        // What is packed takes less: only then it shows what is too much.
        let spills = self.engine.outbox().spills(all || self.engine.outbox().is_over());
        let spilled = self.spill(now, &spills);
        self.evict(now);
        if let Err(error) = spilled {
            self.note_chain_failure(now, &error);
            // Room for the rows of the present comes from the oldest.
            self.evict(now);
            self.engine.outbox_mut().shed_excess();
        }
    }

    /// After an input: rows leave memory before too many are there, and a commit does
    /// not become too large.
    pub(super) fn keep_small(&mut self, now: Now) {
        if self.engine.outbox().is_crowded() {
            self.make_room(now, false);
        }
        if self.engine.outbox().is_commit_large() {
            self.policy.handle_urgent(now.proc);
        }
    }

    fn evict(&mut self, now: Now) {
        while let Some(eviction) = self.engine.outbox().next_eviction() {
            let mut block = core::mem::take(&mut self.chain.block);
            let found = match eviction.block {
                // Unreadable or not: it goes.
                Some(number) => self.store.read_block(eviction.lane as u8, number, &mut block).unwrap_or(false),
                None => false,
            };
            self.engine.outbox_mut().evict(eviction, found.then_some(block.as_slice()));
            self.chain.block = block;
            self.policy.handle_change(now.proc);
        }
    }

    fn spill(&mut self, now: Now, spills: &[Spill]) -> Result<(), StoreError> {
        if spills.is_empty() {
            return Ok(());
        }
        let mut stored = Vec::with_capacity(spills.len());
        let mut block = core::mem::take(&mut self.chain.block);
        let mut appended = spills.iter().try_for_each(|spill| {
            self.engine.outbox().write_block(*spill, &mut block);
            let bytes = self.store.append_block(spill.lane as u8, spill.number, &block)?;
            stored.push((*spill, block_crc(&block), bytes));
            Ok(())
        });
        // Those before the one that failed are as good as ever.
        if !stored.is_empty() {
            match self.store.sync_blocks() {
                Ok(()) => {
                    for (spill, crc, bytes) in stored {
                        self.engine.outbox_mut().mark_spilled(spill, crc, bytes);
                    }
                    self.policy.handle_change(now.proc);
                }
                Err(error) => appended = appended.and(Err(error)),
            }
        }
        self.chain.block = block;
        if appended.is_ok() && self.chain.failure.take().is_some() {
            tracing::info!("the outbox on disk works again");
        }
        appended
    }

    /// What nothing names any more goes. Only after a commit: until then a crash brings
    /// the pages back that name it.
    pub(super) fn free_blocks(&mut self) {
        for kind in LaneKind::ALL {
            let first = self.engine.outbox_mut().first_block(kind);
            let freed = self.chain.freed[kind as usize];
            if first > freed && self.store.free_blocks(kind as u8, first).is_ok() {
                self.chain.freed[kind as usize] = first;
            }
        }
    }

    /// The pages that named blocks are lost: what the chain has is all there is.
    pub(super) fn adopt_blocks(&mut self) {
        let adopted = stored::adopt(self.engine.outbox_mut(), &mut self.store);
        for (lane, error) in &adopted.failures {
            tracing::error!(%error, lane = lane.as_str(), "what the outbox has on disk could not be looked at");
        }
        if adopted.blocks > 0 {
            tracing::warn!(adopted.blocks, "blocks of the outbox were found that no page names; they are sent");
        }
        self.chain.adopted = adopted.blocks;
    }

    /// Blocks that were taken over at the start, because no page named them.
    pub fn adopted_blocks(&self) -> u64 {
        self.chain.adopted
    }

    /// Reads every block that is named, and gives up those that cannot be read: gaps stand
    /// for them from the next commit on. Returns what that concerns, and how many were read.
    ///
    /// # Errors
    /// The medium does not answer at the moment.
    pub fn check_blocks(&mut self, now: Now) -> Result<(Vec<Piece>, u64), StoreError> {
        let (mut lost, mut read) = (Vec::new(), 0);
        let mut block = Vec::new();
        for kind in LaneKind::ALL {
            let mut position = 0;
            while let Some(piece) = self.engine.outbox().piece(kind, position) {
                position = piece.past();
                let Some(number) = piece.block() else { continue };
                let found = self.read_again_and_again(kind, number, &mut block)?;
                read += 1;
                if piece.read(found.then_some(&block[..]), &mut |_, _| ()).is_err() {
                    self.engine.outbox_mut().lose(kind, number);
                    self.policy.handle_change(now.proc);
                    lost.push(piece);
                }
            }
        }
        Ok((lost, read))
    }

    /// A store says after some failures of the medium that a block is gone for good.
    fn read_again_and_again(&mut self, kind: LaneKind, number: u64, block: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut result = Ok(false);
        for _ in 0..READS_MAX {
            result = self.store.read_block(kind as u8, number, block);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Publishes what may be published, reading blocks back as they are needed.
    pub(super) fn publish(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        loop {
            match self.engine.next_for_uplink(now) {
                Next::Batch(batch) => perform(Effect::Publish(batch)),
                Next::Block { lane, number } => {
                    let mut block = core::mem::take(&mut self.chain.block);
                    let found = self.store.read_block(lane as u8, number, &mut block);
                    match found {
                        Ok(found) => {
                            self.engine.outbox_mut().take_block(lane, number, found.then_some(block.as_slice()));
                            if !found {
                                tracing::error!(lane = lane.as_str(), number, "a block of the outbox cannot be read");
                                self.policy.handle_change(now.proc);
                            }
                        }
                        Err(error) => {
                            // What lies in memory goes on meanwhile.
                            self.engine.outbox_mut().set_chain_silent(true);
                            self.note_chain_failure(now, &error);
                        }
                    }
                    self.chain.block = block;
                }
                Next::Nothing => return,
            }
        }
    }

    fn note_chain_failure(&mut self, now: Now, error: &StoreError) {
        if self.chain.failure.is_none() {
            tracing::error!(%error, "the outbox on disk does not answer; memory holds what it can");
        }
        let failure = Failure::again(self.chain.failure.take().as_ref(), error);
        self.chain.retry_at = Some(now.proc + failure.pause);
        self.chain.failure = Some(failure);
        self.engine.outbox_mut().set_chain_refuses(true);
    }
}
