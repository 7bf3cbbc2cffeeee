//! Clients of the listener, through the whole engine: what they publish is in the windows and
//! on its way to subscribers in one commit, is acknowledged after it, and counts once, whenever
//! the power goes off.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidegate::config::check::check_for_replay;
use tidegate::engine::broker::limits::BrokerLimits;
use tidegate::engine::broker::packet::{
    ClientEvent, Connect, Filter, Message as Own, Publish, Qos, RetainHandling, ToClient, Will,
};
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::{MemorySlots, MemoryStore};
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{DeliveryTag, Effect, Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, Span, WallTime};

/// The wall clock at the start.
const START_MS: i64 = 1_773_480_000_000;
/// As configured, in milliseconds.
const ACK_WITHIN: u64 = 50;
const COMMIT_INTERVAL: u64 = 1_000;

fn pipeline() -> PipelineSpec {
    let text = r#"
gateway.id = "gw"
[[streams]]
name = "s"
topic = "d/{device}"
fields = { v = "/v" }
time = { field = "/ts", unit = "ms" }
disorder = "2s"
idle_timeout = "1h"
availability = [{ topic = "status/{device}" }]
[[streams.windows]]
name = "w"
size = "10s"
"#;
    let config = check_for_replay(text, "t.toml").unwrap_or_else(|refused| panic!("{refused}")).config;
    assert_eq!(config.commit.interval, Span::from_millis(COMMIT_INTERVAL));
    let limits = BrokerLimits { ack_within: Span::from_millis(ACK_WITHIN), ..BrokerLimits::default() };
    PipelineSpec { broker: Some(limits), ..config }
}

/// An agent without its shell. Its books are looked at after everything that it takes in.
struct Gateway {
    driver: Driver<MemoryStore>,
    at: u64,
    effects: Vec<Effect>,
}

fn now(at: u64) -> Now {
    let wall = WallTime::from_millis(START_MS + i64::try_from(at).unwrap());
    Now { proc: ProcTime::from_millis(at), wall, quality: ClockQuality::Synced }
}

fn tag(connection: u32, packet: u16) -> DeliveryTag {
    DeliveryTag { connection: DeliveryTag::CLIENTS + connection, packet }
}

fn payload(v: u32) -> String {
    format!("{{\"ts\":{},\"v\":{v}}}", START_MS + 1_000)
}

fn publish(payload: &str, qos: Qos, packet: u16) -> Publish<'_> {
    Publish {
        topic: "d/a",
        payload: payload.as_bytes(),
        qos,
        retain: false,
        dup: false,
        packet: (qos > Qos::AtMostOnce).then_some(packet),
        expiry_secs: None,
        properties: None,
    }
}

impl Gateway {
    fn new() -> Gateway {
        Gateway::on(MemorySlots::new(0), 0)
    }

    fn on(slots: MemorySlots, at: u64) -> Gateway {
        Gateway::with(pipeline(), slots, at)
    }

    fn with(pipeline: PipelineSpec, slots: MemorySlots, at: u64) -> Gateway {
        let driver = Driver::start(pipeline, Ring::new(slots, Packing::NONE), now(at)).unwrap();
        let mut gateway = Gateway { driver, at, effects: Vec::new() };
        gateway.event(Event::InputLive(true));
        gateway
    }

    fn slots(self) -> MemorySlots {
        self.driver.into_store().into_slots()
    }

    /// The power goes off, and on again.
    fn restarted(self) -> Gateway {
        let at = self.at;
        Gateway::on(self.slots().reopen(), at)
    }

    fn event(&mut self, event: Event<'_>) {
        self.driver.handle(now(self.at), event);
        self.audit();
        self.advance();
    }

    fn advance(&mut self) {
        let Gateway { driver, at, effects } = self;
        driver.advance(now(*at), &mut |effect| effects.push(effect));
        self.audit();
    }

    fn audit(&self) {
        assert!(self.driver.status(now(self.at)).balanced, "the books balance");
    }

