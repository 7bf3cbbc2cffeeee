//! After a restart: every deadline anew, in the clocks of this process, and whatever
//! else follows from what was persisted.

use crate::model::time::{EventTime, ProcTime};

use super::fire::due_of;
use super::scope::Common;
use super::stream::Stream;
use super::timers::{Clocks, LiveTime};
use super::ttl::rearm_expiry;
use super::window::pane::Pane;

/// Every deadline anew, from what was persisted up to `stored_at`. Returns the cost of
/// its panes.
pub(super) fn rearm(stream: &mut Stream, stored_at: Clocks, now: ProcTime) -> usize {
    let mut cost = stream.ordered.cost();
    stream.open_panes = 0;
    stream.common = Common::default();
    for slot in stream.all_slots() {
        if let Some(common) = &mut stream.devices.get_mut(slot).common {
            **common = Common::default();
        }
    }
    for slot in stream.all_slots() {
        let windows = &stream.spec.windows;
        let device = stream.devices.get(slot);
        let panes = device.panes.iter().map(|pane| due_of(pane, &windows[usize::from(pane.window)]));
        let due = panes.min().unwrap_or(EventTime::MAX);
        let idle_at = device.idle_at;
        stream.open_panes += device.panes.len();
        let aggregates = |pane: &Pane| &windows[usize::from(pane.window)].aggregates;
        cost += device.panes.iter().map(|pane| pane.cost(aggregates(pane))).sum::<usize>();
        stream.set_due(slot, due);
        stream.restore_member(slot);
        if stream.spec.watermark.idle_timeout.is_none() {
            stream.devices.get_mut(slot).idle_at = LiveTime::NEVER;
        } else if idle_at != LiveTime::NEVER {
            stream.arm_idle(slot, idle_at);
        }
        rearm_shows(stream, slot, stored_at.proc, now);
    }
    rearm_expiry(stream, stored_at.live);
    cost += rearm_deltas(stream, stored_at.proc, now);
    stream.mark_committed();
    cost
}

impl Stream {
    /// What its windows, and what waits beside them, take of a snapshot.
    pub(super) fn window_cost(&self) -> usize {
        let aggregates = |window: u8| &self.spec.windows[usize::from(window)].aggregates;
        let panes = self.devices.slots().flat_map(|(_, _, device)| &device.panes);
        let panes: usize = panes.map(|pane| pane.cost(aggregates(pane.window))).sum();
        let bursts = self.backfill.bursts.iter();
        let deltas = bursts.flat_map(|((_, window), burst)| burst.deltas.iter().map(|delta| (*window, delta)));
        panes + deltas.map(|(window, delta)| delta.cost(aggregates(window))).sum::<usize>() + self.ordered.cost()
    }
}

/// A deadline was read as what is left of it. What `early` is new for has none yet.
fn rearm_shows(stream: &mut Stream, slot: u32, stored_at: ProcTime, now: ProcTime) {
    let mut next = ProcTime::NEVER;
    for pane in &mut stream.devices.get_mut(slot).panes {
        let every = stream.spec.windows[usize::from(pane.window)].early;
        pane.show_at = match every {
            _ if pane.show_at != ProcTime::NEVER => since_now(pane.show_at, stored_at, now),
            Some(every) if pane.unseen && !pane.fired => now + every,
            Some(_) | None => ProcTime::NEVER,
        };
        next = next.min(pane.show_at);
    }
    stream.set_show(slot, next);
}

fn rearm_deltas(stream: &mut Stream, stored_at: ProcTime, now: ProcTime) -> usize {
    let mut cost = 0;
    for ((_, window), burst) in &mut stream.backfill.bursts {
        burst.quiet_at = since_now(burst.quiet_at, stored_at, now);
        burst.full_at = since_now(burst.full_at, stored_at, now);
        let aggregates = &stream.spec.windows[usize::from(*window)].aggregates;
        cost += burst.deltas.iter().map(|delta| delta.cost(aggregates)).sum::<usize>();
    }
    stream.backfill.rearm();
    cost
}

fn since_now(deadline: ProcTime, stored_at: ProcTime, now: ProcTime) -> ProcTime {
    if deadline == ProcTime::NEVER { deadline } else { now + deadline.since(stored_at) }
}
