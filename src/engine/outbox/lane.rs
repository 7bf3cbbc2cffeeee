//! One lane: consecutive positions in parts, from the oldest that is not acknowledged
//! to the newest. Where the rows of a part are is its own matter ([`Body`]).
//!
//! Every row ever pushed has a position, counted from 0 and never again; numbers
//! (epoch, seq) follow from it. What was acknowledged ahead of older rows is in
//! `acked`; parts leave from the front once all of them is.

use std::collections::VecDeque;

use crate::engine::wire::Damaged;

use super::gap::Gap;
use super::part::{BLOCK_BYTES, Block, Body, Loaded, Part, Rows};
use super::ranges::Ranges;

/// Empty buffers kept for reuse.
const SPARE_PARTS: usize = 2;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub parts: VecDeque<Part>,
    /// Position of the next row.
    pub next: u64,
    /// Rows before this are durable.
    pub durable: u64,
    /// Acknowledged, behind one that is not.
    pub acked: Ranges,
    /// No row before this waits to be sent.
    pub cursor: u64,
    /// Number of the next block in the chain.
    pub next_block: u64,
    /// The block that is being sent.
    pub loaded: Option<Loaded>,
    memory: usize,
    stored: u64,
    /// A gap is not durable yet.
    fresh: bool,
    /// The first block that is needed, as long as none has gone since.
    first_block: Option<u64>,
    spare: Vec<Rows>,
}

/// Numbers of a new row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub epoch: u64,
    pub seq: u64,
    pub order: u64,
    pub age: u64,
}

impl Lane {
    /// Appends a row; `write` fills it in. `begins`: in a new part.
    pub(super) fn push(&mut self, numbers: Numbers, begins: bool, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let Numbers { epoch, seq, order, age } = numbers;
        if begins || !self.takes_more(epoch) {
            self.seal();
            let body = Body::Rows(self.spare.pop().unwrap_or_default());
            self.parts.push_back(Part {
                first: self.next,
                rows: 0,
                epoch,
                first_seq: seq,
                opened: age,
                made: age,
                body,
            });
        }
        self.next += 1;
        let part = self.parts.back_mut().expect("one was just made sure of");
        part.rows += 1;
        part.made = age;
        let Body::Rows(rows) = &mut part.body else { unreachable!("the last part takes more") };
        let row = rows.push(order, write);
        self.memory += row.len();
        row
    }

    /// Whether a row of that epoch goes to the last part.
    pub(super) fn takes_more(&self, epoch: u64) -> bool {
        self.parts.back().is_some_and(|part| part.epoch == epoch && part.rows().is_some_and(|rows| !rows.sealed))
    }

    /// Bytes of the part that takes more.
    pub(super) fn open_bytes(&self) -> usize {
        self.parts.back().and_then(Part::rows).filter(|rows| !rows.sealed).map_or(0, Rows::len_bytes)
    }

    /// The last part takes no more.
    pub(super) fn seal(&mut self) {
        if let Some(Part { body: Body::Rows(rows), .. }) = self.parts.back_mut() {
            rows.sealed = true;
        }
    }

    /// Bytes of rows and gaps in memory.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Bytes of the chain.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// Everything before this is gone.
    pub(super) fn floor(&self) -> u64 {
        self.parts.front().map_or(self.next, |part| part.first)
    }

    /// Records that wait for an acknowledgement; a gap is none.
    pub(super) fn held_records(&self) -> u64 {
        self.parts.iter().filter(|part| part.gap().is_none()).map(|part| self.unacked(part)).sum()
    }

    /// Rows that wait for an acknowledgement, a gap counted as one.
    pub(super) fn held(&self) -> u64 {
        let of = |part: &Part| if part.gap().is_some() { self.unacked(part).min(1) } else { self.unacked(part) };
        self.parts.iter().map(of).sum()
    }

    /// Positions of a part that are not acknowledged.
    pub(super) fn unacked(&self, part: &Part) -> u64 {
        part.rows - self.acked.covered(part.first, part.past())
    }

    /// The place of the part that holds a position.
    pub(super) fn index_of(&self, position: u64) -> Option<usize> {
        let index = self.parts.partition_point(|part| part.first <= position).checked_sub(1)?;
        (position < self.parts[index].past()).then_some(index)
    }

    /// Acknowledges `[first, past)`. Returns the records that it concerns.
    pub(super) fn ack(&mut self, first: u64, past: u64) -> u64 {
        let (first, past) = (first.max(self.floor()), past.min(self.next));
        let mut records = 0;
        let begin = self.parts.partition_point(|part| part.past() <= first);
        for part in self.parts.range(begin..).take_while(|part| part.first < past) {
            let (from, to) = (first.max(part.first), past.min(part.past()));
            if part.gap().is_none() && from < to {
                records += to - from - self.acked.covered(from, to);
            }
        }
        self.acked.insert(first, past);
        self.drop_acked();
        records
    }

