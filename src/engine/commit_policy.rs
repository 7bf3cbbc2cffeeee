//! When to commit: often enough that no broker waits for us, as rarely as the
//! flash deserves.
//!
//! A commit is due `interval` after the first uncommitted change. Sooner when the
//! broker has sent all that it will send without an acknowledgement: then waiting
//! brings nothing. How many that is (its in-flight window, 20 for mosquitto) is
//! not told by MQTT 3.1.1, so it is learned: the commit comes when that many are
//! unacknowledged and the input has been silent for 5 ms. A larger burst raises
//! the number; when acknowledgements end a silence again and again, the broker was
//! waiting for fewer, and the number falls to that.
//!
//! Between messages that come one by one there are 5 ms of silence too, whatever the
//! broker's window is. So silence is one of eight times the mean gap of the messages that
//! wait: 100 messages a second are committed once a second, not five times.
//!
//! A broker with a backlog and a window of 20 would be held to 4,000 messages a second
//! by those 5 ms alone. So when acknowledgements ended three silences in a row, each with
//! exactly as many messages unacknowledged, the window is known, and no silence is waited
//! for. One message more than that, or a silence that acknowledgements do not end, and it
//! is no longer known.
//!
//! Clients of the listener tell us no window either, but there are many of them, each with its
//! own, and for each one its message may be the only one it sends before it is acknowledged.
//! Nothing is learned from them: they are answered within a time of their own.

use crate::model::limits::COMMIT_MESSAGES_MAX;
use crate::model::time::{ProcTime, Span};

/// What is assumed before anything is learned: mosquitto's default.
const WINDOW_AT_START: usize = 20;
/// A window below this is not believed: a slow trickle looks like it, and would
/// cause a commit per message.
const WINDOW_MIN: usize = 4;
/// Silence after which a full window means "waiting".
const QUIET: Span = Span::from_millis(5);
/// Silence also is so many gaps between the messages before it.
const QUIET_GAPS: u64 = 8;
/// A message this soon after acknowledgements was waiting for them.
const PROMPT: Span = Span::from_millis(20);
/// Stalls with exactly the window unacknowledged, before it counts as known.
const STALLS_TO_KNOW: u8 = 3;
/// Stalls of the same size before the window shrinks to it.
const STALLS: u8 = 2;

/// Decides when the next commit is due. Pure: times come in, a deadline goes out.
#[derive(Clone, Copy, Debug)]
pub struct CommitPolicy {
    interval: Span,
    /// As `interval`, for clients of the listener.
    ack_within: Span,
    /// When a client of the listener has to be answered.
    clients_at: Option<ProcTime>,
    client_messages: usize,
    window: usize,
    first_change: Option<ProcTime>,
    first_message: ProcTime,
    last_message: ProcTime,
    messages: usize,
    /// Something that must not wait.
    urgent: bool,
    /// A commit that the interval forced after a long silence: how many messages
    /// it acknowledged, and when.
    stall: Option<(usize, ProcTime)>,
    stalls_in_row: (usize, u8),
    /// Stalls in a row with exactly the window unacknowledged.
    full_in_row: u8,
    /// The last commit acknowledged exactly the window.
    full: Option<ProcTime>,
    retry_at: Option<ProcTime>,
    not_before: ProcTime,
}

impl CommitPolicy {
    /// `interval`: the longest wait; `ack_within`: that of clients of the listener.
    pub fn new(interval: Span, ack_within: Span) -> CommitPolicy {
        CommitPolicy {
            interval,
            ack_within,
            clients_at: None,
            client_messages: 0,
            window: WINDOW_AT_START,
            first_change: None,
            first_message: ProcTime::default(),
            last_message: ProcTime::default(),
            messages: 0,
            urgent: false,
            stall: None,
            stalls_in_row: (0, 0),
            full_in_row: 0,
            full: None,
            retry_at: None,
            not_before: ProcTime::default(),
        }
    }

    /// Something changed that has to be made durable.
    pub fn handle_change(&mut self, now: ProcTime) {
        self.first_change.get_or_insert(now);
    }

    /// Something changed that has to be durable before more comes in.
    pub fn handle_urgent(&mut self, now: ProcTime) {
        self.handle_change(now);
        self.urgent = true;
    }

    /// A message was taken in that waits for its acknowledgement.
    pub fn handle_message(&mut self, now: ProcTime) {
        self.handle_change(now);
        if self.messages == 0 {
            self.first_message = now;
        }
        self.last_message = now;
        self.messages += 1;
        if let Some((size, at)) = self.stall.take() {
            self.learn_from_stall(size, now.since(at) <= PROMPT);
        }
        if let Some(at) = self.full.take() {
            let prompt = now.since(at) <= PROMPT;
            self.full_in_row = if prompt { self.full_in_row.saturating_add(1) } else { 0 };
        }
        if self.messages > self.window {
            self.full_in_row = 0;
        }
    }

