//! Which numbers of a lane have come, as runs: a lane without holes is one run,
//! however long it is.

use std::collections::BTreeMap;

/// A set of numbers, kept as disjoint runs that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// First number of a run to its last.
    runs: BTreeMap<u64, u64>,
}

impl Seen {
    /// Adds `first ..= last`; nothing when the range is empty.
    pub(super) fn insert(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let (mut first, mut last) = (first, last);
        // Runs that begin at or before the number after `last`, from the right,
        // as long as they reach up to the number before `first`.
        while let Some((&begin, &end)) = self.runs.range(..=last.saturating_add(1)).next_back() {
            if end.saturating_add(1) < first {
                break;
            }
            self.runs.remove(&begin);
            first = first.min(begin);
            last = last.max(end);
        }
        self.runs.insert(first, last);
    }

    /// The ranges between the runs.
    pub(super) fn holes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.values().zip(self.runs.keys().skip(1)).map(|(end, begin)| (end + 1, begin - 1))
    }

    /// The lowest and the highest number; `None` when empty.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        let (first, _) = self.runs.first_key_value()?;
        let (_, last) = self.runs.last_key_value()?;
        Some((*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::rng::Rng;

    #[test]
    fn runs_agree_with_a_plain_set_whatever_the_order() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
            for _ in 0..rng.between(1, 40) {
                let first = rng.below(60);
                let last = first + rng.below(4);
                seen.insert(first, last);
                model.extend(first..=last);
            }
            let (low, high) = (*model.first().expect("not empty"), *model.last().expect("not empty"));
            let missing: Vec<u64> = (low..=high).filter(|number| !model.contains(number)).collect();
            let holes: Vec<u64> = seen.holes().flat_map(|(first, last)| first..=last).collect();
            assert_eq!(holes, missing, "seed {seed}");
            assert_eq!(seen.bounds(), Some((low, high)), "seed {seed}");
        }
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        let mut seen = Seen::default();
        seen.insert(u64::MAX, u64::MAX);
        seen.insert(0, 0);
        seen.insert(5, 4);
        assert_eq!(seen.holes().collect::<Vec<_>>(), [(1, u64::MAX - 1)]);
    }
}
