//! `stddev`: the square root of `variance`, with its error halved.

use super::published::{Malformed, Published};
use super::variance::Variance;
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader};
use crate::model::time::EventTime;
use serde_json::Value;

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

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        self.variance.finish_as(f64::sqrt)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.variance.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Stddev, Damaged> {
        Ok(Stddev { variance: Variance::read(reader)? })
    }

    fn publish(&self) -> Published {
        self.variance.publish()
    }

    fn from_published(published: &Value) -> Result<Stddev, Malformed> {
        Ok(Stddev { variance: Variance::from_published(published)? })
    }
}
