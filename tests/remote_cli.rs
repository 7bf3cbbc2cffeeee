//! `tidegate remote` as a program, against a real broker. The gateways are this test: it reads
//! what is published for them and answers as the contract says.
//!
//! Every test has its own broker, and waits for what comes, never for time.

#![cfg(all(feature = "agent", feature = "tools"))]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#![expect(clippy::disallowed_methods, reason = "deadlines of a test that waits for other processes")]

#[path = "end_to_end/broker.rs"]
mod broker;
#[path = "shell/certificates.rs"]
#[expect(dead_code, reason = "certificates that are not valid now are for other tests")]
mod certificates;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate::agent::mqtt::client::{ClientSpec, Message, Publisher, Received, Subscriber};
use tidegate::agent::signed;
use tidegate::config::raw::{Document, Format};

use broker::Broker;
use broker::needs::{Need, has};

/// Generous: two cores are shared with compilers.
const WAIT_MAX: Duration = Duration::from_secs(150);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Where an answer is wanted: longer than any machine takes.
const PATIENT: &str = "120s";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEID3x49AKOumpx+hcrqEhVLdILZ5v9m2ZSmCkoTmlT4Qd\n\
                   -----END PRIVATE KEY-----\n";

/// A broker and everything that gateways are on it.
struct World {
    broker: Broker,
    gateways: Subscriber,
    publisher: Publisher,
    dir: TempDir,
    /// Topics on which something came for gateways, in order.
    heard: Vec<(String, Value)>,
}

