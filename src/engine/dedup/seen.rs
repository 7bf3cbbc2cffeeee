//! Copies by time and values: what the last readings of a device were, as 64-bit
//! fingerprints in a ring.
//!
//! A fingerprint is the event time and the sum over the fields of (name, value), each
//! mixed: the order of the fields does not matter, nor does anything else that a
//! gateway puts around a reading. Two different readings have one fingerprint with
//! a probability of 2^-64 for each that is remembered. It is persisted, so it must not
//! depend on the machine or on a library's choice.

use crate::engine::wire::{Damaged, Reader, put_fixed, put_u64};
use crate::model::time::EventTime;

/// The last readings of one device. Allocated once, for the whole horizon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Oldest first until the horizon is reached, then round and round.
    ring: Vec<u64>,
    next: usize,
    /// Added since the last commit.
    fresh: usize,
}

impl Seen {
    pub(super) fn new(horizon: usize) -> Seen {
        Seen { ring: Vec::with_capacity(horizon), next: 0, fresh: 0 }
    }

    /// Remembers a reading. False when it is known already.
    pub(super) fn insert(&mut self, print: u64, horizon: usize) -> bool {
        if self.ring.contains(&print) {
            return false;
        }
        if self.ring.len() < horizon {
            self.ring.push(print);
        } else {
            self.ring[self.next] = print;
            self.next = (self.next + 1) % horizon;
        }
        self.fresh = (self.fresh + 1).min(horizon);
        true
    }

    /// The last `count`, oldest first.
    fn last(&self, count: usize) -> impl Iterator<Item = u64> {
        let (newer, older) = self.ring.split_at(self.next);
        older.iter().chain(newer).copied().skip(self.ring.len() - count)
    }

    /// Another horizon; what is beyond it is forgotten.
    pub(super) fn resize(&mut self, horizon: usize) {
        let mut ring = Vec::with_capacity(horizon);
        ring.extend(self.last(self.ring.len().min(horizon)));
        *self = Seen { ring, next: 0, fresh: self.fresh.min(horizon) };
    }

    pub(super) fn mark_committed(&mut self) {
        self.fresh = 0;
    }

    /// Appends what is new since the last commit, or all.
    pub(super) fn write(&self, out: &mut Vec<u8>, all: bool) {
        let count = if all { self.ring.len() } else { self.fresh };
        put_u64(out, count as u64);
        self.last(count).for_each(|print| put_fixed(out, print));
    }

    /// Adds what [`Seen::write`] wrote.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, horizon: usize) -> Result<(), Damaged> {
        for _ in 0..reader.u64()? {
            self.insert(reader.fixed()?, horizon);
        }
        self.fresh = 0;
        Ok(())
    }
}

/// What is the same for copies of one reading, whatever the order of its fields.
pub(super) fn fingerprint<'n>(
    at: EventTime,
    values: impl Iterator<Item = (&'n str, f64)>,
    states: impl Iterator<Item = (&'n str, &'n str)>,
) -> u64 {
    let words = states.map(|(name, word)| mix(text(name).rotate_left(1) ^ mix(text(word))));
    let fields = values.map(|(name, value)| {
        // 0.0 and -0.0 are one value.
        mix(text(name) ^ mix((value + 0.0).to_bits()))
    });
    mix(at.as_millis().cast_unsigned() ^ mix(fields.chain(words).fold(0, u64::wrapping_add)))
}

/// FNV-1a, 64 bits.
fn text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(millis: i64, values: &[(&str, f64)]) -> u64 {
        fingerprint(EventTime::from_millis(millis), values.iter().copied(), [].into_iter())
    }

    #[test]
    fn the_order_of_the_fields_does_not_matter_and_everything_else_does() {
        let one = print(5, &[("t", 1.0), ("h", 2.0)]);
        assert_eq!(one, print(5, &[("h", 2.0), ("t", 1.0)]));
        let state = |word| fingerprint(EventTime::from_millis(5), [].into_iter(), [("mode", word)].into_iter());
        assert_eq!(state("on"), state("on"));
        assert_ne!(state("on"), state("off"));
        assert_eq!(print(5, &[("t", 0.0)]), print(5, &[("t", -0.0)]));
        let others = [
            print(6, &[("t", 1.0), ("h", 2.0)]),
            print(5, &[("t", 2.0), ("h", 1.0)]),
            print(5, &[("t", 1.0)]),
            print(5, &[("t", 1.0), ("h", 2.0), ("x", 0.0)]),
        ];
        assert!(others.iter().all(|other| *other != one));
    }

    #[test]
    fn a_fingerprint_is_the_same_on_every_machine_and_in_every_version() {
        assert_eq!(print(1_773_480_000_000, &[("t", 21.5), ("h", -3.0)]), 0x661b_1957_bae8_a2a2);
    }

    #[test]
    fn the_horizon_is_kept_and_a_page_has_only_what_is_new() {
        let mut seen = Seen::new(4);
        for print in 1..=4 {
            assert!(seen.insert(print, 4));
        }
        assert!(!seen.insert(1, 4));
        assert!(seen.insert(5, 4));
        assert!(seen.insert(1, 4), "forgotten");
        assert!(!seen.insert(3, 4));
        assert_eq!(seen.ring.capacity(), 4);

        let mut all = Vec::new();
        seen.write(&mut all, true);
        seen.mark_committed();
        assert!(seen.insert(9, 4));
        let mut page = Vec::new();
        seen.write(&mut page, false);
        assert_eq!(page.len(), 9);
        let mut restored = Seen::new(4);
        for bytes in [all, page] {
            restored.read(&mut Reader::new(&bytes), 4).expect("what was written");
        }
        assert!(restored.last(4).eq([4, 5, 1, 9]) && seen.last(4).eq([4, 5, 1, 9]));
        seen.resize(2);
        assert!(seen.last(2).eq([1, 9]));
        seen.resize(3);
        assert!(seen.insert(7, 3) && seen.insert(8, 3));
        assert!(seen.last(3).eq([9, 7, 8]));
    }
}
