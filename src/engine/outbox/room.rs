//! Room: what moves to the chain, and what is given up when there is none.
//!
//! Whole parts only, oldest first and from the lowest lane; never one that is under way.
//! The driver asks before each commit, because giving up a block names what was in it,
//! and for that it has to be read once more.

use super::gap::Gap;
use super::lane::Lane;
use super::part::{Block, Body, Loaded, Part, read_block, times_of};
use super::row::GapReason;
use super::{LaneKind, Outbox};
use crate::model::limits::{OUTBOX_BLOCKS_MAX, OUTBOX_SPILL_BYTES};
use crate::model::time::{ProcTime, Span};

/// The chain's space comes back in whole databases of this size.
const SPACE_PIECE: u64 = 4 * 1024 * 1024;

/// A part that is to be given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eviction {
    /// Its lane.
    pub lane: LaneKind,
    /// Its block in the chain, when that is where it is: read it first.
    pub block: Option<u64>,
    first: u64,
    reason: GapReason,
    /// It goes for the space on the medium.
    for_space: bool,
}

/// A part that moves to the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spill {
    /// Its lane.
    pub lane: LaneKind,
    /// The number of its block.
    pub number: u64,
    first: u64,
}

/// The checksum by which a block is known again.
pub fn block_crc(block: &[u8]) -> u32 {
    crc32fast::hash(block)
}

impl Outbox {
    /// What has to be given up next, if anything has.
    pub fn next_eviction(&self) -> Option<Eviction> {
        let lanes = || LaneKind::ALL.into_iter().rev();
        let expired = lanes().find_map(|kind| {
            let limit = self.spec.lanes[kind as usize].age_max?;
            let index = self.oldest(kind, |part| part.gap().is_none())?;
            let is_old = self.age.millis > self.lanes[kind as usize].parts[index].made + limit.as_millis();
            is_old.then(|| self.eviction(kind, index, GapReason::Expired))
        });
        let too_large = || {
            lanes().find_map(|kind| {
                let bound = self.spec.lanes[kind as usize].bytes_max?;
                let index = self.oldest(kind, is_whole).filter(|_| self.lane_bytes(kind) > bound)?;
                Some(self.eviction(kind, index, GapReason::Evicted))
            })
        };
        let too_full = || {
            let blocks: usize = self.lanes.iter().map(|lane| lane.parts.len()).sum();
            if self.bytes() <= self.spec.bytes_max && blocks <= OUTBOX_BLOCKS_MAX {
                return None;
            }
            let (kind, index) = lanes().find_map(|kind| Some((kind, self.oldest(kind, is_whole)?)))?;
            Some(self.eviction(kind, index, GapReason::Evicted))
        };
        // The disk takes nothing, and memory will not last: blocks make way for new ones.
        let no_room = || {
            if self.space_owed == 0 || self.memory() * 4 < self.spec.memory_max * 3 {
                return None;
            }
            let (kind, index) = lanes().find_map(|kind| Some((kind, self.oldest(kind, |p| p.block().is_some())?)))?;
            Some(Eviction { for_space: true, ..self.eviction(kind, index, GapReason::Evicted) })
        };
        expired.or_else(too_large).or_else(too_full).or_else(no_room)
    }

    fn eviction(&self, lane: LaneKind, index: usize, reason: GapReason) -> Eviction {
        let part = &self.lanes[lane as usize].parts[index];
        let block = part.block().map(|block| block.number);
        Eviction { lane, block, first: part.first, reason, for_space: false }
    }

    /// The oldest part of a lane that is not under way and has anything to lose.
    fn oldest(&self, kind: LaneKind, is: impl Fn(&Part) -> bool) -> Option<usize> {
        let lane = &self.lanes[kind as usize];
        let can_go = |part: &Part| {
            is(part) && !self.sending.is_under_way(kind, part.first, part.past()) && lane.unacked(part) > 0
        };
        lane.parts.iter().position(can_go)
    }

    /// Gives up a part, or its first rows when some of it are acknowledged. `block`: what
    /// was read of it, if it was in the chain.
    pub fn evict(&mut self, eviction: Eviction, block: Option<&[u8]>) {
        let Eviction { lane: kind, first, reason, for_space, .. } = eviction;
        let Some(index) = self.isolate_unacked(kind, first) else { return };
        if for_space {
            let stored = self.lanes[kind as usize].parts[index].stored();
            self.space_owed = self.space_owed.saturating_sub(stored.max(1));
        }
        let part = &self.lanes[kind as usize].parts[index];
        let loaded = block.and_then(|bytes| Loaded::read(part, bytes));
        let gap = match (&part.body, &loaded) {
            (Body::Rows(rows), _) => Gap::of(part.first_seq, rows.iter(), reason),
            (Body::Block(_), Some(loaded)) => {
                let rows = (part.first..part.past()).map(|position| loaded.get(part, position));
                Gap::of(part.first_seq, rows, reason)
            }
            (Body::Block(block), None) => Gap::unknown(part.first_seq, part.rows, block.times, reason),
            (Body::Gap(_), _) => return,
        };
        self.give_up(kind, index, gap);
    }

