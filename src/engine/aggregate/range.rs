//! `range`: the largest value minus the smallest.

use super::Aggregate;
use super::max::Max;
use super::min::Min;
use crate::engine::wire::{Damaged, Reader};
use crate::model::time::EventTime;

/// Both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    min: Min,
    max: Max,
}

impl Aggregate for Range {
    #[inline]
    fn add(&mut self, value: f64, at: EventTime) {
        self.min.add(value, at);
        self.max.add(value, at);
    }

    fn merge(&mut self, other: &Range) {
        self.min.merge(&other.min);
        self.max.merge(&other.max);
    }

    fn finish(&self) -> Option<f64> {
        let range = self.max.finish()? - self.min.finish()?;
        range.is_finite().then_some(range)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.min.write(out);
        self.max.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Range, Damaged> {
        Ok(Range { min: Min::read(reader)?, max: Max::read(reader)? })
    }
}
