//! `count`: how many values the field had.

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished, State};
use crate::engine::wire::{Damaged, Reader, put_u64};
use crate::model::time::EventTime;
use serde_json::Value;

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

    fn add_state(&mut self, _state: State<'_>, _at: EventTime, _room: usize) {
        self.count += 1;
    }

    fn merge(&mut self, other: &Count) {
        self.count = self.count.saturating_add(other.count);
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        Finished::Number(self.count as f64)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.count);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Count, Damaged> {
        Ok(Count { count: reader.u64()? })
    }

    fn publish(&self) -> Published {
        Published::count(self.count)
    }

    fn from_published(published: &Value) -> Result<Count, Malformed> {
        Ok(Count { count: published::count(published)? })
    }
}
