//! The event time of a record, from what stands in the payload.
//!
//! | configured | accepted | to the millisecond |
//! |---|---|---|
//! | `s`, `ms`, `us`, `ns` | number, or string of one: integer, fraction, exponent; exact in decimal, never through `f64` | rounded, half away from zero |
//! | | float of a binary format: the shortest decimal number that is read as it | as above |
//! | `rfc3339` | `2024-10-23T17:41:09.25+02:00` | the millisecond it lies in |
//! | | `t` or one blank for `T`; comma for the point; any digits of fraction (64 bytes in all) | |
//! | | no seconds: `17:41` is `17:41:00` | |
//! | | offset `Z`, `z`, `UTC`, `+02:00`, `+0200`, `+02`, also after one blank; up to 23:59 | |
//! | `iso` | as `rfc3339`; also without separators: `20241023T174109Z` | as above |
//! | | also without an offset: the time of `zone` | |
//! | | with a `unit` also numbers, as for that unit | |
//! | a pattern | what jiff's `strptime` reads, from strings and from digits; `%s` is an epoch | as above |
//! | | without `%z`: the time of `zone` | |
//!
//! Not accepted: no offset in `rfc3339`, a date alone, hour 24, one-digit parts, week
//! dates, fractions of minutes, offsets with seconds, a zone in brackets.
//!
//! Epochs are rounded because devices print floats (`…368.6499999`); a written date is
//! cut, so that it stays in the window in which it lies. A leap second (`:60`) is the
//! first second of the next minute.
//!
//! A local time of a zone that its clocks skip (`gap`) is bad, or as much later as they
//! were set forward; one that comes twice (`overlap`) is the earlier or the later.
//!
//! Absent, null, an empty string and year 1 (the zero time of several languages) are a
//! *missing* time, and so is a local time of nobody knows where. What does not fit 64-bit
//! milliseconds, lies beyond the year 9999 or is not in the format is a *bad* one, and so is
//! a time before `min_time`. Of several candidates the first that is not missing counts; a bad one is
//! bad, whatever comes after it.

mod epoch;
mod hint;
mod local;
mod pattern;
mod written;

use jiff::civil::DateTime;

use crate::engine::spec::{StreamSpec, TimeCandidate, TimeFallback, TimeFormat, TimeSpec, TimeUnit};
use crate::model::record::RejectReason;
use crate::model::time::EventTime;

use self::local::Local;
use self::pattern::Pattern;
use self::written::Naive;
use super::DecodedTime;
use super::visit::{OwnTime, Scalar};

pub(super) use self::epoch::read_decimal;
pub(super) use self::hint::is_said;
pub use self::hint::{hint, unit_guess};
pub use self::pattern::{PatternZone, check_pattern};

/// 0001-01-01T00:00:00Z.
const YEAR_ONE_MS: i64 = -62_135_596_800_000;
/// 10000-01-01T00:00:00Z: beyond what dates are written in.
const YEAR_TEN_THOUSAND_MS: i64 = 253_402_300_800_000;
/// Longest text that can be a written time, and longest pattern.
const TIME_TEXT_BYTES_MAX: usize = 64;
/// Relative times are within 2^28 s (8 years), as in RFC 8428, section 4.5.3: beyond, it
/// is no device that counts back.
const RELATIVE_MS_MAX: u64 = (1 << 28) * 1_000;

/// The value of a time field, as the payload has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum RawTime<'p> {
    /// Digits of a JSON number.
    Number(&'p str),
    /// An integer of a binary format.
    Int(i64),
    /// As [`RawTime::Int`], beyond its range too.
    Uint(u64),
    /// A float of a binary format.
    Float(f64),
    /// A string.
    Text(&'p str),
    /// null.
    Null,
    /// A bool, an object, an array, bytes.
    Other,
}

/// What one candidate of one record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Reading {
    /// Nothing.
    #[default]
    Missing,
    /// A local time, of nobody knows where: as good as nothing.
    NoZone,
    /// A time.
    At(EventTime),
    /// So many milliseconds after the message arrived (negative: before).
    Relative(i64),
    /// Something that is no time.
    Bad,
}

