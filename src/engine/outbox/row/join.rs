//! Rows of joins: results of several streams side by side, and pairs of records.
//!
//! A side of a [`JoinRow`] is the whole row of the pane that it came from, as that
//! was queued: its layout is `pane.rs`'s business alone.

use super::pane::read_pane;
use super::{
    FLAG_PARTIAL, PaneRow, PaneValues, RawValues, Row, TAG_JOIN, TAG_PAIR, TAG_PANE, flags, quality_of, source_of,
};
use crate::engine::wire::{Damaged, Reader, put_bytes, put_i64, put_str, put_time, put_u64};
use crate::model::record::TimeSource;
use crate::model::time::{ClockQuality, EventTime, Span};

/// Why a joined row was emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinPane {
    /// The watermarks of all sides have passed the end of the window.
    OnTime,
    /// A side has changed after that, within its allowed lateness.
    Late,
    /// Not by the watermarks: a side was waited for long enough, the row had to make
    /// room, or its join was configured anew.
    Timeout,
}

/// One emission of one window of a join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinRow<'a> {
    /// Join.
    pub join: &'a str,
    /// Key of its windows.
    pub key: &'a str,
    /// First time of the window.
    pub start: EventTime,
    /// First time after it.
    pub end: EventTime,
    /// Why now.
    pub pane: JoinPane,
    /// Counts the emissions of this window.
    pub revision: u32,
    /// The lowest watermark of the sides at that moment; none when it did not decide.
    pub watermark: Option<EventTime>,
    /// A record in it has no time of its own.
    pub source: TimeSource,
    /// Of the gateway's clock at that moment.
    pub quality: ClockQuality,
    /// Records may be missing.
    pub partial: bool,
}

/// The sides of a joined row, still in stored form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinSides<'a> {
    count: u64,
    bytes: &'a [u8],
}

/// Two records of an interval join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRow<'a> {
    /// Join.
    pub join: &'a str,
    /// Device or group.
    pub key: &'a str,
    /// Event time of the left record.
    pub left: EventTime,
    /// Event time of the right one.
    pub right: EventTime,
    /// One of them has no time of its own.
    pub source: TimeSource,
    /// Of the gateway's clock at that moment.
    pub quality: ClockQuality,
    /// Stream and values of the left record, then of the right one.
    pub sides: [(&'a str, RawValues<'a>); 2],
}

/// Appends a joined row. `sides`: each stream with the row of its pane, if it has one.
pub fn write_join<'s>(
    out: &mut Vec<u8>,
    row: &JoinRow<'_>,
    sides: impl ExactSizeIterator<Item = (&'s str, Option<&'s [u8]>)>,
) {
    out.push(TAG_JOIN);
    put_str(out, row.join);
    put_str(out, row.key);
    put_i64(out, row.start.as_millis());
    put_u64(out, row.start.lag_behind(row.end).as_millis());
    out.push(row.pane as u8);
    out.push(flags(row.source, row.quality, row.partial));
    put_u64(out, u64::from(row.revision));
    put_time(out, row.watermark);
    put_u64(out, sides.len() as u64);
    for (stream, pane) in sides {
        put_str(out, stream);
        match pane {
            None => out.push(0),
            Some(pane) => {
                out.push(1);
                put_bytes(out, pane);
            }
        }
    }
}

/// Reads what follows the tag.
pub(super) fn read_join<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let (join, key) = (reader.str()?, reader.str()?);
    let start = EventTime::from_millis(reader.i64()?);
    let end = start + Span::from_millis(reader.u64()?);
    let pane = *JoinPane::ALL.get(usize::from(reader.u8()?)).ok_or(Damaged)?;
    let flags = reader.u8()?;
    let (source, quality, partial) = (source_of(flags), quality_of(flags), flags & FLAG_PARTIAL != 0);
    let (revision, watermark) = (reader.uint()?, reader.time()?);
    let row = JoinRow { join, key, start, end, pane, revision, watermark, source, quality, partial };
    let sides = JoinSides { count: reader.u64()?, bytes: reader.rest() };
    // Walk once, so that holding the row is the proof that it can be read.
    for _ in 0..sides.count {
        read_side(reader)?;
    }
    Ok(Row::Join(row, sides))
}

type Side<'a> = (&'a str, Option<(PaneRow<'a>, PaneValues<'a>)>);

fn read_side<'a>(reader: &mut Reader<'a>) -> Result<Side<'a>, Damaged> {
    let stream = reader.str()?;
    match reader.u8()? {
        0 => Ok((stream, None)),
        1 => {
            let mut pane = Reader::new(reader.bytes()?);
            // Nothing but a pane: a row in a row in a row would have no end.
            if pane.u8()? != TAG_PANE {
                return Err(Damaged);
            }
            let Row::Pane(row, values) = read_pane(&mut pane)? else { return Err(Damaged) };
            Ok((stream, Some((row, values))))
        }
        _ => Err(Damaged),
    }
}

impl<'a> JoinSides<'a> {
    /// Each stream, in the order of the configuration, with what it has.
    pub fn iter(self) -> impl Iterator<Item = Side<'a>> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| read_side(&mut reader).ok())
    }
}

/// Appends a pair. `sides`: stream and values, as `write_values` wrote them.
pub fn write_pair(
    out: &mut Vec<u8>,
    (join, key): (&str, &str),
    [left, right]: [EventTime; 2],
    (source, quality): (TimeSource, ClockQuality),
    sides: [(&str, &[u8]); 2],
) {
    out.push(TAG_PAIR);
    put_str(out, join);
    put_str(out, key);
    put_i64(out, left.as_millis());
    put_i64(out, right.as_millis());
    out.push(flags(source, quality, false));
    for (stream, values) in sides {
        put_str(out, stream);
        put_bytes(out, values);
    }
}

/// Reads what follows the tag.
pub(super) fn read_pair<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let (join, key) = (reader.str()?, reader.str()?);
    let (left, right) = (EventTime::from_millis(reader.i64()?), EventTime::from_millis(reader.i64()?));
    let flags = reader.u8()?;
    let mut side = || Ok((reader.str()?, RawValues::read(&mut Reader::new(reader.bytes()?))?));
    let sides = [side()?, side()?];
    Ok(Row::Pair(PairRow { join, key, left, right, source: source_of(flags), quality: quality_of(flags), sides }))
}

impl PairRow<'_> {
    /// The time of the pair: that of the later record, as in Flink.
    pub fn event(&self) -> EventTime {
        self.left.max(self.right)
    }
}

impl JoinPane {
    /// Every kind. Append only: the place is the persisted tag.
    pub const ALL: [JoinPane; 3] = [JoinPane::OnTime, JoinPane::Late, JoinPane::Timeout];

    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            JoinPane::OnTime => "on_time",
            JoinPane::Late => "late",
            JoinPane::Timeout => "timeout",
        }
    }
}