/// How a run of the program ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl World {
    fn start() -> World {
        let broker = Broker::mosquitto(&[]);
        let spec =
            |id: &str| ClientSpec { host: "127.0.0.1".into(), port: broker.port, client_id: id.into(), clean: true };
        let mut gateways = Subscriber::new(spec("gateways"), &["tidegate/+/config/desired", "tidegate/+/cmd/+"]);
        let deadline = Instant::now() + WAIT_MAX;
        while !matches!(gateways.next(LOOK_AGAIN), Received::Subscribed(_)) {
            assert!(Instant::now() < deadline, "the broker does not answer");
        }
        let publisher = Publisher::new(spec("gateways-out"));
        World { broker, gateways, publisher, dir: tempfile::tempdir().unwrap(), heard: Vec::new() }
    }

    /// Retained, and there when it returns.
    fn keep(&mut self, topic: &str, document: &Value) {
        self.publisher.publish_retained(topic, document.to_string().as_bytes(), WAIT_MAX).unwrap();
        self.publisher.flush(WAIT_MAX).unwrap();
    }

    fn online(&mut self, gateway: &str) {
        let status = json!({"v": 1, "gw": gateway, "state": "online", "version": "0.1.0", "health": {"state": "ok"}});
        self.keep(&format!("tidegate/{gateway}/status"), &status);
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn spawn(&self, args: &[&str]) -> Child {
        let broker = format!("mqtt://127.0.0.1:{}", self.broker.port);
        let ours: &[&str] = if args.contains(&"--broker") { &[] } else { &["--broker", &broker] };
        Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .arg("remote")
            .args(ours)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs it to its end. `answer`: what gateways publish on each thing that comes for them, on
    /// `config/reported` retained.
    fn run(&mut self, args: &[&str], mut answer: impl FnMut(&mut World, &str, &Value)) -> Ended {
        let mut child = self.spawn(args);
        let deadline = Instant::now() + WAIT_MAX;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not end");
            if let Received::Message(message) = self.gateways.next(LOOK_AGAIN) {
                let (topic, payload) = self.take(&message);
                answer(self, &topic, &payload);
            }
        }
        let output = child.wait_with_output().unwrap();
        // What it published as its last act.
        while let Received::Message(message) = self.gateways.next(LOOK_AGAIN) {
            self.take(&message);
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn take(&mut self, message: &Message) -> (String, Value) {
        self.gateways.ack(message);
        let payload: Value = serde_json::from_slice(&message.payload).unwrap();
        self.heard.push((message.topic.clone(), payload.clone()));
        (message.topic.clone(), payload)
    }

    fn send(&mut self, topic: &str, document: &Value) {
        self.publisher.publish(topic, document.to_string().as_bytes(), WAIT_MAX).unwrap();
        self.publisher.flush(WAIT_MAX).unwrap();
    }

    fn topics(&self) -> Vec<&str> {
        self.heard.iter().map(|(topic, _)| topic.as_str()).collect()
    }
}

fn hash(document: &Value) -> String {
    Document::parse(&document.to_string(), Format::Json).unwrap().hash()
}

/// What a gateway says of a document.
fn report(desired: &Value, state: &str) -> Value {
    json!({"v": 1, "gw": "?", "at_ms": 1_700_000_000_000_u64, "state": state, "version": desired["version"],
        "hash": hash(desired), "from": "uplink", "confirmed": {"version": 4, "hash": "ff"}, "problems": [],
        "warnings": [], "history": [], "safe_mode": false})
}

/// `tidegate/<gw>/…` to the gateway.
fn gateway_of(topic: &str) -> &str {
    topic.split('/').nth(1).unwrap()
}

fn reported(topic: &str) -> String {
    format!("tidegate/{}/config/reported", gateway_of(topic))
}

fn nobody(_: &mut World, topic: &str, _: &Value) {
    panic!("nothing should come, and {topic} did");
}

#[test]
fn a_document_is_confirmed_over_applied_and_trial() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    world.keep("tidegate/gw-1/config/reported", &report(&json!({"version": 6}), "confirmed"));
    let file = world.file("d.toml", "trial = '10s'\n[outbox]\nmax_bytes = '1MiB'\n");
    let args = ["--gateway", "gw-1", "--timeout", PATIENT, "set", file.to_str().unwrap()];
    let confirm = |world: &mut World, topic: &str, desired: &Value| {
        for state in ["applied", "trial", "confirmed"] {
            world.keep(&reported(topic), &report(desired, state));
        }
    };
    let ended = world.run(&args, confirm);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document = json!({"version": 7, "trial": "10s", "outbox": {"max_bytes": "1MiB"}});
    assert_eq!(world.heard, [("tidegate/gw-1/config/desired".to_owned(), document)]);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(
        lines,
        ["gw-1: published, version 7", "gw-1: applied", "gw-1: trial", "gw-1: confirmed, version 7"],
        "{ended:?}"
    );
    // The report that is there now is of version 7, so the next is another document.
    let ended = world.run(&[&args[..], &["--json"]].concat(), |world, topic, desired| {
        world.keep(&reported(topic), &report(desired, "unchanged"));
    });
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &told["ok"], &told["reported"]["version"]), (Some(0), &json!(true), &json!(8)));
}

#[test]
fn a_rejected_document_names_every_problem_and_paints_nothing() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    let file = world.file("d.json", r#"{"version": 3, "streams": []}"#);
    let args = ["--gateway", "gw-1", "--timeout", PATIENT, "set", file.to_str().unwrap()];
    let ended = world.run(&args, |world, topic, desired| {
        // Of another operator's document.
        world.keep(&reported(topic), &report(&json!({"version": 9}), "confirmed"));
        let mut report = report(desired, "rejected");
        report["problems"] = json!([
            {"path": "streams", "value": "a list", "message": "no streams", "hint": "one at least"},
            {"path": "outbox.max_bytes", "message": "\u{1b}[2J too small"},
        ]);
        world.keep(&reported(topic), &report);
    });
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let said = "gw-1: published\ngw-1: rejected, version 3\n  problem: streams = a list: no streams\n      hint: one at \
                least\n  problem: outbox.max_bytes: \\u{1b}[2J too small\n";
    assert_eq!(ended.out, said);

    for (state, hash) in [("rolled_back", None), ("rejected", Some(Value::Null))] {
        let ended = world.run(&args, |world, topic, desired| {
            let mut report = report(desired, state);
            if let Some(hash) = &hash {
                (report["hash"], report["version"]) = (hash.clone(), Value::Null);
            }
            world.keep(&reported(topic), &report);
        });
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.out.contains(&format!("gw-1: {state}, version ")), "{ended:?}");
    }
}

