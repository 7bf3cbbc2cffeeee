//! Scope `stream`: one watermark, the minimum over the devices that are not idle.
//!
//! Flink's `CombinedWatermarkStatus` (2.2): `W = max(W before, min over the active)`;
//! with nobody active, `max over all` (FLINK-38454). A device that is active and
//! has no watermark yet holds it. A device that comes back behind W never moves W
//! back; whether W then waits for it is [`Resume`].

use std::collections::BTreeSet;

use super::spec::Resume;
use super::watermark::Watermark;

/// The devices that decide about the common watermark. O(log n) per change.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// Own watermark and slot of every active device that counts.
    active: BTreeSet<(Watermark, u32)>,
    highest: Watermark,
}

impl Members {
    /// A device becomes active.
    pub(super) fn add(&mut self, slot: u32, own: Watermark) {
        self.active.insert((own, slot));
        self.highest.raise(own);
    }

    /// A record of `slot` moved its own watermark from `before` to `own`.
    pub(super) fn handle_record(
        &mut self,
        slot: u32,
        before: Watermark,
        own: Watermark,
        was_idle: bool,
        resume: Resume,
        combined: Watermark,
    ) {
        let counted = self.active.remove(&(before, slot));
        self.highest.raise(own);
        let may_return = match resume {
            Resume::Hold => true,
            // One that was counted stays so; one that is back counts once it has caught up.
            Resume::CatchUp => own >= combined || (counted && !was_idle),
        };
        if may_return {
            self.active.insert((own, slot));
        }
    }

    /// A device as it was persisted.
    pub(super) fn restore(&mut self, slot: u32, own: Watermark, active: bool, resume: Resume, combined: Watermark) {
        self.highest.raise(own);
        let counts = match resume {
            Resume::Hold => active,
            Resume::CatchUp => active && own >= combined,
        };
        if counts {
            self.active.insert((own, slot));
        }
    }

    /// A device is silent: nobody waits for it.
    pub(super) fn handle_idle(&mut self, slot: u32, own: Watermark) {
        self.active.remove(&(own, slot));
    }

    /// What the members allow; the watermark itself never falls to it.
    pub(super) fn combined(&self) -> Watermark {
        self.active.first().map_or(self.highest, |(own, _)| *own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{EventTime, Span};

    fn at(millis: i64) -> Watermark {
        let mut watermark = Watermark::default();
        watermark.observe(EventTime::from_millis(millis + 1), Span::ZERO);
        watermark
    }

    #[test]
    fn the_slowest_active_device_decides_and_with_nobody_active_the_fastest() {
        let mut members = Members::default();
        members.add(1, Watermark::default());
        members.handle_record(2, Watermark::default(), at(50), true, Resume::Hold, Watermark::default());
        assert_eq!(members.combined(), Watermark::default(), "one that has sent nothing holds");
        members.handle_record(1, Watermark::default(), at(10), false, Resume::Hold, Watermark::default());
        assert_eq!(members.combined(), at(10));
        members.handle_idle(1, at(10));
        assert_eq!(members.combined(), at(50));
        members.handle_idle(2, at(50));
        assert_eq!(members.combined(), at(50));
    }

    #[test]
    fn a_device_that_comes_back_behind_is_waited_for_or_ignored_until_it_has_caught_up() {
        for (resume, while_behind) in [(Resume::Hold, at(20)), (Resume::CatchUp, at(50))] {
            let mut members = Members::default();
            members.add(1, at(10));
            members.add(2, at(50));
            members.handle_idle(1, at(10));
            members.handle_record(1, at(10), at(20), true, resume, at(50));
            assert_eq!(members.combined(), while_behind, "{resume:?}");
            members.handle_record(1, at(20), at(60), false, resume, at(50));
            assert_eq!(members.combined(), at(50), "{resume:?}");
            members.handle_record(2, at(50), at(70), false, resume, at(50));
            assert_eq!(members.combined(), at(60), "it counts again: {resume:?}");
        }
    }
}
