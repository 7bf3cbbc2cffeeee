//! Payloads, and what each of them means to its stream.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

use tidegate::engine::spec::{FieldsSpec, Strategy, StreamSpec, TimeFallback, TimeFormat, TimeSpec, TimeUnit};
use tidegate::model::record::RejectReason;
use tidegate::model::rng::Rng;

use super::{Datum, Item, Reading};
use crate::plan::{MIN_TIME_MS, as_ms};

/// Bytes, and what they mean.
pub(super) type Payload = (Vec<u8>, Rc<Vec<Item>>);

/// One record.
pub(super) fn single(record: (String, Item)) -> Payload {
    (record.0.into_bytes(), Rc::new(vec![record.1]))
}

/// An array of records; of nothing but broken ones it is no array of records.
pub(super) fn join(records: impl Iterator<Item = (String, Item)>) -> Payload {
    let (texts, mut items): (Vec<String>, Vec<Item>) = records.unzip();
    if texts.iter().all(|text| text == "[7]") {
        items.truncate(1);
    }
    (format!("[{}]", texts.join(",")).into_bytes(), Rc::new(items))
}

/// A record with one value or a few, numbers that are multiples of a quarter, and what
/// else its stream asks for.
pub(super) fn record(rng: &mut Rng, spec: &StreamSpec, at: i64, number: Option<u64>) -> (String, Item) {
    let mut text = format!("{{\"ts\":{}", time_text(spec, at));
    let mut values = BTreeMap::new();
    let mut left_out = 0;
    let mark = mark(rng, spec);
    let bare = mark.is_some() && rng.chance(8);
    // A stream that carries values forward is sent what has changed.
    let changed = spec.carry_forward.is_none() || rng.chance(2);
    let both = rng.chance(3) || !changed;
    for (key, present) in [("v", !bare && changed), ("a", !bare && both)] {
        if present {
            let value = f64::from(i32::try_from(rng.below(8_000)).expect("small")) / 4.0 - 1_000.0;
            write!(text, ",\"{key}\":{value}").expect("memory does not fail");
            values.insert(key, Datum::Number(value));
        }
    }
    if !bare && spec.mapping.fields.is_state("mode") && !rng.chance(4) {
        let (json, state) = state(rng);
        write!(text, ",\"mode\":{json}").expect("memory does not fail");
        left_out = u64::from(state.is_none() && json != "null");
        if let Some(state) = state {
            values.insert("mode", Datum::State(state.to_owned()));
        }
    }
    if let Some(mark) = mark {
        write!(text, ",\"m\":{mark}").expect("memory does not fail");
    }
    if let Some(number) = number {
        write!(text, ",\"n\":{number}").expect("memory does not fail");
    }
    if rng.chance(8) {
        // Left out; the rest counts.
        text += ",\"unit\":\"C\"";
    }
    let reading = Reading { at: Some(at), values, is_mark: mark.is_some_and(|mark| mark > 0), number, left_out };
    (text + "}", resolve(spec, at, reading))
}

/// Strategy `punctuated`: the mark, if there is one; 0 is none.
fn mark(rng: &mut Rng, spec: &StreamSpec) -> Option<u64> {
    let is_punctuated = matches!(spec.watermark.strategy, Strategy::Punctuated { .. });
    (is_punctuated && rng.chance(3)).then(|| rng.below(3))
}

/// A state as JSON, and what it counts as: text, a bool, an integer, or none at all.
fn state(rng: &mut Rng) -> (&'static str, Option<&'static str>) {
    match rng.below(8) {
        0 => ("true", Some("true")),
        1 => ("false", Some("false")),
        2 => ("7", Some("7")),
        3 => ("\"\"", None),
        4 => ("1.5", None),
        5 => ("null", None),
        6 => ("\"on\"", Some("on")),
        _ => ("\"off\"", Some("off")),
    }
}

/// What the time of a record means to its stream.
fn resolve(spec: &StreamSpec, at: i64, reading: Reading) -> Item {
    let too_early = spec.min_time.is_some() && at < MIN_TIME_MS;
    match &spec.mapping.time {
        TimeSpec::Receive => {
            let mut values = reading.values;
            if spec.mapping.fields == FieldsSpec::all() {
                values.insert("ts", Datum::Number(at as f64));
            }
            Item::Record(Reading { at: None, values, ..reading })
        }
        TimeSpec::Fields { bad: TimeFallback::Reject, .. } if too_early => Item::Reject(RejectReason::BeforeMinTime),
        TimeSpec::Fields { bad: TimeFallback::Receive, .. } if too_early => {
            Item::Record(Reading { at: None, ..reading })
        }
        TimeSpec::Fields { .. } | TimeSpec::Own { .. } => Item::Record(reading),
    }
}

