//! The outbox: what the cloud has not acknowledged yet. Our only truth about the
//! uplink; whatever an MQTT client holds may be lost at any time.
//!
//! ```text
//! push ─▶ lane: [gap][block][block] … [rows][rows, open]
//!               │      │                └─ in memory, durable through the pages
//!               │      └─ in the chain on disk, read back when its turn comes
//!               └─ stands for rows that are lost
//! ```
//!
//! | subject | modules |
//! |---|---|
//! | what a lane is made of | `lane` · `part` · `gap` · `ranges` |
//! | what a row is | `row` |
//! | which rows go to the disk, and which are given up | `room` |
//! | what is sent next, and how fast | `publish` · `schedule` · `rate` |
//! | what the cloud's broker does not take | `refused` |
//! | as persisted bytes | `state` · `stored` |
//! | to be looked at | `look` |
//!
//! A row may be published once it is durable, is gone when its PUBACK is, and waits
//! again when the connection is lost before that. Alarms go first, then what is new;
//! what waited for the uplink gets a share of it.

mod gap;
mod lane;
pub mod local;
mod look;
mod part;
mod publish;
mod ranges;
mod rate;
mod refused;
mod room;
pub mod row;
mod schedule;
mod state;
pub mod stored;

use crate::model::limits::{OUTBOX_COMMIT_BYTES_MAX as COMMIT_BYTES_MAX, OUTBOX_SPILL_BYTES};
use crate::model::time::{Now, ProcTime, WallTime};

use self::lane::{Lane, Numbers};
use self::part::BLOCK_BYTES;
use self::rate::Daily;
use self::refused::DeadLetters;
use self::row::{AlarmRow, Row};
use super::spec::{OutboxSpec, UplinkPolicy};

pub use self::look::{GapOverview, LaneOverview, NumbersOverview, Overview, Piece, Unreadable};
pub use self::publish::Next;
pub use self::refused::DeadLetter;
pub use self::room::{Eviction, Spill, block_crc};

/// Lanes, highest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum LaneKind {
    /// The agent's own alarms.
    Alarm,
    /// Panes `on_time`, `early` and `idle`, joined rows, readings.
    Live,
    /// Panes `late` and `final`.
    Update,
    /// What was made while the uplink was down.
    Backlog,
    /// Side output, deltas and quarantine.
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

    /// Whether its rows can wait: they have waited already, or are late.
    fn can_wait(self) -> bool {
        matches!(self, LaneKind::Backlog | LaneKind::Late)
    }
}

/// The uplink's side of the books: `queued = acked + evicted + dead_lettered + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxLedger {
    /// Rows ever made; a gap row is none, it stands for those it replaced.
    pub queued: u64,
    /// Acknowledged by the cloud's broker.
    pub acked: u64,
    /// Given up: they made room for newer ones, were too old, or could not be read
    /// any more. A gap says so.
    pub evicted: u64,
    /// Taken out because the cloud's broker does not take them.
    pub dead_lettered: u64,
}

/// Compresses a payload; what would not become shorter stays as it is.
pub type Pack = fn(&[u8]) -> Vec<u8>;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Outbox {
    lanes: [Lane; LaneKind::ALL.len()],
    next_seq: [u64; LaneKind::ALL.len()],
    ledger: [OutboxLedger; LaneKind::ALL.len()],
    epoch: u64,
    next_order: u64,
    spec: OutboxSpec,
    policy: UplinkPolicy,
    age: Age,
    daily: Daily,
    dead: DeadLetters,
    sending: publish::Sending,
    /// What happened since the last commit, in stored form.
    log: state::Log,
    /// There is a chain: rows that memory should not hold leave it soon.
    has_chain: bool,
    /// It takes nothing at the moment.
    chain_refuses: bool,
    /// Bytes on the medium that may be given up for new rows.
    space_owed: u64,
    /// The chain gives nothing at the moment.
    chain_silent: bool,
    /// How payloads can be compressed.
    packer: Option<Pack>,
}

