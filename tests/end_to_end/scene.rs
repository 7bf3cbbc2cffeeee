//! Two brokers, an agent between them and a cloud that listens: what every test
//! begins with.

#![allow(dead_code, reason = "shared by several test programs, each uses a part")]

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tidegate::agent::mqtt::client::{ClientSpec, Publisher};
use tidegate::fleet::oracle::Oracle;
use tidegate::fleet::receiver::Receiver;
use tidegate::fleet::{Delivery, Fleet, FleetSpec};
use tidegate::model::time::{EventTime, Span};

use crate::agent::{Agent, Config};
use crate::broker::{Broker, free_port};
use crate::cloud::{Cloud, WAIT_MAX};
use crate::proxy::Proxy;

/// Size of the windows in all tests.
pub(crate) const WINDOW: Span = Span::from_secs(5);
/// Begin of all fleets: a window's start, far in the past, so that nothing
/// depends on the machine's clock.
pub(crate) const START: EventTime = EventTime::from_millis(1_700_000_000_000);

/// What a device's broker on a gateway should say; see the README.
pub(crate) const DEVICES_CONFIG: &[&str] =
    &["upgrade_outgoing_qos true", "max_queued_messages 100000", "max_inflight_messages 100"];
/// Survives a stop with its sessions.
pub(crate) const PERSISTENT: &[&str] =
    &["max_queued_messages 100000", "persistence true", "persistence_location {dir}/"];

/// Everything of one test.
pub(crate) struct Scene {
    /// `None`: devices connect to the agent itself.
    broker: Option<Broker>,
    pub(crate) cloud_broker: Broker,
    pub(crate) agent: Agent,
    pub(crate) cloud: Cloud,
    /// Between the agent and the devices' broker, or the devices.
    pub(crate) wire: Proxy,
    /// Between the agent and the cloud's broker.
    pub(crate) uplink_wire: Proxy,
    publisher: Publisher,
    /// Holds the agent's configuration and state, unless the setting says where.
    _dir: Option<TempDir>,
}

/// What a scene is made of.
pub(crate) struct Setting<'a> {
    /// `None`: devices connect to the agent itself.
    pub(crate) devices: Option<Broker>,
    pub(crate) cloud: Broker,
    /// But for the ports.
    pub(crate) config: Config<'a>,
    /// Instead of a temporary directory.
    pub(crate) dir: Option<&'a Path>,
}

impl Setting<'_> {
    /// Two brokers, and nothing else.
    pub(crate) fn plain() -> Setting<'static> {
        let (devices, cloud) = (Broker::start(DEVICES_CONFIG), Broker::start(PERSISTENT));
        Setting { devices: Some(devices), cloud, config: Config::default(), dir: None }
    }

    /// The cloud's broker alone.
    pub(crate) fn direct() -> Setting<'static> {
        Setting { devices: None, cloud: Broker::start(PERSISTENT), config: Config::default(), dir: None }
    }
}

impl Scene {
    /// With brokers that run, and the agent subscribed.
    pub(crate) fn start() -> Scene {
        Scene::set(Setting::plain())
    }

    /// As [`Scene::start`], behind this broker of the devices.
    pub(crate) fn with_devices_broker(devices: Broker) -> Scene {
        Scene::set(Setting { devices: Some(devices), ..Setting::plain() })
    }

    /// As [`Scene::start`], with this configuration.
    pub(crate) fn with_config(config: Config<'_>) -> Scene {
        Scene::set(Setting { config, ..Setting::plain() })
    }

    /// As [`Scene::start`], in this setting.
    pub(crate) fn set(setting: Setting<'_>) -> Scene {
        let Setting { devices, cloud: cloud_broker, config, dir } = setting;
        let temporary = dir.is_none().then(|| tempfile::tempdir().unwrap());
        let dir = dir.or(temporary.as_ref().map(TempDir::path)).expect("one of them");
        let port = devices.as_ref().map_or_else(free_port, |devices| devices.port);
        let wire = Proxy::start(port);
        let listener = devices.is_none().then_some(port);
        let uplink_wire = Proxy::start(cloud_broker.port);
        let mut agent = Agent::new(dir, &Config { devices: wire.port, listener, cloud: uplink_wire.port, ..config });
        let cloud = Cloud::connect(cloud_broker.port);
        agent.start();
        // To a broker that remembers nothing of its publisher, every sending is the first. The
        // agent itself knows the second one by its mark and its packet id.
        let (port, clean) = if devices.is_some() { (port, true) } else { (wire.port, false) };
        let spec = ClientSpec { host: "127.0.0.1".into(), port, client_id: "fleet".into(), clean };
        let scene = Scene {
            broker: devices,
            cloud_broker,
            agent,
            cloud,
            wire,
            uplink_wire,
            publisher: Publisher::new(spec),
            _dir: temporary,
        };
        if scene.broker.is_some() {
            scene.wait_for_subscriptions(1);
        } else {
            wait_until("the agent listens", || scene.agent.status().is_some());
        }
        scene
    }

    /// The devices' broker.
    pub(crate) fn devices(&self) -> &Broker {
        self.broker.as_ref().expect("there is one")
    }

    /// The devices' broker.
    pub(crate) fn devices_mut(&mut self) -> &mut Broker {
        self.broker.as_mut().expect("there is one")
    }

    /// Until the devices' broker has granted so many subscriptions: the agent
    /// is its only subscriber.
    pub(crate) fn wait_for_subscriptions(&self, count: usize) {
        wait_until("the agent subscribes", || self.devices().subscriptions() >= count);
    }

