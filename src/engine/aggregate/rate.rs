//! `rate`: the increase of a counter per second, between the first reading and the last.
//! None for readings of a single time. Resets, order and bounds as in `increase.rs`.

use super::increase::Counter;
use super::points::{Course, Points, ordered, through_points};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader};
use crate::model::time::EventTime;

/// The readings of a counter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rate {
    points: Points<Counter>,
}

impl Aggregate for Rate {
    fn add(&mut self, value: f64, at: EventTime) {
        self.add_within(value, at, usize::MAX);
    }

    fn add_within(&mut self, value: f64, at: EventTime, room: usize) {
        self.points.add(at, ordered(value), room, i64::max);
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        let Some(counter) = self.points.course(i64::max) else { return Finished::Absent };
        match counter.span().map(|(from, to)| from.lag_behind(to).as_millis()) {
            None | Some(0) => Finished::None,
            Some(millis) => Finished::number(counter.risen() / (millis as f64 / 1_000.0)),
        }
    }

    through_points!();
}