    /// A block cannot be read any more.
    pub fn lose(&mut self, kind: LaneKind, number: u64) {
        loop {
            let lane = &self.lanes[kind as usize];
            let is_lost = |part: &&Part| part.block().is_some_and(|block| block.number == number);
            let found = lane.parts.iter().filter(is_lost).find(|part| lane.unacked(part) > 0);
            let Some(index) = found.map(|part| part.first).and_then(|first| self.isolate_unacked(kind, first)) else {
                return;
            };
            let part = &self.lanes[kind as usize].parts[index];
            let Some(block) = part.block() else { return };
            let gap = Gap::unknown(part.first_seq, part.rows, block.times, GapReason::Damaged);
            self.give_up(kind, index, gap);
        }
    }

    /// Makes the first rows of a part that are not acknowledged a part of their own: a gap
    /// must not stand for what has arrived. Returns its place.
    fn isolate_unacked(&mut self, kind: LaneKind, first: u64) -> Option<usize> {
        let lane = &self.lanes[kind as usize];
        let past = lane.parts[lane.index_of(first)?].past();
        let begin = lane.acked.end_of(first).unwrap_or(first);
        let end = lane.acked.next_begin(begin).unwrap_or(past).min(past);
        if begin >= end {
            return None;
        }
        for border in [begin, end] {
            if first < border && border < past {
                self.split(kind, border);
            }
        }
        self.lanes[kind as usize].index_of(begin)
    }

    /// Puts a gap in the place of a part, and writes it down.
    pub(super) fn give_up(&mut self, kind: LaneKind, index: usize, mut gap: Gap) {
        gap.order = self.next_order.saturating_sub(1);
        let widens = self.widens(kind, index, &gap);
        self.log.gap(kind, self.lanes[kind as usize].parts[index].first, &gap, widens);
        self.place_gap(kind, index, gap, widens);
    }

    pub(super) fn place_gap(&mut self, kind: LaneKind, index: usize, gap: Gap, widens: bool) {
        let ledger = &mut self.ledger[kind as usize];
        match gap.reason {
            GapReason::Evicted | GapReason::Expired | GapReason::Damaged => ledger.evicted += gap.records,
            GapReason::Refused | GapReason::TooLarge => ledger.dead_lettered += gap.records,
        }
        self.lanes[kind as usize].replace_by_gap(index, gap, widens);
    }

    /// Whether the gap in front of a part can stand for it too: of the same kind and
    /// epoch, not under way and not at the cloud already.
    fn widens(&self, kind: LaneKind, index: usize, gap: &Gap) -> bool {
        let lane = &self.lanes[kind as usize];
        let Some(before) = index.checked_sub(1).map(|before| &lane.parts[before]) else { return false };
        before.gap().is_some_and(|wide| wide.reason == gap.reason)
            && before.epoch == lane.parts[index].epoch
            && !self.sending.is_under_way(kind, before.first, before.past())
            && lane.unacked(before) > 0
    }

    /// Gives up the oldest rows in memory of the lowest lane that has some. False when
    /// everything left is under way, or the newest row of all.
    pub(super) fn evict_from_memory(&mut self) -> bool {
        let newest = self.next_order.saturating_sub(1);
        for kind in LaneKind::ALL.into_iter().rev() {
            let Some(index) = self.oldest(kind, |part| part.rows().is_some()) else { continue };
            let part = &self.lanes[kind as usize].parts[index];
            let last = part.rows().map_or(0, |rows| rows.order(rows.len() - 1));
            let (first, end, rows) = (part.first, part.past(), part.rows);
            if last == newest && newest > 0 {
                if rows == 1 {
                    continue;
                }
                // It may be the one just made: it stays.
                self.split(kind, end - 1);
            }
            let reason = GapReason::Evicted;
            self.evict(Eviction { lane: kind, block: None, first, reason, for_space: false }, None);
            return true;
        }
        false
    }

    /// Gives up rows in memory until at most so many bytes are held. False when none could be.
    pub fn shed(&mut self, bytes_left: usize) -> bool {
        let before = self.memory();
        while self.memory() > bytes_left && self.evict_from_memory() {}
        self.memory() < before
    }

    pub(super) fn split(&mut self, kind: LaneKind, position: u64) {
        if self.lanes[kind as usize].split(position).is_some() {
            self.log.split(kind, position);
        }
    }

