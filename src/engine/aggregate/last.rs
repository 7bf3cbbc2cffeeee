//! `last`: the value with the latest event time. Of several with that time the largest,
//! so that the result does not depend on the order of arrival.

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64, put_time};
use crate::model::time::EventTime;
use serde_json::Value;

/// The latest value so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Last {
    at: Option<EventTime>,
    value: f64,
}

impl Aggregate for Last {
    #[inline]
    fn add(&mut self, value: f64, at: EventTime) {
        let wins = self.at.is_none_or(|known| at > known || (at == known && value.total_cmp(&self.value).is_gt()));
        if wins {
            *self = Last { at: Some(at), value };
        }
    }

    fn merge(&mut self, other: &Last) {
        if let Some(at) = other.at {
            self.add(other.value, at);
        }
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        self.at.map_or(Finished::Absent, |_| Finished::Number(self.value))
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_time(out, self.at);
        put_f64(out, self.value);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Last, Damaged> {
        Ok(Last { at: reader.time()?, value: reader.f64()? })
    }

    fn publish(&self) -> Published {
        self.at.map_or(Published::Null, |at| published::at(at, self.value))
    }

    fn from_published(published: &Value) -> Result<Last, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Last::default()) };
        let (at, value) = published::read_at(published)?;
        Ok(Last { at: Some(at), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_time_decides_and_not_the_order_of_arrival() {
        let values = [(1.0, 5), (2.0, 9), (3.0, 9), (9.0, 6)];
        for turn in 0..values.len() {
            let mut state = Last::default();
            for (value, at) in values.iter().cycle().skip(turn).take(values.len()) {
                state.add(*value, EventTime::from_millis(*at));
            }
            assert_eq!(state.value.to_bits(), 3.0_f64.to_bits(), "from {turn} on");
        }
    }
}
