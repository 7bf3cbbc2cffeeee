//! Quantities on the command line: durations, shares, moments, rates.

use core::str::FromStr;
use std::time::Duration;

use crate::fleet::load::{Share, Wire};
use crate::model::time::EventTime;

/// Longest duration, a year: nothing that is computed from it overflows.
const DURATION_MAX: Duration = Duration::from_hours(366 * 24);
const UNITS: [(&str, f64); 6] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
/// Messages per second; more is `max`.
const RATE_MAX: u64 = 10_000_000;

/// How fast a whole fleet sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many messages.
    PerSecond(u64),
    /// As fast as the broker acknowledges.
    Max,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        if text == "max" {
            return Ok(Rate::Max);
        }
        match text.parse() {
            Ok(0) => Ok(Rate::Max),
            Ok(rate @ 1..=RATE_MAX) => Ok(Rate::PerSecond(rate)),
            Ok(_) | Err(_) => Err(format!("expected messages per second up to {RATE_MAX}, or max")),
        }
    }
}

/// `500ms`, `10s`, `1.5h`; seconds when there is no unit.
pub(in crate::cli) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a duration such as 500ms, 10s, 5m or 2h, of a year at most".to_owned();
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1.0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    if duration > DURATION_MAX { Err(wrong()) } else { Ok(duration) }
}

/// Per cent, `2` or `0.1%`.
pub(super) fn share(text: &str) -> Result<Share, String> {
    let number: f64 = text.strip_suffix('%').unwrap_or(text).parse().unwrap_or(f64::NAN);
    if !(0.0..=100.0).contains(&number) {
        return Err("expected per cent, from 0 to 100".into());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1,000,000")]
    let per_million = (number * 10_000.0).round() as u32;
    Ok(Share::per_million(per_million))
}

/// RFC 3339, or milliseconds since 1970.
pub(super) fn moment(text: &str) -> Result<EventTime, String> {
    if let Ok(millis) = text.parse() {
        return Ok(EventTime::from_millis(millis));
    }
    let found: Result<jiff::Timestamp, _> = text.parse();
    found
        .map(|moment| EventTime::from_millis(moment.as_millisecond()))
        .map_err(|_| "expected a time such as 2026-03-01T12:00:00Z, or milliseconds since 1970".into())
}

/// As RFC 3339; milliseconds where the calendar ends.
pub(super) fn shown(moment: EventTime) -> String {
    let millis = moment.as_millis();
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |moment| moment.to_string())
}

/// One of the formats by name.
pub(super) fn wire(text: &str) -> Result<Wire, String> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds() {
        for (text, micros) in
            [("10", 10_000_000), ("500ms", 500_000), ("1.5s", 1_500_000), ("250us", 250), ("2m", 120_000_000), ("0", 0)]
        {
            assert_eq!(time(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for wrong in ["", "s", "10 s", "-1", "10x", "nan", "inf", "1e30", "9999d", "1µs"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_is_per_cent() {
        assert_eq!(share("2"), Ok(Share::per_million(20_000)));
        assert_eq!(share("0.1%"), Ok(Share::per_million(1_000)));
        for wrong in ["", "-1", "101", "x", "nan"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_moment_is_a_date_or_a_count_of_milliseconds() {
        let at = EventTime::from_millis(1_700_000_000_000);
        assert_eq!(moment("1700000000000"), Ok(at));
        assert_eq!(moment("2023-11-14T22:13:20Z"), Ok(at));
        assert_eq!(moment(&shown(at)), Ok(at));
        assert!(moment("yesterday").is_err());
        assert_eq!(shown(EventTime::MAX), i64::MAX.to_string());
    }

    #[test]
    fn a_rate_is_a_number_or_max() {
        assert_eq!("max".parse(), Ok(Rate::Max));
        assert_eq!("0".parse(), Ok(Rate::Max));
        assert_eq!("30000".parse(), Ok(Rate::PerSecond(30_000)));
        assert!("fast".parse::<Rate>().is_err() && "-1".parse::<Rate>().is_err());
    }
}