    fn pass(&mut self, millis: u64) {
        self.at += millis;
        self.advance();
    }

    /// So much later that a client that waits has its answer.
    fn commit(&mut self) {
        self.pass(ACK_WITHIN);
    }

    fn say(&mut self, connection: u32, event: ClientEvent<'_>) {
        self.event(Event::Client { connection: DeliveryTag::CLIENTS + connection, event });
    }

    fn connect_with(&mut self, connection: u32, client_id: &str, session_expiry_secs: u32, will: Option<Will>) {
        let client_id = client_id.into();
        let connect =
            Connect { is_v5: true, client_id, clean_start: false, session_expiry_secs, receive_max: 10, will };
        self.say(connection, ClientEvent::Connect(&connect));
    }

    /// A client whose session is durable, without anything else to be done.
    fn client(&mut self, connection: u32, client_id: &str) {
        self.connect_with(connection, client_id, 600, None);
        self.commit();
        self.effects.clear();
    }

    fn subscribe(&mut self, connection: u32, filter: &str) {
        let filters = [Filter {
            filter: filter.into(),
            qos: Qos::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
            refused: None,
        }];
        self.say(connection, ClientEvent::Subscribe { packet: 1, id: None, filters: &filters });
    }

    fn publish(&mut self, connection: u32, publish: Publish<'_>) {
        self.say(connection, ClientEvent::Publish(publish));
    }

    fn acks(&self) -> Vec<DeliveryTag> {
        let acks =
            self.effects.iter().filter_map(|effect| if let Effect::Ack(tag) = effect { Some(*tag) } else { None });
        acks.collect()
    }

    /// What a connection was told, and nothing twice.
    fn told(&mut self, connection: u32) -> Vec<ToClient> {
        let is_it = |of: u32| of == DeliveryTag::CLIENTS + connection;
        let told = self.effects.iter().filter_map(|effect| {
            if let Effect::Tell { connection, what } = effect { Some((*connection, what.clone())) } else { None }
        });
        let told = told.filter(|(connection, _)| is_it(*connection)).map(|(_, what)| what);
        let told = told.collect();
        self.effects.retain(|effect| !matches!(effect, Effect::Tell { connection, .. } if is_it(*connection)));
        told
    }

    /// Payloads that a connection was sent, with their marks.
    fn got(&mut self, connection: u32) -> Vec<String> {
        let told = self.told(connection).into_iter();
        told.filter_map(|what| if let ToClient::Publish(delivery) = what { Some(delivery) } else { None })
            .map(|delivery| {
                let mark = |is_set, mark| if is_set { mark } else { "" };
                let payload = String::from_utf8_lossy(&delivery.message.payload);
                format!("{payload}{}{}", mark(delivery.retain, " retain"), mark(delivery.dup, " dup"))
            })
            .collect()
    }

    fn ledger(&self) -> Counted {
        let ledger = self.driver.status(now(self.at)).streams[0].ledger.clone();
        Counted { accepted: ledger.accepted, redelivered: ledger.redelivered }
    }

    fn is_idle(&self, device: &str) -> bool {
        self.driver.engine().device(0, device).unwrap().is_idle
    }
}

/// What these tests ask of the books of a stream.
#[derive(PartialEq, Eq, Debug)]
struct Counted {
    accepted: u64,
    redelivered: u64,
}

fn counted(accepted: u64, redelivered: u64) -> Counted {
    Counted { accepted, redelivered }
}

