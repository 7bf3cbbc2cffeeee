//! From one message to all who want it.

use std::sync::Arc;

use crate::model::time::Now;

use super::Broker;
use super::deliver::Want;
use super::messages::{Expiry, message_of};
use super::packet::{Message, Publish, Qos};
use super::session::{Presence, Session, SessionNo};
use super::shared::{Fitness, fittest};
use super::subscriptions::Subscriber;

impl Broker {
    /// Passes a message of a client on to all subscribers, and keeps it when it is retained. At
    /// `QoS` 0 at once; at `QoS` 1 and 2 whatever it causes waits for the commit. Copies
    /// nothing when nobody wants it.
    pub fn route(&mut self, now: Now, connection: u32, publish: &Publish<'_>) {
        self.now = now;
        let from = self.links.get(&connection).map(|link| link.session);
        if self.find(from, publish.topic) || publish.retain {
            let message = Arc::new(message_of(publish));
            if self.relieve_found(now, &message) {
                self.find(from, publish.topic);
            }
            self.pass_on(now, &message);
        }
    }

    /// Passes a message of the agent itself on, like one of a client.
    pub fn publish_own(&mut self, now: Now, message: Message) {
        self.now = now;
        if self.find(None, &message.topic) || message.retain {
            self.pass_on(now, &Arc::new(message));
        }
    }

    /// Looks for those that want a message on `topic`. False: nobody.
    pub(super) fn find(&mut self, from: Option<SessionNo>, topic: &str) -> bool {
        self.found.plain.clear();
        self.found.shared.clear();
        let sessions = &self.sessions;
        let fitness = |member: &Subscriber| sessions.get(&member.session).map(fitness_of);
        self.tree.find(topic, &mut self.found, &mut |members, start| fittest(members, start, &fitness));
        self.found.plain.retain(|found| !(found.options.no_local && Some(found.session) == from));
        // Stable: subscriptions of one session stay in the order of the tree.
        self.found.plain.sort_by_key(|found| found.session);
        !self.found.plain.is_empty() || !self.found.shared.is_empty()
    }

    /// Delivers to those that were found, each session once for all its ordinary subscriptions.
    pub(super) fn pass_on(&mut self, now: Now, message: &Arc<Message>) {
        if message.retain {
            self.retained.keep(now, &self.limits, message);
        }
        let wait = message.qos > Qos::AtMostOnce;
        let expiry = Expiry::of(now, message.expiry_secs);
        let mut number = None;
        let found = core::mem::take(&mut self.found);
        let shared = found.shared.chunks(1);
        for same in found.plain.chunk_by(|one, other| one.session == other.session).chain(shared) {
            let qos = same.iter().map(|found| found.options.qos).max().unwrap_or(Qos::AtMostOnce);
            let delivery = Want {
                message,
                expiry,
                qos: qos.min(message.qos),
                retain: message.retain && same.iter().any(|found| found.options.retain_as_published),
                subscriptions: same.iter().filter_map(|found| found.options.id).collect(),
                wait,
            };
            self.offer(now, same[0].session, delivery, &mut number);
        }
        self.found = found;
    }
}

fn fitness_of(session: &Session) -> Fitness {
    match session.presence {
        Presence::Online { window, .. } if session.outgoing.len() < window => Fitness::Room,
        Presence::Online { .. } => Fitness::Online,
        Presence::Lost | Presence::Offline { .. } => Fitness::Offline,
    }
}