    /// A message of a client of the listener was taken in, which waits for its acknowledgement.
    pub fn handle_client_message(&mut self, now: ProcTime) {
        self.client_messages += 1;
        self.handle_client_waiting(now);
    }

    /// A client of the listener waits for something that has to be durable first.
    pub fn handle_client_waiting(&mut self, now: ProcTime) {
        self.handle_change(now);
        self.clients_at.get_or_insert(now + self.ack_within);
    }

    fn learn_from_stall(&mut self, size: usize, prompt: bool) {
        if !prompt || size >= self.window {
            self.stalls_in_row = (0, 0);
            return;
        }
        let (last, count) = self.stalls_in_row;
        self.stalls_in_row = if last == size { (size, count + 1) } else { (size, 1) };
        if self.stalls_in_row.1 >= STALLS {
            self.window = size.max(WINDOW_MIN);
            self.stalls_in_row = (0, 0);
        }
    }

    /// When the next commit is due; `None` while there is nothing to commit.
    pub fn next_deadline(&self) -> Option<ProcTime> {
        let first = self.first_change?;
        if let Some(retry_at) = self.retry_at {
            return Some(retry_at);
        }
        if self.urgent {
            return Some(first);
        }
        Some(self.due(first).max(self.not_before))
    }

    /// When the brokers want it.
    fn due(&self, first: ProcTime) -> ProcTime {
        if self.messages + self.client_messages >= COMMIT_MESSAGES_MAX {
            return first;
        }
        let by_interval = (first + self.interval).min(self.clients_at.unwrap_or(first + self.interval));
        if self.messages < self.window {
            return by_interval;
        }
        let took = self.last_message.since(self.first_message);
        if self.messages == self.window && self.full_in_row >= STALLS_TO_KNOW && took <= PROMPT {
            return self.last_message;
        }
        let gaps = took.as_millis() * QUIET_GAPS / (self.messages as u64 - 1).max(1);
        by_interval.min(self.last_message + QUIET.max(Span::from_millis(gaps)))
    }

    /// True when a commit is due at `now`.
    pub fn is_due(&self, now: ProcTime) -> bool {
        self.next_deadline().is_some_and(|at| at <= now)
    }

    /// A commit succeeded.
    pub fn handle_committed(&mut self, now: ProcTime) {
        // Long silence before the interval ran out: perhaps the broker was waiting.
        let silence = now.since(self.last_message).as_millis();
        if self.messages > 0 && self.messages < self.window && silence * 2 >= self.interval.as_millis() {
            self.stall = Some((self.messages, now));
        }
        if self.messages == self.window {
            self.full = Some(now);
        } else {
            self.full_in_row = 0;
        }
        self.window = self.window.max(self.messages.min(COMMIT_MESSAGES_MAX));
        self.first_change = None;
        self.messages = 0;
        self.client_messages = 0;
        self.clients_at = None;
        self.urgent = false;
        self.retry_at = None;
    }

    /// A commit failed: everything waits, and is tried again after `pause`.
    pub fn handle_failed(&mut self, now: ProcTime, pause: Span) {
        self.retry_at = Some(now + pause);
    }

    /// The next commit may wait so long, for the flash's sake: acknowledgements wait with
    /// it, and a broker whose window is full sends no more. Only what is urgent does not wait.
    pub fn hold_back(&mut self, until: ProcTime) {
        self.not_before = until;
    }

