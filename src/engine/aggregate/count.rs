//! `count`: how many values the field had.

use super::Aggregate;
use crate::engine::wire::{Damaged, Reader, put_u64};
use crate::model::time::EventTime;

/// Number of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    count: u64,
}

impl Aggregate for Count {
    #[inline]
    fn add(&mut self, _value: f64, _at: EventTime) {
        self.count += 1;
    }

    fn merge(&mut self, other: &Count) {
        self.count += other.count;
    }

    fn finish(&self) -> Option<f64> {
        Some(self.count as f64)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.count);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Count, Damaged> {
        Ok(Count { count: reader.u64()? })
    }
}
