//! A part of a lane: rows in memory, rows in a block of the chain, or the gap that
//! stands for rows which are lost.

use crate::engine::wire::{Damaged, Reader, put_bytes, put_u64};
use crate::model::time::EventTime;

use super::gap::Gap;
use super::row;

/// Bytes of rows at which a part in memory is closed, at most: what moves to the chain,
/// is read back and is given up in one piece. Packed it fits one value of the store.
pub(super) const BLOCK_BYTES: usize = 44 * 1024;
/// Trimmed bytes that are worth moving the rest for.
const TRIM_BYTES: usize = 16 * 1024;
/// First byte of a block.
const BLOCK_VERSION: u8 = 1;

/// Consecutive rows of one epoch.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Position of its first row in the lane.
    pub first: u64,
    /// Positions it stands for, at least 1.
    pub rows: u64,
    /// The epoch under which they are numbered.
    pub epoch: u64,
    /// The number of the first.
    pub first_seq: u64,
    /// Age of the outbox when the first of them was made, in ms.
    pub opened: u64,
    /// And the newest.
    pub made: u64,
    /// What is there.
    pub body: Body,
}

/// Where the rows are.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// In memory.
    Rows(Rows),
    /// In the chain.
    Block(Block),
    /// Nowhere.
    Gap(Gap),
}

/// Rows in memory. A row costs no allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    /// Where each ends, and its place in the order over all lanes.
    ends: Vec<(u32, u64)>,
    /// Rows at the front that are gone.
    trimmed: usize,
    /// Takes no more.
    pub sealed: bool,
}

/// Rows in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// Its number in the chain.
    pub number: u64,
    /// Of its bytes.
    pub crc: u32,
    /// Rows of the block before those of this part.
    pub skip: u64,
    /// Bytes on the medium.
    pub stored: u64,
    /// The earliest and the latest time of its rows.
    pub times: (EventTime, EventTime),
}

/// A block that was read back.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    /// Its number.
    pub number: u64,
    rows: Rows,
}

impl Part {
    /// The position after its last row.
    pub(super) fn past(&self) -> u64 {
        self.first + self.rows
    }

    /// The number of the row at `position`.
    pub(super) fn seq(&self, position: u64) -> u64 {
        self.first_seq + (position - self.first)
    }

    /// The rows, when they are in memory.
    pub(super) fn rows(&self) -> Option<&Rows> {
        match &self.body {
            Body::Rows(rows) => Some(rows),
            Body::Block(_) | Body::Gap(_) => None,
        }
    }

    /// The block, when it is one.
    pub(super) fn block(&self) -> Option<&Block> {
        match &self.body {
            Body::Block(block) => Some(block),
            Body::Rows(_) | Body::Gap(_) => None,
        }
    }

    /// The gap, when it is one.
    pub(super) fn gap(&self) -> Option<&Gap> {
        match &self.body {
            Body::Gap(gap) => Some(gap),
            Body::Rows(_) | Body::Block(_) => None,
        }
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        match &self.body {
            Body::Rows(rows) => rows.len_bytes(),
            Body::Gap(gap) => gap.row().len(),
            Body::Block(_) => 0,
        }
    }

    /// Bytes in the chain.
    pub(super) fn stored(&self) -> u64 {
        self.block().map_or(0, |block| block.stored)
    }

    /// Drops the first `count` rows, fewer than there are.
    pub(super) fn trim(&mut self, count: u64) {
        debug_assert!(count < self.rows, "else the part goes");
        self.first += count;
        self.first_seq += count;
        self.rows -= count;
        match &mut self.body {
            Body::Rows(rows) => rows.trim(usize::try_from(count).expect("rows in memory")),
            Body::Block(block) => block.skip += count,
            Body::Gap(_) => debug_assert!(false, "a gap goes whole"),
        }
    }

    /// Splits it before `position`, which is inside: returns the second half.
    pub(super) fn split_off(&mut self, position: u64) -> Part {
        let count = position - self.first;
        let mut second = Part { body: Body::Rows(Rows::default()), ..*self };
        second.trim_numbers(count);
        second.body = match &mut self.body {
            Body::Rows(rows) => Body::Rows(rows.split_off(usize::try_from(count).expect("rows in memory"))),
            Body::Block(block) => {
                let half = Block { skip: block.skip + count, ..*block };
                // The bytes are there as long as the second half is.
                block.stored = 0;
                Body::Block(half)
            }
            Body::Gap(gap) => Body::Gap(gap.clone()),
        };
        self.rows = count;
        second
    }

