//! `increase`: by how much a counter has risen from the first reading to the last.
//!
//! A fall means that the counter began again at zero, so the reading after it is what was
//! counted since. Rises are added as in `sum.rs`. What lies between the last reading of one
//! window and the first of the next is in neither: nothing is carried in. With a single
//! reading the increase is 0. Depends on the order; see `points.rs`.

use super::points::{Course, Points, ordered, through_points, unordered};
use super::sum::Sum;
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64, put_i64, put_u64};
use crate::model::time::{EventTime, Span};

/// The readings of a counter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Increase {
    points: Points<Counter>,
}

/// A counter along its readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counter {
    ends: Option<Ends>,
    risen: Sum,
}

/// The first and the last reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ends {
    pub(super) first: (EventTime, f64),
    pub(super) last: (EventTime, f64),
}

impl Counter {
    /// By how much it has risen; not finite beyond the range of a 64-bit float.
    pub(super) fn risen(&self) -> f64 {
        self.risen.total()
    }

    fn rise(&mut self, from: f64, to: f64) {
        self.risen.take(if to >= from { to - from } else { to.max(0.0) });
    }
}

impl Ends {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        put_i64(out, self.first.0.as_millis());
        put_f64(out, self.first.1);
        put_u64(out, self.first.0.lag_behind(self.last.0).as_millis());
        put_f64(out, self.last.1);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Ends, Damaged> {
        let first = (EventTime::from_millis(reader.i64()?), reader.f64()?);
        let last = (first.0 + Span::from_millis(reader.u64()?), reader.f64()?);
        Ok(Ends { first, last })
    }
}

impl Course for Counter {
    fn step(&mut self, at: EventTime, value: i64) {
        let reading = (at, unordered(value));
        match &mut self.ends {
            None => self.ends = Some(Ends { first: reading, last: reading }),
            Some(ends) => {
                let from = core::mem::replace(&mut ends.last, reading).1;
                self.rise(from, reading.1);
            }
        }
    }

    fn append(&mut self, later: &Counter) {
        match (&mut self.ends, later.ends) {
            (_, None) => {}
            (None, Some(_)) => self.clone_from(later),
            (Some(mine), Some(later_ends)) => {
                let from = core::mem::replace(&mut mine.last, later_ends.last).1;
                self.rise(from, later_ends.first.1);
                self.risen.merge(&later.risen);
            }
        }
    }

    fn span(&self) -> Option<(EventTime, EventTime)> {
        self.ends.map(|ends| (ends.first.0, ends.last.0))
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(ends) = self.ends {
            ends.write(out);
            self.risen.write(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Counter, Damaged> {
        Ok(Counter { ends: Some(Ends::read(reader)?), risen: Sum::read(reader)? })
    }

    fn write_value(out: &mut Vec<u8>, value: i64) {
        put_f64(out, unordered(value));
    }

    fn read_value(reader: &mut Reader<'_>) -> Result<i64, Damaged> {
        Ok(ordered(reader.f64()?))
    }
}

impl Aggregate for Increase {
    fn add(&mut self, value: f64, at: EventTime) {
        self.add_within(value, at, usize::MAX);
    }

    fn add_within(&mut self, value: f64, at: EventTime, room: usize) {
        self.points.add(at, ordered(value), room, i64::max);
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        self.points.course(i64::max).map_or(Finished::Absent, |counter| Finished::number(counter.risen()))
    }

    through_points!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn risen(readings: &[(i64, f64)]) -> f64 {
        let mut increase = Increase::default();
        for (at, value) in readings {
            increase.add(*value, EventTime::from_millis(*at));
        }
        increase.points.course(i64::max).expect("readings").risen()
    }

    #[test]
    fn a_fall_means_that_the_counter_began_again_at_zero() {
        assert_eq!(risen(&[(0, 100.0), (10, 130.0), (20, 5.0), (30, 12.0)]).to_bits(), 42.0_f64.to_bits());
        assert_eq!(risen(&[(30, 12.0), (10, 130.0), (0, 100.0), (20, 5.0)]).to_bits(), 42.0_f64.to_bits());
        assert_eq!(risen(&[(0, 100.0)]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(risen(&[(0, 7.0), (5, 7.0)]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(risen(&[(0, 7.0), (5, -3.0)]).to_bits(), 0.0_f64.to_bits(), "a counter is not negative");
    }
}
