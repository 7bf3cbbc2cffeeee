//! The uplink contract, once, for every encoding: what an envelope and its
//! records look like; one file per kind of row. Borrowed from the stored rows; nothing is copied but ids.
//!
//! Times are integer milliseconds, named `_ms`. A whole number is written as an
//! integer. A missing result is null.

mod join;
mod late;
mod notice;
mod pane;
mod reading;

use core::fmt;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::engine::outbox::row::{PaneKind, Row};
use crate::model::ids::push_escaped;
use crate::model::record::TimeSource;
use crate::model::time::EventTime;

use self::join::{JoinView, PairView};

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
            Row::Pane(row, values) if row.pane == PaneKind::Delta => self.delta(row, *values).serialize(serializer),
            Row::Pane(row, values) => self.pane(row, *values).serialize(serializer),
            Row::Late(row, values) => self.late(row, *values).serialize(serializer),
            Row::Gap(row, items) => self.gap(*row, *items).serialize(serializer),
            Row::Alarm(row) => self.alarm(*row).serialize(serializer),
            Row::Join(row, sides) => JoinView::new(self.gateway, self.seq, row, *sides).serialize(serializer),
            Row::Pair(row) => PairView::new(self.gateway, self.seq, row).serialize(serializer),
            Row::Record(row, values) => self.reading(row, *values).serialize(serializer),
        }
    }
}

impl<'a> RecordView<'a> {
    fn id(&self, parts: [&'a str; 3], time: EventTime) -> Id<'a> {
        Id { gateway: self.gateway, parts, time }
    }
}

/// `gateway/stream/window/key/time`, each part percent-encoded.
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

fn source_word(source: TimeSource) -> &'static str {
    match source {
        TimeSource::Device => "device",
        TimeSource::Receive => "receive",
    }
}
