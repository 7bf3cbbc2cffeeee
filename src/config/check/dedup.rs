//! `dedup` of a stream: how copies of a reading are recognised.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::{DedupBy, DedupSpec, FieldsSpec, StreamSpec, TimeSpec};
use crate::model::limits::{DEDUP_BYTES_MAX, DEDUP_HORIZON_MAX};

use super::table::Table;
use super::{keys, name};

const EXAMPLE: &str = "{ sequence = \"seq\" } or { by = \"time_and_values\" }";

/// The parts of a stream that matter here; `None`: they could not be read.
pub(super) struct Around<'a> {
    pub fields: Option<&'a FieldsSpec>,
    pub time: Option<&'a TimeSpec>,
    pub devices_max: Option<usize>,
}

/// The dedup of `stream`. None is what it says, or could not be read, which is reported.
pub(super) fn check(stream: &Table<'_>, around: &Around<'_>, report: &mut Report) -> Option<DedupSpec> {
    let item = stream.get("dedup")?;
    match item.value {
        Value::Text(text) if text == "off" => return None,
        Value::Table(_) => {}
        Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_) => {
            report.problem(&item.spot, Wrong::new("must be a table, or \"off\"").hint(EXAMPLE));
            return None;
        }
    }
    let table = Table::open_item(&item, &keys::DEDUP, report)?;
    let by = match (table.get("sequence"), table.get("by")) {
        (Some(_), None) => sequence(&table, around, report),
        (None, Some(_)) => time_and_values(&table, around, report),
        (Some(_), Some(by)) => {
            report.problem(&by.spot, Wrong::new("`sequence` and `by` exclude each other").hint(EXAMPLE));
            None
        }
        (None, None) => {
            report.problem(&table.spot(), Wrong::new("does not say what a copy is").hint(EXAMPLE));
            None
        }
    };
    let horizon = match table.get("horizon") {
        Some(_) => table.integer("horizon", 1..=DEDUP_HORIZON_MAX, report),
        None => Some(DedupSpec::default_horizon(by.as_ref()?, around.devices_max?)),
    };
    Some(DedupSpec { by: by?, horizon: horizon? })
}

fn sequence(table: &Table<'_>, around: &Around<'_>, report: &mut Report) -> Option<DedupBy> {
    let field = table.parsed("sequence", "the name of a field", report, name)?;
    if let Some(FieldsSpec::Named(fields)) = around.fields
        && fields.iter().all(|(known, _)| *known != field)
    {
        let wrong = Wrong::new("is none of `fields`");
        report.problem(&table.spot_of("sequence"), wrong.hint(format!("fields = {{ {field} = \"/{field}\", … }}")));
    }
    Some(DedupBy::Sequence { field })
}

fn time_and_values(table: &Table<'_>, around: &Around<'_>, report: &mut Report) -> Option<DedupBy> {
    let by = table.choice("by", &[("time_and_values", ())], report);
    if matches!(around.time, Some(TimeSpec::Receive)) {
        let wrong = Wrong::new("finds nothing with the receive time: each copy arrives at a time of its own");
        report.problem(&table.spot_of("by"), wrong.hint("a time field of the payload, or `sequence`"));
    }
    by.map(|()| DedupBy::TimeAndValues)
}

/// Whether all streams together remember too much. `tables`: those of the streams.
pub(super) fn check_total(streams: &[StreamSpec], tables: &[Table<'_>], report: &mut Report) {
    let bytes =
        |stream: &StreamSpec| stream.dedup.as_ref().map_or(0, |dedup| dedup.device_bytes() * stream.devices_max);
    let total: usize = streams.iter().map(bytes).sum();
    let largest = streams.iter().zip(tables).max_by_key(|(stream, _)| bytes(stream));
    if let Some((stream, table)) = largest.filter(|_| total > DEDUP_BYTES_MAX) {
        let horizon = stream.dedup.as_ref().map_or(0, |dedup| dedup.horizon);
        let wrong = Wrong::new(format!(
            "all streams together would remember {}KiB, at most {}KiB: horizon {horizon} for {} devices is the largest",
            total.div_ceil(1_024),
            DEDUP_BYTES_MAX / 1_024,
            stream.devices_max
        ));
        report.problem(&table.spot_of("dedup"), wrong.hint("a smaller `horizon` or `devices_max`"));
    }
}
