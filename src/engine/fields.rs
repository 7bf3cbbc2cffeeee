//! The field names of one stream, in the order in which they were first seen, and the
//! states that fields have had. A record then carries numbers only.

use crate::model::ids::{FieldIx, Name, StateIx};
use crate::model::limits::FIELDS_MAX;

use super::spec::FieldsSpec;
use super::states::StateTable;

/// Names of one stream's fields; at most `FIELDS_MAX`. Full: a further field
/// gets no place, and the decoder counts it as left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldTable {
    names: Vec<Name>,
    states: StateTable,
}

/// What a table held at some moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    names: usize,
    states: usize,
}

impl FieldTable {
    /// The configured names; empty where every number counts.
    pub fn new(spec: &FieldsSpec) -> FieldTable {
        match spec {
            FieldsSpec::Named(fields) => FieldTable {
                names: fields.iter().map(|field| field.name.clone()).collect(),
                states: StateTable::default(),
            },
            FieldsSpec::All { .. } => FieldTable::default(),
        }
    }

    /// The place of `name`, given to it now if it is new. `None` when the table
    /// is full or the text is no name.
    pub fn intern(&mut self, name: &str) -> Option<FieldIx> {
        if let Some(known) = self.find(name) {
            return Some(known);
        }
        if self.names.len() == FIELDS_MAX {
            return None;
        }
        self.names.push(Name::new(name)?);
        self.find(name)
    }

    /// How much is known.
    pub(super) fn extent(&self) -> Known {
        Known { names: self.names.len(), states: self.states.texts().len() }
    }

    /// Back to what was known: nothing refers to what came since.
    pub(super) fn shrink(&mut self, known: Known) {
        self.names.truncate(known.names);
        self.states.truncate(known.states);
    }

    /// No further name gets a place.
    pub(super) fn is_full(&self) -> bool {
        self.names.len() == FIELDS_MAX
    }

    /// As [`FieldTable::intern`], for a name that is expected at `place`.
    pub(super) fn intern_near(&mut self, name: &str, place: usize) -> Option<FieldIx> {
        match self.names.get(place) {
            Some(known) if known.as_str() == name => Some(FieldIx(u16::try_from(place).ok()?)),
            Some(_) | None => self.intern(name),
        }
    }

    /// The place of `name`, if it has one. Linear: the table is small, and
    /// payloads repeat their fields in the same order.
    pub fn find(&self, name: &str) -> Option<FieldIx> {
        let index = self.names.iter().position(|known| known.as_str() == name)?;
        Some(FieldIx(u16::try_from(index).expect("FIELDS_MAX fits 16 bits")))
    }

    /// The name at `field`; `None` for a place never given.
    pub fn name(&self, field: FieldIx) -> Option<&Name> {
        self.names.get(usize::from(field.0))
    }

    /// The place of a state, given to it now if it is new. `None` when there are too many,
    /// or the text is none that a state may have.
    pub fn intern_state(&mut self, text: &str) -> Option<StateIx> {
        self.states.intern(text)
    }

    /// The states that fields of the stream have had.
    pub fn states(&self) -> &StateTable {
        &self.states
    }

    /// With the states of `other`: they keep their places.
    #[must_use]
    pub fn with_states_of(self, other: &FieldTable) -> FieldTable {
        FieldTable { states: other.states.clone(), ..self }
    }

    /// All names, by place.
    pub fn names(&self) -> &[Name] {
        &self.names
    }
}
