//! Looking into the outbox: what is held, piece by piece, what stands in numbers, and
//! whether it fits together. Changes nothing, and reads nothing of the chain: a piece
//! names its block, and whoever asked reads it. So a running agent can be asked any time.

use core::fmt;

use super::part::{Body, Loaded, Part, times_of};
use super::publish::read_row;
use super::row::{self, Row};
use super::{DeadLetter, LaneKind, Outbox};
use crate::model::limits::OUTBOX_OVERVIEW_MAX;
use crate::model::time::EventTime;

/// Rows of one lane that follow each other and wait for an acknowledgement.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Their lane.
    pub lane: LaneKind,
    part: Part,
}

/// A piece whose block is not there, or is not the one that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// Everything but the rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overview {
    /// The epoch of new rows.
    pub epoch: u64,
    /// Days since 1970 of the last publication.
    pub day: i64,
    /// Bytes of payload published that day.
    pub day_bytes: u64,
    /// In the order of [`LaneKind::ALL`].
    pub lanes: Vec<LaneOverview>,
    /// What the cloud's broker did not take, oldest first.
    pub dead_letters: Vec<DeadLetter>,
    /// What does not fit together: [`Outbox::faults`].
    pub faults: Vec<String>,
}

/// One lane of an [`Overview`].
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct LaneOverview {
    /// Its name.
    pub lane: &'static str,
    /// Records held; a gap is none.
    pub records: u64,
    /// Bytes of rows in memory, as stored.
    pub memory_bytes: u64,
    /// Bytes in the chain.
    pub disk_bytes: u64,
    /// Blocks in the chain.
    pub blocks: u64,
    /// Earliest and latest time of the records: window starts or event times.
    pub oldest_ms: Option<i64>,
    /// See `oldest_ms`.
    pub newest_ms: Option<i64>,
    /// Numbers of what is held, gaps included, for each epoch; the oldest ones.
    pub numbers: Vec<NumbersOverview>,
    /// The gaps; the oldest ones.
    pub gaps: Vec<GapOverview>,
    /// How many gaps there are in all.
    pub gaps_in_all: u64,
    /// Position before which nothing is held.
    pub first: u64,
    /// Position after the last row.
    pub past: u64,
    /// Rows ever made.
    pub queued: u64,
    /// Acknowledged by the cloud's broker.
    pub acked: u64,
    /// Given up, with a gap.
    pub evicted: u64,
    /// Taken out because the cloud's broker does not take them.
    pub dead_lettered: u64,
}

/// Numbers of one epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct NumbersOverview {
    /// The epoch.
    pub epoch: u64,
    /// First number.
    pub first_seq: u64,
    /// Last number.
    pub last_seq: u64,
}

/// What a gap stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct GapOverview {
    /// Epoch of the lost records.
    pub epoch: u64,
    /// First of their numbers.
    pub first_seq: u64,
    /// Last of their numbers.
    pub last_seq: u64,
    /// How many.
    pub records: u64,
    /// Earliest and latest time among them.
    pub oldest_ms: i64,
    /// See `oldest_ms`.
    pub newest_ms: i64,
    /// Why.
    pub reason: &'static str,
}

impl Piece {
    /// Position of its first row.
    pub fn first(&self) -> u64 {
        self.part.first
    }

    /// The position after its last row.
    pub fn past(&self) -> u64 {
        self.part.past()
    }

    /// The epoch under which its rows are numbered.
    pub fn epoch(&self) -> u64 {
        self.part.epoch
    }

    /// The block that has to be read for it, when it is in the chain.
    pub fn block(&self) -> Option<u64> {
        self.part.block().map(|block| block.number)
    }

    /// Its rows with their numbers, as they are published; a gap is one row.
    ///
    /// # Errors
    /// [`Unreadable`]: `block` is not the one that was written; nothing was handed over.
    pub fn read(&self, block: Option<&[u8]>, each: &mut dyn FnMut(u64, &Row<'_>)) -> Result<(), Unreadable> {
        let part = &self.part;
        let loaded = match &part.body {
            Body::Gap(gap) => {
                let row = row::read(gap.row()).map_err(|_| Unreadable)?;
                each(part.seq(part.past() - 1), &row);
                return Ok(());
            }
            Body::Block(_) => Some(block.and_then(|bytes| Loaded::read(part, bytes)).ok_or(Unreadable)?),
            Body::Rows(_) => None,
        };
        for position in part.first..part.past() {
            each(part.seq(position), &read_row(part, loaded.as_ref(), position));
        }
        Ok(())
    }

    /// Records in it; a gap is none.
    pub fn records(&self) -> u64 {
        if self.part.gap().is_some() { 0 } else { self.part.rows }
    }

    /// Whether it is the same rows at the same place.
    pub fn is_same(&self, other: &Piece) -> bool {
        (self.lane, self.first(), self.block()) == (other.lane, other.first(), other.block())
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { epoch, first_seq, rows, .. } = &self.part;
        write!(f, "lane {}, epoch {epoch}, seq {first_seq}..={}", self.lane.as_str(), first_seq + rows - 1)
    }
}

impl Outbox {
    /// The first rows of a lane at or after a position, as far as they lie together.
    /// `None`: nothing is held there.
    pub fn piece(&self, kind: LaneKind, from: u64) -> Option<Piece> {
        let lane = &self.lanes[kind as usize];
        let from = from.max(lane.floor());
        let first = lane.acked.end_of(from).unwrap_or(from);
        let mut part = lane.parts[lane.index_of(first)?].clone();
        // A gap goes as a whole, wherever it was come upon.
        if part.gap().is_none() {
            let end = lane.acked.next_begin(first).map_or(part.past(), |begin| begin.min(part.past()));
            if end < part.past() {
                part.split_off(end);
            }
            if part.first < first {
                part.trim(first - part.first);
            }
        }
        Some(Piece { lane: kind, part })
    }

