//! `fields` of a stream: which values of a payload count, and which of them are states.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::FieldsSpec;
use crate::model::ids::Name;
use crate::model::limits::FIELDS_MAX;

use super::table::{Item, Table};
use super::{keys, name, time};

/// The fields, and the names of those that are states.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<(FieldsSpec, Vec<Name>)> {
    let Some(item) = table.get("fields") else { return Some((FieldsSpec::All, Vec::new())) };
    let Value::Table(entries) = item.value else {
        return item.parsed("\"all\" or a table", report, |text| match text {
            "all" => Ok((FieldsSpec::All, Vec::new())),
            _ => Err(Wrong::new("must be \"all\" or a table").hint("{ temperature = \"/temperature\" }")),
        });
    };
    if entries.is_empty() || entries.len() > FIELDS_MAX {
        let wrong = Wrong::new(format!("has {} fields, 1 to {FIELDS_MAX} are allowed", entries.len()));
        report.problem(&item.spot, wrong.hint("\"all\" takes every number"));
    }
    let mut named: Vec<(_, String)> = Vec::new();
    let mut states = Vec::new();
    for entry in entries {
        let field = Item::new(&entry.node, format!("{}.{}", item.spot.path, entry.key));
        let field_name = match name(&entry.key) {
            Ok(name) => Some(name),
            Err(wrong) => {
                report.problem(&field.spot, wrong);
                None
            }
        };
        if let (Some(name), Some((pointer, is_state))) = (field_name, field_of(&field, report)) {
            if let Some((other, _)) = named.iter().find(|(_, known)| *known == pointer) {
                report.warn(&field.spot, Wrong::new(format!("is the same value as `{other}`")));
            }
            if is_state {
                states.push(name.clone());
            }
            named.push((name, pointer));
        }
    }
    (named.len() == entries.len()).then_some((FieldsSpec::Named(named), states))
}

/// Its JSON Pointer, alone or in a table, and whether it is a state.
fn field_of(field: &Item<'_>, report: &mut Report) -> Option<(String, bool)> {
    if !matches!(field.value, Value::Table(_)) {
        return Some((
            field.parsed("a JSON Pointer, or a table with `pointer` and `type`", report, time::pointer)?,
            false,
        ));
    }
    let table = Table::open_item(field, &keys::FIELD, report)?;
    let pointer = table.parsed("pointer", "a JSON Pointer", report, time::pointer);
    let is_state = table.choice("type", &[("number", false), ("state", true)], report);
    Some((pointer?, is_state?))
}
