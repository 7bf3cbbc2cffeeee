//! From the hash of a name to the slot of its owner: one cache line, most of the time.
//!
//! Open addressing with linear probing. With many devices in turn nothing of the index
//! is in a near cache, and each line that a search touches is waited for: a general
//! table reads its control bytes first and the entry after them, here an entry is both
//! at once: the upper half of the hash, and the slot plus one (0: nothing is there).
//! Removal moves what was pushed behind the gap back into it (Knuth, "The Art of
//! Computer Programming" 3, 6.4, algorithm R), so that there are no marks to collect.

/// Slots by hash.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotIndex {
    /// A power of two of them, or none; at most three quarters are used.
    entries: Vec<u64>,
    len: usize,
}

const SLOT: u64 = 0xffff_ffff;
const ENTRIES_MIN: usize = 16;

impl SlotIndex {
    /// Slots in it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot with that hash for which `is` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.position(hash, is)?;
        slot_of(self.entries[at])
    }

    /// Adds a slot that is not in it.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        if self.len * 4 >= self.entries.len() * 3 {
            self.grow();
        }
        self.len += 1;
        self.put(hash & !SLOT | (u64::from(slot) + 1));
    }

    /// Removes the slot that was added under that hash.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let Some(mut gap) = self.position(hash, |found| found == slot) else { return };
        self.len -= 1;
        let mut at = gap;
        loop {
            self.entries[gap] = 0;
            loop {
                at = self.after(at);
                let entry = self.entries[at];
                if entry == 0 {
                    return;
                }
                // Would a search for it, from its home on, meet the gap before it?
                let home = self.home(entry);
                let mask = self.entries.len() - 1;
                if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                    self.entries[gap] = entry;
                    gap = at;
                    break;
                }
            }
        }
    }

    #[inline]
    fn position(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let entry = self.entries[at];
            let slot = slot_of(entry)?;
            if (entry ^ hash) >> 32 == 0 && is(slot) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    fn put(&mut self, entry: u64) {
        let mut at = self.home(entry);
        while self.entries[at] != 0 {
            at = self.after(at);
        }
        self.entries[at] = entry;
    }

    fn grow(&mut self) {
        let larger = vec![0; (self.entries.len() * 2).max(ENTRIES_MIN)];
        for entry in core::mem::replace(&mut self.entries, larger) {
            if entry != 0 {
                self.put(entry);
            }
        }
    }

    /// Where the search for a hash, or for that of an entry, begins.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        // Fewer than 2³² entries: the upper half of the hash decides.
        usize::try_from(hash >> 32).expect("32 bits") & (self.entries.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }
}

#[inline]
fn slot_of(entry: u64) -> Option<u32> {
    u32::try_from(entry & SLOT).expect("masked to 32 bits").checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rng::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map_whatever_is_added_and_removed_and_however_hashes_collide() {
        let mut random = Rng::new(11);
        for bits in [1, 4, 32] {
            let mut index = SlotIndex::default();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for step in 0..4_000_u32 {
                let slot = u32::try_from(random.below(300)).expect("small");
                if let Some(hash) = model.remove(&slot) {
                    index.remove(hash, slot);
                } else {
                    // Few bits: long runs of entries with one home, that wrap around.
                    let hash = (random.next_u64() >> (64 - bits)).wrapping_sub(3) << 32 | random.below(1 << 32);
                    index.insert(hash, slot);
                    model.insert(slot, hash);
                }
                assert_eq!(index.len(), model.len());
                if step % 50 == 0 {
                    for (slot, hash) in &model {
                        assert_eq!(index.find(*hash, |found| found == *slot), Some(*slot));
                    }
                    assert_eq!(index.find(5 << 32, |found| found > 1_000), None);
                }
            }
        }
    }
}
