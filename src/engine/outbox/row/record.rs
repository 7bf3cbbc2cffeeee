//! A reading that is passed on as it is.

use super::late::{RawValues, write_values};
use super::{FLAG_EARLY, Row, TAG_RECORD, flags, quality_of, source_of};
use crate::engine::wire::{Damaged, Reader, put_i64, put_str};
use crate::model::record::TimeSource;
use crate::model::time::{ClockQuality, EventTime, WallTime};

/// Where the flags are: whoever holds a stored row may still mark it as early.
const FLAGS_AT: usize = 1;

/// A reading that is passed on as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordRow<'a> {
    /// Stream.
    pub stream: &'a str,
    /// Device.
    pub key: &'a str,
    /// Its event time.
    pub event: EventTime,
    /// When it arrived.
    pub received: WallTime,
    /// Ordered output: the watermark had not passed it when it was released.
    pub early: bool,
    /// Where `event` came from.
    pub source: TimeSource,
    /// Of the gateway's clock when it arrived.
    pub quality: ClockQuality,
}

/// Appends a reading.
pub fn write_record<'n>(
    out: &mut Vec<u8>,
    row: &RecordRow<'_>,
    numbers: impl ExactSizeIterator<Item = (&'n str, f64)>,
    states: impl ExactSizeIterator<Item = (&'n str, &'n str)>,
) {
    let early = if row.early { FLAG_EARLY } else { 0 };
    out.extend_from_slice(&[TAG_RECORD, flags(row.source, row.quality, false) | early]);
    put_str(out, row.stream);
    put_str(out, row.key);
    put_i64(out, row.event.as_millis());
    put_i64(out, row.received.as_millis());
    write_values(out, numbers, states);
}

/// Marks a stored reading as released before the watermark.
pub(in crate::engine) fn mark_early(row: &mut [u8]) {
    row[FLAGS_AT] |= FLAG_EARLY;
}

/// Reads what follows the tag.
pub(super) fn read_record<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let flags = reader.u8()?;
    let (stream, key) = (reader.str()?, reader.str()?);
    let event = EventTime::from_millis(reader.i64()?);
    let received = WallTime::from_millis(reader.i64()?);
    let early = flags & FLAG_EARLY != 0;
    let row = RecordRow { stream, key, event, received, early, source: source_of(flags), quality: quality_of(flags) };
    Ok(Row::Record(row, RawValues::read(reader)?))
}
