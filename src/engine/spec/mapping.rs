//! What of a payload counts, and how it is called.

use crate::model::ids::Name;
use crate::model::template::PayloadText;

use super::source::TimeSpec;

/// How a payload becomes records.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingSpec {
    /// Which values count.
    pub fields: FieldsSpec,
    /// Where the event time comes from.
    pub time: TimeSpec,
    /// Where records of their own begin in a payload; empty: each payload, or each item of
    /// its outermost array, is one.
    pub records: Vec<RecordsPattern>,
    /// Numbers that come as texts count too.
    pub text_numbers: Option<NumberRules>,
    /// What templates take from the payload; see `model::template`.
    pub texts: Vec<PayloadText>,
}

/// Which values of a record count.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldsSpec {
    /// These.
    Named(Vec<FieldSpec>),
    /// Every number, named by its path with `.` between the levels.
    All {
        /// Below this JSON Pointer of the record, which is no part of the names; empty: all
        /// of the record.
        below: String,
        /// Not what is at, or below, these JSON Pointers of the record.
        except: Vec<String>,
    },
}

/// One field of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSpec {
    /// Its name in results.
    pub name: Name,
    /// Where it is: JSON Pointers (RFC 6901) of the record, the first that is there counts.
    pub pointers: Vec<String>,
    /// What it is.
    pub kind: FieldKind,
}

/// What the value of a field is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    /// A number.
    Number {
        /// What it is multiplied with, before `offset` is added.
        scale: f64,
        /// What is added.
        offset: f64,
        /// The least value, so scaled, that is one.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// A word: a text, a bool, or an integer.
    State,
}

/// How numbers in texts may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumberRules {
    /// `,` is a decimal mark.
    pub decimal_comma: bool,
    /// A unit may follow.
    pub units: bool,
}

/// A JSON Pointer in which `*` stands for any key or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordsPattern {
    /// Its steps; `None` is `*`. Empty: the payload itself.
    pub steps: Vec<Option<Box<str>>>,
}

impl FieldKind {
    /// A number as it is.
    pub const NUMBER: FieldKind =
        FieldKind::Number { scale: 1.0, offset: 0.0, min: f64::NEG_INFINITY, max: f64::INFINITY };
}

impl FieldSpec {
    /// A number at `pointer`.
    pub fn number(name: Name, pointer: impl Into<String>) -> FieldSpec {
        FieldSpec { name, pointers: vec![pointer.into()], kind: FieldKind::NUMBER }
    }

    /// A state at `pointer`.
    pub fn state(name: Name, pointer: impl Into<String>) -> FieldSpec {
        FieldSpec { name, pointers: vec![pointer.into()], kind: FieldKind::State }
    }
}

impl FieldsSpec {
    /// Every number of the record.
    pub const fn all() -> FieldsSpec {
        FieldsSpec::All { below: String::new(), except: Vec::new() }
    }

    /// The field of that name, if it is configured.
    pub fn find(&self, name: &str) -> Option<&FieldSpec> {
        match self {
            FieldsSpec::Named(fields) => fields.iter().find(|field| field.name.as_str() == name),
            FieldsSpec::All { .. } => None,
        }
    }

    /// Whether it is a configured state.
    pub fn is_state(&self, name: &str) -> bool {
        self.find(name).is_some_and(|field| field.kind == FieldKind::State)
    }
}

impl Default for MappingSpec {
    /// Every number, at the time of receipt.
    fn default() -> MappingSpec {
        MappingSpec {
            fields: FieldsSpec::all(),
            time: TimeSpec::Receive,
            records: Vec::new(),
            text_numbers: None,
            texts: Vec::new(),
        }
    }
}

impl RecordsPattern {
    /// Parses `/Messages/*`; `None` for what is no JSON Pointer.
    pub fn parse(text: &str) -> Option<RecordsPattern> {
        if !text.is_empty() && super::super::decode::pointer::check_pointer(text).is_some() {
            return None;
        }
        let step = |token: &str| match token {
            "*" => None,
            key => Some(key.replace("~1", "/").replace("~0", "~").into_boxed_str()),
        };
        Some(RecordsPattern { steps: text.split('/').skip(1).map(step).collect() })
    }

    /// How many `*` it has.
    pub fn stars(&self) -> usize {
        self.steps.iter().filter(|step| step.is_none()).count()
    }
}
