//! Records about the agent itself: gaps and alarms.

use serde::Serialize;

use super::{Id, RecordView};
use crate::engine::outbox::row::{AlarmRow, GapItems, GapRow};

#[derive(Serialize)]
pub(super) struct GapView<'a> {
    kind: &'static str,
    id: Id<'a>,
    seq: u64,
    first_seq: u64,
    count: u64,
    start_ms: i64,
    end_ms: i64,
    reason: &'static str,
    lost: Vec<LostView<'a>>,
}

#[derive(Serialize)]
struct LostView<'a> {
    stream: &'a str,
    key: &'a str,
    count: u64,
    start_ms: i64,
    end_ms: i64,
}

#[derive(Serialize)]
pub(super) struct AlarmView<'a> {
    kind: &'static str,
    id: Id<'a>,
    seq: u64,
    at_ms: i64,
    code: &'a str,
    text: &'a str,
}

impl<'a> RecordView<'a> {
    pub(super) fn gap(&self, row: GapRow, items: GapItems<'a>) -> GapView<'a> {
        let lost = items.iter().map(|item| LostView {
            stream: item.stream,
            key: item.key,
            count: item.records,
            start_ms: item.oldest.as_millis(),
            end_ms: item.newest.as_millis(),
        });
        GapView {
            kind: "gap",
            id: self.id(["gap", "", ""], row.oldest),
            seq: self.seq,
            first_seq: row.first_seq,
            count: row.records,
            start_ms: row.oldest.as_millis(),
            end_ms: row.newest.as_millis(),
            reason: row.reason.as_str(),
            lost: lost.collect(),
        }
    }

    pub(super) fn alarm(&self, row: AlarmRow<'a>) -> AlarmView<'a> {
        AlarmView {
            kind: "alarm",
            id: self.id(["alarm", row.code, ""], row.at.as_event_time()),
            seq: self.seq,
            at_ms: row.at.as_millis(),
            code: row.code,
            text: row.text,
        }
    }
}
