//! Event times as people write them: every way to write one moment, local times of a zone
//! on the days on which its clocks jump, and patterns.

use proptest::prelude::*;
use tidegate::engine::decode::explain;
use tidegate::engine::decode::time::{PatternZone, check_pattern};
use tidegate::engine::spec::{FieldsSpec, GapPolicy, OverlapPolicy, TimeFormat, ZonedRules};
use tidegate::engine::window::calendar::Zone;
use tidegate::model::record::RejectReason::{self, *};

use super::{at, stream, strict};

fn berlin(gap: GapPolicy, overlap: OverlapPolicy) -> ZonedRules {
    ZonedRules { zone: Zone::find("Europe/Berlin").unwrap(), gap, overlap }
}

fn in_berlin() -> ZonedRules {
    berlin(GapPolicy::Reject, OverlapPolicy::Earlier)
}

/// The moment that `text` is, as `format` reads it.
fn moment(format: TimeFormat, text: &str) -> Result<String, RejectReason> {
    let millis = at(format, &format!("{text:?}"))?;
    Ok(jiff::Timestamp::from_millisecond(millis).unwrap().to_string())
}

/// Days since 1970 by counting years and months, one by one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let years: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    years + lengths.iter().take(usize::try_from(month).unwrap() - 1).sum::<i64>() + day - 1
}

#[test]
fn f104_the_hour_of_the_report_is_1708671600_with_and_without_a_fraction() {
    for text in ["2024-02-23T15:00:00+08:00", "2024-02-23T15:00:00.0+08:00", "2024-02-23 15:00:00.000000 +0800"] {
        for format in [TimeFormat::Rfc3339, TimeFormat::Iso { zone: Some(in_berlin()), unit: None }] {
            assert_eq!(at(format, &format!("\"{text}\"")), Ok(1_708_671_600_000), "{text}");
        }
    }
}

proptest! {
    #[test]
    fn f104_fraction_times_offset_times_separator(
        (year, month, day) in (1970_i64..2100, 1_i64..13, 1_i64..29),
        (hour, minute, second) in (0_i64..24, 0_i64..60, 0_i64..60),
        fraction in "([.,][0-9]{1,12})?",
        (west, offset_hours, offset_minutes) in (any::<bool>(), 0_i64..24, 0_i64..60),
        style in 0..6,
        separator in prop::sample::select(vec!['T', 't', ' ']),
        blank in prop::sample::select(vec!["", " "]),
    ) {
        let sign = if west { '-' } else { '+' };
        let (offset, minutes) = match style {
            0 => ("Z".to_owned(), 0),
            1 => ("z".to_owned(), 0),
            2 => ("UTC".to_owned(), 0),
            3 => (format!("{sign}{offset_hours:02}"), offset_hours * 60),
            4 => (format!("{sign}{offset_hours:02}{offset_minutes:02}"), offset_hours * 60 + offset_minutes),
            _ => (format!("{sign}{offset_hours:02}:{offset_minutes:02}"), offset_hours * 60 + offset_minutes),
        };
        let minutes = if west { -minutes } else { minutes };
        let text = format!(
            "\"{year:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}{fraction}{blank}{offset}\""
        );
        let digits = format!("{:0<3}", fraction.trim_start_matches(['.', ',']));
        let millis: i64 = digits[..3].parse().unwrap();
        let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + (minute - minutes) * 60 + second;
        prop_assert_eq!(at(TimeFormat::Rfc3339, &text), Ok(seconds * 1_000 + millis), "{}", text);
        prop_assert_eq!(at(TimeFormat::Iso { zone: None, unit: None }, &text), Ok(seconds * 1_000 + millis), "{}", text);
    }

    #[test]
    fn any_text_in_any_format_is_an_answer_and_no_panic(text in "[0-9TZ:+. -]{0,40}|\\PC{0,20}") {
        let pattern = |pattern: &str| TimeFormat::Pattern { pattern: pattern.into(), zone: Some(in_berlin()) };
        let json = serde_json::to_string(&text).unwrap();
        for format in [
            TimeFormat::Rfc3339,
            TimeFormat::Iso { zone: Some(in_berlin()), unit: None },
            pattern("%d.%m.%Y %H:%M:%S"),
            pattern("%Y%m%d%H%M%S"),
            pattern("%"),
        ] {
            let _ = at(format, &json);
        }
        let _ = check_pattern(&text);
        let _ = check_pattern(&format!("%Y-%m-%d %{text}"));
    }
}

