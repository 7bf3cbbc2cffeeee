//! `aggregates` of a window, and the settings of those that have any.

use crate::config::problem::{Report, Wrong, nearest};
use crate::config::raw::Value;
use crate::engine::aggregate::{Aggregates, Kind};
use crate::model::limits::{HISTOGRAM_BOUNDS_MAX, QUANTILES_MAX};

use super::table::{Item, Table};

/// What is computed.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<Aggregates> {
    let kinds = kinds(table, report);
    let quantiles = numbers(table, "quantiles", QUANTILES_MAX, report);
    let histogram = numbers(table, "histogram", HISTOGRAM_BOUNDS_MAX, report);
    if let Some(quantiles) = &quantiles {
        check_quantiles(table, quantiles, report);
    }
    if let Some(bounds) = &histogram
        && let Some(at) = bounds.windows(2).position(|pair| pair[0] >= pair[1])
    {
        let wrong = Wrong::new(format!("does not rise: {} comes after {}", bounds[at + 1], bounds[at]));
        report.problem(&table.spot_of("histogram"), wrong.hint("from the lowest to the highest, each once"));
    }
    let kinds = kinds?;
    for (key, kind) in [("quantiles", Kind::Quantiles), ("histogram", Kind::Histogram)] {
        if table.get(key).is_some() && !kinds.contains(&kind) {
            let wrong = Wrong::new(format!("says nothing without the aggregate \"{key}\""));
            report.problem(&table.spot_of(key), wrong.hint("remove it, or name the aggregate in `aggregates`"));
        }
    }
    if kinds.contains(&Kind::Histogram) && table.get("histogram").is_none() {
        if !table.means("histogram") {
            let wrong = Wrong::new("is missing: the aggregate \"histogram\" needs its bounds");
            report.problem(&table.spot_of("histogram"), wrong.hint("histogram = [10, 20, 30]"));
        }
        return None;
    }
    let (quantiles, bounds) = (quantiles?, histogram?);
    let aggregates = Aggregates::of(&kinds).with_histogram(&bounds);
    Some(if quantiles.is_empty() { aggregates } else { aggregates.with_quantiles(&quantiles) })
}

fn kinds(table: &Table<'_>, report: &mut Report) -> Option<Vec<Kind>> {
    let Some(given) = table.get("aggregates") else {
        let parse = |text: &str| text.split(", ").map(|word| Kind::parse(word).ok_or_else(|| unknown(word))).collect();
        return table.parsed("aggregates", "a list", report, parse);
    };
    let items = given.list(report)?;
    if items.is_empty() {
        report.problem(&given.spot, Wrong::new("is empty").hint("[\"count\", \"mean\"], or remove it for all"));
        return None;
    }
    let mut kinds = Vec::new();
    let mut good = true;
    for item in &items {
        let Some(kind) = item.parsed("a string", report, |word| Kind::parse(word).ok_or_else(|| unknown(word))) else {
            good = false;
            continue;
        };
        if kinds.contains(&kind) {
            report.problem(&item.spot, Wrong::new("appears twice"));
        }
        kinds.push(kind);
    }
    good.then_some(kinds)
}

fn unknown(word: &str) -> Wrong {
    let known = || Kind::ALL.iter().map(|kind| kind.as_str());
    let wrong = Wrong::new("is no aggregate");
    let is_percentile = word.strip_prefix('p').is_some_and(|rest| rest.parse::<f64>().is_ok());
    let meant = match word {
        "avg" | "average" => Some("mean"),
        "median" | "quantile" | "percentile" | "percentiles" => Some("quantiles"),
        _ if is_percentile => Some("quantiles"),
        "delta" | "diff" | "counter" => Some("increase"),
        "unique" | "cardinality" | "count_distinct" => Some("distinct"),
        "std" | "sd" => Some("stddev"),
        "twa" | "time_weighted_average" => Some("time_weighted_mean"),
        "duration" | "state_duration" => Some("durations"),
        _ => nearest(word, known()),
    };
    match meant {
        Some("quantiles") if is_percentile => {
            wrong.hint("did you mean \"quantiles\"? Which ones is said by `quantiles = [0.5, 0.95]`")
        }
        Some(meant) => wrong.hint(format!("did you mean \"{meant}\"?")),
        None => wrong.hint(format!("known: {}", known().collect::<Vec<_>>().join(", "))),
    }
}

/// A list of finite numbers; none when it is not there.
fn numbers(table: &Table<'_>, key: &str, most: usize, report: &mut Report) -> Option<Vec<f64>> {
    let Some(given) = table.get(key) else { return Some(Vec::new()) };
    let items = given.list(report)?;
    if items.is_empty() || items.len() > most {
        report.problem(&given.spot, Wrong::new(format!("has {} numbers, 1 to {most} are allowed", items.len())));
        return None;
    }
    let found: Vec<f64> = items.iter().filter_map(|item| number(item, report)).collect();
    (found.len() == items.len()).then_some(found)
}

fn number(item: &Item<'_>, report: &mut Report) -> Option<f64> {
    let number = match item.value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
        Value::Text(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Table(_) => None,
    };
    if number.is_none() {
        report.problem(&item.spot, Wrong::new("must be a number"));
    }
    number
}

fn check_quantiles(table: &Table<'_>, quantiles: &[f64], report: &mut Report) {
    for (place, quantile) in quantiles.iter().enumerate() {
        let spot = table.spot_of("quantiles");
        if !(0.0..=1.0).contains(quantile) {
            let wrong = Wrong::new(format!("has {quantile}; a quantile is from 0 to 1"));
            let is_percent = (1.0..=100.0).contains(quantile);
            let hint = if is_percent { format!("{}", quantile / 100.0) } else { "0.5 is the median".to_owned() };
            report.problem(&spot, wrong.hint(hint));
        } else if quantiles[..place].contains(quantile) {
            report.problem(&spot, Wrong::new(format!("has {quantile} twice")));
        }
    }
}
