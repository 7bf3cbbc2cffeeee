//! From rows to published batches and back: what is in flight, what comes next,
//! what an acknowledgement or a lost connection means.

use std::collections::VecDeque;

use super::gap::Gap;
use super::part::{Body, Loaded, Part};
use super::rate::{Bucket, Daily};
use super::refused::Suspects;
use super::row::{self, GapItems, GapReason, Row};
use super::schedule::{Ready, Schedule};
use super::{LaneKind, Outbox};
use crate::engine::encode::Envelope;
use crate::engine::spec::UplinkPolicy;
use crate::engine::step::{Batch, BatchId, UplinkTerms};
use crate::model::limits::{BATCH_RECORDS_MAX, UPLINK_TERMS_MIN};
use crate::model::time::{Now, ProcTime, Span};

/// What is to be done for the uplink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Publish this; it is in flight now.
    Batch(Batch),
    /// Read this block and hand it over ([`Outbox::take_block`]): its rows are next.
    Block {
        /// Its lane.
        lane: LaneKind,
        /// Its number.
        number: u64,
    },
    /// Nothing, until something changes or [`Outbox::next_deadline`].
    Nothing,
}

/// What is under way, and how fast more may follow.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    /// Published and not acknowledged, oldest first.
    pub batches: VecDeque<Sent>,
    next_id: u64,
    schedule: Schedule,
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
    terms: UplinkTerms,
    /// Something was refused for a reason that passes: nothing is sent until then.
    pub hold_until: Option<ProcTime>,
    pub hold: Span,
    /// When what is held back now may go.
    wake_at: Option<ProcTime>,
    pub suspects: Suspects,
}

/// One batch under way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub id: BatchId,
    pub kind: LaneKind,
    pub first: u64,
    pub past: u64,
    at: ProcTime,
    /// The row, when it is a single one.
    pub row: Option<Vec<u8>>,
}

/// Rows that can be sent as one batch.
#[derive(Clone, Copy, Debug)]
struct Run {
    index: usize,
    first: u64,
    past: u64,
}

impl Sending {
    /// Nothing is under way.
    pub(super) fn new(policy: &UplinkPolicy) -> Sending {
        let terms = UplinkTerms { payload_max: policy.payload_max, window: policy.window };
        Sending {
            batches: VecDeque::new(),
            next_id: 0,
            schedule: Schedule::new(policy.backlog_share, policy.window),
            messages: policy.messages_per_second.map(Bucket::new),
            bytes: policy.bytes_per_second.map(Bucket::new),
            terms,
            hold_until: None,
            hold: Span::ZERO,
            wake_at: None,
            suspects: Suspects::default(),
        }
    }

    /// Another policy. The broker's own bounds hold as far as they are narrower.
    pub(super) fn reconfigure(&mut self, policy: &UplinkPolicy) {
        let fresh = Sending::new(policy);
        self.terms = UplinkTerms {
            payload_max: fresh.terms.payload_max.min(self.terms.payload_max),
            window: fresh.terms.window.min(self.terms.window),
        };
        (self.schedule, self.messages, self.bytes) = (fresh.schedule, fresh.messages, fresh.bytes);
        self.wake_at = None;
    }

    /// A batch under way overlaps the range.
    pub(super) fn is_under_way(&self, kind: LaneKind, first: u64, past: u64) -> bool {
        self.batches.iter().any(|sent| sent.kind == kind && sent.first < past && first < sent.past)
    }

    fn has_room(&self) -> bool {
        let window = if self.suspects.is_careful() { 1 } else { self.terms.window };
        self.batches.len() < window
    }

    fn end_of(&self, kind: LaneKind, position: u64) -> Option<u64> {
        let mut batches = self.batches.iter().filter(|sent| sent.kind == kind);
        batches.find(|sent| sent.first <= position && position < sent.past).map(|sent| sent.past)
    }

    fn next_begin(&self, kind: LaneKind, position: u64) -> Option<u64> {
        let batches = self.batches.iter().filter(|sent| sent.kind == kind && sent.first >= position);
        batches.map(|sent| sent.first).min()
    }

