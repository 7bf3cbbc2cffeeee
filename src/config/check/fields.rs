//! `fields` of a stream: which values of a payload count, and what they are.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::{FieldKind, FieldSpec, FieldsSpec};
use crate::model::limits::{ALIASES_MAX, FIELDS_MAX};

use super::table::{Item, Table};
use super::{keys, name, time};

/// The fields.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<FieldsSpec> {
    let all = all(table, report);
    let Some(item) = table.get("fields") else { return all };
    let Value::Table(entries) = item.value else {
        item.parsed("\"all\" or a table", report, |text| match text {
            "all" => Ok(()),
            _ => Err(Wrong::new("must be \"all\" or a table").hint("{ temperature = \"/temperature\" }")),
        })?;
        return all;
    };
    for key in ["fields_at", "fields_except", "prefix"] {
        if let Some(other) = table.get(key) {
            let wrong = Wrong::new("has no effect where the fields are named");
            report.problem(&other.spot, wrong.hint("remove it, or set `fields = \"all\"`"));
        }
    }
    if entries.is_empty() || entries.len() > FIELDS_MAX {
        let wrong = Wrong::new(format!("has {} fields, 1 to {FIELDS_MAX} are allowed", entries.len()));
        report.problem(&item.spot, wrong.hint("\"all\" takes every number"));
    }
    let mut named: Vec<FieldSpec> = Vec::new();
    for entry in entries {
        let field = Item::new(&entry.node, format!("{}.{}", item.spot.path, entry.key));
        let field_name = match name(&entry.key) {
            Ok(name) => Some(name),
            Err(wrong) => {
                report.problem(&field.spot, wrong);
                None
            }
        };
        if let (Some(name), Some((pointers, kind))) = (field_name, field_of(&field, report)) {
            if let Some(other) = named.iter().find(|known| known.pointers == pointers) {
                report.warn(&field.spot, Wrong::new(format!("is the same value as `{}`", other.name)));
            }
            named.push(FieldSpec { name, pointers, kind });
        }
    }
    (named.len() == entries.len()).then_some(FieldsSpec::Named(named))
}

/// Every number, with its bounds.
fn all(table: &Table<'_>, report: &mut Report) -> Option<FieldsSpec> {
    let below = match table.get("fields_at") {
        Some(item) if matches!(item.value, Value::Text(text) if text.is_empty()) => Some(String::new()),
        Some(item) => item.parsed("a JSON Pointer", report, time::pointer),
        None => Some(String::new()),
    };
    let except = match table.get("fields_except") {
        Some(item) if matches!(item.value, Value::List(items) if items.is_empty()) => Some(Vec::new()),
        Some(item) => pointers(&item, FIELDS_MAX, report),
        None => Some(Vec::new()),
    };
    Some(FieldsSpec::All { below: below?, except: except? })
}

/// A JSON Pointer, or several.
pub(super) fn pointers(item: &Item<'_>, max: usize, report: &mut Report) -> Option<Vec<String>> {
    let items = item.one_or_more(1..=max, report)?;
    items.iter().map(|item| item.parsed("a JSON Pointer", report, time::pointer)).collect()
}

/// Its JSON Pointers, alone or in a table, and what it is.
fn field_of(field: &Item<'_>, report: &mut Report) -> Option<(Vec<String>, FieldKind)> {
    match field.value {
        Value::Table(_) => {}
        Value::List(_) => return Some((pointers(field, ALIASES_MAX, report)?, FieldKind::NUMBER)),
        Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null => {
            let pointer = field.parsed("a JSON Pointer, or a table with `pointer`", report, time::pointer)?;
            return Some((vec![pointer], FieldKind::NUMBER));
        }
    }
    let table = Table::open_item(field, &keys::FIELD, report)?;
    let pointer = table.required("pointer", report).and_then(|item| pointers(&item, ALIASES_MAX, report));
    let is_state = table.choice("type", &[("number", false), ("state", true)], report);
    let defaults = [("scale", 1.0), ("offset", 0.0), ("min", f64::NEG_INFINITY), ("max", f64::INFINITY)];
    let numbers = defaults.map(|(key, default)| number(&table, key, default, report));
    if is_state == Some(true) {
        for key in ["scale", "offset", "min", "max"] {
            if let Some(item) = table.get(key) {
                report.problem(&item.spot, Wrong::new("is for numbers; this field is a state"));
                return None;
            }
        }
        return Some((pointer?, FieldKind::State));
    }
    let [scale, offset, min, max] = numbers;
    let (scale, offset, min, max) = (scale?, offset?, min?, max?);
    if min > max {
        report.problem(&table.spot_of("min"), Wrong::new(format!("must not be above `max` ({max})")));
        return None;
    }
    let kind = FieldKind::Number { scale, offset, min, max };
    is_state.and(Some((pointer?, kind)))
}

/// A finite number, or `default` when it is absent.
fn number(table: &Table<'_>, key: &str, default: f64, report: &mut Report) -> Option<f64> {
    let Some(item) = table.get(key) else { return Some(default) };
    let number = finite(item.value);
    if number.is_none() {
        report.problem(&item.spot, Wrong::new("must be a finite number"));
    }
    number
}

/// The number that a value is.
pub(super) fn finite(value: &Value) -> Option<f64> {
    let found = match value {
        Value::Float(number) => *number,
        // Nobody needs an integer beyond 2^53 here.
        Value::Integer(number) => *number as f64,
        Value::Text(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Table(_) => return None,
    };
    found.is_finite().then_some(found)
}
