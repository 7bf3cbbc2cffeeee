//! `time` of a stream: where the event time comes from.

mod format;

use crate::config::problem::{Report, Spot, Wrong};
use crate::config::raw::Value;
use crate::engine::decode::pointer::check_pointer;
use crate::engine::spec::{TimeCandidate, TimeFallback, TimeSpec, TimeUnit};
use crate::model::limits::TIME_CANDIDATES_MAX;

use super::keys;
use super::table::{Item, Table};

const EXAMPLE: &str = "{ field = \"/ts\", unit = \"ms\" }, { field = \"/time\", format = \"rfc3339\" } \
                       or { source = \"receive\" }";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Field,
    Receive,
    Payload,
}

/// The time of `stream`.
pub(super) fn check(stream: &Table<'_>, report: &mut Report) -> Option<TimeSpec> {
    let Some(item) = stream.get("time") else {
        if !stream.means("time") {
            report.problem(&stream.spot_of("time"), Wrong::new("is missing: no time is ever made up").hint(EXAMPLE));
        }
        return None;
    };
    match item.value {
        Value::Table(_) => one(&Table::open_item(&item, &keys::TIME, report)?, report),
        Value::List(_) => several(&item, report),
        Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null => {
            let wrong = Wrong::new(format!("must be a table, or a list of tables, not {}", item.value.kind()));
            report.problem(&item.spot, wrong.hint(EXAMPLE));
            None
        }
    }
}

fn one(table: &Table<'_>, report: &mut Report) -> Option<TimeSpec> {
    match source(table, report) {
        // A wrong word: without a field, it is likely that none was meant.
        None if table.get("field").is_none() => None,
        None | Some(Source::Field) => {
            let mut found = Vec::new();
            let complete = candidates(table, &mut found, report);
            let (missing, bad) = fallbacks(table, report);
            fields(found, missing, bad, complete, &table.spot(), report)
        }
        Some(Source::Receive) => {
            let keys = ["field", "unit", "format", "zone", "gap", "overlap", "missing", "bad"];
            refuse(table, &keys, "has no effect with source = \"receive\"", report);
            Some(TimeSpec::Receive)
        }
        Some(Source::Payload) => {
            let keys = ["field", "format", "zone", "gap", "overlap"];
            refuse(table, &keys, "has no effect with source = \"payload\"", report);
            let unit = match table.get("unit") {
                Some(_) => Some(unit(table, report)?),
                None => None,
            };
            let (missing, bad) = fallbacks(table, report);
            Some(TimeSpec::Own { unit, missing: missing?, bad: bad? })
        }
    }
}

/// Several tables: the first whose field is there counts.
fn several(item: &Item<'_>, report: &mut Report) -> Option<TimeSpec> {
    let items = item.list(report)?;
    let mut found = Vec::new();
    let mut complete = true;
    let (mut missing, mut bad) = (None, None);
    for (index, each) in items.iter().enumerate() {
        let Some(table) = Table::open_item(each, &keys::TIME, report) else {
            complete = false;
            continue;
        };
        match source(&table, report) {
            Some(Source::Field) => {}
            Some(Source::Receive | Source::Payload) => {
                let wrong = Wrong::new("cannot be one of several: only fields can");
                let hint = "`missing = \"receive\"` in the last table, or this table alone";
                report.problem(&table.spot_of("source"), wrong.hint(hint));
                complete = false;
                continue;
            }
            None => {
                complete = false;
                continue;
            }
        }
        complete &= candidates(&table, &mut found, report);
        if index + 1 == items.len() {
            (missing, bad) = fallbacks(&table, report);
        } else {
            for key in ["missing", "bad"] {
                if let Some(item) = table.get(key) {
                    let wrong = Wrong::new("is said once, for all of them");
                    report.problem(&item.spot, wrong.hint("move it into the last table"));
                }
            }
        }
    }
    if items.is_empty() {
        report.problem(&item.spot, Wrong::new("is an empty list").hint(EXAMPLE));
        return None;
    }
    fields(found, missing, bad, complete, &item.spot, report)
}

