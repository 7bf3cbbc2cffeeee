//! Keeps one MQTT connection alive, and notices when the peer is not. Pure.
//!
//! A PINGREQ goes out when nothing was sent or nothing was received for half
//! the keep-alive time, so a pulled cable is noticed although we keep sending.
//! Anything received counts as an answer. A peer that answers nothing within
//! 10 s of a ping is dead. While we do not read (the inbox is full), answers
//! cannot be seen: pings go on for the broker's sake, and nobody is judged.

use crate::model::time::{ProcTime, Span};

/// How long an answer may take. Also what a stalled write gets.
pub const ANSWER_MAX: Span = Span::from_secs(10);

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Nothing until [`KeepAlive::next_deadline`].
    Nothing,
    /// Send a PINGREQ.
    Ping,
    /// Give the connection up.
    Dead,
}

/// The timers of one connection.
#[derive(Clone, Debug)]
pub struct KeepAlive {
    half: Span,
    sent: ProcTime,
    received: ProcTime,
    asked: Option<ProcTime>,
}

impl KeepAlive {
    /// Starts at the CONNACK. `keep_alive` is what CONNECT announced.
    pub fn new(now: ProcTime, keep_alive: Span) -> KeepAlive {
        let half = Span::from_millis((keep_alive.as_millis() / 2).max(1));
        KeepAlive { half, sent: now, received: now, asked: None }
    }

    /// Any packet was sent.
    pub fn handle_sent(&mut self, now: ProcTime) {
        self.sent = now;
    }

    /// Any packet was received.
    pub fn handle_received(&mut self, now: ProcTime) {
        self.received = now;
        self.asked = None;
    }

    /// What to do now. `reading` is false while we are not looking at the socket.
    pub fn poll(&mut self, now: ProcTime, reading: bool) -> Due {
        if !reading {
            self.handle_received(now);
        }
        if let Some(asked) = self.asked
            && now.since(asked) >= ANSWER_MAX
        {
            return Due::Dead;
        }
        let silent = now.since(self.sent) >= self.half;
        let unheard = self.asked.is_none() && now.since(self.received) >= self.half;
        if !silent && !unheard {
            return Due::Nothing;
        }
        self.sent = now;
        self.asked.get_or_insert(now);
        Due::Ping
    }

    /// When [`KeepAlive::poll`] next has something to say; calling early is harmless.
    pub fn next_deadline(&self) -> ProcTime {
        let ping = self.sent + self.half;
        match self.asked {
            Some(asked) => ping.min(asked + ANSWER_MAX),
            None => ping.min(self.received + self.half),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> ProcTime {
        ProcTime::from_millis(millis)
    }

    #[test]
    fn a_quiet_connection_is_pinged_at_half_time_and_lives_while_it_answers() {
        let mut keep = KeepAlive::new(at(0), Span::from_secs(60));
        assert_eq!(keep.poll(at(29_999), true), Due::Nothing);
        assert_eq!(keep.next_deadline(), at(30_000));
        assert_eq!(keep.poll(at(30_000), true), Due::Ping);
        assert_eq!(keep.poll(at(30_001), true), Due::Nothing, "asked once");
        keep.handle_received(at(30_100));
        assert_eq!(keep.poll(at(59_999), true), Due::Nothing);
        assert_eq!(keep.poll(at(60_000), true), Due::Ping);
    }

    #[test]
    fn a_peer_that_answers_nothing_is_dead_although_we_keep_sending() {
        let mut keep = KeepAlive::new(at(0), Span::from_secs(20));
        for second in 1..10 {
            keep.handle_sent(at(second * 1_000));
            assert_eq!(keep.poll(at(second * 1_000), true), Due::Nothing);
        }
        assert_eq!(keep.poll(at(10_000), true), Due::Ping);
        keep.handle_sent(at(19_000));
        assert_eq!(keep.poll(at(19_999), true), Due::Nothing);
        assert_eq!(keep.next_deadline(), at(20_000));
        assert_eq!(keep.poll(at(20_000), true), Due::Dead);
    }

    #[test]
    fn while_we_do_not_read_the_broker_is_pinged_and_not_judged() {
        let mut keep = KeepAlive::new(at(0), Span::from_secs(10));
        for step in 1..20 {
            assert_eq!(keep.poll(at(step * 5_000), false), Due::Ping, "step {step}");
        }
        keep.handle_received(at(96_000));
        assert_eq!(keep.poll(at(96_000), true), Due::Nothing);
    }
}