#[test]
fn silence_is_told_from_a_refusal_and_no_wait_waits_for_the_broker_only() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    world.keep("tidegate/gw-1/status", &json!({"v": 1, "gw": "gw-1", "state": "offline"}));
    // What was there before is no answer, though it has the hash.
    world.keep("tidegate/gw-1/config/reported", &report(&json!({"version": 3}), "confirmed"));
    let file = world.file("d.toml", "version = 3\n");
    let args = ["--gateway", "gw-*", "--timeout", "300ms", "set", file.to_str().unwrap()];
    let ended = world.run(&args, |_, _, _| {});
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("gw-1: no answer within 1 s; it is offline"), "{ended:?}");
    let ended = world.run(&[&args[..], &["--no-wait"]].concat(), |_, _, _| {});
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(world.topics(), ["tidegate/gw-1/config/desired"; 2]);
}

#[test]
fn what_cannot_be_tried_ends_with_2_and_touches_nothing() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    let good = world.file("d.toml", "version = 3\n").to_str().unwrap().to_owned();
    let bad = world.file("bad.toml", "version = 3\n[gateway]\nid = 'x'\n").to_str().unwrap().to_owned();
    for (args, part) in [
        (vec!["set", &good], "--gateway is missing"),
        (vec!["--gateway", "gw-*", "set", &good], "no gateway under tidegate matches"),
        (vec!["--gateway", "gw-1", "set", &bad], "bad.toml:2:2: gateway: unknown key"),
        (vec!["--gateway", "gw-1", "set", "missing.toml"], "cannot be read"),
        (vec!["--gateway", "gw-1", "set", &good, "--version", "4"], "--version gives another"),
        (vec!["--gateway", "gw-1", "set", &good, "--key", &good], "no PEM"),
        (vec!["--gateway", "gw-1", "cmd", "flush"], "--yes puts the id"),
        (vec!["--gateway", "gw-1", "cmd", "flash"], "flush"),
        (vec!["--broker", "mqtt://127.0.0.1:1", "fleet"], "127.0.0.1:1: "),
        (vec!["--prefix", "#", "fleet"], "without wildcards"),
    ] {
        let ended = world.run(&args, nobody);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.err.contains(part), "{args:?}: {ended:?}");
    }
    assert!(world.heard.is_empty());
}

#[test]
fn batches_stop_at_the_first_rejection_and_name_what_was_not_touched() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    for gateway in ["gw-1", "gw-2", "gw-3", "gw-4", "gw-5", "other"] {
        world.online(gateway);
    }
    let file = world.file("d.toml", "[outbox]\n");
    let args = ["--gateway", "gw-?", "--timeout", PATIENT, "set", file.to_str().unwrap(), "--batch", "2"];
    let ended = world.run(&args, |world, topic, desired| {
        let state = if gateway_of(topic) == "gw-3" { "rejected" } else { "confirmed" };
        world.keep(&reported(topic), &report(desired, state));
    });
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err, "not touched: gw-5\n");
    let topics = ["gw-1", "gw-2", "gw-3", "gw-4"].map(|gateway| format!("tidegate/{gateway}/config/desired"));
    assert_eq!(world.topics(), topics.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(ended.out.contains("gw-3: rejected, version 1\n") && ended.out.contains("gw-4: confirmed"), "{ended:?}");

    // One by one, unless told otherwise; silence stops it, too.
    world.heard.clear();
    let args = ["--gateway", "gw-?", "--timeout", "300ms", "set", file.to_str().unwrap()];
    let ended = world.run(&args, |_, _, _| {});
    assert_eq!((ended.code, world.topics()), (Some(3), vec!["tidegate/gw-1/config/desired"]));
    assert!(ended.err.contains("not touched: gw-2, gw-3, gw-4, gw-5\n"), "{ended:?}");
}

