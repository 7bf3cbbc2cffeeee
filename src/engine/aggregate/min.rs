//! `min`: the smallest value. -0.0 is smaller than 0.0, so that the result does not depend on the order.

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64};
use crate::model::time::EventTime;
use serde_json::Value;

/// The smallest value so far; infinity when there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Min {
    min: f64,
}

impl Default for Min {
    fn default() -> Min {
        Min { min: f64::INFINITY }
    }
}

impl Min {
    /// The value, if there was any.
    pub(super) fn value(self) -> Option<f64> {
        self.min.is_finite().then_some(self.min)
    }

    #[inline]
    fn take(&mut self, value: f64) {
        if value.total_cmp(&self.min).is_lt() {
            self.min = value;
        }
    }
}

impl Aggregate for Min {
    #[inline]
    fn add(&mut self, value: f64, _at: EventTime) {
        self.take(value);
    }

    fn merge(&mut self, other: &Min) {
        self.take(other.min);
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        self.value().map_or(Finished::Absent, Finished::Number)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_f64(out, self.min);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Min, Damaged> {
        Ok(Min { min: reader.f64()? })
    }

    fn publish(&self) -> Published {
        self.value().map_or(Published::Null, Published::Number)
    }

    fn from_published(published: &Value) -> Result<Min, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Min::default()) };
        Ok(Min { min: published::number(published)? })
    }
}
