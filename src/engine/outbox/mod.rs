//! The outbox: what the cloud has not acknowledged yet. Our only truth about the
//! uplink; whatever an MQTT client holds may be lost at any time.
//!
//! Rows wait in lanes. A row may be published once it is durable, is deleted when
//! its PUBACK arrives, and waits again when the connection is lost before that.
//! Order: alarms first; `live`, `update` and `backlog` in the order in which they
//! were made, so that each device's results arrive in order; `late` takes turns
//! with them. The number of bytes is bounded; when full, the oldest rows of the
//! lowest lane make room, and a gap row says so under their sequence numbers.

mod lane;
mod publish;
pub mod row;
mod state;

use crate::model::time::{Now, WallTime};

use self::lane::{Lane, Progress};
use self::row::{AlarmRow, GapRow, Row};
use super::wire::{put_bytes, put_u64};

/// Lanes, highest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum LaneKind {
    /// The agent's own alarms.
    Alarm,
    /// Panes `on_time` and `idle`.
    Live,
    /// Panes `late`.
    Update,
    /// Panes that were made while the uplink was down.
    Backlog,
    /// Side output and quarantine.
    Late,
}

impl LaneKind {
    /// Every lane, highest first.
    pub const ALL: [LaneKind; 5] =
        [LaneKind::Alarm, LaneKind::Live, LaneKind::Update, LaneKind::Backlog, LaneKind::Late];

    /// The word used in topics.
    pub fn as_str(self) -> &'static str {
        match self {
            LaneKind::Alarm => "alarm",
            LaneKind::Live => "live",
            LaneKind::Update => "update",
            LaneKind::Backlog => "backlog",
            LaneKind::Late => "late",
        }
    }
}

/// The uplink's side of the books: `queued = acked + evicted + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxLedger {
    /// Rows ever made; a gap row is none, it stands for those it replaced.
    pub queued: u64,
    /// Acknowledged by the cloud's broker.
    pub acked: u64,
    /// Made room for newer ones.
    pub evicted: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Outbox {
    lanes: [Lane; LaneKind::ALL.len()],
    next_seq: [u64; LaneKind::ALL.len()],
    ledger: [OutboxLedger; LaneKind::ALL.len()],
    epoch: u64,
    next_order: u64,
    /// Rows before this are durable.
    durable_order: u64,
    bytes_max: usize,
    /// What happened since the last commit, in stored form.
    log: Vec<u8>,
    log_len: u64,
    in_flight: publish::InFlight,
    scratch: Vec<u8>,
}

impl Outbox {
    /// An empty outbox.
    pub fn new(bytes_max: usize) -> Outbox {
        Outbox {
            lanes: Default::default(),
            next_seq: [0; LaneKind::ALL.len()],
            ledger: [OutboxLedger::default(); LaneKind::ALL.len()],
            epoch: 0,
            next_order: 0,
            durable_order: 0,
            bytes_max,
            log: Vec::new(),
            log_len: 0,
            in_flight: publish::InFlight::default(),
            scratch: Vec::new(),
        }
    }

    /// Appends a row to a lane; `write` fills it in.
    pub fn push(&mut self, kind: LaneKind, write: impl FnOnce(&mut Vec<u8>)) {
        let lane = kind as usize;
        let seq = self.next_seq[lane];
        self.next_seq[lane] += 1;
        let order = self.next_order;
        self.next_order += 1;
        self.ledger[lane].queued += 1;
        let row = self.lanes[lane].push(self.epoch, seq, order, write);
        self.log_len += 1;
        self.log.extend_from_slice(&[state::OP_PUSH, kind as u8]);
        put_bytes(&mut self.log, row);
        while self.bytes() > self.bytes_max && self.evict_one() {}
    }

    /// Appends an alarm.
    pub fn alarm(&mut self, now: Now, code: &str, text: &str) {
        let at: WallTime = now.wall;
        self.push(LaneKind::Alarm, |out| row::write_alarm(out, &AlarmRow { at, code, text }));
    }

    /// The current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// State was lost: new rows count anew under a higher epoch. Rows that are
    /// held keep theirs, for they may have been published under it.
    pub fn start_epoch(&mut self, epoch: u64) {
        assert!(epoch > self.epoch, "an epoch only rises");
        self.epoch = epoch;
        self.next_seq = [0; LaneKind::ALL.len()];
        self.log_len += 1;
        self.log.push(state::OP_EPOCH);
        put_u64(&mut self.log, epoch);
    }

    /// Stored bytes held, over all lanes.
    pub fn bytes(&self) -> usize {
        self.lanes.iter().map(Lane::bytes).sum()
    }

    /// Rows held in one lane, gap rows included.
    pub fn held(&self, kind: LaneKind) -> usize {
        self.lanes[kind as usize].len()
    }

    /// The books of one lane.
    pub fn ledger(&self, kind: LaneKind) -> OutboxLedger {
        self.ledger[kind as usize]
    }

