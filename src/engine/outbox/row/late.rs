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
    /// Ordered output is past its event time, because the buffer was full or the device silent.
    OutOfOrder,
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
    numbers: u64,
    numbers_at: &'a [u8],
    states: u64,
    states_at: &'a [u8],
}

/// What a record had in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RawValue<'a> {
    /// A finite number.
    Number(f64),
    /// Text, or a bool as a word.
    State(&'a str),
}

/// Appends a late record.
pub fn write_late<'n>(
    out: &mut Vec<u8>,
    row: &LateRow<'_>,
    numbers: impl ExactSizeIterator<Item = (&'n str, f64)>,
    states: impl ExactSizeIterator<Item = (&'n str, &'n str)>,
) {
    out.push(TAG_LATE);
    put_str(out, row.stream);
    put_str(out, row.window);
    put_str(out, row.key);
    put_i64(out, row.event.as_millis());
    put_i64(out, row.received.as_millis());
    out.push(row.reason as u8);
    out.push(flags(row.source, row.quality, false));
    put_u64(out, row.lag.as_millis());
    write_values(out, numbers, states);
}

/// Appends values by field: numbers, then states.
pub fn write_values<'n>(
    out: &mut Vec<u8>,
    numbers: impl ExactSizeIterator<Item = (&'n str, f64)>,
    states: impl ExactSizeIterator<Item = (&'n str, &'n str)>,
) {
    put_u64(out, numbers.len() as u64);
    for (name, value) in numbers {
        put_str(out, name);
        put_f64(out, value);
    }
    put_u64(out, states.len() as u64);
    for (name, text) in states {
        put_str(out, name);
        put_str(out, text);
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
        // Walked once, so that holding the row is the proof that it can be read.
        let numbers = reader.u64()?;
        let numbers_at = reader.rest();
        for _ in 0..numbers {
            reader.str()?;
            reader.f64()?;
        }
        let states = reader.u64()?;
        let states_at = reader.rest();
        for _ in 0..states {
            reader.str()?;
            reader.str()?;
        }
        Ok(RawValues { numbers, numbers_at, states, states_at })
    }

    /// Number of fields.
    pub fn len(self) -> usize {
        usize::try_from(self.numbers.saturating_add(self.states)).unwrap_or(usize::MAX)
    }

    /// True without any field.
    pub fn is_empty(self) -> bool {
        self.numbers == 0 && self.states == 0
    }

    /// Each field with its value: numbers, then states.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, RawValue<'a>)> {
        let (mut numbers, mut states) = (Reader::new(self.numbers_at), Reader::new(self.states_at));
        let numbers =
            (0..self.numbers).map_while(move |_| Some((numbers.str().ok()?, RawValue::Number(numbers.f64().ok()?))));
        let states =
            (0..self.states).map_while(move |_| Some((states.str().ok()?, RawValue::State(states.str().ok()?))));
        numbers.chain(states)
    }
}

impl RawValue<'_> {
    /// The number, if it is one.
    pub fn as_number(self) -> Option<f64> {
        match self {
            RawValue::Number(value) => Some(value),
            RawValue::State(_) => None,
        }
    }
}

impl LateReason {
    /// Every reason. Append only: the place is the persisted tag.
    pub const ALL: [LateReason; 5] = [
        LateReason::Late,
        LateReason::Future,
        LateReason::TooManyWindows,
        LateReason::Redefined,
        LateReason::OutOfOrder,
    ];

    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            LateReason::Late => "late",
            LateReason::Future => "future",
            LateReason::TooManyWindows => "too_many_windows",
            LateReason::Redefined => "redefined",
            LateReason::OutOfOrder => "out_of_order",
        }
    }
}