#[test]
fn a_waiting_set_survives_a_restart_of_its_broker() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    let file = world.file("d.toml", "version = 3\n");
    let args = ["--gateway", "gw-1", "--timeout", PATIENT, "set", file.to_str().unwrap()];
    let mut restarted = false;
    let ended = world.run(&args, |world, topic, desired| {
        if !restarted {
            restarted = true;
            world.broker.restart();
            world.keep(&reported(topic), &report(desired, "confirmed"));
        }
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("trying again") && ended.err.contains("connected again"), "{ended:?}");
    assert!(ended.out.ends_with("gw-1: confirmed, version 3\n"), "{ended:?}");
}

#[test]
fn a_command_is_answered_by_its_id_and_a_destructive_one_names_its_gateway() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    let answer = |reply: Value| {
        move |world: &mut World, topic: &str, body: &Value| {
            let strange = json!({"v": 1, "id": "somebody else's", "ok": false, "error": "not ours"});
            world.send(&format!("{topic}/reply"), &strange);
            let mut reply = reply.clone();
            reply["id"] = body["id"].clone();
            world.send(&format!("{topic}/reply"), &reply);
        }
    };
    let base = ["--gateway", "gw-1", "--timeout", PATIENT, "cmd"];
    let args = [&base[..], &["log-level", "level=debug", "n=7"]].concat();
    let ended = world.run(&args, answer(json!({"v": 1, "gw": "gw-1", "ok": true, "result": {"level": "debug"}})));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(serde_json::from_str::<Value>(&ended.out).unwrap(), json!({"level": "debug"}));
    let (topic, body) = world.heard.pop().unwrap();
    assert_eq!(
        (topic.as_str(), &body["level"], &body["n"]),
        ("tidegate/gw-1/cmd/log-level", &json!("debug"), &json!(7))
    );
    assert!(body["id"].as_str().unwrap().len() == 16 && body["gateway"].is_null(), "{body}");

    let args = [&base[..], &["flush", "--yes"]].concat();
    let ended = world.run(&args, answer(json!({"v": 1, "ok": false, "error": "no such stream", "hint": "there is s"})));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err, "gw-1: no such stream\n    hint: there is s\n");
    assert_eq!(world.heard.pop().unwrap().1["gateway"], "gw-1");

    let args = ["--gateway", "gw-1", "--timeout", "300ms", "cmd", "status"];
    let ended = world.run(&args, |_, _, _| {});
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("gw-1: no answer"), "{ended:?}");

    // What a gateway does not open has no id.
    let ended = world.run(&[&base[..], &["status"]].concat(), |world, topic, _| {
        let reply = json!({"v": 1, "id": null, "ok": false, "error": "it is not signed"});
        world.send(&format!("{topic}/reply"), &reply);
    });
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), "gw-1: it is not signed\n"), "{ended:?}");

    // Whose answer was lost with the connection, or whose command: it is asked for again, by its id.
    let mut lost = None;
    let ended = world.run(&[&base[..], &["snapshot"]].concat(), |world, topic, body| {
        let id = body["id"].clone();
        if lost.is_none() {
            lost = Some(id);
            world.broker.restart();
        } else {
            assert_eq!(lost.as_ref(), Some(&id));
            world.send(&format!("{topic}/reply"), &json!({"ok": true, "id": id, "result": {}}));
        }
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");

    world.online("gw-1");
    world.online("gw-2");
    let args = ["--gateway", "*", "--timeout", PATIENT, "--json", "cmd", "restart", "--yes"];
    let ended = world.run(&args, answer(json!({"ok": true, "result": null})));
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 2), "{ended:?}");
    for (topic, body) in &world.heard[world.heard.len() - 2..] {
        assert_eq!(body["gateway"], gateway_of(topic));
    }
}