#[test]
fn f109_a_local_time_is_of_the_zone_that_is_configured_and_without_one_is_no_time() {
    let iso = |zone| TimeFormat::Iso { zone, unit: None };
    assert_eq!(moment(iso(Some(in_berlin())), "2024-07-01T12:00:00"), Ok("2024-07-01T10:00:00Z".into()));
    assert_eq!(moment(iso(Some(in_berlin())), "2024-01-01 12:00:00.25"), Ok("2024-01-01T11:00:00.25Z".into()));
    assert_eq!(moment(iso(Some(in_berlin())), "20240101T1200"), Ok("2024-01-01T11:00:00Z".into()));
    assert_eq!(moment(iso(Some(in_berlin())), "20240101T120000,5Z"), Ok("2024-01-01T12:00:00.5Z".into()));
    // An offset that is there counts.
    assert_eq!(moment(iso(Some(in_berlin())), "2024-07-01T12:00:00-07:00"), Ok("2024-07-01T19:00:00Z".into()));
    assert_eq!(moment(iso(Some(in_berlin())), "2016-12-31T23:59:60"), Ok("2016-12-31T23:00:00Z".into()));
    assert_eq!(moment(iso(Some(in_berlin())), "0001-01-01T00:00:00"), Err(MissingTime));
    assert_eq!(moment(iso(Some(in_berlin())), "2024-07-01"), Err(BadTime));
    assert_eq!(moment(iso(Some(in_berlin())), "2024-07-01T24:00:00"), Err(BadTime));
    assert_eq!(moment(iso(None), "2024-07-01T12:00:00Z"), Ok("2024-07-01T12:00:00Z".into()));
    assert_eq!(moment(iso(None), "2024-07-01T12:00:00"), Err(MissingTime));
    assert_eq!(moment(TimeFormat::Rfc3339, "2024-07-01T12:00:00"), Err(BadTime));
    let spec = stream(FieldsSpec::all(), strict(iso(None)));
    let payload = br#"{"ts":"2024-07-01T12:00:00","v":1}"#;
    assert_eq!(explain(&spec, payload, MissingTime), Some("a local time without an offset and no `zone` configured"));
}

