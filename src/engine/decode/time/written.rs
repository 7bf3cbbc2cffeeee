//! Dates and times as people and RFC 3339 write them.
//!
//! jiff reads further forms of ISO 8601 (week dates, a zone in brackets) and refuses some
//! that devices send, so the text is read here and jiff is left the calendar.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;

use super::local::Local;
use super::{Reading, TIME_TEXT_BYTES_MAX, is_year_one, reading_of};

/// What a text without an offset means.
#[derive(Clone, Debug)]
pub(super) enum Naive {
    /// It is not in the format (RFC 3339).
    Bad,
    /// Nobody knows (ISO without a zone).
    NoZone,
    /// The time of a zone.
    Local(Local),
}

/// What one text says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    clock: DateTime,
    /// The second was 60; `clock` says 59.
    leap: bool,
    /// Where the clock is.
    offset: Option<Offset>,
}

/// `text` as a moment. `basic`: `20241023T174100Z` is one too.
pub(super) fn read(text: &str, basic: bool, naive: &Naive) -> Reading {
    let Some(stamp) = Stamp::parse(text, basic) else { return Reading::Bad };
    if is_year_one(stamp.clock) {
        return Reading::Missing;
    }
    let millis = match (stamp.offset, naive) {
        (Some(offset), _) => offset.to_timestamp(stamp.clock).ok().map(jiff::Timestamp::as_millisecond),
        (None, Naive::Local(local)) => local.millis(stamp.clock),
        (None, Naive::NoZone) => return Reading::NoZone,
        (None, Naive::Bad) => return Reading::Bad,
    };
    reading_of(millis.map(|millis| if stamp.leap { millis.saturating_add(1_000) } else { millis }))
}

impl Stamp {
    /// Reads all of `text`.
    pub(super) fn parse(text: &str, basic: bool) -> Option<Stamp> {
        if text.len() > TIME_TEXT_BYTES_MAX {
            return None;
        }
        let mut rest = Rest(text.as_bytes());
        let year = i16::try_from(rest.digits(4)?).ok()?;
        let marks = !(basic && rest.is_digit());
        let month = rest.after(b'-', marks)?.two()?;
        let day = rest.after(b'-', marks)?.two()?;
        rest.one_of(b"Tt ")?;
        let hour = rest.two()?;
        let minute = rest.after(b':', marks)?.two()?;
        let has_seconds = if marks { rest.one_of(b":").is_some() } else { rest.is_digit() };
        let second = if has_seconds { rest.two()? } else { 0 };
        let nanos = if has_seconds && rest.one_of(b".,").is_some() { rest.millis()? * 1_000_000 } else { 0 };
        let offset = if rest.0.is_empty() { None } else { Some(rest.offset()?) };
        if !rest.0.is_empty() {
            return None;
        }
        let leap = second == 60;
        let time = Time::new(hour, minute, if leap { 59 } else { second }, nanos).ok()?;
        let clock = DateTime::from_parts(Date::new(year, month, day).ok()?, time);
        Some(Stamp { clock, leap, offset })
    }

    /// Whether the text says where its clock is.
    pub(super) fn has_offset(self) -> bool {
        self.offset.is_some()
    }
}

/// What is left of a text.
struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    fn is_digit(&self) -> bool {
        self.0.first().is_some_and(u8::is_ascii_digit)
    }

    /// Passes one of `bytes`.
    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        bytes.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// What comes after `mark`, where there are marks.
    fn after(&mut self, mark: u8, marks: bool) -> Option<&mut Self> {
        if marks {
            self.one_of(&[mark])?;
        }
        Some(self)
    }

    /// `count` digits, at most 4.
    fn digits(&mut self, count: usize) -> Option<u16> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0_u16, |value, byte| {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
            Some(value * 10 + u16::from(digit))
        })
    }

    fn two(&mut self) -> Option<i8> {
        self.digits(2).and_then(|value| i8::try_from(value).ok())
    }

    /// One digit of a fraction or more; what is below a millisecond is cut, so that the
    /// record stays in the window in which it lies.
    fn millis(&mut self) -> Option<i32> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let kept = digits.iter().copied().chain(core::iter::repeat(b'0')).take(3);
        (count > 0).then(|| kept.fold(0, |millis, byte| millis * 10 + i32::from(byte - b'0')))
    }

    /// `Z`, `UTC`, `+hh:mm`, `+hhmm`, `+hh`, each after a blank or none.
    fn offset(&mut self) -> Option<Offset> {
        let _ = self.one_of(b" ");
        if let Some(rest) = self.0.strip_prefix(b"UTC") {
            self.0 = rest;
            return Some(Offset::UTC);
        }
        let sign = match self.one_of(b"Zz+-")? {
            b'+' => 1,
            b'-' => -1,
            _ => return Some(Offset::UTC),
        };
        let hours = i32::from(self.two()?);
        let minutes = if self.one_of(b":").is_some() || self.is_digit() { i32::from(self.two()?) } else { 0 };
        if hours > 23 || minutes > 59 {
            return None;
        }
        Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()
    }
}