#[test]
fn the_fleet_is_a_table_and_get_shows_the_report_and_the_document() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    let ended = world.run(&["fleet"], nobody);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    world.online("gw-1");
    world.keep("tidegate/gw%202/status", &json!({"v": 1, "state": "offline"}));
    let desired = json!({"version": 5, "outbox": {"max_bytes": "1MiB"}});
    let mut document = report(&desired, "confirmed");
    document["hash"] = "0123456789abcdef0123456789abcdef".into();
    world.keep("tidegate/gw-1/config/reported", &document);
    let ended = world.run(&["fleet"], nobody);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let table = "gateway  state    version  config       hash      waiting  lag  health\n\
                 gw 2     offline  -        -            -         -        -    -\n\
                 gw-1     online   0.1.0    5 confirmed  01234567  -        -    ok\n";
    assert_eq!(ended.out, table);
    let ended = world.run(&["fleet", "--json", "--gateway", "gw 2"], nobody);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&told["gw"], &told["status"]["state"]), (&json!("gw 2"), &json!("offline")));

    let ended = world.run(&["get", "--gateway", "gw-1"], |world, topic, body| {
        let reply = json!({"v": 1, "id": body["id"], "ok": true, "result": {"desired": desired}});
        world.send(&format!("{topic}/reply"), &reply);
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let head =
        "gw-1\n  confirmed  version 5  hash 0123456789abcdef0123456789abcdef  from uplink  2023-11-14T22:13:20Z\n";
    let rest = ended.out.strip_prefix(head).unwrap().strip_prefix("  confirmed: version 4  hash ff\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(rest).unwrap(), desired);
    assert_eq!(world.run(&["get", "--gateway", "gw-9"], nobody).code, Some(3));
}

#[test]
fn a_diff_is_what_would_change() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    let running = json!({"version": 7, "streams": [{"name": "s", "windows": [{"name": "1m", "size": "1m"}]}]});
    let file = |world: &World, size: &str| {
        let text = format!("[[streams]]\nname = 's'\nwindows = [{{ name = '1m', size = '{size}' }}]\n");
        world.file("d.toml", &text).to_str().unwrap().to_owned()
    };
    let base = ["--gateway", "gw-1", "--timeout", PATIENT, "diff"];
    let answer = |reply: Value| {
        move |world: &mut World, topic: &str, body: &Value| {
            let mut reply = reply.clone();
            reply["id"] = body["id"].clone();
            world.send(&format!("{topic}/reply"), &reply);
        }
    };
    let good = json!({"ok": true, "result": {"desired": running}});
    let same = file(&world, "1m");
    let ended = world.run(&[&base[..], &[&same]].concat(), answer(good.clone()));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "gw-1: the same\n"), "{ended:?}");
    let other = file(&world, "5m");
    let ended = world.run(&[&base[..], &[&other]].concat(), answer(good));
    let told = "gw-1:\n~ streams[s].windows[1m].size: \"1m\" -> \"5m\"\n";
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), told), "{ended:?}");
    let refused = json!({"ok": false, "error": "signed commands only"});
    let ended = world.run(&[&base[..], &[&other]].concat(), answer(refused));
    assert_eq!((ended.code, ended.err.as_str()), (Some(2), "gw-1: signed commands only\n"), "{ended:?}");
}

