//! Whether silence of a device means anything. Pure.
//!
//! Idle timers may run only while the input is connected, drained and not held
//! back by us. Whether the broker still holds a backlog cannot be asked, only
//! seen: while it has any, the next message follows at once, unless its window
//! of unacknowledged messages is full, which ends the moment we acknowledge. So
//! the backlog is gone when
//!
//! * nothing is unacknowledged and nothing has come for 250 ms, or
//! * messages came after a pause of 5 ms in which we acknowledged nothing, three
//!   times (one could be a hiccup of the broker in the middle of a backlog), or
//! * a minute passed with acknowledgements flowing and the inbox never crowded:
//!   a flow too dense for pauses, which must not switch idleness off for ever.
//!
//! It needs proof anew after a disconnect, a crowded inbox (about to be held
//! back), or acknowledgements that are withheld for long (storage in trouble:
//! the broker's window is full because of us).

use crate::model::time::{ProcTime, Span};

/// With nothing unacknowledged, silence this long means: nothing is waiting.
const QUIET: Span = Span::from_millis(250);
/// A pause that a broker with a backlog does not make.
const PAUSE: Span = Span::from_millis(5);
/// Pauses wanted.
const PAUSES: u32 = 3;
/// A flow without pauses is taken as drained after this long without trouble.
const STEADY: Span = Span::from_secs(60);

/// What is known about the flow of messages.
#[derive(Clone, Debug)]
pub struct Liveness {
    held_after: Span,
    subscribed: bool,
    live: bool,
    /// What the last [`Liveness::poll`] that changed anything said.
    told: bool,
    unacked: u64,
    pauses: u32,
    /// Last time proof had to start over.
    doubted_at: ProcTime,
    /// Since when the engine thread waits on an empty inbox, acknowledging nothing.
    waiting_since: Option<ProcTime>,
    /// Last acknowledgement, or the first message that waits for one.
    progress_at: ProcTime,
}

impl Liveness {
    /// `commit_interval`: acknowledgements come at least that often while all is well.
    pub fn new(commit_interval: Span) -> Liveness {
        Liveness {
            held_after: commit_interval + commit_interval + Span::from_secs(5),
            subscribed: false,
            live: false,
            told: false,
            unacked: 0,
            pauses: 0,
            doubted_at: ProcTime::default(),
            waiting_since: None,
            progress_at: ProcTime::default(),
        }
    }

    /// The broker has granted our subscriptions.
    pub fn handle_subscribed(&mut self, now: ProcTime) {
        self.subscribed = true;
        self.doubt(now);
    }

    /// There is no connection.
    pub fn handle_down(&mut self, now: ProcTime) {
        self.subscribed = false;
        self.unacked = 0;
        self.doubt(now);
    }

    /// The inbox is crowded.
    pub fn handle_crowded(&mut self, now: ProcTime) {
        self.doubt(now);
    }

    /// The inbox is empty and the engine thread is about to wait.
    pub fn handle_wait(&mut self, now: ProcTime) {
        self.waiting_since.get_or_insert(now);
    }

    /// Messages arrived, `ackable` of them at `QoS` 1.
    pub fn handle_arrivals(&mut self, now: ProcTime, ackable: u64) {
        if self.waiting_since.take().is_some_and(|since| now.since(since) >= PAUSE) {
            self.pauses += 1;
        }
        if self.unacked == 0 {
            self.progress_at = now;
        }
        self.unacked += ackable;
    }

    /// Clients of the listener sent messages, `ackable` of them at `QoS` 1 or 2. Their pauses say
    /// nothing about what a broker holds.
    pub fn handle_client_arrivals(&mut self, now: ProcTime, ackable: u64) {
        if self.unacked == 0 {
            self.progress_at = now;
        }
        self.unacked += ackable;
    }

    /// Acknowledgements went out.
    pub fn handle_acks(&mut self, now: ProcTime, acks: u64) {
        self.unacked = self.unacked.saturating_sub(acks);
        self.progress_at = now;
        self.waiting_since = None;
    }

    /// The new value, when it has changed.
    pub fn poll(&mut self, now: ProcTime) -> Option<bool> {
        if self.unacked > 0 && now.since(self.progress_at) >= self.held_after {
            self.doubt(now);
        }
        let quiet = self.unacked == 0 && self.waiting_since.is_some_and(|since| now.since(since) >= QUIET);
        let steady = now.since(self.doubted_at) >= STEADY;
        self.live = self.subscribed && (self.live || quiet || steady || self.pauses >= PAUSES);
        let changed = self.live != self.told;
        self.told = self.live;
        changed.then_some(self.live)
    }

