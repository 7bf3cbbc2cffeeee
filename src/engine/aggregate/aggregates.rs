//! What is computed for every field of a window: the kinds, and what those of them that
//! have settings are told.

use std::sync::Arc;

use super::histogram::{Bounds, Histogram};
use super::{Accumulator, Kind};
use crate::engine::wire::{Damaged, Reader};

/// The quantiles when the configuration says nothing.
const QUANTILES_DEFAULT: [f64; 3] = [0.5, 0.95, 0.99];
/// Persisted bytes of an accumulator of fixed size: an estimate.
const ACCUMULATOR_COST: usize = 16;

/// The kinds, in the order of the results.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregates {
    /// Not empty in a checked configuration; no kind appears twice.
    pub kinds: Vec<Kind>,
    quantiles: Vec<Quantile>,
    bounds: Arc<Bounds>,
    /// An accumulator holds more the more it takes in.
    grow: bool,
    /// See [`Aggregates::field_cost`].
    field_cost: usize,
}

/// A quantile that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantile {
    /// 0 ..= 1.
    pub share: f64,
    /// As in the output: `0.95`.
    pub label: String,
}

impl Quantile {
    /// The quantile below which `share` of the values lie.
    pub fn new(share: f64) -> Quantile {
        Quantile { share, label: share.to_string() }
    }
}

impl Default for Aggregates {
    fn default() -> Aggregates {
        Aggregates::of(&[])
    }
}

impl Aggregates {
    /// These kinds; the default quantiles, a histogram without bounds.
    pub fn of(kinds: &[Kind]) -> Aggregates {
        Aggregates {
            kinds: kinds.to_vec(),
            quantiles: QUANTILES_DEFAULT.map(Quantile::new).to_vec(),
            bounds: Arc::default(),
            grow: kinds.iter().any(|kind| kind.grows()),
            field_cost: kinds.len() * ACCUMULATOR_COST,
        }
    }

    /// With these quantiles, each 0 ..= 1, at most `limits::QUANTILES_MAX`.
    #[must_use]
    pub fn with_quantiles(self, shares: &[f64]) -> Aggregates {
        Aggregates { quantiles: shares.iter().copied().map(Quantile::new).collect(), ..self }
    }

    /// With these upper bounds of the histogram's buckets: finite, rising, at most
    /// `limits::HISTOGRAM_BOUNDS_MAX`.
    #[must_use]
    pub fn with_histogram(self, bounds: &[f64]) -> Aggregates {
        let field_cost = (self.kinds.len() + bounds.len()) * ACCUMULATOR_COST;
        Aggregates { bounds: Arc::new(Bounds::new(bounds)), field_cost, ..self }
    }

    /// The quantiles that are wanted.
    pub fn quantiles(&self) -> &[Quantile] {
        &self.quantiles
    }

    /// The upper bounds of the histogram's buckets.
    pub fn histogram(&self) -> &[f64] {
        self.bounds.upper()
    }

    /// Number of kinds.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// True when an accumulator holds more the more it takes in.
    #[inline]
    pub fn grow(&self) -> bool {
        self.grow
    }

    /// Persisted bytes of the accumulators of one field that have seen nothing, estimated.
    #[inline]
    pub fn field_cost(&self) -> usize {
        self.field_cost
    }

    /// Accumulators of one field that have seen nothing.
    pub fn start(&self) -> impl Iterator<Item = Accumulator> {
        self.kinds.iter().map(|kind| {
            if *kind == Kind::Histogram { Accumulator::Histogram(Histogram::of(&self.bounds)) } else { kind.start() }
        })
    }

    /// Reads the accumulator at `place`.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are cut short.
    pub fn read(&self, place: usize, reader: &mut Reader<'_>) -> Result<Accumulator, Damaged> {
        let mut accumulator = self.kinds[place].read(reader)?;
        if let Accumulator::Histogram(histogram) = &mut accumulator {
            histogram.share(&self.bounds);
        }
        Ok(accumulator)
    }
}
