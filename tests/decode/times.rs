//! Where the event time comes from.

use tidegate::engine::decode::{explain, time};
use tidegate::engine::spec::{FieldsSpec, TimeFallback, TimeFormat, TimeUnit};
use tidegate::model::record::RejectReason::{self, *};

use super::{at, field_time, one, record, stream, strict};

#[test]
fn epochs_are_exact_and_rounded_half_away_from_zero() {
    let (s, ms, us, ns) = (TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos);
    let cases: &[(TimeUnit, &str, Result<i64, RejectReason>)] = &[
        (s, "1713970368.65", Ok(1_713_970_368_650)),
        (s, "1713970368.6499999", Ok(1_713_970_368_650)),
        (s, "1713970368.6495", Ok(1_713_970_368_650)),
        (s, "1713970368.6494999999999999999999999999999999", Ok(1_713_970_368_649)),
        (s, r#""1773480413""#, Ok(1_773_480_413_000)),
        (s, r#"" +1773480413.5 ""#, Ok(1_773_480_413_500)),
        (s, "1.713970368e9", Ok(1_713_970_368_000)),
        (s, "1713970368000e-3", Ok(1_713_970_368_000)),
        (s, "-0.0005", Ok(-1)),
        (s, "-0.0004", Ok(0)),
        (ms, "1773480413212", Ok(1_773_480_413_212)),
        (ms, "1773480413212.5", Ok(1_773_480_413_213)),
        (ms, "-1.5", Ok(-2)),
        (ms, r#""1773480413212""#, Ok(1_773_480_413_212)),
        (ms, "253402300799999", Ok(253_402_300_799_999)),
        // The year 10000: seconds in milliseconds, or some other unit.
        (ms, "253402300800000", Err(BadTime)),
        (ms, "-9007199254740993", Ok(-9_007_199_254_740_993)),
        (ms, "-9223372036854775807", Ok(-i64::MAX)),
        (ms, "9223372036854775808", Err(BadTime)),
        (s, "9223372036854775807", Err(BadTime)),
        (s, "1e300", Err(BadTime)),
        (s, "-1e999999999999999999999", Err(BadTime)),
        (s, "1e-999999999999999999999", Ok(0)),
        (s, "0e999999999999999999999", Ok(0)),
        // F105 and beyond 2^31 and 2^32 seconds.
        (s, "-498365439", Ok(-498_365_439_000)),
        (s, "2147483648", Ok(2_147_483_648_000)),
        (s, "4294967296", Ok(4_294_967_296_000)),
        (s, r#""n/a""#, Err(BadTime)),
        (s, r#""1.""#, Err(BadTime)),
        (s, r#""0x10""#, Err(BadTime)),
        (s, r#""1 2""#, Err(BadTime)),
        (s, r#""-""#, Err(BadTime)),
        (s, r#""nan""#, Err(BadTime)),
        (s, r#""""#, Err(MissingTime)),
        (s, "null", Err(MissingTime)),
        (s, "true", Err(BadTime)),
        (s, "{}", Err(BadTime)),
        (s, "[1713970368]", Err(BadTime)),
        (s, "-62135596800", Err(MissingTime)),
        (us, "1713970368649500", Ok(1_713_970_368_650)),
        (us, "1713970368649499", Ok(1_713_970_368_649)),
        (us, "1713970368649499.999", Ok(1_713_970_368_649)),
        (us, "-1500", Ok(-2)),
        (ns, "1713970368649500000", Ok(1_713_970_368_650)),
        (ns, r#""1713970368649499999""#, Ok(1_713_970_368_649)),
        (ns, "1.713970368e18", Ok(1_713_970_368_000)),
        (ns, "499999", Ok(0)),
        // Microseconds and nanoseconds may have more digits than an i64.
        (ns, "-9223372036854775808999999", Err(BadTime)),
        (ns, "-9223372036854775807000000", Ok(-i64::MAX)),
    ];
    for (unit, ts, expected) in cases {
        assert_eq!(&at(TimeFormat::Epoch(*unit), ts), expected, "{ts} as {}", unit.as_str());
    }
}

#[test]
fn rfc_3339_needs_an_offset_and_keeps_the_millisecond_it_lies_in() {
    let cases: &[(&str, Result<i64, RejectReason>)] = &[
        ("2026-03-14T08:26:53Z", Ok(1_773_476_813_000)),
        ("2026-03-14t08:26:53z", Ok(1_773_476_813_000)),
        ("2026-03-14 08:26:53Z", Ok(1_773_476_813_000)),
        ("2026-03-14T08:26:53.119+00:00", Ok(1_773_476_813_119)),
        ("2026-03-14T08:26:53.1199999Z", Ok(1_773_476_813_119)),
        ("2026-03-14T08:26:53.999999999Z", Ok(1_773_476_813_999)),
        ("2026-03-14T08:26:53.1239999999999999999Z", Ok(1_773_476_813_123)),
        ("2026-03-14T08:26:53,119Z", Ok(1_773_476_813_119)),
        ("2026-03-14T09:26:53.119+0100", Ok(1_773_476_813_119)),
        ("2026-03-14T09:26:53+01", Ok(1_773_476_813_000)),
        ("2026-03-14 09:26:53 +01:00", Ok(1_773_476_813_000)),
        ("2026-03-14 08:26:53 UTC", Ok(1_773_476_813_000)),
        ("2026-03-14T08:26Z", Ok(1_773_476_760_000)),
        ("2026-03-14T08:26-00:00", Ok(1_773_476_760_000)),
        ("2026-03-14T08Z", Err(BadTime)),
        ("2026-03-14T08:26.5Z", Err(BadTime)),
        ("2026-03-14T08:26:53.Z", Err(BadTime)),
        ("2026-03-14T08:26:53+1", Err(BadTime)),
        ("2026-03-14T08:26:53+24:00", Err(BadTime)),
        ("2026-03-14T08:26:53+01:60", Err(BadTime)),
        ("2026-03-14T08:26:53+01:00:00", Err(BadTime)),
        ("2026-03-14T08:26:53  Z", Err(BadTime)),
        ("2026-03-14T08:26:61Z", Err(BadTime)),
        ("2026-3-14T08:26:53Z", Err(BadTime)),
        // F104: fraction and offset together.
        ("2024-02-23T15:13:28.5+08:00", Ok(1_708_672_408_500)),
        ("2024-02-23T15:13:28+08:00", Ok(1_708_672_408_000)),
        // Before 1970 the millisecond is the earlier one.
        ("1969-12-31T23:59:59.9995Z", Ok(-1)),
        ("2016-12-31T23:59:60Z", Ok(1_483_228_800_000)),
        ("2016-12-31T23:59:60.5Z", Ok(1_483_228_800_500)),
        ("2024-03-10T24:00:00Z", Err(BadTime)),
        ("2024-02-30T00:00:00Z", Err(BadTime)),
        // F109: no zone, no time.
        ("2026-03-14T08:26:53", Err(BadTime)),
        ("2026-03-14", Err(BadTime)),
        ("20260314T082653Z", Err(BadTime)),
        ("2026-03-14T08:26:53+01:00[Europe/Berlin]", Err(BadTime)),
        ("0T00:00:13", Err(BadTime)),
        ("online", Err(BadTime)),
        ("2026-03-14T08:26:5é", Err(BadTime)),
        // F106: year 1 is no time.
        ("0001-01-01T00:00:00Z", Err(MissingTime)),
        ("0001-01-01T00:00:00+01:00", Err(MissingTime)),
        ("", Err(MissingTime)),
        ("9999-12-31T23:59:60Z", Err(BadTime)),
    ];
    for (text, expected) in cases {
        assert_eq!(&at(TimeFormat::Rfc3339, &format!("\"{text}\"")), expected, "{text}");
    }
    assert_eq!(at(TimeFormat::Rfc3339, "1773476813"), Err(BadTime));
}

#[test]
fn f104_every_fraction_offset_and_separator_gives_the_same_instant() {
    let base = 1_708_671_600_000_i64; // 2024-02-23T07:00:00Z
    for fraction in ["", ".0", ".000", ".000000", ".000000000"] {
        for (offset, local) in [("Z", 7), ("+00:00", 7), ("+08:00", 15), ("-05:00", 2), ("z", 7)] {
            for separator in ['T', 't', ' '] {
                let text = format!("\"2024-02-23{separator}{local:02}:00:00{fraction}{offset}\"");
                assert_eq!(at(TimeFormat::Rfc3339, &text), Ok(base), "{text}");
            }
        }
    }
}

#[test]
fn without_a_usable_time_a_record_is_rejected_or_takes_the_receive_time_as_configured() {
    use TimeFallback::{Receive, Reject};
    let payloads: &[(&str, &str, RejectReason)] = &[
        ("F23 absent", r#"{"v":1}"#, MissingTime),
        ("F108 null", r#"{"ts":null,"v":1}"#, MissingTime),
        ("F106 year 1", r#"{"ts":"0001-01-01T00:00:00Z","v":1}"#, MissingTime),
        ("F101 not a time", r#"{"ts":"never","v":1}"#, BadTime),
        ("F110 1970 before NTP", r#"{"ts":"1970-01-01T00:00:12Z","v":1}"#, BeforeMinTime),
    ];
    for (name, payload, reason) in payloads {
        for missing in [Reject, Receive] {
            for bad in [Reject, Receive] {
                let spec = stream(FieldsSpec::all(), field_time(TimeFormat::Rfc3339, missing, bad));
                let fallback = if *reason == MissingTime { missing } else { bad };
                let expected = match fallback {
                    Reject => Err(*reason),
                    Receive => Ok(record(None, &[("v", 1.0)], 0)),
                };
                assert_eq!(one(&spec, payload), expected, "{name}, missing {missing:?}, bad {bad:?}");
            }
        }
    }
}

#[test]
fn f24_f102_a_wrong_unit_is_rejected_with_a_guess() {
    use TimeFormat::Rfc3339;
    const S: TimeFormat = TimeFormat::Epoch(TimeUnit::Seconds);
    const MS: TimeFormat = TimeFormat::Epoch(TimeUnit::Millis);
    const US: TimeFormat = TimeFormat::Epoch(TimeUnit::Micros);
    const NS: TimeFormat = TimeFormat::Epoch(TimeUnit::Nanos);
    let pattern = TimeFormat::Pattern { pattern: "%d.%m.%Y %H:%M:%S %z".into(), zone: None };
    let cases: &[(TimeFormat, &str, RejectReason, &str)] = &[
        (MS, "1713970366", BeforeMinTime, "looks like seconds, configured ms"),
        (MS, "1713970366.5", BeforeMinTime, "looks like seconds, configured ms"),
        (MS, r#""2026-03-14T08:26:53Z""#, BadTime, "looks like RFC 3339, configured ms"),
        (S, r#""2026-03-14T08:26:53Z""#, BadTime, "looks like RFC 3339, configured s"),
        (Rfc3339, "1713970366", BadTime, "looks like seconds, configured rfc3339"),
        (Rfc3339, "1713970366000", BadTime, "looks like milliseconds, configured rfc3339"),
        (Rfc3339, r#""2026-03-14T08:26:53""#, BadTime, "without an offset"),
        (Rfc3339, r#""1970-01-01T00:01:00Z""#, BeforeMinTime, "clock is not set"),
        (S, "0", BeforeMinTime, "clock is not set"),
        (US, "1713970366", BeforeMinTime, "looks like seconds, configured us"),
        (US, "1713970366000", BeforeMinTime, "looks like milliseconds, configured us"),
        (NS, "1713970366000000", BeforeMinTime, "looks like microseconds, configured ns"),
        (MS, r#""2026-03-14 08:26:53""#, BadTime, "looks like a local time without an offset"),
        (Rfc3339, r#""20260314T082653Z""#, BadTime, "`format = \"iso\"` reads it"),
        (pattern.clone(), "1713970366", BadTime, "looks like seconds, configured a pattern"),
        (pattern, r#""2026-03-14T08:26:53Z""#, BadTime, "looks like RFC 3339, configured a pattern"),
        (TimeFormat::Iso { zone: None, unit: None }, r#""2026-03-14T08:26:53""#, MissingTime, "no `zone` configured"),
        (
            TimeFormat::Iso { zone: None, unit: None },
            "1713970366123456",
            BadTime,
            "looks like microseconds, configured iso",
        ),
        (S, "null", MissingTime, "absent, null or empty"),
        (S, r#""0001-01-01T00:00:00Z""#, BadTime, ""),
        (Rfc3339, r#""0001-01-01T00:00:00Z""#, MissingTime, "year 1"),
    ];
    for (format, ts, reason, guess) in cases {
        let spec = stream(FieldsSpec::all(), strict(format.clone()));
        let payload = format!(r#"{{"ts":{ts},"v":1}}"#);
        assert_eq!(one(&spec, &payload), Err(*reason), "{ts}");
        let hint = explain(&spec, payload.as_bytes(), *reason).unwrap_or_default();
        assert!(hint.contains(guess), "{ts} as {}: {hint:?}", format.as_str());
    }
    // Far in the future: not the decoder's to reject, but the guess is there.
    assert_eq!(time::unit_guess(&S, "1713970366000"), Some("looks like milliseconds, configured s"));
    assert_eq!(time::unit_guess(&MS, "1713970366123456789"), Some("looks like nanoseconds, configured ms"));
    assert_eq!(time::unit_guess(&MS, "1713970366000"), None);
    assert_eq!(explain(&stream(FieldsSpec::all(), strict(S)), b"???", NotJson), None);
}

#[test]
fn the_lower_bound_is_the_first_accepted_millisecond() {
    let spec = stream(FieldsSpec::all(), strict(TimeFormat::Epoch(TimeUnit::Millis)));
    assert_eq!(one(&spec, r#"{"ts":946684799999,"v":1}"#), Err(BeforeMinTime));
    assert_eq!(one(&spec, r#"{"ts":946684800000,"v":1}"#), Ok(record(Some(946_684_800_000), &[("v", 1.0)], 0)));
}