    /// What has to move to the chain now; `all`: everything that is complete and not
    /// under way, before a snapshot takes it in.
    pub fn spills(&self, all: bool) -> Vec<Spill> {
        let bound = OUTBOX_SPILL_BYTES.min(self.spec.memory_max / 2);
        let mut excess = self.memory().saturating_sub(bound);
        if self.chain_refuses || excess == 0 && !all {
            return Vec::new();
        }
        let mut spills = Vec::new();
        // What can wait longest goes first.
        for kind in LaneKind::ALL.into_iter().rev() {
            let lane = &self.lanes[kind as usize];
            let mut number = lane.next_block;
            for part in lane.parts.iter().filter(|part| part.is_closed()) {
                let is_leaving = self.sending.is_under_way(kind, part.first, part.past());
                if excess == 0 && (!all || is_leaving) {
                    continue;
                }
                excess = excess.saturating_sub(part.memory());
                spills.push(Spill { lane: kind, number, first: part.first });
                number += 1;
            }
        }
        spills
    }

    /// Writes a part as a block.
    pub fn write_block(&self, spill: Spill, out: &mut Vec<u8>) {
        out.clear();
        let lane = &self.lanes[spill.lane as usize];
        if let Some(index) = lane.index_of(spill.first) {
            lane.parts[index].write_block(out);
        }
    }

    /// The chain has it, durably, and it takes `stored` bytes there.
    /// `crc`: of the block, as [`block_crc`] has it.
    pub fn mark_spilled(&mut self, spill: Spill, crc: u32, stored: u64) {
        let lane = &mut self.lanes[spill.lane as usize];
        let Some(index) = lane.index_of(spill.first) else { return };
        let Some(times) = lane.parts[index].rows().map(|rows| times_of(rows.iter())) else { return };
        let block = Block { number: spill.number, crc, skip: 0, stored, times };
        lane.replace_by_block(index, block);
        self.log.block(spill.lane, spill.first, &block);
    }

    /// There is a chain.
    pub fn set_has_chain(&mut self) {
        self.has_chain = true;
    }

    /// More is held than may be, and some of it is not packed yet.
    pub fn is_over(&self) -> bool {
        let lanes = LaneKind::ALL.into_iter();
        let bounds = lanes.filter_map(|kind| Some((kind, self.spec.lanes[kind as usize].bytes_max?)));
        self.bytes() > self.spec.bytes_max || bounds.into_iter().any(|(kind, bound)| self.lane_bytes(kind) > bound)
    }

    /// Gives up what memory may not hold while the chain takes nothing.
    pub fn shed_excess(&mut self) {
        while self.memory() > self.spec.memory_max && self.evict_from_memory() {}
    }

    /// Whether the chain takes blocks at the moment. Each time that it does not, as much as
    /// its space comes back in may be given up for new rows, and no more: the space may
    /// not be ours to win.
    pub fn set_chain_refuses(&mut self, refuses: bool) {
        self.chain_refuses = refuses;
        self.space_owed = if refuses { SPACE_PIECE } else { 0 };
    }

    /// Whether the chain gives no blocks at the moment: those lanes wait that need one.
    pub fn set_chain_silent(&mut self, silent: bool) {
        self.chain_silent = silent;
    }

    /// The first block of a lane that is needed.
    pub fn first_block(&mut self, kind: LaneKind) -> u64 {
        self.lanes[kind as usize].first_block()
    }

    /// Takes over a block that no page names, behind what there is: the pages that did
    /// are lost. False when it is none of ours, or known.
    pub fn adopt(&mut self, kind: LaneKind, number: u64, bytes: &[u8], stored: u64) -> bool {
        let lane = &mut self.lanes[kind as usize];
        let Ok((found, rows)) = read_block(bytes) else { return false };
        // Else it is known, or has gone before a page that is there.
        if number < lane.next_block {
            return false;
        }
        let block = Block { number, crc: block_crc(bytes), skip: 0, stored, times: times_of(rows.iter()) };
        let (opened, made) = (found.opened.min(self.age.millis), found.made.min(self.age.millis));
        let first = lane.next;
        let part = Part { first, opened, made, body: Body::Block(block), ..found };
        let count = part.rows;
        let is_restored = lane.restore(part).is_ok();
        if is_restored {
            self.ledger[kind as usize].queued += count;
        }
        is_restored
    }

    /// When the next part becomes too old.
    pub(super) fn expires_at(&self) -> Option<ProcTime> {
        let (since, base) = self.age.base?;
        let of = |kind: LaneKind| {
            let limit = self.spec.lanes[kind as usize].age_max?;
            let index = self.oldest(kind, |part| part.gap().is_none())?;
            let at = self.lanes[kind as usize].parts[index].made.saturating_add(limit.as_millis()).saturating_add(1);
            Some(since + Span::from_millis(at.saturating_sub(base)))
        };
        LaneKind::ALL.into_iter().filter_map(of).min()
    }
}

impl Lane {
    /// Splits the part that holds a position before it.
    pub(super) fn split(&mut self, position: u64) -> Option<()> {
        let index = self.index_of(position)?;
        if self.parts[index].gap().is_some() {
            return None;
        }
        if self.parts[index].first < position {
            let second = self.parts[index].split_off(position);
            self.parts.insert(index + 1, second);
        }
        Some(())
    }
}

fn is_whole(part: &Part) -> bool {
    part.block().is_some() || part.is_closed()
}