#[test]
fn a_message_is_in_the_windows_and_with_subscribers_and_is_acknowledged_after_the_commit() {
    let mut gateway = Gateway::new();
    gateway.client(1, "sensor");
    gateway.client(2, "display");
    gateway.subscribe(2, "d/#");
    gateway.commit();
    gateway.effects.clear();
    let payload = payload(1);
    gateway.publish(1, publish(&payload, Qos::AtLeastOnce, 7));
    gateway.pass(ACK_WITHIN - 1);
    assert_eq!(gateway.effects, [], "nothing is durable yet");
    assert_eq!(gateway.ledger(), counted(1, 0));
    assert_eq!(gateway.driver.status(now(gateway.at)).streams[0].windows[0].open, 1);
    gateway.pass(1);
    assert_eq!(gateway.acks(), [tag(1, 7)]);
    assert_eq!(gateway.got(2), [payload.as_str()]);

    gateway.effects.clear();
    gateway.publish(1, publish(&payload, Qos::AtMostOnce, 0));
    assert_eq!(gateway.got(2), [payload.as_str()], "without a promise there is nothing to wait for");
    assert_eq!((gateway.acks(), gateway.ledger()), (vec![], counted(2, 0)));
}

#[test]
fn a_client_is_answered_sooner_than_the_device_broker() {
    let mut gateway = Gateway::new();
    gateway.client(1, "sensor");
    let payload = payload(1);
    let tag_of_broker = DeliveryTag { connection: 1, packet: 7 };
    let message =
        Message { topic: "d/a", payload: payload.as_bytes(), retain: false, dup: false, tag: Some(tag_of_broker) };
    gateway.pass(COMMIT_INTERVAL);
    let commits = gateway.driver.storage_status().commits;
    gateway.event(Event::Message(message));
    let due = gateway.at + COMMIT_INTERVAL;
    assert_eq!(gateway.driver.next_deadline(), Some(ProcTime::from_millis(due)));
    gateway.pass(ACK_WITHIN);
    assert_eq!(gateway.acks(), []);
    gateway.publish(1, publish(&payload, Qos::AtLeastOnce, 7));
    let due = gateway.at + ACK_WITHIN;
    assert_eq!(gateway.driver.next_deadline(), Some(ProcTime::from_millis(due)));
    gateway.commit();
    assert_eq!(gateway.acks(), [tag_of_broker, tag(1, 7)], "one commit for both");
    assert_eq!(gateway.driver.storage_status().commits, commits + 1);
    assert_eq!(gateway.ledger(), counted(2, 0));
}

#[test]
fn a_message_that_was_not_committed_is_sent_again_and_counts_once() {
    let mut gateway = Gateway::new();
    gateway.client(1, "sensor");
    let payload = payload(1);
    gateway.publish(1, publish(&payload, Qos::AtLeastOnce, 7));
    let mut gateway = gateway.restarted();
    assert_eq!(gateway.ledger(), counted(0, 0));
    gateway.connect_with(2, "sensor", 600, None);
    assert_eq!(gateway.told(2), [ToClient::ConnAck { session_present: true }]);
    gateway.publish(2, Publish { dup: true, ..publish(&payload, Qos::AtLeastOnce, 7) });
    gateway.commit();
    assert_eq!((gateway.acks(), gateway.ledger()), (vec![tag(2, 7)], counted(1, 0)));
}

#[test]
fn a_message_whose_acknowledgement_was_lost_is_acknowledged_again_and_counts_once() {
    let mut gateway = Gateway::new();
    gateway.client(1, "sensor");
    gateway.client(2, "display");
    gateway.subscribe(2, "d/#");
    gateway.commit();
    let payload = payload(1);
    gateway.publish(1, publish(&payload, Qos::AtLeastOnce, 7));
    gateway.commit();
    assert_eq!(gateway.got(2), [payload.as_str()]);
    let mut gateway = gateway.restarted();
    gateway.connect_with(3, "sensor", 600, None);
    gateway.publish(3, Publish { dup: true, ..publish(&payload, Qos::AtLeastOnce, 7) });
    gateway.commit();
    assert_eq!((gateway.acks(), gateway.ledger()), (vec![tag(3, 7)], counted(1, 1)));
    gateway.connect_with(4, "display", 600, None);
    assert_eq!(gateway.got(4), [format!("{payload} dup")], "it has not acknowledged it, and there is no second one");

    // Alike and not marked: the next one.
    gateway.publish(3, publish(&payload, Qos::AtLeastOnce, 7));
    gateway.commit();
    assert_eq!((gateway.got(4), gateway.ledger()), (vec![payload.clone()], counted(2, 1)));
}

