//! Timers are data: idle deadlines of devices, in a clock that stands still
//! while silence means nothing.
//!
//! **The idle clock.** A device is idle after `timeout` of silence, but only
//! silence that we could have heard: not while the input is disconnected, behind,
//! or held back by us. Deadlines are kept in [`LiveTime`], milliseconds for
//! which the input was live. Pausing and resuming is then O(1) for any number of
//! devices, and what is left of a deadline can be persisted.
//!
//! **The heap.** One entry per device that is not idle. A record does not touch
//! the heap, it only moves the device's own deadline; an entry that comes up too
//! early is put back at the true one. So a record costs O(1), a wake-up O(log n).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::time::{ProcTime, Span};

/// Milliseconds for which the input has been live since the process started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct LiveTime(u64);

impl LiveTime {
    /// Never: the deadline of an idle device.
    pub(super) const NEVER: LiveTime = LiveTime(u64::MAX);

    /// Time from `earlier` to `self`.
    pub(super) fn since(self, earlier: LiveTime) -> Span {
        Span::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// What is left until `self`.
    pub(super) fn remaining(self, now: LiveTime) -> Span {
        Span::from_millis(self.0.saturating_sub(now.0))
    }

    /// The moment `span` after `self`.
    #[inline]
    pub(super) fn plus(self, span: Span) -> LiveTime {
        LiveTime(self.0.saturating_add(span.as_millis()))
    }
}

/// Both clocks that deadlines are kept in, at one moment. In stored state they count
/// from the snapshot: a page says how long it came after what was stored before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    /// Runs while silence means something.
    pub live: LiveTime,
    /// Runs always.
    pub proc: ProcTime,
}

/// Maps monotonic time to live time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdleClock {
    live_before: u64,
    running_since: Option<ProcTime>,
}

impl IdleClock {
    /// A clock that stands still.
    pub(super) fn stopped_at(live: LiveTime) -> IdleClock {
        IdleClock { live_before: live.0, running_since: None }
    }

    /// Starts or stops the clock. Repeating the same state changes nothing.
    pub(super) fn set_running(&mut self, now: ProcTime, running: bool) {
        match (self.running_since, running) {
            (Some(since), false) => {
                self.live_before += now.since(since).as_millis();
                self.running_since = None;
            }
            (None, true) => self.running_since = Some(now),
            (Some(_), true) | (None, false) => {}
        }
    }

    /// The live time at `now`.
    #[inline]
    pub(super) fn read(&self, now: ProcTime) -> LiveTime {
        let running = self.running_since.map_or(0, |since| now.since(since).as_millis());
        LiveTime(self.live_before + running)
    }

    /// Both clocks at `now`.
    pub(super) fn clocks(&self, now: ProcTime) -> Clocks {
        Clocks { live: self.read(now), proc: now }
    }

    /// When live time will reach `at`; `None` while the clock stands still.
    pub(super) fn proc_time_of(&self, at: LiveTime) -> Option<ProcTime> {
        let since = self.running_since?;
        Some(since + Span::from_millis(at.0.saturating_sub(self.live_before)))
    }
}

/// Pending idle deadlines of one stream, by device.
#[derive(Clone, Debug, Default)]
pub(super) struct IdleTimers<D = u32> {
    heap: BinaryHeap<Reverse<(LiveTime, D)>>,
}

impl<D: Ord + Copy> IdleTimers<D> {
    /// Adds the one entry of a device that has none.
    pub(super) fn push(&mut self, at: LiveTime, device: D) {
        self.heap.push(Reverse((at, device)));
    }

    /// The earliest entry: no device is idle before it.
    pub(super) fn earliest(&self) -> Option<LiveTime> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the earliest entry that is due at `now`: its time and its device. A device
    /// that was heard since is put back, so that all come out in the order of their deadlines.
    pub(super) fn pop_due(&mut self, now: LiveTime) -> Option<(LiveTime, D)> {
        let Reverse((at, _)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::cmp::Ordering;

    const fn at(millis: u64) -> ProcTime {
        ProcTime::from_millis(millis)
    }

    #[test]
    fn a_deadline_moves_by_exactly_the_time_for_which_the_input_was_not_live() {
        let mut clock = IdleClock::default();
        assert_eq!(clock.proc_time_of(LiveTime(10)), None, "not started yet");
        clock.set_running(at(1_000), true);
        let deadline = clock.read(at(1_500)).plus(Span::from_millis(700));
        assert_eq!(clock.proc_time_of(deadline), Some(at(2_200)));

        clock.set_running(at(2_199), false);
        assert_eq!(clock.proc_time_of(deadline), None);
        assert_eq!(deadline.remaining(clock.read(at(9_000))), Span::MILLI);
        clock.set_running(at(10_000), true);
        clock.set_running(at(10_000), true);
        assert_eq!(clock.proc_time_of(deadline), Some(at(10_001)));
    }

    thread_local! {
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// A device that counts how often it is compared.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    struct Counted(u32);

    impl Ord for Counted {
        fn cmp(&self, other: &Counted) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Counted) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    /// One moment for all, so that the devices decide about every comparison.
    #[test]
    fn an_expiry_costs_comparisons_in_the_logarithm_of_the_number_of_devices() {
        let per_expiry = |devices: u32| {
            let mut timers = IdleTimers::default();
            for number in 0..devices {
                // In no particular order: a stride that has no factor in common.
                timers.push(LiveTime(1), Counted(number.wrapping_mul(7_919) % devices));
            }
            COMPARED.set(0);
            let expired = core::iter::from_fn(|| timers.pop_due(LiveTime(1))).count();
            assert_eq!(expired, devices as usize);
            COMPARED.get() / u64::from(devices)
        };
        let (few, many) = (per_expiry(1_000), per_expiry(50_000));
        // Two on each level on the way down: 10 and 16 levels.
        assert!(few <= 20 && many <= 32, "{few} of 1,000, {many} of 50,000");
        assert!(many <= few * 2, "{few} of 1,000, {many} of 50,000: fifty times the devices");
    }

    #[test]
    fn entries_come_out_in_time_order_and_not_before_they_are_due() {
        let mut timers = IdleTimers::default();
        timers.push(LiveTime(5), 1);
        timers.push(LiveTime(3), 2);
        assert_eq!(timers.earliest(), Some(LiveTime(3)));
        assert_eq!(timers.pop_due(LiveTime(2)), None);
        assert_eq!(timers.pop_due(LiveTime(5)), Some((LiveTime(3), 2)));
        assert_eq!(timers.pop_due(LiveTime(5)), Some((LiveTime(5), 1)));
        assert_eq!(timers.pop_due(LiveTime(5)), None);
    }
}