#[test]
fn local_times_that_are_skipped_or_come_twice_are_what_is_configured() {
    use GapPolicy::{Forward, Reject};
    use OverlapPolicy::{Earlier, Later};
    let iso = |gap, overlap| TimeFormat::Iso { zone: Some(berlin(gap, overlap)), unit: None };
    let cases: &[(&str, GapPolicy, OverlapPolicy, Result<&str, RejectReason>)] = &[
        // 31 March 2024: from 02:00 to 03:00.
        ("2024-03-31T01:59:59.999", Reject, Earlier, Ok("2024-03-31T00:59:59.999Z")),
        ("2024-03-31T02:00:00", Reject, Earlier, Err(BadTime)),
        ("2024-03-31T02:30:00", Reject, Earlier, Err(BadTime)),
        ("2024-03-31T03:00:00", Reject, Earlier, Ok("2024-03-31T01:00:00Z")),
        ("2024-03-31T02:00:00", Forward, Earlier, Ok("2024-03-31T01:00:00Z")),
        ("2024-03-31T02:30:00", Forward, Later, Ok("2024-03-31T01:30:00Z")),
        // 27 October 2024: from 03:00 back to 02:00.
        ("2024-10-27T01:59:59", Reject, Earlier, Ok("2024-10-26T23:59:59Z")),
        ("2024-10-27T02:30:00", Reject, Earlier, Ok("2024-10-27T00:30:00Z")),
        ("2024-10-27T02:30:00", Reject, Later, Ok("2024-10-27T01:30:00Z")),
        ("2024-10-27T03:00:00", Reject, Later, Ok("2024-10-27T02:00:00Z")),
    ];
    for (text, gap, overlap, expected) in cases {
        let expected = expected.map(str::to_owned);
        assert_eq!(moment(iso(*gap, *overlap), text), expected, "{text} {gap:?} {overlap:?}");
        let pattern =
            TimeFormat::Pattern { pattern: "%Y-%m-%dT%H:%M:%S%.f".into(), zone: Some(berlin(*gap, *overlap)) };
        assert_eq!(moment(pattern, text), expected, "{text} {gap:?} {overlap:?}, as a pattern");
    }
    let spec = stream(FieldsSpec::all(), strict(iso(Reject, Earlier)));
    let hint = explain(&spec, br#"{"ts":"2024-03-31T02:30:00","v":1}"#, BadTime).unwrap_or_default();
    assert!(hint.contains("skip"), "{hint}");
}

#[test]
fn a_pattern_reads_what_it_names() {
    let cases: &[(&str, &str, Result<&str, RejectReason>)] = &[
        ("%d.%m.%Y %H:%M:%S", "23.10.2024 17:41:09", Ok("2024-10-23T15:41:09Z")),
        ("%Y%m%d%H%M%S", "20241023174109", Ok("2024-10-23T15:41:09Z")),
        ("%Y-%m-%d %H:%M", "2024-12-23 17:41", Ok("2024-12-23T16:41:00Z")),
        ("%Y-%m-%d", "2024-10-23", Ok("2024-10-22T22:00:00Z")),
        ("%m/%d/%y %I:%M %p", "10/23/24 5:41 pm", Ok("2024-10-23T15:41:00Z")),
        ("%d %b %Y %H:%M:%S", "23 oct 2024 17:41:09", Ok("2024-10-23T15:41:09Z")),
        ("%a, %d %b %Y %T %z", "Wed, 23 Oct 2024 17:41:09 -0700", Ok("2024-10-24T00:41:09Z")),
        ("%FT%T%.f%:z", "2024-10-23T17:41:09.1239999+05:30", Ok("2024-10-23T12:11:09.123Z")),
        ("%s", "1729698069", Ok("2024-10-23T15:41:09Z")),
        ("%d.%m.%Y %H:%M:%S", " 31.12.2016 23:59:60 ", Ok("2016-12-31T23:00:00Z")),
        ("%d.%m.%Y %H:%M:%S", "31.12.1960 23:59:59", Ok("1960-12-31T22:59:59Z")),
        ("%d.%m.%Y %H:%M:%S%.f", "31.12.2016 23:59:59.60", Ok("2016-12-31T22:59:59.6Z")),
        // Thursday it was not.
        ("%a, %d %b %Y %T %z", "Thu, 23 Oct 2024 17:41:09 -0700", Err(BadTime)),
        ("%d.%m.%Y %H:%M:%S", "23.10.2024 24:00:00", Err(BadTime)),
        ("%d.%m.%Y %H:%M:%S", "30.02.2024 12:00:00", Err(BadTime)),
        ("%d.%m.%Y %H:%M:%S", "2024-10-23 17:41:09", Err(BadTime)),
        ("%d.%m.%Y %H:%M:%S", "23.10.2024 17:41:09 Z", Err(BadTime)),
        ("%d.%m.%Y %H:%M:%S", "01.01.0001 00:00:00", Err(MissingTime)),
        ("%d.%m.%Y %H:%M:%S", " ", Err(MissingTime)),
    ];
    for (pattern, text, expected) in cases {
        assert!(check_pattern(pattern).is_ok(), "{pattern}");
        let format = TimeFormat::Pattern { pattern: (*pattern).to_owned(), zone: Some(in_berlin()) };
        assert_eq!(moment(format, text), expected.map(str::to_owned), "{text} as {pattern}");
    }
    // Digits that are a number to JSON.
    let digits = TimeFormat::Pattern { pattern: "%Y%m%d%H%M%S".into(), zone: Some(in_berlin()) };
    assert_eq!(at(digits.clone(), "20241023174109"), Ok(1_729_698_069_000));
    assert_eq!(at(digits, "true"), Err(BadTime));
}

#[test]
fn a_pattern_that_cannot_give_moments_is_refused() {
    for (pattern, expected) in [
        ("%d.%m.%Y %H:%M:%S", Ok(PatternZone::Needed)),
        ("%Y-%m-%dT%H:%M:%SZ", Ok(PatternZone::Needed)),
        ("%Y-%j %k:%M", Ok(PatternZone::Needed)),
        ("%d.%m.%Y %H:%M:%S %z", Ok(PatternZone::Said)),
        ("%FT%T%:z", Ok(PatternZone::Said)),
        ("%s", Ok(PatternZone::Said)),
        ("at %s", Ok(PatternZone::Said)),
        ("100%% %F", Ok(PatternZone::Needed)),
        ("%H:%M:%S", Err("names no day")),
        ("%d.%m. %H:%M", Err("names no day")),
        ("%Y-%m %H:%M", Err("names no day")),
        ("%Y-%m-%d %M", Err("no full time")),
        ("%Y-%m-%d %I:%M", Err("without `%p`")),
        ("%Y-%m-%d %E", Err("is no pattern")),
        ("%Y-%m-%d %", Err("is no pattern")),
        ("%Y-%m-%d %H:%M %Z", Err("only offsets")),
        ("%Y-%m-%d %H:%M %Q", Err("only offsets")),
        ("%s.%f", Err("`unit` reads fractions")),
        ("%-d%-m%Y", Err("cannot read back")),
    ] {
        let found = check_pattern(pattern);
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{pattern}"),
            (Err(found), Err(part)) => assert!(found.contains(part), "{pattern}: {found}"),
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("{pattern}: {found:?}"),
        }
    }
    assert!(check_pattern(&"%Y".repeat(33)).is_err());
}