    /// The learned window.
    pub fn window(&self) -> usize {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> ProcTime {
        ProcTime::from_millis(millis)
    }

    fn policy() -> CommitPolicy {
        CommitPolicy::new(Span::from_secs(1), Span::from_millis(50))
    }

    fn messages(policy: &mut CommitPolicy, count: usize, now: u64) {
        for _ in 0..count {
            policy.handle_message(at(now));
        }
    }

    #[test]
    fn a_slow_trickle_is_committed_once_per_interval() {
        let mut policy = policy();
        let mut commits = 0;
        for tick in 0..100_u64 {
            let now = at(tick * 100);
            if policy.is_due(now) {
                policy.handle_committed(now);
                commits += 1;
            }
            policy.handle_message(now);
        }
        assert!(commits <= 10, "{commits} commits in 10 s at 10 messages a second");
    }

    #[test]
    fn a_full_window_is_committed_after_five_silent_milliseconds() {
        let mut policy = policy();
        messages(&mut policy, 20, 100);
        assert_eq!(policy.next_deadline(), Some(at(105)));
        assert!(!policy.is_due(at(104)));
        assert!(policy.is_due(at(105)));
        policy.handle_message(at(104));
        assert_eq!(policy.next_deadline(), Some(at(109)), "still arriving: wait for more");
    }

    #[test]
    fn the_window_grows_with_bursts_and_shrinks_after_stalls() {
        let mut policy = policy();
        messages(&mut policy, 100, 0);
        policy.handle_committed(at(10));
        assert_eq!(policy.window(), 100);

        // Now a broker with a window of 8 is behind us.
        let mut now = 1_000;
        for _ in 0..4 {
            messages(&mut policy, 8, now);
            now = policy.next_deadline().expect("pending").as_millis();
            policy.handle_committed(at(now));
            now += 2;
        }
        assert_eq!(policy.window(), 8);
        messages(&mut policy, 8, now);
        assert_eq!(policy.next_deadline(), Some(at(now + 5)), "no stall any more");
    }

    #[test]
    fn a_window_that_is_known_exactly_is_committed_at_once() {
        let mut policy = policy();
        let mut now = 0;
        // A broker with a backlog: 20 come the moment after 20 are acknowledged.
        for round in 0..6 {
            messages(&mut policy, 20, now);
            let due = policy.next_deadline().expect("pending").as_millis();
            assert_eq!(due - now, if round < 3 { 5 } else { 0 }, "round {round}");
            policy.handle_committed(at(due));
            now = due + 1;
        }
        // It sends one more: it is not what it was taken for.
        messages(&mut policy, 21, now);
        assert_eq!(policy.next_deadline(), Some(at(now + 5)));
        policy.handle_committed(at(now + 5));
        assert_eq!(policy.window(), 21);
        messages(&mut policy, 21, now + 6);
        assert_eq!(policy.next_deadline(), Some(at(now + 11)), "known no more");
    }

    #[test]
    fn a_steady_flow_is_committed_once_per_interval_though_it_has_gaps() {
        for gap in [2_u64, 6, 10, 20, 40] {
            let (mut policy, mut commits) = (policy(), 0);
            for now in 0..10_000 {
                if now % gap == 0 {
                    policy.handle_message(at(now));
                }
                if policy.is_due(at(now)) {
                    policy.handle_committed(at(now));
                    commits += 1;
                }
            }
            assert!(commits <= 10, "{commits} commits in 10 s of a message each {gap} ms");
        }
    }

    #[test]
    fn clients_are_answered_within_their_time_and_teach_nothing() {
        let mut policy = policy();
        policy.handle_client_message(at(100));
        assert_eq!(policy.next_deadline(), Some(at(150)));
        policy.handle_client_message(at(149));
        assert_eq!(policy.next_deadline(), Some(at(150)), "from the first one that waits");
        policy.handle_committed(at(150));
        assert_eq!((policy.next_deadline(), policy.window()), (None, WINDOW_AT_START));
        // Beside a broker, whichever is sooner.
        messages(&mut policy, 20, 200);
        policy.handle_client_waiting(at(201));
        assert_eq!(policy.next_deadline(), Some(at(205)));
        policy.handle_committed(at(205));
        (0..COMMIT_MESSAGES_MAX).for_each(|_| policy.handle_client_message(at(300)));
        assert_eq!(policy.next_deadline(), Some(at(300)), "all that one commit may hold");
    }

    #[test]
    fn a_flow_that_happens_to_fill_the_window_is_not_taken_for_a_backlog() {
        let mut policy = policy();
        for round in 0..10 {
            let now = round * 1_000;
            messages(&mut policy, 20, now);
            assert_eq!(policy.next_deadline(), Some(at(now + 5)), "the next ones come when they come");
            policy.handle_committed(at(now + 5));
        }
    }

    #[test]
    fn what_is_held_back_waits_with_a_full_window_too_and_what_is_urgent_does_not() {
        let mut policy = policy();
        policy.hold_back(at(4_000));
        assert_eq!(policy.next_deadline(), None);
        messages(&mut policy, 20, 100);
        assert_eq!(policy.next_deadline(), Some(at(4_000)), "a full window");
        messages(&mut policy, COMMIT_MESSAGES_MAX, 101);
        assert_eq!(policy.next_deadline(), Some(at(4_000)), "all that one commit may hold");
        policy.handle_urgent(at(200));
        assert_eq!(policy.next_deadline(), Some(at(100)));
        policy.handle_committed(at(4_000));
        messages(&mut policy, 1, 5_000);
        assert_eq!(policy.next_deadline(), Some(at(6_000)), "the time is over");
    }

    #[test]
    fn nothing_to_commit_means_no_deadline_and_a_failure_is_retried_later() {
        let mut policy = policy();
        assert_eq!(policy.next_deadline(), None);
        policy.handle_change(at(5));
        policy.handle_failed(at(1_005), Span::from_secs(2));
        assert_eq!(policy.next_deadline(), Some(at(3_005)));
        policy.handle_committed(at(3_005));
        assert_eq!(policy.next_deadline(), None);
    }
}
