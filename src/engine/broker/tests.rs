//! The broker through its interface: what clients say, what they are told, and what of it
//! survives.

mod delivering;
mod durability;
mod floods;
mod hostile;
mod model;
mod retaining;
mod sessions;
mod subscribing;

use std::sync::Arc;

use crate::engine::wire::Reader;
use crate::model::time::{ClockQuality, Now, ProcTime, Span, WallTime};

use super::limits::BrokerLimits;
use super::packet::{ClientEvent, Connect, Delivery, Filter, Message, Publish, Qos, RetainHandling, ToClient, Will};
use super::subscriptions::{matches, split_shared};
use super::{Broker, Seen};

const Q0: Qos = Qos::AtMostOnce;
const Q1: Qos = Qos::AtLeastOnce;
const Q2: Qos = Qos::ExactlyOnce;

fn now(millis: u64) -> Now {
    Now {
        proc: ProcTime::from_millis(millis),
        wall: WallTime::from_millis(1_700_000_000_000 + i64::try_from(millis).expect("small")),
        quality: ClockQuality::Synced,
    }
}

/// A broker and its clock.
struct World {
    broker: Broker,
    millis: u64,
}

fn connect(client_id: &str, clean_start: bool, session_expiry_secs: u32) -> Connect {
    Connect { is_v5: true, client_id: client_id.into(), clean_start, session_expiry_secs, receive_max: 10, will: None }
}

#[expect(clippy::unnecessary_wraps, reason = "as a client says it")]
fn will(topic: &str, delay_secs: u32) -> Option<Will> {
    Some(Will { message: message(topic, "gone", Q0), delay_secs })
}

fn message(topic: &str, payload: &str, qos: Qos) -> Message {
    Message {
        topic: topic.into(),
        payload: payload.as_bytes().into(),
        qos,
        retain: false,
        expiry_secs: None,
        properties: None,
    }
}

fn filter(filter: &str, qos: Qos) -> Filter {
    Filter {
        filter: filter.into(),
        qos,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::Send,
        refused: None,
    }
}

fn publish<'a>(topic: &'a str, payload: &'a str, qos: Qos, packet: u16) -> Publish<'a> {
    Publish {
        topic,
        payload: payload.as_bytes(),
        qos,
        retain: false,
        dup: false,
        packet: (qos > Q0).then_some(packet),
        expiry_secs: None,
        properties: None,
    }
}

/// `topic=payload` of a delivery, with what is not usual about it.
fn brief(delivery: &Delivery) -> String {
    let payload = String::from_utf8_lossy(&delivery.message.payload);
    let qos = match delivery.qos {
        Qos::AtMostOnce => 0,
        Qos::AtLeastOnce => 1,
        Qos::ExactlyOnce => 2,
    };
    let retain = if delivery.retain { " retain" } else { "" };
    let dup = if delivery.dup { " dup" } else { "" };
    format!("{}={payload} q{qos}{retain}{dup}", delivery.message.topic)
}

impl World {
    fn new() -> World {
        World::with(BrokerLimits::default())
    }

    fn with(limits: BrokerLimits) -> World {
        World { broker: Broker::new(limits), millis: 1_000 }
    }

    fn now(&self) -> Now {
        now(self.millis)
    }

    fn say(&mut self, connection: u32, event: ClientEvent<'_>) {
        self.broker.handle(self.now(), connection, event);
    }

    fn connect(&mut self, connection: u32, connect: &Connect) {
        self.say(connection, ClientEvent::Connect(connect));
    }

    /// A client that is connected, without anything else to be said.
    fn client(&mut self, connection: u32, client_id: &str, expiry_secs: u32) {
        self.connect(connection, &connect(client_id, false, expiry_secs));
        self.commit();
        self.told();
    }

    fn subscribe(&mut self, connection: u32, filters: &[Filter]) {
        self.say(connection, ClientEvent::Subscribe { packet: 1, id: None, filters });
    }

    /// A subscription, without anything else to be said.
    fn subscribed(&mut self, connection: u32, wanted: &str, qos: Qos) {
        self.subscribe(connection, &[filter(wanted, qos)]);
        self.commit();
        self.told();
    }

    fn publish(&mut self, connection: u32, publish: &Publish<'_>) -> Seen {
        let seen = self.broker.take_publish(connection, publish);
        if seen == Seen::New {
            self.broker.route(self.now(), connection, publish);
        }
        seen
    }

    fn pass(&mut self, secs: u64) {
        self.millis += secs * 1_000;
        self.broker.tick(self.now());
    }

    fn commit(&mut self) {
        self.broker.mark_committed();
    }

    fn told(&mut self) -> Vec<(u32, ToClient)> {
        let mut told = Vec::new();
        self.broker.take_ready(&mut |connection, what| told.push((connection, what)));
        told
    }

    fn deliveries(&mut self) -> Vec<(u32, Delivery)> {
        let told = self.told().into_iter();
        told.filter_map(|(connection, what)| match what {
            ToClient::Publish(delivery) => Some((connection, delivery)),
            ToClient::ConnAck { .. }
            | ToClient::NoRoom
            | ToClient::SubAck { .. }
            | ToClient::UnsubAck { .. }
            | ToClient::PubRel { .. }
            | ToClient::PubComp { .. }
            | ToClient::Disconnect(_) => None,
        })
        .collect()
    }

    /// Deliveries in brief: connection and `topic=payload`.
    fn got(&mut self) -> Vec<String> {
        let deliveries = self.deliveries();
        deliveries.iter().map(|(connection, delivery)| format!("{connection}: {}", brief(delivery))).collect()
    }

    /// Everything, as stored.
    fn whole(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.broker.write_all(self.now(), &mut out, &mut |_| ());
        out
    }

    /// The agent is ended and starts again, with what `stored` holds and no time passing.
    fn restart_from(&mut self, stored: &[u8]) {
        let limits = self.broker.limits;
        self.broker = Broker::new(limits);
        let mut reader = Reader::new(stored);
        self.broker.read(&mut reader, ProcTime::default()).expect("what was written");
        assert!(reader.is_empty());
        self.broker.after_restore(self.now(), ProcTime::default());
    }

    fn restart(&mut self) {
        let stored = self.whole();
        self.restart_from(&stored);
    }
}
