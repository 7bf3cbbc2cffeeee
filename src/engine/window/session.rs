//! Session windows: activity without a gap. A record opens `[t, t + gap)`; it
//! merges with every live session of the device that it overlaps or touches
//! (Flink's `EventTimeSessionWindows` and `TimeWindow.mergeWindows`).

use core::ops::Range;

use super::Interval;
use super::pane::Pane;
use crate::model::time::{EventTime, Span};

/// The session of one record alone.
pub fn alone(at: EventTime, gap: Span) -> Interval {
    Interval { start: at, end: at + gap }
}

/// The sessions among `panes` that `alone` merges with, and what they become.
/// `panes` are the sessions of one window definition, ordered by start; they do
/// not touch each other, so those that merge stand side by side.
pub fn merge(panes: &[Pane], alone: Interval) -> (Range<usize>, Interval) {
    let first = panes.partition_point(|pane| pane.end < alone.start);
    let past = panes.partition_point(|pane| pane.start <= alone.end);
    let touched = first..past.max(first);
    let merged = panes[touched.clone()]
        .iter()
        .fold(alone, |merged, pane| Interval { start: merged.start.min(pane.start), end: merged.end.max(pane.end) });
    (touched, merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::window::pane::Accumulators;

    fn panes(sessions: &[(i64, i64)]) -> Vec<Pane> {
        let interval = |start, end| Interval { start: EventTime::from_millis(start), end: EventTime::from_millis(end) };
        sessions.iter().map(|(start, end)| Pane::open(0, interval(*start, *end), false, Accumulators::new())).collect()
    }

    fn merged(sessions: &[(i64, i64)], at: i64, gap: u64) -> (Range<usize>, i64, i64) {
        let (touched, merged) = merge(&panes(sessions), alone(EventTime::from_millis(at), Span::from_millis(gap)));
        (touched, merged.start.as_millis(), merged.end.as_millis())
    }

    #[test]
    fn a_record_merges_with_all_it_touches_and_nothing_else() {
        let sessions = [(0, 20), (40, 60), (80, 95)];
        assert_eq!(merged(&sessions, 25, 5), (1..1, 25, 30), "alone, between two");
        assert_eq!(merged(&sessions, 20, 5), (0..1, 0, 25), "a distance of exactly the gap touches");
        assert_eq!(merged(&sessions, 30, 10), (1..2, 30, 60));
        assert_eq!(merged(&sessions, 20, 20), (0..2, 0, 60), "a bridge");
        assert_eq!(merged(&sessions, 45, 5), (1..2, 40, 60), "inside");
        assert_eq!(merged(&sessions, 100, 5), (3..3, 100, 105));
        assert_eq!(merged(&sessions, -10, 9), (0..0, -10, -1));
        assert_eq!(merged(&sessions, -10, 200), (0..3, -10, 190));
    }
}