    /// Records that held rows of one lane stand for, evicted ones aside.
    pub fn held_records(&self, kind: LaneKind) -> u64 {
        let lane = &self.lanes[kind as usize];
        let rows = lane.entries().iter().filter(|entry| {
            entry.progress != Progress::Acked && !matches!(row::read(lane.row(entry)), Ok(Row::Gap(_)))
        });
        rows.count() as u64
    }

    /// The number that the next row over all lanes will have: a cursor for
    /// [`Outbox::rows_since`].
    pub fn next_order(&self) -> u64 {
        self.next_order
    }

    /// Rows made at or after `order`, in the order in which they were made, with
    /// lane, epoch and sequence number.
    pub fn rows_since(&self, order: u64) -> Vec<(LaneKind, u64, u64, Row<'_>)> {
        let mut found = Vec::new();
        for kind in LaneKind::ALL {
            let lane = &self.lanes[kind as usize];
            for entry in lane.entries().iter().rev().take_while(|entry| entry.order >= order) {
                let row = row::read(lane.row(entry)).expect("rows are written by this module");
                found.push((entry.order, kind, entry.epoch, entry.seq, row));
            }
        }
        found.sort_unstable_by_key(|(order, ..)| *order);
        found.into_iter().map(|(_, kind, epoch, seq, row)| (kind, epoch, seq, row)).collect()
    }

    /// Hands over every row that is held, in order, and acknowledges it.
    pub fn take_rows(&mut self, each: &mut dyn FnMut(LaneKind, u64, &Row<'_>)) {
        if self.lanes.iter().all(|lane| lane.len() == 0) {
            return;
        }
        for (kind, _, seq, row) in self.rows_since(0) {
            each(kind, seq, &row);
        }
        for kind in LaneKind::ALL {
            let lane = &self.lanes[kind as usize];
            if let (Some(first), Some(last)) = (lane.entries().front(), lane.entries().back()) {
                let (epoch, first, last) = (first.epoch, first.seq, last.seq);
                self.ack(kind, epoch, first, last);
            }
        }
        self.mark_committed();
    }

    /// Gives up rows until at most `bytes_left` are held. False when none could be.
    pub fn shed(&mut self, bytes_left: usize) -> bool {
        let before = self.bytes();
        while self.bytes() > bytes_left && self.evict_one() {}
        self.bytes() < before
    }

    /// Gives up the oldest row of the lowest lane that has one to give. False
    /// when everything left is in flight, or a gap.
    fn evict_one(&mut self) -> bool {
        for kind in LaneKind::ALL.into_iter().rev() {
            let lane = &self.lanes[kind as usize];
            let candidate = lane.entries().iter().position(|entry| {
                entry.progress == Progress::Queued && !matches!(row::read(lane.row(entry)), Ok(Row::Gap(_)))
            });
            // The newest row of all stays: it may be the one just made.
            let Some(index) = candidate.filter(|index| index + 1 < lane.len()) else { continue };
            let entry = lane.entries()[index];
            // Whether a gap in front is under way is not known when this is done
            // again after a restart.
            let before = index.checked_sub(1).map(|before| lane.entries()[before].progress);
            let apart = before.is_some_and(|progress| progress != Progress::Queued);
            self.log_len += 1;
            self.log.extend_from_slice(&[if apart { state::OP_EVICT_APART } else { state::OP_EVICT }, kind as u8]);
            put_u64(&mut self.log, entry.epoch);
            put_u64(&mut self.log, entry.seq);
            self.evict(kind, index, apart);
            return true;
        }
        false
    }

    /// Replaces a row by a gap, or widens the gap in front of it unless that has
    /// to stand `apart`.
    fn evict(&mut self, kind: LaneKind, index: usize, apart: bool) {
        let lane = &mut self.lanes[kind as usize];
        let entry = lane.entries()[index];
        let time = row::read(lane.row(&entry)).map_or(crate::model::time::EventTime::MIN, |row| row.time());
        let before = index.checked_sub(1).map(|before| (before, lane.entries()[before]));
        let wider = before.and_then(|(before, gap)| match row::read(lane.row(&gap)) {
            Ok(Row::Gap(row)) if gap.epoch == entry.epoch && !apart => Some((before, row)),
            Ok(_) | Err(_) => None,
        });
        let gap = match wider {
            Some((_, gap)) => GapRow {
                first_seq: gap.first_seq,
                records: gap.records + 1,
                oldest: gap.oldest.min(time),
                newest: gap.newest.max(time),
            },
            None => GapRow { first_seq: entry.seq, records: 1, oldest: time, newest: time },
        };
        self.scratch.clear();
        row::write_gap(&mut self.scratch, &gap);
        // Evictions happen in a push: the newest row is the cause of this one.
        lane.replace(index, &self.scratch, self.next_order.saturating_sub(1));
        if let Some((before, _)) = wider {
            lane.remove(before);
        }
        self.ledger[kind as usize].evicted += 1;
    }
}

#[cfg(test)]
mod tests;
