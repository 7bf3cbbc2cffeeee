//! One emission of one window.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Id, RecordView, source_word};
use crate::engine::aggregate::Accumulator;
use crate::engine::number::Number;
use crate::engine::outbox::row::{FieldResults, PaneRow, PaneValues, StoredNumbers, StoredValue};
use crate::model::time::EventTime;

#[derive(Serialize)]
pub(super) struct PaneView<'a> {
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
    /// Only there when it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    approx: Option<Approximate<'a>>,
    /// Only where late records are added to results.
    #[serde(skip_serializing_if = "Option::is_none")]
    accumulators: Option<Mergeable<'a>>,
}

#[derive(Serialize)]
pub(super) struct DeltaView<'a> {
    kind: &'static str,
    id: Id<'a>,
    seq: u64,
    stream: &'a str,
    window: &'a str,
    key: &'a str,
    start_ms: i64,
    end_ms: i64,
    watermark_ms: Option<i64>,
    count: u64,
    values: PaneResults<'a>,
    time_source: &'static str,
    time_quality: &'static str,
    partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    approx: Option<Approximate<'a>>,
    accumulators: Mergeable<'a>,
}

impl<'a> RecordView<'a> {
    pub(super) fn pane(&self, row: &PaneRow<'a>, values: PaneValues<'a>) -> PaneView<'a> {
        PaneView {
            kind: "pane",
            id: self.id([row.stream, row.window, row.key], row.opened),
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
            approx: values.is_approximate().then_some(Approximate(values)),
            replaces: Replaced { values, id: self.id([row.stream, row.window, row.key], row.opened) },
            accumulators: values.is_mergeable().then_some(Mergeable(values)),
        }
    }

    pub(super) fn delta(&self, row: &PaneRow<'a>, values: PaneValues<'a>) -> DeltaView<'a> {
        DeltaView {
            kind: "delta",
            id: self.id([row.stream, row.window, row.key], row.opened),
            seq: self.seq,
            stream: row.stream,
            window: row.window,
            key: row.key,
            start_ms: row.start.as_millis(),
            end_ms: row.end.as_millis(),
            watermark_ms: row.watermark.map(EventTime::as_millis),
            count: row.count,
            values: PaneResults(values),
            time_source: source_word(row.source),
            time_quality: row.quality.as_str(),
            partial: row.partial,
            approx: values.is_approximate().then_some(Approximate(values)),
            accumulators: Mergeable(values),
        }
    }
}

/// Field to aggregate to published accumulator.
struct Mergeable<'a>(PaneValues<'a>);

impl Serialize for Mergeable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, accumulators) in self.0.accumulators() {
            map.serialize_entry(name, &Accumulators(accumulators))?;
        }
        map.end()
    }
}

struct Accumulators(Vec<Accumulator>);

impl Serialize for Accumulators {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|known| (known.kind().as_str(), known.publish())))
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
            match result.value {
                // Those that are absent are not among them.
                StoredValue::Absent | StoredValue::None => map.serialize_entry(kind.as_str(), &())?,
                StoredValue::Number(value) => map.serialize_entry(kind.as_str(), &Number(value))?,
                StoredValue::Labelled(numbers) => map.serialize_entry(kind.as_str(), &Labelled(numbers))?,
            }
        }
        map.end()
    }
}

struct Labelled<'a>(StoredNumbers<'a>);

impl Serialize for Labelled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (label, value) in self.0.numbers() {
            map.serialize_entry(label, &Number(value))?;
        }
        map.end()
    }
}

/// Field to the aggregates whose results are approximate.
struct Approximate<'a>(PaneValues<'a>);

impl Serialize for Approximate<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of_field = |results: FieldResults<'_>| -> Vec<&str> {
            results.filter(|(_, result)| result.approximate).map(|(kind, _)| kind.as_str()).collect()
        };
        let fields = self.0.fields().map(|(name, results)| (name, of_field(results)));
        let fields: Vec<_> = fields.filter(|(_, words)| !words.is_empty()).collect();
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, words) in fields {
            map.serialize_entry(name, &words)?;
        }
        map.end()
    }
}
