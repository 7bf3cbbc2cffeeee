//! The stored form of one outbox record: self-contained and compact. Names are
//! stored with the row, so that a record outlives the configuration that made it.
//!
//! ```text
//! pane: 0 | stream | window | key | start | size | pane kind | flags | revision |
//!       watermark? | count | replaced n, starts | aggregates n, tags | fields n, (name, n × f64)
//! late: 1 | stream | window | key | event | received | reason | flags | lag |
//!       fields n, (name, f64)
//! gap:  2 | first seq | records | oldest ms | newest ms
//! alarm:3 | at | code | text
//! ```
//!
//! The JSON and CBOR forms are made from it when a batch is published.

use crate::engine::aggregate::Kind;
use crate::engine::wire::{Damaged, Reader, put_bytes, put_f64, put_i64, put_str, put_time, put_u64};
use crate::model::record::TimeSource;
use crate::model::time::{ClockQuality, EventTime, Span, WallTime};

/// Why a pane was emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PaneKind {
    /// The watermark passed the end of the window.
    OnTime,
    /// A record within allowed lateness changed a window that had fired.
    Late,
    /// The device fell idle; the window stays open.
    Idle,
}

/// Why a record is in lane `late`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LateReason {
    /// Its window has expired.
    Late,
    /// It claims to be later than the gateway's clock allows.
    Future,
    /// The device, or the agent, has as many open windows as the limits allow.
    TooManyWindows,
    /// Its window was reported under a definition that has changed since.
    Redefined,
}

/// One emission of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaneRow<'a> {
    /// Stream.
    pub stream: &'a str,
    /// Window definition.
    pub window: &'a str,
    /// Device.
    pub key: &'a str,
    /// First time of the window.
    pub start: EventTime,
    /// First time after it.
    pub end: EventTime,
    /// Why now.
    pub pane: PaneKind,
    /// Counts the emissions of this window from 0.
    pub revision: u32,
    /// The watermark at that moment.
    pub watermark: Option<EventTime>,
    /// Records in the window.
    pub count: u64,
    /// A record in it has no time of its own.
    pub source: TimeSource,
    /// Of the gateway's clock at that moment.
    pub quality: ClockQuality,
    /// Records may be missing.
    pub partial: bool,
}

/// Results by field and aggregate, still in stored form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaneValues<'a> {
    replaced: u64,
    replaces: &'a [u8],
    kinds: &'a [u8],
    fields: u64,
    bytes: &'a [u8],
}

/// A record that no window took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LateRow<'a> {
    /// Stream.
    pub stream: &'a str,
    /// The window definition that did not take it; empty: none was asked.
    pub window: &'a str,
    /// Device.
    pub key: &'a str,
    /// Its event time.
    pub event: EventTime,
    /// When it arrived.
    pub received: WallTime,
    /// Why it is here.
    pub reason: LateReason,
    /// How far its event time is behind the watermark (`future`: ahead of the clock).
    pub lag: Span,
    /// Where `event` came from.
    pub source: TimeSource,
    /// Of the gateway's clock at that moment.
    pub quality: ClockQuality,
}

/// Values by field, still in stored form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawValues<'a> {
    fields: u64,
    bytes: &'a [u8],
}

/// Stands for records that had to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRow {
    /// First sequence number of the range; the row's own is the last.
    pub first_seq: u64,
    /// Records lost.
    pub records: u64,
    /// Earliest and latest time among them: window starts or event times.
    pub oldest: EventTime,
    /// See `oldest`.
    pub newest: EventTime,
}

/// Something a person should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmRow<'a> {
    /// When it was noticed.
    pub at: WallTime,
    /// A word for machines.
    pub code: &'a str,
    /// A sentence for people.
    pub text: &'a str,
}

/// Any row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row<'a> {
    /// See [`PaneRow`].
    Pane(PaneRow<'a>, PaneValues<'a>),
    /// See [`LateRow`].
    Late(LateRow<'a>, RawValues<'a>),
    /// See [`GapRow`].
    Gap(GapRow),
    /// See [`AlarmRow`].
    Alarm(AlarmRow<'a>),
}

const TAG_PANE: u8 = 0;
const TAG_LATE: u8 = 1;
const TAG_GAP: u8 = 2;
const TAG_ALARM: u8 = 3;

const FLAG_RECEIVE_TIME: u8 = 1;
const FLAG_PARTIAL: u8 = 2;
const FLAG_UNSYNCED: u8 = 4;
const FLAG_SUSPECT: u8 = 8;

