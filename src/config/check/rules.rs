//! Which records of a stream are kept out, and what is calculated from the others.

use crate::config::problem::{Report, Wrong, nearest};
use crate::config::raw::Value;
use crate::engine::expression::{Expression, Variable};
use crate::engine::spec::{FieldsSpec, RulesSpec};
use crate::model::ids::Name;
use crate::model::limits::FIELDS_MAX;

use super::name;
use super::table::{Item, Table};
use super::topics::{self, Topics};

/// What expressions of a stream may refer to.
struct Known<'k> {
    /// `None`: any field.
    fields: Option<Vec<&'k str>>,
    labels: Vec<&'k str>,
}

/// `allow`, `deny`, `filter` and `compute`.
pub(super) fn check(
    table: &Table<'_>,
    fields: Option<&FieldsSpec>,
    topics: Option<&Topics>,
    report: &mut Report,
) -> Option<RulesSpec> {
    let allow = topics::devices(table, "allow", report);
    let deny = topics::devices(table, "deny", report);
    let named = match fields {
        Some(FieldsSpec::Named(named)) => Some(named.iter().map(|field| field.name.as_str()).collect::<Vec<_>>()),
        Some(FieldsSpec::All { .. }) | None => None,
    };
    let labels = topics.map(|topics| topics.labels.iter().map(|label| label.name.as_str()).collect());
    let mut known = Known { fields: named, labels: labels.unwrap_or_default() };
    let compute = compute(table, &known, report);
    if let (Some(fields), Some(computed)) = (&mut known.fields, &compute) {
        fields.extend(computed.iter().map(|(name, _)| name.as_str()));
        if fields.len() > FIELDS_MAX {
            let wrong = Wrong::new(format!("makes {} fields with `fields`, at most {FIELDS_MAX}", fields.len()));
            report.problem(&table.spot_of("compute"), wrong);
        }
    }
    let filter = match table.get("filter") {
        Some(item) => expression(&item, &known, report).map(Some),
        None => Some(None),
    };
    Some(RulesSpec { allow: allow.ok()?, deny: deny.ok()?.unwrap_or_default(), filter: filter?, compute: compute? })
}

fn compute(table: &Table<'_>, known: &Known<'_>, report: &mut Report) -> Option<Vec<(Name, String)>> {
    let Some(item) = table.get("compute") else { return Some(Vec::new()) };
    let Value::Table(entries) = item.value else {
        let wrong = Wrong::new(format!("must be a table, not {}", item.value.kind()));
        report.problem(&item.spot, wrong.hint("{ power = \"voltage * current\" }"));
        return None;
    };
    let mut computed = Vec::new();
    for entry in entries {
        let item = Item::new(&entry.node, format!("{}.{}", item.spot.path, entry.key));
        let field = match name(&entry.key) {
            Ok(field) => Some(field),
            Err(wrong) => {
                report.problem(&item.spot, wrong);
                None
            }
        };
        if known.fields.as_ref().is_some_and(|fields| fields.contains(&entry.key.as_str())) {
            report.problem(&item.spot, Wrong::new("is one of `fields` already").hint("another name"));
            continue;
        }
        if let (Some(field), Some(text)) = (field, expression(&item, known, report)) {
            computed.push((field, text));
        }
    }
    (computed.len() == entries.len()).then_some(computed)
}

/// The text of an expression that is one, and refers to nothing that cannot be.
fn expression(item: &Item<'_>, known: &Known<'_>, report: &mut Report) -> Option<String> {
    let (text, compiled) = item.parsed("an expression", report, |text| {
        let compiled = Expression::compile(text).map_err(|error| Wrong::new(error.to_string()))?;
        Ok((text.to_owned(), compiled))
    })?;
    let mut sound = true;
    for variable in compiled.variables() {
        let (what, word, names) = match variable {
            Variable::Field(field) => ("field", field, known.fields.as_deref()),
            Variable::Label(label) => ("label", label, Some(known.labels.as_slice())),
            Variable::Device | Variable::EventMs => continue,
        };
        let Some(names) = names.filter(|names| !names.contains(&word.as_str())) else { continue };
        let wrong = Wrong::new(format!("there is no {what} `{word}`"));
        report.problem(
            &item.spot,
            match nearest(word, names.iter().copied()) {
                Some(near) => wrong.hint(format!("did you mean `{near}`?")),
                None => wrong.hint(format!("there are: {}", names.join(", "))),
            },
        );
        sound = false;
    }
    sound.then_some(text)
}
