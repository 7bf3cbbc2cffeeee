//! `stddev`: the square root of `variance`, with its error halved.

use super::Aggregate;
use super::variance::Variance;
use crate::engine::wire::{Damaged, Reader};
use crate::model::time::EventTime;

/// Standard deviation of the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stddev {
    variance: Variance,
}

impl Aggregate for Stddev {
    #[inline]
    fn add(&mut self, value: f64, at: EventTime) {
        self.variance.add(value, at);
    }

    fn merge(&mut self, other: &Stddev) {
        self.variance.merge(&other.variance);
    }

    fn finish(&self) -> Option<f64> {
        self.variance.finish().map(f64::sqrt)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.variance.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Stddev, Damaged> {
        Ok(Stddev { variance: Variance::read(reader)? })
    }
}