/// Appends a pane. `values`: one `f64` per field and aggregate, NaN where there
/// is no result.
pub fn write_pane<'n, V: Iterator<Item = f64>>(
    out: &mut Vec<u8>,
    row: &PaneRow<'_>,
    replaces: &[EventTime],
    aggregates: &[Kind],
    field_count: u32,
    fields: impl Iterator<Item = (&'n str, V)>,
) {
    out.push(TAG_PANE);
    put_str(out, row.stream);
    put_str(out, row.window);
    put_str(out, row.key);
    put_i64(out, row.start.as_millis());
    put_u64(out, row.start.lag_behind(row.end).as_millis());
    out.push(row.pane as u8);
    out.push(flags(row.source, row.quality, row.partial));
    put_u64(out, u64::from(row.revision));
    put_time(out, row.watermark);
    put_u64(out, row.count);
    put_u64(out, replaces.len() as u64);
    for start in replaces {
        put_i64(out, start.as_millis());
    }
    put_u64(out, aggregates.len() as u64);
    out.extend(aggregates.iter().map(|kind| kind.tag()));
    put_u64(out, u64::from(field_count));
    for (name, values) in fields {
        put_str(out, name);
        for value in values {
            put_f64(out, value);
        }
    }
}

/// Appends a late record.
pub fn write_late<'n>(out: &mut Vec<u8>, row: &LateRow<'_>, fields: impl ExactSizeIterator<Item = (&'n str, f64)>) {
    out.push(TAG_LATE);
    put_str(out, row.stream);
    put_str(out, row.window);
    put_str(out, row.key);
    put_i64(out, row.event.as_millis());
    put_i64(out, row.received.as_millis());
    out.push(row.reason as u8);
    out.push(flags(row.source, row.quality, false));
    put_u64(out, row.lag.as_millis());
    put_u64(out, fields.len() as u64);
    for (name, value) in fields {
        put_str(out, name);
        put_f64(out, value);
    }
}

/// Appends a gap.
pub fn write_gap(out: &mut Vec<u8>, row: &GapRow) {
    out.push(TAG_GAP);
    put_u64(out, row.first_seq);
    put_u64(out, row.records);
    put_i64(out, row.oldest.as_millis());
    put_i64(out, row.newest.as_millis());
}

/// Appends an alarm.
pub fn write_alarm(out: &mut Vec<u8>, row: &AlarmRow<'_>) {
    out.push(TAG_ALARM);
    put_i64(out, row.at.as_millis());
    put_str(out, row.code);
    put_bytes(out, row.text.as_bytes());
}

/// Reads any row.
///
/// # Errors
/// [`Damaged`] when the bytes are not a whole row.
pub fn read(bytes: &[u8]) -> Result<Row<'_>, Damaged> {
    let mut reader = Reader::new(bytes);
    let row = match reader.u8()? {
        TAG_PANE => read_pane(&mut reader)?,
        TAG_LATE => read_late(&mut reader)?,
        TAG_GAP => Row::Gap(GapRow {
            first_seq: reader.u64()?,
            records: reader.u64()?,
            oldest: EventTime::from_millis(reader.i64()?),
            newest: EventTime::from_millis(reader.i64()?),
        }),
        TAG_ALARM => {
            Row::Alarm(AlarmRow { at: WallTime::from_millis(reader.i64()?), code: reader.str()?, text: reader.str()? })
        }
        _ => return Err(Damaged),
    };
    Ok(row)
}

fn read_pane<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let (stream, window, key) = (reader.str()?, reader.str()?, reader.str()?);
    let start = EventTime::from_millis(reader.i64()?);
    let end = start + Span::from_millis(reader.u64()?);
    let pane = match reader.u8()? {
        0 => PaneKind::OnTime,
        1 => PaneKind::Late,
        2 => PaneKind::Idle,
        _ => return Err(Damaged),
    };
    let flags = reader.u8()?;
    let row = PaneRow {
        stream,
        window,
        key,
        start,
        end,
        pane,
        revision: reader.uint()?,
        watermark: reader.time()?,
        count: reader.u64()?,
        source: source_of(flags),
        quality: quality_of(flags),
        partial: flags & FLAG_PARTIAL != 0,
    };
    let replaced = reader.u64()?;
    let starts = reader.rest();
    for _ in 0..replaced {
        reader.i64()?;
    }
    let kinds = reader.bytes()?;
    let values = PaneValues { replaced, replaces: starts, kinds, fields: reader.u64()?, bytes: reader.rest() };
    // Walk once, so that holding the row is the proof that it can be read.
    let mut walk = Reader::new(values.bytes);
    for _ in 0..values.fields {
        walk.str()?;
        for _ in kinds {
            walk.f64()?;
        }
    }
    if kinds.iter().any(|tag| Kind::from_tag(*tag).is_none()) {
        return Err(Damaged);
    }
    Ok(Row::Pane(row, values))
}

