//! What a connection has published at `QoS` 1 and the broker has not answered, by packet id.

use std::collections::BTreeMap;

use crate::model::time::{ProcTime, Span};

/// Ids go round all 65,535, so a late answer cannot meet a new publish.
#[derive(Debug)]
pub struct InFlight<T> {
    sent: BTreeMap<u16, (ProcTime, T)>,
    last: u16,
    room: usize,
    answer_max: Span,
}

impl<T> InFlight<T> {
    /// `room`: publishes at a time. `answer_max`: how long an answer may take.
    pub fn new(room: usize, answer_max: Span) -> InFlight<T> {
        InFlight { sent: BTreeMap::new(), last: 0, room, answer_max }
    }

    /// Whether one more may be published.
    pub fn has_room(&self) -> bool {
        self.sent.len() < self.room
    }

    /// The packet id for one more. Only when there is room.
    pub fn insert(&mut self, now: ProcTime, sent: T) -> u16 {
        assert!(self.has_room(), "the caller looks first");
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.sent.contains_key(&self.last) {
                self.sent.insert(self.last, (now, sent));
                return self.last;
            }
        }
    }

    /// What was published under this packet id, once.
    pub fn answer(&mut self, packet: u16) -> Option<T> {
        self.sent.remove(&packet).map(|(_, sent)| sent)
    }

    /// Whether it holds one of these.
    pub fn holds(&self, is_one: impl Fn(&T) -> bool) -> bool {
        self.sent.values().any(|(_, sent)| is_one(sent))
    }

    /// When the oldest has waited too long; the end of time when there is none.
    pub fn deadline(&self) -> ProcTime {
        let oldest = self.sent.values().map(|(since, _)| *since).min();
        oldest.map_or(ProcTime::from_millis(u64::MAX), |since| since + self.answer_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_flight() -> InFlight<u64> {
        InFlight::new(4, Span::from_secs(30))
    }

    #[test]
    fn packet_ids_go_round_without_touching_what_is_in_flight() {
        let mut in_flight = in_flight();
        let now = ProcTime::from_millis(5);
        let first = in_flight.insert(now, 0);
        assert_eq!(first, 1);
        for round in 1..=2 * u64::from(u16::MAX) {
            let id = in_flight.insert(now, round);
            assert_ne!(id, 0, "not a packet id");
            assert_ne!(id, first, "still in flight");
            assert_eq!(in_flight.answer(id), Some(round));
        }
        assert_eq!(in_flight.answer(first), Some(0));
        assert_eq!(in_flight.answer(first), None, "answered once");
    }

    #[test]
    fn the_oldest_publish_decides_when_the_peer_is_given_up() {
        let mut in_flight = in_flight();
        assert_eq!(in_flight.deadline(), ProcTime::from_millis(u64::MAX));
        let first = in_flight.insert(ProcTime::from_millis(1_000), 1);
        in_flight.insert(ProcTime::from_millis(3_000), 2);
        assert_eq!(in_flight.deadline(), ProcTime::from_millis(31_000));
        in_flight.answer(first);
        assert_eq!(in_flight.deadline(), ProcTime::from_millis(33_000));
    }

    #[test]
    fn a_broker_may_allow_a_single_one() {
        let mut one = InFlight::new(1, Span::from_secs(30));
        let id = one.insert(ProcTime::from_millis(0), 7);
        assert!(!one.has_room() && one.holds(|sent| *sent == 7));
        one.answer(id);
        assert!(one.has_room() && !one.holds(|_| true));
    }
}