    /// Until when nothing at all may be sent.
    fn closed_until(&mut self, now: ProcTime) -> Option<ProcTime> {
        let hold = self.hold_until.filter(|at| *at > now);
        let messages = self.messages.as_mut().and_then(|bucket| bucket.waits_until(now));
        let bytes = self.bytes.as_mut().and_then(|bucket| bucket.waits_until(now));
        [hold, messages, bytes].into_iter().flatten().max()
    }

    fn waited_in_flight(&self) -> usize {
        self.batches.iter().filter(|sent| sent.kind.can_wait()).count()
    }
}

impl Outbox {
    /// What to publish next, marked as in flight. Call it again until there is nothing.
    pub fn next(&mut self, now: Now, envelope: Envelope<'_>) -> Next {
        loop {
            self.sending.wake_at = None;
            if !self.sending.has_room() {
                return Next::Nothing;
            }
            if let Some(at) = self.sending.closed_until(now.proc) {
                self.sending.wake_at = Some(at);
                return Next::Nothing;
            }
            let runs = LaneKind::ALL.map(|kind| self.run(kind));
            let ready = self.ready(now, &runs);
            let Some(kind) = self.sending.schedule.choose(ready) else { return Next::Nothing };
            let Some(run) = runs[kind as usize] else { return Next::Nothing };
            let lane = &self.lanes[kind as usize];
            let part = &lane.parts[run.index];
            if let Some(block) = part.block()
                && lane.loaded.as_ref().is_none_or(|loaded| loaded.number != block.number)
            {
                return Next::Block { lane: kind, number: block.number };
            }
            let payload_max = self.policy.payload_max.min(self.sending.terms.payload_max);
            // Nothing that has items fits into this.
            let payload_max_of_gaps = if self.sending.suspects.bare_gaps { 0 } else { payload_max };
            let payload_max = if part.gap().is_some() { payload_max_of_gaps } else { payload_max };
            let Some((payload, rows)) = encode(envelope, kind, part, lane.loaded.as_ref(), run, payload_max) else {
                self.set_aside_large(now, kind, run);
                continue;
            };
            let payload = match self.packer.filter(|_| self.policy.compressed) {
                Some(pack) => pack(&payload),
                None => payload,
            };
            let contested = (ready[1] || ready[2]) && (ready[3] || ready[4]);
            return Next::Batch(self.send(now, envelope, kind, run, payload, rows, contested));
        }
    }

    /// A block that [`Next::Block`] asked for; `None`: it cannot be read any more, and a gap
    /// stands for it from the next commit on.
    pub fn take_block(&mut self, kind: LaneKind, number: u64, bytes: Option<&[u8]>) {
        let lane = &mut self.lanes[kind as usize];
        let of_block = |part: &Part| part.block().is_some_and(|block| block.number == number);
        let found = lane.parts.iter().find(|part| of_block(part));
        lane.loaded = found.zip(bytes).and_then(|(part, bytes)| Loaded::read(part, bytes));
        if lane.loaded.is_some() {
            return;
        }
        self.lose(kind, number);
    }

    /// The cloud's broker has a batch: its rows are gone. An unknown id is one of
    /// a connection that was given up; its rows are being sent again.
    pub fn handle_ack(&mut self, now: Now, id: BatchId) {
        let Some(sent) = self.take_sent(id) else { return };
        self.ack(sent.kind, sent.first, sent.past);
        self.sending.schedule.handle_acked(sent.kind, now.proc.since(sent.at));
        self.sending.hold = Span::ZERO;
        self.clear_suspect(sent.kind, sent.first);
        self.log_spent();
    }

    /// What the connection allows.
    pub fn handle_terms(&mut self, terms: UplinkTerms) {
        self.sending.terms = UplinkTerms {
            payload_max: terms.payload_max.max(UPLINK_TERMS_MIN),
            window: terms.window.clamp(1, self.policy.window),
        };
    }

    /// The uplink is there.
    pub fn handle_up(&mut self) {
        self.sending.terms = UplinkTerms { payload_max: self.policy.payload_max, window: self.policy.window };
        self.sending.suspects.handle_up();
    }

