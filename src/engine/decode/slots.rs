//! The fields of the record at hand: what each of them is, and what becomes of it.

use crate::engine::fields::FieldTable;
use crate::engine::spec::{FieldKind, FieldsSpec, NumberRules};
use crate::model::ids::{FieldIx, StateIx};
use crate::model::record::RejectReason;

use super::number::text_number;
use super::visit::Scalar;

/// What is configured about the fields of a stream.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    kinds: Vec<FieldKind>,
    /// One of them is more than a number as it is.
    has_rules: bool,
    text_numbers: Option<NumberRules>,
}

/// What one record has shown so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    slots: Vec<Slot>,
    /// The field to expect next: payloads repeat theirs in the same order.
    next: usize,
    /// Numbers that have no place in the field table.
    unplaced: u32,
    unplaced_infinite: bool,
    /// One of them is a number that could have been used.
    crowded: bool,
}

/// What one field is, and which of its pointers said so.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Slot {
    value: Value,
    rank: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Absent,
    Number(f64),
    State(StateIx),
    NotFinite,
    NotNumber,
    OutOfRange,
}

const ABSENT: Slot = Slot { value: Value::Absent, rank: u8::MAX };

impl Slots {
    /// Of the fields of a stream.
    pub(super) fn new(fields: &FieldsSpec, text_numbers: Option<NumberRules>) -> Slots {
        let kinds: Vec<FieldKind> = match fields {
            FieldsSpec::Named(named) => named.iter().map(|field| field.kind).collect(),
            FieldsSpec::All { .. } => Vec::new(),
        };
        Slots { has_rules: kinds.iter().any(|kind| *kind != FieldKind::NUMBER), kinds, text_numbers }
    }

    /// Takes in the value of a named field.
    pub(super) fn take(&self, found: &mut Found, field: FieldIx, rank: u8, value: Scalar<'_>, fields: &mut FieldTable) {
        let slot = found.at(field);
        if slot.value != Value::Absent && slot.rank < rank {
            return;
        }
        let value = match self.kinds.get(usize::from(field.0)) {
            Some(FieldKind::State) => state(value, fields),
            Some(FieldKind::Number { .. }) | None => self.number(value),
        };
        if value != Value::Absent || slot.rank == rank {
            *slot = Slot { value, rank };
        }
    }

    /// Takes in a value of a stream in which every number counts.
    pub(super) fn place(&self, found: &mut Found, path: &str, value: Scalar<'_>, fields: &mut FieldTable) {
        match self.number(value) {
            Value::Absent | Value::NotNumber | Value::State(_) | Value::OutOfRange => {}
            value @ Value::Number(_) => {
                if let Some(field) = fields.intern_near(path, found.next) {
                    found.next = usize::from(field.0) + 1;
                    *found.at(field) = Slot { value, rank: 0 };
                } else {
                    found.unplaced += 1;
                    found.crowded |= fields.is_full();
                }
            }
            // Not worth a place of its own: it may never be a number.
            value @ Value::NotFinite => {
                if let Some(field) = fields.find(path) {
                    *found.at(field) = Slot { value, rank: 0 };
                } else {
                    found.unplaced += 1;
                    found.unplaced_infinite = true;
                }
            }
        }
    }

    /// Applies scale and range.
    pub(super) fn finish(&self, found: &mut Found) {
        if !self.has_rules {
            return;
        }
        for (slot, kind) in found.slots.iter_mut().zip(&self.kinds) {
            let (Value::Number(raw), FieldKind::Number { scale, offset, min, max }) = (slot.value, *kind) else {
                continue;
            };
            let value = raw * scale + offset;
            slot.value = match value.is_finite() {
                true if (min..=max).contains(&value) => Value::Number(value),
                true => Value::OutOfRange,
                false => Value::NotFinite,
            };
        }
    }

