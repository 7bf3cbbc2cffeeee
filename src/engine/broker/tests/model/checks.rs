//! Whether the broker does what the books say.

use super::super::*;
use super::books::{Books, Due, Member, Told};
use super::client::In;
use super::{CLIENTS, Model, number_of};
use crate::engine::broker::outgoing::packet_of;
use crate::engine::broker::session::Session;

impl Model {
    /// The queues of the broker are those of the books, but for what is over or had no room,
    /// and for what groups chose.
    pub(super) fn reconcile(&mut self, groups: &[(Told, Vec<Member>)], each_chooses: bool) {
        let broker = &self.world.broker;
        let limits = broker.limits;
        let may_drop = limits.queue_messages < 1_000 || limits.queue_bytes < 1 << 20;
        let mut chosen = Vec::new();
        for (client, name) in CLIENTS.iter().enumerate() {
            let session = broker.names.get(*name).and_then(|number| broker.sessions.get(number));
            let kept = self.books.sessions.get_mut(&client);
            assert_eq!(session.is_some(), kept.is_some(), "the session of {name}");
            let (Some(session), Some(kept)) = (session, kept) else { continue };
            assert_eq!(session.expiry_secs, u32::try_from(kept.expiry / 1_000).expect("bounded"));
            assert!(session.subscriptions.keys().map(AsRef::as_ref).eq(kept.asked.keys().copied()));
            // What was in flight waits again when its client is gone.
            assert!(session.outgoing.len() <= limits.queue_messages + usize::from(limits.in_flight));
            let mut owed = core::mem::take(&mut kept.due);
            let mut missing = Vec::new();
            for (seq, no, qos, retain, released) in queue(broker, session) {
                let found = owed.iter().position(|due| match due.seq {
                    Some(known) => known == seq,
                    None => (due.no, due.qos, due.retain) == (no, qos, retain),
                });
                if let Some(at) = found {
                    missing.extend(owed.drain(..at));
                    let due = owed.remove(0);
                    assert_eq!((due.no, due.qos, due.retain, due.released), (no, qos, retain, released));
                    kept.due.push(Due { seq: Some(seq), ..due });
                } else {
                    let of = groups.iter().find(|(told, _)| told.no == no).expect("nothing that is not owed");
                    let (instance, until) = (self.books.instances, of.0.until);
                    kept.due.push(Due { instance, no, qos, retain, released: false, until, seq: Some(seq) });
                    self.books.instances += 1;
                    chosen.push((no, (client, qos, retain)));
                }
            }
            for due in missing.iter().chain(&owed) {
                let is_over = due.until.is_some_and(|until| until <= self.world.millis);
                assert!(is_over || may_drop, "{due:?} of {name} is missing");
            }
        }
        assert!(have_chosen(groups, &chosen), "{chosen:?} of {groups:?}");
        assert!(chosen.len() == groups.len() || may_drop || !each_chooses, "{chosen:?} of {groups:?}");
        assert!(broker.messages.bytes() <= limits.queue_bytes);
        let retained = broker.retained.iter().map(|kept| (&*kept.message.topic, number_of(&kept.message)));
        assert!(retained.eq(self.books.retained.iter().map(|(topic, told)| (*topic, told.no))));
    }

    /// What the broker says now.
    pub(super) fn hear(&mut self) {
        for (connection, what) in self.world.told() {
            let client = self.connections[connection as usize];
            if self.clients[client].connection != Some(connection) {
                continue;
            }
            let item = match what {
                ToClient::Publish(delivery) => self.check(client, connection, &delivery),
                ToClient::ConnAck { .. } | ToClient::SubAck { .. } | ToClient::UnsubAck { .. } => {
                    let asked =
                        |books: &Books| books.sessions.get(&client).map(|kept| (kept.expiry > 0, kept.asked.clone()));
                    let now = asked(&self.books);
                    if now.as_ref().is_some_and(|(is_durable, _)| *is_durable) {
                        let then = asked(&self.durable).map(|(_, asked)| asked);
                        let is_connack = matches!(what, ToClient::ConnAck { .. });
                        assert!(then.is_some(), "the session of {client} is durable");
                        assert!(is_connack || then == now.map(|(_, asked)| asked), "subscriptions are durable");
                    }
                    In::Said(what)
                }
                ToClient::PubRel { packet, found } => {
                    let is_stored = |session: &Session| {
                        session.outgoing.iter().any(|entry| packet_of(entry.seq) == packet && entry.released)
                    };
                    assert!(!found || self.is_durably(client, is_stored), "{packet} would be sent again");
                    In::Said(what)
                }
                ToClient::PubComp { packet, .. } => {
                    let is_free = |session: &Session| !session.inbound.contains(&packet);
                    assert!(self.is_durably(client, is_free), "{packet} would be in use again");
                    In::Said(what)
                }
                ToClient::NoRoom | ToClient::Disconnect(_) => In::Said(what),
            };
            self.clients[client].inbox.push_back(item);
        }
    }

