//! What a clock on a wall shows, as a moment. Twice a year that is not plain: an hour is
//! skipped, and another one comes twice.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::engine::spec::{GapPolicy, OverlapPolicy, ZonedRules};

/// A zone with its rules read.
#[derive(Clone, Debug)]
pub(super) struct Local {
    zone: TimeZone,
    gap: GapPolicy,
    overlap: OverlapPolicy,
}

impl Local {
    /// Reads the rules of the zone, once.
    pub(super) fn new(rules: ZonedRules) -> Local {
        Local { zone: rules.zone.rules(), gap: rules.gap, overlap: rules.overlap }
    }

    /// The moment at which the clock shows `clock`, in milliseconds; `None` when there is
    /// none.
    pub(super) fn millis(&self, clock: DateTime) -> Option<i64> {
        let offset = match (self.zone.to_ambiguous_timestamp(clock).offset(), self.gap, self.overlap) {
            (AmbiguousOffset::Unambiguous { offset }, _, _)
            | (AmbiguousOffset::Fold { before: offset, .. }, _, OverlapPolicy::Earlier)
            | (AmbiguousOffset::Fold { after: offset, .. }, _, OverlapPolicy::Later)
            // Seen by a clock that was not set forward: 02:30 is half an hour after the jump.
            | (AmbiguousOffset::Gap { before: offset, .. }, GapPolicy::Forward, _) => offset,
            (AmbiguousOffset::Gap { .. }, GapPolicy::Reject, _) => return None,
        };
        Some(offset.to_timestamp(clock).ok()?.as_millisecond())
    }
}
