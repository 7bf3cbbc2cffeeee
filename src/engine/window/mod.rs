//! Windows: which ones a time belongs to. One file per kind.

pub mod calendar;
pub mod pane;
pub mod session;
pub mod sliding;
pub mod tumbling;

use crate::model::time::EventTime;

/// A half-open interval of event time, `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interval {
    /// First time inside.
    pub start: EventTime,
    /// First time after it.
    pub end: EventTime,
}

impl Interval {
    /// True when `at` is inside.
    #[inline]
    pub fn holds(self, at: EventTime) -> bool {
        self.start <= at && at < self.end
    }
}
