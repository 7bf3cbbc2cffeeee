//! Windows: which ones a time belongs to. One file per kind.

pub mod pane;
pub mod tumbling;

use crate::model::time::{EventTime, Span};

use super::spec::WindowKind;

/// A half-open interval of event time, `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interval {
    /// First time inside.
    pub start: EventTime,
    /// First time after it.
    pub end: EventTime,
}

/// The window of `kind` that holds `at`.
#[inline]
pub fn assign(kind: WindowKind, at: EventTime) -> Interval {
    match kind {
        WindowKind::Tumbling { size, offset_ms } => tumbling::assign(at, size, offset_ms),
    }
}

/// The window of `kind` that starts at `start`.
#[inline]
pub fn starting_at(kind: WindowKind, start: EventTime) -> Interval {
    let size: Span = match kind {
        WindowKind::Tumbling { size, .. } => size,
    };
    Interval { start, end: start + size }
}
