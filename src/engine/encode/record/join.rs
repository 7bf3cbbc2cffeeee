//! Records of kind `join`: windows of several streams side by side, with a
//! revision; and pairs of records, without.

use core::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::engine::outbox::row::{JoinRow, JoinSides, PairRow};
use crate::model::ids::push_escaped;
use crate::model::time::EventTime;

use super::late::RawResults;
use super::pane::PaneResults;
use super::source_word;

#[derive(Serialize)]
pub(super) struct JoinView<'a> {
    kind: &'static str,
    id: WindowId<'a>,
    rev: u32,
    seq: u64,
    join: &'a str,
    key: &'a str,
    start_ms: i64,
    end_ms: i64,
    pane: &'static str,
    watermark_ms: Option<i64>,
    count: u64,
    values: SideResults<'a>,
    missing: Missing<'a>,
    time_source: &'static str,
    time_quality: &'static str,
    partial: bool,
}

#[derive(Serialize)]
pub(super) struct PairView<'a> {
    kind: &'static str,
    id: PairId<'a>,
    seq: u64,
    join: &'a str,
    key: &'a str,
    event_ms: i64,
    left_ms: i64,
    right_ms: i64,
    values: PairResults<'a>,
    time_source: &'static str,
    time_quality: &'static str,
}

impl<'a> JoinView<'a> {
    pub(super) fn new(gateway: &'a str, seq: u64, row: &JoinRow<'a>, sides: JoinSides<'a>) -> JoinView<'a> {
        JoinView {
            kind: "join",
            id: WindowId(gateway, row.join, row.key, row.start),
            rev: row.revision,
            seq,
            join: row.join,
            key: row.key,
            start_ms: row.start.as_millis(),
            end_ms: row.end.as_millis(),
            pane: row.pane.as_str(),
            watermark_ms: row.watermark.map(EventTime::as_millis),
            count: sides.iter().filter_map(|(_, pane)| Some(pane?.0.count)).sum(),
            values: SideResults(sides),
            missing: Missing(sides),
            time_source: source_word(row.source),
            time_quality: row.quality.as_str(),
            partial: row.partial,
        }
    }
}

impl<'a> PairView<'a> {
    pub(super) fn new(gateway: &'a str, seq: u64, row: &PairRow<'a>) -> PairView<'a> {
        PairView {
            kind: "join",
            id: PairId(gateway, row.join, row.key, row.left, row.right),
            seq,
            join: row.join,
            key: row.key,
            event_ms: row.event().as_millis(),
            left_ms: row.left.as_millis(),
            right_ms: row.right.as_millis(),
            values: PairResults(*row),
            time_source: source_word(row.source),
            time_quality: row.quality.as_str(),
        }
    }
}

/// `gateway/join/NAME/key/start_ms`, each part percent-encoded.
struct WindowId<'a>(&'a str, &'a str, &'a str, EventTime);

/// `gateway/join/NAME/key/left_ms-right_ms`; several pairs may share it.
struct PairId<'a>(&'a str, &'a str, &'a str, EventTime, EventTime);

fn push_parts(f: &mut fmt::Formatter<'_>, gateway: &str, join: &str, key: &str) -> fmt::Result {
    push_escaped(f, gateway)?;
    f.write_str("/join/")?;
    push_escaped(f, join)?;
    f.write_str("/")?;
    push_escaped(f, key)
}

impl fmt::Display for WindowId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        push_parts(f, self.0, self.1, self.2)?;
        write!(f, "/{}", self.3.as_millis())
    }
}

impl fmt::Display for PairId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        push_parts(f, self.0, self.1, self.2)?;
        write!(f, "/{}-{}", self.3.as_millis(), self.4.as_millis())
    }
}

impl Serialize for WindowId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for PairId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// stream → field → aggregate → number; a side without a pane is not there.
struct SideResults<'a>(JoinSides<'a>);

impl Serialize for SideResults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // CBOR maps are written with their length in front.
        let present = self.0.iter().filter(|(_, pane)| pane.is_some()).count();
        let mut map = serializer.serialize_map(Some(present))?;
        for (stream, pane) in self.0.iter() {
            if let Some((_, values)) = pane {
                map.serialize_entry(stream, &PaneResults(values))?;
            }
        }
        map.end()
    }
}

/// The sides that have no pane.
struct Missing<'a>(JoinSides<'a>);

impl Serialize for Missing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let missing: Vec<&str> = self.0.iter().filter(|(_, pane)| pane.is_none()).map(|(stream, _)| stream).collect();
        serializer.collect_seq(missing)
    }
}

/// stream → field → number.
struct PairResults<'a>(PairRow<'a>);

impl Serialize for PairResults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.sides.map(|(stream, values)| (stream, RawResults(values))))
    }
}
