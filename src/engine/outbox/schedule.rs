//! Which lane is served next. Alarms first, then what is new; what waited gets its share
//! of the bytes while there is something new to send, and everything else of the time.
//!
//! What waited is also kept from filling the way in front of what is new: its part of
//! the window grows while acknowledgements come promptly, and is halved when they do
//! not (additive increase, multiplicative decrease, as in TCP).

use crate::model::time::Span;

use super::LaneKind;

/// An acknowledgement within this time is prompt: something new waits no longer than that.
const PROMPT: Span = Span::from_secs(1);
/// Batches of what waited that may be unacknowledged at first.
const SHARE_AT_START: usize = 4;
/// The least of the window that is kept for what is new, one in that many.
const KEPT_FOR_NEW: usize = 8;
/// How far the balance between both may go: some batches. An hour without anything new
/// must not give what waited an hour afterwards.
const BALANCE_MAX: i64 = 512 * 1024;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    share: u8,
    /// What waited is owed that many hundredths of bytes.
    balance: i64,
    backlog_had_its_turn: bool,
    /// Batches of what waited that may be unacknowledged.
    waited_window: usize,
    waited_window_max: usize,
}

/// Lanes that have something to send now.
pub(super) type Ready = [bool; LaneKind::ALL.len()];

impl Schedule {
    /// `share`: percent of what waited. `window`: all batches.
    pub(super) fn new(share: u8, window: usize) -> Schedule {
        let max = (window - (window / KEPT_FOR_NEW).min(window - 1)).max(1);
        Schedule {
            share,
            balance: 0,
            backlog_had_its_turn: false,
            waited_window: SHARE_AT_START.min(max),
            waited_window_max: max,
        }
    }

    /// Whether another batch of what waited may be sent, with so many under way.
    pub(super) fn has_room(&self, waited_in_flight: usize) -> bool {
        waited_in_flight < self.waited_window
    }

    /// The lane that is served next.
    pub(super) fn choose(&self, ready: Ready) -> Option<LaneKind> {
        let of = |kind: LaneKind| Some(kind).filter(|kind| ready[*kind as usize]);
        if ready[LaneKind::Alarm as usize] {
            return Some(LaneKind::Alarm);
        }
        let new = of(LaneKind::Live).or(of(LaneKind::Update));
        let (first, second) = (of(LaneKind::Backlog), of(LaneKind::Late));
        let waited = if self.backlog_had_its_turn { second.or(first) } else { first.or(second) };
        match (new, waited) {
            (Some(new), Some(waited)) => Some(if self.balance > 0 { waited } else { new }),
            (new, waited) => new.or(waited),
        }
    }

    /// A batch is sent. `contested`: both kinds had something.
    pub(super) fn handle_sent(&mut self, kind: LaneKind, bytes: usize, contested: bool) {
        if kind.can_wait() {
            self.backlog_had_its_turn = kind == LaneKind::Backlog;
        }
        if kind == LaneKind::Alarm {
            return;
        }
        if !contested {
            self.balance = 0;
            return;
        }
        let bytes = i64::try_from(bytes).unwrap_or(BALANCE_MAX);
        let share = i64::from(self.share);
        self.balance += if kind.can_wait() { -bytes * (100 - share) } else { bytes * share };
        self.balance = self.balance.clamp(-BALANCE_MAX * 100, BALANCE_MAX * 100);
    }

    /// A batch was acknowledged that long after it was sent.
    pub(super) fn handle_acked(&mut self, kind: LaneKind, after: Span) {
        if !kind.can_wait() {
            return;
        }
        if after <= PROMPT {
            self.waited_window = (self.waited_window + 1).min(self.waited_window_max);
        } else {
            self.waited_window = (self.waited_window / 2).max(1);
        }
    }

    /// A new connection.
    pub(super) fn restart(&mut self) {
        self.waited_window = SHARE_AT_START.min(self.waited_window_max);
        self.balance = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(share: u8, sizes: (usize, usize), rounds: usize) -> (usize, usize) {
        let mut schedule = Schedule::new(share, 32);
        let ready = [false, true, false, true, false];
        let (mut new, mut waited) = (0, 0);
        for _ in 0..rounds {
            let kind = schedule.choose(ready).expect("both have something");
            let bytes = if kind.can_wait() { sizes.1 } else { sizes.0 };
            *(if kind.can_wait() { &mut waited } else { &mut new }) += bytes;
            schedule.handle_sent(kind, bytes, true);
        }
        (new, waited)
    }

    #[test]
    fn what_is_new_goes_first_and_what_waited_gets_its_share_of_the_bytes() {
        for (share, sizes) in [(50, (1_000, 1_000)), (50, (300, 40_000)), (20, (1_000, 1_000)), (80, (500, 50))] {
            let (new, waited) = run(share, sizes, 10_000);
            let found = waited as f64 / (new + waited) as f64;
            assert!((found - f64::from(share) / 100.0).abs() < 0.02, "{share} %: {found}");
        }
        assert_eq!(Schedule::new(50, 32).choose([false, true, false, true, true]), Some(LaneKind::Live));
        assert_eq!(Schedule::new(50, 32).choose([true, true, false, true, true]), Some(LaneKind::Alarm));
    }

    #[test]
    fn alone_it_gets_everything_and_backlog_and_late_take_turns() {
        let mut schedule = Schedule::new(50, 32);
        let mut turns = Vec::new();
        for _ in 0..4 {
            let kind = schedule.choose([false, false, false, true, true]).expect("something waits");
            schedule.handle_sent(kind, 1_000, false);
            turns.push(kind);
        }
        assert_eq!(turns, [LaneKind::Backlog, LaneKind::Late, LaneKind::Backlog, LaneKind::Late]);
    }

    #[test]
    fn a_slow_uplink_narrows_the_window_of_what_waited_and_a_quick_one_widens_it() {
        let mut schedule = Schedule::new(50, 32);
        for _ in 0..100 {
            schedule.handle_acked(LaneKind::Backlog, Span::from_millis(20));
        }
        assert!(schedule.has_room(27) && !schedule.has_room(28), "an eighth is kept");
        for _ in 0..10 {
            schedule.handle_acked(LaneKind::Backlog, Span::from_secs(5));
        }
        assert!(schedule.has_room(0) && !schedule.has_room(1));
        assert!(Schedule::new(50, 1).has_room(0), "a window of one is one");
    }
}
