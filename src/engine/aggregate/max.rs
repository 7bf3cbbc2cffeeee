//! `max`: the largest value. 0.0 is larger than -0.0, so that the result does not depend on the order.

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64};
use crate::model::time::EventTime;
use serde_json::Value;

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
    /// The value, if there was any.
    pub(super) fn value(self) -> Option<f64> {
        self.max.is_finite().then_some(self.max)
    }

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

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        self.value().map_or(Finished::Absent, Finished::Number)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_f64(out, self.max);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Max, Damaged> {
        Ok(Max { max: reader.f64()? })
    }

    fn publish(&self) -> Published {
        self.value().map_or(Published::Null, Published::Number)
    }

    fn from_published(published: &Value) -> Result<Max, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Max::default()) };
        Ok(Max { max: published::number(published)? })
    }
}
