//! Scopes `group` and `stream`: one watermark, the minimum over the devices that
//! count.
//!
//! Flink's `CombinedWatermarkStatus` (2.2): `W = max(W before, min over those that
//! count)`; with nobody, `max over all` (FLINK-38454), or W stays (up to 2.1). A
//! device that is active and has no watermark yet holds it. Beyond Flink:
//!
//! - A device that comes back behind W never moves W back; whether W then waits for
//!   it is [`Resume`].
//! - A device that is further than `max_lag` behind the leading active one does not
//!   count, and one that has no watermark yet is further than anything. It counts
//!   again under [`Resume::Hold`] as soon as it is within `max_lag`, under
//!   [`Resume::CatchUp`] once it has reached W.

use std::collections::BTreeSet;

use crate::model::time::{EventTime, Span};

use super::spec::{AllIdle, Resume, Scope, WatermarkSpec};
use super::watermark::Watermark;

/// What devices that share a watermark have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    /// Scopes `group` and `stream`: the devices that decide.
    pub members: Members,
    /// Slots by the watermark at which a pane of theirs is due.
    pub due: BTreeSet<(EventTime, u32)>,
    /// Devices that are not idle, for windows that they share.
    pub active: usize,
}

/// Who counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub resume: Resume,
    pub max_lag: Option<Span>,
    pub all_idle: AllIdle,
}

impl Rules {
    pub(super) fn of(spec: &WatermarkSpec) -> Rules {
        let resume = match spec.scope {
            Scope::Stream(resume) | Scope::Group(resume) => resume,
            Scope::Device | Scope::Shared => Resume::Hold,
        };
        Rules { resume, max_lag: spec.max_lag, all_idle: spec.all_idle }
    }
}

/// The devices, each in one of three sets by its own watermark. O(log n) per change.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    counted: BTreeSet<(Watermark, u32)>,
    /// Active, and too far behind.
    left_out: BTreeSet<(Watermark, u32)>,
    idle: BTreeSet<(Watermark, u32)>,
}

impl Members {
    /// A device is active with the watermark `own`. `counted`: it counted until now.
    /// `combined`: the watermark that all share.
    pub(super) fn add(&mut self, slot: u32, own: Watermark, counted: bool, rules: Rules, combined: Watermark) {
        let may_count = match rules.resume {
            Resume::Hold => true,
            // One that counts goes on; one that is back counts once it has caught up.
            Resume::CatchUp => counted || own >= combined,
        };
        let set = if may_count { &mut self.counted } else { &mut self.left_out };
        set.insert((own, slot));
        self.leave_laggards_out(rules);
    }

    /// A device is idle: nobody waits for it.
    pub(super) fn add_idle(&mut self, slot: u32, own: Watermark, rules: Rules) {
        self.idle.insert((own, slot));
        self.leave_laggards_out(rules);
    }

    /// Takes a device out, by the watermark that it had. Returns true when it counted.
    /// It is put back at once, or [`Members::leave_laggards_out`] is called.
    pub(super) fn remove(&mut self, slot: u32, own: Watermark) -> bool {
        let member = (own, slot);
        let counted = self.counted.remove(&member);
        if !counted && !self.left_out.remove(&member) {
            self.idle.remove(&member);
        }
        counted
    }

    /// Judges everybody by the leading active device, which may be another one now.
    pub(super) fn leave_laggards_out(&mut self, rules: Rules) {
        let Some(max_lag) = rules.max_lag else { return };
        let Some(leader) = self.counted.last().max(self.left_out.last()).and_then(|(own, _)| own.time()) else {
            return;
        };
        let lags = |own: Watermark| own.time().is_none_or(|own| own + max_lag < leader);
        while let Some(member) = self.counted.first().copied().filter(|(own, _)| lags(*own)) {
            self.counted.remove(&member);
            self.left_out.insert(member);
        }
        if rules.resume == Resume::Hold {
            while let Some(member) = self.left_out.last().copied().filter(|(own, _)| !lags(*own)) {
                self.left_out.remove(&member);
                self.counted.insert(member);
            }
        }
    }

