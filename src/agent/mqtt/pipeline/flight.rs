//! What one connection has published and the broker has not answered to the end. Pure.
//!
//! A ring in the order of sending: the packet id of a message is its number modulo 65,535, so an
//! answer finds it at once, and what a lost connection left is repeated in order, under the same
//! ids. The oldest without an answer holds back ids that would meet its own.

use std::collections::VecDeque;
use std::time::Instant;

use crate::agent::mqtt::packet::{Outgoing, Properties, ToBroker};
use crate::model::time::ProcTime;

use super::{Assurance, Parcel};

/// Packet ids: 1 to 65,535.
const IDS: u64 = u16::MAX as u64;

/// The messages in flight.
#[derive(Debug)]
pub(super) struct Flight {
    /// From the oldest without an answer on; `None`: answered.
    slots: VecDeque<Option<Sent>>,
    /// The number of the first slot.
    first: u64,
    /// Slots without an answer.
    len: usize,
    room: usize,
    exactly_once: bool,
}

#[derive(Debug)]
struct Sent {
    parcel: Parcel,
    /// For the first time.
    first: Instant,
    /// For the last time.
    last: ProcTime,
    /// The broker has it, and waits for our PUBREL.
    received: bool,
}

impl Flight {
    pub(super) fn new(assurance: Assurance, window: u16) -> Flight {
        let exactly_once = assurance == Assurance::ExactlyOnce;
        Flight { slots: VecDeque::new(), first: 0, len: 0, room: usize::from(window.max(1)), exactly_once }
    }

    /// So many from now on; more may be in flight until they are answered.
    pub(super) fn allow(&mut self, window: u16) {
        self.room = usize::from(window.max(1));
    }