    fn trim_numbers(&mut self, count: u64) {
        self.first += count;
        self.first_seq += count;
        self.rows -= count;
    }

    /// Writes it as a block for the chain. Only rows in memory.
    pub(super) fn write_block(&self, out: &mut Vec<u8>) {
        out.push(BLOCK_VERSION);
        for number in [self.epoch, self.first_seq, self.opened, self.made] {
            put_u64(out, number);
        }
        put_u64(out, self.rows);
        for row in self.rows().into_iter().flat_map(Rows::iter) {
            put_bytes(out, row);
        }
    }
}

impl Rows {
    /// Appends a row; `write` fills it in.
    pub(super) fn push(&mut self, order: u64, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.ends.push((u32::try_from(self.bytes.len()).expect("a part is small"), order));
        &self.bytes[start..]
    }

    /// Rows that are there.
    pub(super) fn len(&self) -> usize {
        self.ends.len() - self.trimmed
    }

    /// Their bytes.
    pub(super) fn len_bytes(&self) -> usize {
        self.bytes.len() - self.start(0)
    }

    /// A row, from 0.
    pub(super) fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[self.trimmed + index].0 as usize]
    }

    /// Its place in the order over all lanes.
    pub(super) fn order(&self, index: usize) -> u64 {
        self.ends[self.trimmed + index].1
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Ready to be used again.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.trimmed = 0;
        self.sealed = false;
    }

    /// Bytes it keeps.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    fn start(&self, index: usize) -> usize {
        let before = (self.trimmed + index).checked_sub(1);
        before.map_or(0, |before| self.ends[before].0 as usize)
    }

    fn trim(&mut self, count: usize) {
        self.trimmed += count;
        let gone = self.start(0);
        if gone >= TRIM_BYTES && gone * 2 >= self.bytes.len() {
            self.bytes.drain(..gone);
            self.ends.drain(..self.trimmed);
            self.trimmed = 0;
            let gone = u32::try_from(gone).expect("a part is small");
            self.ends.iter_mut().for_each(|(end, _)| *end -= gone);
        }
    }

    fn split_off(&mut self, count: usize) -> Rows {
        let mut second = Rows { sealed: self.sealed, ..Rows::default() };
        for index in count..self.len() {
            second.push(self.order(index), |out| out.extend_from_slice(self.get(index)));
        }
        self.bytes.truncate(self.start(count));
        self.ends.truncate(self.trimmed + count);
        self.sealed = true;
        second
    }
}

impl Loaded {
    /// Reads a block, if its bytes are those that were written for the part.
    pub(super) fn read(part: &Part, bytes: &[u8]) -> Option<Loaded> {
        let block = part.block()?;
        if super::block_crc(bytes) != block.crc {
            return None;
        }
        let (found, rows) = read_block(bytes).ok()?;
        let whole = found.epoch == part.epoch
            && found.first_seq + block.skip == part.first_seq
            && found.rows >= block.skip + part.rows;
        whole.then_some(Loaded { number: block.number, rows })
    }

    /// The row at `position` of its part.
    pub(super) fn get(&self, part: &Part, position: u64) -> &[u8] {
        let skip = part.block().map_or(0, |block| block.skip);
        self.rows.get(usize::try_from(skip + position - part.first).expect("rows in memory"))
    }
}

/// What a block says of itself, and its rows: for a chain whose pages are lost.
pub(super) fn read_block(bytes: &[u8]) -> Result<(Part, Rows), Damaged> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != BLOCK_VERSION {
        return Err(Damaged);
    }
    let (epoch, first_seq) = (reader.u64()?, reader.u64()?);
    let (opened, made) = (reader.u64()?, reader.u64()?);
    let count = reader.u64()?;
    let mut rows = Rows { sealed: true, ..Rows::default() };
    for _ in 0..count {
        let row = reader.bytes()?;
        row::read(row)?;
        rows.push(0, |out| out.extend_from_slice(row));
    }
    if count == 0 || !reader.is_empty() {
        return Err(Damaged);
    }
    let part = Part { first: 0, rows: count, epoch, first_seq, opened, made, body: Body::Rows(Rows::default()) };
    Ok((part, rows))
}

/// The earliest and the latest time of some rows.
pub(super) fn times_of<'a>(rows: impl Iterator<Item = &'a [u8]>) -> (EventTime, EventTime) {
    let times = rows.filter_map(|bytes| row::read(bytes).ok()).map(|row| row.time());
    times.fold((EventTime::MAX, EventTime::MIN), |(low, high), time| (low.min(time), high.max(time)))
}
