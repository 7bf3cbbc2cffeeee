//! `max`: the largest value. 0.0 is larger than -0.0, so that the result does not depend on the order.

use super::Aggregate;
use crate::engine::wire::{Damaged, Reader, put_f64};
use crate::model::time::EventTime;

/// The largest value so far; minus infinity when there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Max {
    max: f64,
}

impl Default for Max {
    fn default() -> Max {
        Max { max: f64::NEG_INFINITY }
    }
}

impl Max {
    #[inline]
    fn take(&mut self, value: f64) {
        if value.total_cmp(&self.max).is_gt() {
            self.max = value;
        }
    }
}

impl Aggregate for Max {
    #[inline]
    fn add(&mut self, value: f64, _at: EventTime) {
        self.take(value);
    }

    fn merge(&mut self, other: &Max) {
        self.take(other.max);
    }

    fn finish(&self) -> Option<f64> {
        self.max.is_finite().then_some(self.max)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_f64(out, self.max);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Max, Damaged> {
        Ok(Max { max: reader.f64()? })
    }
}
