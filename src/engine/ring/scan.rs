//! Finds the ring's values in the raw bytes of a medium that lost its index.
//!
//! A value names its slot, its length and its age, and is checksummed, so it
//! can be recognised anywhere. Of several values of one slot the newest is the
//! slot's; which of two attempts at the same seq is unknown, and does not
//! matter: parts of different attempts do not fit together.

use std::collections::BTreeMap;

use super::part::{HEADER_BYTES, Header};
use super::slots::SlotId;
use crate::model::limits::PAGE_BYTES_MAX;

/// Bytes that must follow a place before a value there can be judged, unless
/// the medium ends.
pub const LOOKAHEAD: usize = PAGE_BYTES_MAX;

/// The newest value found so far for each slot.
#[derive(Debug, Default)]
pub struct Index {
    places: BTreeMap<SlotId, (Age, Place)>,
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Bytes before it on the medium.
    pub offset: u64,
    /// Its length.
    pub len: usize,
}

/// Generation, then seq, then what was known: later is greater.
type Age = (u64, u64, u64);

impl Index {
    /// Looks at the first `judged` places of `bytes`, which lie at `offset` on
    /// the medium. Returns how many bytes were dealt with: at least `judged`,
    /// more when a value reaches over it.
    pub fn handle(&mut self, offset: u64, bytes: &[u8], judged: usize) -> usize {
        let mut at = 0;
        while at < judged {
            let Some((header, payload)) = Header::read_prefix(&bytes[at..]) else {
                at += 1;
                continue;
            };
            let place = Place { offset: offset + at as u64, len: HEADER_BYTES + payload.len() };
            let age = (header.generation, header.seq, header.tried);
            let newest = self.places.entry(header.slot()).or_insert((age, place));
            if newest.0 < age {
                *newest = (age, place);
            }
            at += place.len;
        }
        at
    }

    /// Where the slot's value is, if one was found.
    pub fn place(&self, slot: SlotId) -> Option<Place> {
        self.places.get(&slot).map(|(_, place)| *place)
    }

    /// Where the values of one generation are: its snapshot, and the pages after it.
    pub fn of_generation(&self, generation: u64) -> impl Iterator<Item = Place> {
        let values = self.places.values();
        values.filter(move |((of, ..), _)| *of == generation).map(|(_, place)| *place)
    }

    /// Slots found.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True when nothing was found.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ring::slots::{Set, SlotKind};

    fn value(generation: u64, payload: &[u8]) -> Vec<u8> {
        let mut value = Vec::new();
        let header = Header {
            set: Set::B,
            kind: SlotKind::Page,
            packed: false,
            first: 3,
            part: 0,
            parts: 1,
            whole: crc32fast::hash(payload),
            generation,
            tried: generation,
            seq: 1,
        };
        header.put(payload, &mut value);
        value
    }

    #[test]
    fn the_newest_value_of_a_slot_is_found_wherever_it_lies() {
        let (new, old) = (value(2, b"new"), value(1, b"old"));
        let medium = [&[1; 100][..], &new, &[1, 0, 1], &old, &[9; 50]].concat();
        let slot = SlotId { set: Set::B, kind: SlotKind::Page, index: 3 };
        // Whole, and in steps of one place.
        let mut whole = Index::default();
        assert_eq!(whole.handle(0, &medium, medium.len()), medium.len());
        let mut steps = Index::default();
        let mut at = 0;
        while at < medium.len() {
            at += steps.handle(at as u64, &medium[at..], 1);
        }
        for index in [whole, steps] {
            assert_eq!(index.place(slot), Some(Place { offset: 100, len: new.len() }));
            assert_eq!((index.len(), index.is_empty()), (1, false));
            assert_eq!((index.of_generation(2).count(), index.of_generation(1).count()), (1, 0));
        }
    }
}
