//! The states of one stream: the texts that fields of type `state` have had, in the
//! order in which they were first seen. A record then carries a place only.

use crate::model::ids::{Name, StateIx};
use crate::model::limits::STATES_MAX;

use super::aggregate::hash;

/// Texts of one stream's states; at most `STATES_MAX`. Full: a further state gets no
/// place, and the decoder counts it as left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateTable {
    texts: Vec<Name>,
    hashes: Vec<u64>,
}

impl StateTable {
    /// The place of `text`, given to it now if it is new. `None` when the table is full
    /// or the text is none that a state may have: empty, above 64 bytes, with control
    /// characters.
    pub fn intern(&mut self, text: &str) -> Option<StateIx> {
        if let Some(known) = self.find(text) {
            return Some(known);
        }
        if self.texts.len() == STATES_MAX {
            return None;
        }
        self.texts.push(Name::new(text)?);
        self.hashes.push(hash::of_text(text));
        self.find(text)
    }

    /// Forgets all but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.texts.truncate(len);
        self.hashes.truncate(len);
    }

    fn find(&self, text: &str) -> Option<StateIx> {
        let index = self.texts.iter().position(|known| known.as_str() == text)?;
        Some(StateIx(u16::try_from(index).expect("STATES_MAX fits 16 bits")))
    }

    /// The text at `state`; empty for a place never given.
    pub fn text(&self, state: StateIx) -> &str {
        self.texts.get(usize::from(state.0)).map_or("", Name::as_str)
    }

    /// What `distinct` counts a state by: the same on every gateway.
    pub fn hash(&self, state: StateIx) -> u64 {
        self.hashes.get(usize::from(state.0)).copied().unwrap_or(0)
    }

    /// All texts, by place.
    pub fn texts(&self) -> &[Name] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_keeps_its_place_and_a_full_table_gives_none() {
        let mut table = StateTable::default();
        assert_eq!(table.intern("on"), Some(StateIx(0)));
        assert_eq!(table.intern("off"), Some(StateIx(1)));
        assert_eq!(table.intern("on"), Some(StateIx(0)));
        assert_eq!((table.intern(""), table.intern("a\nb"), table.intern(&"x".repeat(65))), (None, None, None));
        for number in 2..STATES_MAX {
            assert!(table.intern(&number.to_string()).is_some());
        }
        assert_eq!((table.intern("one more"), table.intern("off")), (None, Some(StateIx(1))));
        assert_eq!(table.text(StateIx(1)), "off");
    }
}