    /// Parts at the front of which all is acknowledged go, and what is of the first that stays.
    fn drop_acked(&mut self) {
        while let Some(front) = self.parts.front_mut() {
            let Some(end) = self.acked.end_of(front.first) else { break };
            if end < front.past() {
                // A gap is acknowledged as a whole.
                if front.gap().is_none() {
                    let before = front.memory();
                    front.trim(end - front.first);
                    self.memory -= before - front.memory();
                }
                break;
            }
            self.remove(0);
        }
        let floor = self.floor();
        self.acked.remove(0, floor);
        self.cursor = self.cursor.max(floor);
    }

    fn remove(&mut self, index: usize) {
        let Some(part) = self.parts.remove(index) else { return };
        self.memory -= part.memory();
        self.stored -= part.stored();
        self.first_block = self.first_block.filter(|_| part.block().is_none());
        self.recycle(part.body);
    }

    fn recycle(&mut self, body: Body) {
        if let Body::Rows(mut rows) = body
            && self.spare.len() < SPARE_PARTS
            && rows.capacity() <= 2 * BLOCK_BYTES
        {
            rows.clear();
            self.spare.push(rows);
        }
    }

    /// Puts a gap in the place of a part of which nothing is acknowledged, or widens the
    /// one in front of it.
    pub(super) fn replace_by_gap(&mut self, index: usize, gap: Gap, widens: bool) {
        let (first, end) = (self.parts[index].first, self.parts[index].past());
        self.fresh = true;
        let wider = index.checked_sub(1).filter(|_| widens);
        let wider = wider.and_then(|before| Some((before, self.parts[before].gap()?.joined(&gap))));
        let mut from = first;
        if let Some((before, joined)) = wider {
            self.remove(index);
            let part = &mut self.parts[before];
            self.memory += joined.row().len();
            self.memory -= part.memory();
            part.rows += end - first;
            part.body = Body::Gap(joined);
            from = part.first;
        } else {
            self.set_body(index, Body::Gap(gap));
        }
        debug_assert_eq!(self.acked.covered(from, end), 0, "what has arrived is not lost");
        self.cursor = self.cursor.min(from);
        self.drop_loaded();
    }

    /// What was in memory is in the chain.
    pub(super) fn replace_by_block(&mut self, index: usize, block: Block) {
        self.set_body(index, Body::Block(block));
        self.next_block = self.next_block.max(block.number + 1);
    }

    fn set_body(&mut self, index: usize, body: Body) {
        let part = &mut self.parts[index];
        self.memory -= part.memory();
        self.stored -= part.stored();
        self.first_block = None;
        let old = core::mem::replace(&mut part.body, body);
        self.memory += part.memory();
        self.stored += part.stored();
        self.recycle(old);
    }

    /// Appends a part that was found or stored. Parts follow each other.
    pub(super) fn restore(&mut self, part: Part) -> Result<(), Damaged> {
        if part.rows == 0 || part.first.checked_add(part.rows).is_none() {
            return Err(Damaged);
        }
        if self.parts.is_empty() {
            self.next = part.first;
        }
        if part.first != self.next || part.rows().is_some_and(|rows| rows.len() as u64 != part.rows) {
            return Err(Damaged);
        }
        self.next = part.past();
        self.memory += part.memory();
        self.stored += part.stored();
        self.next_block = self.next_block.max(part.block().map_or(0, |block| block.number + 1));
        self.first_block = None;
        self.parts.push_back(part);
        Ok(())
    }

    /// The first block that is needed; the next one when none is.
    pub(super) fn first_block(&mut self) -> u64 {
        let blocks = || self.parts.iter().filter_map(Part::block).map(|block| block.number).min();
        let next = self.next_block;
        *self.first_block.get_or_insert_with(|| blocks().unwrap_or(next))
    }

    /// Everything there is may be published.
    pub(super) fn mark_durable(&mut self) {
        self.durable = self.next;
        if core::mem::take(&mut self.fresh) {
            for part in &mut self.parts {
                if let Body::Gap(gap) = &mut part.body {
                    gap.durable = true;
                }
            }
        }
    }

    /// The block that was read is not the one that comes next.
    pub(super) fn drop_loaded(&mut self) {
        let part = self.index_of(self.cursor).and_then(|index| self.parts[index].block());
        if self.loaded.as_ref().is_some_and(|loaded| part.is_none_or(|block| block.number != loaded.number)) {
            self.loaded = None;
        }
    }
}

impl Part {
    /// In memory, and complete.
    pub(super) fn is_closed(&self) -> bool {
        self.rows().is_some_and(|rows| rows.sealed)
    }
}
