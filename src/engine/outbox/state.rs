//! The outbox as persisted bytes: a log of what happened since the last commit,
//! or everything there is. The log says what came out, not what was decided: to do it
//! again needs neither the bounds of then nor the chain.
//!
//! ```text
//! log:    ops n, op ×
//! whole:  age | epoch | next order | day, bytes of it | lane × 5 | dead letters
//! lane:   next seq | queued acked evicted dead | next block | acked ranges | next | parts n, part ×
//! part:   kind | first | rows | epoch | first seq | opened | made |
//!         rows: sealed, row ×    block: number crc skip stored times    gap: row
//! ```

use super::gap::Gap;
use super::part::{Block, Body, Part, Rows};
use super::publish::Sending;
use super::ranges::Ranges;
use super::rate::Daily;
use super::row::GapReason;
use super::{Age, LaneKind, Numbers, Outbox, OutboxLedger, row};
use crate::engine::spec::{OutboxSpec, UplinkPolicy};
use crate::engine::wire::{Damaged, Reader, put_bytes, put_i64, put_u64};
use crate::model::time::EventTime;

const OP_PUSH: u8 = 0;
const OP_ACK: u8 = 1;
const OP_EPOCH: u8 = 2;
const OP_AGE: u8 = 3;
const OP_SEAL: u8 = 4;
const OP_SPLIT: u8 = 5;
const OP_BLOCK: u8 = 6;
const OP_GAP: u8 = 7;
const OP_DEAD: u8 = 8;
const OP_SPENT: u8 = 9;
const OP_PUSH_IN_NEW: u8 = 10;

/// What happened since the last commit, in stored form.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    bytes: Vec<u8>,
    len: u64,
    /// The age that the stored outbox knows.
    age: u64,
    /// And what was published that day.
    daily: Daily,
}

impl Log {
    /// Bytes that wait for the next commit.
    pub(super) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn op(&mut self, op: u8, kind: LaneKind) {
        self.len += 1;
        self.bytes.extend_from_slice(&[op, kind as u8]);
    }

    pub(super) fn push(&mut self, age: u64, kind: LaneKind, begins: bool, row: &[u8]) {
        if age != self.age {
            self.len += 1;
            self.bytes.push(OP_AGE);
            put_u64(&mut self.bytes, age - self.age);
            self.age = age;
        }
        self.op(if begins { OP_PUSH_IN_NEW } else { OP_PUSH }, kind);
        put_bytes(&mut self.bytes, row);
    }

    pub(super) fn ack(&mut self, kind: LaneKind, first: u64, past: u64) {
        self.op(OP_ACK, kind);
        put_u64(&mut self.bytes, first);
        put_u64(&mut self.bytes, past);
    }

    pub(super) fn epoch(&mut self, epoch: u64) {
        self.len += 1;
        self.bytes.push(OP_EPOCH);
        put_u64(&mut self.bytes, epoch);
    }

    pub(super) fn seal(&mut self, kind: LaneKind) {
        self.op(OP_SEAL, kind);
    }

    pub(super) fn split(&mut self, kind: LaneKind, position: u64) {
        self.op(OP_SPLIT, kind);
        put_u64(&mut self.bytes, position);
    }

    pub(super) fn block(&mut self, kind: LaneKind, first: u64, block: &Block) {
        self.op(OP_BLOCK, kind);
        put_u64(&mut self.bytes, first);
        write_block(&mut self.bytes, block);
    }

    pub(super) fn gap(&mut self, kind: LaneKind, first: u64, gap: &Gap, widens: bool) {
        self.op(OP_GAP, kind);
        put_u64(&mut self.bytes, first);
        self.bytes.push(u8::from(widens));
        put_bytes(&mut self.bytes, gap.row());
    }

    pub(super) fn dead(&mut self, letter: &super::DeadLetter) {
        self.len += 1;
        self.bytes.push(OP_DEAD);
        letter.write(&mut self.bytes);
    }

    /// What was published counts in the budget of the day. Written down with
    /// acknowledgements: what a crash forgets is what was under way.
    fn spent(&mut self, daily: Daily) {
        self.len += 1;
        self.bytes.push(OP_SPENT);
        write_daily(&mut self.bytes, daily);
        self.daily = daily;
    }
}

impl Outbox {
    /// True when nothing happened since the last commit.
    pub fn is_committed(&self) -> bool {
        self.log.len == 0
    }