#[test]
fn at_qos_2_what_comes_twice_is_one_message_until_it_is_released() {
    let mut gateway = Gateway::new();
    gateway.client(1, "sensor");
    let payload = payload(1);
    let sent = publish(&payload, Qos::ExactlyOnce, 9);
    gateway.publish(1, sent);
    gateway.publish(1, sent);
    gateway.commit();
    assert_eq!((gateway.acks(), gateway.ledger()), (vec![tag(1, 9), tag(1, 9)], counted(1, 1)));
    let mut gateway = gateway.restarted();
    gateway.connect_with(2, "sensor", 600, None);
    gateway.publish(2, Publish { dup: true, ..sent });
    gateway.commit();
    assert_eq!((gateway.acks(), gateway.ledger()), (vec![tag(2, 9)], counted(1, 2)));

    gateway.told(2);
    gateway.say(2, ClientEvent::PubRel { packet: 9 });
    assert_eq!(gateway.told(2), []);
    gateway.commit();
    assert_eq!(gateway.told(2), [ToClient::PubComp { packet: 9, found: true }]);
    let mut gateway = gateway.restarted();
    gateway.connect_with(3, "sensor", 600, None);
    gateway.publish(3, Publish { dup: true, ..sent });
    assert_eq!(gateway.ledger(), counted(2, 2), "another message whose first sending was lost");
}

#[test]
fn wherever_the_power_goes_off_a_message_counts_once_and_reaches_its_subscriber() {
    let mut went_off = 0;
    for (operation, qos) in (1..12).flat_map(|n| [(n, Qos::AtLeastOnce), (n, Qos::ExactlyOnce)]) {
        let mut gateway = Gateway::new();
        gateway.client(1, "sensor");
        gateway.client(2, "display");
        gateway.subscribe(2, "d/#");
        gateway.commit();
        let at = gateway.at;
        let mut slots = gateway.slots();
        slots.crash_after(operation);
        let Ok(driver) = Driver::start(pipeline(), Ring::new(slots, Packing::NONE), now(at)) else { continue };
        let mut gateway = Gateway { driver, at, effects: Vec::new() };
        gateway.connect_with(3, "sensor", 600, None);
        let payload = payload(1);
        let sent = publish(&payload, qos, 7);
        gateway.publish(3, sent);
        gateway.commit();
        let was_acknowledged = gateway.acks() == [tag(3, 7)];
        went_off += u32::from(!was_acknowledged);
        let mut gateway = gateway.restarted();
        gateway.connect_with(4, "sensor", 600, None);
        assert_eq!(gateway.told(4), [ToClient::ConnAck { session_present: true }]);
        if was_acknowledged {
            assert_eq!(gateway.ledger(), counted(1, 0), "{operation}");
        } else {
            gateway.publish(4, Publish { dup: true, ..sent });
            gateway.commit();
            assert_eq!((gateway.acks(), gateway.ledger().accepted), (vec![tag(4, 7)], 1), "{operation}");
        }
        gateway.connect_with(5, "display", 600, None);
        gateway.commit();
        assert_eq!(gateway.got(5).len(), 1, "{operation}");
    }
    assert!(went_off > 0);
}