    /// What there is, in numbers. Walks over the parts and over the rows in memory.
    pub fn overview(&self) -> Overview {
        let (day, day_bytes) = self.daily.parts();
        Overview {
            epoch: self.epoch,
            day,
            day_bytes,
            lanes: LaneKind::ALL.into_iter().map(|kind| self.lane_overview(kind)).collect(),
            dead_letters: self.dead_letters().cloned().collect(),
            faults: self.faults(),
        }
    }

    fn lane_overview(&self, kind: LaneKind) -> LaneOverview {
        let lane = &self.lanes[kind as usize];
        let held = || lane.parts.iter().filter(|part| lane.unacked(part) > 0);
        let times = held().map(times);
        let (oldest, newest) =
            times.fold((EventTime::MAX, EventTime::MIN), |(low, high), (from, to)| (low.min(from), high.max(to)));
        let is_known = oldest <= newest;
        let mut numbers: Vec<NumbersOverview> = Vec::new();
        for part in held() {
            let (epoch, first_seq, last_seq) = (part.epoch, part.first_seq, part.seq(part.past() - 1));
            if let Some(last) = numbers.last_mut().filter(|last| last.epoch == epoch) {
                last.last_seq = last_seq;
            } else if numbers.len() < OUTBOX_OVERVIEW_MAX {
                numbers.push(NumbersOverview { epoch, first_seq, last_seq });
            }
        }
        let ledger = self.ledger(kind);
        LaneOverview {
            lane: kind.as_str(),
            records: lane.held_records(),
            memory_bytes: lane.memory() as u64,
            disk_bytes: lane.stored(),
            blocks: held().filter(|part| part.block().is_some()).count() as u64,
            oldest_ms: is_known.then_some(oldest.as_millis()),
            newest_ms: is_known.then_some(newest.as_millis()),
            numbers,
            gaps: held().filter_map(gap_overview).take(OUTBOX_OVERVIEW_MAX).collect(),
            gaps_in_all: held().filter(|part| part.gap().is_some()).count() as u64,
            first: lane.floor(),
            past: lane.next,
            queued: ledger.queued,
            acked: ledger.acked,
            evicted: ledger.evicted,
            dead_lettered: ledger.dead_lettered,
        }
    }

    /// What does not fit together, as sentences: books that do not balance, numbers that
    /// are missing or come twice. Empty when all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for kind in LaneKind::ALL {
            let (lane, ledger) = (&self.lanes[kind as usize], self.ledger(kind));
            let name = kind.as_str();
            let held = lane.held_records();
            if ledger.queued != ledger.acked + ledger.evicted + ledger.dead_lettered + held {
                faults.push(format!("lane {name}: the books do not balance: {ledger:?}, held {held}"));
            }
            let mut due: Option<(u64, u64)> = None;
            for part in &lane.parts {
                if let Some((_, seq)) = due.filter(|(epoch, seq)| *epoch == part.epoch && *seq != part.first_seq) {
                    let (found, epoch) = (part.first_seq, part.epoch);
                    faults.push(if seq < found {
                        format!("lane {name}, epoch {epoch}: seq {seq}..={} are missing", found - 1)
                    } else {
                        format!("lane {name}, epoch {epoch}: seq {found} comes after {}", seq - 1)
                    });
                }
                due = Some((part.epoch, part.first_seq + part.rows));
            }
            let next = self.next_seq[kind as usize];
            if let Some((epoch, seq)) = due.filter(|(epoch, seq)| *epoch == self.epoch && *seq != next) {
                faults.push(format!("lane {name}, epoch {epoch}: seq {seq} follows, and {next} is to be given next"));
            }
        }
        faults.truncate(OUTBOX_OVERVIEW_MAX);
        faults
    }
}

fn times(part: &Part) -> (EventTime, EventTime) {
    match &part.body {
        Body::Rows(rows) => times_of(rows.iter()),
        Body::Block(block) => block.times,
        Body::Gap(_) => (EventTime::MAX, EventTime::MIN),
    }
}

fn gap_overview(part: &Part) -> Option<GapOverview> {
    let Ok(Row::Gap(row, _)) = row::read(part.gap()?.row()) else { return None };
    Some(GapOverview {
        epoch: part.epoch,
        first_seq: row.first_seq,
        last_seq: part.seq(part.past() - 1),
        records: row.records,
        oldest_ms: row.oldest.as_millis(),
        newest_ms: row.newest.as_millis(),
        reason: row.reason.as_str(),
    })
}
