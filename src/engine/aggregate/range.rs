//! `range`: the largest value minus the smallest.

use super::max::Max;
use super::min::Min;
use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader};
use crate::model::time::EventTime;
use serde_json::Value;

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

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        match (self.min.value(), self.max.value()) {
            (Some(min), Some(max)) => Finished::number(max - min),
            (None, _) | (_, None) => Finished::Absent,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.min.write(out);
        self.max.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Range, Damaged> {
        Ok(Range { min: Min::read(reader)?, max: Max::read(reader)? })
    }

    fn publish(&self) -> Published {
        match (self.min.publish(), self.max.publish()) {
            (Published::Null, _) | (_, Published::Null) => Published::Null,
            (min, max) => Published::List(vec![min, max]),
        }
    }

    fn from_published(published: &Value) -> Result<Range, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Range::default()) };
        let [min, max] = published::array(published)?;
        Ok(Range { min: Min::from_published(min)?, max: Max::from_published(max)? })
    }
}
