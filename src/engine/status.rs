//! What the agent says about itself. The books in here are the engine's own
//! counters; nothing is computed to make them balance.

use serde::Serialize;

use crate::model::ids::DeviceId;
use crate::model::record::RejectReason;
use crate::model::time::{EventTime, Now, Span};

use super::Engine;
use super::broker::Broker;
use super::broker::status::BrokerStatus;
use super::join::JoinStatus;
use super::ledger::{RecordsLedger, StreamLedger, WindowLedger};
use super::outbox::LaneKind;
use super::spec::Records;
use super::stream::Stream;

/// The engine's part of the status document. Shape of version 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Rises when state was lost.
    pub epoch: u64,
    /// Of the gateway's clock.
    pub clock: &'static str,
    /// True when all books balance.
    pub balanced: bool,
    /// In the order of the configuration.
    pub streams: Vec<StreamStatus>,
    /// In the order of the configuration.
    pub joins: Vec<JoinStatus>,
    /// Lane by lane, highest first.
    pub outbox: OutboxStatus,
    /// Of the listener's clients; absent without a listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<BrokerStatus>,
    /// Messages on topics of no stream.
    pub unmatched: u64,
    /// Signals of availability for devices that no stream knows.
    pub unknown_devices: u64,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamStatus {
    /// Its name.
    pub name: String,
    /// Devices known, but for those whose state was freed after `state_ttl`.
    pub devices: usize,
    /// What is left of those.
    pub tombstones: usize,
    /// Groups known.
    pub groups: usize,
    /// Windows that hold records.
    pub open_windows: usize,
    /// How far the device that is furthest behind is behind the clock, in
    /// milliseconds; null without any watermark.
    pub lag_max_ms: Option<u64>,
    /// Strategy `adaptive`: the lowest bound that is in force for one of the devices, in
    /// milliseconds; else null.
    pub bound_min_ms: Option<u64>,
    /// The highest.
    pub bound_max_ms: Option<u64>,
    /// The books: `received = rejected + duplicate + future + ignored + accepted`.
    pub ledger: LedgerStatus,
    /// Samples of what was rejected, since the start.
    pub samples: SamplesStatus,
    /// Readings that are passed on: `accepted = open + on_time + early + side_output`;
    /// null where none ever was.
    pub records: Option<RecordsStatus>,
    /// Window by window: `accepted = open + on_time + late_update + side_output +
    /// backfilled + dropped + no_window`.
    pub windows: Vec<WindowStatus>,
}

/// The books of one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerStatus {
    #[expect(missing_docs, reason = "see StreamLedger, as the others")]
    pub received: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub accepted: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub rejected: u64,
    /// Reasons that occurred.
    pub rejected_by: std::collections::BTreeMap<&'static str, u64>,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub duplicate: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub future: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub ignored: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub filtered: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub availability: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub redelivered: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub unprotected: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub fields_left_out: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub fields_not_carried: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub sequence_gaps: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub sequence_restarts: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub sequence_missing: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub historical: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub births_not_kept: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub rebirths_requested: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub idled: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub expired: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub tombstones_evicted: u64,
}

/// Samples of what was rejected, since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SamplesStatus {
    /// Samples taken.
    pub kept: u64,
    /// Rejected messages of which none was taken: there had been enough of the kind.
    pub dropped: u64,
    /// Samples that were taken in again; the books count their records a second time.
    pub replayed: u64,
}

/// The books of the readings that are passed on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordsStatus {
    #[expect(missing_docs, reason = "see RecordsLedger, as the others")]
    pub accepted: u64,
    #[expect(missing_docs, reason = "see RecordsLedger")]
    pub open: u64,
    #[expect(missing_docs, reason = "see RecordsLedger")]
    pub on_time: u64,
    #[expect(missing_docs, reason = "see RecordsLedger")]
    pub early: u64,
    #[expect(missing_docs, reason = "see RecordsLedger")]
    pub side_output: u64,
}

/// The books of one window definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowStatus {
    /// Its name.
    pub name: String,
    #[expect(missing_docs, reason = "see WindowLedger, as the others")]
    pub accepted: u64,
    #[expect(missing_docs, reason = "see WindowLedger")]
    pub open: u64,
    #[expect(missing_docs, reason = "see WindowLedger")]
    pub on_time: u64,
    #[expect(missing_docs, reason = "see WindowLedger")]
    pub late_update: u64,
    #[expect(missing_docs, reason = "see WindowLedger")]
    pub side_output: u64,
    #[expect(missing_docs, reason = "see WindowLedger")]
    pub backfilled: u64,
    #[expect(missing_docs, reason = "see WindowLedger")]
    pub dropped: u64,
    #[expect(missing_docs, reason = "see WindowLedger")]
    pub no_window: u64,
}

