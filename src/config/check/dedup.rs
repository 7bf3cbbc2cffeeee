//! `dedup` of a stream: how copies of a reading are recognised.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::{DedupBy, DedupSpec, FieldsSpec, StreamSpec, TimeSpec};
use crate::model::ids::Name;
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
    if let Some(wrong) = around.fields.and_then(|fields| no_number(&field, fields)) {
        report.problem(&table.spot_of("sequence"), wrong);
    }
    Some(DedupBy::Sequence { field })
}

/// Why `field` numbers nothing.
fn no_number(field: &Name, fields: &FieldsSpec) -> Option<Wrong> {
    if fields.is_state(field.as_str()) {
        let hint = "a field of type \"number\"; texts are counted as sequence_missing";
        return Some(Wrong::new("must be a number; this field is a state").hint(hint));
    }
    let text = field.as_str();
    let named = match fields {
        FieldsSpec::Named(named) => named.as_slice(),
        FieldsSpec::All { .. } => &[],
    };
    if named.iter().any(|known| known.name == *field) {
        return None;
    }
    if let Some(path) = text.strip_prefix('/') {
        let meant = named.iter().find(|field| field.pointers.iter().any(|pointer| pointer == text));
        let meant = meant.map_or_else(|| path.replace('/', "."), |known| known.name.as_str().to_owned());
        return Some(Wrong::new("is none of `fields`").hint(format!("a field's name, not a pointer: \"{meant}\"")));
    }
    match fields {
        FieldsSpec::All { .. } => None,
        FieldsSpec::Named(_) => {
            Some(Wrong::new("is none of `fields`").hint(format!("fields = {{ {text} = \"/{text}\", … }}")))
        }
    }
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
        report.problem(&table.spot_of("dedup"), wrong.hint(what_fits(stream, total - bytes(stream))));
    }
}

/// What to write instead when the others take `others` bytes.
fn what_fits(stream: &StreamSpec, others: usize) -> String {
    let room = DEDUP_BYTES_MAX.saturating_sub(others);
    let bytes = |horizon: usize| {
        let spec = stream.dedup.as_ref().map(|dedup| DedupSpec { by: dedup.by.clone(), horizon });
        spec.map_or(0, |spec| spec.device_bytes())
    };
    let fits = |horizon: &usize| bytes(*horizon) * stream.devices_max <= room;
    match (1..=DEDUP_HORIZON_MAX).rev().find(fits) {
        Some(horizon) => format!("horizon = {horizon} is the largest that fits, or a smaller `devices_max`"),
        None => match room.checked_div(bytes(1)) {
            Some(devices @ 1..) => format!("devices_max = {devices} at most, and a smaller `horizon`"),
            Some(0) | None => "less for the other streams".to_owned(),
        },
    }
}
