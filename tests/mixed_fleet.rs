//! Devices of every preset at once, through the real driver with the clock of the test:
//! every window, every late reading and every count is what the books of the fleet say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::engine::Engine;
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::{MemoryStore, memory_store};
use tidegate::engine::step::{Effect, Event, Message};
use tidegate::fleet::mixed::books::{Books, ReceiveTimes, Rules};
use tidegate::fleet::mixed::{MixedSpec, START, Sent, plan};
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
