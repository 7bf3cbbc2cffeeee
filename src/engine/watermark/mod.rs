//! The `bounded` watermark: "nothing at or before this time is still to come".
//!
//! Flink's `BoundedOutOfOrdernessWatermarks`, in integer milliseconds, emitted
//! after every record: `max(event time) - disorder - 1`. It never moves back,
//! neither for an old record nor for a larger `disorder` in a new configuration.

pub mod adaptive;

use crate::model::time::{EventTime, Span};

/// A watermark; none before the first record, which is lower than any time. (The lowest
/// time stands for it: half the bytes, of which there are a few for every device.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Watermark(EventTime);

impl Default for Watermark {
    fn default() -> Watermark {
        Watermark::NONE
    }
}

impl Watermark {
    /// None: nothing has come yet.
    pub const NONE: Watermark = Watermark(EventTime::MIN);
    /// "Nothing more will come", as at the end of a bounded input.
    pub const END: Watermark = Watermark(EventTime::MAX);

    /// As it was persisted.
    pub(super) fn restore(time: Option<EventTime>) -> Watermark {
        Watermark(time.unwrap_or(EventTime::MIN))
    }

    /// Behind a record at `at`, when older ones may come up to `wait` later.
    #[inline]
    pub(super) fn behind(at: EventTime, wait: Span) -> Watermark {
        Watermark(at - wait - Span::MILLI)
    }

    /// The time, once there is one.
    pub fn time(self) -> Option<EventTime> {
        (self != Watermark::NONE).then_some(self.0)
    }

    /// A record was processed. Returns true when the watermark rose.
    #[inline]
    pub fn observe(&mut self, at: EventTime, disorder: Span) -> bool {
        self.raise(Watermark::behind(at, disorder))
    }

    /// Rises to `to`, if that is higher. Returns true when it rose.
    #[inline]
    pub fn raise(&mut self, to: Watermark) -> bool {
        let rises = to > *self;
        if rises {
            *self = to;
        }
        rises
    }

    /// True once every record before `end` has been seen: a window that ends
    /// there may fire.
    #[inline]
    pub fn has_passed(self, end: EventTime) -> bool {
        self.time().is_some_and(|time| time >= end - Span::MILLI)
    }

    /// True once the window's state may go: `end - 1 + lateness` is reached.
    #[inline]
    pub fn has_expired(self, end: EventTime, lateness: Span) -> bool {
        self.time().is_some_and(|time| time >= (end - Span::MILLI) + lateness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    #[test]
    fn it_trails_the_highest_event_time_by_the_disorder_and_a_millisecond() {
        let mut watermark = Watermark::default();
        assert_eq!(watermark.time(), None);
        assert!(watermark.observe(at(1_000), Span::from_millis(250)));
        assert_eq!(watermark.time(), Some(at(749)));
        assert!(!watermark.observe(at(900), Span::from_millis(250)), "an older record moves nothing");
        assert!(!watermark.observe(at(1_000), Span::from_secs(5)), "nor does a larger bound");
        assert_eq!(watermark.time(), Some(at(749)));
    }

    #[test]
    fn a_window_fires_one_millisecond_before_its_end_and_expires_after_its_lateness() {
        let watermark = |millis| Watermark(at(millis));
        assert!(!watermark(998).has_passed(at(1_000)));
        assert!(watermark(999).has_passed(at(1_000)));
        assert!(!watermark(1_298).has_expired(at(1_000), Span::from_millis(300)));
        assert!(watermark(1_299).has_expired(at(1_000), Span::from_millis(300)));
        assert!(!Watermark::default().has_passed(EventTime::MIN));
        assert!(Watermark::END.has_expired(EventTime::MAX, Span::from_secs(1)));
    }
}
