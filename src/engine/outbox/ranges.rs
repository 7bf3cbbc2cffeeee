//! Sets of positions, as the few ranges that they are: what was acknowledged ahead of
//! older rows is at most one range for each batch in flight.

use crate::engine::wire::{Damaged, Reader, put_u64};

/// Positions as ranges `[first, past)`: in order, apart, none empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds `[first, past)`.
    pub(super) fn insert(&mut self, first: u64, past: u64) {
        if first >= past {
            return;
        }
        let begin = self.0.partition_point(|range| range.1 < first);
        let end = self.0.partition_point(|range| range.0 <= past);
        let joined =
            self.0[begin..end].iter().fold((first, past), |all, range| (all.0.min(range.0), all.1.max(range.1)));
        self.0.splice(begin..end, [joined]);
    }

    /// Takes `[first, past)` out.
    pub(super) fn remove(&mut self, first: u64, past: u64) {
        if first >= past {
            return;
        }
        let begin = self.0.partition_point(|range| range.1 <= first);
        let end = self.0.partition_point(|range| range.0 < past);
        let left = self.0[begin..end].first().filter(|range| range.0 < first).map(|range| (range.0, first));
        let right = self.0[begin..end].last().filter(|range| range.1 > past).map(|range| (past, range.1));
        self.0.splice(begin..end, left.into_iter().chain(right));
    }

    /// Where the range that holds `position` ends.
    pub(super) fn end_of(&self, position: u64) -> Option<u64> {
        let place = self.0.partition_point(|range| range.1 <= position);
        self.0.get(place).filter(|range| range.0 <= position).map(|range| range.1)
    }

    /// Where the next range begins, at or after `position`.
    pub(super) fn next_begin(&self, position: u64) -> Option<u64> {
        let place = self.0.partition_point(|range| range.0 < position);
        self.0.get(place).map(|range| range.0)
    }

    /// How many positions of `[first, past)` are in it.
    pub(super) fn covered(&self, first: u64, past: u64) -> u64 {
        let begin = self.0.partition_point(|range| range.1 <= first);
        let within = self.0[begin..].iter().take_while(|range| range.0 < past);
        within.map(|range| range.1.min(past) - range.0.max(first)).sum()
    }

    /// Appends it in stored form.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        for (first, past) in &self.0 {
            put_u64(out, *first);
            put_u64(out, past - first);
        }
    }

    /// Reads what [`Ranges::write`] wrote.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Ranges, Damaged> {
        let mut ranges = Ranges::default();
        for _ in 0..reader.u64()? {
            let first = reader.u64()?;
            let past = first.checked_add(reader.u64()?).ok_or(Damaged)?;
            if first >= past || ranges.0.last().is_some_and(|last| last.1 >= first) {
                return Err(Damaged);
            }
            ranges.0.push((first, past));
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::rng::Rng;

    #[test]
    fn it_agrees_with_a_plain_set_whatever_is_added_and_taken_out() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for _ in 0..rng.between(1, 40) {
                let first = rng.below(50);
                let past = first + rng.below(8);
                if rng.chance(3) {
                    ranges.remove(first, past);
                    model.retain(|position| *position < first || *position >= past);
                } else {
                    ranges.insert(first, past);
                    model.extend(first..past);
                }
                let found: BTreeSet<u64> = ranges.0.iter().flat_map(|range| range.0..range.1).collect();
                assert_eq!(found, model, "seed {seed}");
                assert!(ranges.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "apart: {ranges:?}");
            }
            let (first, past) = (rng.below(30), rng.between(30, 60));
            assert_eq!(ranges.covered(first, past), model.range(first..past).count() as u64);
            for position in 0..60 {
                let end = (position..200).find(|end| !model.contains(end)).filter(|end| *end > position);
                assert_eq!(ranges.end_of(position), end, "seed {seed}, {position}");
                let begins = |at: &&u64| **at == 0 || !model.contains(&(**at - 1));
                assert_eq!(ranges.next_begin(position), model.range(position..).find(begins).copied());
            }
            let mut bytes = Vec::new();
            ranges.write(&mut bytes);
            assert_eq!(Ranges::read(&mut Reader::new(&bytes)), Ok(ranges));
        }
    }
}
