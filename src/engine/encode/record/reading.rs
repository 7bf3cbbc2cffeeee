//! Readings that are passed on as they are.

use serde::Serialize;

use super::late::RawResults;
use super::{Id, RecordView, source_word};
use crate::engine::outbox::row::{RawValues, RecordRow};

#[derive(Serialize)]
pub(super) struct ReadingView<'a> {
    kind: &'static str,
    id: Id<'a>,
    seq: u64,
    stream: &'a str,
    key: &'a str,
    event_ms: i64,
    received_ms: i64,
    values: RawResults<'a>,
    time_source: &'static str,
    time_quality: &'static str,
    early: bool,
}

impl<'a> RecordView<'a> {
    /// The id names what it is about, as for late records: readings of one device and
    /// millisecond share it.
    pub(super) fn reading(&self, row: &RecordRow<'a>, values: RawValues<'a>) -> ReadingView<'a> {
        ReadingView {
            kind: "record",
            id: self.id([row.stream, "", row.key], row.event),
            seq: self.seq,
            stream: row.stream,
            key: row.key,
            event_ms: row.event.as_millis(),
            received_ms: row.received.as_millis(),
            values: RawResults(values),
            time_source: source_word(row.source),
            time_quality: row.quality.as_str(),
            early: row.early,
        }
    }
}