/// The outbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboxStatus {
    /// Bytes held, in memory and on disk.
    pub bytes: u64,
    /// The bound.
    pub bytes_max: u64,
    /// Those in memory.
    pub memory_bytes: usize,
    /// Bytes of payload published today (UTC).
    pub bytes_today: u64,
    /// Records that the cloud's broker does not take, kept to be looked at.
    pub dead_letters: usize,
    /// Published and not acknowledged.
    pub batches_in_flight: usize,
    /// Highest lane first.
    pub lanes: Vec<LaneStatus>,
}

/// The books of one lane: `queued = acked + evicted + dead_lettered + held`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneStatus {
    /// Its name.
    pub lane: &'static str,
    #[expect(missing_docs, reason = "see OutboxLedger, as the others")]
    pub queued: u64,
    #[expect(missing_docs, reason = "see OutboxLedger")]
    pub acked: u64,
    #[expect(missing_docs, reason = "see OutboxLedger")]
    pub evicted: u64,
    #[expect(missing_docs, reason = "see OutboxLedger")]
    pub dead_lettered: u64,
    #[expect(missing_docs, reason = "see OutboxLedger")]
    pub held: u64,
    /// Bytes held, in memory and on disk.
    pub bytes: u64,
    /// How long the oldest record has waited, while the agent ran; null: there is none.
    pub oldest_ms: Option<u64>,
}

/// One device of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Nothing was heard of it for the timeout, or ever.
    pub is_idle: bool,
    /// Its own watermark, once it has one.
    pub watermark: Option<EventTime>,
    /// Windows of its own that hold records.
    pub open_windows: usize,
    /// Strategy `adaptive`: the bound that is in force for it.
    pub bound: Option<Span>,
}

/// One device in a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceEntry {
    /// Its id.
    pub device: String,
    /// Nothing was heard of it for the timeout.
    pub idle: bool,
    /// The watermark that its windows go by.
    pub watermark_ms: Option<i64>,
    /// Of its newest reading.
    pub newest_ms: Option<i64>,
    /// Windows of its own that hold records.
    pub open_windows: usize,
}

impl Engine {
    /// What is known of a device; `None` when it is not.
    pub fn device(&self, stream: usize, device: &str) -> Option<DeviceStatus> {
        let stream = self.streams.get(stream)?;
        let slot = stream.devices.find(device)?;
        let device = stream.devices.get(slot);
        Some(DeviceStatus {
            is_idle: device.idle,
            watermark: device.watermark.time(),
            open_windows: device.panes.len(),
            bound: stream.bound_of(slot),
        })
    }

    /// Devices of a stream behind one of them, in the order of their names, at most `limit`; `None`: there is no
    /// such stream.
    pub fn devices_of(&self, stream: &str, after: &str, limit: usize) -> Option<Vec<DeviceEntry>> {
        let stream = self.streams.iter().find(|known| known.spec.name.as_str() == stream)?;
        let mut behind: Vec<_> = stream.devices.devices().map(|slot| (stream.devices.id(slot), slot)).collect();
        behind.retain(|(name, _)| name.as_str() > after);
        if limit < behind.len() {
            behind.select_nth_unstable_by(limit, |(a, _), (b, _)| a.as_str().cmp(b.as_str()));
            behind.truncate(limit);
        }
        behind.sort_unstable_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        let entry = |(name, slot): (DeviceId, u32)| {
            let device = stream.devices.get(slot);
            let watermark = stream.watermark_of(slot).time();
            let newest = device.newest();
            DeviceEntry {
                device: name.as_str().to_owned(),
                idle: device.idle,
                watermark_ms: watermark.map(EventTime::as_millis),
                newest_ms: newest.map(EventTime::as_millis),
                open_windows: device.panes.len(),
            }
        };
        Some(behind.into_iter().map(entry).collect())
    }

    /// The engine's part of the status document.
    pub fn status(&self, now: Now) -> Status {
        let streams: Vec<_> = self.streams.iter().map(|stream| stream_status(stream, now)).collect();
        let lanes: Vec<_> = LaneKind::ALL.into_iter().map(|kind| self.lane_status(kind)).collect();
        Status {
            epoch: self.outbox.epoch(),
            clock: now.quality.as_str(),
            balanced: self.balances(),
            streams,
            joins: self.joins.status(),
            outbox: OutboxStatus {
                bytes: self.outbox.bytes(),
                bytes_max: self.spec.outbox.bytes_max,
                memory_bytes: self.outbox.memory(),
                bytes_today: self.outbox.spent_today(now),
                dead_letters: self.outbox.dead_letters().count(),
                batches_in_flight: self.outbox.in_flight(),
                lanes,
            },
            broker: self.broker.as_ref().map(Broker::status),
            unmatched: self.unmatched,
            unknown_devices: self.unknown_devices,
        }
    }

    /// Records that arrived, of all streams.
    pub fn readings(&self) -> u64 {
        self.streams.iter().map(|stream| stream.ledger.received).sum()
    }