/// How the times of one stream are read.
#[derive(Clone, Debug)]
pub(super) struct TimeReader {
    source: Source,
    min: Option<EventTime>,
}

#[derive(Clone, Debug)]
enum Source {
    Receive,
    Fields { pointers: Vec<String>, formats: Vec<Format>, fallbacks: Fallbacks },
    Own { unit: Option<TimeUnit>, fallbacks: Fallbacks },
}

#[derive(Clone, Copy, Debug)]
struct Fallbacks {
    missing: TimeFallback,
    bad: TimeFallback,
}

/// A [`TimeFormat`] with the rules of its zone read.
#[derive(Clone, Debug)]
enum Format {
    Epoch(TimeUnit),
    Written { basic: bool, naive: Naive, unit: Option<TimeUnit> },
    Pattern(Pattern),
}

impl TimeReader {
    /// The rules of `spec`.
    pub(super) fn new(spec: &StreamSpec) -> TimeReader {
        let source = match &spec.mapping.time {
            TimeSpec::Receive => Source::Receive,
            TimeSpec::Fields { candidates, missing, bad } => Source::Fields {
                pointers: candidates.iter().map(|candidate| candidate.pointer.clone()).collect(),
                formats: candidates.iter().map(|TimeCandidate { format, .. }| Format::new(format)).collect(),
                fallbacks: Fallbacks { missing: *missing, bad: *bad },
            },
            TimeSpec::Own { unit, missing, bad } => {
                Source::Own { unit: *unit, fallbacks: Fallbacks { missing: *missing, bad: *bad } }
            }
        };
        TimeReader { source, min: spec.min_time }
    }

    /// JSON Pointers of the fields to read, the one that counts first; none when the time
    /// is not in a field.
    pub(super) fn candidates(&self) -> &[String] {
        match &self.source {
            Source::Fields { pointers, .. } => pointers,
            Source::Receive | Source::Own { .. } => &[],
        }
    }

    /// Whether it is the format itself that gives the time.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.source, Source::Own { .. })
    }

    /// Reads the field of that place in [`candidates`](TimeReader::candidates).
    pub(super) fn read(&self, candidate: usize, raw: RawTime<'_>) -> Reading {
        match &self.source {
            Source::Fields { formats, .. } => {
                formats.get(candidate).map_or(Reading::Missing, |format| format.read(raw))
            }
            Source::Receive | Source::Own { .. } => Reading::Missing,
        }
    }

    /// Reads the time that the format itself gives. Missing where another one is configured.
    pub(super) fn read_own(&self, time: OwnTime<'_>) -> Reading {
        let Source::Own { unit, .. } = &self.source else { return Reading::Missing };
        match time {
            OwnTime::Epoch(digits, _) if digits.trim_ascii().is_empty() => Reading::Missing,
            OwnTime::Epoch(digits, told) => epoch::read(unit.unwrap_or(told), RawTime::Number(digits)),
            OwnTime::Millis(count) => epoch::read(unit.unwrap_or(TimeUnit::Millis), RawTime::Int(count)),
            OwnTime::Relative(millis) if millis.unsigned_abs() < RELATIVE_MS_MAX => Reading::Relative(millis),
            OwnTime::Relative(_) => Reading::Bad,
        }
    }

    /// The time of a record: of its readings, in the order of the candidates (or the one
    /// of its own time), the first that says something; then the fallbacks and `min_time`.
    pub(super) fn resolve(&self, readings: &[Reading]) -> Result<DecodedTime, RejectReason> {
        let fallbacks = match &self.source {
            Source::Receive => return Ok(DecodedTime::Receive),
            Source::Fields { fallbacks, .. } | Source::Own { fallbacks, .. } => fallbacks,
        };
        let says = |reading: &&Reading| !matches!(reading, Reading::Missing | Reading::NoZone);
        let (fallback, reason) = match readings.iter().find(says) {
            Some(Reading::At(at)) if self.min.is_none_or(|min| min <= *at) => return Ok(DecodedTime::Event(*at)),
            Some(Reading::At(_)) => (fallbacks.bad, RejectReason::BeforeMinTime),
            Some(Reading::Relative(millis)) => return Ok(DecodedTime::Relative(*millis)),
            Some(Reading::Bad) => (fallbacks.bad, RejectReason::BadTime),
            Some(Reading::Missing | Reading::NoZone) | None => (fallbacks.missing, RejectReason::MissingTime),
        };
        match fallback {
            TimeFallback::Reject => Err(reason),
            TimeFallback::Receive => Ok(DecodedTime::Receive),
        }
    }
}

