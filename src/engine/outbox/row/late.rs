//! A record that no window took.

use super::{Row, TAG_LATE, flags, quality_of, source_of};
use crate::engine::wire::{Damaged, Reader, put_f64, put_i64, put_str, put_u64};
use crate::model::record::TimeSource;
use crate::model::time::{ClockQuality, EventTime, Span, WallTime};

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
    write_values(out, fields);
}

/// Appends values by field.
pub fn write_values<'n>(out: &mut Vec<u8>, fields: impl ExactSizeIterator<Item = (&'n str, f64)>) {
    put_u64(out, fields.len() as u64);
    for (name, value) in fields {
        put_str(out, name);
        put_f64(out, value);
    }
}

/// Whether the bytes are what [`write_values`] writes.
///
/// # Errors
/// [`Damaged`] when they are not.
pub fn check_values(bytes: &[u8]) -> Result<(), Damaged> {
    let mut reader = Reader::new(bytes);
    RawValues::read(&mut reader)?;
    if reader.is_empty() { Ok(()) } else { Err(Damaged) }
}

/// Reads what follows the tag.
pub(super) fn read_late<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let (stream, window, key) = (reader.str()?, reader.str()?, reader.str()?);
    let event = EventTime::from_millis(reader.i64()?);
    let received = WallTime::from_millis(reader.i64()?);
    let reason = *LateReason::ALL.get(usize::from(reader.u8()?)).ok_or(Damaged)?;
    let flags = reader.u8()?;
    let lag = Span::from_millis(reader.u64()?);
    let (source, quality) = (source_of(flags), quality_of(flags));
    let row = LateRow { stream, window, key, event, received, reason, lag, source, quality };
    Ok(Row::Late(row, RawValues::read(reader)?))
}

impl<'a> RawValues<'a> {
    /// Reads what [`write_values`] wrote, to its end.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<RawValues<'a>, Damaged> {
        let values = RawValues { fields: reader.u64()?, bytes: reader.rest() };
        // Walk once, so that holding the row is the proof that it can be read.
        for _ in 0..values.fields {
            reader.str()?;
            reader.f64()?;
        }
        Ok(values)
    }

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

impl LateReason {
    /// Every reason. Append only: the place is the persisted tag.
    pub const ALL: [LateReason; 4] =
        [LateReason::Late, LateReason::Future, LateReason::TooManyWindows, LateReason::Redefined];

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
