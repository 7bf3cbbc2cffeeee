//! A raw record that no window took.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Id, RecordView, source_word};
use crate::engine::number::Number;
use crate::engine::outbox::row::{LateRow, RawValue, RawValues};

#[derive(Serialize)]
pub(super) struct LateView<'a> {
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

impl<'a> RecordView<'a> {
    pub(super) fn late(&self, row: &LateRow<'a>, values: RawValues<'a>) -> LateView<'a> {
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
}

pub(super) struct RawResults<'a>(pub RawValues<'a>);

impl Serialize for RawResults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0.fields() {
            match value {
                RawValue::Number(value) => map.serialize_entry(name, &Number(value))?,
                RawValue::State(text) => map.serialize_entry(name, text)?,
            }
        }
        map.end()
    }
}
