//! What the cloud's broker does not take.
//!
//! With MQTT 5 it says so: a batch that is refused for what is in it is halved until
//! single records are, and those become dead letters. With MQTT 3.1.1 it can only
//! close the connection. After [`STRIKES`] connections that it closed without taking
//! anything, batches go one at a time, so that it shows which one it is; that one is
//! halved too. A single record is suspected only: it is left out until the broker has
//! taken another one, and sent again behind that. Only a broker that closes the
//! connection on it [`PROOFS`] times, each time having taken another one first, does not
//! take *it*; a broker that crashes all the time takes nothing, and nothing is given up.

use std::collections::VecDeque;

use super::publish::Sent;
use super::row::GapReason;
use super::state::{read_lane, read_reason, write_lane};
use super::{LaneKind, Outbox};
use crate::engine::outbox::gap::Gap;
use crate::engine::step::{BatchId, Refusal};
use crate::engine::wire::{Damaged, Reader, put_bytes, put_u64};
use crate::model::limits::DEAD_LETTERS_BYTES_MAX;
use crate::model::time::{Now, ProcTime, Span};

/// Connections in a row that the broker closed without taking anything.
const STRIKES: u32 = 3;
/// Connections that it closed on one batch before that is halved.
const CLOSES: u32 = 2;
/// Connections that it closed on one record after taking another one.
const PROOFS: u32 = 2;
/// Batches in a row that it took, until they go together again.
const TAKEN: u32 = 8;
/// The shortest wait after "not now"; doubled up to `HOLD_MAX`.
const HOLD_MIN: Span = Span::from_secs(1);
/// See `HOLD_MIN`.
const HOLD_MAX: Span = Span::from_secs(60);
/// Borders between batches that are remembered in one lane: some windows full of refused batches.
const BORDERS_MAX: usize = 1_024;
/// Time between two alarms about dead letters.
const ALARM_EVERY: Span = Span::from_secs(60);

/// A record that the cloud's broker does not take, kept for a person to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// The lane it was in.
    pub lane: LaneKind,
    /// Its epoch there.
    pub epoch: u64,
    /// Its number there.
    pub seq: u64,
    /// Why.
    pub reason: GapReason,
    /// The record, as a stored row.
    pub row: Vec<u8>,
}

/// The newest dead letters.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadLetters {
    letters: VecDeque<DeadLetter>,
    bytes: usize,
    alarm_at: Option<ProcTime>,
}

/// Who is suspected, on the present connection and over several.
#[derive(Clone, Debug, Default)]
pub(super) struct Suspects {
    /// Positions before which a batch ends.
    borders: [Vec<u64>; LaneKind::ALL.len()],
    strikes: u32,
    careful: bool,
    /// Batches taken on this connection, and in a row while careful.
    taken: u32,
    taken_in_row: u32,
    /// The batch on which connections were closed, and how often.
    suspect: Option<(LaneKind, u64, u32)>,
    parked: Option<Parked>,
    /// The broker has taken something since the last record became a dead letter.
    takes_others: bool,
    /// Gaps go without their devices: one was refused.
    pub bare_gaps: bool,
}

/// A record that is left out until the broker has taken another one.
#[derive(Clone, Debug)]
struct Parked {
    kind: LaneKind,
    position: u64,
    row: Vec<u8>,
    /// The broker has taken another one on this connection: now this one.
    on_trial: bool,
    proofs: u32,
}

impl Suspects {
    /// Batches go one at a time.
    pub(super) fn is_careful(&self) -> bool {
        self.careful
    }

    /// A new connection.
    pub(super) fn handle_up(&mut self) {
        self.taken = 0;
        self.bare_gaps = false;
        if let Some(parked) = &mut self.parked {
            parked.on_trial = false;
        }
    }

    /// Where what is left out ends.
    pub(super) fn parked_end(&self, kind: LaneKind, position: u64) -> Option<u64> {
        let parked = self.parked.as_ref().filter(|parked| !parked.on_trial)?;
        (parked.kind == kind && parked.position == position).then_some(position + 1)
    }