    pub(super) fn has_room(&self) -> bool {
        self.len < self.room && self.slots.len() < usize::from(u16::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the oldest without an answer was sent last.
    pub(super) fn oldest(&self) -> Option<ProcTime> {
        self.slots.front().and_then(Option::as_ref).map(|sent| sent.last)
    }

    /// One more, as a packet. Only when there is room.
    pub(super) fn insert(&mut self, parcel: Parcel, now: ProcTime, moment: Instant) -> ToBroker {
        assert!(self.has_room(), "the caller looks first");
        let id = id(self.first + self.slots.len() as u64);
        let packet = self.publish(&parcel, id, false);
        self.slots.push_back(Some(Sent { parcel, first: moment, last: now, received: false }));
        self.len += 1;
        packet
    }

    /// The broker has this one (PUBREC).
    pub(super) fn handle_received(&mut self, packet: u16) {
        if let Some(sent) = self.slot(packet).and_then(|slot| self.slots[slot].as_mut()) {
            sent.received = true;
        }
    }

    /// The last answer to this one: when it was sent first. `None`: it is not in flight.
    pub(super) fn handle_done(&mut self, packet: u16) -> Option<Instant> {
        let slot = self.slot(packet)?;
        let sent = self.slots[slot].take()?;
        self.len -= 1;
        while self.slots.front().is_some_and(Option::is_none) {
            self.slots.pop_front();
            self.first += 1;
        }
        Some(sent.first)
    }

    /// What a new connection begins with. `resumed`: the broker knows what it had.
    pub(super) fn repeat(&mut self, resumed: bool, now: ProcTime) -> Vec<ToBroker> {
        let mut packets = Vec::with_capacity(self.len);
        for (slot, number) in (self.first..).enumerate().take(self.slots.len()) {
            let Some(sent) = &mut self.slots[slot] else { continue };
            sent.last = now;
            // Without the session, nobody waits for a PUBREL.
            sent.received &= resumed;
            packets.push(match &self.slots[slot] {
                Some(sent) if !sent.received => self.publish(&sent.parcel, id(number), resumed),
                Some(_) | None => ToBroker::PubRel(id(number)),
            });
        }
        packets
    }

    fn publish(&self, parcel: &Parcel, id: u16, dup: bool) -> ToBroker {
        let Parcel { topic, payload } = parcel.clone();
        let (packet, properties) = (Some(id), Properties::default());
        let exactly_once = self.exactly_once;
        ToBroker::Publish(Outgoing { topic, payload, retain: false, packet, exactly_once, dup, properties })
    }

    /// The slot of this packet id.
    fn slot(&self, packet: u16) -> Option<usize> {
        let number = u64::from(packet).checked_sub(1)?;
        let slot = usize::try_from((number + IDS - self.first % IDS) % IDS).ok()?;
        (slot < self.slots.len()).then_some(slot)
    }
}

fn id(number: u64) -> u16 {
    u16::try_from(number % IDS + 1).expect("at most 65,535")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::agent::clock::instant;

    fn parcel(text: &'static str) -> Parcel {
        Parcel { topic: "t".into(), payload: Bytes::from_static(text.as_bytes()) }
    }

    fn flight(assurance: Assurance, texts: &[&'static str]) -> Flight {
        let mut flight = Flight::new(assurance, 10);
        for text in texts {
            flight.insert(parcel(text), ProcTime::from_millis(5), instant());
        }
        flight
    }

    /// As `id text`, with `+` for a repeat; a PUBREL as its id alone.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a test names what it expects; all else fails it")]
    fn shown(packets: Vec<ToBroker>) -> Vec<String> {
        let show = |packet| match packet {
            ToBroker::Publish(Outgoing { packet: Some(id), payload, dup, .. }) => {
                format!("{id} {}{}", String::from_utf8_lossy(&payload), if dup { "+" } else { "" })
            }
            ToBroker::PubRel(id) => id.to_string(),
            other => panic!("{other:?}"),
        };
        packets.into_iter().map(show).collect()
    }

    #[test]
    fn what_a_lost_connection_left_is_repeated_in_order_and_says_so_in_its_session_alone() {
        let mut flight = flight(Assurance::AtLeastOnce, &["a", "b", "c"]);
        assert!(flight.handle_done(2).is_some());
        assert!(flight.handle_done(2).is_none(), "once");
        let now = ProcTime::from_millis(9);
        assert_eq!(shown(flight.repeat(true, now)), ["1 a+", "3 c+"]);
        assert_eq!(shown(flight.repeat(false, now)), ["1 a", "3 c"]);
        assert_eq!(flight.oldest(), Some(now));
        assert!(flight.handle_done(1).is_some() && flight.handle_done(3).is_some());
        assert!(flight.is_empty() && flight.oldest().is_none());
    }

    #[test]
    fn of_what_the_broker_has_only_the_release_is_repeated_unless_it_forgot() {
        let now = ProcTime::from_millis(9);
        let begun = || {
            let mut flight = flight(Assurance::ExactlyOnce, &["a", "b"]);
            flight.handle_received(1);
            flight
        };
        assert_eq!(shown(begun().repeat(true, now)), ["1", "2 b+"]);
        assert_eq!(shown(begun().repeat(false, now)), ["1 a", "2 b"]);
    }

    #[test]
    fn ids_go_round_and_never_meet_one_in_flight() {
        let mut flight = flight(Assurance::AtLeastOnce, &["oldest"]);
        let mut ids = 1_u64;
        while flight.has_room() {
            flight.insert(parcel("x"), ProcTime::from_millis(5), instant());
            ids += 1;
            let last = u16::try_from(ids).expect("stops at 65,535");
            assert!(flight.handle_done(last).is_some());
        }
        assert_eq!(ids, u64::from(u16::MAX));
        assert!(flight.handle_done(1).is_some());
        assert!(flight.is_empty() && flight.has_room());
        let next = vec![flight.insert(parcel("y"), ProcTime::from_millis(6), instant())];
        assert_eq!(shown(next), ["1 y"]);
        assert!(flight.handle_done(0).is_none() && flight.handle_done(7).is_none());
        assert!(flight.handle_done(1).is_some());
    }

    #[test]
    fn a_window_bounds_what_is_in_flight() {
        let mut flight = flight(Assurance::AtLeastOnce, &["a", "b"]);
        flight.allow(2);
        assert!(!flight.has_room());
        flight.handle_done(2);
        assert!(flight.has_room());
    }
}