    /// What the members allow; the watermark itself never falls to it.
    pub(super) fn combined(&self, rules: Rules) -> Watermark {
        if let Some((own, _)) = self.counted.first() {
            return *own;
        }
        match rules.all_idle {
            AllIdle::Advance => {
                let highest = self.left_out.last().max(self.idle.last());
                highest.map_or(Watermark::default(), |(own, _)| *own)
            }
            AllIdle::Stay => Watermark::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Watermark = Watermark::NONE;

    fn at(millis: i64) -> Watermark {
        let mut watermark = NONE;
        watermark.observe(EventTime::from_millis(millis + 1), Span::ZERO);
        watermark
    }

    fn rules(resume: Resume) -> Rules {
        Rules { resume, max_lag: None, all_idle: AllIdle::Advance }
    }

    fn moved(members: &mut Members, slot: u32, from: Watermark, to: Watermark, rules: Rules, combined: Watermark) {
        let counted = members.remove(slot, from);
        members.add(slot, to, counted, rules, combined);
    }

    fn idle(members: &mut Members, slot: u32, own: Watermark, rules: Rules) {
        members.remove(slot, own);
        members.add_idle(slot, own, rules);
    }

    #[test]
    fn the_slowest_active_device_decides_and_with_nobody_active_the_fastest_or_nobody() {
        for (all_idle, at_the_end) in [(AllIdle::Advance, at(50)), (AllIdle::Stay, NONE)] {
            let rules = Rules { all_idle, ..rules(Resume::Hold) };
            let mut members = Members::default();
            members.add(1, NONE, false, rules, NONE);
            members.add(2, at(50), false, rules, NONE);
            assert_eq!(members.combined(rules), NONE, "one that has sent nothing holds");
            moved(&mut members, 1, NONE, at(10), rules, NONE);
            assert_eq!(members.combined(rules), at(10));
            idle(&mut members, 2, at(50), rules);
            assert_eq!(members.combined(rules), at(10));
            idle(&mut members, 1, at(10), rules);
            assert_eq!(members.combined(rules), at_the_end);
        }
    }

    #[test]
    fn a_device_that_comes_back_behind_is_waited_for_or_ignored_until_it_has_caught_up() {
        for (resume, while_behind) in [(Resume::Hold, at(20)), (Resume::CatchUp, at(50))] {
            let rules = rules(resume);
            let mut members = Members::default();
            members.add_idle(1, at(10), rules);
            members.add(2, at(50), false, rules, NONE);
            moved(&mut members, 1, at(10), at(20), rules, at(50));
            assert_eq!(members.combined(rules), while_behind, "{resume:?}");
            moved(&mut members, 1, at(20), at(60), rules, at(50));
            assert_eq!(members.combined(rules), at(50), "{resume:?}");
            moved(&mut members, 2, at(50), at(70), rules, at(50));
            assert_eq!(members.combined(rules), at(60), "it counts again: {resume:?}");
        }
    }

    #[test]
    fn one_that_lags_too_far_is_left_out_and_returns_within_the_bound_or_at_the_watermark() {
        for (resume, within) in [(Resume::Hold, at(90)), (Resume::CatchUp, at(100))] {
            let rules = Rules { max_lag: Some(Span::from_millis(10)), ..rules(resume) };
            let mut members = Members::default();
            members.add(1, at(50), false, rules, NONE);
            members.add(2, at(60), false, rules, NONE);
            assert_eq!(members.combined(rules), at(50), "the bound itself is allowed");
            moved(&mut members, 2, at(60), at(100), rules, at(50));
            assert_eq!(members.combined(rules), at(100));
            moved(&mut members, 1, at(50), at(89), rules, at(100));
            assert_eq!(members.combined(rules), at(100));
            moved(&mut members, 1, at(89), at(90), rules, at(100));
            assert_eq!(members.combined(rules), within, "{resume:?}");
            moved(&mut members, 1, at(90), at(100), rules, at(100));
            moved(&mut members, 2, at(100), at(105), rules, at(100));
            assert_eq!(members.combined(rules), at(100), "it counts again: {resume:?}");
        }
    }

    #[test]
    fn when_the_leader_falls_idle_the_others_are_judged_by_the_next_one() {
        let rules = Rules { max_lag: Some(Span::from_millis(10)), ..rules(Resume::Hold) };
        let mut members = Members::default();
        members.add(1, at(50), false, rules, NONE);
        members.add(3, NONE, false, rules, NONE);
        members.add(2, at(100), false, rules, NONE);
        assert_eq!(members.combined(rules), at(100), "not even one without a watermark holds");
        idle(&mut members, 2, at(100), rules);
        assert_eq!(members.combined(rules), at(50));
    }
}