    /// Appends what happened since the last commit.
    pub(in crate::engine) fn write_changes(&self, out: &mut Vec<u8>) {
        put_u64(out, self.log.len);
        out.extend_from_slice(&self.log.bytes);
    }

    /// What happened is durable now; its rows may be published.
    pub(in crate::engine) fn mark_committed(&mut self) {
        self.lanes.iter_mut().for_each(super::Lane::mark_durable);
        self.log.bytes.clear();
        self.log.len = 0;
    }

    pub(super) fn log_spent(&mut self) {
        self.log.spent(self.daily);
    }

    /// Does again what happened before a commit.
    pub(in crate::engine) fn apply_changes(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for _ in 0..reader.u64()? {
            self.apply(reader)?;
        }
        self.log.age = self.age.millis;
        self.log.daily = self.daily;
        self.lanes.iter_mut().for_each(super::Lane::mark_durable);
        Ok(())
    }

    fn apply(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        match reader.u8()? {
            op @ (OP_PUSH | OP_PUSH_IN_NEW) => {
                let kind = read_lane(reader)?;
                let bytes = reader.bytes()?;
                row::read(bytes)?;
                let numbers = Numbers { order: 0, ..self.next_numbers(kind) };
                let begins = op == OP_PUSH_IN_NEW;
                self.lanes[kind as usize].push(numbers, begins, |out| out.extend_from_slice(bytes));
            }
            OP_ACK => {
                let kind = read_lane(reader)?;
                self.count_ack(kind, reader.u64()?, reader.u64()?);
            }
            OP_EPOCH => {
                self.epoch = reader.u64()?;
                self.next_seq = [0; LaneKind::ALL.len()];
            }
            OP_AGE => self.age.millis = self.age.millis.checked_add(reader.u64()?).ok_or(Damaged)?,
            OP_SEAL => self.lanes[read_lane(reader)? as usize].seal(),
            OP_SPLIT => {
                let kind = read_lane(reader)?;
                self.lanes[kind as usize].split(reader.u64()?).ok_or(Damaged)?;
            }
            OP_BLOCK => {
                let (kind, index) = self.read_place(reader)?;
                self.lanes[kind as usize].replace_by_block(index, read_block(reader)?);
            }
            OP_GAP => {
                let (kind, index) = self.read_place(reader)?;
                let widens = reader.u8()? == 1;
                let gap = Gap::read(reader.bytes()?)?;
                self.place_gap(kind, index, gap, widens);
            }
            OP_DEAD => self.dead.push(super::DeadLetter::read(reader)?),
            OP_SPENT => self.daily = read_daily(reader)?,
            _ => return Err(Damaged),
        }
        Ok(())
    }

    fn read_place(&self, reader: &mut Reader<'_>) -> Result<(LaneKind, usize), Damaged> {
        let kind = read_lane(reader)?;
        let first = reader.u64()?;
        let lane = &self.lanes[kind as usize];
        let index = lane.index_of(first).filter(|index| lane.parts[*index].first == first).ok_or(Damaged)?;
        Ok((kind, index))
    }

    /// Appends everything. `hand_over` is asked after each row whether it takes what is there.
    pub(in crate::engine) fn write_all(&self, out: &mut Vec<u8>, hand_over: &mut dyn FnMut(&mut Vec<u8>)) {
        for number in [self.log.age, self.epoch, self.next_order] {
            put_u64(out, number);
        }
        write_daily(out, self.log.daily);
        for kind in LaneKind::ALL {
            let lane = &self.lanes[kind as usize];
            let OutboxLedger { queued, acked, evicted, dead_lettered } = self.ledger[kind as usize];
            for number in [self.next_seq[kind as usize], queued, acked, evicted, dead_lettered, lane.next_block] {
                put_u64(out, number);
            }
            lane.acked.write(out);
            put_u64(out, lane.next);
            put_u64(out, lane.parts.len() as u64);
            for part in &lane.parts {
                write_part(out, part, hand_over);
            }
        }
        self.dead.write(out);
    }

