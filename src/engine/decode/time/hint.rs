//! Guesses, for a person, at why a time was not accepted. Nothing is ever read by a guess.

use crate::engine::spec::{TimeFormat, TimeUnit};
use crate::model::record::RejectReason;

use super::epoch::{read_decimal, scale};
use super::written::Stamp;
use super::{Format, RawTime, Reading};

const UNITS: [TimeUnit; 4] = [TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos];

/// What a time looks like (the units, RFC 3339, the same without an offset), for one
/// configured format.
type Guesses = [&'static str; 6];

macro_rules! guesses {
    ($configured:literal) => {
        [
            concat!("looks like seconds, configured ", $configured),
            concat!("looks like milliseconds, configured ", $configured),
            concat!("looks like microseconds, configured ", $configured),
            concat!("looks like nanoseconds, configured ", $configured),
            concat!("looks like RFC 3339, configured ", $configured),
            concat!("looks like a local time without an offset (`format = \"iso\"`), configured ", $configured),
        ]
    };
}

fn guesses(format: &TimeFormat) -> &'static Guesses {
    match format {
        TimeFormat::Epoch(TimeUnit::Seconds) => &guesses!("s"),
        TimeFormat::Epoch(TimeUnit::Millis) => &guesses!("ms"),
        TimeFormat::Epoch(TimeUnit::Micros) => &guesses!("us"),
        TimeFormat::Epoch(TimeUnit::Nanos) => &guesses!("ns"),
        TimeFormat::Rfc3339 => &guesses!("rfc3339"),
        TimeFormat::Iso { .. } => &guesses!("iso"),
        TimeFormat::Pattern { .. } => &guesses!("a pattern"),
    }
}

/// Why the time field `raw` (as it stands in the payload, without quotes; empty when it is
/// absent) led to `reason`.
pub fn hint(reason: RejectReason, format: &TimeFormat, raw: &str) -> Option<&'static str> {
    match reason {
        RejectReason::BadTime | RejectReason::BeforeMinTime => {
            unit_guess(format, raw).or_else(|| clock_guess(format, raw))
        }
        RejectReason::MissingTime if Format::new(format).read(RawTime::Text(raw)) == Reading::NoZone => {
            Some("a local time without an offset and no `zone` configured")
        }
        RejectReason::MissingTime if !raw.trim_ascii().is_empty() => {
            Some("year 1: the device has no time; `missing = \"receive\"` would use the receive time")
        }
        RejectReason::MissingTime => {
            Some("the time field is absent, null or empty; `missing = \"receive\"` would use the receive time")
        }
        RejectReason::Empty
        | RejectReason::TooLarge
        | RejectReason::NotJson
        | RejectReason::TooDeep
        | RejectReason::WrongShape
        | RejectReason::BadDevice
        | RejectReason::NoValues
        | RejectReason::WrongType
        | RejectReason::NotFinite
        | RejectReason::TooManyDevices
        | RejectReason::BadGroup
        | RejectReason::TooManyGroups
        | RejectReason::NotInFormat
        | RejectReason::BadChecksum
        | RejectReason::UnknownAlias
        | RejectReason::MissingValue
        | RejectReason::OutOfRange
        | RejectReason::DeviceDenied
        | RejectReason::Expression
        | RejectReason::BadAvailability
        | RejectReason::TooManyFields => None,
    }
}

/// Whether `raw` says something, be it bad.
pub(in crate::engine::decode) fn is_said(format: &TimeFormat, raw: &str) -> bool {
    !matches!(Format::new(format).read(RawTime::Text(raw)), Reading::Missing | Reading::NoZone)
}

/// A guess at the unit or format, where `raw` would be a time between 2000 and 2100 in
/// another one than the configured. Also for times in the future: milliseconds read as
/// seconds lie there.
pub fn unit_guess(format: &TimeFormat, raw: &str) -> Option<&'static str> {
    const FROM: i64 = 946_684_800_000;
    const TO: i64 = 4_102_444_800_000;
    let raw = raw.trim_ascii();
    let plausible = |unit: TimeUnit| read_decimal(raw, scale(unit)).is_some_and(|millis| (FROM..TO).contains(&millis));
    let guesses = guesses(format);
    if let Some(unit) = UNITS.iter().position(|unit| plausible(*unit)) {
        return (*format != TimeFormat::Epoch(UNITS[unit])).then(|| guesses[unit]);
    }
    match (format, Stamp::parse(raw, true)) {
        (TimeFormat::Epoch(_) | TimeFormat::Pattern { .. }, Some(stamp)) if stamp.has_offset() => Some(guesses[4]),
        (TimeFormat::Epoch(_) | TimeFormat::Pattern { .. }, Some(_)) => Some(guesses[5]),
        (TimeFormat::Rfc3339 | TimeFormat::Iso { .. }, Some(_)) | (_, None) => None,
    }
}

/// For a time that is written as configured.
fn clock_guess(format: &TimeFormat, raw: &str) -> Option<&'static str> {
    const EIGHTIES: i64 = 315_532_800_000;
    match Format::new(format).read(RawTime::Text(raw)) {
        Reading::At(at) if (0..EIGHTIES).contains(&at.as_millis()) => {
            Some("a time in the 1970s: the device's clock is not set; `bad = \"receive\"` would use the receive time")
        }
        Reading::At(_) | Reading::Relative(_) | Reading::Missing | Reading::NoZone => None,
        Reading::Bad => match (format, Stamp::parse(raw.trim_ascii(), true)) {
            (TimeFormat::Rfc3339, Some(stamp)) if !stamp.has_offset() => {
                Some("a local time without an offset: `format = \"iso\"` with a `zone`, or an offset `Z` or `+hh:mm`")
            }
            (TimeFormat::Rfc3339, Some(_)) => Some("a date without separators: `format = \"iso\"` reads it"),
            (TimeFormat::Iso { zone: Some(_), unit: None }, Some(stamp)) if !stamp.has_offset() => {
                Some("a local time that the clocks of `zone` skip; `gap = \"forward\"` would read it")
            }
            (TimeFormat::Epoch(_) | TimeFormat::Rfc3339 | TimeFormat::Iso { .. } | TimeFormat::Pattern { .. }, _) => {
                None
            }
        },
    }
}
