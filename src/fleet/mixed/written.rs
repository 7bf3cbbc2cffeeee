//! Moments as devices write them down. On purpose not the engine's library for dates: what
//! is written here is what that has to read.

use crate::model::time::EventTime;

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;

/// Minutes by which clocks in Berlin are ahead of UTC, by the rule of 1996: it is summer from
/// 01:00 UTC on the last Sunday of March to 01:00 UTC on the last Sunday of October.
pub(super) fn berlin(at: EventTime) -> i64 {
    let day = at.as_millis().div_euclid(DAY_MS);
    let (_, month, of_month) = date(day);
    let changes = |day: i64, of_month: i64| (day - of_month + last_sunday(day, of_month)) * DAY_MS + HOUR_MS;
    let summer = match month {
        4..=9 => true,
        3 => at.as_millis() >= changes(day, of_month),
        10 => at.as_millis() < changes(day, of_month),
        _ => false,
    };
    if summer { 120 } else { 60 }
}

/// The day of the month, of 31 days, that is its last Sunday. `day` is its day `of_month`.
fn last_sunday(day: i64, of_month: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    let weekday_of_31 = (day - of_month + 31 + 4).rem_euclid(7);
    31 - weekday_of_31
}

/// `2024-03-31T01:30:00`, so many minutes east of Greenwich; what is below a second is cut.
pub(super) fn local(at: EventTime, east_min: i64) -> String {
    let shown = at.as_millis() + east_min * 60_000;
    let (year, month, day) = date(shown.div_euclid(DAY_MS));
    let seconds = shown.rem_euclid(DAY_MS) / 1_000;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// `2024-03-31T00:30:00.123Z`.
pub(super) fn utc(at: EventTime) -> String {
    format!("{}.{:03}Z", local(at, 0), at.as_millis().rem_euclid(1_000))
}

/// As `at` without what is below `unit_ms`.
pub(super) fn cut(at: EventTime, unit_ms: i64) -> EventTime {
    EventTime::from_millis(at.as_millis().div_euclid(unit_ms) * unit_ms)
}

/// Year, month and day of a day since 1970, which it is not before.
fn date(mut days: i64) -> (i64, i64, i64) {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(leap(year)) {
        days -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::super::START;
    use super::*;
    use crate::model::time::Span;

    #[test]
    fn an_hour_is_skipped_in_berlin_half_an_hour_after_the_start() {
        let at = |seconds| START + Span::from_secs(seconds);
        let shown = |at| local(at, berlin(at));
        assert_eq!(shown(at(0)), "2024-03-31T01:30:00");
        assert_eq!(shown(at(1_799)), "2024-03-31T01:59:59");
        assert_eq!(shown(at(1_800)), "2024-03-31T03:00:00");
    }

    #[test]
    fn clocks_in_berlin_change_twice_a_year() {
        let east = |millis: i64| berlin(EventTime::from_millis(millis));
        let spring_2024 = 1_711_846_800_000;
        let autumn_2024 = 1_729_990_800_000;
        let spring_2026 = 1_774_746_000_000;
        assert_eq!([spring_2024 - 1, spring_2024].map(east), [60, 120]);
        assert_eq!([autumn_2024 - 1, autumn_2024].map(east), [120, 60]);
        assert_eq!([spring_2026 - 1, spring_2026].map(east), [60, 120]);
        assert_eq!([1_796_083_200_000, 1_783_000_000_000].map(east), [60, 120], "December and July");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let text = |millis| utc(EventTime::from_millis(millis));
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(text(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(text(1_735_689_599_000), "2024-12-31T23:59:59.000Z");
        assert_eq!(cut(EventTime::from_millis(12_345), 1_000), EventTime::from_millis(12_000));
    }
}
