//! Devices of every preset at once, through the real driver with the clock of the test:
//! every window, every late reading and every count is what the books of the fleet say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::config::preset;
use tidegate::engine::Engine;
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::{MemoryStore, memory_store};
use tidegate::engine::step::{Effect, Event, Message};
use tidegate::fleet::mixed::books::{Books, ReceiveTimes, Rules};
use tidegate::fleet::mixed::{ALL, MixedSpec, START, Sent, plan};
use tidegate::fleet::receiver::{self, Receiver};
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, Span, WallTime};

const RULES: Rules = Rules {
    windows: &[("1m", Span::from_secs(60)), ("10m", Span::from_secs(600))],
    disorder: Span::from_secs(10),
    lateness: Span::from_secs(60),
};

fn config() -> String {
    format!("gateway.id = \"gw-1\"\n{}", RULES.streams(|_| "off"))
}

fn now(at: Span) -> Now {
    let wall = WallTime::from_millis((START + at).as_millis());
    Now { proc: ProcTime::from_millis(at.as_millis()), wall, quality: ClockQuality::Synced }
}

/// A gateway and its cloud.
struct Gateway {
    driver: Driver<MemoryStore>,
    receiver: Receiver,
    /// New records in the order of arrival.
    log: Vec<Value>,
}

impl Gateway {
    fn start() -> Gateway {
        let pipeline = check_for_replay(&config(), "mixed.toml").unwrap_or_else(|refused| panic!("{refused}")).config;
        let mut driver = Driver::start(pipeline, memory_store(), now(Span::ZERO)).unwrap();
        driver.handle(now(Span::ZERO), Event::InputLive(true));
        driver.handle(now(Span::ZERO), Event::UplinkUp);
        Gateway { driver, receiver: Receiver::new(), log: Vec::new() }
    }

    fn send(&mut self, sent: &Sent) {
        self.sleep_until(sent.at);
        let message = &sent.message;
        let message =
            Message { topic: &message.topic, payload: &message.payload, retain: sent.retained, dup: false, tag: None };
        self.driver.handle(now(sent.at), Event::Message(message));
    }

    /// As the agent sleeps: from deadline to deadline.
    fn sleep_until(&mut self, until: Span) {
        while let Some(at) = self.driver.next_deadline().filter(|at| at.as_millis() < until.as_millis()) {
            let at = Span::from_millis(at.as_millis());
            let mut batches = Vec::new();
            self.driver.advance(now(at), &mut |effect| {
                if let Effect::Publish(batch) = effect {
                    batches.push(batch);
                }
            });
            for batch in batches {
                let applied = self.receiver.handle_message(&batch.payload).unwrap();
                self.log.extend(
                    applied.into_iter().filter(|one| one.effect == receiver::Effect::New).map(|one| one.record),
                );
                self.driver.handle(now(at), Event::UplinkAcked(batch.id));
            }
        }
    }
}

fn seed(fixed: u64) -> u64 {
    let seed = std::env::var("FLEET_SEED").map_or(fixed, |text| text.parse().expect("FLEET_SEED is a number"));
    println!("FLEET_SEED={seed}");
    seed
}

fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}: {} differences\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
}

#[test]
fn an_hour_of_every_preset_at_once_gives_the_exact_windows_and_counts() {
    let spec = MixedSpec {
        seed: seed(1),
        devices: 20,
        duration: Span::from_secs(3_600),
        disorder: RULES.disorder,
        retained: true,
    };
    let messages = plan(&spec);
    let (mut gateway, mut books) = (Gateway::start(), Books::new(RULES));
    for sent in &messages {
        gateway.send(sent);
        books.take(sent, START + sent.at);
    }
    let end = messages.last().unwrap().at + Span::from_secs(60);
    gateway.sleep_until(end);

    println!("{} messages, {} records at the cloud", messages.len(), gateway.log.len());
    let status = serde_json::to_value(gateway.driver.status(now(end))).unwrap();
    assert_none("counts", &books.check_counts(&status, ReceiveTimes::Known));
    assert_eq!(status["unmatched"], 0);
    assert_none("windows", &books.check_windows(&gateway.receiver, ReceiveTimes::Known));
    assert_none("late readings", &books.check_late(&gateway.receiver));
    assert_none("idle panes", &books.check_idle(gateway.log.iter(), ReceiveTimes::Known, |_| true));
    assert_eq!(gateway.receiver.holes(), []);
    assert_eventful(&status, &gateway.log);
}

/// Nothing that the books could be wrong about is missing from the hour.
fn assert_eventful(status: &Value, log: &[Value]) {
    let streams = status["streams"].as_array().unwrap();
    let sum = |path: &str| streams.iter().filter_map(|stream| stream.pointer(path)?.as_u64()).sum::<u64>();
    assert!(sum("/devices") >= 200, "{} devices", sum("/devices"));
    for what in ["accepted", "rejected", "duplicate", "ignored", "filtered", "availability"] {
        assert!(sum(&format!("/ledger/{what}")) > 5, "{what}");
    }
    for stream in streams {
        let (name, count) = (&stream["name"], |path: &str| stream.pointer(path).and_then(Value::as_u64).unwrap_or(0));
        assert!(count("/ledger/accepted") > 1_000 && count("/ledger/rejected") > 20, "{name}");
        let has_clock = log.iter().any(|record| record["stream"] == *name && record["time_source"] == "device");
        let is_late = count("/windows/0/late_update") > 0 && count("/windows/0/side_output") > 0;
        assert!(is_late || !has_clock, "{name} has late readings");
        let says_who_is_there = count("/ledger/availability") > 0;
        let is_idle = |record: &Value| record["stream"] == *name && record["pane"] == "idle";
        assert!(log.iter().any(is_idle) || !says_who_is_there, "{name} has panes of devices that are offline");
    }
    let reasons: BTreeSet<&str> = streams
        .iter()
        .flat_map(|stream| stream["ledger"]["rejected_by"].as_object().unwrap().keys())
        .map(String::as_str)
        .collect();
    assert!(reasons.len() >= 14, "{reasons:?}");
}

/// A further preset comes with the devices that it is for.
#[test]
fn every_preset_has_its_devices() {
    // Its devices keep a state over messages; they are simulated where that is tested.
    let elsewhere = ["sparkplug-b"];
    let named: BTreeSet<&str> = preset::ALL.iter().map(|preset| preset.name).collect();
    let wanted: BTreeSet<&str> = named.into_iter().filter(|name| !elsewhere.contains(name)).collect();
    assert_eq!(ALL.iter().map(|system| system.name()).collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn the_time_of_a_tracker_is_no_value_of_it() {
    let text = "gateway.id = \"gw-1\"\n[[streams]]\nname = \"s\"\npreset = \"teltonika\"\n";
    let mut engine = Engine::new(check_for_replay(text, "s.toml").unwrap_or_else(|refused| panic!("{refused}")).config);
    let payload = br#"{"state":{"reported":{"ts":1713970366000,"sp":63}}}"#;
    let readings = engine.trace(now(Span::ZERO), "352093080000001/data", payload).readings.unwrap();
    assert_eq!(readings.records[0].at.map(EventTime::as_millis), Some(1_713_970_366_000));
    assert_eq!(readings.records[0].values, [("state.reported.sp".to_owned(), 63.0)]);
}
