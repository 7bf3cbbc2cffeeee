//! What the aggregates of all readings of a field are, from the readings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate::engine::aggregate::{Aggregates, Kind};

use crate::devices::Datum;

/// More different values are counted by a sketch. Its standard error is 2.3 %.
const DISTINCT_EXACT: usize = 256;

/// Whether a result is that of `readings`. `found`: null and absent are two things.
/// `until`: how long the last value holds, if it does.
pub(crate) fn is_result(
    kind: Kind,
    aggregates: &Aggregates,
    found: Option<&Value>,
    readings: &[(i64, Datum)],
    until: Option<i64>,
) -> bool {
    let numbers: Vec<(i64, f64)> = readings.iter().filter_map(|(at, datum)| Some((*at, number(datum)?))).collect();
    let of_states = numbers.len() < readings.len();
    let absent = match kind {
        Kind::Count | Kind::Distinct => false,
        Kind::Durations => !of_states,
        _ => of_states,
    };
    let Some(found) = found else { return absent };
    if absent {
        return false;
    }
    let exactly = |expected: f64| found.as_f64() == Some(expected);
    let about = |expected: f64| found.as_f64().is_some_and(|found| is_near(found, expected, 1e-9));
    let values: Vec<f64> = numbers.iter().map(|(_, value)| *value).collect();
    let lowest = || values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = || values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match kind {
        Kind::Count => exactly(readings.len() as f64),
        Kind::Sum => exactly(values.iter().sum()),
        Kind::Mean => exactly(values.iter().sum::<f64>() / values.len() as f64),
        Kind::Min => exactly(lowest()),
        Kind::Max => exactly(highest()),
        Kind::Range => exactly(highest() - lowest()),
        Kind::First => along(&numbers).first().is_some_and(|(_, value)| exactly(*value)),
        Kind::Last => along(&numbers).last().is_some_and(|(_, value)| exactly(*value)),
        Kind::Variance => is_variance(found, &values, |variance| variance),
        Kind::Stddev => is_variance(found, &values, f64::sqrt),
        Kind::Quantiles => are_quantiles(found, aggregates, values),
        Kind::Distinct => is_distinct(found, readings),
        Kind::Histogram => is_histogram(found, aggregates, &values),
        Kind::TimeWeightedMean => about(time_weighted_mean(&along(&numbers), until)),
        Kind::Increase => exactly(increase(&along(&numbers))),
        Kind::Rate => match along(&numbers).as_slice() {
            points @ [(from, _), .., (to, _)] => about(increase(points) / ((to - from) as f64 / 1_000.0)),
            _ => found.is_null(),
        },
        Kind::Durations => are_durations(found, readings, until),
    }
}

fn number(datum: &Datum) -> Option<f64> {
    match datum {
        Datum::Number(value) => Some(*value),
        Datum::State(_) => None,
    }
}

fn is_near(found: f64, expected: f64, relative: f64) -> bool {
    (found - expected).abs() <= relative * expected.abs().max(1e-3)
}

/// In the order of their times; of several at one time the largest.
fn along(numbers: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let mut by_time = BTreeMap::<i64, f64>::new();
    for (at, value) in numbers {
        let known = by_time.entry(*at).or_insert(*value);
        *known = known.max(*value);
    }
    by_time.into_iter().collect()
}

/// Exactly, in quarters.
fn is_variance(found: &Value, values: &[f64], of: impl Fn(f64) -> f64) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "times and small values, in quarters")]
    let quarters: Vec<i128> = values.iter().map(|value| (value * 4.0) as i128).collect();
    let count = quarters.len() as i128;
    if count < 2 {
        return found.is_null();
    }
    let (sum, squares) = (quarters.iter().sum::<i128>(), quarters.iter().map(|value| value * value).sum::<i128>());
    let variance = (count * squares - sum * sum) as f64 / (count * (count - 1)) as f64 / 16.0;
    let mean = sum as f64 / count as f64 / 4.0;
    let condition = (1.0 + mean * mean / variance.max(f64::MIN_POSITIVE)).sqrt();
    let bound = 4.0 * count as f64 * f64::EPSILON * condition;
    found.as_f64().is_some_and(|found| {
        // All equal: what is left is rounding, if anything.
        let flat = variance == 0.0 && found.abs() <= 1e-9 * mean.abs().max(1.0);
        flat || is_near(found, of(variance), bound)
    })
}