impl Format {
    fn new(format: &TimeFormat) -> Format {
        match format {
            TimeFormat::Epoch(unit) => Format::Epoch(*unit),
            TimeFormat::Rfc3339 => Format::Written { basic: false, naive: Naive::Bad, unit: None },
            TimeFormat::Iso { zone, unit } => {
                let naive = zone.map_or(Naive::NoZone, |zone| Naive::Local(Local::new(zone)));
                Format::Written { basic: true, naive, unit: *unit }
            }
            TimeFormat::Pattern { pattern, zone } => Format::Pattern(Pattern::new(pattern, zone.map(Local::new))),
        }
    }

    fn read(&self, raw: RawTime<'_>) -> Reading {
        match (self, raw) {
            (_, RawTime::Null) => Reading::Missing,
            (_, RawTime::Text(text)) if text.trim_ascii().is_empty() => Reading::Missing,
            (Format::Epoch(unit), raw) => epoch::read(*unit, raw),
            (Format::Written { unit: Some(unit), .. }, raw) if epoch::is_count(raw) => epoch::read(*unit, raw),
            (Format::Written { basic, naive, .. }, RawTime::Text(text)) => {
                written::read(text.trim_ascii(), *basic, naive)
            }
            (Format::Pattern(pattern), RawTime::Text(text) | RawTime::Number(text)) => pattern.read(text.trim_ascii()),
            // 20241023174109 as a number.
            (Format::Pattern(pattern), RawTime::Int(digits)) => pattern.read(&digits.to_string()),
            (Format::Pattern(pattern), RawTime::Uint(digits)) => pattern.read(&digits.to_string()),
            (
                Format::Written { .. } | Format::Pattern(_),
                RawTime::Number(_) | RawTime::Int(_) | RawTime::Uint(_) | RawTime::Float(_) | RawTime::Other,
            ) => Reading::Bad,
        }
    }
}

impl<'p> From<Scalar<'p>> for RawTime<'p> {
    fn from(value: Scalar<'p>) -> RawTime<'p> {
        match value {
            Scalar::Number(digits) => RawTime::Number(digits),
            Scalar::Float(number) => RawTime::Float(number),
            Scalar::Int(number) => RawTime::Int(number),
            Scalar::Uint(number) => RawTime::Uint(number),
            Scalar::Text(text) => RawTime::Text(text),
            Scalar::Null => RawTime::Null,
            Scalar::Bool(_) | Scalar::Opaque => RawTime::Other,
        }
    }
}

fn reading_of(millis: Option<i64>) -> Reading {
    match millis {
        Some(YEAR_ONE_MS) => Reading::Missing,
        // Milliseconds read as seconds: no clock is that wrong.
        Some(millis) if millis >= YEAR_TEN_THOUSAND_MS => Reading::Bad,
        Some(millis) => Reading::At(EventTime::from_millis(millis)),
        None => Reading::Bad,
    }
}

