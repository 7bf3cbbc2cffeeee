//! `time_weighted_mean`: the mean over time, where each value holds until the next
//! reading.
//!
//! The last one holds until the end of the window once that has closed, and until the last
//! reading in sessions and in panes that are only a look at an open window. Time begins
//! with the first reading: nothing is carried in from before the window. When no time has
//! passed it is the value itself. Areas are added as in `sum.rs`; the relative error is that
//! of the sum plus 2^-53 for each product. Depends on the order; see `points.rs`.

use super::increase::Ends;
use super::points::{Course, Points, ordered, through_points, unordered};
use super::sum::Sum;
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64};
use crate::model::time::EventTime;

/// The readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeWeightedMean {
    points: Points<Area>,
}

/// The area below a staircase, in value times milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Area {
    ends: Option<Ends>,
    area: Sum,
}

impl Area {
    fn hold(&mut self, from: (EventTime, f64), to: EventTime) {
        self.area.take(from.1 * from.0.lag_behind(to).as_millis() as f64);
    }

    fn mean(mut self, until: Option<EventTime>) -> Finished<'static> {
        let Some(ends) = self.ends else { return Finished::Absent };
        let until = until.unwrap_or(ends.last.0).max(ends.last.0);
        self.hold(ends.last, until);
        match ends.first.0.lag_behind(until).as_millis() {
            0 => Finished::Number(ends.last.1),
            millis => Finished::number(self.area.total() / millis as f64),
        }
    }
}

impl Course for Area {
    fn step(&mut self, at: EventTime, value: i64) {
        let reading = (at, unordered(value));
        match &mut self.ends {
            None => self.ends = Some(Ends { first: reading, last: reading }),
            Some(ends) => {
                let from = core::mem::replace(&mut ends.last, reading);
                self.hold(from, at);
            }
        }
    }

    fn append(&mut self, later: &Area) {
        match (&mut self.ends, later.ends) {
            (_, None) => {}
            (None, Some(_)) => self.clone_from(later),
            (Some(mine), Some(later_ends)) => {
                let from = core::mem::replace(&mut mine.last, later_ends.last);
                self.hold(from, later_ends.first.0);
                self.area.merge(&later.area);
            }
        }
    }

    fn span(&self) -> Option<(EventTime, EventTime)> {
        self.ends.map(|ends| (ends.first.0, ends.last.0))
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(ends) = self.ends {
            ends.write(out);
            self.area.write(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Area, Damaged> {
        Ok(Area { ends: Some(Ends::read(reader)?), area: Sum::read(reader)? })
    }

    fn write_value(out: &mut Vec<u8>, value: i64) {
        put_f64(out, unordered(value));
    }

    fn read_value(reader: &mut Reader<'_>) -> Result<i64, Damaged> {
        Ok(ordered(reader.f64()?))
    }
}

impl Aggregate for TimeWeightedMean {
    fn add(&mut self, value: f64, at: EventTime) {
        self.add_within(value, at, usize::MAX);
    }

    fn add_within(&mut self, value: f64, at: EventTime, room: usize) {
        self.points.add(at, ordered(value), room, i64::max);
    }

    fn finish<'a>(&'a self, finish: &Finish<'a>) -> Finished<'a> {
        self.points.course(i64::max).map_or(Finished::Absent, |area| area.mean(finish.until))
    }

    through_points!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(readings: &[(i64, f64)], until: Option<i64>) -> Finished<'static> {
        let mut state = TimeWeightedMean::default();
        for (at, value) in readings {
            state.add(*value, EventTime::from_millis(*at));
        }
        state.points.course(i64::max).unwrap_or_default().mean(until.map(EventTime::from_millis))
    }

    #[test]
    fn each_value_holds_until_the_next_and_the_last_until_the_end() {
        let readings = [(9_000, 10.0), (1_000, 20.0), (3_000, 0.0)];
        // 20 for 2 s, 0 for 6 s, 10 for 1 s.
        assert_eq!(mean(&readings, Some(10_000)), Finished::Number(50.0 / 9.0));
        assert_eq!(mean(&readings, None), Finished::Number(5.0));
        assert_eq!(mean(&[(4_000, 7.5)], None), Finished::Number(7.5), "no time has passed");
        assert_eq!(mean(&[(4_000, 7.5)], Some(10_000)), Finished::Number(7.5));
        assert_eq!(mean(&[(4_000, 1.0), (4_000, 3.0), (6_000, 5.0)], None), Finished::Number(3.0), "the larger");
        assert_eq!(mean(&[], None), Finished::Absent);
    }
}
