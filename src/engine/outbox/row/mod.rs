//! The stored form of one outbox record: self-contained and compact. Names are
//! stored with the row, so that a record outlives the configuration that made it.
//!
//! ```text
//! pane: 0 | stream | window | key | start | size | opened after | pane kind | flags | revision |
//!       watermark? | count | replaced n, times | aggregates n, tags | fields n, (name, n × result) |
//!       0, or 1 and n × n accumulators
//! late: 1 | stream | window | key | event | received | reason | flags | lag |
//!       fields n, (name, f64) | states n, (name, text)
//! gap:  2 | reason | first seq | records | oldest ms | newest ms |
//!       items n, (stream, key, records, oldest ms, newest ms)
//! alarm:3 | at | code | text
//! join: 4 | join | key | start | size | join pane | flags | revision | watermark? | sides n,
//!       (stream, 0 | 1 pane row)
//! pair: 5 | join | key | left at | right at | flags | left stream, values | right stream, values
//! record:6 | flags | stream | key | event | received | fields n, (name, f64) | states n, (name, text)
//! ```
//!
//! The JSON and CBOR forms are made from it when a batch is published.

mod join;
mod late;
mod notice;
mod pane;
mod record;
mod results;

use crate::engine::wire::{Damaged, Reader};
use crate::model::record::TimeSource;
use crate::model::time::{ClockQuality, EventTime, WallTime};

pub use join::{JoinPane, JoinRow, JoinSides, PairRow, write_join, write_pair};
pub use late::{LateReason, LateRow, RawValue, RawValues, check_values, write_late, write_values};
pub use notice::{AlarmRow, GapItem, GapItems, GapReason, GapRow, write_alarm, write_gap};
pub use pane::{PaneKind, PaneRow, PaneValues, write_accumulators, write_pane};
pub(in crate::engine) use record::mark_early;
pub use record::{RecordRow, write_record};
pub use results::{FieldResults, StoredNumbers, StoredResult, StoredValue};

/// Any row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row<'a> {
    /// See [`PaneRow`].
    Pane(PaneRow<'a>, PaneValues<'a>),
    /// See [`LateRow`].
    Late(LateRow<'a>, RawValues<'a>),
    /// See [`GapRow`].
    Gap(GapRow, GapItems<'a>),
    /// See [`AlarmRow`].
    Alarm(AlarmRow<'a>),
    /// See [`JoinRow`].
    Join(JoinRow<'a>, JoinSides<'a>),
    /// See [`PairRow`].
    Pair(PairRow<'a>),
    /// See [`RecordRow`].
    Record(RecordRow<'a>, RawValues<'a>),
}

const TAG_PANE: u8 = 0;
const TAG_LATE: u8 = 1;
const TAG_GAP: u8 = 2;
const TAG_ALARM: u8 = 3;
const TAG_JOIN: u8 = 4;
const TAG_PAIR: u8 = 5;
const TAG_RECORD: u8 = 6;

const FLAG_RECEIVE_TIME: u8 = 1;
const FLAG_PARTIAL: u8 = 2;
const FLAG_UNSYNCED: u8 = 4;
const FLAG_SUSPECT: u8 = 8;
const FLAG_APPROXIMATE: u8 = 16;
const FLAG_EARLY: u8 = 32;

/// Reads any row.
///
/// # Errors
/// [`Damaged`] when the bytes are not a whole row.
pub fn read(bytes: &[u8]) -> Result<Row<'_>, Damaged> {
    let mut reader = Reader::new(bytes);
    let row = match reader.u8()? {
        TAG_PANE => pane::read_pane(&mut reader)?,
        TAG_LATE => late::read_late(&mut reader)?,
        TAG_GAP => notice::read_gap(&mut reader)?,
        TAG_ALARM => {
            Row::Alarm(AlarmRow { at: WallTime::from_millis(reader.i64()?), code: reader.str()?, text: reader.str()? })
        }
        TAG_JOIN => join::read_join(&mut reader)?,
        TAG_PAIR => join::read_pair(&mut reader)?,
        TAG_RECORD => record::read_record(&mut reader)?,
        _ => return Err(Damaged),
    };
    Ok(row)
}

impl Row<'_> {
    /// The time that the row is about: a window's start, an event time.
    pub fn time(&self) -> EventTime {
        match self {
            Row::Pane(row, _) => row.start,
            Row::Late(row, _) => row.event,
            Row::Gap(row, _) => row.oldest,
            Row::Alarm(row) => row.at.as_event_time(),
            Row::Join(row, _) => row.start,
            Row::Pair(row) => row.event(),
            Row::Record(row, _) => row.event,
        }
    }
}

impl<'a> Row<'a> {
    /// Whom the row is about: stream, or join, and device, or key. Empty for rows about
    /// the agent.
    pub fn subject(&self) -> (&'a str, &'a str) {
        match self {
            Row::Pane(row, _) => (row.stream, row.key),
            Row::Late(row, _) => (row.stream, row.key),
            Row::Join(row, _) => (row.join, row.key),
            Row::Pair(row) => (row.join, row.key),
            Row::Record(row, _) => (row.stream, row.key),
            Row::Gap(..) | Row::Alarm(_) => ("", ""),
        }
    }
}

fn flags(source: TimeSource, quality: ClockQuality, partial: bool) -> u8 {
    let source = match source {
        TimeSource::Device => 0,
        TimeSource::Receive => FLAG_RECEIVE_TIME,
    };
    let quality = match quality {
        ClockQuality::Synced => 0,
        ClockQuality::Unsynced => FLAG_UNSYNCED,
        ClockQuality::Suspect => FLAG_SUSPECT,
    };
    source | quality | if partial { FLAG_PARTIAL } else { 0 }
}

fn source_of(flags: u8) -> TimeSource {
    if flags & FLAG_RECEIVE_TIME == 0 { TimeSource::Device } else { TimeSource::Receive }
}

fn quality_of(flags: u8) -> ClockQuality {
    if flags & FLAG_UNSYNCED != 0 {
        ClockQuality::Unsynced
    } else if flags & FLAG_SUSPECT != 0 {
        ClockQuality::Suspect
    } else {
        ClockQuality::Synced
    }
}
