//! How payloads are written, and how their times are.

use crate::engine::decode::milesight::Model;
use crate::engine::window::calendar::Zone;

/// How payloads are written. One line per format; see `engine::decode`.
#[derive(Clone, Debug, PartialEq)]
pub enum FormatSpec {
    /// A JSON object, an array of objects, or objects one after another.
    Json,
    /// One value as plain text.
    Raw(RawSpec),
    /// A CBOR map, or an array of maps.
    Cbor,
    /// RFC 8428, as JSON.
    SenmlJson,
    /// RFC 8428, as CBOR.
    SenmlCbor,
    /// Line protocol of `InfluxDB`.
    Influx,
    /// Lines of cells.
    Csv(CsvSpec),
    /// Teltonika Codec 8 and 8 Extended.
    Teltonika,
    /// Channels of a Milesight `LoRaWAN` sensor; what some mean depends on the model.
    Milesight(Model),
    /// Messages of a Ruuvi Gateway.
    Ruuvi,
    /// Sparkplug B 3.0, with what births say kept for the data that follow.
    SparkplugB,
}

/// How a payload of one value is read.
#[derive(Clone, Debug, PartialEq)]
pub struct RawSpec {
    /// Words for "no value"; ASCII letters in either case.
    pub missing: Vec<String>,
    /// Words for numbers, likewise; they go before everything else.
    pub words: Vec<(String, f64)>,
    /// JSON objects and arrays are read as such; else they have the wrong shape.
    pub json: bool,
}

/// How lines of cells are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvSpec {
    /// The names of the columns, in order; empty: the first line of every payload has them.
    pub columns: Vec<String>,
    /// Between the cells; an ASCII character that is neither a quote nor a line break.
    pub separator: u8,
}

impl FormatSpec {
    /// Whether records have times beside their members.
    pub fn has_time(&self) -> bool {
        match self {
            FormatSpec::Json | FormatSpec::Raw(_) | FormatSpec::Cbor | FormatSpec::Csv(_) => false,
            FormatSpec::SenmlJson
            | FormatSpec::SenmlCbor
            | FormatSpec::Influx
            | FormatSpec::Teltonika
            | FormatSpec::Milesight(_)
            | FormatSpec::SparkplugB
            | FormatSpec::Ruuvi => true,
        }
    }
}

impl RawSpec {
    /// Words for "no value" of firmware, scripts and home automation.
    pub const MISSING: [&str; 11] =
        ["nan", "-nan", "null", "none", "unavailable", "unknown", "undefined", "n/a", "n.a.", "-", ""];
}

impl Default for RawSpec {
    /// The usual words for "no value", none for numbers.
    fn default() -> RawSpec {
        RawSpec { missing: RawSpec::MISSING.map(str::to_owned).to_vec(), words: Vec::new(), json: false }
    }
}

/// Where the event time comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeSpec {
    /// The gateway's clock when the message arrived.
    Receive,
    /// Fields of the payload.
    Fields {
        /// Where to look, in this order: the first that is there counts, also when it is
        /// bad. One at the least, at most `limits::TIME_CANDIDATES_MAX`.
        candidates: Vec<TimeCandidate>,
        /// When all are absent or null: reject, or use the receive time.
        missing: TimeFallback,
        /// When the one that counts cannot be read or is before `min_time`.
        bad: TimeFallback,
    },
    /// What the format itself gives a record, beside its members.
    Own {
        /// The unit of that time, against what the format prescribes.
        unit: Option<TimeUnit>,
        /// When the record has none.
        missing: TimeFallback,
        /// When it cannot be read or is before `min_time`.
        bad: TimeFallback,
    },
}

/// One place in a payload where the time may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeCandidate {
    /// JSON Pointer of the field.
    pub pointer: String,
    /// How to read it.
    pub format: TimeFormat,
}

/// How a time field is written; `engine::decode::time` says what exactly is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// So many since 1970, integer or with a fraction, number or string.
    Epoch(TimeUnit),
    /// RFC 3339, such as `2026-01-31T08:00:00.25+01:00`: with an offset.
    Rfc3339,
    /// As RFC 3339, but also without an offset.
    Iso {
        /// What a time without an offset means; without it such a time is none.
        zone: Option<ZonedRules>,
        /// What a number counts, where devices may send either.
        unit: Option<TimeUnit>,
    },
    /// As `strptime` reads it.
    Pattern {
        /// Such as `%d.%m.%Y %H:%M:%S`; `engine::decode::time::check_pattern` accepts it.
        pattern: String,
        /// Needed where the pattern has no offset.
        zone: Option<ZonedRules>,
    },
}

/// What a time means that a clock on the wall shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedRules {
    /// Where that wall is.
    pub zone: Zone,
    /// For times that its clocks never show.
    pub gap: GapPolicy,
    /// For times that its clocks show twice.
    pub overlap: OverlapPolicy,
}

/// A local time that is skipped when clocks are set forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapPolicy {
    /// It is a bad time: the device keeps another time than its zone.
    Reject,
    /// It is as much later as the clocks were set forward: the device did not notice.
    Forward,
}

/// A local time that comes twice when clocks are set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapPolicy {
    /// The first of the two. A record of the second hour then is an hour late, which costs
    /// at most this record; one that is an hour early would move the watermark, and cost
    /// all others.
    Earlier,
    /// The second of the two.
    Later,
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
    pub fn as_str(&self) -> &str {
        match self {
            TimeFormat::Epoch(unit) => unit.as_str(),
            TimeFormat::Rfc3339 => "rfc3339",
            TimeFormat::Iso { .. } => "iso",
            TimeFormat::Pattern { pattern, .. } => pattern,
        }
    }
}
