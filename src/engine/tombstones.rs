//! What is left of a device that was silent for `state_ttl`: how far its watermark was,
//! so that it does not move back when the device returns, and what has been published
//! is not published a second time.
//!
//! ```text
//! by name    128 bits of the name → order, watermark, floor, newest
//! by order   order → name           the oldest is evicted when there are too many
//! ```
//!
//! The name itself is not kept: some 70 bytes do for a device that may never come
//! back. Two names share 128 bits by chance with a probability of 2^-96 among 65,536.
//!
//! Persisted: a page has what is new and which of the older ones are gone.

use std::collections::BTreeMap;

use crate::model::time::{EventTime, Span};

use super::devices::SlotKind;
use super::watermark::Watermark;
use super::wire::{Damaged, Reader, put_fixed, put_time, put_u64};

/// What is left of a device or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tombstone {
    /// Its own watermark.
    pub watermark: Watermark,
    /// What its windows have seen of a watermark that it shared.
    pub floor: Watermark,
    /// Its newest record.
    pub newest: Option<EventTime>,
}

/// A name in 128 bits that are the same on every machine.
pub(super) type HashedName = (u64, u64);

/// The tombstones of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones {
    by_name: BTreeMap<HashedName, (u64, Tombstone)>,
    by_order: BTreeMap<u64, HashedName>,
    next_order: u64,
    /// Orders before this one are durable.
    durable: u64,
    removed: Vec<u64>,
}

impl Tombstones {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Adds one. Returns how many of the oldest had to make room for it.
    pub(super) fn add(&mut self, kind: SlotKind, name: &str, tombstone: Tombstone, max: usize) -> u64 {
        let name = hashed(kind, name);
        self.remove(name);
        let mut evicted = 0;
        while self.len() >= max.max(1)
            && let Some((_, oldest)) = self.by_order.first_key_value()
        {
            self.remove(*oldest);
            evicted += 1;
        }
        self.insert(self.next_order, name, tombstone);
        self.next_order += 1;
        evicted
    }

    /// What is left of a device or group, if it is one that is gone.
    pub(super) fn get(&self, kind: SlotKind, name: &str) -> Option<Tombstone> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&hashed(kind, name)).map(|(_, tombstone)| *tombstone)
    }

    /// What is left of all of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (HashedName, Tombstone)> {
        self.by_name.iter().map(|(name, (_, tombstone))| (*name, *tombstone))
    }

    /// The device or group is back.
    pub(super) fn take(&mut self, kind: SlotKind, name: &str) -> Option<Tombstone> {
        if self.by_name.is_empty() {
            return None;
        }
        self.remove(hashed(kind, name))
    }

    /// Changes all of them, for another configuration. A snapshot has to follow.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut Tombstone)) {
        self.by_name.values_mut().for_each(|(_, tombstone)| change(tombstone));
    }

    fn insert(&mut self, order: u64, name: HashedName, tombstone: Tombstone) {
        self.by_name.insert(name, (order, tombstone));
        self.by_order.insert(order, name);
    }

    fn remove(&mut self, name: HashedName) -> Option<Tombstone> {
        let (order, tombstone) = self.by_name.remove(&name)?;
        self.by_order.remove(&order);
        if order < self.durable {
            self.removed.push(order);
        }
        Some(tombstone)
    }

    /// What changed is durable.
    pub(super) fn mark_committed(&mut self) {
        self.durable = self.next_order;
        self.removed.clear();
    }

    /// Appends what changed since the last commit.
    pub(super) fn write_changes(&self, out: &mut Vec<u8>) {
        self.write(out, self.durable, &self.removed);
    }

    /// Appends everything.
    pub(super) fn write_all(&self, out: &mut Vec<u8>) {
        self.write(out, 0, &[]);
    }

    fn write(&self, out: &mut Vec<u8>, from: u64, removed: &[u64]) {
        put_u64(out, removed.len() as u64);
        for order in removed {
            put_u64(out, *order);
        }
        put_u64(out, self.by_order.range(from..).count() as u64);
        for (order, name) in self.by_order.range(from..) {
            let (_, tombstone) = self.by_name[name];
            put_u64(out, *order);
            put_fixed(out, name.0);
            put_fixed(out, name.1);
            put_time(out, tombstone.watermark.time());
            put_time(out, tombstone.floor.time());
            put_time(out, tombstone.newest);
        }
        put_u64(out, self.next_order);
    }

    /// Applies what either wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are something else.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for _ in 0..reader.u64()? {
            let name = *self.by_order.get(&reader.u64()?).ok_or(Damaged)?;
            self.remove(name);
        }
        for _ in 0..reader.u64()? {
            let order = reader.u64()?;
            let name = (reader.fixed()?, reader.fixed()?);
            let watermark = Watermark::restore(reader.time()?);
            let floor = Watermark::restore(reader.time()?);
            let newest = reader.time()?;
            if self.by_name.contains_key(&name) || self.by_order.contains_key(&order) {
                return Err(Damaged);
            }
            self.insert(order, name, Tombstone { watermark, floor, newest });
        }
        self.next_order = reader.u64()?;
        self.mark_committed();
        Ok(())
    }
}