/// The zero time of Go, .NET and others, wherever their clock is.
fn is_year_one(clock: DateTime) -> bool {
    (clock.year(), clock.month(), clock.day()) == (1, 1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::spec::MappingSpec;
    use crate::model::ids::Name;
    use crate::model::template::Template;
    use crate::model::topic::TopicPattern;

    const REJECT: TimeFallback = TimeFallback::Reject;

    fn reader(time: TimeSpec, min_ms: Option<i64>) -> TimeReader {
        let topic = TopicPattern::parse("a/{device}").expect("a topic");
        let device = Template::parse("{device}", &topic).expect("a template");
        let min_time = min_ms.map(EventTime::from_millis);
        TimeReader::new(&StreamSpec {
            mapping: MappingSpec { time, ..MappingSpec::default() },
            min_time,
            ..StreamSpec::new(Name::new("s").expect("a name"), topic, device)
        })
    }

    fn fields(formats: &[(&str, TimeFormat)]) -> TimeReader {
        let candidate = |(pointer, format): &(&str, TimeFormat)| TimeCandidate {
            pointer: (*pointer).into(),
            format: format.clone(),
        };
        let candidates = formats.iter().map(candidate).collect();
        reader(TimeSpec::Fields { candidates, missing: REJECT, bad: REJECT }, Some(946_684_800_000))
    }

    fn own(unit: Option<TimeUnit>) -> TimeReader {
        reader(TimeSpec::Own { unit, missing: REJECT, bad: REJECT }, None)
    }

    fn at(millis: i64) -> Reading {
        Reading::At(EventTime::from_millis(millis))
    }

    #[test]
    fn numbers_of_binary_formats_are_as_exact_as_text() {
        for (unit, raw, expected) in [
            (TimeUnit::Seconds, RawTime::Float(1_713_970_368.65), at(1_713_970_368_650)),
            (TimeUnit::Seconds, RawTime::Float(1_713_970_368.649_499), at(1_713_970_368_649)),
            (TimeUnit::Seconds, RawTime::Int(-498_365_439), at(-498_365_439_000)),
            (TimeUnit::Seconds, RawTime::Int(i64::MAX), Reading::Bad),
            (TimeUnit::Seconds, RawTime::Uint(1 << 33), at(8_589_934_592_000)),
            (TimeUnit::Seconds, RawTime::Float(f64::NAN), Reading::Bad),
            (TimeUnit::Seconds, RawTime::Float(f64::NEG_INFINITY), Reading::Bad),
            (TimeUnit::Seconds, RawTime::Float(f64::MAX), Reading::Bad),
            (TimeUnit::Seconds, RawTime::Float(f64::MIN_POSITIVE), at(0)),
            (TimeUnit::Millis, RawTime::Int(i64::MIN), at(i64::MIN)),
            (TimeUnit::Millis, RawTime::Float(-1.5), at(-2)),
            (TimeUnit::Micros, RawTime::Int(1_713_970_368_649_500), at(1_713_970_368_650)),
            (TimeUnit::Micros, RawTime::Int(-1_499), at(-1)),
            (TimeUnit::Nanos, RawTime::Uint(u64::MAX), at(18_446_744_073_710)),
            (TimeUnit::Nanos, RawTime::Other, Reading::Bad),
            (TimeUnit::Nanos, RawTime::Null, Reading::Missing),
        ] {
            assert_eq!(fields(&[("/t", TimeFormat::Epoch(unit))]).read(0, raw), expected, "{raw:?}");
        }
        let written = fields(&[("/t", TimeFormat::Rfc3339)]);
        assert_eq!(written.read(0, RawTime::Float(2.0)), Reading::Bad);
        assert_eq!(written.read(7, RawTime::Float(2.0)), Reading::Missing, "no such candidate");
    }

    #[test]
    fn f108_f112_the_first_candidate_that_says_something_counts_also_when_it_is_bad() {
        let reader = fields(&[
            ("/time", TimeFormat::Iso { zone: None, unit: None }),
            ("/ts", TimeFormat::Epoch(TimeUnit::Seconds)),
            ("/received_at", TimeFormat::Rfc3339),
        ]);
        assert_eq!(reader.candidates(), ["/time", "/ts", "/received_at"]);
        let read = |raws: [RawTime<'_>; 3]| {
            let readings: Vec<Reading> = raws.iter().enumerate().map(|(index, raw)| reader.read(index, *raw)).collect();
            reader.resolve(&readings)
        };
        let event = |millis| Ok(DecodedTime::Event(EventTime::from_millis(millis)));
        let received = RawTime::Text("2024-04-24T14:52:48Z");
        let text = RawTime::Text;
        assert_eq!(read([RawTime::Null, RawTime::Number("1713970368"), received]), event(1_713_970_368_000));
        assert_eq!(read([text("2024-04-24T14:52:48.5Z"), RawTime::Null, received]), event(1_713_970_368_500));
        assert_eq!(read([text(""), RawTime::Null, received]), event(1_713_970_368_000));
        assert_eq!(read([text("0001-01-01T00:00:00Z"), RawTime::Null, received]), event(1_713_970_368_000), "F106");
        assert_eq!(read([text("2024-04-24T14:52:48"), RawTime::Null, received]), event(1_713_970_368_000), "F109");
        assert_eq!(read([RawTime::Null, text("soon"), received]), Err(RejectReason::BadTime));
        assert_eq!(read([RawTime::Null, RawTime::Number("12"), received]), Err(RejectReason::BeforeMinTime), "F110");
        assert_eq!(read([RawTime::Null, text(""), text("")]), Err(RejectReason::MissingTime), "F23");
        assert_eq!(read([text("2024-04-24T14:52:48"), RawTime::Null, text("")]), Err(RejectReason::MissingTime));
        assert_eq!(reader.resolve(&[]), Err(RejectReason::MissingTime));
    }

    #[test]
    fn f110_f114_a_clock_that_is_not_set_is_the_receive_time_where_that_is_allowed() {
        let candidates = vec![TimeCandidate { pointer: "/ts".into(), format: TimeFormat::Epoch(TimeUnit::Seconds) }];
        let time = TimeSpec::Fields { candidates, missing: REJECT, bad: TimeFallback::Receive };
        let reader = reader(time, Some(946_684_800_000));
        for digits in ["0", "1", "13", "86400", "-3600", "946684799"] {
            let reading = reader.read(0, RawTime::Number(digits));
            assert_eq!(reader.resolve(&[reading]), Ok(DecodedTime::Receive), "{digits}");
        }
    }

    #[test]
    fn a_format_s_own_time_counts_where_it_is_configured_and_in_the_unit_that_is() {
        let told = own(None);
        assert_eq!(told.read_own(OwnTime::Epoch("1713970368.65", TimeUnit::Seconds)), at(1_713_970_368_650));
        assert_eq!(told.read_own(OwnTime::Epoch("1713970368650000000", TimeUnit::Nanos)), at(1_713_970_368_650));
        assert_eq!(told.read_own(OwnTime::Epoch("", TimeUnit::Seconds)), Reading::Missing);
        assert_eq!(told.read_own(OwnTime::Millis(1_713_970_368_650)), at(1_713_970_368_650));
        let seconds = own(Some(TimeUnit::Seconds));
        assert_eq!(seconds.read_own(OwnTime::Epoch("1713970368", TimeUnit::Nanos)), at(1_713_970_368_000), "F101");
        assert_eq!(seconds.read_own(OwnTime::Millis(1_713_970_368)), at(1_713_970_368_000));
        assert_eq!(told.resolve(&[]), Err(RejectReason::MissingTime));
        assert_eq!(told.resolve(&[Reading::Relative(-5_000)]), Ok(DecodedTime::Relative(-5_000)));
        assert_eq!(told.read_own(OwnTime::Relative(-268_435_455_999)), Reading::Relative(-268_435_455_999));
        assert_eq!(told.read_own(OwnTime::Relative(-268_435_456_000)), Reading::Bad);
        assert_eq!(told.read_own(OwnTime::Relative(i64::MIN)), Reading::Bad);
        let fields = fields(&[("/t", TimeFormat::Rfc3339)]);
        assert_eq!(fields.read_own(OwnTime::Millis(1)), Reading::Missing);
        assert_eq!(reader(TimeSpec::Receive, None).resolve(&[at(1)]), Ok(DecodedTime::Receive));
    }
}