    /// Reads what [`Outbox::write_all`] wrote. Nothing is in flight afterwards.
    pub(in crate::engine) fn read_all(
        reader: &mut Reader<'_>,
        spec: OutboxSpec,
        policy: UplinkPolicy,
    ) -> Result<Outbox, Damaged> {
        let mut outbox = Outbox::new(spec, policy);
        outbox.age = Age { millis: reader.u64()?, base: None };
        outbox.log.age = outbox.age.millis;
        outbox.epoch = reader.u64()?;
        outbox.next_order = reader.u64()?;
        outbox.daily = read_daily(reader)?;
        outbox.log.daily = outbox.daily;
        for kind in LaneKind::ALL {
            let index = kind as usize;
            outbox.next_seq[index] = reader.u64()?;
            let (queued, acked, evicted) = (reader.u64()?, reader.u64()?, reader.u64()?);
            outbox.ledger[index] = OutboxLedger { queued, acked, evicted, dead_lettered: reader.u64()? };
            let lane = &mut outbox.lanes[index];
            lane.next_block = reader.u64()?;
            lane.acked = Ranges::read(reader)?;
            let next = reader.u64()?;
            for _ in 0..reader.u64()? {
                lane.restore(read_part(reader)?)?;
            }
            if !lane.parts.is_empty() && lane.next != next {
                return Err(Damaged);
            }
            lane.next = next;
            lane.mark_durable();
            lane.cursor = lane.floor();
        }
        outbox.dead = super::DeadLetters::read(reader)?;
        outbox.sending = Sending::new(&policy);
        Ok(outbox)
    }
}

const PART_ROWS: u8 = 0;
const PART_BLOCK: u8 = 1;
const PART_GAP: u8 = 2;

fn write_part(out: &mut Vec<u8>, part: &Part, hand_over: &mut dyn FnMut(&mut Vec<u8>)) {
    out.push(match part.body {
        Body::Rows(_) => PART_ROWS,
        Body::Block(_) => PART_BLOCK,
        Body::Gap(_) => PART_GAP,
    });
    for number in [part.first, part.rows, part.epoch, part.first_seq, part.opened, part.made] {
        put_u64(out, number);
    }
    match &part.body {
        Body::Rows(rows) => {
            out.push(u8::from(rows.sealed));
            for row in rows.iter() {
                put_bytes(out, row);
                hand_over(out);
            }
        }
        Body::Block(block) => write_block(out, block),
        Body::Gap(gap) => put_bytes(out, gap.row()),
    }
    hand_over(out);
}

fn read_part(reader: &mut Reader<'_>) -> Result<Part, Damaged> {
    let kind = reader.u8()?;
    let (first, rows, epoch) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (first_seq, opened, made) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let body = match kind {
        PART_ROWS => {
            let mut found = Rows::default();
            found.sealed = reader.u8()? == 1;
            for _ in 0..rows {
                let bytes = reader.bytes()?;
                row::read(bytes)?;
                found.push(0, |out| out.extend_from_slice(bytes));
            }
            Body::Rows(found)
        }
        PART_BLOCK => Body::Block(read_block(reader)?),
        PART_GAP => Body::Gap(Gap::read(reader.bytes()?)?),
        _ => return Err(Damaged),
    };
    Ok(Part { first, rows, epoch, first_seq, opened, made, body })
}

fn write_block(out: &mut Vec<u8>, block: &Block) {
    put_u64(out, block.number);
    out.extend_from_slice(&block.crc.to_le_bytes());
    put_u64(out, block.skip);
    put_u64(out, block.stored);
    put_i64(out, block.times.0.as_millis());
    put_i64(out, block.times.1.as_millis());
}

fn read_block(reader: &mut Reader<'_>) -> Result<Block, Damaged> {
    let number = reader.u64()?;
    let crc = [reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?];
    let (skip, stored) = (reader.u64()?, reader.u64()?);
    let times = (EventTime::from_millis(reader.i64()?), EventTime::from_millis(reader.i64()?));
    Ok(Block { number, crc: u32::from_le_bytes(crc), skip, stored, times })
}

fn write_daily(out: &mut Vec<u8>, daily: Daily) {
    let (day, spent) = daily.parts();
    put_i64(out, day);
    put_u64(out, spent);
}

fn read_daily(reader: &mut Reader<'_>) -> Result<Daily, Damaged> {
    Ok(Daily::from_parts(reader.i64()?, reader.u64()?))
}

/// Appends a lane.
pub(super) fn write_lane(out: &mut Vec<u8>, kind: LaneKind) {
    out.push(kind as u8);
}

/// Reads a lane.
pub(super) fn read_lane(reader: &mut Reader<'_>) -> Result<LaneKind, Damaged> {
    LaneKind::ALL.get(usize::from(reader.u8()?)).copied().ok_or(Damaged)
}

/// Reads the reason of a gap.
pub(super) fn read_reason(reader: &mut Reader<'_>) -> Result<GapReason, Damaged> {
    GapReason::ALL.get(usize::from(reader.u8()?)).copied().ok_or(Damaged)
}
