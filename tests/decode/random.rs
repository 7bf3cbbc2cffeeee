//! Random and damaged documents against a naive reader.

use serde_json::{Map, Value, json};
use tidegate::engine::spec::{FieldsSpec, StreamSpec, TimeFormat, TimeSpec, TimeUnit};
use tidegate::model::limits::FIELDS_MAX;
use tidegate::model::record::RejectReason::{self, *};

use super::{Plain, decode, named, one, stream, strict};

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
    let specs = [TimeFormat::Epoch(TimeUnit::Seconds), TimeFormat::Epoch(TimeUnit::Millis), TimeFormat::Rfc3339]
        .into_iter()
        .flat_map(|format| {
            [named(&[("t", "/t"), ("z", "/x/y/2/z")]), FieldsSpec::All].map(|f| stream(f, strict(format.clone())))
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
