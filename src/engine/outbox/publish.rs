//! From rows to published batches and back: what is in flight, what comes next,
//! what an acknowledgement or a lost connection means.

use std::collections::VecDeque;

use super::lane::Progress;
use super::row::{self, Row};
use super::{LaneKind, Outbox, state};
use crate::engine::encode::Envelope;
use crate::engine::step::{Batch, BatchId};
use crate::engine::wire::put_u64;
use crate::model::limits::{BATCH_BYTES_MAX, BATCH_PAYLOAD_BYTES_MAX, BATCH_RECORDS_MAX, UPLINK_WINDOW};

/// Batches published and not acknowledged, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    batches: VecDeque<Sent>,
    next_id: u64,
    late_had_its_turn: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    id: BatchId,
    kind: LaneKind,
    epoch: u64,
    first_seq: u64,
    last_seq: u64,
}

/// The lanes that share one order: a device's results are in all of them.
const ORDERED: [LaneKind; 3] = [LaneKind::Live, LaneKind::Update, LaneKind::Backlog];

/// The first row of a lane that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    order: u64,
    /// It may be published. A gap stands at its old place in the order, and may
    /// not before the eviction is durable: after a crash the row is back.
    durable: bool,
}

impl Outbox {
    /// The next batch to publish, marked as in flight. `None` when the window is
    /// full or nothing durable waits.
    pub fn next_batch(&mut self, envelope: Envelope<'_>) -> Option<Batch> {
        if self.in_flight.batches.len() >= UPLINK_WINDOW {
            return None;
        }
        let kind = self.next_lane()?;
        let order_end = self.order_end(kind);
        let durable = self.durable_order;
        let lane = &mut self.lanes[kind as usize];
        let first = lane.first_queued()?;
        let epoch = lane.entries()[first].epoch;
        let mut bytes = 0;
        let run = lane.entries().iter().skip(first).take(BATCH_RECORDS_MAX).take_while(|entry| {
            bytes += entry.len();
            entry.progress == Progress::Queued
                && entry.epoch == epoch
                && entry.written < durable
                && entry.order < order_end
                && (bytes <= BATCH_BYTES_MAX || bytes == entry.len())
        });
        let mut count = run.count();
        let payload = loop {
            let rows = lane.entries().range(first..first + count).map(|entry| {
                let row = row::read(lane.row(entry)).expect("rows are written by the outbox");
                (entry.seq, row)
            });
            let payload = envelope.payload(epoch, kind, rows);
            if count <= 1 || payload.len() <= BATCH_PAYLOAD_BYTES_MAX {
                break payload;
            }
            // How much longer than stored it becomes is known afterwards only.
            count = (count * BATCH_PAYLOAD_BYTES_MAX / payload.len()).clamp(1, count - 1);
        };
        let past = first + count;
        let (first_seq, last_seq) = (lane.entries()[first].seq, lane.entries()[past - 1].seq);
        for index in first..past {
            *lane.progress_mut(index) = Progress::InFlight;
        }
        let id = BatchId(self.in_flight.next_id);
        self.in_flight.next_id += 1;
        self.in_flight.batches.push_back(Sent { id, kind, epoch, first_seq, last_seq });
        self.in_flight.late_had_its_turn = kind == LaneKind::Late;
        let records = u32::try_from(count).expect("a batch is bounded");
        Some(Batch {
            records,
            lane: kind,
            encoding: envelope.encoding,
            ..Batch::new(id, envelope.topic(kind), payload)
        })
    }

    /// The cloud's broker has a batch: its rows are gone. An unknown id is one of
    /// a connection that was given up; its rows are being sent again.
    pub fn handle_ack(&mut self, id: BatchId) {
        let Some(at) = self.in_flight.batches.iter().position(|sent| sent.id == id) else { return };
        let sent = self.in_flight.batches.remove(at).expect("just found");
        self.ack(sent.kind, sent.epoch, sent.first_seq, sent.last_seq);
        self.log_len += 1;
        self.log.extend_from_slice(&[state::OP_ACK, sent.kind as u8]);
        for number in [sent.epoch, sent.first_seq, sent.last_seq] {
            put_u64(&mut self.log, number);
        }
    }

    /// The uplink is gone: what was in flight waits again, in its old place.
    pub fn handle_down(&mut self) {
        self.in_flight.batches.clear();
        for lane in &mut self.lanes {
            lane.requeue();
        }
    }

    /// Batches in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.batches.len()
    }

    /// Marks the rows of `kind` in the range as acknowledged.
    pub(super) fn ack(&mut self, kind: LaneKind, epoch: u64, first_seq: u64, last_seq: u64) {
        let lane = &mut self.lanes[kind as usize];
        let first = lane.entries().partition_point(|entry| (entry.epoch, entry.seq) < (epoch, first_seq));
        let past = lane.entries().partition_point(|entry| (entry.epoch, entry.seq) <= (epoch, last_seq));
        for index in first..past {
            let entry = lane.entries()[index];
            if entry.progress != Progress::Acked {
                let is_gap = matches!(row::read(lane.row(&entry)), Ok(Row::Gap(_)));
                self.ledger[kind as usize].acked += u64::from(!is_gap);
                *lane.progress_mut(index) = Progress::Acked;
            }
        }
        lane.drop_acked();
    }

    /// Alarms first; `late` in turns with the lanes that share one order.
    fn next_lane(&mut self) -> Option<LaneKind> {
        let mut waiting = [None; LaneKind::ALL.len()];
        for kind in LaneKind::ALL {
            waiting[kind as usize] = self.first_waiting(kind);
        }
        let durable = |kind: LaneKind| waiting[kind as usize].is_some_and(|first: Waiting| first.durable);
        if durable(LaneKind::Alarm) {
            return Some(LaneKind::Alarm);
        }
        let ordered = ORDERED
            .into_iter()
            .filter_map(|kind| Some((waiting[kind as usize]?.order, kind)))
            .min()
            .map(|(_, kind)| kind)
            .filter(|kind| durable(*kind));
        let late = Some(LaneKind::Late).filter(|kind| durable(*kind));
        if self.in_flight.late_had_its_turn { ordered.or(late) } else { late.or(ordered) }
    }

    /// The first row that waits.
    fn first_waiting(&mut self, kind: LaneKind) -> Option<Waiting> {
        let lane = &mut self.lanes[kind as usize];
        let first = lane.first_queued()?;
        let entry = lane.entries()[first];
        Some(Waiting { order: entry.order, durable: entry.written < self.durable_order })
    }

    /// Where a batch of `kind` has to end, so that the lanes which share one
    /// order are not sent past each other.
    fn order_end(&mut self, kind: LaneKind) -> u64 {
        let mut end = self.durable_order;
        if ORDERED.contains(&kind) {
            for other in ORDERED.into_iter().filter(|other| *other != kind) {
                if let Some(first) = self.first_waiting(other) {
                    end = end.min(first.order);
                }
            }
        }
        end
    }
}
