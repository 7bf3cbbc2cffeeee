//! What a record, or the clock, does to the watermark, by strategy and scope.

use crate::model::record::Record;

use super::scope::Rules;
use super::spec::{Scope, Strategy};
use super::stream::Stream;
use super::watermark::Watermark;

impl Stream {
    /// A record of the device in `slot` has met its windows. True when the watermark
    /// that these are under rose.
    #[inline]
    pub(super) fn advance(&mut self, slot: u32, record: &Record<'_>) -> bool {
        self.wake(slot);
        let device = self.devices.get_mut(slot);
        device.newest = device.newest.max(Some(record.at));
        let reached = match self.spec.watermark.strategy {
            Strategy::Bounded { disorder } => Watermark::behind(record.at, disorder),
            Strategy::Adaptive { .. } | Strategy::Punctuated { .. } | Strategy::Processing { .. } => Watermark::NONE,
        };
        match self.spec.watermark.scope {
            Scope::Device => device.watermark.raise(reached),
            Scope::Shared => self.shared.raise(reached),
            Scope::Stream(_) | Scope::Group(_) => self.advance_member(slot, reached),
        }
    }

    /// A device's own watermark moves, or it is there again; the common one follows.
    fn advance_member(&mut self, slot: u32, reached: Watermark) -> bool {
        let rules = Rules::of(&self.spec.watermark);
        let combined = self.decided(slot);
        let device = self.devices.get_mut(slot);
        let before = device.watermark;
        device.watermark.raise(reached);
        let own = device.watermark;
        let Some(common) = self.common_mut(slot) else { return false };
        let counted = common.members.remove(slot, before);
        common.members.add(slot, own, counted, rules, combined);
        self.raise_common(slot)
    }

    /// The watermark that the members of a slot's scope have brought about.
    pub(super) fn decided(&self, slot: u32) -> Watermark {
        match self.spec.watermark.scope {
            Scope::Device | Scope::Shared | Scope::Stream(_) => self.shared,
            Scope::Group(_) => self.group_of(slot).map_or(Watermark::NONE, |group| self.devices.get(group).watermark),
        }
    }
}
