//! What is on its way to one client at `QoS` 1 and 2: in order, a window of it sent, the rest
//! waiting.
//!
//! ```text
//!          unsent_from
//! [ sent, released | waiting, waiting, held, held ]     held: until the coming commit
//!   └── in flight ─┘
//! ```
//!
//! A packet id is its entry's number modulo 65,535, so it is known, and durable, before
//! anything is sent: after a crash the same message goes out under the same id, and a client
//! at `QoS` 2 that has it already does not take it twice. What was sent need not be stored:
//! after a crash, whatever is there may have been sent, and is marked so.

use std::collections::VecDeque;

use super::messages::MessageNo;
use super::packet::Qos;

/// Packet ids: 1 to this.
const PACKETS: u64 = 65_535;

/// Entries of one queue at most, whatever is configured: each has a packet id.
pub(super) const ENTRIES_MAX: usize = 60_000;

/// Entries are numbered below this. Nobody comes so far; bytes that say so are damaged.
const SEQ_MAX: u64 = u64::MAX / 2;

/// Bytes that an entry takes, and that it takes more if it has subscription identifiers.
pub(super) const ENTRY_BYTES: usize = 64;
const IDENTIFIERS_BYTES: usize = 32;

/// A message on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Counts within the session, with gaps.
    pub(super) seq: u64,
    pub(super) message: MessageNo,
    /// 1 or 2.
    pub(super) qos: Qos,
    pub(super) retain: bool,
    /// `QoS` 2: the client has it; PUBREL is due.
    pub(super) released: bool,
    /// Its cause, and itself, is not durable yet.
    pub(super) held: bool,
    /// That it is counted with: itself, and its message.
    pub(super) bytes: u32,
    /// Subscription identifiers.
    pub(super) subscriptions: Vec<u32>,
}

impl Entry {
    /// Bytes that it takes itself.
    pub(super) fn own_bytes(&self) -> usize {
        entry_bytes(&self.subscriptions)
    }

    /// It is counted with itself and a message of `size`.
    pub(super) fn set_bytes(&mut self, size: usize) {
        self.bytes = u32::try_from(self.own_bytes() + size).unwrap_or(u32::MAX);
    }
}

/// Bytes of an entry with these subscription identifiers.
pub(super) fn entry_bytes(subscriptions: &[u32]) -> usize {
    let identifiers = if subscriptions.is_empty() { 0 } else { IDENTIFIERS_BYTES + 4 * subscriptions.len() };
    ENTRY_BYTES + identifiers
}

/// The queue of one session.
#[derive(Clone, Default, Debug)]
pub(super) struct Outgoing {
    entries: VecDeque<Entry>,
    next_seq: u64,
    /// Entries below were sent on this connection.
    unsent_from: u64,
    /// Entries below may have been sent on an earlier one.
    dup_until: u64,
    in_flight: usize,
    bytes: usize,
}

/// The packet id of an entry.
pub(super) fn packet_of(seq: u64) -> u16 {
    u16::try_from(seq % PACKETS + 1).expect("at most 65,535")
}

