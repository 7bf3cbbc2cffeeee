//! What a record, or the clock, does to the watermark, by strategy and scope.

use crate::model::limits::FIELDS_MAX;
use crate::model::record::Record;
use crate::model::time::{ClockQuality, EventTime, Now, ProcTime, Span};

use super::emit::Emit;
use super::scope::Rules;
use super::spec::{Scope, Strategy};
use super::stream::Stream;
use super::timers::LiveTime;
use super::watermark::Watermark;
use super::watermark::adaptive::Target;

impl Stream {
    /// Strategy `punctuated`: the mark is taken out, for it is no value.
    #[cold]
    pub(super) fn accept_marked(&mut self, out: &mut Emit<'_>, live: LiveTime, record: &Record<'_>, sent: &Record<'_>) {
        let mut values = heapless::Vec::<_, FIELDS_MAX>::new();
        let mut is_mark = false;
        for value in record.values {
            if Some(value.0) == self.marker {
                is_mark = value.1.abs() > 0.0;
            } else {
                // Fields appear once, and there are no more than this.
                values.push(*value).unwrap_or_default();
            }
        }
        self.take_in(out, live, &Record { values: &values, ..*record }, sent, is_mark);
    }

    /// A record of the device in `slot` has met its windows. True when the watermark
    /// that these are under rose.
    #[inline]
    pub(super) fn advance(&mut self, slot: u32, at: EventTime, is_mark: bool) -> bool {
        let (strategy, scope) = (&self.spec.watermark.strategy, self.spec.watermark.scope);
        let device = self.devices.get_mut(slot);
        let newest = device.newest();
        device.saw(at);
        if device.idle {
            self.wake(slot);
        } else if let (Strategy::Bounded { disorder }, Scope::Device) = (strategy, scope) {
            // Nearly always: one look at the device.
            return device.watermark.observe(at, *disorder);
        }
        self.advance_by(slot, newest, at, is_mark)
    }

    #[inline(never)]
    fn advance_by(&mut self, slot: u32, newest: Option<EventTime>, at: EventTime, is_mark: bool) -> bool {
        let reached = match self.spec.watermark.strategy {
            Strategy::Bounded { disorder } => Watermark::behind(at, disorder),
            Strategy::Adaptive { quantile, floor, ceiling } => {
                self.measure(slot, newest, at, Target { quantile, floor, ceiling })
            }
            Strategy::Punctuated { .. } if is_mark => Watermark::behind(at, Span::ZERO),
            Strategy::Punctuated { .. } | Strategy::Processing { .. } => Watermark::NONE,
        };
        match self.spec.watermark.scope {
            Scope::Device => self.devices.get_mut(slot).watermark.raise(reached),
            Scope::Shared => self.shared.raise(reached),
            Scope::Stream(_) | Scope::Group(_) => self.advance_member(slot, reached),
        }
    }

    /// Strategy `adaptive`: what the newest record, and how late those before it were,
    /// say. In scope `shared` the stream is measured as one device.
    #[cold]
    fn measure(&mut self, slot: u32, newest: Option<EventTime>, at: EventTime, target: Target) -> Watermark {
        let (newest, histogram) = if self.spec.watermark.scope == Scope::Shared {
            let newest = self.newest;
            self.newest = newest.max(Some(at));
            (newest, &mut self.lateness)
        } else {
            (newest, &mut self.devices.get_mut(slot).lateness)
        };
        let histogram = histogram.get_or_insert_default();
        histogram.add(newest.map_or(Span::ZERO, |newest| at.lag_behind(newest)));
        let newest = newest.map_or(at, |newest| newest.max(at));
        Watermark::behind(newest, histogram.bound(target))
    }

    /// The bound that is in force for a device, with strategy `adaptive` only.
    pub(super) fn bound_of(&self, slot: u32) -> Option<Span> {
        let Strategy::Adaptive { quantile, floor, ceiling } = self.spec.watermark.strategy else { return None };
        let shared = self.spec.watermark.scope == Scope::Shared;
        let histogram = if shared { &self.lateness } else { &self.devices.get(slot).lateness };
        let target = Target { quantile, floor, ceiling };
        Some(histogram.as_ref().map_or(ceiling, |histogram| histogram.bound(target)))
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

    /// Strategy `processing`: the watermark follows the gateway's clock. It stands still
    /// while that is not to be trusted.
    pub(super) fn follow_clock(&mut self, out: &mut Emit<'_>) {
        if let Strategy::Processing { delay } = self.spec.watermark.strategy
            && out.now.quality == ClockQuality::Synced
            && self.shared.raise(Watermark::behind(out.now.wall.as_event_time(), delay))
        {
            self.fire_common(out, None);
        }
    }

    /// Strategy `processing`: when the clock will have reached the next pane or reading
    /// that is due, or what else is (`also`), if it goes on as it did at `now`.
    pub(super) fn clock_deadline(&self, now: Now, also: Option<EventTime>) -> Option<ProcTime> {
        let Strategy::Processing { delay } = self.spec.watermark.strategy else { return None };
        let pane = self.common.due.first().map(|(due, _)| *due);
        let reading = self.ordered.lowest().map(|lowest| lowest.at);
        let due = pane.into_iter().chain(reading).chain(also).min()? + delay + Span::MILLI;
        (now.quality == ClockQuality::Synced).then(|| now.proc + now.wall.as_event_time().lag_behind(due))
    }
}
