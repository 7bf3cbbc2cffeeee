//! What a stream calculates from its records, and which of them it passes over.
//!
//! Computed fields come first, from the fields of the payload alone; then the filter, which
//! sees them too. A computed field without a value is left out and counted; a filter without
//! an answer rejects the record: silence would hide a mistake.

use crate::model::ids::{DeviceId, FieldIx, Name, StateIx};
use crate::model::limits::FIELDS_MAX;
use crate::model::time::EventTime;

use super::expression::{Datum, Expression, Scope, Variable};
use super::fields::FieldTable;
use super::intake::Who;
use super::spec::{LabelSpec, RulesSpec, StreamSpec};

/// Compiled rules of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Calculations {
    filter: Option<Expression>,
    compute: Vec<(Name, Expression)>,
}

/// One record, as expressions see it.
struct Seen<'r> {
    fields: &'r FieldTable,
    labels: &'r [LabelSpec],
    who: &'r Who,
    at: EventTime,
    values: &'r [(FieldIx, f64)],
    states: &'r [(FieldIx, StateIx)],
}

/// What the rules made of a record.
pub(super) enum Calculated {
    /// It counts, with so many computed fields left out.
    Counts(u32),
    /// The filter passes it over.
    Filtered,
    /// The filter has no answer.
    Failed,
}

impl Calculations {
    /// Of a checked stream.
    pub(super) fn new(spec: &RulesSpec) -> Calculations {
        let compile = |text: &String| Expression::compile(text).expect("config has compiled it");
        Calculations {
            filter: spec.filter.as_ref().map(compile),
            compute: spec.compute.iter().map(|(name, text)| (name.clone(), compile(text))).collect(),
        }
    }

    /// Nothing is calculated.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.filter.is_none() && self.compute.is_empty()
    }

    /// Something asks for labels.
    pub(super) fn use_labels(&self) -> bool {
        let expressions = self.filter.iter().chain(self.compute.iter().map(|(_, expression)| expression));
        expressions.flat_map(Expression::variables).any(|variable| matches!(variable, Variable::Label(_)))
    }

    /// Adds what is computed to `values`, and asks the filter. `values` stay in the order of
    /// the fields.
    pub(super) fn apply(
        &self,
        spec: &StreamSpec,
        fields: &FieldTable,
        who: &Who,
        at: EventTime,
        values: &mut Vec<(FieldIx, f64)>,
        states: &[(FieldIx, StateIx)],
    ) -> Calculated {
        let mut left_out = 0;
        let mut computed: heapless::Vec<(FieldIx, f64), FIELDS_MAX> = heapless::Vec::new();
        for (name, expression) in &self.compute {
            match (
                fields.find(name.as_str()),
                expression.number(&Seen { fields, labels: &spec.labels, who, at, values, states }),
            ) {
                (Some(field), Ok(value)) if computed.push((field, value)).is_ok() => {}
                _ => left_out += 1,
            }
        }
        for (field, value) in computed {
            match values.binary_search_by_key(&field, |(known, _)| *known) {
                Ok(place) => values[place].1 = value,
                Err(place) => values.insert(place, (field, value)),
            }
        }
        match self
            .filter
            .as_ref()
            .map(|filter| filter.filter(&Seen { fields, labels: &spec.labels, who, at, values, states }))
        {
            None | Some(Ok(true)) => Calculated::Counts(left_out),
            Some(Ok(false)) => Calculated::Filtered,
            Some(Err(_)) => Calculated::Failed,
        }
    }
}

impl Scope for Seen<'_> {
    fn get(&self, _place: usize, variable: &Variable) -> Option<Datum<'_>> {
        match variable {
            Variable::Field(name) => {
                let field = self.fields.find(name)?;
                if let Ok(place) = self.values.binary_search_by_key(&field, |(known, _)| *known) {
                    return Some(Datum::Number(self.values[place].1));
                }
                let (_, state) = self.states.iter().find(|(known, _)| *known == field)?;
                Some(match self.fields.states().text(*state) {
                    "true" => Datum::Bool(true),
                    "false" => Datum::Bool(false),
                    text => Datum::Text(text),
                })
            }
            Variable::Label(name) => {
                let place = self.labels.iter().position(|label| label.name == *name)?;
                self.who.labels.get(place)?.as_ref().map(|label| Datum::Text(DeviceId::as_str(label)))
            }
            Variable::Device => Some(Datum::Text(self.who.device.as_str())),
            // Exact: milliseconds stay below 2^53 for 285,000 years.
            Variable::EventMs => Some(Datum::Number(self.at.as_millis() as f64)),
        }
    }
}
