//! What the broker knows of one client id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::time::{ProcTime, Span};

use super::outgoing::Outgoing;
use super::packet::Will;
use super::subscriptions::Options;

/// Names a session; never used again within a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SessionNo(pub(super) u64);

/// Where its client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    /// Connected.
    Online {
        /// Its connection.
        connection: u32,
        /// Entries that may be in flight.
        window: usize,
    },
    /// It was connected when the state was stored; ends in [`super::Broker::after_restore`].
    Lost,
    /// Away.
    Offline {
        /// When the session ends.
        until: ProcTime,
        /// When its will is due.
        will_at: Option<ProcTime>,
    },
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client_id: Box<str>,
    /// Seconds that it outlives its connection. 0: it lives in memory only.
    pub(super) expiry_secs: u32,
    pub(super) presence: Presence,
    /// Of the connection, or waiting for its delay. Ends with the process.
    pub(super) will: Option<Will>,
    /// Its place in the broker's deadlines.
    pub(super) due: Option<ProcTime>,
    pub(super) subscriptions: BTreeMap<Box<str>, Options>,
    pub(super) outgoing: Outgoing,
    /// Packet ids at `QoS` 2 that the client has not released.
    pub(super) inbound: BTreeSet<u16>,
    /// Packet id and fingerprint of the last messages at `QoS` 1, oldest first; a packet id
    /// may stand there again, and the newest counts.
    pub(super) remembered: VecDeque<(u16, u32)>,
    pub(super) changes: Changes,
}

/// What has changed since the last commit; of sessions that are stored. New entries of the
/// queue are those that are held.
#[derive(Clone, Default, Debug)]
pub(super) struct Changes {
    /// All of it: it is not stored yet.
    pub(super) whole: bool,
    /// Expiry and presence.
    pub(super) link: bool,
    pub(super) subscriptions: BTreeSet<Box<str>>,
    pub(super) inbound: BTreeSet<u16>,
    /// So many of the newest.
    pub(super) remembered: usize,
    /// Entries of the queue.
    pub(super) released: Vec<u64>,
    /// Likewise, that were stored.
    pub(super) removed: Vec<u64>,
}

impl Session {
    pub(super) fn new(client_id: &str) -> Session {
        Session {
            client_id: client_id.into(),
            expiry_secs: 0,
            presence: Presence::Lost,
            will: None,
            due: None,
            subscriptions: BTreeMap::new(),
            outgoing: Outgoing::default(),
            inbound: BTreeSet::new(),
            remembered: VecDeque::new(),
            changes: Changes::default(),
        }
    }

    /// It outlives its connection, and the process.
    pub(super) fn is_durable(&self) -> bool {
        self.expiry_secs > 0
    }

    pub(super) fn expiry(&self) -> Span {
        Span::from_secs(u64::from(self.expiry_secs))
    }

    pub(super) fn connection(&self) -> Option<u32> {
        match self.presence {
            Presence::Online { connection, .. } => Some(connection),
            Presence::Lost | Presence::Offline { .. } => None,
        }
    }

    /// True when this message is the last one that was taken in under its packet id. Looks at
    /// up to `in_flight` entries, so it is for messages that are marked only.
    pub(super) fn is_remembered(&self, packet: u16, fingerprint: u32) -> bool {
        let last = self.remembered.iter().rev().find(|(known, _)| *known == packet);
        last.is_some_and(|(_, known)| *known == fingerprint)
    }

    /// Remembers a message that is taken in under a packet id, and of all of them the newest
    /// `len_max`, at least one. Searches for nothing, and allocates only until it is full.
    pub(super) fn remember(&mut self, packet: u16, fingerprint: u32, len_max: u16) {
        while self.remembered.len() >= usize::from(len_max.max(1)) {
            self.remembered.pop_front();
        }
        self.remembered.push_back((packet, fingerprint));
        self.changes.remembered = (self.changes.remembered + 1).min(self.remembered.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_messages_are_remembered_as_may_be_in_flight() {
        let mut session = Session::new("c");
        for packet in 1..=70 {
            session.remember(packet, 7, 64);
        }
        assert!(!session.is_remembered(6, 7) && session.is_remembered(7, 7));
        session.remember(70, 8, 64);
        assert!(!session.is_remembered(70, 7) && session.is_remembered(70, 8), "the newest of a packet id counts");
        assert_eq!((session.remembered.len(), session.changes.remembered), (64, 64));
        session.changes = Changes::default();
        session.remember(9, 1, 2);
        assert_eq!((session.remembered.len(), session.changes.remembered), (2, 1), "a bound that was lowered");
        session.remember(9, 2, 0);
        assert_eq!((session.remembered.len(), session.changes.remembered), (1, 1));
    }

    #[test]
    fn a_full_memory_allocates_nothing_more() {
        let mut session = Session::new("c");
        (0..1_000).for_each(|packet| session.remember(packet, 7, 1_000));
        let capacity = session.remembered.capacity();
        (0..u16::MAX).for_each(|packet| session.remember(packet, 7, 1_000));
        assert_eq!(session.remembered.capacity(), capacity);
    }
}
