//! The uplink contract, once, for every encoding: what an envelope and its
//! records look like. Borrowed from the stored rows; nothing is copied but ids.
//!
//! Times are integer milliseconds, named `_ms`. A whole number is written as an
//! integer. A missing result is null.

use core::fmt;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::engine::outbox::row::{AlarmRow, FieldResults, GapRow, LateRow, PaneRow, PaneValues, RawValues, Row};
use crate::model::ids::push_escaped;
use crate::model::record::TimeSource;
use crate::model::time::EventTime;

use super::join::{JoinView, PairView};

/// Whole numbers up to 2^53 are exact as floats.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// One message.
#[derive(Serialize)]
pub(super) struct EnvelopeView<'a, R: Serialize> {
    pub v: u32,
    pub gw: &'a str,
    pub epoch: u64,
    pub lane: &'static str,
    pub records: R,
}

/// The records of one message, with their sequence numbers; read from the outbox
/// as they are written.
pub(super) struct Records<'a, I> {
    pub gateway: &'a str,
    pub rows: I,
}

impl<'r, I: ExactSizeIterator<Item = (u64, Row<'r>)> + Clone> Serialize for Records<'_, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.clone();
        let mut list = serializer.serialize_seq(Some(rows.len()))?;
        for (seq, row) in rows {
            list.serialize_element(&RecordView { gateway: self.gateway, seq, row: &row })?;
        }
        list.end()
    }
}

/// One record.
pub(super) struct RecordView<'a> {
    pub gateway: &'a str,
    pub seq: u64,
    pub row: &'a Row<'a>,
}

impl Serialize for RecordView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.row {
            Row::Pane(row, values) => self.pane(row, *values).serialize(serializer),
            Row::Late(row, values) => self.late(row, *values).serialize(serializer),
            Row::Gap(row) => self.gap(*row).serialize(serializer),
            Row::Alarm(row) => self.alarm(*row).serialize(serializer),
            Row::Join(row, sides) => JoinView::new(self.gateway, self.seq, row, *sides).serialize(serializer),
            Row::Pair(row) => PairView::new(self.gateway, self.seq, row).serialize(serializer),
        }
    }
}

#[derive(Serialize)]
struct PaneView<'a> {
    kind: &'static str,
    id: Id<'a>,
    rev: u32,
    seq: u64,
    stream: &'a str,
    window: &'a str,
    key: &'a str,
    start_ms: i64,
    end_ms: i64,
    pane: &'static str,
    watermark_ms: Option<i64>,
    count: u64,
    values: PaneResults<'a>,
    time_source: &'static str,
    time_quality: &'static str,
    partial: bool,
    replaces: Replaced<'a>,
}

#[derive(Serialize)]
struct LateView<'a> {
    kind: &'static str,
    id: Id<'a>,
    seq: u64,
    stream: &'a str,
    window: &'a str,
    key: &'a str,
    event_ms: i64,
    received_ms: i64,
    reason: &'static str,
    lag_ms: u64,
    values: RawResults<'a>,
    time_source: &'static str,
    time_quality: &'static str,
}

#[derive(Serialize)]
struct GapView<'a> {
    kind: &'static str,
    id: Id<'a>,
    seq: u64,
    first_seq: u64,
    count: u64,
    start_ms: i64,
    end_ms: i64,
    reason: &'static str,
}

#[derive(Serialize)]
struct AlarmView<'a> {
    kind: &'static str,
    id: Id<'a>,
    seq: u64,
    at_ms: i64,
    code: &'a str,
    text: &'a str,
}

impl<'a> RecordView<'a> {
    fn pane(&self, row: &PaneRow<'a>, values: PaneValues<'a>) -> PaneView<'a> {
        PaneView {
            kind: "pane",
            id: self.id([row.stream, row.window, row.key], row.start),
            rev: row.revision,
            seq: self.seq,
            stream: row.stream,
            window: row.window,
            key: row.key,
            start_ms: row.start.as_millis(),
            end_ms: row.end.as_millis(),
            pane: row.pane.as_str(),
            watermark_ms: row.watermark.map(EventTime::as_millis),
            count: row.count,
            values: PaneResults(values),
            time_source: source_word(row.source),
            time_quality: row.quality.as_str(),
            partial: row.partial,
            replaces: Replaced { values, id: self.id([row.stream, row.window, row.key], row.start) },
        }
    }

    fn late(&self, row: &LateRow<'a>, values: RawValues<'a>) -> LateView<'a> {
        LateView {
            kind: "late",
            id: self.id([row.stream, row.window, row.key], row.event),
            seq: self.seq,
            stream: row.stream,
            window: row.window,
            key: row.key,
            event_ms: row.event.as_millis(),
            received_ms: row.received.as_millis(),
            reason: row.reason.as_str(),
            lag_ms: row.lag.as_millis(),
            values: RawResults(values),
            time_source: source_word(row.source),
            time_quality: row.quality.as_str(),
        }
    }

    fn gap(&self, row: GapRow) -> GapView<'a> {
        GapView {
            kind: "gap",
            id: self.id(["gap", "", ""], row.oldest),
            seq: self.seq,
            first_seq: row.first_seq,
            count: row.records,
            start_ms: row.oldest.as_millis(),
            end_ms: row.newest.as_millis(),
            reason: "evicted",
        }
    }

    fn alarm(&self, row: AlarmRow<'a>) -> AlarmView<'a> {
        AlarmView {
            kind: "alarm",
            id: self.id(["alarm", row.code, ""], row.at.as_event_time()),
            seq: self.seq,
            at_ms: row.at.as_millis(),
            code: row.code,
            text: row.text,
        }
    }

    fn id(&self, parts: [&'a str; 3], time: EventTime) -> Id<'a> {
        Id { gateway: self.gateway, parts, time }
    }
}

/// `gateway/stream/window/key/start_ms`, each part percent-encoded.
#[derive(Clone, Copy)]
struct Id<'a> {
    gateway: &'a str,
    parts: [&'a str; 3],
    time: EventTime,
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        push_escaped(f, self.gateway)?;
        for part in self.parts {
            f.write_str("/")?;
            push_escaped(f, part)?;
        }
        write!(f, "/{}", self.time.as_millis())
    }
}

impl Serialize for Id<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Ids of the sessions that a merged one has taken in.
struct Replaced<'a> {
    values: PaneValues<'a>,
    id: Id<'a>,
}

impl Serialize for Replaced<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.values.replaces().map(|time| Id { time, ..self.id }))
    }
}

pub(super) struct PaneResults<'a>(pub PaneValues<'a>);

impl Serialize for PaneResults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, results) in self.0.fields() {
            map.serialize_entry(name, &Results(results))?;
        }
        map.end()
    }
}

struct Results<'a>(FieldResults<'a>);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (kind, result) in self.0.clone() {
            map.serialize_entry(kind.as_str(), &result.map(Number))?;
        }
        map.end()
    }
}

pub(super) struct RawResults<'a>(pub RawValues<'a>);

impl Serialize for RawResults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0.fields() {
            map.serialize_entry(name, &Number(value))?;
        }
        map.end()
    }
}

struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let negative_zero = self.0 == 0.0 && self.0.is_sign_negative();
        if self.0.fract() == 0.0 && self.0.abs() < WHOLE_MAX && !negative_zero {
            #[expect(clippy::cast_possible_truncation, reason = "whole, and within the range of i64")]
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}

pub(super) fn source_word(source: TimeSource) -> &'static str {
    match source {
        TimeSource::Device => "device",
        TimeSource::Receive => "receive",
    }
}