    /// True when every record is in exactly one place, and every row too.
    pub fn balances(&self) -> bool {
        let streams = self.streams.iter().all(|stream| {
            stream.ledger.balances()
                && stream.records.balances()
                && stream.windows.iter().all(WindowLedger::balances)
                && stream.open_is_real()
        });
        streams
            && self.joins.balances()
            && LaneKind::ALL.into_iter().all(|kind| {
                let lane = self.lane_status(kind);
                lane.queued == lane.acked + lane.evicted + lane.dead_lettered + lane.held
            })
    }

    fn lane_status(&self, kind: LaneKind) -> LaneStatus {
        let ledger = self.outbox.ledger(kind);
        LaneStatus {
            lane: kind.as_str(),
            queued: ledger.queued,
            acked: ledger.acked,
            evicted: ledger.evicted,
            dead_lettered: ledger.dead_lettered,
            held: self.outbox.held_records(kind),
            bytes: self.outbox.lane_bytes(kind),
            oldest_ms: self.outbox.oldest_ms(kind),
        }
    }
}

impl Stream {
    /// The ledger's `open` is what the panes really hold.
    fn open_is_real(&self) -> bool {
        let held = self.records.open == self.ordered.len() as u64;
        held && (0_u8..).zip(&self.windows).all(|(window, books)| {
            let panes = self.devices.slots().flat_map(|(_, _, device)| &device.panes);
            books.open == panes.filter(|pane| pane.window == window).map(|pane| pane.unsettled).sum::<u64>()
        })
    }
}

fn stream_status(stream: &Stream, now: Now) -> StreamStatus {
    let behind = stream.devices.devices().filter_map(|slot| {
        let watermark = stream.watermark_of(slot).time()?;
        Some(watermark.lag_behind(now.wall.as_event_time()))
    });
    let bounds = || stream.devices.devices().filter_map(|slot| stream.bound_of(slot));
    let windows = books_by_name(stream).into_iter().map(|(name, books)| WindowStatus {
        name: name.to_owned(),
        accepted: books.accepted,
        open: books.open,
        on_time: books.on_time,
        late_update: books.late_update,
        side_output: books.side_output,
        backfilled: books.backfilled,
        dropped: books.dropped,
        no_window: books.no_window,
    });
    StreamStatus {
        name: stream.spec.name.as_str().to_owned(),
        devices: stream.devices.device_count(),
        tombstones: stream.tombstones.len(),
        groups: stream.devices.group_count(),
        open_windows: stream.open_panes,
        lag_max_ms: behind.max().map(Span::as_millis),
        bound_min_ms: bounds().min().map(Span::as_millis),
        bound_max_ms: bounds().max().map(Span::as_millis),
        ledger: ledger_status(&stream.ledger),
        samples: stream.sampling.status(),
        records: records_status(stream),
        windows: windows.collect(),
    }
}

/// Those of a definition that finishes are those of its name.
fn books_by_name(stream: &Stream) -> Vec<(&str, WindowLedger)> {
    let mut all: Vec<(&str, WindowLedger)> = Vec::with_capacity(stream.windows.len());
    for (spec, books) in stream.spec.windows.iter().zip(&stream.windows) {
        match all.iter_mut().find(|(name, _)| *name == spec.name.as_str()) {
            Some((_, sum)) => sum.add(books),
            None => all.push((spec.name.as_str(), *books)),
        }
    }
    all
}

fn records_status(stream: &Stream) -> Option<RecordsStatus> {
    if stream.spec.records == Records::Off && stream.records == RecordsLedger::default() {
        return None;
    }
    let RecordsLedger { accepted, open, on_time, early, side_output } = stream.records;
    Some(RecordsStatus { accepted, open, on_time, early, side_output })
}

fn ledger_status(ledger: &StreamLedger) -> LedgerStatus {
    let by_reason = RejectReason::ALL.iter().map(|reason| (reason.as_str(), ledger.rejected[*reason as usize]));
    LedgerStatus {
        received: ledger.received,
        accepted: ledger.accepted,
        rejected: ledger.rejected_total(),
        rejected_by: by_reason.filter(|(_, count)| *count > 0).collect(),
        duplicate: ledger.duplicate,
        future: ledger.future,
        ignored: ledger.ignored,
        filtered: ledger.filtered,
        availability: ledger.availability,
        redelivered: ledger.redelivered,
        unprotected: ledger.unprotected,
        fields_left_out: ledger.fields_left_out,
        fields_not_carried: ledger.fields_not_carried,
        sequence_gaps: ledger.sequence_gaps,
        sequence_restarts: ledger.sequence_restarts,
        sequence_missing: ledger.sequence_missing,
        historical: ledger.historical,
        births_not_kept: ledger.births_not_kept,
        rebirths_requested: ledger.rebirths_requested,
        idled: ledger.idled,
        expired: ledger.expired,
        tombstones_evicted: ledger.tombstones_evicted,
    }
}
