//! `time` of a stream: where the event time comes from.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::decode::pointer::check_pointer;
use crate::engine::spec::{TimeFallback, TimeFormat, TimeSpec};

use super::keys;
use super::table::Table;

const EXAMPLE: &str = "{ field = \"/ts\", unit = \"ms\" }, { field = \"/time\", format = \"rfc3339\" } \
                       or { source = \"receive\" }";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Field,
    Receive,
}

/// The time of `stream`.
pub(super) fn check(stream: &Table<'_>, report: &mut Report) -> Option<TimeSpec> {
    let spot = stream.spot_of("time");
    let Some(item) = stream.get("time") else {
        report.problem(&spot, Wrong::new("is missing: no time is ever made up").hint(EXAMPLE));
        return None;
    };
    if !matches!(item.value, Value::Table(_)) {
        report.problem(&spot, Wrong::new(format!("must be a table, not {}", item.value.kind())).hint(EXAMPLE));
        return None;
    }
    let table = Table::open_item(&item, &keys::TIME, report)?;
    let source = match table.get("source") {
        Some(_) => table.choice("source", &[("field", Source::Field), ("receive", Source::Receive)], report),
        None => Some(Source::Field),
    };
    match source {
        // A wrong word: without a field, it is likely that none was meant.
        None if table.get("field").is_none() => None,
        None | Some(Source::Field) => field(&table, report),
        Some(Source::Receive) => {
            for key in ["field", "unit", "format", "missing", "bad"] {
                if let Some(item) = table.get(key) {
                    let wrong = Wrong::new("has no effect with source = \"receive\"");
                    report.problem(&item.spot, wrong.hint("remove it, or remove `source`"));
                }
            }
            Some(TimeSpec::Receive)
        }
    }
}

fn field(table: &Table<'_>, report: &mut Report) -> Option<TimeSpec> {
    let field = if table.get("field").is_some() {
        table.parsed("field", "a JSON Pointer", report, pointer)
    } else {
        report.problem(&table.spot_of("field"), Wrong::new("is missing").hint(EXAMPLE));
        None
    };
    let fallbacks = [("reject", TimeFallback::Reject), ("receive", TimeFallback::Receive)];
    let missing = table.choice("missing", &fallbacks, report);
    let bad = table.choice("bad", &fallbacks, report);
    let format = match (table.get("unit"), table.get("format")) {
        (Some(_), None) => {
            table.choice("unit", &[("s", TimeFormat::EpochSeconds), ("ms", TimeFormat::EpochMillis)], report)
        }
        (None, Some(_)) => table.choice("format", &[("rfc3339", TimeFormat::Rfc3339)], report),
        (Some(unit), Some(_)) => {
            report.problem(&unit.spot, Wrong::new("`unit` and `format` exclude each other").hint(EXAMPLE));
            None
        }
        (None, None) => {
            let wrong = Wrong::new("has neither `unit` nor `format`: a unit is never guessed");
            report.problem(&table.spot(), wrong.hint("unit = \"s\", unit = \"ms\" or format = \"rfc3339\""));
            None
        }
    };
    Some(TimeSpec::Field { pointer: field?, format: format?, missing: missing?, bad: bad? })
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