    /// Where a batch that begins at `position` has to end.
    pub(super) fn next_border(&self, kind: LaneKind, position: u64) -> Option<u64> {
        let parked = self.parked.as_ref().filter(|parked| parked.kind == kind);
        let around = parked.into_iter().flat_map(|parked| [parked.position, parked.position + 1]);
        let borders = self.borders[kind as usize].iter().copied();
        borders.chain(around).filter(|border| *border > position).min()
    }

    /// What is gone is not suspected.
    pub(super) fn forget_before(&mut self, kind: LaneKind, floor: u64) {
        self.borders[kind as usize].retain(|border| *border > floor);
        if self.parked.as_ref().is_some_and(|parked| parked.kind == kind && parked.position < floor) {
            self.parked = None;
        }
    }

    fn divide(&mut self, sent: &Sent) {
        let borders = &mut self.borders[sent.kind as usize];
        borders.extend([sent.first, sent.first.midpoint(sent.past), sent.past]);
        // One that is forgotten costs a few more refusals.
        borders.drain(..borders.len().saturating_sub(BORDERS_MAX));
    }
}

impl Outbox {
    /// The broker answered a batch with a reason why not.
    pub fn handle_refused(&mut self, now: Now, id: BatchId, why: Refusal) {
        let Some(sent) = self.take_sent(id) else { return };
        let lane = &mut self.lanes[sent.kind as usize];
        lane.cursor = lane.cursor.min(sent.first);
        match why {
            Refusal::NotNow => self.hold(now),
            Refusal::Poison => self.divide_or_bury(now, sent),
        }
    }

    fn hold(&mut self, now: Now) {
        let doubled = Span::from_millis(self.sending.hold.as_millis().saturating_mul(2));
        self.sending.hold = doubled.max(HOLD_MIN).min(HOLD_MAX);
        self.sending.hold_until = Some(now.proc + self.sending.hold);
    }

    /// The broker ended the connection by itself.
    pub fn handle_closed_by_peer(&mut self, now: Now) {
        let sent: Vec<Sent> = self.sending.batches.iter().cloned().collect();
        self.handle_down();
        let suspects = &mut self.sending.suspects;
        let Some(first) = sent.first() else { return };
        suspects.strikes = if suspects.taken > 0 { 0 } else { suspects.strikes + 1 };
        suspects.careful |= suspects.strikes >= STRIKES;
        suspects.taken_in_row = 0;
        if !suspects.careful || sent.len() > 1 {
            return;
        }
        if let Some(parked) = suspects.parked.take_if(|parked| parked.on_trial) {
            self.judge(now, parked);
            return;
        }
        let closes = match suspects.suspect {
            Some((kind, at, closes)) if (kind, at) == (first.kind, first.first) => closes + 1,
            Some(_) | None => 1,
        };
        suspects.suspect = Some((first.kind, first.first, closes));
        if closes >= CLOSES {
            suspects.suspect = None;
            match first.row.clone() {
                Some(row) if suspects.parked.is_none() => {
                    let (kind, position) = (first.kind, first.first);
                    suspects.parked = Some(Parked { kind, position, row, on_trial: false, proofs: 0 });
                }
                Some(_) => {}
                None => suspects.divide(first),
            }
        }
    }

    fn judge(&mut self, now: Now, parked: Parked) {
        let proofs = parked.proofs + 1;
        if proofs >= PROOFS {
            self.dead_letter(now, parked.kind, parked.position, parked.row, GapReason::Refused);
        } else {
            self.sending.suspects.parked = Some(Parked { on_trial: false, proofs, ..parked });
        }
    }

    /// The broker has taken a batch.
    pub(super) fn clear_suspect(&mut self, kind: LaneKind, first: u64) {
        let suspects = &mut self.sending.suspects;
        suspects.strikes = 0;
        suspects.takes_others = true;
        suspects.taken += 1;
        suspects.taken_in_row += 1;
        suspects.suspect = suspects.suspect.filter(|(lane, at, _)| (*lane, *at) != (kind, first));
        if let Some(parked) = &mut suspects.parked {
            if (parked.kind, parked.position) == (kind, first) {
                suspects.parked = None;
            } else if !parked.on_trial {
                parked.on_trial = true;
                let lane = &mut self.lanes[parked.kind as usize];
                lane.cursor = lane.cursor.min(parked.position);
            }
        } else if suspects.taken_in_row >= TAKEN {
            suspects.careful = false;
        }
    }

