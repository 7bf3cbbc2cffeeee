//! Session windows: activity without a gap. A record opens `[t, t + gap)`; it
//! merges with every live session of the device that it overlaps or touches
//! (Flink's `EventTimeSessionWindows` and `TimeWindow.mergeWindows`).
//!
//! With a maximum length no session is ever longer. Where one merged session would be,
//! nothing merges, and the record goes to the first of these that there is:
//!
//! 1. the last session that it touches and that starts at or before it, if it comes
//!    before `start + max_length`. The session grows to `t + gap`, at most to
//!    `start + max_length` and to the start of the next session;
//! 2. the first session after it that it touches, if that may begin at `t` without being
//!    too long;
//! 3. a session of its own: from `t` to `t + gap`, at most to the start of the next one.
//!
//! In order of event time that is: a session takes all that comes before `start +
//! max_length`, and the next record opens another one. Records out of order may find
//! sessions cut elsewhere, but only where activity was longer than `max_length`.

use core::ops::Range;

use super::Interval;
use super::pane::Pane;
use crate::model::time::{EventTime, Span};

/// The sessions among `panes` that a record at `at` becomes one with, and what they
/// become; an empty range, at the place where it belongs, for a session of its own.
/// `panes` are the sessions of one window definition, ordered by start; they do
/// not overlap, so those that merge stand side by side.
pub fn join(panes: &[Pane], at: EventTime, gap: Span, max_length: Option<Span>) -> (Range<usize>, Interval) {
    let alone = Interval { start: at, end: at + gap };
    let first = panes.partition_point(|pane| pane.end < alone.start);
    let past = panes.partition_point(|pane| pane.start <= alone.end);
    let touched = first..past.max(first);
    let merged = panes[touched.clone()]
        .iter()
        .fold(alone, |merged, pane| Interval { start: merged.start.min(pane.start), end: merged.end.max(pane.end) });
    match max_length {
        Some(max) if merged.start.lag_behind(merged.end) > max => join_one(panes, touched, alone, max),
        Some(_) | None => (touched, merged),
    }
}

/// Rules 1 to 3.
#[cold]
fn join_one(panes: &[Pane], touched: Range<usize>, alone: Interval, max: Span) -> (Range<usize>, Interval) {
    let at = alone.start;
    let next = touched.start + panes[touched.clone()].partition_point(|pane| pane.start <= at);
    let end = panes.get(next).map_or(alone.end, |pane| alone.end.min(pane.start));
    if next > touched.start {
        let before = &panes[next - 1];
        let limit = before.start + max;
        if at < limit {
            return (next - 1..next, Interval { start: before.start, end: before.end.max(end.min(limit)) });
        }
    }
    if next < touched.end && at.lag_behind(panes[next].end) <= max {
        return (next..next + 1, Interval { start: at, end: panes[next].end });
    }
    (next..next, Interval { start: at, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::window::pane::Accumulators;

    fn panes(sessions: &[(i64, i64)]) -> Vec<Pane> {
        let interval = |start, end| Interval { start: EventTime::from_millis(start), end: EventTime::from_millis(end) };
        sessions.iter().map(|(start, end)| Pane::open(0, interval(*start, *end), false, Accumulators::new())).collect()
    }

    fn joined(sessions: &[(i64, i64)], at: i64, gap: u64, max: Option<u64>) -> (Range<usize>, i64, i64) {
        let max = max.map(Span::from_millis);
        let (touched, merged) = join(&panes(sessions), EventTime::from_millis(at), Span::from_millis(gap), max);
        (touched, merged.start.as_millis(), merged.end.as_millis())
    }

    #[test]
    fn a_record_merges_with_all_it_touches_and_nothing_else() {
        let sessions = [(0, 20), (40, 60), (80, 95)];
        for max in [None, Some(190)] {
            let merged = |at, gap| joined(&sessions, at, gap, max);
            assert_eq!(merged(25, 5), (1..1, 25, 30), "alone, between two");
            assert_eq!(merged(20, 5), (0..1, 0, 25), "a distance of exactly the gap touches");
            assert_eq!(merged(30, 10), (1..2, 30, 60));
            assert_eq!(merged(20, 20), (0..2, 0, 60), "a bridge");
            assert_eq!(merged(45, 5), (1..2, 40, 60), "inside");
            assert_eq!(merged(100, 5), (3..3, 100, 105));
            assert_eq!(merged(-10, 9), (0..0, -10, -1));
        }
        assert_eq!(joined(&sessions, -10, 200, Some(200)), (0..3, -10, 190));
    }

    #[test]
    fn where_one_session_would_be_too_long_nothing_merges_and_the_record_goes_to_one() {
        let sessions = [(0, 20), (30, 50), (50, 60)];
        let merged = |at, gap| joined(&sessions, at, gap, Some(25));
        assert_eq!(merged(20, 5), (0..1, 0, 25), "just fits");
        assert_eq!(merged(18, 9), (0..1, 0, 25), "inside: cut at the length");
        assert_eq!(merged(20, 10), (0..1, 0, 25), "a bridge: to the earlier one");
        assert_eq!(merged(22, 9), (1..1, 22, 30), "too early for the one after it: alone, up to its start");
        assert_eq!(merged(26, 9), (1..2, 26, 50), "to the one after it");
        assert_eq!(merged(49, 9), (1..2, 30, 50), "up to the next one");
        assert_eq!(merged(55, 20), (2..3, 50, 75));
        assert_eq!(joined(&[(0, 25)], 25, 9, Some(25)), (1..1, 25, 34), "what comes at the end of a full one");
    }
}
