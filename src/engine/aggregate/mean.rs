//! `mean`: compensated sum over count, with the error bound of `sum.rs`.

use super::Aggregate;
use super::sum::Sum;
use crate::engine::wire::{Damaged, Reader};
use crate::model::time::EventTime;

/// Arithmetic mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    sum: Sum,
}

impl Aggregate for Mean {
    #[inline]
    fn add(&mut self, value: f64, at: EventTime) {
        self.sum.add(value, at);
    }

    fn merge(&mut self, other: &Mean) {
        self.sum.merge(&other.sum);
    }

    fn finish(&self) -> Option<f64> {
        self.sum.total().map(|total| total / self.sum.count() as f64)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.sum.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Mean, Damaged> {
        Ok(Mean { sum: Sum::read(reader)? })
    }
}
