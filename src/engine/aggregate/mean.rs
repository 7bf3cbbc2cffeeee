//! `mean`: compensated sum over count, with the error bound of `sum.rs`.

use super::published::{Malformed, Published};
use super::sum::Sum;
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader};
use crate::model::time::EventTime;
use serde_json::Value;

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

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        match self.sum.count() {
            0 => Finished::Absent,
            count => Finished::number(self.sum.total() / count as f64),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.sum.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Mean, Damaged> {
        Ok(Mean { sum: Sum::read(reader)? })
    }

    fn publish(&self) -> Published {
        self.sum.publish()
    }

    fn from_published(published: &Value) -> Result<Mean, Malformed> {
        Ok(Mean { sum: Sum::from_published(published)? })
    }
}
