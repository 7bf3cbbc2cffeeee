//! Sliding windows: size and slide, borders at `offset + k * slide` (Flink's
//! `SlidingEventTimeWindows`). A time is in `size / slide` of them; in none, when
//! the slide is larger than the size and the time falls between two.

use super::Interval;
use crate::model::time::{EventTime, Span};

/// The windows that hold `at`, newest first.
#[inline]
pub fn covering(at: EventTime, size: Span, slide: Span, offset_ms: i64) -> Covering {
    Covering { at, start: at.floor_to(slide, offset_ms), size, slide, done: false }
}

/// See [`covering`].
#[derive(Clone, Debug)]
pub struct Covering {
    at: EventTime,
    start: EventTime,
    size: Span,
    slide: Span,
    done: bool,
}

impl Iterator for Covering {
    type Item = Interval;

    fn next(&mut self) -> Option<Interval> {
        let interval = Interval { start: self.start, end: self.start + self.size };
        if self.done || !interval.holds(self.at) {
            return None;
        }
        self.start = self.start - self.slide;
        // At the lowest time there is no earlier window.
        self.done = self.start == interval.start;
        Some(interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(at: i64, size: u64, slide: u64, offset: i64) -> Vec<i64> {
        let covering = covering(EventTime::from_millis(at), Span::from_millis(size), Span::from_millis(slide), offset);
        covering.map(|window| window.start.as_millis()).collect()
    }

    #[test]
    fn a_time_is_in_every_window_that_covers_it_newest_first() {
        assert_eq!(starts(12, 10, 5, 0), [10, 5]);
        assert_eq!(starts(10, 10, 5, 0), [10, 5]);
        assert_eq!(starts(-1, 10, 5, 0), [-5, -10]);
        assert_eq!(starts(12, 10, 4, 1), [9, 5]);
        assert_eq!(starts(12, 10, 10, 0), [10]);
        assert_eq!(starts(12, 3, 10, 0), [10]);
        assert_eq!(starts(15, 3, 10, 0), [] as [i64; 0], "between two windows");
        assert_eq!(starts(i64::MIN, 10, 5, 0), [i64::MIN]);
    }
}
