//! From a session's queue to its client, and what the client answers.

use std::sync::Arc;

use crate::model::time::{Now, Span};

use super::Broker;
use super::messages::{Expiry, MessageNo, secs_up, size_of};
use super::outgoing::{ENTRIES_MAX, Entry, entry_bytes, packet_of};
use super::packet::{Delivery, Message, Qos, ToClient};
use super::session::{Presence, SessionNo};

/// A delivery to be made.
pub(super) struct Want<'a> {
    pub(super) message: &'a Arc<Message>,
    pub(super) expiry: Option<Expiry>,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) subscriptions: Vec<u32>,
    /// Its cause is not durable yet.
    pub(super) wait: bool,
}

impl Broker {
    /// Gives one session a message: into its queue, or at `QoS` 0 to its connection if it has
    /// one. `number`: of the message, once somebody keeps it.
    pub(super) fn offer(&mut self, now: Now, to: SessionNo, want: Want<'_>, number: &mut Option<MessageNo>) {
        let Some(session) = self.sessions.get(&to) else { return };
        if want.qos > Qos::AtMostOnce {
            return self.enqueue(to, want, number);
        }
        let Some(connection) = session.connection() else { return };
        let delivery = Delivery {
            message: Arc::clone(want.message),
            qos: Qos::AtMostOnce,
            retain: want.retain,
            dup: false,
            packet: None,
            subscriptions: want.subscriptions,
            expiry_secs: want.expiry.map(|expiry| secs_up(expiry.left(now))),
        };
        self.send(connection, ToClient::Publish(delivery), want.wait);
    }

    fn enqueue(&mut self, to: SessionNo, want: Want<'_>, number: &mut Option<MessageNo>) {
        let Some(session) = self.sessions.get(&to) else { return };
        // Whoever subscribes may have all that is retained, however long its queue may be else.
        let retained = if want.retain { self.limits.retained_messages } else { 0 };
        let room = self.limits.queue_messages.saturating_add(retained).min(ENTRIES_MAX);
        if session.outgoing.waiting() >= room {
            self.counters.dropped_queue_full += 1;
            let Some(oldest) = session.outgoing.oldest_unsent() else { return };
            self.remove_entry(to, oldest);
        }
        // A dropped entry may have been the last that needed the message.
        let known = number.filter(|number| self.messages.get(*number).is_some());
        let (own_bytes, size) = (entry_bytes(&want.subscriptions), size_of(want.message));
        let needed = own_bytes + if known.is_some() { 0 } else { size };
        if self.messages.bytes() + needed > self.limits.queue_bytes {
            self.counters.dropped_queue_full += 1;
            return;
        }
        let message = known.unwrap_or_else(|| self.messages.add(Arc::clone(want.message), want.expiry));
        *number = Some(message);
        self.messages.hold(message, own_bytes);
        let Some(session) = self.sessions.get_mut(&to) else { return };
        let mut entry = Entry {
            seq: 0,
            message,
            qos: want.qos,
            retain: want.retain,
            released: false,
            held: want.wait || session.expiry_secs > 0,
            bytes: 0,
            subscriptions: want.subscriptions,
        };
        entry.set_bytes(size);
        session.outgoing.push(entry);
        if session.is_durable() {
            self.dirty.insert(to);
        }
        if session.outgoing.is_last_held() {
            self.touched.insert(to);
        }
    }

    /// Sends what the window has room for.
    pub(super) fn deliver(&mut self, number: SessionNo) {
        let now = self.now;
        while let Some(session) = self.sessions.get_mut(&number)
            && let Presence::Online { connection, window } = session.presence
            && self.links.get(&connection).is_some_and(|link| link.admitted)
            && session.outgoing.in_flight() < window
            && let Some(at) = session.outgoing.next()
            && let Some(entry) = session.outgoing.get(at)
        {
            let left = match self.messages.get(entry.message) {
                Some(kept) => kept.expiry.map(|expiry| expiry.left(now)),
                None => Some(Span::ZERO),
            };
            if left == Some(Span::ZERO) {
                self.counters.expired += 1;
                self.remove_entry(number, at);
                continue;
            }
            let Some(kept) = self.messages.get(entry.message) else { return };
            let delivery = Delivery {
                message: Arc::clone(&kept.message),
                qos: entry.qos,
                retain: entry.retain,
                dup: session.outgoing.is_dup(entry),
                packet: Some(packet_of(entry.seq)),
                subscriptions: entry.subscriptions.clone(),
                expiry_secs: left.map(secs_up),
            };
            session.outgoing.mark_sent(at);
            self.counters.delivered += 1;
            self.put_ready(connection, ToClient::Publish(delivery));
        }
    }

    /// After a reconnection: PUBREL again for what the client has and has not completed.
    pub(super) fn repeat_releases(&mut self, number: SessionNo) {
        let Some(session) = self.sessions.get(&number) else { return };
        let Some(connection) = session.connection() else { return };
        let released: Vec<_> = session.outgoing.iter().filter(|entry| entry.released).map(|entry| entry.seq).collect();
        for seq in released {
            let wait = self.is_release_new(number, seq);
            self.send(connection, ToClient::PubRel { packet: packet_of(seq), found: true }, wait);
        }
    }

    fn is_release_new(&self, number: SessionNo, seq: u64) -> bool {
        self.sessions.get(&number).is_some_and(|session| session.changes.released.contains(&seq))
    }

    pub(super) fn handle_puback(&mut self, number: SessionNo, packet: u16) {
        self.complete(number, packet, Qos::AtLeastOnce, |_| true);
    }

    pub(super) fn handle_pubrec(&mut self, connection: u32, number: SessionNo, packet: u16, refused: bool) {
        if refused {
            return self.complete(number, packet, Qos::ExactlyOnce, |entry| !entry.released);
        }
        let Some(session) = self.sessions.get_mut(&number) else { return };
        let Some(at) = session.outgoing.find(packet, Qos::ExactlyOnce) else {
            return self.send(connection, ToClient::PubRel { packet, found: false }, false);
        };
        let Some(entry) = session.outgoing.get(at) else { return };
        let (seq, was_released) = (entry.seq, entry.released);
        session.outgoing.release(at);
        if session.is_durable() && !was_released {
            session.changes.released.push(seq);
            self.dirty.insert(number);
        }
        let wait = self.is_release_new(number, seq);
        self.send(connection, ToClient::PubRel { packet, found: true }, wait);
    }

    pub(super) fn handle_pubcomp(&mut self, number: SessionNo, packet: u16) {
        self.complete(number, packet, Qos::ExactlyOnce, |entry| entry.released);
    }

    fn complete(&mut self, number: SessionNo, packet: u16, qos: Qos, is_meant: impl Fn(&Entry) -> bool) {
        let Some(session) = self.sessions.get(&number) else { return };
        if let Some(at) = session.outgoing.find(packet, qos)
            && session.outgoing.get(at).is_some_and(is_meant)
        {
            self.remove_entry(number, at);
            self.deliver(number);
        }
    }

    pub(super) fn remove_entry(&mut self, number: SessionNo, at: usize) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        let Some(entry) = session.outgoing.remove(at) else { return };
        self.messages.release(entry.message, entry.own_bytes());
        if session.is_durable() && !entry.held {
            session.changes.removed.push(entry.seq);
            self.dirty.insert(number);
        }
    }
}