/// How long the outbox has been kept, while the agent ran: the wall clock may jump,
/// and a record must not be given up for that.
#[derive(Clone, Copy, Debug, Default)]
struct Age {
    millis: u64,
    /// The monotonic clock at some age.
    base: Option<(ProcTime, u64)>,
}

impl Age {
    fn set_now(&mut self, now: ProcTime) {
        let (since, millis) = *self.base.get_or_insert((now, self.millis));
        self.millis = self.millis.max(millis + now.since(since).as_millis());
    }
}

impl Outbox {
    /// An empty outbox.
    pub fn new(spec: OutboxSpec, policy: UplinkPolicy) -> Outbox {
        Outbox {
            lanes: Default::default(),
            next_seq: [0; LaneKind::ALL.len()],
            ledger: [OutboxLedger::default(); LaneKind::ALL.len()],
            epoch: 0,
            next_order: 0,
            spec,
            policy,
            age: Age::default(),
            daily: Daily::default(),
            dead: DeadLetters::default(),
            sending: publish::Sending::new(&policy),
            log: state::Log::default(),
            has_chain: false,
            chain_refuses: false,
            space_owed: 0,
            chain_silent: false,
            packer: None,
        }
    }

    /// How payloads are compressed: the engine knows no compressor.
    pub fn set_packer(&mut self, pack: Pack) {
        self.packer = Some(pack);
    }

    /// Other bounds and another policy from now on. What is beyond the bounds goes with the
    /// next row; what is under way stays so.
    pub fn reconfigure(&mut self, spec: OutboxSpec, policy: UplinkPolicy) {
        self.spec = spec;
        if self.policy != policy {
            self.policy = policy;
            self.sending.reconfigure(&policy);
        }
    }

    /// The clock, before anything is done at that time.
    pub fn set_now(&mut self, now: Now) {
        self.age.set_now(now.proc);
    }

    /// Appends a row to a lane; `write` fills it in.
    pub fn push(&mut self, kind: LaneKind, write: impl FnOnce(&mut Vec<u8>)) {
        let begins = !self.lanes[kind as usize].takes_more(self.epoch) || self.is_spread_out(kind);
        let numbers = self.next_numbers(kind);
        let row = self.lanes[kind as usize].push(numbers, begins, write);
        self.log.push(self.age.millis, kind, begins, row);
        if self.lanes[kind as usize].open_bytes() >= self.block_bytes() {
            self.lanes[kind as usize].seal();
            self.log.seal(kind);
        }
        // Thousands of windows may close at once, and no chain can take their rows before
        // they all are here.
        let bound = if self.has_chain && !self.chain_refuses { 2 } else { 1 } * self.spec.memory_max;
        while self.memory() > bound && self.evict_from_memory() {}
    }

    /// Rows are to leave memory before more come in.
    pub fn is_crowded(&self) -> bool {
        !self.chain_refuses && self.memory() > (2 * OUTBOX_SPILL_BYTES).min(self.spec.memory_max / 2)
    }

    /// What waits for the next commit is so much that it should not wait.
    pub fn is_commit_large(&self) -> bool {
        self.log.len_bytes() > COMMIT_BYTES_MAX
    }

    fn next_numbers(&mut self, kind: LaneKind) -> Numbers {
        let lane = kind as usize;
        let numbers =
            Numbers { epoch: self.epoch, seq: self.next_seq[lane], order: self.next_order, age: self.age.millis };
        self.next_seq[lane] += 1;
        self.next_order += 1;
        self.ledger[lane].queued += 1;
        numbers
    }

    /// The open part of a lane with an age limit would keep its oldest row too long.
    fn is_spread_out(&self, kind: LaneKind) -> bool {
        let limit = self.spec.lanes[kind as usize].age_max;
        let opened = self.lanes[kind as usize].parts.back().map(|part| part.opened);
        limit.zip(opened).is_some_and(|(limit, opened)| self.age.millis - opened >= limit.as_millis() / 8)
    }