    fn number(&self, value: Scalar<'_>) -> Value {
        match value {
            Scalar::Number(digits) => finite(digits.parse().unwrap_or(f64::NAN)),
            Scalar::Float(number) => finite(number),
            // Beyond 2^53 the nearest float, as everywhere.
            Scalar::Int(number) => Value::Number(number as f64),
            Scalar::Uint(number) => Value::Number(number as f64),
            Scalar::Text(text) => match self.text_numbers.and_then(|rules| text_number(text, rules)) {
                Some(number) => Value::Number(number),
                None => Value::NotNumber,
            },
            Scalar::Null => Value::Absent,
            Scalar::Bool(_) | Scalar::Opaque => Value::NotNumber,
        }
    }
}

impl Found {
    /// A new record.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.next = 0;
        self.unplaced = 0;
        self.unplaced_infinite = false;
        self.crowded = false;
    }

    /// As if the field had not been there.
    pub(super) fn forget(&mut self, field: FieldIx) {
        *self.at(field) = ABSENT;
    }

    fn at(&mut self, field: FieldIx) -> &mut Slot {
        let place = usize::from(field.0);
        if self.slots.len() <= place {
            self.slots.resize(place + 1, ABSENT);
        }
        &mut self.slots[place]
    }

    /// The numbers, by field.
    pub(super) fn values(&self) -> impl Iterator<Item = (FieldIx, f64)> {
        (0_u16..).zip(&self.slots).filter_map(|(index, slot)| match slot.value {
            Value::Number(value) => Some((FieldIx(index), value)),
            Value::Absent | Value::State(_) | Value::NotFinite | Value::NotNumber | Value::OutOfRange => None,
        })
    }

    /// The states, by field.
    pub(super) fn states(&self) -> impl Iterator<Item = (FieldIx, StateIx)> {
        (0_u16..).zip(&self.slots).filter_map(|(index, slot)| match slot.value {
            Value::State(state) => Some((FieldIx(index), state)),
            Value::Absent | Value::Number(_) | Value::NotFinite | Value::NotNumber | Value::OutOfRange => None,
        })
    }

    /// Fields that could not be used.
    pub(super) fn left_out(&self) -> u32 {
        let unusable = |slot: &&Slot| matches!(slot.value, Value::NotFinite | Value::NotNumber | Value::OutOfRange);
        self.unplaced + u32::try_from(self.slots.iter().filter(unusable).count()).expect("FIELDS_MAX fits")
    }

    /// Why there is nothing in it that counts; `None` when there is something.
    pub(super) fn why_empty(&self) -> Option<RejectReason> {
        let has = |value: fn(&Value) -> bool| self.slots.iter().any(|slot| value(&slot.value));
        if has(|value| matches!(value, Value::Number(_) | Value::State(_))) {
            return None;
        }
        Some(if self.crowded {
            RejectReason::TooManyFields
        } else if has(|value| *value == Value::NotNumber) {
            RejectReason::WrongType
        } else if has(|value| *value == Value::OutOfRange) {
            RejectReason::OutOfRange
        } else if self.unplaced_infinite || has(|value| *value == Value::NotFinite) {
            RejectReason::NotFinite
        } else {
            RejectReason::NoValues
        })
    }
}

fn finite(number: f64) -> Value {
    if number.is_finite() { Value::Number(number) } else { Value::NotFinite }
}

/// What a field that is a state takes.
fn state(value: Scalar<'_>, fields: &mut FieldTable) -> Value {
    let mut digits = heapless::String::<20>::new();
    let text = match value {
        Scalar::Null => return Value::Absent,
        Scalar::Text(text) => text,
        Scalar::Bool(true) => "true",
        Scalar::Bool(false) => "false",
        Scalar::Number(digits) if !digits.contains(['.', 'e', 'E']) => digits,
        Scalar::Int(number) => written(&mut digits, format_args!("{number}")),
        Scalar::Uint(number) => written(&mut digits, format_args!("{number}")),
        Scalar::Number(_) | Scalar::Float(_) | Scalar::Opaque => return Value::NotNumber,
    };
    fields.intern_state(text).map_or(Value::NotNumber, Value::State)
}

fn written<'d>(digits: &'d mut heapless::String<20>, number: core::fmt::Arguments<'_>) -> &'d str {
    core::fmt::Write::write_fmt(digits, number).expect("20 characters hold any 64-bit integer");
    digits
}
