//! Dates and times in a configured pattern, as `strptime` knows them; jiff reads them.

use jiff::civil::{DateTime, datetime};
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Zoned};

use super::local::Local;
use super::{Reading, TIME_TEXT_BYTES_MAX, is_year_one, reading_of};

/// A pattern, and where its clock is.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    local: Option<Local>,
}

/// Whether a pattern alone makes a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternZone {
    /// It has an offset (`%z` and its like), or is a moment (`%s`).
    Said,
    /// It is what a clock shows, somewhere.
    Needed,
}

/// Whether times can be read by `pattern`: it must read back what it writes, and name a
/// day.
///
/// # Errors
/// What is wrong with it, as a sentence without its subject.
pub fn check_pattern(pattern: &str) -> Result<PatternZone, String> {
    const TRIALS: [(DateTime, i32); 2] = [
        (datetime(2024, 10, 23, 17, 41, 59, 0), 2 * 3_600),
        // Each part with one digit, in the other half of the day, west of Greenwich.
        (datetime(2031, 2, 3, 4, 5, 6, 0), -9_000),
    ];
    if pattern.len() > TIME_TEXT_BYTES_MAX {
        return Err(format!("is longer than {TIME_TEXT_BYTES_MAX} bytes"));
    }
    if directives(pattern).any(|letter| matches!(letter, 'Q' | 'Z')) {
        return Err("reads names of zones (`%Q`, `%Z`): only offsets (`%z`, `%:z`) can be read".to_owned());
    }
    if directives(pattern).any(|letter| letter == 's') && directives(pattern).any(|letter| letter != 's') {
        return Err("has `%s` beside other parts: `%s` is the whole time; `unit` reads fractions too".to_owned());
    }
    let mut said = true;
    for (clock, seconds) in TRIALS {
        let offset = Offset::from_seconds(seconds).map_err(|error| error.to_string())?;
        let sample = clock.to_zoned(TimeZone::fixed(offset)).map_err(|error| error.to_string())?;
        said &= check_sample(pattern, &sample)?;
    }
    Ok(if said { PatternZone::Said } else { PatternZone::Needed })
}

/// Whether `pattern` says an offset.
fn check_sample(pattern: &str, sample: &Zoned) -> Result<bool, String> {
    let text = strtime::format(pattern, sample).map_err(|error| format!("is no pattern: {error}"))?;
    let parts = strtime::parse(pattern, &text).map_err(|error| format!("cannot read back `{text}`: {error}"))?;
    if let Some(moment) = parts.timestamp() {
        return if moment == sample.timestamp() { Ok(true) } else { Err(format!("reads `{text}` as {moment}")) };
    }
    let clock = parts.to_datetime().map_err(|error| format!("names no day with a year, or no full time: {error}"))?;
    if parts.hour().is_some_and(|hour| hour != sample.hour()) {
        return Err("has hours from 1 to 12 (`%I`, `%l`) without `%p`".to_owned());
    }
    if clock.date() != sample.date() {
        return Err(format!("reads the day of `{text}` as {}", clock.date()));
    }
    Ok(parts.offset().is_some())
}

/// The letters after the `%` of `pattern`.
fn directives(pattern: &str) -> impl Iterator<Item = char> {
    let mut letters = pattern.chars();
    core::iter::from_fn(move || {
        letters.by_ref().find(|letter| *letter == '%')?;
        letters.by_ref().find(|letter| letter.is_ascii_alphabetic() || *letter == '%')
    })
    .filter(|letter| *letter != '%')
}

impl Pattern {
    /// `local`: needed where `text` has no offset.
    pub(super) fn new(text: &str, local: Option<Local>) -> Pattern {
        Pattern { text: text.to_owned(), local }
    }

    /// `text` as a moment, cut to the millisecond in which it lies.
    pub(super) fn read(&self, text: &str) -> Reading {
        if text.len() > TIME_TEXT_BYTES_MAX {
            return Reading::Bad;
        }
        let Ok(parts) = strtime::parse(&self.text, text) else { return Reading::Bad };
        if let Some(moment) = parts.timestamp() {
            return reading_of(Some(moment.as_millisecond()));
        }
        let Ok(clock) = parts.to_datetime() else { return Reading::Bad };
        if is_year_one(clock) {
            return Reading::Missing;
        }
        let cut = clock.subsec_nanosecond().rem_euclid(1_000_000);
        let Ok(whole) = clock.checked_sub(SignedDuration::from_nanos(i64::from(cut))) else { return Reading::Bad };
        let millis = match (parts.offset(), &self.local) {
            (Some(offset), _) => offset.to_timestamp(whole).ok().map(jiff::Timestamp::as_millisecond),
            (None, Some(local)) => local.millis(whole),
            (None, None) => return Reading::NoZone,
        };
        let leap = clock.second() == 59 && self.is_leap(text, clock);
        reading_of(millis.map(|millis| if leap { millis.saturating_add(1_000) } else { millis }))
    }

    /// jiff reads second 60 as 59. It was a 60 when some 60 in the text can be a 59 and
    /// the text still says `clock`.
    fn is_leap(&self, text: &str, clock: DateTime) -> bool {
        text.match_indices("60").any(|(at, sixty)| {
            let other = format!("{}59{}", &text[..at], &text[at + sixty.len()..]);
            strtime::parse(&self.text, other).and_then(|parts| parts.to_datetime()).is_ok_and(|read| read == clock)
        })
    }
}
