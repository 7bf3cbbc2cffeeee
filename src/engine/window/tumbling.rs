//! Tumbling windows: fixed size, no overlap, borders at `offset + k * size`
//! (Flink's `TumblingEventTimeWindows`, with a mathematical modulus so that times
//! before 1970 align too).

use super::Interval;
use crate::model::time::{EventTime, Span};

/// The window that holds `at`.
#[inline]
pub fn assign(at: EventTime, size: Span, offset_ms: i64) -> Interval {
    let start = at.floor_to(size, offset_ms);
    Interval { start, end: start + size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_exactly_one_window_and_borders_belong_to_the_right() {
        let size = Span::from_millis(10);
        for at in -35..35 {
            let at = EventTime::from_millis(at);
            let window = assign(at, size, 3);
            assert!(window.start <= at && at < window.end, "{at:?} in {window:?}");
            assert_eq!(assign(window.start, size, 3), window);
            assert_eq!(assign(window.end, size, 3).start, window.end);
        }
    }
}
