//! The whole shell around a fake engine.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use serde_json::Value;
use tidegate::agent::clock::SystemClock;
use tidegate::agent::engine_thread::Engine;
use tidegate::agent::{control, supervise};
use tidegate::config::boot::{Config, StorageSpec};
use tidegate::engine::spec::{PipelineSpec, StreamSpec};
use tidegate::engine::step::{Effect, Event};
use tidegate::model::ids::Name;
use tidegate::model::limits::RESERVE_DEFAULT;
use tidegate::model::template::Template;
use tidegate::model::time::{Now, ProcTime};
use tidegate::model::topic::TopicPattern;
use tokio::sync::oneshot;

use crate::broker::{Broker, free_port};
use crate::echo::Echo;
use crate::peer::Peer;
use crate::task::{broker_spec, wait_until};

fn pipeline() -> PipelineSpec {
    let topic = TopicPattern::parse("d/{device}").expect("valid");
    let device = Template::parse("{device}", &topic).expect("valid");
    let stream = StreamSpec::new(Name::new("s").expect("valid"), topic, device);
    PipelineSpec { topic_prefix: "t".into(), ..PipelineSpec::new(Name::new("gw 1").expect("valid"), vec![stream]) }
}

struct Agent {
    control: PathBuf,
    stop: oneshot::Sender<&'static str>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Agent {
    fn start(dir: &Path, devices: u16, uplink: u16, engine: impl Engine + Send + 'static) -> Agent {
        let control = dir.join("control.sock");
        let config = Config {
            listener: None,
            pipeline: pipeline(),
            devices: Some(broker_spec(devices, "gw")),
            uplink: Some(broker_spec(uplink, "gw-uplink")),
            local: None,
            storage: StorageSpec { path: dir.to_owned(), reserve_bytes: RESERVE_DEFAULT },
            control: Some(control.clone()),
            remote: None,
            hash: "c0ffee".into(),
        };
        let (stop, stopping) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let stop = async { stopping.await.expect("the test stops the agent") };
            runtime.block_on(supervise(&config, engine, SystemClock::start(), stop)).map(|_ended| ())
        });
        Agent { control, stop, thread }
    }

    fn status(&self) -> Value {
        let Ok(text) = control::ask(&self.control, "status") else { return Value::Null };
        serde_json::from_str(&text).expect("JSON")
    }

    fn wait_for(&self, pointer: &str, value: &Value) {
        wait_until(&format!("{pointer} is {value}"), || self.status().pointer(pointer) == Some(value));
    }

    fn stop(self) -> anyhow::Result<()> {
        self.stop.send("test").expect("the agent runs");
        self.thread.join().expect("no panic")
    }
}

fn brokers() -> (tempfile::TempDir, Broker, Broker) {
    (tempfile::tempdir().expect("a temporary directory"), Broker::start(&[]), Broker::start(&[]))
}

#[test]
fn a_message_goes_through_and_the_retained_status_tells_how_the_agent_ended() {
    let (dir, devices, cloud) = brokers();
    let mut results = Peer::connect(cloud.port, "results");
    results.subscribe("t/#");
    let agent = Agent::start(dir.path(), devices.port, cloud.port, Echo::default());
    let first = results.receive();
    assert_eq!((first.topic.as_str(), first.retain), ("t/gw%201/status", false));
    agent.wait_for("/health/state", &"ok".into());
    Peer::connect(devices.port, "device").publish("d/1", b"hello");
    let mut seen = results.receive();
    while seen.topic != "t/out" {
        seen = results.receive();
    }
    assert_eq!(seen.payload, b"hello");
    agent.wait_for("/engine/unsent", &0.into());

    let control = agent.control.clone();
    agent.stop().expect("a clean stop");
    assert!(!control.exists(), "the socket is removed");
    let mut late = Peer::connect(cloud.port, "late");
    late.subscribe("t/gw%201/status");
    let last: Value = serde_json::from_slice(&late.receive().payload).expect("JSON");
    assert_eq!((&last["state"], &last["reason"], &last["gw"]), (&"offline".into(), &"test".into(), &"gw 1".into()));
    assert_eq!(last["config_hash"], "c0ffee");
}

#[test]
fn f53_the_agent_starts_without_any_broker_says_so_and_goes_on_when_they_come() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut devices, mut cloud) = (Broker::start(&[]), Broker::start(&[]));
    devices.stop();
    cloud.stop();
    let agent = Agent::start(dir.path(), devices.port, cloud.port, Echo::default());
    wait_until("both failures are reported", || {
        let reasons = agent.status()["health"]["reasons"].to_string();
        reasons.contains("devices not connected: ")
            && reasons.contains("uplink not connected: ")
            && reasons.matches("refused").count() == 2
    });
    devices.restart();
    agent.wait_for("/devices/connected", &true.into());
    // Offline first: messages are taken while the cloud is away.
    Peer::connect(devices.port, "device").publish("d/1", b"kept");
    agent.wait_for("/engine/unsent", &1.into());
    cloud.restart();
    agent.wait_for("/engine/unsent", &0.into());
    agent.wait_for("/health/state", &"ok".into());
    agent.stop().expect("a clean stop");
}

#[test]
fn a_stop_without_any_broker_is_clean_too() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (stopped_in, mut stopped) = oneshot::channel();
    let engine = Echo::that_tells(stopped_in);
    let agent = Agent::start(dir.path(), free_port(), free_port(), engine);
    agent.wait_for("/v", &1.into());
    agent.stop().expect("a clean stop");
    stopped.try_recv().expect("the engine made its final commit");
}

/// Fails in the middle of its work.
struct Broken;

impl Engine for Broken {
    fn handle(&mut self, _now: Now, _event: Event<'_>) {
        panic!("a bug");
    }
    fn advance(&mut self, _now: Now, _perform: &mut dyn FnMut(Effect)) {}
    fn next_deadline(&self, now: Now) -> Option<ProcTime> {
        Some(now.proc)
    }
    fn stop(&mut self, _now: Now, _perform: &mut dyn FnMut(Effect)) {}
    fn health(&self) -> Vec<String> {
        Vec::new()
    }
    fn unacknowledged(&self) -> usize {
        0
    }
    fn report(&self, _now: Now) -> Value {
        Value::Null
    }
}

#[test]
fn an_engine_that_dies_takes_the_process_with_it_so_that_systemd_starts_it_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let agent = Agent::start(dir.path(), free_port(), free_port(), Broken);
    let ended = agent.thread.join().expect("no panic in the network thread");
    assert!(ended.expect_err("not a clean end").to_string().contains("engine thread ended by itself"));
}
