//! `records` of a stream: whether single readings are passed on.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::Records;
use crate::model::limits::ORDERED_MAX;

use super::table::Table;

/// The records of `stream`. `is_paired`: an interval join reads them.
pub(super) fn check(stream: &Table<'_>, is_paired: bool, report: &mut Report) -> Option<Records> {
    let held_max = stream.integer("ordered_max", 1..=ORDERED_MAX, report);
    let windows = stream.get("windows");
    let windowless = windows.is_none_or(|windows| matches!(windows.value, Value::List(items) if items.is_empty()));
    let ordered = Records::Ordered { held_max: held_max.unwrap_or(ORDERED_MAX) };
    let words = [("off", Records::Off), ("arrival", Records::Arrival), ("ordered", ordered)];
    let records = match stream.get("records") {
        Some(_) => stream.choice("records", &words, report)?,
        None if windowless => Records::Arrival,
        None => Records::Off,
    };
    if windowless && records == Records::Off && !is_paired {
        let wrong = Wrong::new("without windows or an interval join, readings would be acknowledged and go nowhere");
        report.problem(&stream.spot_of("records"), wrong.hint("\"arrival\", \"ordered\", or [[streams.windows]]"));
    }
    if stream.get("ordered_max").is_some() && !matches!(records, Records::Ordered { .. }) {
        let wrong = Wrong::new("says nothing without records = \"ordered\"");
        report.problem(&stream.spot_of("ordered_max"), wrong.hint("remove it, or records = \"ordered\""));
    }
    held_max.map(|_| records)
}