    /// Every delivery is at the devices' broker when this returns.
    pub(crate) fn publish(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            self.publish_raw(&delivery.topic, &delivery.payload);
        }
        self.flush();
    }

    /// Any bytes, on any topic.
    pub(crate) fn publish_raw(&mut self, topic: &str, payload: &[u8]) {
        self.publisher.publish(topic, payload, WAIT_MAX).expect("the devices' broker takes messages");
    }

    /// As a device that wants its last reading to be remembered.
    pub(crate) fn publish_retained(&mut self, delivery: &Delivery) {
        let (topic, payload) = (&delivery.topic, &delivery.payload);
        self.publisher.publish_retained(topic, payload, WAIT_MAX).expect("the devices' broker takes messages");
    }

    /// Until the devices' broker has taken everything.
    pub(crate) fn flush(&mut self) {
        self.publisher.flush(WAIT_MAX).expect("the devices' broker takes messages");
    }

    /// Until the cloud holds as many panes as the oracle knows closed windows.
    pub(crate) fn wait_for_panes(&mut self, count: usize) {
        self.cloud.wait_until(&format!("{count} panes at the cloud"), |cloud| cloud.receiver.panes().count() >= count);
    }

    /// The agent's own word on how many records of the stream it has received.
    pub(crate) fn wait_for_received(&mut self, count: usize) {
        self.wait_for_ledger("received", count);
    }

    /// Its own word on how many it has taken into windows.
    pub(crate) fn wait_for_accepted(&mut self, count: usize) {
        self.wait_for_ledger("accepted", count);
    }

    /// Until it has taken in so many, and the devices' broker knows.
    pub(crate) fn catch_up(&mut self, count: usize) {
        self.wait_for_received(count);
        let agent = &self.agent;
        self.cloud.wait_until("everything is acknowledged", |_| {
            agent.status().is_some_and(|status| status["engine"]["storage"]["unacknowledged"] == 0)
        });
    }

    fn wait_for_ledger(&mut self, name: &str, count: usize) {
        let agent = &mut self.agent;
        self.cloud.wait_until(&format!("{count} records {name}"), |_| {
            agent.status().is_some_and(|status| crate::agent::ledger(&status, name) >= count as u64)
        });
    }
}

/// The seed of a run; printed, so that a failure names it.
pub(crate) fn seed(fixed: u64) -> u64 {
    let seed = std::env::var("E2E_SEED").map_or(fixed, |text| text.parse().expect("E2E_SEED is a number"));
    println!("E2E_SEED={seed}");
    seed
}

/// Polls what nothing can signal.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {WAIT_MAX:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A fleet that is disordered within the bound of the configuration, closed by
/// one more reading per device.
pub(crate) fn fleet(seed: u64, devices: u32, seconds: u64) -> Vec<Delivery> {
    Fleet::new(fleet_spec(seed, devices, seconds)).collect()
}

/// What [`fleet`] is made from.
pub(crate) fn fleet_spec(seed: u64, devices: u32, seconds: u64) -> FleetSpec {
    FleetSpec {
        seed,
        devices,
        start: START,
        duration: Span::from_secs(seconds),
        period: Span::from_millis(500),
        disorder: Span::from_secs(2),
        gap: None,
        silent: None,
        stragglers: None,
        closing: Some(Span::from_secs(60)),
    }
}

/// What the cloud must end with: every window that the closing readings close,
/// in the form of [`Cloud::results`] without the watermark.
pub(crate) fn assert_exact(cloud: &Cloud, deliveries: &[Delivery]) {
    assert_received(&cloud.receiver, deliveries);
}

/// As [`assert_exact`], of any receiver.
pub(crate) fn assert_received(receiver: &Receiver, deliveries: &[Delivery]) {
    let mut oracle = Oracle::new(WINDOW, 0);
    let last = deliveries.iter().map(|delivery| delivery.event).max().expect("a fleet has deliveries");
    for delivery in deliveries {
        oracle.add(&delivery.device, delivery.event, delivery.value);
    }
    let mut expected: Vec<_> = oracle
        .closed_at(last)
        .map(|(key, totals)| {
            let start = key.start.as_millis();
            json!({"id": format!("gw-1/climate/5s/{}/{start}", key.device), "key": key.device,
                "start_ms": start, "end_ms": (key.start + WINDOW).as_millis(), "count": totals.count,
                "values": {"temperature": {"count": totals.count, "sum": totals.sum, "mean": totals.mean(),
                    "min": totals.min, "max": totals.max}}})
        })
        .collect();
    expected.sort_by_key(|pane| pane["id"].as_str().map(str::to_owned));
    let standing: Vec<_> = receiver.panes().map(|(_, record)| record).filter(|pane| pane["window"] == "5s").collect();
    let ids = |panes: &mut dyn Iterator<Item = &serde_json::Value>| -> Vec<String> {
        panes.map(|pane| pane["id"].as_str().unwrap_or("?").to_owned()).collect()
    };
    assert_eq!(ids(&mut standing.iter().copied()), ids(&mut expected.iter()), "the windows at the cloud");
    for (pane, expected) in standing.into_iter().zip(&expected) {
        assert_same_numbers(pane, expected);
    }
    assert_eq!(receiver.late().count(), 0, "nothing is late within the bound");
}

/// `3` and `3.0` are the same number.
fn assert_same_numbers(pane: &serde_json::Value, expected: &serde_json::Value) {
    match (pane, expected) {
        (serde_json::Value::Object(pane), serde_json::Value::Object(expected)) => {
            for (name, expected) in expected {
                assert_same_numbers(pane.get(name).unwrap_or_else(|| panic!("no {name} in {pane:?}")), expected);
            }
        }
        (serde_json::Value::Number(pane), serde_json::Value::Number(expected)) => {
            assert_eq!(pane.as_f64(), expected.as_f64());
        }
        (pane, expected) => assert_eq!(pane, expected),
    }
}