fn time_text(spec: &StreamSpec, at: i64) -> String {
    if has_unit(spec, TimeUnit::Seconds) { format!("{}.{:03}", at / 1_000, at % 1_000) } else { at.to_string() }
}

/// Whether the time field of the stream counts `unit`.
fn has_unit(spec: &StreamSpec, unit: TimeUnit) -> bool {
    let TimeSpec::Fields { candidates, .. } = &spec.mapping.time else { return false };
    candidates.iter().any(|candidate| candidate.format == TimeFormat::Epoch(unit))
}

/// Payloads that are none, each with its reason.
pub(super) fn garbage(rng: &mut Rng, spec: &StreamSpec, wall: i64) -> Payload {
    use RejectReason::{Empty, NoValues, NotFinite, NotJson, TooLarge, WrongShape, WrongType};
    let ts = time_text(spec, wall);
    let all = spec.mapping.fields == FieldsSpec::all();
    let (missing, bad) = match &spec.mapping.time {
        TimeSpec::Receive => (TimeFallback::Receive, TimeFallback::Receive),
        TimeSpec::Fields { missing, bad, .. } | TimeSpec::Own { missing, bad, .. } => (*missing, *bad),
    };
    let values = BTreeMap::from([("v", Datum::Number(1.25))]);
    let unless = |fallback, reason| match fallback {
        TimeFallback::Reject => Item::Reject(reason),
        TimeFallback::Receive => {
            Item::Record(Reading { at: None, values: values.clone(), is_mark: false, number: None, left_out: 0 })
        }
    };
    // In a stream of receive times in which all numbers count, `ts` is a value.
    let ts_counts = all && spec.mapping.time == TimeSpec::Receive;
    let (text, item) = match rng.below(12) {
        0 => (String::new(), Item::Reject(Empty)),
        1 => ("garbage".to_owned(), Item::Reject(NotJson)),
        2 => (format!("{{\"ts\":{ts},\"v\":1"), Item::Reject(NotJson)),
        3 => ("7".to_owned(), Item::Reject(WrongShape)),
        4 => ("[]".to_owned(), Item::Reject(NoValues)),
        5 => ("[1,2]".to_owned(), Item::Reject(WrongShape)),
        6 if !ts_counts => {
            let reason = if all { NoValues } else { WrongType };
            (format!("{{\"ts\":{ts},\"v\":\"abc\"}}"), Item::Reject(reason))
        }
        7 if !ts_counts => (format!("{{\"ts\":{ts},\"v\":1e999}}"), Item::Reject(NotFinite)),
        8 => ("{\"v\":1.25}".to_owned(), unless(missing, RejectReason::MissingTime)),
        9 => ("{\"ts\":\"soon\",\"v\":1.25}".to_owned(), unless(bad, RejectReason::BadTime)),
        10 if rng.chance(4) => ("x".repeat(300_000), Item::Reject(TooLarge)),
        _ => ("{\"ts\":null,\"v\":1.25}".to_owned(), unless(missing, RejectReason::MissingTime)),
    };
    (text.into_bytes(), Rc::new(vec![item]))
}

/// A time that a clock that runs wild may show: far ahead, long ago, or the end of all.
pub(super) fn wild(rng: &mut Rng, spec: &StreamSpec, wall: i64) -> i64 {
    let millis = has_unit(spec, TimeUnit::Millis);
    // Without the guard, the end of time would end the stream: ahead, but not for good.
    match (rng.below(4), spec.max_future) {
        // The last moment that is a time: beyond the year 9999 it is a wrong unit.
        (0, Some(_)) if millis => 253_402_300_799_999,
        (1, _) => as_ms(rng.below(100_000)),
        (2, None) => wall + as_ms(rng.below(5_000)),
        (_, None) => wall + 1_000,
        (_, Some(max)) => wall + max.as_i64() + as_ms(crate::plan::pick(rng, &[0, 1, 2, 3_600_000, 10_000_000_000])),
    }
}
