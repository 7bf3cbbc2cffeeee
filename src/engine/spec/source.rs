//! Where a stream's readings come from: format, fields, time.

use crate::model::ids::Name;

/// How a payload becomes values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatSpec {
    /// A JSON object, or an array of objects: one record each.
    Json(FieldsSpec),
}

/// Which numbers of a payload count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldsSpec {
    /// These, by name and JSON Pointer (RFC 6901).
    Named(Vec<(Name, String)>),
    /// Every number; named by its path with `.` between the levels.
    All,
}

/// Where the event time comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeSpec {
    /// The gateway's clock when the message arrived.
    Receive,
    /// A field of the payload.
    Field {
        /// JSON Pointer of the field.
        pointer: String,
        /// How to read it.
        format: TimeFormat,
        /// When it is absent or null: reject, or use the receive time.
        missing: TimeFallback,
        /// When it cannot be read or is before `min_time`.
        bad: TimeFallback,
    },
}

/// How a time field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// Seconds since 1970, integer or with a fraction, number or string.
    EpochSeconds,
    /// Milliseconds since 1970, integer or with a fraction, number or string.
    EpochMillis,
    /// RFC 3339, such as `2026-01-31T08:00:00.25+01:00`.
    Rfc3339,
}

/// The unit of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Millis,
    /// Microseconds since 1970.
    Micros,
    /// Nanoseconds since 1970.
    Nanos,
}

impl TimeUnit {
    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Millis => "ms",
            TimeUnit::Micros => "us",
            TimeUnit::Nanos => "ns",
        }
    }
}

/// What to do without a usable time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFallback {
    /// Count it as rejected.
    Reject,
    /// Use the receive time, marked as such.
    Receive,
}

impl TimeFormat {
    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            TimeFormat::EpochSeconds => "s",
            TimeFormat::EpochMillis => "ms",
            TimeFormat::Rfc3339 => "rfc3339",
        }
    }
}
