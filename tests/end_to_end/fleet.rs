//! `tidegate fleet` as a program, against a real broker.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidegate::agent::mqtt::client::{ClientSpec, Received, Subscriber};
use tidegate::fleet::load::{Load, LoadSpec, Share};
use tidegate::model::time::EventTime;

use crate::broker::Broker;
use crate::cloud::WAIT_MAX;
use crate::proxy::Proxy;
use crate::scene::{PERSISTENT, wait_until};

const START: &str = "1700000000000";
/// How often each message has come, by topic and payload.
type Messages = BTreeMap<(String, Vec<u8>), usize>;

fn fleet(port: u16, args: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["fleet", "--json", "--broker", &format!("mqtt://127.0.0.1:{port}")])
        .args(args.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Its exit code and its summary.
fn finish(child: Child) -> (Option<i32>, Value) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let summary = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code(), summary)
}

/// Somebody who gets everything that is sent to a broker.
struct Audience {
    subscriber: Subscriber,
    messages: Messages,
}

impl Audience {
    fn of(port: u16) -> Audience {
        let spec = ClientSpec { host: "127.0.0.1".into(), port, client_id: "audience".into(), clean: false };
        let mut audience = Audience { subscriber: Subscriber::new(spec, &["#"]), messages: Messages::new() };
        wait_until("the audience subscribes", || {
            matches!(audience.subscriber.next(Duration::from_millis(100)), Received::Subscribed(_))
        });
        audience
    }

    /// Until there are so many different ones.
    fn hear(&mut self, different: u64) {
        let deadline = Instant::now() + WAIT_MAX;
        while (self.messages.len() as u64) < different && Instant::now() < deadline {
            self.hear_one();
        }
    }

    fn hear_one(&mut self) {
        if let Received::Message(message) = self.subscriber.next(Duration::from_millis(20)) {
            self.subscriber.ack(&message);
            *self.messages.entry((message.topic, message.payload.to_vec())).or_default() += 1;
        }
    }

    fn times(&self) -> u64 {
        self.messages.values().sum::<usize>() as u64
    }
}

fn count(summary: &Value, key: &str) -> u64 {
    summary[key].as_u64().unwrap_or_else(|| panic!("{key} in {summary}"))
}

#[test]
fn what_the_summary_says_has_arrived_at_every_qos_and_in_both_versions() {
    let broker = Broker::start(PERSISTENT);
    let mut audience = Audience::of(broker.port);
    let mut before = 0;
    for (seed, more) in ["--qos 0", "--qos 1", "--qos 2", "--qos 1 --protocol 5", "--qos 2 --protocol 5 --persistent"]
        .iter()
        .enumerate()
    {
        let args = format!("--devices 60 --connections 7 --rate max --period 1s --messages 1500 --seed {seed} {more}");
        let (code, summary) = finish(fleet(broker.port, &format!("{args} --start {START}")));
        assert_eq!(code, Some(0), "{more}: {summary}");
        assert_eq!(count(&summary, "sent"), 1_500, "{more}");
        assert_eq!(count(&summary, "acknowledged"), 1_500, "{more}");
        audience.hear(before + 1_500);
        assert_eq!(audience.times(), before + 1_500, "{more}: each of them once");
        before += 1_500;
    }
}

#[test]
fn a_run_is_named_by_its_seed_and_start_and_survives_a_restart_of_its_broker() {
    let mut broker = Broker::start(PERSISTENT);
    let mut audience = Audience::of(broker.port);
    let args = "--devices 40 --connections 8 --seconds 4 --period 20ms --disorder 100ms --gap-percent 25 --gap 1s";
    let child = fleet(broker.port, &format!("{args} --seed 7 --start {START} --format mixed"));
    audience.hear(500);
    broker.restart();
    let (code, summary) = finish(child);
    assert_eq!(code, Some(0), "{summary}");
    assert!(count(&summary, "connections_lost") >= 8, "{summary}");

    let spec = LoadSpec {
        seed: 7,
        devices: 40,
        start: EventTime::from_millis(1_700_000_000_000),
        duration: Some(Duration::from_secs(4)),
        period: Duration::from_millis(20),
        disorder: Duration::from_millis(100),
        gaps: (Share::per_million(250_000), Duration::from_secs(1)),
        burst: 1,
        stragglers: (Share::NONE, Duration::ZERO),
        skew: (Share::NONE, Duration::ZERO),
        noise: Share::NONE,
        wire: "mixed".parse().unwrap(),
    };
    let mut expected = Messages::new();
    for shipment in Load::new(spec) {
        *expected.entry((shipment.topic, shipment.payload)).or_default() += 1;
    }
    assert_eq!(count(&summary, "sent"), expected.values().sum::<usize>() as u64);
    // Devices without a clock send the same bytes again and again: at least as often as they did.
    let missing = |audience: &Audience| {
        expected.iter().filter(|(message, times)| audience.messages.get(*message).unwrap_or(&0) < *times).count()
    };
    let deadline = Instant::now() + WAIT_MAX;
    while missing(&audience) > 0 && Instant::now() < deadline {
        (0..200).for_each(|_| audience.hear_one());
    }
    assert_eq!(missing(&audience), 0);
    assert!(audience.messages.keys().all(|message| expected.contains_key(message)), "and nothing else");
}

#[test]
fn at_qos_2_with_sessions_that_are_kept_every_message_arrives_once_over_cut_connections() {
    let broker = Broker::start(PERSISTENT);
    let wire = Proxy::start(broker.port);
    let mut audience = Audience::of(broker.port);
    let args = "--devices 20 --connections 4 --seconds 4 --period 20ms --qos 2 --persistent --seed 3";
    let child = fleet(wire.port, &format!("{args} --start {START}"));
    for cut in 1..=3 {
        audience.hear(cut * 700);
        wire.cut();
    }
    let (code, summary) = finish(child);
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(count(&summary, "sent"), 20 * 200);
    assert!(count(&summary, "connections_lost") >= 4, "{summary}");
    audience.hear(20 * 200);
    assert_eq!(audience.messages.len(), 20 * 200);
    assert_eq!(audience.times(), 20 * 200, "each of them once");
}

#[test]
fn a_signal_ends_a_run_without_an_end_and_a_broker_that_is_not_there_gives_exit_code_1() {
    let broker = Broker::start(PERSISTENT);
    let mut audience = Audience::of(broker.port);
    let child = fleet(broker.port, "--devices 10 --seconds 0 --period 50ms --seed 5");
    audience.hear(1);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let (code, summary) = finish(child);
    assert_eq!(code, Some(0), "{summary}");
    assert!(count(&summary, "sent") > 0);

    let nobody = crate::broker::free_port();
    let (code, summary) = finish(fleet(nobody, "--wait 300ms"));
    assert_eq!(code, Some(1), "{summary}");
    assert_eq!((count(&summary, "sent"), &summary["complete"]), (0, &Value::Bool(false)));
}

#[test]
fn a_broker_that_lets_nobody_in_ends_a_run_at_once_and_one_that_is_full_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let passwords = dir.path().join("passwords");
    fs::write(&passwords, "").unwrap();
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o600)).unwrap();
    let closed = Broker::start_own(&format!("password_file = '{}'", passwords.display()), true);
    // No end by itself: it would be waited for until the test is given up.
    let output = fleet(closed.port, "--devices 10 --wait 0").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not authorised") && said.contains("--username NAME"), "{said}");

    let full = Broker::start_own("max_connections = 4", true);
    let output = fleet(full.port, "--devices 10 --wait 3s").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("4 of 10 are there, and its limit is probably 4"), "{said}");
}