    /// What a crash would leave of a session; of one that is in memory, nothing is asked.
    fn is_durably(&self, client: usize, is_so: impl Fn(&Session) -> bool) -> bool {
        if self.books.sessions.get(&client).is_none_or(|kept| kept.expiry == 0) {
            return true;
        }
        let broker = &self.stored.broker;
        let number = broker.names.get(CLIENTS[client]);
        number.and_then(|number| broker.sessions.get(number)).is_some_and(is_so)
    }

    /// A message on its way to a client.
    fn check(&mut self, client: usize, connection: u32, delivery: &Delivery) -> In {
        let no = number_of(&delivery.message);
        let is_durable = self.durable.taken.contains_key(&no);
        assert!(delivery.message.qos == Q0 || is_durable, "{no} was passed on and is not durable");
        let Some(packet) = delivery.packet else {
            assert!(self.at_qos_0.contains(&(no, client)), "{no} is nothing that {client} asked for");
            if !delivery.retain && !self.wills.contains(&no) {
                let last = self.last_no.insert((connection, self.senders[&no]), no);
                assert!(last.is_none_or(|last| last <= no), "{no} came after {last:?}");
            }
            return In::Said(ToClient::Publish(delivery.clone()));
        };
        let due = &self.books.sessions[&client].due;
        let due = due.iter().find(|due| due.seq.map(packet_of) == Some(packet)).expect("it is owed");
        assert_eq!((due.no, due.qos, due.retain), (no, delivery.qos, delivery.retain));
        assert!(due.until.is_none_or(|until| until > self.world.millis), "its time is over");
        let was_sent = !self.sent.insert(due.instance);
        let may_be_marked = was_sent || due.instance < self.maybe_sent_below;
        assert!(delivery.dup || !was_sent, "{due:?} comes again without its mark");
        assert!(!delivery.dup || may_be_marked, "{due:?} is new and marked");
        let seq = due.seq.expect("found by it");
        let last = self.last_seq.insert(connection, seq);
        assert!(last.is_none_or(|last| last < seq), "in order");
        let (max, window) = self.window.entry(connection).or_default();
        window.insert(packet);
        assert!(window.len() <= usize::from(*max), "no more than {max} unacknowledged");
        In::Message { packet, qos: delivery.qos, instance: due.instance }
    }
}

/// True when each of those that were chosen can be the choice of another group.
fn have_chosen(groups: &[(Told, Vec<Member>)], chosen: &[(u64, Member)]) -> bool {
    let Some(((no, member), rest)) = chosen.split_first() else { return true };
    let can_be = |at: &usize| groups[*at].0.no == *no && groups[*at].1.contains(member);
    (0..groups.len()).filter(can_be).any(|at| {
        let mut others = groups.to_vec();
        others.remove(at);
        have_chosen(&others, rest)
    })
}

/// As the queue has it: entry, message, `QoS`, retain, released.
fn queue(broker: &Broker, session: &Session) -> Vec<(u64, u64, Qos, bool, bool)> {
    let entries = session.outgoing.iter().map(|entry| {
        let kept = broker.messages.get(entry.message).expect("what an entry needs is kept");
        (entry.seq, number_of(&kept.message), entry.qos, entry.retain, entry.released)
    });
    entries.collect()
}
