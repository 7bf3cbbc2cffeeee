//! `histogram`: how many values lie in each of the configured buckets. Exact.
//!
//! A bound belongs to the bucket below it: `le_20` counts the values above the bound
//! before, up to 20 and 20 itself; `gt_30` those above the last bound. Counts are of each
//! bucket alone, not cumulative.

use std::sync::Arc;

use serde_json::Value;

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64, put_u64};
use crate::model::limits::HISTOGRAM_BOUNDS_MAX;
use crate::model::time::EventTime;

/// The buckets of a histogram; all windows of one definition share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    upper: Vec<f64>,
    labels: Vec<String>,
}

/// Counts by bucket; without buckets before the first value is known to have any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    buckets: Option<Box<Buckets>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Buckets {
    bounds: Arc<Bounds>,
    /// One more than bounds.
    counts: Vec<u64>,
}

impl Bounds {
    /// With these upper bounds, which rise.
    pub fn new(upper: &[f64]) -> Bounds {
        let below = upper.iter().map(|bound| format!("le_{}", show(*bound)));
        let above = upper.last().map(|bound| format!("gt_{}", show(*bound)));
        Bounds { upper: upper.to_vec(), labels: below.chain(above).collect() }
    }

    /// The upper bounds.
    pub fn upper(&self) -> &[f64] {
        &self.upper
    }
}

/// The shortest form; with an exponent where there would be many zeros.
fn show(bound: f64) -> String {
    let plain = bound == 0.0 || (1e-6..1e16).contains(&bound.abs());
    if plain { bound.to_string() } else { format!("{bound:e}") }
}

impl Histogram {
    /// Without any value.
    pub(super) fn of(bounds: &Arc<Bounds>) -> Histogram {
        let counts = vec![0; bounds.upper.len() + 1];
        Histogram { buckets: Some(Box::new(Buckets { bounds: Arc::clone(bounds), counts })) }
    }

    /// Uses `bounds` for its own when they are the same: one copy for all.
    pub(super) fn share(&mut self, bounds: &Arc<Bounds>) {
        match &mut self.buckets {
            Some(buckets) if buckets.bounds == *bounds => buckets.bounds = Arc::clone(bounds),
            Some(_) => {}
            None => *self = Histogram::of(bounds),
        }
    }

    /// Whether both have the same buckets.
    pub(super) fn can_merge(&self, other: &Histogram) -> bool {
        match (&self.buckets, &other.buckets) {
            (Some(mine), Some(other)) => mine.bounds.upper == other.bounds.upper,
            (None, _) | (_, None) => true,
        }
    }

    /// From what was read; `None` when it cannot be one.
    fn restore(upper: &[f64], counts: Vec<u64>) -> Option<Histogram> {
        let rises = upper.windows(2).all(|pair| pair[0] < pair[1]) && upper.iter().all(|bound| bound.is_finite());
        if !rises || upper.len() > HISTOGRAM_BOUNDS_MAX || counts.len() != upper.len() + 1 {
            return None;
        }
        Some(Histogram { buckets: Some(Box::new(Buckets { bounds: Arc::new(Bounds::new(upper)), counts })) })
    }
}

impl Aggregate for Histogram {
    #[inline]
    fn add(&mut self, value: f64, _at: EventTime) {
        if let Some(buckets) = &mut self.buckets {
            let place = buckets.bounds.upper.partition_point(|bound| *bound < value);
            buckets.counts[place] += 1;
        }
    }

    fn merge(&mut self, other: &Histogram) {
        match (&mut self.buckets, &other.buckets) {
            (Some(mine), Some(other)) if mine.bounds.upper == other.bounds.upper => {
                mine.counts.iter_mut().zip(&other.counts).for_each(|(mine, other)| *mine = mine.saturating_add(*other));
            }
            (None, Some(_)) => self.clone_from(other),
            // Windows of one definition share their buckets.
            (Some(_), Some(_)) | (_, None) => {}
        }
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        match &self.buckets {
            Some(buckets) if buckets.counts.iter().any(|count| *count > 0) => {
                let labels = buckets.bounds.labels.iter().map(String::as_str);
                Finished::Labelled(labels.zip(buckets.counts.iter().map(|count| *count as f64)).collect())
            }
            Some(_) | None => Finished::Absent,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Some(buckets) = &self.buckets else { return out.push(0) };
        put_u64(out, buckets.counts.len() as u64);
        buckets.bounds.upper.iter().for_each(|bound| put_f64(out, *bound));
        buckets.counts.iter().for_each(|count| put_u64(out, *count));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Histogram, Damaged> {
        let counts = reader.u64()?;
        let Some(bounds) = counts.checked_sub(1) else { return Ok(Histogram::default()) };
        if bounds > HISTOGRAM_BOUNDS_MAX as u64 {
            return Err(Damaged);
        }
        let upper = (0..bounds).map(|_| reader.f64()).collect::<Result<Vec<_>, _>>()?;
        let counts = (0..counts).map(|_| reader.u64()).collect::<Result<Vec<_>, _>>()?;
        Histogram::restore(&upper, counts).ok_or(Damaged)
    }

    fn publish(&self) -> Published {
        let Some(buckets) = &self.buckets else { return Published::Null };
        let bounds = buckets.bounds.upper.iter().copied().map(Published::Number).collect();
        let counts = buckets.counts.iter().copied().map(Published::count).collect();
        Published::Map(vec![("bounds", Published::List(bounds)), ("counts", Published::List(counts))])
    }

    fn from_published(published: &Value) -> Result<Histogram, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Histogram::default()) };
        let items = |key| published::list(published::entry(published, key)?);
        let upper = items("bounds")?.iter().map(published::number).collect::<Result<Vec<_>, _>>()?;
        let counts = items("counts")?.iter().map(published::count).collect::<Result<Vec<_>, _>>()?;
        Histogram::restore(&upper, counts).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it() {
        let mut histogram = Histogram::of(&Arc::new(Bounds::new(&[-0.5, 10.0, 1e20])));
        for value in [-1.0, -0.5, -0.4, 10.0, 10.1, 2e20] {
            histogram.add(value, EventTime::MIN);
        }
        let buckets = histogram.buckets.expect("made with bounds");
        assert_eq!(buckets.bounds.labels, ["le_-0.5", "le_10", "le_1e20", "gt_1e20"]);
        assert_eq!(buckets.counts, [2, 2, 1, 1]);
    }
}