#[test]
fn what_is_signed_opens_with_the_key_that_is_printed() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    let key = world.file("key.pem", KEY).to_str().unwrap().to_owned();
    let ended = world.run(&["key", &key], nobody);
    let printed = ended.out.strip_prefix("[remote]\npublic_key = \"").unwrap().strip_suffix("\"\n").unwrap();
    let public = signed::public_key(printed).unwrap();
    let open = move |kind: &str, gateway: &str, payload: &Value| -> Value {
        let text = signed::open(&public, kind, gateway, payload.to_string().as_bytes()).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let file = world.file("d.toml", "").to_str().unwrap().to_owned();
    let args = ["--gateway", "gw-1", "--timeout", PATIENT, "set", &file, "--version", "9", "--key", &key];
    let ended = world.run(&args, |world, topic, payload| {
        let desired = open("config", "gw-1", payload);
        assert_eq!(desired, json!({"version": 9}));
        world.keep(&reported(topic), &report(&desired, "confirmed"));
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let args = ["--gateway", "gw-1", "--timeout", PATIENT, "cmd", "rollback", "--yes", "--key", &key];
    let ended = world.run(&args, |world, topic, payload| {
        let body = open("cmd/rollback", "gw-1", payload);
        assert!(body["gateway"] == "gw-1" && body["version"].as_u64() > Some(1_700_000_000_000), "{body}");
        let reply = json!({"ok": true, "id": body["id"], "result": {}});
        world.send(&format!("{topic}/reply"), &reply);
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Through TLS, and by name and password; whoever the broker does not know is told so.
#[test]
fn the_broker_may_want_tls_and_a_password() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    certificates::authority(dir.path(), "ca");
    certificates::certificate(dir.path(), "ca", "server");
    let words = dir.path().join("words");
    let made = Command::new("mosquitto_passwd").args(["-b", "-c"]).arg(&words).args(["operator", "secret"]).status();
    assert!(made.unwrap().success());
    fs::write(dir.path().join("password"), "secret\n").unwrap();
    fs::write(dir.path().join("wrong"), "other\n").unwrap();
    let port = broker::free_port();
    let lines = [
        &format!("listener {port} 127.0.0.1"),
        "cafile {dir}/ca.crt",
        "certfile {dir}/server.crt",
        "keyfile {dir}/server.key",
        "allow_anonymous false",
        "password_file {dir}/words",
    ];
    let broker = Broker::start_in(dir, &lines);
    let fleet = |scheme: &str, port: u16, more: &[&str]| {
        let url = format!("{scheme}://127.0.0.1:{port}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["remote", "--broker", &url, "--username", "operator"]).args(more).arg("fleet");
        let output = command.current_dir(broker.dir()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let trusted = ["--ca-file", "ca.crt", "--password-file", "password"];
    let (code, said) = fleet("mqtts", port, &trusted);
    assert_eq!((code, said.as_str()), (Some(3), "nothing under tidegate from such a gateway\n"));
    for (scheme, port, more, part) in [
        ("mqtts", port, &["--ca-file", "ca.crt", "--password-file", "wrong"], "refused the connection"),
        ("mqtts", port, &["--ca-file", "server.crt", "--password-file", "password"], "certificate"),
        ("mqtt", broker.port, &["--ca-file", "ca.crt", "--password-file", "password"], "are for mqtts://"),
    ] {
        let (code, said) = fleet(scheme, port, more);
        assert!(code == Some(2) && said.contains(part), "{code:?}: {said}");
    }
}

#[test]
fn watch_prints_a_line_for_each_change_over_a_restart_of_its_broker() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let mut world = World::start();
    world.online("gw-1");
    let mut child = world.spawn(&["watch"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Without the time before it.
    let mut next = || lines.next().unwrap().unwrap().split_once("Z  ").unwrap().1.to_owned();
    assert_eq!(next(), "gw-1  status: online, ok, tidegate 0.1.0");
    // Once more the same, which is not told.
    world.online("gw-1");
    world.keep("tidegate/gw-1/config/reported", &report(&json!({"version": 3}), "trial"));
    assert!(next().starts_with("gw-1  config: trial, version 3, hash "));
    world.broker.restart();
    world.keep("tidegate/gw-1/status", &json!({"v": 1, "state": "offline"}));
    assert_eq!(next(), "gw-1  status: offline");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
