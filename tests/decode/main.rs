//! Payloads to records: tables of field cases (`Fnn` are the case numbers of the
//! field notes), and random documents against a naive reader.
#![allow(clippy::unwrap_used, missing_docs)]

mod hostile;
mod random;
mod times;
mod written;

use serde_json::Value;
use tidegate::engine::decode::{DecodedTime, Decoder, Telling};
use tidegate::engine::fields::FieldTable;
use tidegate::engine::spec::{
    FieldSpec, FieldsSpec, MappingSpec, RecordsPattern, StreamSpec, TimeCandidate, TimeFallback, TimeFormat, TimeSpec,
    TimeUnit,
};
use tidegate::model::ids::Name;
use tidegate::model::limits::{FIELDS_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX};
use tidegate::model::record::RejectReason::{self, *};
use tidegate::model::template::Template;
use tidegate::model::time::EventTime;
use tidegate::model::topic::TopicPattern;

// --- one helper for everything ---------------------------------------------

/// A record in plain types: time (`None`: receive), values by name, left out.
type Plain = (Option<i64>, Vec<(String, f64)>, u32);

fn stream(fields: FieldsSpec, time: TimeSpec) -> StreamSpec {
    let topic = TopicPattern::parse("devices/{device}/t").unwrap();
    let device = Template::parse("{device}", &topic).unwrap();
    StreamSpec {
        mapping: MappingSpec { fields, time, ..MappingSpec::default() },
        min_time: Some(EventTime::from_millis(946_684_800_000)),
        ..StreamSpec::new(Name::new("s").unwrap(), topic, device)
    }
}

fn field_time(format: TimeFormat, missing: TimeFallback, bad: TimeFallback) -> TimeSpec {
    TimeSpec::Fields { candidates: vec![TimeCandidate { pointer: "/ts".into(), format }], missing, bad }
}

fn strict(format: TimeFormat) -> TimeSpec {
    field_time(format, TimeFallback::Reject, TimeFallback::Reject)
}

fn named(fields: &[(&str, &str)]) -> FieldsSpec {
    let field = |(name, pointer): &(&str, &str)| FieldSpec::number(Name::new(name).unwrap(), *pointer);
    FieldsSpec::Named(fields.iter().map(field).collect())
}

fn telling(payload: &[u8]) -> Telling<'_> {
    Telling { topic: "devices/d/t", payload, field: "value", prefix: "" }
}

fn decode(spec: &StreamSpec, payload: impl AsRef<[u8]>) -> Vec<Result<Plain, RejectReason>> {
    let mut table = FieldTable::new(&spec.mapping.fields);
    let mut decoder = Decoder::new(spec);
    let batch = decoder.decode(telling(payload.as_ref()), &mut table);
    let raw: Vec<_> = batch
        .iter()
        .map(|entry| {
            entry.time.map(|time| {
                let at = match time {
                    DecodedTime::Event(at) => Some(at.as_millis()),
                    DecodedTime::Receive => None,
                    DecodedTime::Relative(_) => panic!("JSON has no times of its own"),
                };
                let values = batch.values(entry);
                assert!(values.is_sorted_by(|a, b| a.0 < b.0), "each field once, in the order of the table");
                assert!(values.iter().all(|(_, value)| value.is_finite()));
                (at, values.to_vec(), entry.left_out)
            })
        })
        .collect();
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
    let mut spec = stream(FieldsSpec::all(), strict(format));
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
        ("two texts in one line", b"{\"t\":1} {\"t\":2}", NotJson),
        ("the second of two texts cut short", b"{\"t\":1}\n{\"t\":2", NotJson),
        ("the second of two texts no object", b"{\"t\":1}\n7", WrongShape),
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
    let spec = stream(named(&[("t", "/t")]), strict(TimeFormat::Epoch(TimeUnit::Seconds)));
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
    let spec = stream(FieldsSpec::all(), TimeSpec::Receive);
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
    let spec = stream(named(&[("x", "/a/x"), ("y", "/a/y")]), strict(TimeFormat::Epoch(TimeUnit::Seconds)));
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
    let spec = stream(FieldsSpec::all(), strict(TimeFormat::Epoch(TimeUnit::Millis)));
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
fn a_record_without_values_is_refused_beside_good_ones_and_a_frame_without_values_is_none() {
    let mapping = |records: &[&str]| {
        let records = records.iter().map(|text| RecordsPattern::parse(text).unwrap()).collect();
        let mut spec = stream(FieldsSpec::all(), TimeSpec::Receive);
        spec.mapping.records = records;
        spec
    };
    let payload = r#"{"m":[{"a":1},{"t":"keep alive"},{"a":2}],"t":"frame"}"#;
    let value = |value| Ok(record(None, &[("a", value)], 0));
    let expected = [value(1.0), Err(NoValues), value(2.0)];
    assert_eq!(decode(&mapping(&["/m/*"]), payload), expected, "every record ends in the books");
    assert_eq!(decode(&mapping(&["", "/m/*"]), payload), expected);
    assert_eq!(decode(&mapping(&["/m/*"]), r#"{"m":[{"t":"keep alive"}]}"#), [Err(NoValues)]);
    assert_eq!(decode(&mapping(&["/m/*"]), r#"{"m":[null]}"#), [Err(NoValues)], "nothing in it at all");
}

#[test]
fn fields_beyond_the_bound_or_with_impossible_names_are_left_out() {
    let spec = stream(FieldsSpec::all(), TimeSpec::Receive);
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
    let spec = stream(named(&[("a", "/a"), ("b", "/b")]), strict(TimeFormat::Epoch(TimeUnit::Seconds)));
    let (mut decoder, mut table) = (Decoder::new(&spec), FieldTable::new(&spec.mapping.fields));
    let mut seen = Vec::new();
    for payload in [r#"{"ts":1e9,"a":1,"b":"x"}"#, r#"{"ts":1e9,"a"#, r#"{"ts":1e9,"b":2}"#, r#"{"b":2}"#] {
        let batch = decoder.decode(telling(payload.as_bytes()), &mut table);
        let entry = batch.record(0);
        seen.push(entry.time.map(|_| (batch.values(entry).to_vec(), entry.left_out)));
    }
    let [a, b] = [table.find("a").unwrap(), table.find("b").unwrap()];
    assert_eq!(seen, [Ok((vec![(a, 1.0)], 1)), Err(NotJson), Ok((vec![(b, 2.0)], 0)), Err(MissingTime)]);
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
            let rejected = one(&stream(FieldsSpec::all(), TimeSpec::Receive), &payload);
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