    /// The uplink is gone: what was in flight waits again, in its old place.
    pub fn handle_down(&mut self) {
        self.sending.batches.clear();
        self.sending.schedule.restart();
        self.sending.wake_at = None;
        for lane in &mut self.lanes {
            lane.cursor = lane.floor();
            lane.drop_loaded();
        }
    }

    /// Batches in flight.
    pub fn in_flight(&self) -> usize {
        self.sending.batches.len()
    }

    /// When something becomes due without an event: a rate allows more, a record is too old.
    pub fn next_deadline(&self) -> Option<ProcTime> {
        [self.sending.wake_at, self.expires_at()].into_iter().flatten().min()
    }

    pub(super) fn take_sent(&mut self, id: BatchId) -> Option<Sent> {
        let at = self.sending.batches.iter().position(|sent| sent.id == id)?;
        self.sending.batches.remove(at)
    }

    /// Marks rows as acknowledged, and writes it down.
    pub(super) fn ack(&mut self, kind: LaneKind, first: u64, past: u64) {
        self.log.ack(kind, first, past);
        self.count_ack(kind, first, past);
    }

    pub(super) fn count_ack(&mut self, kind: LaneKind, first: u64, past: u64) {
        let lane = &mut self.lanes[kind as usize];
        self.ledger[kind as usize].acked += lane.ack(first, past);
        lane.drop_loaded();
        self.sending.suspects.forget_before(kind, self.lanes[kind as usize].floor());
    }

    /// The first rows of a lane that wait and may be sent.
    fn run(&mut self, kind: LaneKind) -> Option<Run> {
        let lane = &mut self.lanes[kind as usize];
        let (sending, suspects) = (&self.sending, &self.sending.suspects);
        let mut first = lane.cursor;
        while let Some(end) = lane.acked.end_of(first).or_else(|| sending.end_of(kind, first)) {
            first = end;
        }
        lane.cursor = first;
        while let Some(end) = suspects
            .parked_end(kind, first)
            .or_else(|| lane.acked.end_of(first))
            .or_else(|| sending.end_of(kind, first))
        {
            first = end;
        }
        if first >= lane.durable {
            return None;
        }
        let index = lane.index_of(first)?;
        let part = &lane.parts[index];
        if let Body::Gap(gap) = &part.body {
            return gap.durable.then_some(Run { index, first: part.first, past: part.past() });
        }
        if self.chain_silent
            && part.block().is_some_and(|block| lane.loaded.as_ref().is_none_or(|loaded| loaded.number != block.number))
        {
            return None;
        }
        let ends = [
            lane.acked.next_begin(first),
            sending.next_begin(kind, first),
            suspects.next_border(kind, first),
            Some(first + BATCH_RECORDS_MAX as u64),
        ];
        let end = ends.into_iter().flatten().fold(part.past().min(lane.durable), u64::min);
        Some(Run { index, first, past: end })
    }

