//! Payloads to records: tables of field cases (`Fnn` are the case numbers of the
//! field notes), and random documents against a naive reader.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::{Map, Value, json};
use tidegate::engine::decode::{DecodedTime, decoder, explain, time};
use tidegate::engine::fields::FieldTable;
use tidegate::engine::spec::{
    FieldsSpec, FormatSpec, OnIdle, Scope, StreamSpec, TimeFallback, TimeFormat, TimeSpec, WatermarkSpec,
};
use tidegate::model::ids::Name;
use tidegate::model::limits::{FIELDS_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX};
use tidegate::model::record::RejectReason::{self, *};
use tidegate::model::time::{EventTime, Span};
use tidegate::model::topic::{DeviceTemplate, TopicPattern};

// --- one helper for everything ---------------------------------------------

/// A record in plain types: time (`None`: receive), values by name, left out.
type Plain = (Option<i64>, Vec<(String, f64)>, u32);

fn stream(fields: FieldsSpec, time: TimeSpec) -> StreamSpec {
    let topic = TopicPattern::parse("devices/{device}/t").unwrap();
    StreamSpec {
        name: Name::new("s").unwrap(),
        device: DeviceTemplate::parse("{device}", &topic).unwrap(),
        topic,
        format: FormatSpec::Json(fields),
        time,
        watermark: WatermarkSpec { disorder: Span::ZERO, idle_timeout: None, scope: Scope::Device },
        on_idle: OnIdle::Hold,
        max_future: None,
        min_time: Some(EventTime::from_millis(946_684_800_000)),
        devices_max: 10,
        windows: Vec::new(),
    }
}

fn field_time(format: TimeFormat, missing: TimeFallback, bad: TimeFallback) -> TimeSpec {
    TimeSpec::Field { pointer: "/ts".into(), format, missing, bad }
}

fn strict(format: TimeFormat) -> TimeSpec {
    field_time(format, TimeFallback::Reject, TimeFallback::Reject)
}

fn named(fields: &[(&str, &str)]) -> FieldsSpec {
    let field = |(name, pointer): &(&str, &str)| (Name::new(name).unwrap(), (*pointer).to_owned());
    FieldsSpec::Named(fields.iter().map(field).collect())
}

fn decode(spec: &StreamSpec, payload: impl AsRef<[u8]>) -> Vec<Result<Plain, RejectReason>> {
    let FormatSpec::Json(fields) = &spec.format;
    let mut table = FieldTable::new(fields);
    let mut raw = Vec::new();
    decoder(spec).decode(payload.as_ref(), &mut table, &mut |result| {
        raw.push(result.map(|decoded| {
            let at = match decoded.time {
                DecodedTime::Event(at) => Some(at.as_millis()),
                DecodedTime::Receive => None,
            };
            assert!(decoded.values.is_sorted_by(|a, b| a.0 < b.0), "each field once, in the order of the table");
            assert!(decoded.values.iter().all(|(_, value)| value.is_finite()));
            (at, decoded.values.to_vec(), decoded.left_out)
        }));
    });
    let name = |field| table.name(field).unwrap().as_str().to_owned();
    raw.into_iter()
        .map(|result| {
            result.map(|(at, values, left_out)| {
                (at, values.into_iter().map(|(field, value)| (name(field), value)).collect(), left_out)
            })
        })
        .collect()
}