#[test]
fn the_last_will_of_a_client_makes_its_device_idle() {
    let mut gateway = Gateway::new();
    gateway.client(1, "display");
    gateway.subscribe(1, "status/+");
    gateway.commit();
    let offline = Own {
        topic: "status/a".into(),
        payload: Box::from(*b"offline"),
        qos: Qos::AtLeastOnce,
        retain: true,
        expiry_secs: None,
        properties: None,
    };
    for (connection, delay_secs) in [(2, 0), (3, 5)] {
        let will = Some(Will { message: offline.clone(), delay_secs });
        gateway.connect_with(connection, "a", 600, will);
        let online = Publish { topic: "status/a", retain: true, ..publish("online", Qos::AtLeastOnce, 1) };
        gateway.publish(connection, online);
        let payload = payload(delay_secs);
        gateway.publish(connection, publish(&payload, Qos::AtLeastOnce, 2));
        gateway.commit();
        assert_eq!(gateway.got(1), ["online"]);
        assert!(!gateway.is_idle("a"));
        gateway.say(connection, ClientEvent::Gone);
        if delay_secs > 0 {
            gateway.pass(4_999);
            assert!(!gateway.is_idle("a"), "it may be back");
            gateway.pass(1);
        }
        assert!(gateway.is_idle("a"));
        // For what time brings, nobody waits to be acknowledged.
        gateway.pass(if delay_secs > 0 { COMMIT_INTERVAL } else { ACK_WITHIN });
        assert_eq!(gateway.got(1), ["offline"]);
    }
    let ledger = gateway.driver.status(now(gateway.at)).streams[0].ledger.clone();
    assert_eq!((ledger.accepted, ledger.availability), (2, 4));
    gateway.connect_with(4, "a", 600, Some(Will { message: offline, delay_secs: 0 }));
    gateway.publish(4, publish(&payload(3), Qos::AtLeastOnce, 3));
    gateway.say(4, ClientEvent::Disconnect { with_will: false, session_expiry_secs: None });
    gateway.say(4, ClientEvent::Gone);
    assert!(!gateway.is_idle("a"), "it has said goodbye");
}

#[test]
fn a_retained_message_reaches_whoever_comes_later_and_survives() {
    let mut gateway = Gateway::new();
    gateway.client(1, "sensor");
    let (first, last) = (payload(1), payload(2));
    gateway.publish(1, Publish { retain: true, ..publish(&first, Qos::AtLeastOnce, 1) });
    gateway.commit();
    gateway.client(2, "display");
    gateway.subscribe(2, "d/+");
    gateway.commit();
    assert_eq!(gateway.got(2), [format!("{first} retain")]);
    gateway.say(2, ClientEvent::PubAck { packet: 1, refused: false });
    gateway.publish(1, Publish { retain: true, ..publish(&last, Qos::AtLeastOnce, 2) });
    gateway.commit();
    assert_eq!(gateway.got(2), [last.as_str()]);
    // Not durable: as if it had not been.
    gateway.publish(1, Publish { retain: true, ..publish(&payload(3), Qos::AtLeastOnce, 3) });
    let mut gateway = gateway.restarted();
    gateway.client(3, "another");
    gateway.subscribe(3, "#");
    gateway.commit();
    assert_eq!(gateway.got(3), [format!("{last} retain")]);
    assert_eq!(gateway.ledger(), counted(2, 0), "to the windows it is an event");
}

#[test]
fn without_a_listener_its_clients_are_forgotten_for_good() {
    let mut gateway = Gateway::new();
    gateway.client(1, "display");
    gateway.subscribe(1, "d/+");
    let (first, last) = (payload(1), payload(2));
    gateway.publish(1, Publish { retain: true, ..publish(&first, Qos::AtLeastOnce, 1) });
    gateway.commit();
    let at = gateway.at;
    let without = PipelineSpec { broker: None, ..pipeline() };
    let gateway = Gateway::with(without, gateway.slots().reopen(), at);
    assert_eq!(gateway.ledger(), counted(1, 0), "the windows stay");
    let mut gateway = gateway.restarted();
    gateway.client(2, "display");
    gateway.commit();
    gateway.publish(2, publish(&last, Qos::AtLeastOnce, 1));
    gateway.commit();
    assert_eq!(gateway.got(2), [""; 0], "neither what was kept for it nor its subscription");
    assert_eq!(gateway.ledger(), counted(2, 0));
}
