//! Clients of the listener: what they publish goes to the windows as what a device broker
//! delivers, and to their subscribers.
//!
//! ```text
//! PUBLISH ─▶ known to the session? ─▶ windows ─▶ subscribers, retained
//!                                        │            │
//!                                        └─ one commit ┘─▶ PUBACK, deliveries
//! ```
//!
//! Whether a message was taken in before is for the session of its sender to say: each client
//! has its own packet ids. The memory of redeliveries is for the device broker alone.

use crate::model::time::Now;

use super::Engine;
use super::broker::packet::{ClientEvent, Message as Own, Publish, ToClient};
use super::broker::status::Counters;
use super::broker::{Broker, Seen};
use super::step::{DeliveryTag, Message};

impl Engine {
    /// What has happened to clients; `None`: there is no listener.
    pub fn client_counters(&self) -> Option<Counters> {
        self.broker.as_ref().map(Broker::counters)
    }

    /// What a connection of the listener reports. Without a listener nothing does.
    pub(super) fn handle_client(&mut self, now: Now, connection: u32, event: ClientEvent<'_>) {
        match event {
            ClientEvent::Publish(publish) => self.handle_client_publish(now, connection, &publish),
            ClientEvent::Connect(_)
            | ClientEvent::Subscribe { .. }
            | ClientEvent::Unsubscribe { .. }
            | ClientEvent::PubAck { .. }
            | ClientEvent::PubRec { .. }
            | ClientEvent::PubRel { .. }
            | ClientEvent::PubComp { .. }
            | ClientEvent::Disconnect { .. }
            | ClientEvent::Gone => {
                if let Some(broker) = &mut self.broker {
                    broker.handle(now, connection, event);
                    self.take_wills(now);
                }
            }
        }
    }

    fn handle_client_publish(&mut self, now: Now, connection: u32, publish: &Publish<'_>) {
        let Some(broker) = &mut self.broker else { return };
        let seen = broker.take_publish(connection, publish);
        if seen == Seen::Refused {
            return;
        }
        let tag = publish.packet.map(|packet| DeliveryTag { connection, packet });
        let Publish { topic, payload, .. } = *publish;
        // To the windows it is an event, whatever subscribers are told of it later. What its
        // sender says about an earlier sending, the session has judged.
        self.handle_message(now, Message { topic, payload, retain: false, dup: seen == Seen::Known, tag });
        if let (Seen::New, Some(broker)) = (seen, &mut self.broker) {
            broker.route(now, connection, publish);
        }
    }

    /// Last wills say who is gone: they are messages like any other. Nobody acknowledges them.
    pub(super) fn take_wills(&mut self, now: Now) {
        let wills = self.broker.as_mut().map(Broker::take_wills).unwrap_or_default();
        for will in &wills {
            let message = Message { topic: &will.topic, payload: &will.payload, retain: false, dup: false, tag: None };
            self.handle_message(now, message);
        }
    }

    /// What time alone has brought to the listener's clients.
    pub(super) fn handle_client_deadlines(&mut self, now: Now) {
        let Some(broker) = &mut self.broker else { return };
        if broker.next_deadline().is_some_and(|at| at <= now.proc) {
            broker.tick(now);
            self.take_wills(now);
        }
    }

    /// Sends new subscribers some of what is retained. Once a round: others are served between.
    pub fn let_clients_catch_up(&mut self, now: Now) {
        if let Some(broker) = self.broker.as_mut().filter(|broker| broker.is_behind()) {
            broker.catch_up(now);
        }
    }

    /// They are not done with that.
    pub fn clients_are_behind(&self) -> bool {
        self.broker.as_ref().is_some_and(Broker::is_behind)
    }

    /// A message of the agent itself for the listener's clients; the windows do not see it.
    pub(super) fn publish_own(&mut self, now: Now, message: &Own) {
        if let Some(broker) = &mut self.broker {
            broker.publish_own(now, message.clone());
        }
    }

    /// What may be told to the listener's clients now.
    pub fn tell_clients(&mut self, tell: &mut dyn FnMut(u32, ToClient)) {
        if let Some(broker) = &mut self.broker {
            broker.take_ready(tell);
        }
    }

    /// There is so much of it that it should be told before more comes in: a message may be for
    /// a thousand clients, and a thousand messages may come at once.
    pub fn has_much_to_tell(&self) -> bool {
        self.broker.as_ref().is_some_and(Broker::has_much_ready)
    }

    /// Clients wait for the next commit; at most so long.
    pub fn clients_wait(&self) -> bool {
        self.broker.as_ref().is_some_and(Broker::waits_for_commit)
    }
}