fn one(spec: &StreamSpec, payload: impl AsRef<[u8]>) -> Result<Plain, RejectReason> {
    let mut all = decode(spec, payload);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn record(at: Option<i64>, values: &[(&str, f64)], left_out: u32) -> Plain {
    (at, values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(), left_out)
}

/// The time that `ts` (as JSON text) gives, in a payload with one value.
fn at(format: TimeFormat, ts: &str) -> Result<i64, RejectReason> {
    let mut spec = stream(FieldsSpec::All, strict(format));
    spec.min_time = None;
    one(&spec, format!(r#"{{"ts":{ts},"v":1}}"#)).map(|record| record.0.expect("an event time"))
}

// --- shape ------------------------------------------------------------------

#[test]
fn a_payload_that_is_no_record_has_a_reason() {
    let spec = stream(named(&[("t", "/t")]), TimeSpec::Receive);
    let deep = |depth: usize| format!("{}1{}", r#"{"t":"#.repeat(depth), "}".repeat(depth));
    let deep_beside = |depth: usize| format!(r#"{{"t":1,"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let large = format!(r#"{{"t":1,"x":"{}"}}"#, "x".repeat(PAYLOAD_BYTES_MAX));
    let cases: &[(&str, &[u8], RejectReason)] = &[
        ("empty", b"", Empty),
        ("too large", large.as_bytes(), TooLarge),
        ("F30 question marks", b"???", NotJson),
        ("F33 plain text status", b"online", NotJson),
        ("F129 NaN is no JSON", br#"{"t":NaN}"#, NotJson),
        ("F136 scalar", b"22", WrongShape),
        ("bool", b"true", WrongShape),
        ("null", b"null", WrongShape),
        ("text", br#""22""#, WrongShape),
        ("array of numbers", b"[1,2]", WrongShape),
        ("empty array", b"[]", NoValues),
        ("empty object", b"{}", NoValues),
        ("F141 comma before }", br#"{"t":1,}"#, NotJson),
        ("digit missing after the point", br#"{"t":5.}"#, NotJson),
        ("F142 a plus sign", br#"{"t":+0.4934484E+01}"#, NotJson),
        ("cut short", br#"{"t":1"#, NotJson),
        ("array cut short gives no record at all", br#"[{"t":1},{"t":2}"#, NotJson),
        ("array with trailing bytes", br#"[{"t":1}]x"#, NotJson),
        ("two texts", b"{\"t\":1}\n{\"t\":2}", NotJson),
        ("invalid UTF-8 in a part nobody reads", b"{\"u\":\"\xb0C\",\"t\":1}", NotJson),
        ("UTF-16", b"{\0}\0", NotJson),
        ("half a surrogate pair in a part nobody reads", br#"{"u":"\ud800","t":1}"#, NotJson),
        ("too deep", deep(PAYLOAD_DEPTH_MAX + 1).leak().as_bytes(), TooDeep),
        ("too deep where nobody looks", deep_beside(PAYLOAD_DEPTH_MAX).leak().as_bytes(), TooDeep),
        ("as deep as allowed", deep(PAYLOAD_DEPTH_MAX).leak().as_bytes(), WrongType),
    ];
    for (name, payload, reason) in cases {
        assert_eq!(one(&spec, payload), Err(*reason), "{name}");
    }
    assert_eq!(one(&spec, deep_beside(PAYLOAD_DEPTH_MAX - 1)), Ok(record(None, &[("t", 1.0)], 0)));
}

#[test]
fn f29_an_array_is_one_record_per_object_and_a_bad_one_does_not_spoil_the_others() {
    let spec = stream(named(&[("t", "/t")]), strict(TimeFormat::EpochSeconds));
    let payload = r#"[{"ts":1713970366,"t":1}, {"t":2}, 7, {"ts":1713970368,"t":"x"}, {"ts":1713970369,"t":5}]"#;
    assert_eq!(
        decode(&spec, payload),
        [
            Ok(record(Some(1_713_970_366_000), &[("t", 1.0)], 0)),
            Err(MissingTime),
            Err(WrongShape),
            Err(WrongType),
            Ok(record(Some(1_713_970_369_000), &[("t", 5.0)], 0)),
        ]
    );
}

#[test]
fn a_byte_order_mark_is_ignored_once() {
    let spec = stream(FieldsSpec::All, TimeSpec::Receive);
    assert_eq!(one(&spec, "\u{feff}{\"v\":1.5}"), Ok(record(None, &[("v", 1.5)], 0)));
    assert_eq!(one(&spec, "\u{feff}\u{feff}{\"v\":1.5}"), Err(NotJson));
}

// --- values -----------------------------------------------------------------

#[test]
fn named_fields_are_found_by_pointer() {
    let fields = named(&[("z", "/a/b"), ("y", "/list/1/v"), ("x", "/a~1b/m~0n"), ("w", "/0"), ("v", "/é")]);
    let spec = stream(fields, TimeSpec::Receive);
    let cases: &[(&str, &str, Plain)] = &[
        ("nested", r#"{"a":{"x":9,"b":1}}"#, record(None, &[("z", 1.0)], 0)),
        ("array item", r#"{"list":[{"v":8},{"u":0,"v":2}]}"#, record(None, &[("y", 2.0)], 0)),
        ("escaped pointer", r#"{"a/b":{"m~n":3}}"#, record(None, &[("x", 3.0)], 0)),
        ("digits are a key too", r#"{"0":4}"#, record(None, &[("w", 4.0)], 0)),
        ("escaped key", r#"{"\u00e9":5,"\u0061":{"\u0062":1}}"#, record(None, &[("z", 1.0), ("v", 5.0)], 0)),
        ("table order", r#"{"0":4,"a":{"b":1}}"#, record(None, &[("z", 1.0), ("w", 4.0)], 0)),
    ];
    for (name, payload, expected) in cases {
        assert_eq!(one(&spec, payload).as_ref(), Ok(expected), "{name}");
    }
}

#[test]
fn a_field_without_a_finite_number_is_left_out_and_the_rest_is_kept() {
    let spec = stream(named(&[("a", "/a"), ("b", "/b")]), TimeSpec::Receive);
    let b = |left_out| Ok(record(None, &[("b", 2.0)], left_out));
    let cases: &[(&str, &str, Result<Plain, RejectReason>)] = &[
        ("absent", r#"{"b":2}"#, b(0)),
        ("F108 null is absent", r#"{"a":null,"b":2}"#, b(0)),
        ("F132 a number in a string", r#"{"a":"21.5","b":2}"#, b(1)),
        ("F129 None", r#"{"a":"None","b":2}"#, b(1)),
        ("bool", r#"{"a":true,"b":2}"#, b(1)),
        ("object", r#"{"a":{"b":7},"b":2}"#, b(1)),
        ("array", r#"{"a":[7],"b":2}"#, b(1)),
        ("beyond a float", r#"{"a":1e400,"b":2}"#, b(1)),
        ("beyond a float where nobody looks", r#"{"x":-1e999,"b":2}"#, b(0)),
        ("below a float is zero", r#"{"a":1E-400,"b":2}"#, Ok(record(None, &[("a", 0.0), ("b", 2.0)], 0))),
        ("integer beyond 64 bits", r#"{"a":36893488147419103232}"#, Ok(record(None, &[("a", 2_f64.powi(65))], 0))),
        ("only wrong types", r#"{"a":"x","b":false}"#, Err(WrongType)),
        ("only huge", r#"{"a":1e400}"#, Err(NotFinite)),
        ("huge and wrong type", r#"{"a":1e400,"b":"x"}"#, Err(WrongType)),
        ("only null", r#"{"a":null}"#, Err(NoValues)),
        ("none", r#"{"c":1}"#, Err(NoValues)),
    ];
    for (name, payload, expected) in cases {
        assert_eq!(&one(&spec, payload), expected, "{name}");
    }
}

#[test]
fn of_equal_keys_the_last_counts_with_all_below_it() {
    let spec = stream(named(&[("x", "/a/x"), ("y", "/a/y")]), strict(TimeFormat::EpochSeconds));
    let cases: &[(&str, Result<Plain, RejectReason>)] = &[
        (r#"{"ts":1e9,"a":{"x":1,"x":2,"x":3}}"#, Ok(record(Some(1_000_000_000_000), &[("x", 3.0)], 0))),
        (r#"{"ts":1e9,"a":{"x":1},"a":{"y":2}}"#, Ok(record(Some(1_000_000_000_000), &[("y", 2.0)], 0))),
        (r#"{"ts":1e9,"a":{"x":1},"a":5}"#, Err(NoValues)),
        (r#"{"ts":1e9,"a":{"x":1,"x":null,"y":1}}"#, Ok(record(Some(1_000_000_000_000), &[("y", 1.0)], 0))),
        (r#"{"ts":7,"a":{"x":1},"ts":1e9}"#, Ok(record(Some(1_000_000_000_000), &[("x", 1.0)], 0))),
        (r#"{"ts":1e9,"a":{"x":1},"ts":null}"#, Err(MissingTime)),
    ];
    for (payload, expected) in cases {
        assert_eq!(&one(&spec, payload), expected, "{payload}");
    }
}

#[test]
fn all_numbers_are_named_by_their_path_and_the_time_is_no_value() {
    let spec = stream(FieldsSpec::All, strict(TimeFormat::EpochMillis));
    let payload = r#"{"ts":1713970366000,"a":1,"b":{"c":[2,{"d":3}],"e":"x"},"f":true,"g":null,"":{"h":4}}"#;
    // An empty key is an empty first level: no dot follows it.
    let values = [("a", 1.0), ("b.c.0", 2.0), ("b.c.1.d", 3.0), ("h", 4.0)];
    assert_eq!(one(&spec, payload), Ok(record(Some(1_713_970_366_000), &values, 0)));

    assert_eq!(one(&spec, r#"{"ts":1713970366000,"s":"x"}"#), Err(NoValues));
    assert_eq!(one(&spec, r#"{"ts":1713970366000,"v":1e400,"w":-0}"#), {
        Ok(record(Some(1_713_970_366_000), &[("w", 0.0)], 1))
    });
    assert_eq!(one(&spec, r#"{"ts":1713970366000,"v":1e400}"#), Err(NotFinite));
    assert_eq!(one(&spec, r#"{"v":1}"#), Err(MissingTime));
    assert_eq!(one(&spec, r#"{"ts":{"v":1},"w":2}"#), Err(BadTime));
}

#[test]
fn fields_beyond_the_bound_or_with_impossible_names_are_left_out() {
    let spec = stream(FieldsSpec::All, TimeSpec::Receive);
    let payload = |count: usize| {
        let fields: Vec<String> = (0..count).map(|index| format!(r#""f{index}":{index}"#)).collect();
        format!("{{{}}}", fields.join(","))
    };
    for (count, left_out) in [(FIELDS_MAX, 0), (FIELDS_MAX + 3, 3)] {
        let (_, values, counted) = one(&spec, payload(count)).unwrap();
        assert_eq!((values.len(), counted), (FIELDS_MAX, left_out));
    }
    let long = "x".repeat(65);
    let odd = format!(r#"{{"":1,"{long}":2,"a\nb":3,"ok":4}}"#);
    assert_eq!(one(&spec, odd), Ok(record(None, &[("ok", 4.0)], 3)));
}

#[test]
fn a_decoder_keeps_nothing_of_one_payload_for_the_next() {
    let spec = stream(named(&[("a", "/a"), ("b", "/b")]), strict(TimeFormat::EpochSeconds));
    let FormatSpec::Json(fields) = &spec.format;
    let (mut decoder, mut table) = (decoder(&spec), FieldTable::new(fields));
    let mut seen = Vec::new();
    for payload in [r#"{"ts":1e9,"a":1,"b":"x"}"#, r#"{"ts":1e9,"a"#, r#"{"ts":1e9,"b":2}"#, r#"{"b":2}"#] {
        decoder.decode(payload.as_bytes(), &mut table, &mut |result| {
            seen.push(result.map(|decoded| (decoded.values.to_vec(), decoded.left_out)));
        });
    }
    let [a, b] = [table.find("a").unwrap(), table.find("b").unwrap()];
    assert_eq!(seen, [Ok((vec![(a, 1.0)], 1)), Err(NotJson), Ok((vec![(b, 2.0)], 0)), Err(MissingTime)]);
}

// --- time -------------------------------------------------------------------

#[test]
fn epochs_are_exact_and_rounded_half_away_from_zero() {
    use TimeFormat::{EpochMillis as Ms, EpochSeconds as S};
    let cases: &[(TimeFormat, &str, Result<i64, RejectReason>)] = &[
        (S, "1713970368.65", Ok(1_713_970_368_650)),
        (S, "1713970368.6499999", Ok(1_713_970_368_650)),
        (S, "1713970368.6495", Ok(1_713_970_368_650)),
        (S, "1713970368.6494999999999999999999999999999999", Ok(1_713_970_368_649)),
        (S, r#""1773480413""#, Ok(1_773_480_413_000)),
        (S, r#"" +1773480413.5 ""#, Ok(1_773_480_413_500)),
        (S, "1.713970368e9", Ok(1_713_970_368_000)),
        (S, "1713970368000e-3", Ok(1_713_970_368_000)),
        (S, "-0.0005", Ok(-1)),
        (S, "-0.0004", Ok(0)),
        (Ms, "1773480413212", Ok(1_773_480_413_212)),
        (Ms, "1773480413212.5", Ok(1_773_480_413_213)),
        (Ms, "-1.5", Ok(-2)),
        (Ms, r#""1773480413212""#, Ok(1_773_480_413_212)),
        (Ms, "9007199254740993", Ok(9_007_199_254_740_993)),
        (Ms, "9223372036854775807", Ok(i64::MAX)),
        (Ms, "9223372036854775808", Err(BadTime)),
        (S, "9223372036854775807", Err(BadTime)),
        (S, "1e300", Err(BadTime)),
        (S, "-1e999999999999999999999", Err(BadTime)),
        (S, "1e-999999999999999999999", Ok(0)),
        (S, "0e999999999999999999999", Ok(0)),
        // F105 and beyond 2^31 and 2^32 seconds.
        (S, "-498365439", Ok(-498_365_439_000)),
        (S, "2147483648", Ok(2_147_483_648_000)),
        (S, "4294967296", Ok(4_294_967_296_000)),
        (S, r#""n/a""#, Err(BadTime)),
        (S, r#""1.""#, Err(BadTime)),
        (S, r#""0x10""#, Err(BadTime)),
        (S, r#""1 2""#, Err(BadTime)),
        (S, r#""-""#, Err(BadTime)),
        (S, r#""nan""#, Err(BadTime)),
        (S, r#""""#, Err(MissingTime)),
        (S, "null", Err(MissingTime)),
        (S, "true", Err(BadTime)),
        (S, "{}", Err(BadTime)),
        (S, "[1713970368]", Err(BadTime)),
        (S, "-62135596800", Err(MissingTime)),
    ];
    for (format, ts, expected) in cases {
        assert_eq!(&at(*format, ts), expected, "{ts} as {}", format.as_str());
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
        ("2026-03-14T08:26:53.1234567890Z", Err(BadTime)),
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
                let spec = stream(FieldsSpec::All, field_time(TimeFormat::Rfc3339, missing, bad));
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
    use TimeFormat::{EpochMillis as Ms, EpochSeconds as S, Rfc3339};
    let cases: &[(TimeFormat, &str, RejectReason, &str)] = &[
        (Ms, "1713970366", BeforeMinTime, "looks like seconds, configured ms"),
        (Ms, "1713970366.5", BeforeMinTime, "looks like seconds, configured ms"),
        (Ms, r#""2026-03-14T08:26:53Z""#, BadTime, "looks like RFC 3339, configured ms"),
        (S, r#""2026-03-14T08:26:53Z""#, BadTime, "looks like RFC 3339, configured s"),
        (Rfc3339, "1713970366", BadTime, "looks like seconds, configured rfc3339"),
        (Rfc3339, "1713970366000", BadTime, "looks like milliseconds, configured rfc3339"),
        (Rfc3339, r#""2026-03-14T08:26:53""#, BadTime, "without an offset"),
        (Rfc3339, r#""1970-01-01T00:01:00Z""#, BeforeMinTime, "clock is not set"),
        (S, "0", BeforeMinTime, "clock is not set"),
        (S, "null", MissingTime, "absent, null or empty"),
        (S, r#""0001-01-01T00:00:00Z""#, BadTime, ""),
        (Rfc3339, r#""0001-01-01T00:00:00Z""#, MissingTime, "year 1"),
    ];
    for (format, ts, reason, guess) in cases {
        let spec = stream(FieldsSpec::All, strict(*format));
        let payload = format!(r#"{{"ts":{ts},"v":1}}"#);
        assert_eq!(one(&spec, &payload), Err(*reason), "{ts}");
        let hint = explain(&spec, payload.as_bytes(), *reason).unwrap_or_default();
        assert!(hint.contains(guess), "{ts} as {}: {hint:?}", format.as_str());
    }
    // Far in the future: not the decoder's to reject, but the guess is there.
    assert_eq!(time::unit_guess(S, "1713970366000"), Some("looks like milliseconds, configured s"));
    assert_eq!(time::unit_guess(Ms, "1713970366123456789"), Some("looks like nanoseconds, configured ms"));
    assert_eq!(time::unit_guess(Ms, "1713970366000"), None);
    assert_eq!(explain(&stream(FieldsSpec::All, strict(S)), b"???", NotJson), None);
}

#[test]
fn the_lower_bound_is_the_first_accepted_millisecond() {
    let spec = stream(FieldsSpec::All, strict(TimeFormat::EpochMillis));
    assert_eq!(one(&spec, r#"{"ts":946684799999,"v":1}"#), Err(BeforeMinTime));
    assert_eq!(one(&spec, r#"{"ts":946684800000,"v":1}"#), Ok(record(Some(946_684_800_000), &[("v", 1.0)], 0)));
}

// --- samples of real devices --------------------------------------------------

/// Runs every JSON sample of `PAYLOADS_DIR` (default: the shared folder next to
/// the repository); passes when there is no such folder.
#[test]
fn json_samples_of_real_devices_give_their_numbers() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/payloads");
    let folder = std::env::var("PAYLOADS_DIR").unwrap_or_else(|_| beside.to_owned());
    let Ok(systems) = std::fs::read_dir(&folder) else { return println!("no samples in {folder}") };
    let files = systems.filter_map(|system| std::fs::read_dir(system.ok()?.path()).ok()).flatten();
    let (mut samples, mut numbers) = (0, 0);
    for expected_file in files.map(|file| file.unwrap().path()) {
        let Some(stem) = expected_file.to_str().unwrap().strip_suffix(".expect.json") else { continue };
        let expected: Value = serde_json::from_slice(&std::fs::read(&expected_file).unwrap()).unwrap();
        if expected["format"] != "json" {
            continue;
        }
        samples += 1;
        let payload = std::fs::read(format!("{stem}.payload")).unwrap();
        if expected["valid"] == false {
            let rejected = one(&stream(FieldsSpec::All, TimeSpec::Receive), &payload);
            assert!(matches!(rejected, Err(NotJson | Empty)), "{stem}: {rejected:?}");
            continue;
        }
        let wanted: Vec<_> = expected["fields"].as_object().into_iter().flatten().collect();
        for chunk in wanted.chunks(FIELDS_MAX) {
            let names: Vec<String> = (0..chunk.len()).map(|index| index.to_string()).collect();
            let fields: Vec<_> =
                names.iter().zip(chunk).map(|(name, (pointer, _))| (name.as_str(), pointer.as_str())).collect();
            let values: Vec<f64> = chunk.iter().map(|(_, value)| value.as_f64().unwrap()).collect();
            let got = one(&stream(named(&fields), TimeSpec::Receive), &payload).expect(stem);
            assert_eq!(got.1.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), values, "{stem}");
            numbers += values.len();
        }
    }
    println!("{samples} samples, {numbers} numbers");
}

// --- random documents -------------------------------------------------------

/// `SplitMix64`: small, seeded, printed on failure.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn value(&mut self, depth: usize) -> Value {
        let keys = ["a", "b", "c/d", "e~f", "é", "0", "1"];
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.next().is_multiple_of(2)),
            2 => json!(["x", "1.5", "a\"b\\", "😀\u{1}"][self.below(4)]),
            3 => json!(i64::from_ne_bytes(self.next().to_ne_bytes()) >> self.below(60)),
            4 => json!((self.next() as f64 / 1e9 - 3e9) / 10_f64.powi(i32::try_from(self.below(20)).unwrap())),
            5 => json!(f64::from_bits(self.next())),
            6 => Value::Array((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => {
                let count = self.below(6);
                let entries = (0..count).map(|_| (keys[self.below(keys.len())].to_owned(), self.value(depth - 1)));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

fn naive_named(document: &Value, fields: &[(&str, &str)]) -> Result<Plain, RejectReason> {
    if document.as_array().is_some_and(Vec::is_empty) {
        return Err(NoValues);
    }
    let Some(object) = document.as_object() else { return Err(WrongShape) };
    let (mut values, mut left_out) = (Vec::new(), 0);
    for (name, pointer) in fields {
        match Value::Object(object.clone()).pointer(pointer) {
            None | Some(Value::Null) => {}
            Some(Value::Number(number)) => values.push(((*name).to_owned(), number.as_f64().unwrap())),
            Some(_) => left_out += 1,
        }
    }
    match (values.is_empty(), left_out) {
        (true, 0) => Err(NoValues),
        (true, _) => Err(WrongType),
        (false, _) => Ok((None, values, left_out)),
    }
}

fn naive_all(value: &Value, path: &str, out: &mut Vec<(String, f64)>) {
    let under = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Number(number) => out.push((path.to_owned(), number.as_f64().unwrap())),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| naive_all(item, &under(&index.to_string()), out));
        }
        Value::Object(entries) => entries.iter().for_each(|(key, value)| naive_all(value, &under(key), out)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[test]
fn decoding_equals_a_naive_reader_on_random_documents() {
    let pointers = [("p", "/a"), ("q", "/b/a"), ("r", "/c~1d"), ("s", "/e~0f/0"), ("t", "/é/a/1"), ("u", "/0")];
    let by_name = stream(named(&pointers), TimeSpec::Receive);
    let by_path = stream(FieldsSpec::All, TimeSpec::Receive);
    let mut records = 0;
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let mut document = random.value(4);
        while seed % 8 > 0 && !document.is_object() {
            document = random.value(4);
        }
        if document.as_array().is_some_and(|items| items.iter().any(Value::is_object)) {
            continue; // one record per item: has its own test
        }
        let text = document.to_string();
        assert_eq!(one(&by_name, &text), naive_named(&document, &pointers), "seed {seed}: {text}");
        let mut expected = Vec::new();
        if document.is_object() {
            naive_all(&document, "", &mut expected);
        }
        if expected.len() <= FIELDS_MAX && !expected.is_empty() {
            let (_, mut values, left_out) = one(&by_path, &text).expect(&text);
            values.sort_by(|a, b| a.0.cmp(&b.0));
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!((values, left_out), (expected, 0), "seed {seed}: {text}");
            records += 1;
        }
    }
    assert!(records > 5_000, "the generator makes records: {records}");
}

#[test]
fn damaged_payloads_never_panic_and_are_json_exactly_when_serde_json_says_so() {
    const ROUNDS: u64 = 100_000;
    let seeds: [&[u8]; 5] = [
        br#"{"ts":1713970368.65,"t":-12.5e-1,"x":{"y":[1,2,{"z":"a\u00e9\n"}]},"n":null,"b":true}"#,
        br#"[{"ts":"2026-03-14T08:26:53.119+00:00","t":1},{"ts":"1773480413","t":2e300}]"#,
        "{\"ts\":1773480413212,\"grüße\":\"\\ud83d\\ude00\",\"t\":0}".as_bytes(),
        br#"{"ts":1e12,"t":1,"t":"x","ts":2}"#,
        b"\xef\xbb\xbf{\"t\": [ ], \"ts\" : { } }",
    ];
    let pieces: [&[u8]; 14] =
        [b"{", b"}", b"[", b"]", b"\"", b"\\", b",", b":", b"1e999", b"-", b"\\ud800", b"\xff", b"0", b"null"];
    let specs =
        [TimeFormat::EpochSeconds, TimeFormat::EpochMillis, TimeFormat::Rfc3339].into_iter().flat_map(|format| {
            [named(&[("t", "/t"), ("z", "/x/y/2/z")]), FieldsSpec::All].map(|f| stream(f, strict(format)))
        });
    let specs: Vec<StreamSpec> = specs.collect();
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let mut payload = seeds[random.below(seeds.len())].to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(payload.len() + 1);
            match random.below(4) {
                0 => payload.truncate(at),
                1 if at < payload.len() => payload[at] = random.next().to_le_bytes()[0],
                2 if at < payload.len() => drop(payload.remove(at)),
                _ => drop(payload.splice(at..at, pieces[random.below(pieces.len())].iter().copied())),
            }
        }
        let results = decode(&specs[random.below(specs.len())], &payload);
        assert!(!results.is_empty(), "seed {seed}");
        let ours = !matches!(results[0], Err(NotJson | TooDeep | Empty));
        let text = payload.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&payload);
        // A number too large for a float is the one thing where we are to differ.
        let theirs = match serde_json::from_slice::<Value>(text) {
            Ok(_) => true,
            Err(error) => error.to_string().starts_with("number out of range") && ours,
        };
        assert_eq!(ours, theirs, "seed {seed}: {:?}", String::from_utf8_lossy(&payload));
        accepted += u64::from(ours);
    }
    assert!(accepted > ROUNDS / 20 && accepted < ROUNDS / 2, "both kinds occur: {accepted}");
}