    /// When [`Liveness::poll`] may change its mind without an event.
    pub fn next_deadline(&self) -> Option<ProcTime> {
        if !self.subscribed {
            return None;
        }
        if self.live {
            return (self.unacked > 0).then(|| self.progress_at + self.held_after);
        }
        let steady = self.doubted_at + STEADY;
        let quiet = self.waiting_since.filter(|_| self.unacked == 0).map(|since| since + QUIET);
        Some(quiet.map_or(steady, |quiet| quiet.min(steady)))
    }

    fn doubt(&mut self, now: ProcTime) {
        self.live = false;
        self.pauses = 0;
        self.doubted_at = now;
        self.waiting_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> ProcTime {
        ProcTime::from_millis(millis)
    }

    fn subscribed() -> Liveness {
        let mut liveness = Liveness::new(Span::from_secs(1));
        liveness.handle_subscribed(at(0));
        liveness
    }

    /// Messages arrive at `now`, after the engine thread waited for them since `waiting`.
    fn arrive(liveness: &mut Liveness, waiting: u64, now: u64, messages: u64) {
        liveness.handle_wait(at(waiting));
        liveness.handle_arrivals(at(now), messages);
    }

    #[test]
    fn a_quiet_input_is_live_once_nothing_came_for_a_quarter_second() {
        let mut liveness = subscribed();
        liveness.handle_wait(at(10));
        assert_eq!(liveness.poll(at(259)), None);
        assert_eq!(liveness.next_deadline(), Some(at(260)));
        assert_eq!(liveness.poll(at(260)), Some(true));
        assert_eq!(liveness.poll(at(300)), None, "told once");
        liveness.handle_down(at(400));
        assert_eq!(liveness.poll(at(400)), Some(false));
        assert_eq!(liveness.next_deadline(), None);
    }

    #[test]
    fn silence_with_a_full_window_proves_nothing() {
        let mut liveness = subscribed();
        arrive(&mut liveness, 0, 1, 20);
        liveness.handle_wait(at(1));
        assert_eq!(liveness.poll(at(1_000)), None, "the broker waits for us");
        // A backlog: each round comes at once after the acknowledgements.
        for round in 1..50 {
            liveness.handle_acks(at(round * 1_000), 20);
            arrive(&mut liveness, round * 1_000, round * 1_000 + 1, 20);
            assert_eq!(liveness.poll(at(round * 1_000 + 1)), None, "round {round}");
        }
    }

    #[test]
    fn messages_after_pauses_without_an_acknowledgement_prove_that_nothing_was_waiting() {
        let mut liveness = subscribed();
        arrive(&mut liveness, 0, 1, 5);
        for pause in 1..=3 {
            assert_eq!(liveness.poll(at(pause * 100)), None);
            arrive(&mut liveness, pause * 100, pause * 100 + 5, 1);
        }
        assert_eq!(liveness.poll(at(400)), Some(true));
    }

    #[test]
    fn a_dense_flow_is_live_after_a_minute_without_trouble() {
        let mut liveness = subscribed();
        for millis in 1..60_000 {
            arrive(&mut liveness, millis - 1, millis, 3);
            liveness.handle_acks(at(millis), 3);
            assert_eq!(liveness.poll(at(millis)), None);
        }
        assert_eq!(liveness.poll(at(60_000)), Some(true));
        liveness.handle_crowded(at(60_001));
        assert_eq!(liveness.poll(at(60_001)), Some(false));
    }

    #[test]
    fn withheld_acknowledgements_stop_the_idle_timers() {
        let mut liveness = subscribed();
        liveness.handle_wait(at(0));
        assert_eq!(liveness.poll(at(250)), Some(true));
        arrive(&mut liveness, 250, 300, 20);
        assert_eq!(liveness.next_deadline(), Some(at(7_300)));
        assert_eq!(liveness.poll(at(7_299)), None);
        assert_eq!(liveness.poll(at(7_300)), Some(false));
        liveness.handle_acks(at(8_000), 20);
        liveness.handle_wait(at(8_000));
        assert_eq!(liveness.poll(at(8_250)), Some(true));
    }
}