fn read_late<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let (stream, window, key) = (reader.str()?, reader.str()?, reader.str()?);
    let event = EventTime::from_millis(reader.i64()?);
    let received = WallTime::from_millis(reader.i64()?);
    let reason = match reader.u8()? {
        0 => LateReason::Late,
        1 => LateReason::Future,
        2 => LateReason::TooManyWindows,
        3 => LateReason::Redefined,
        _ => return Err(Damaged),
    };
    let flags = reader.u8()?;
    let lag = Span::from_millis(reader.u64()?);
    let (source, quality) = (source_of(flags), quality_of(flags));
    let row = LateRow { stream, window, key, event, received, reason, lag, source, quality };
    let values = RawValues { fields: reader.u64()?, bytes: reader.rest() };
    let mut walk = Reader::new(values.bytes);
    for _ in 0..values.fields {
        walk.str()?;
        walk.f64()?;
    }
    Ok(Row::Late(row, values))
}

impl<'a> PaneValues<'a> {
    /// Number of fields.
    pub fn len(self) -> usize {
        usize::try_from(self.fields).unwrap_or(usize::MAX)
    }

    /// True without any field.
    pub fn is_empty(self) -> bool {
        self.fields == 0
    }

    /// Starts of the sessions that this one has taken in after they were published.
    pub fn replaces(self) -> impl Iterator<Item = EventTime> {
        let mut reader = Reader::new(self.replaces);
        (0..self.replaced).map_while(move |_| reader.i64().ok().map(EventTime::from_millis))
    }

    /// Each field with its results; `None` where there is none.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, FieldResults<'a>)> {
        let mut reader = Reader::new(self.bytes);
        (0..self.fields).map_while(move |_| {
            let name = reader.str().ok()?;
            let results = FieldResults { kinds: self.kinds, reader };
            for _ in self.kinds {
                reader.f64().ok()?;
            }
            Some((name, results))
        })
    }
}

/// The results of one field, by aggregate.
#[derive(Clone, Debug)]
pub struct FieldResults<'a> {
    kinds: &'a [u8],
    reader: Reader<'a>,
}

impl ExactSizeIterator for FieldResults<'_> {}

impl Iterator for FieldResults<'_> {
    type Item = (Kind, Option<f64>);

    fn next(&mut self) -> Option<(Kind, Option<f64>)> {
        let (tag, rest) = self.kinds.split_first()?;
        self.kinds = rest;
        let kind = Kind::from_tag(*tag).expect("checked when the row was read");
        let value = self.reader.f64().expect("checked when the row was read");
        Some((kind, value.is_finite().then_some(value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.kinds.len(), Some(self.kinds.len()))
    }
}

impl<'a> RawValues<'a> {
    /// Number of fields.
    pub fn len(self) -> usize {
        usize::try_from(self.fields).unwrap_or(usize::MAX)
    }

    /// True without any field.
    pub fn is_empty(self) -> bool {
        self.fields == 0
    }

    /// Each field with its value.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, f64)> {
        let mut reader = Reader::new(self.bytes);
        (0..self.fields).map_while(move |_| Some((reader.str().ok()?, reader.f64().ok()?)))
    }
}

impl Row<'_> {
    /// The time that the row is about: a window's start, an event time.
    pub fn time(&self) -> EventTime {
        match self {
            Row::Pane(row, _) => row.start,
            Row::Late(row, _) => row.event,
            Row::Gap(row) => row.oldest,
            Row::Alarm(row) => row.at.as_event_time(),
        }
    }
}

impl PaneKind {
    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            PaneKind::OnTime => "on_time",
            PaneKind::Late => "late",
            PaneKind::Idle => "idle",
        }
    }
}

impl LateReason {
    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            LateReason::Late => "late",
            LateReason::Future => "future",
            LateReason::TooManyWindows => "too_many_windows",
            LateReason::Redefined => "redefined",
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