fn are_quantiles(found: &Value, aggregates: &Aggregates, mut values: Vec<f64>) -> bool {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len() - 1;
    let labels = aggregates.quantiles();
    let complete = found.as_object().is_some_and(|found| found.len() == labels.len());
    complete
        && labels.iter().all(|quantile| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and small")]
            let place = (quantile.share * last as f64).floor() as usize;
            let (expected, found) = (values[place], found[quantile.label.as_str()].as_f64());
            let exact = place == 0 || place == last;
            let bound = if exact { 0.0 } else { 0.0078 };
            found.is_some_and(|found| (found - expected).abs() <= bound * expected.abs())
        })
}

fn is_distinct(found: &Value, readings: &[(i64, Datum)]) -> bool {
    let text = |datum: &Datum| match datum {
        Datum::Number(value) => value.to_string(),
        Datum::State(text) => format!("state {text}"),
    };
    let different = readings.iter().map(|(_, datum)| text(datum)).collect::<BTreeSet<_>>().len();
    let bound = if different <= DISTINCT_EXACT { 0.0 } else { 0.12 * different as f64 };
    found.as_f64().is_some_and(|found| (found - different as f64).abs() <= bound)
}

fn is_histogram(found: &Value, aggregates: &Aggregates, values: &[f64]) -> bool {
    let bounds = aggregates.histogram();
    let below = bounds.iter().map(|bound| (format!("le_{bound}"), Some(*bound)));
    let above = bounds.last().map(|bound| (format!("gt_{bound}"), None));
    let mut past = f64::NEG_INFINITY;
    let expected = below.chain(above).map(|(label, bound)| {
        let up_to = bound.unwrap_or(f64::INFINITY);
        let count = values.iter().filter(|value| past < **value && **value <= up_to).count();
        past = up_to;
        (label, count as f64)
    });
    let expected: Vec<_> = expected.collect();
    found.as_object().is_some_and(|found| {
        found.len() == expected.len()
            && expected.iter().all(|(label, count)| found.get(label).and_then(Value::as_f64) == Some(*count))
    })
}

fn time_weighted_mean(points: &[(i64, f64)], until: Option<i64>) -> f64 {
    let Some((first, last)) = points.first().zip(points.last()) else { return f64::NAN };
    let until = until.unwrap_or(last.0).max(last.0);
    if until == first.0 {
        return first.1;
    }
    let ends = points.iter().skip(1).map(|(at, _)| *at).chain([until]);
    let area: f64 = points.iter().zip(ends).map(|((at, value), end)| value * (end - at) as f64).sum();
    area / (until - first.0) as f64
}

/// A fall is a counter that began again at zero.
fn increase(points: &[(i64, f64)]) -> f64 {
    let rises = points.windows(2).map(|pair| {
        let (from, to) = (pair[0].1, pair[1].1);
        if to >= from { to - from } else { to.max(0.0) }
    });
    rises.sum()
}

fn are_durations(found: &Value, readings: &[(i64, Datum)], until: Option<i64>) -> bool {
    let mut by_time = BTreeMap::<i64, &str>::new();
    for (at, datum) in readings {
        let Datum::State(text) = datum else { continue };
        let known = by_time.entry(*at).or_insert(text);
        *known = (*known).max(text);
    }
    let last = by_time.last_key_value().map_or(0, |(at, _)| *at);
    let ends = by_time.keys().skip(1).copied().chain([until.unwrap_or(last).max(last)]);
    let mut expected = BTreeMap::<&str, i64>::new();
    for ((at, text), end) in by_time.iter().zip(ends) {
        *expected.entry(text).or_default() += end - at;
    }
    found.as_object().is_some_and(|found| {
        found.len() == expected.len()
            && expected.iter().all(|(text, millis)| found.get(*text).and_then(Value::as_f64) == Some(*millis as f64))
    })
}
