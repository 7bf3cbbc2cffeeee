//! The event time of a record, from the digits that stand in the payload.
//!
//! | configured | accepted | to the millisecond |
//! |---|---|---|
//! | `s`, `ms` | JSON number, or string of one; exact in decimal, never through `f64` | rounded, half away from zero |
//! | `rfc3339` | string with an offset or `Z`; `T`/`t`/blank; up to 9 digits of fraction | the millisecond it lies in |
//!
//! Epochs are rounded because devices print floats (`…368.6499999`); a written
//! date is cut, so that it stays in the window in which it lies. A leap second
//! (`:60`) is the first second of the next minute. Absent, null, an empty string
//! and year 1 (the zero time of several languages) are a *missing* time; what
//! does not fit 64-bit milliseconds or is not in the format is a *bad* one, and
//! so is a time before `min_time`.

use crate::engine::spec::{StreamSpec, TimeFallback, TimeFormat, TimeSpec};
use crate::model::record::RejectReason;
use crate::model::time::EventTime;

use super::DecodedTime;

/// 0001-01-01T00:00:00Z.
const YEAR_ONE_MS: i64 = -62_135_596_800_000;
/// Significant digits that are kept: 36.
const DIGITS_FULL: u128 = 10_u128.pow(35);
/// Longest text that can be a time.
const TIME_TEXT_BYTES_MAX: usize = 64;

/// The value of the time field, as the payload has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum RawTime<'p> {
    /// Digits of a JSON number.
    Number(&'p str),
    /// A string.
    Text(&'p str),
    /// null.
    Null,
    /// A bool, an object, an array.
    Other,
}

/// What the time field of one record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Reading {
    /// Nothing.
    #[default]
    Missing,
    /// A time.
    At(EventTime),
    /// Something that is no time.
    Bad,
}

/// How the times of one stream are read.
#[derive(Clone, Debug)]
pub(super) struct TimeReader {
    /// `None`: the receive time.
    field: Option<FieldRules>,
}

#[derive(Clone, Copy, Debug)]
struct FieldRules {
    format: TimeFormat,
    missing: TimeFallback,
    bad: TimeFallback,
    min: Option<EventTime>,
}

impl TimeReader {
    /// The rules of `spec`.
    pub(super) fn new(spec: &StreamSpec) -> TimeReader {
        let field = match &spec.time {
            TimeSpec::Receive => None,
            TimeSpec::Field { format, missing, bad, .. } => {
                Some(FieldRules { format: *format, missing: *missing, bad: *bad, min: spec.min_time })
            }
        };
        TimeReader { field }
    }

    /// Reads the time field.
    pub(super) fn read(&self, raw: RawTime<'_>) -> Reading {
        match &self.field {
            Some(rules) => read(rules.format, raw),
            None => Reading::Missing,
        }
    }

    /// Applies the fallbacks and `min_time`.
    pub(super) fn resolve(&self, reading: Reading) -> Result<DecodedTime, RejectReason> {
        let Some(rules) = &self.field else { return Ok(DecodedTime::Receive) };
        let (fallback, reason) = match reading {
            Reading::At(at) if rules.min.is_none_or(|min| min <= at) => return Ok(DecodedTime::Event(at)),
            Reading::At(_) => (rules.bad, RejectReason::BeforeMinTime),
            Reading::Bad => (rules.bad, RejectReason::BadTime),
            Reading::Missing => (rules.missing, RejectReason::MissingTime),
        };
        match fallback {
            TimeFallback::Reject => Err(reason),
            TimeFallback::Receive => Ok(DecodedTime::Receive),
        }
    }
}

fn read(format: TimeFormat, raw: RawTime<'_>) -> Reading {
    let millis = match (raw, format) {
        (RawTime::Null, _) => return Reading::Missing,
        (RawTime::Text(text), _) if text.trim_ascii().is_empty() => return Reading::Missing,
        (RawTime::Number(text) | RawTime::Text(text), TimeFormat::EpochSeconds) => read_decimal(text.trim_ascii(), 3),
        (RawTime::Number(text) | RawTime::Text(text), TimeFormat::EpochMillis) => read_decimal(text.trim_ascii(), 0),
        (RawTime::Text(text), TimeFormat::Rfc3339) => read_rfc3339(text.trim_ascii()),
        (RawTime::Number(_), TimeFormat::Rfc3339) | (RawTime::Other, _) => None,
    };
    match millis {
        Some(YEAR_ONE_MS) => Reading::Missing,
        Some(millis) => Reading::At(EventTime::from_millis(millis)),
        None => Reading::Bad,
    }
}

/// `text * 10^scale` as an integer, rounded half away from zero; exact, however
/// many digits there are. `None` when it is no decimal number or does not fit.
pub(super) fn read_decimal(text: &str, scale: i64) -> Option<i64> {
    let (negative, text) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (mantissa, ""),
    };
    if whole.is_empty() {
        return None;
    }
    // The first 36 significant digits decide; what comes after them can neither
    // change an i64 nor its rounding, because halves round away from zero.
    let mut digits = 0_u128;
    let mut power = exponent.saturating_add(scale);
    for (index, byte) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        let full = digits >= DIGITS_FULL;
        if !full {
            digits = digits * 10 + u128::from(digit);
        }
        match (full, index < whole.len()) {
            (true, true) => power = power.saturating_add(1),
            (false, false) => power = power.saturating_sub(1),
            (true, false) | (false, true) => {}
        }
    }
    let magnitude = scale_rounded(digits, power)?;
    let signed = i128::try_from(magnitude).ok()?;
    i64::try_from(if negative { -signed } else { signed }).ok()
}