    /// Which lanes may send now.
    fn ready(&mut self, now: Now, runs: &[Option<Run>; LaneKind::ALL.len()]) -> Ready {
        let (any, waited) = match self.policy.bytes_per_day {
            Some(budget) => self.daily.allows(now.wall, budget),
            None => (true, true),
        };
        let has_room = self.sending.schedule.has_room(self.sending.waited_in_flight());
        LaneKind::ALL.map(|kind| {
            let in_budget = kind == LaneKind::Alarm || if kind.can_wait() { waited } else { any };
            let waits = runs[kind as usize].is_some();
            if waits && !in_budget {
                self.sending.wake_at = Some(Daily::next_day(now));
            }
            waits && in_budget && (!kind.can_wait() || has_room)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "what was found out about one batch, passed once")]
    fn send(
        &mut self,
        now: Now,
        envelope: Envelope<'_>,
        kind: LaneKind,
        run: Run,
        payload: Vec<u8>,
        rows: u64,
        contested: bool,
    ) -> Batch {
        let lane = &self.lanes[kind as usize];
        let part = &lane.parts[run.index];
        let end = if part.gap().is_some() { run.past } else { run.first + rows };
        let row = (rows == 1 && part.gap().is_none()).then(|| row_at(part, lane.loaded.as_ref(), run.first).to_vec());
        let id = BatchId(self.sending.next_id);
        self.sending.next_id += 1;
        let made = part.opened;
        self.sending.batches.push_back(Sent { id, kind, first: run.first, past: end, at: now.proc, row });
        self.sending.schedule.handle_sent(kind, payload.len(), contested);
        if let Some(bucket) = &mut self.sending.messages {
            bucket.take(1);
        }
        if let Some(bucket) = &mut self.sending.bytes {
            bucket.take(payload.len());
        }
        self.daily.take(now.wall, payload.len());
        let limit = self.spec.lanes[kind as usize].age_max;
        let expiry = limit.map(|limit| {
            let age = self.age.millis.saturating_sub(made);
            Span::from_millis(limit.as_millis().saturating_sub(age)).max(Span::from_secs(1))
        });
        Batch {
            records: u32::try_from(rows).expect("a batch is bounded"),
            lane: kind,
            encoding: envelope.encoding,
            expiry,
            ..Batch::new(id, envelope.topic(kind), payload)
        }
    }

    /// A single record is larger than the uplink takes.
    fn set_aside_large(&mut self, now: Now, kind: LaneKind, run: Run) {
        let lane = &self.lanes[kind as usize];
        let part = &lane.parts[run.index];
        let row = row_at(part, lane.loaded.as_ref(), run.first).to_vec();
        self.dead_letter(now, kind, run.first, row, GapReason::TooLarge);
    }
}

/// The payload of as many rows of the run as fit, and how many those are. `None`: not
/// even the first one does.
fn encode(
    envelope: Envelope<'_>,
    kind: LaneKind,
    part: &Part,
    loaded: Option<&Loaded>,
    run: Run,
    payload_max: usize,
) -> Option<(Vec<u8>, u64)> {
    if let Some(gap) = part.gap() {
        return encode_gap(envelope, kind, part, gap, payload_max).map(|payload| (payload, 1));
    }
    let mut count = usize::try_from(run.past - run.first).expect("a batch is bounded");
    loop {
        let rows = (0..count).map(|place| {
            let position = run.first + place as u64;
            (part.seq(position), read_row(part, loaded, position))
        });
        let payload = envelope.payload(part.epoch, kind, rows);
        if payload.len() <= payload_max {
            return Some((payload, count as u64));
        }
        if count == 1 {
            return None;
        }
        // How much longer than stored it becomes is known afterwards only.
        count = (count * payload_max / payload.len()).clamp(1, count - 1);
    }
}

/// Without its items where they do not fit: then it is short.
fn encode_gap(envelope: Envelope<'_>, kind: LaneKind, part: &Part, gap: &Gap, payload_max: usize) -> Option<Vec<u8>> {
    let Ok(Row::Gap(row, items)) = row::read(gap.row()) else { return None };
    let seq = part.seq(part.past() - 1);
    let payload = |items| envelope.payload(part.epoch, kind, core::iter::once((seq, Row::Gap(row, items))));
    Some(payload(items)).filter(|payload| payload.len() <= payload_max).or_else(|| Some(payload(GapItems::NONE)))
}

pub(super) fn read_row<'a>(part: &'a Part, loaded: Option<&'a Loaded>, position: u64) -> Row<'a> {
    row::read(row_at(part, loaded, position)).expect("rows are written by the outbox, and checked when read back")
}

fn row_at<'a>(part: &'a Part, loaded: Option<&'a Loaded>, position: u64) -> &'a [u8] {
    match (&part.body, loaded) {
        (Body::Rows(rows), _) => rows.get(usize::try_from(position - part.first).expect("rows in memory")),
        (Body::Gap(gap), _) => gap.row(),
        (Body::Block(_), Some(loaded)) => loaded.get(part, position),
        (Body::Block(_), None) => unreachable!("a block is loaded before it is sent"),
    }
}