/// `complete`: none of the candidates is wrong.
fn fields(
    found: Vec<(Spot, TimeCandidate)>,
    missing: Option<TimeFallback>,
    bad: Option<TimeFallback>,
    complete: bool,
    spot: &Spot,
    report: &mut Report,
) -> Option<TimeSpec> {
    for (index, (spot, candidate)) in found.iter().enumerate() {
        if found[..index].iter().any(|(_, other)| other.pointer == candidate.pointer) {
            let wrong = Wrong::new("is there twice: the first one counts, always");
            report.problem(spot, wrong.hint("remove one of them"));
        }
    }
    if found.len() > TIME_CANDIDATES_MAX {
        report.problem(spot, Wrong::new(format!("has {} fields, at most {TIME_CANDIDATES_MAX}", found.len())));
    }
    let candidates = found.into_iter().map(|(_, candidate)| candidate).collect();
    complete.then_some(TimeSpec::Fields { candidates, missing: missing?, bad: bad? })
}

fn source(table: &Table<'_>, report: &mut Report) -> Option<Source> {
    let words = [("field", Source::Field), ("receive", Source::Receive), ("payload", Source::Payload)];
    match table.get("source") {
        Some(_) => table.choice("source", &words, report),
        None => Some(Source::Field),
    }
}

fn unit(table: &Table<'_>, report: &mut Report) -> Option<TimeUnit> {
    let units = [TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos];
    table.choice("unit", &units.map(|unit| (unit.as_str(), unit)), report)
}

fn fallbacks(table: &Table<'_>, report: &mut Report) -> (Option<TimeFallback>, Option<TimeFallback>) {
    let words = [("reject", TimeFallback::Reject), ("receive", TimeFallback::Receive)];
    (table.choice("missing", &words, report), table.choice("bad", &words, report))
}

fn refuse(table: &Table<'_>, keys: &[&str], why: &str, report: &mut Report) {
    for item in keys.iter().filter_map(|key| table.get(key)) {
        report.problem(&item.spot, Wrong::new(why).hint("remove it, or `source`"));
    }
}

/// The fields of one table; `false` when something is wrong.
fn candidates(table: &Table<'_>, found: &mut Vec<(Spot, TimeCandidate)>, report: &mut Report) -> bool {
    let what = "a JSON Pointer, or a list of them";
    let pointers: Vec<Item<'_>> = match table.get("field") {
        None => {
            if !table.means("field") {
                report.problem(&table.spot_of("field"), Wrong::new("is missing").hint(EXAMPLE));
            }
            Vec::new()
        }
        Some(item) if matches!(item.value, Value::List(_)) => {
            let items = item.list(report).unwrap_or_default();
            if items.is_empty() {
                report.problem(&item.spot, Wrong::new(format!("must be {what}, not an empty one")));
            }
            items
        }
        Some(item) => vec![item],
    };
    let format = format::check(table, report);
    let mut complete = format.is_some() && !pointers.is_empty();
    for item in pointers {
        match (item.parsed(what, report, pointer), &format) {
            (Some(pointer), Some(format)) => {
                found.push((item.spot, TimeCandidate { pointer, format: format.clone() }));
            }
            (Some(_), None) => {}
            (None, _) => complete = false,
        }
    }
    complete
}

/// A JSON Pointer, with a hint for the ways in which people write paths.
pub(super) fn pointer(text: &str) -> Result<String, Wrong> {
    let Some(message) = check_pointer(text) else { return Ok(text.to_owned()) };
    let wrong = Wrong::new(message);
    if text.starts_with('/') {
        return Err(wrong);
    }
    let path = text.trim_start_matches('$').trim_start_matches('.').replace(['.', '['], "/").replace(']', "");
    Err(wrong.hint(format!("\"/{path}\"")))
}