    /// Bytes at which a part is closed: an outbox that is small is given up in small pieces.
    fn block_bytes(&self) -> usize {
        (self.spec.memory_max / 16).clamp(1, BLOCK_BYTES)
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
        self.log.epoch(epoch);
    }

    /// Bytes held in memory and on disk, over all lanes.
    pub fn bytes(&self) -> u64 {
        self.memory() as u64 + self.lanes.iter().map(Lane::stored).sum::<u64>()
    }

    /// Bytes of rows held in memory.
    pub fn memory(&self) -> usize {
        self.lanes.iter().map(Lane::memory).sum()
    }

    /// Bytes of one lane, in memory and on disk.
    pub fn lane_bytes(&self, kind: LaneKind) -> u64 {
        let lane = &self.lanes[kind as usize];
        lane.memory() as u64 + lane.stored()
    }

    /// Rows held in one lane, gap rows included.
    pub fn held(&self, kind: LaneKind) -> u64 {
        self.lanes[kind as usize].held()
    }

    /// The books of one lane.
    pub fn ledger(&self, kind: LaneKind) -> OutboxLedger {
        self.ledger[kind as usize]
    }

    /// Records that held rows of one lane stand for, evicted ones aside.
    pub fn held_records(&self, kind: LaneKind) -> u64 {
        self.lanes[kind as usize].held_records()
    }

    /// How long the oldest record of a lane has waited while the agent ran, in ms.
    pub fn oldest_ms(&self, kind: LaneKind) -> Option<u64> {
        let front = self.lanes[kind as usize].parts.front()?;
        Some(self.age.millis.saturating_sub(front.opened))
    }

    /// Bytes of payload published today, by the wall clock in UTC.
    pub fn spent_today(&self, now: Now) -> u64 {
        self.daily.spent(now.wall)
    }

    /// The number that the next row over all lanes will have: a cursor for
    /// [`Outbox::rows_since`].
    pub fn next_order(&self) -> u64 {
        self.next_order
    }

    /// Rows in memory that were made at or after `order`, and gaps that became necessary
    /// then, in the order in which they were made, with lane, epoch and sequence number.
    pub fn rows_since(&self, order: u64) -> Vec<(LaneKind, u64, u64, Row<'_>)> {
        let mut found = Vec::new();
        for kind in LaneKind::ALL {
            // Parts are full of older rows, but for the last ones.
            let is_older = |part: &&part::Part| part.rows().is_some_and(|rows| rows.order(rows.len() - 1) < order);
            for part in self.lanes[kind as usize].parts.iter().filter(|part| !is_older(part)) {
                let mut add = |at: u64, seq: u64, bytes| {
                    if at >= order {
                        let row = row::read(bytes).expect("rows are written by this module");
                        found.push((at, kind, part.epoch, seq, row));
                    }
                };
                if let Some(gap) = part.gap() {
                    add(gap.order, part.seq(part.past() - 1), gap.row());
                }
                for (place, bytes) in part.rows().into_iter().flat_map(|rows| rows.iter().enumerate()) {
                    let at = part.rows().map_or(0, |rows| rows.order(place));
                    add(at, part.first_seq + place as u64, bytes);
                }
            }
        }
        found.sort_by_key(|(order, ..)| *order);
        found.into_iter().map(|(_, kind, epoch, seq, row)| (kind, epoch, seq, row)).collect()
    }

    /// Hands over every row that is held, in order, and acknowledges it.
    pub fn take_rows(&mut self, each: &mut dyn FnMut(LaneKind, u64, &Row<'_>)) {
        if self.lanes.iter().all(|lane| lane.parts.is_empty()) {
            return;
        }
        for (kind, _, seq, row) in self.rows_since(0) {
            each(kind, seq, &row);
        }
        for kind in LaneKind::ALL {
            let past = self.lanes[kind as usize].next;
            self.ack(kind, 0, past);
        }
        self.mark_committed();
    }
}

#[cfg(test)]
mod tests;