fn scale_rounded(digits: u128, power: i64) -> Option<u128> {
    if digits == 0 {
        return Some(0);
    }
    let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10_u128.checked_pow(power));
    match (factor, power >= 0) {
        (Some(factor), true) => digits.checked_mul(factor),
        (None, true) => None,
        (Some(factor), false) => {
            let up = digits % factor >= factor.div_ceil(2);
            Some(digits / factor + u128::from(up))
        }
        (None, false) => Some(0),
    }
}

fn read_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse().unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}

/// RFC 3339 to milliseconds.
fn read_rfc3339(text: &str) -> Option<i64> {
    // jiff knows further forms of ISO 8601 (basic format, a zone in brackets,
    // hours alone): not what is configured, and no guess is made.
    let fixed = text.as_bytes().get(..19)?;
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = fixed.iter().zip(shape).all(|(byte, shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        other => byte == other,
    });
    if !fits || text.len() > TIME_TEXT_BYTES_MAX || !text.is_ascii() || text.ends_with(']') {
        return None;
    }
    let leap = &fixed[17..] == b"60";
    let mut buffer = heapless::String::<TIME_TEXT_BYTES_MAX>::new();
    let text = if leap {
        buffer.push_str(&text[..17]).ok()?;
        buffer.push_str("59").ok()?;
        buffer.push_str(&text[19..]).ok()?;
        buffer.as_str()
    } else {
        text
    };
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    let millis = i64::try_from(timestamp.as_nanosecond().div_euclid(1_000_000)).ok()?;
    if fixed.starts_with(b"0001-01-01") {
        return Some(YEAR_ONE_MS);
    }
    Some(if leap { millis.saturating_add(1_000) } else { millis })
}

/// A guess, for a person, at why the time field `raw` (as it stands in the
/// payload, without quotes) led to `reason`.
pub fn hint(reason: RejectReason, format: TimeFormat, raw: &str) -> Option<&'static str> {
    match reason {
        RejectReason::BadTime | RejectReason::BeforeMinTime => {
            unit_guess(format, raw).or_else(|| clock_guess(format, raw))
        }
        RejectReason::MissingTime if raw.starts_with("0001-") => {
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
        | RejectReason::BadAvailability => None,
    }
}

/// A guess at the unit, where `raw` would be a time between 2000 and 2100 in
/// another one than the configured. Also for times in the future: milliseconds
/// read as seconds lie there.
pub fn unit_guess(format: TimeFormat, raw: &str) -> Option<&'static str> {
    const FROM: i64 = 946_684_800_000;
    const TO: i64 = 4_102_444_800_000;
    let raw = raw.trim_ascii();
    let plausible = |scale| read_decimal(raw, scale).is_some_and(|millis| (FROM..TO).contains(&millis));
    let written = read_rfc3339(raw).is_some();
    match format {
        TimeFormat::EpochMillis if plausible(3) => Some("looks like seconds, configured ms"),
        TimeFormat::EpochMillis if plausible(-3) => Some("looks like microseconds, configured ms"),
        TimeFormat::EpochMillis if plausible(-6) => Some("looks like nanoseconds, configured ms"),
        TimeFormat::EpochMillis if written => Some("looks like RFC 3339, configured ms"),
        TimeFormat::EpochSeconds if plausible(0) => Some("looks like milliseconds, configured s"),
        TimeFormat::EpochSeconds if plausible(-3) => Some("looks like microseconds, configured s"),
        TimeFormat::EpochSeconds if plausible(-6) => Some("looks like nanoseconds, configured s"),
        TimeFormat::EpochSeconds if written => Some("looks like RFC 3339, configured s"),
        TimeFormat::Rfc3339 if plausible(3) => Some("looks like seconds, configured rfc3339"),
        TimeFormat::Rfc3339 if plausible(0) => Some("looks like milliseconds, configured rfc3339"),
        TimeFormat::EpochMillis | TimeFormat::EpochSeconds | TimeFormat::Rfc3339 => None,
    }
}

fn clock_guess(format: TimeFormat, raw: &str) -> Option<&'static str> {
    match read(format, RawTime::Text(raw)) {
        Reading::At(at) if (0..315_532_800_000).contains(&at.as_millis()) => {
            Some("a time in the 1970s: the device's clock is not set; `bad = \"receive\"` would use the receive time")
        }
        Reading::Bad if read_rfc3339(&format!("{}Z", raw.trim_ascii())).is_some() => {
            Some("a local time without an offset; RFC 3339 ends with `Z` or `+hh:mm`")
        }
        Reading::At(_) | Reading::Bad | Reading::Missing => None,
    }
}
