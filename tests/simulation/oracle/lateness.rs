//! Strategy `adaptive`: all latenesses, one by one, and the quantile of them.

/// Records before the quantile is believed, and at which every second one is forgotten.
const MIN: usize = 100;
const MAX: usize = 2_048;

#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness(Vec<i64>);

impl Lateness {
    pub(crate) fn note(&mut self, lateness: i64) {
        self.0.push(lateness);
        if self.0.len() == MAX {
            // Of those beyond any edge, half are left.
            self.0.sort_unstable_by(|a, b| b.cmp(a));
            let mut place = 0_usize;
            self.0.retain(|_| {
                place += 1;
                place.is_multiple_of(2)
            });
        }
    }

    /// `quantile` in parts of 10,000.
    pub(crate) fn bound(&self, quantile: u32, floor: i64, ceiling: i64) -> i64 {
        if self.0.len() < MIN {
            return ceiling;
        }
        let mut all = self.0.clone();
        all.sort_unstable();
        let kept = (all.len() as u64 * u64::from(quantile)).div_ceil(10_000).max(1);
        let place = usize::try_from(kept - 1).expect("small");
        upper_edge(all[place]).clamp(floor, ceiling)
    }
}

/// Exact up to 8 ms; beyond it, four buckets between two powers of two.
fn upper_edge(lateness: i64) -> i64 {
    if lateness < 8 {
        return lateness;
    }
    let width = (1_i64 << lateness.ilog2()) / 4;
    (lateness / width + 1) * width - 1
}