    /// A broker that refuses everything costs next to nothing: a record is a dead letter
    /// only when another one has been taken since the last, or after the longest waits.
    fn divide_or_bury(&mut self, now: Now, sent: Sent) {
        match sent.row {
            Some(row) => {
                let takes_others = core::mem::take(&mut self.sending.suspects.takes_others);
                if takes_others || self.sending.hold >= HOLD_MAX {
                    self.dead_letter(now, sent.kind, sent.first, row, GapReason::Refused);
                }
                if !takes_others {
                    self.hold(now);
                }
            }
            // It has no half, and may not vanish: without its devices it is short.
            None if self.is_gap(&sent) => {
                self.sending.suspects.bare_gaps = true;
                self.hold(now);
            }
            None => self.sending.suspects.divide(&sent),
        }
    }

    fn is_gap(&self, sent: &Sent) -> bool {
        let lane = &self.lanes[sent.kind as usize];
        lane.index_of(sent.first).is_some_and(|index| lane.parts[index].gap().is_some())
    }

    /// Takes a record out: a gap stands for it, and it is kept to be looked at.
    pub(super) fn dead_letter(&mut self, now: Now, kind: LaneKind, position: u64, row: Vec<u8>, reason: GapReason) {
        self.split(kind, position);
        self.split(kind, position + 1);
        let lane = &self.lanes[kind as usize];
        let Some(index) = lane.index_of(position) else { return };
        let part = &lane.parts[index];
        if part.first != position || part.rows != 1 || part.gap().is_some() {
            return;
        }
        let (epoch, seq) = (part.epoch, part.seq(position));
        let gap = Gap::of(seq, core::iter::once(row.as_slice()), reason);
        self.give_up(kind, index, gap);
        let letter = DeadLetter { lane: kind, epoch, seq, reason, row };
        self.log.dead(&letter);
        self.dead.push(letter);
        if kind != LaneKind::Alarm && self.dead.alarm_at.is_none_or(|at| at <= now.proc) {
            self.dead.alarm_at = Some(now.proc + ALARM_EVERY);
            let text = format!(
                "record {seq} of lane {} is not taken by the cloud's broker ({}); it is kept as a dead letter",
                kind.as_str(),
                reason.as_str()
            );
            self.alarm(now, "dead_letter", &text);
        }
    }

    /// The newest records that were taken out, oldest first.
    pub fn dead_letters(&self) -> impl Iterator<Item = &DeadLetter> {
        self.dead.letters.iter()
    }
}

impl DeadLetters {
    pub(super) fn push(&mut self, letter: DeadLetter) {
        self.bytes += letter.row.len();
        self.letters.push_back(letter);
        while self.bytes > DEAD_LETTERS_BYTES_MAX && self.letters.len() > 1 {
            self.bytes -= self.letters.pop_front().map_or(0, |letter| letter.row.len());
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.letters.len() as u64);
        self.letters.iter().for_each(|letter| letter.write(out));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<DeadLetters, Damaged> {
        let mut dead = DeadLetters::default();
        for _ in 0..reader.u64()? {
            dead.push(DeadLetter::read(reader)?);
        }
        Ok(dead)
    }
}

impl DeadLetter {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_lane(out, self.lane);
        put_u64(out, self.epoch);
        put_u64(out, self.seq);
        out.push(self.reason as u8);
        put_bytes(out, &self.row);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<DeadLetter, Damaged> {
        let lane = read_lane(reader)?;
        let (epoch, seq) = (reader.u64()?, reader.u64()?);
        let reason = read_reason(reader)?;
        let row = reader.bytes()?;
        super::row::read(row)?;
        Ok(DeadLetter { lane, epoch, seq, reason, row: row.to_vec() })
    }
}