impl Outgoing {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that its entries are counted with.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Entries that are not in flight.
    pub(super) fn waiting(&self) -> usize {
        self.entries.len() - self.in_flight
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.entries.iter()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    /// Appends; `entry.seq` is set here.
    pub(super) fn push(&mut self, mut entry: Entry) {
        // An entry that is stuck for 65,535 others keeps its packet id.
        while self.entries.front().is_some_and(|front| self.next_seq - front.seq >= PACKETS)
            && self.is_packet_used(self.next_seq)
        {
            self.next_seq += 1;
        }
        entry.seq = self.next_seq;
        // Nothing overtakes.
        entry.held |= self.entries.back().is_some_and(|last| last.held);
        self.next_seq += 1;
        self.bytes += entry.bytes as usize;
        self.entries.push_back(entry);
    }

    /// Appends what was stored. False: it does not follow what is there.
    pub(super) fn push_stored(&mut self, entry: Entry) -> bool {
        if self.entries.back().is_some_and(|last| last.seq >= entry.seq) || entry.seq >= SEQ_MAX {
            return false;
        }
        self.next_seq = self.next_seq.max(entry.seq + 1);
        self.in_flight += usize::from(entry.released);
        self.bytes += entry.bytes as usize;
        self.entries.push_back(entry);
        true
    }

    fn is_packet_used(&self, seq: u64) -> bool {
        self.entries.iter().any(|entry| packet_of(entry.seq) == packet_of(seq))
    }

    fn position_from(&self, seq: u64) -> usize {
        self.entries.partition_point(|entry| entry.seq < seq)
    }

    /// The place of an entry.
    pub(super) fn position(&self, seq: u64) -> Option<usize> {
        let at = self.position_from(seq);
        self.entries.get(at).filter(|entry| entry.seq == seq).map(|_| at)
    }

    /// What is sent next; `None` also while it is held.
    pub(super) fn next(&self) -> Option<usize> {
        let from = self.position_from(self.unsent_from);
        let at = from + self.entries.range(from..).position(|entry| !entry.released)?;
        (!self.entries[at].held).then_some(at)
    }

    /// The entry at `at` is being sent.
    pub(super) fn mark_sent(&mut self, at: usize) {
        self.unsent_from = self.entries[at].seq + 1;
        self.in_flight += 1;
    }

    /// The entry that the client means, when it is in flight.
    pub(super) fn find(&self, packet: u16, qos: Qos) -> Option<usize> {
        self.entries.iter().position(|entry| {
            packet_of(entry.seq) == packet && entry.qos == qos && (entry.released || entry.seq < self.unsent_from)
        })
    }

    /// The client has it.
    pub(super) fn release(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        // Stored ones are not sent on this connection; released, they are in flight.
        if !entry.released && entry.seq >= self.unsent_from {
            self.in_flight += 1;
        }
        entry.released = true;
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Entry> {
        let entry = self.entries.remove(at)?;
        self.bytes -= entry.bytes as usize;
        self.in_flight -= usize::from(entry.released || entry.seq < self.unsent_from);
        Some(entry)
    }

    /// What is given up when the queue is full: the oldest that the client was never sent;
    /// without such, the oldest that it was not sent on this connection.
    pub(super) fn oldest_unsent(&self) -> Option<usize> {
        let never = self.position_from(self.unsent_from.max(self.dup_until));
        if never < self.entries.len() {
            return Some(never);
        }
        let from = self.position_from(self.unsent_from);
        self.entries.range(from..).position(|entry| !entry.released).map(|at| from + at)
    }

    /// The connection is over: what was sent is sent again on the next one.
    pub(super) fn handle_gone(&mut self) {
        self.dup_until = self.dup_until.max(self.unsent_from);
        self.unsent_from = 0;
        self.in_flight = self.entries.iter().filter(|entry| entry.released).count();
    }

    /// The agent was ended: nobody knows what the client was sent since the last commit, even
    /// if it was away then. True when that is new.
    pub(super) fn handle_lost(&mut self) -> bool {
        let until = self.entries.back().map_or(0, |last| last.seq + 1);
        let is_new = until > self.dup_until;
        self.dup_until = self.dup_until.max(until);
        is_new
    }

    /// Entries below may have been sent, says what was stored. What comes next is above, even
    /// if none of them is left. False: there are no such entries.
    pub(super) fn set_dup_until(&mut self, seq: u64) -> bool {
        self.dup_until = seq.min(SEQ_MAX);
        self.next_seq = self.next_seq.max(self.dup_until);
        seq <= SEQ_MAX
    }

    pub(super) fn dup_until(&self) -> u64 {
        self.dup_until
    }

    /// What was held may be sent.
    pub(super) fn mark_committed(&mut self) {
        for entry in self.entries.iter_mut().rev().take_while(|entry| entry.held) {
            entry.held = false;
        }
    }

    /// True when the newest entry is held.
    pub(super) fn is_last_held(&self) -> bool {
        self.entries.back().is_some_and(|last| last.held)
    }

    /// True when the entry may be known to the client.
    pub(super) fn is_dup(&self, entry: &Entry) -> bool {
        entry.seq < self.dup_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            seq: 0,
            message: MessageNo(0),
            qos: Qos::AtLeastOnce,
            retain: false,
            released: false,
            held: false,
            bytes: 0,
            subscriptions: Vec::new(),
        }
    }

    #[test]
    fn a_packet_id_in_use_is_not_given_again() {
        let mut queue = Outgoing::default();
        queue.push(entry());
        queue.mark_sent(0);
        for _ in 0..2 * PACKETS {
            queue.push(entry());
            let next = queue.next().expect("one waits");
            queue.mark_sent(next);
            let packet = packet_of(queue.get(next).expect("it is there").seq);
            assert_ne!(packet, 1, "the first one is still unacknowledged");
            let at = queue.find(packet, Qos::AtLeastOnce).expect("in flight");
            queue.remove(at);
        }
        assert_eq!((queue.len(), queue.in_flight()), (1, 1));
    }

    #[test]
    fn what_was_sent_is_sent_again_and_what_was_not_is_given_up_first() {
        let mut queue = Outgoing::default();
        for _ in 0..3 {
            queue.push(entry());
        }
        queue.mark_sent(0);
        assert_eq!(queue.oldest_unsent(), Some(1));
        queue.handle_gone();
        assert_eq!(queue.in_flight(), 0);
        assert_eq!(queue.next(), Some(0));
        assert!(queue.is_dup(&queue.entries[0]) && !queue.is_dup(&queue.entries[1]));
        assert_eq!(queue.oldest_unsent(), Some(1));
        assert!(queue.handle_lost() && !queue.handle_lost());
        assert!(queue.iter().all(|entry| queue.is_dup(entry)), "who knows");
        queue.push(entry());
        assert_eq!((queue.is_dup(&queue.entries[3]), queue.oldest_unsent()), (false, Some(3)));
        queue.remove(3);
        queue.release(0);
        assert_eq!(queue.oldest_unsent(), Some(1), "one has to go");
    }

    #[test]
    fn what_comes_after_a_restart_is_not_taken_for_what_was_there_before() {
        let mut queue = Outgoing::default();
        assert!(queue.set_dup_until(50));
        queue.push(entry());
        assert!(!queue.is_dup(&queue.entries[0]));
        assert!(!queue.push_stored(Entry { seq: SEQ_MAX, ..entry() }) && !queue.set_dup_until(u64::MAX));
        queue.push(entry());
    }
}