impl Tombstone {
    /// What has happened up to `span` after the newest record counts as seen.
    pub(super) fn newest_plus(&self, span: Span) -> Watermark {
        Watermark::restore(self.newest.map(|newest| newest + span))
    }
}

/// FNV-1a from two starting points, finished as in `SplitMix64`.
pub(super) fn hashed(kind: SlotKind, name: &str) -> HashedName {
    let start = match kind {
        SlotKind::Device => 0,
        SlotKind::Group => 1,
        SlotKind::Stream | SlotKind::Vacant => 2,
    };
    let half = |basis: u64| {
        let bytes = core::iter::once(start).chain(name.bytes());
        let hash = bytes.fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    };
    (half(0xcbf2_9ce4_8422_2325), half(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Tombstone {
        let watermark = Watermark::restore(Some(EventTime::from_millis(millis)));
        Tombstone { watermark, floor: Watermark::NONE, newest: None }
    }

    #[test]
    fn the_oldest_goes_first_and_one_that_comes_again_is_new() {
        let mut tombstones = Tombstones::default();
        for (name, millis) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(tombstones.add(SlotKind::Device, name, at(millis), 3), 0);
        }
        assert_eq!(tombstones.add(SlotKind::Device, "a", at(4), 3), 0);
        assert_eq!(tombstones.add(SlotKind::Group, "a", at(5), 3), 1, "`b` was the oldest");
        assert_eq!(tombstones.take(SlotKind::Device, "b"), None);
        assert_eq!(tombstones.take(SlotKind::Device, "a"), Some(at(4)));
        assert_eq!(tombstones.take(SlotKind::Device, "a"), None);
        assert_eq!(tombstones.take(SlotKind::Group, "a"), Some(at(5)));
        assert_eq!(tombstones.len(), 1);
    }

    #[test]
    fn pages_hold_what_changed() {
        let mut tombstones = Tombstones::default();
        for number in 0..100 {
            tombstones.add(SlotKind::Device, &format!("d{number}"), at(number), 100);
        }
        let (mut all, mut page) = (Vec::new(), Vec::new());
        tombstones.write_all(&mut all);
        tombstones.mark_committed();
        tombstones.add(SlotKind::Device, "new", at(7), 100);
        tombstones.add(SlotKind::Device, "gone again", at(8), 100);
        tombstones.take(SlotKind::Device, "gone again");
        tombstones.take(SlotKind::Device, "d50");
        tombstones.write_changes(&mut page);
        assert!(page.len() < 50, "{} bytes", page.len());

        let mut restored = Tombstones::default();
        restored.read(&mut Reader::new(&all)).expect("what was written");
        restored.read(&mut Reader::new(&page)).expect("what was written");
        assert_eq!(restored.by_name, tombstones.by_name);
        assert_eq!((restored.by_order, restored.next_order), (tombstones.by_order, tombstones.next_order));
        for cut in 0..page.len() {
            let mut again = Tombstones::default();
            again.read(&mut Reader::new(&all)).expect("what was written");
            assert!(again.read(&mut Reader::new(&page[..cut])).is_err(), "cut at {cut}");
        }
    }
}
