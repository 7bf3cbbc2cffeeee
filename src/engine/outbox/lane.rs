//! One lane: a queue of rows with sequence numbers, in blocks of memory that
//! are recycled, so that a row costs no allocation.

use std::collections::VecDeque;

/// Bytes of one block. A larger row gets a block of its own.
const BLOCK_BYTES: usize = 16 * 1024;
/// Empty blocks kept for reuse.
const SPARE_BLOCKS: usize = 4;

/// Where a row is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// Waiting, or to be sent again.
    Queued,
    /// Published, not acknowledged.
    InFlight,
    /// Acknowledged behind one that is not: gone as soon as it reaches the front.
    Acked,
}

/// One row's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its epoch: rows that outlive a rise keep theirs.
    pub epoch: u64,
    /// Its number in (epoch, lane).
    pub seq: u64,
    /// Its place in the order over all lanes.
    pub order: u64,
    /// The order of the row with which its bytes become durable: its own, or for
    /// a gap that of the row which made it necessary.
    pub written: u64,
    /// See [`Progress`].
    pub progress: Progress,
    block: u64,
    start: u32,
    len: u32,
}

impl Entry {
    /// Stored bytes.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }
}

#[derive(Clone, Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    rows: u32,
}

/// Rows of one lane, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    entries: VecDeque<Entry>,
    blocks: VecDeque<Block>,
    first_block: u64,
    spare: Vec<Vec<u8>>,
    bytes: usize,
    /// No entry before this one is queued.
    sent: usize,
}

impl Lane {
    /// Appends a row; `write` fills it in.
    pub(super) fn push(&mut self, epoch: u64, seq: u64, order: u64, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        if self.blocks.back().is_none_or(|block| block.bytes.len() >= BLOCK_BYTES) {
            let bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES + 1_024));
            self.blocks.push_back(Block { bytes, rows: 0 });
        }
        let number = self.first_block + self.blocks.len() as u64 - 1;
        let block = self.blocks.back_mut().expect("one was just made sure of");
        let start = block.bytes.len();
        write(&mut block.bytes);
        block.rows += 1;
        let len = block.bytes.len() - start;
        self.bytes += len;
        self.entries.push_back(Entry {
            epoch,
            seq,
            order,
            written: order,
            progress: Progress::Queued,
            block: number,
            start: u32::try_from(start).expect("a block is small"),
            len: u32::try_from(len).expect("a row is bounded"),
        });
        &block.bytes[start..]
    }

    /// Rows held.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Stored bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All entries, oldest first.
    pub(super) fn entries(&self) -> &VecDeque<Entry> {
        &self.entries
    }

    /// To change the progress of one.
    pub(super) fn progress_mut(&mut self, index: usize) -> &mut Progress {
        &mut self.entries[index].progress
    }

    /// The stored bytes of an entry of this lane.
    pub(super) fn row(&self, entry: &Entry) -> &[u8] {
        &self.blocks[self.place_of(entry)].bytes[entry.start as usize..][..entry.len()]
    }

    /// Where the row `(epoch, seq)` is, if it is held.
    pub(super) fn position(&self, epoch: u64, seq: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&(epoch, seq), |entry| (entry.epoch, entry.seq)).ok()
    }

    /// Takes a row out; its memory is free once its block is.
    pub(super) fn remove(&mut self, index: usize) {
        let Some(entry) = self.entries.remove(index) else { return };
        if index < self.sent {
            self.sent -= 1;
        }
        self.release(&entry);
    }

    fn release(&mut self, entry: &Entry) {
        self.bytes -= entry.len();
        let place = self.place_of(entry);
        self.blocks[place].rows -= 1;
        while self.blocks.len() > 1 && self.blocks[0].rows == 0 {
            self.first_block += 1;
            let block = self.blocks.pop_front().expect("more than one");
            self.recycle(block.bytes);
        }
        if self.blocks.len() == 1 && self.blocks[0].rows == 0 {
            self.blocks[0].bytes.clear();
        }
    }

    fn place_of(&self, entry: &Entry) -> usize {
        usize::try_from(entry.block - self.first_block).expect("a block that is held")
    }

    /// Puts another row in the place of one, under the same numbers.
    pub(super) fn replace(&mut self, index: usize, row: &[u8], written: u64) {
        self.entries[index].written = written;
        let old = self.entries[index];
        if row.len() <= old.len() {
            let place = self.place_of(&old);
            self.blocks[place].bytes[old.start as usize..][..row.len()].copy_from_slice(row);
            self.entries[index].len = u32::try_from(row.len()).expect("not longer than before");
            self.bytes -= old.len() - row.len();
            return;
        }
        self.push(old.epoch, old.seq, old.order, |out| out.extend_from_slice(row));
        let moved = self.entries.pop_back().expect("just pushed");
        self.entries[index] = Entry { progress: old.progress, written, ..moved };
        self.release(&old);
    }

    /// The first row that waits to be sent.
    pub(super) fn first_queued(&mut self) -> Option<usize> {
        while self.entries.get(self.sent).is_some_and(|entry| entry.progress != Progress::Queued) {
            self.sent += 1;
        }
        (self.sent < self.entries.len()).then_some(self.sent)
    }

    /// The connection is gone: what was in flight waits again.
    pub(super) fn requeue(&mut self) {
        self.sent = 0;
        for entry in &mut self.entries {
            if entry.progress == Progress::InFlight {
                entry.progress = Progress::Queued;
            }
        }
    }

    /// Drops acknowledged rows from the front.
    pub(super) fn drop_acked(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.progress == Progress::Acked) {
            self.remove(0);
        }
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BLOCKS && bytes.capacity() <= 2 * BLOCK_BYTES {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
