//! Configuration and commands over MQTT, as somebody at the cloud's broker sees them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate::agent::mqtt::client::{ClientSpec, Publisher, Received, Subscriber};
use tidegate::agent::signed;

use crate::agent::Config;
use crate::broker::Broker;
use crate::cloud::WAIT_MAX;
use crate::scene::{PERSISTENT, Scene, Setting, assert_exact, fleet, seed, wait_until};

/// Somebody who sends documents, and reads what comes back.
pub(crate) struct Operator {
    publisher: Publisher,
    subscriber: Subscriber,
    heard: VecDeque<(String, Value)>,
    requests: u32,
}

impl Operator {
    pub(crate) fn at(port: u16) -> Operator {
        let spec = |id: &str| ClientSpec { host: "127.0.0.1".into(), port, client_id: id.into(), clean: false };
        let subscriber =
            Subscriber::new(spec("operator"), &["tidegate/gw-1/config/reported", "tidegate/gw-1/cmd/+/reply"]);
        let publisher = Publisher::new(spec("operator-sends"));
        let mut operator = Operator { publisher, subscriber, heard: VecDeque::new(), requests: 0 };
        let deadline = Instant::now() + WAIT_MAX;
        while !matches!(operator.subscriber.next(Duration::from_millis(20)), Received::Subscribed(_)) {
            assert!(Instant::now() < deadline, "the cloud's broker does not answer");
        }
        operator
    }

    pub(crate) fn desire_text(&mut self, text: &str) {
        self.publisher.publish_retained("tidegate/gw-1/config/desired", text.as_bytes(), WAIT_MAX).unwrap();
        self.publisher.flush(WAIT_MAX).unwrap();
    }

    pub(crate) fn desire(&mut self, document: &Value) {
        self.desire_text(&document.to_string());
    }

    /// Without waiting for the answer.
    pub(crate) fn ask(&mut self, command: &str, request: &Value) {
        let topic = format!("tidegate/gw-1/cmd/{command}");
        self.publisher.publish(&topic, request.to_string().as_bytes(), WAIT_MAX).unwrap();
        self.publisher.flush(WAIT_MAX).unwrap();
    }

    /// With an id of its own.
    pub(crate) fn command(&mut self, command: &str, mut request: Value) -> Value {
        self.requests += 1;
        request["id"] = json!(format!("request {}", self.requests));
        self.ask(command, &request);
        self.answer_to(&request["id"])
    }

    pub(crate) fn answer_to(&mut self, id: &Value) -> Value {
        self.next(&format!("the answer to {id}"), |topic, said| topic.ends_with("/reply") && said["id"] == *id)
    }

    /// The next report in this state.
    pub(crate) fn report(&mut self, state: &str, version: u64) -> Value {
        self.next(&format!("{state} {version}"), |topic, said| {
            topic.ends_with("/reported") && said["state"] == state && said["version"] == version
        })
    }

    fn next(&mut self, what: &str, is_it: impl Fn(&str, &Value) -> bool) -> Value {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(at) = self.heard.iter().position(|(topic, said)| is_it(topic, said)) {
                let (topic, said) = self.heard.remove(at).unwrap();
                if topic.ends_with("/reported") {
                    // Those before it are history; answers come when they come.
                    let mut rest = self.heard.split_off(at);
                    self.heard.retain(|(topic, _)| topic.ends_with("/reply"));
                    self.heard.append(&mut rest);
                }
                return said;
            }
            assert!(Instant::now() < deadline, "not heard: {what}; but {:#?}", self.heard);
            if let Received::Message(message) = self.subscriber.next(Duration::from_millis(20)) {
                self.heard.push_back((message.topic.clone(), serde_json::from_slice(&message.payload).unwrap()));
                self.subscriber.ack(&message);
            }
        }
    }

    /// What was heard and not asked for by now.
    fn rest(&mut self) -> Vec<String> {
        self.heard.drain(..).map(|(topic, said)| format!("{topic} {said}")).collect()
    }
}

/// The stream of the file, and another one with windows of so many seconds.
fn document(version: u64, size_secs: u64) -> Value {
    json!({
        "version": version,
        "trial": "10s",
        "streams": [
            { "name": "climate", "topic": "devices/{device}/climate", "fields": { "temperature": "/temperature" },
              "time": { "field": "/ts", "unit": "ms" }, "disorder": "2s", "idle_timeout": "1h",
              "windows": [{ "name": "5s", "size": "5s", "lateness": "60s",
                            "aggregates": ["count", "sum", "mean", "min", "max"] }] },
            { "name": "coarse", "topic": "devices/{device}/coarse", "fields": { "temperature": "/temperature" },
              "time": { "field": "/ts", "unit": "ms" }, "disorder": "2s", "idle_timeout": "1h",
              "windows": [{ "name": "w", "size": format!("{size_secs}s"), "aggregates": ["count"] }] },
        ],
    })
}

fn streams_of(scene: &Scene) -> Vec<String> {
    let status = scene.agent.status().unwrap();
    let streams = status["engine"]["streams"].as_array().unwrap();
    streams.iter().map(|stream| stream["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_document_is_confirmed_once_and_each_kind_of_problem_is_told_at_once_with_its_place() {
    let scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    operator.desire(&document(1, 20));
    operator.report("applied", 1);
    let trial = operator.report("trial", 1);
    assert_eq!((&trial["trial_ms"], &trial["confirmed"]["version"]), (&json!(10_000), &Value::Null));
    let confirmed = operator.report("confirmed", 1);
    assert_eq!(confirmed["confirmed"]["version"], 1);
    assert_eq!(streams_of(&scene), ["climate", "coarse"]);
    operator.desire(&document(1, 20));
    operator.report("unchanged", 1);

    let mut wrong = document(2, 20);
    wrong["streems"] = json!([]);
    wrong["trial"] = json!("1s");
    wrong["streams"][0]["disorder"] = json!(5);
    wrong["streams"][1]["windows"][0]["agregates"] = json!(["count"]);
    operator.desire(&wrong);
    let rejected = operator.report("rejected", 2);
    let paths: Vec<&str> =
        rejected["problems"].as_array().unwrap().iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    for path in ["streems", "trial", "streams[0].disorder", "streams[1].windows[0].agregates"] {
        assert!(paths.contains(&path), "{path}: {rejected:#}");
    }
    assert!(rejected.to_string().contains("did you mean `aggregates`?"), "{rejected:#}");
    assert_eq!(rejected["confirmed"]["version"], 1, "what ran goes on");
    for (text, why) in [("{oops", "key must be a string"), ("[]", "must be a table"), ("{}", "is missing")] {
        operator.desire_text(text);
        let rejected = operator.next(why, |_, said| said["state"] == "rejected" && said.to_string().contains(why));
        assert_eq!(rejected["version"], Value::Null);
    }
    assert_eq!(streams_of(&scene), ["climate", "coarse"]);
    assert_eq!(operator.rest(), Vec::<String>::new());
}

#[test]
fn f83_a_document_under_which_the_cloud_does_not_answer_goes_back_by_itself() {
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    operator.desire(&document(1, 20));
    operator.report("confirmed", 1);
    // The broker is heard, and hears nothing.
    scene.uplink_wire.set_deaf(true);
    operator.desire(&document(2, 30));
    wait_until("it is tried", || scene.agent.log().matches("another configuration").count() == 2);
    wait_until("it is taken back", || scene.agent.log().contains("a configuration was not applied"));
    scene.uplink_wire.set_deaf(false);
    scene.uplink_wire.cut();
    let back = operator.report("rolled_back", 2);
    assert_eq!(back["confirmed"]["version"], 1);
    assert!(back["reason"].as_str().unwrap().contains("in time"), "{back}");
    // Retained as it is, it comes with each connection and each start, and is not tried again.
    scene.agent.terminate();
    scene.agent.start();
    operator.report("confirmed", 1);
    assert!(operator.command("config", json!({}))["result"]["version"] == 1);
    operator.desire(&document(2, 30));
    let rejected = operator.report("rejected", 2);
    assert!(rejected.to_string().contains("another version"), "{rejected}");
    operator.desire(&document(3, 30));
    operator.report("confirmed", 3);
}

#[test]
fn a_document_that_ends_the_process_is_never_tried_twice() {
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    operator.desire(&document(1, 20));
    operator.report("confirmed", 1);
    scene.agent.terminate();
    scene.agent.env = vec![("TIDEGATE_TEST_CRASH_ON_VERSION", "2".to_owned())];
    scene.agent.start();
    operator.report("confirmed", 1);
    operator.desire(&document(2, 30));
    wait_until("it crashes", || !scene.agent.is_running());
    scene.agent.restart_if_ended();
    let back = operator.report("rolled_back", 2);
    assert_eq!(back["confirmed"]["version"], 1);
    assert_eq!(operator.command("config", json!({}))["result"]["version"], 1);
    assert!(scene.agent.is_running(), "it would have crashed again");
    assert_eq!(scene.agent.log().matches("crashing, as the environment asks for").count(), 1);
}

#[test]
fn a_kill_in_a_trial_starts_with_the_one_before_and_a_stop_lets_it_be_tried_again() {
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    // It comes behind the subscription.
    operator.next("its first report", |topic, _| topic.ends_with("/reported"));
    scene.uplink_wire.set_deaf(true);
    operator.desire(&document(1, 20));
    wait_until("it is tried", || scene.agent.log().contains("another configuration"));
    scene.agent.terminate();
    scene.uplink_wire.set_deaf(false);
    scene.agent.start();
    operator.report("confirmed", 1);
    scene.uplink_wire.set_deaf(true);
    operator.desire(&document(2, 30));
    wait_until("it is tried", || scene.agent.log().matches("another configuration").count() == 3);
    scene.agent.kill();
    scene.uplink_wire.set_deaf(false);
    scene.agent.start();
    let back = operator.report("rolled_back", 2);
    assert_eq!(back["confirmed"]["version"], 1);
    assert!(back["reason"].as_str().unwrap().contains("ended while it was on trial"), "{back}");
    assert_eq!(streams_of(&scene), ["climate", "coarse"]);
}

#[test]
fn three_crashes_under_a_confirmed_document_bring_the_one_before_back_while_data_flow() {
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    operator.desire(&document(1, 20));
    operator.report("confirmed", 1);
    operator.desire(&document(2, 30));
    operator.report("confirmed", 2);
    for _ in 0..2 {
        scene.agent.kill();
        scene.agent.start();
        operator.report("confirmed", 2);
    }
    scene.agent.kill();
    scene.agent.start();
    let back = operator.report("rolled_back", 2);
    assert_eq!((&back["safe_mode"], &back["confirmed"]["version"]), (&json!(true), &json!(1)));
    let health = scene.agent.status().unwrap()["health"]["reasons"].to_string();
    assert!(health.contains("safe mode"), "{health}");
    let deliveries = fleet(seed(71), 3, 20);
    scene.publish(&deliveries);
    scene.wait_for_received(deliveries.len());
    operator.desire(&document(3, 40));
    let confirmed = operator.report("confirmed", 3);
    assert_eq!(confirmed["safe_mode"], false);
}

#[test]
fn what_was_sent_while_the_gateway_was_off_arrives_and_is_done_once() {
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    assert_eq!(operator.command("flush", json!({ "gateway": "gw-1" }))["ok"], true);
    scene.agent.terminate();
    operator.desire(&document(1, 20));
    operator.ask("snapshot", &json!({ "id": "while off" }));
    operator.ask("snapshot", &json!({ "id": "while off" }));
    scene.agent.start();
    operator.report("confirmed", 1);
    let first = operator.answer_to(&json!("while off"));
    assert_eq!((&first["ok"], &operator.answer_to(&json!("while off"))), (&json!(true), &first));
}

#[test]
fn a_hundred_changes_under_load_lose_nothing_and_count_nothing_twice() {
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    let deliveries = fleet(seed(72), 20, 250);
    let pieces = deliveries.chunks(deliveries.len() / 100 + 1);
    for (version, piece) in (1..).zip(pieces) {
        for delivery in piece {
            let other = delivery.topic.replace("/climate", "/coarse");
            scene.publish_raw(&other, &delivery.payload);
        }
        scene.publish(piece);
        operator.desire(&document(version, 5 + version % 7));
        if version % 10 == 0 {
            operator.report("confirmed", version);
        }
    }
    scene.wait_for_received(deliveries.len());
    let cloud = &mut scene.cloud;
    let agent = &scene.agent;
    let of_coarse = |record: &&Value| record["id"].as_str().unwrap().starts_with("gw-1/coarse/");
    cloud.wait_until("each reading is in one place", |cloud| {
        let others = cloud.receiver.panes().filter(|(_, pane)| !of_coarse(pane)).count();
        let panes = cloud.receiver.panes().map(|(_, pane)| pane).filter(of_coarse);
        let counted: u64 = panes.map(|pane| pane["count"].as_u64().unwrap()).sum();
        let late = cloud.receiver.late().filter(of_coarse).count() as u64;
        agent.status().is_some_and(|status| {
            let books = &status["engine"]["streams"][1];
            let open = books["windows"][0]["open"].as_u64().unwrap_or(0);
            let accepted = books["ledger"]["accepted"].as_u64().unwrap_or(0);
            status["engine"]["balanced"] == true
                && others >= 20 * 250 / 5
                && counted > 0
                && counted + late + open == accepted
        })
    });
    // What did not change has the results of an undisturbed run.
    cloud.assert_contract();
    scene.wait_for_panes(0);
    let late_of_climate = scene.cloud.receiver.late().filter(|late| !of_coarse(late)).count();
    assert_eq!(late_of_climate, 0);
    assert_exact(&scene.cloud, &deliveries);
}

#[test]
fn f82_a_document_leaves_the_connections_that_it_does_not_speak_of() {
    let scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    let connections = || {
        let status = scene.agent.status().unwrap();
        ["devices", "uplink"].map(|peer| status[peer]["connections"].as_u64().unwrap())
    };
    let before = connections();
    for version in 1..=5 {
        operator.desire(&document(version, 20 + version));
        operator.report("confirmed", version);
    }
    assert_eq!(connections(), before);
    let subscribed = || scene.agent.status().unwrap()["devices"]["subscribed"] == true;
    wait_until("the new filters are granted", subscribed);
}

#[test]
fn a_document_by_the_devices_broker_needs_no_cloud() {
    let config = Config { uplink: "[remote]\nlocal = true", ..Config::default() };
    let mut scene = Scene::with_config(config);
    let mut here = Operator::at(scene.devices().port);
    scene.cloud_broker.stop();
    here.desire(&document(1, 20));
    let confirmed = here.report("confirmed", 1);
    assert_eq!(confirmed["from"], "local");
    assert_eq!(streams_of(&scene), ["climate", "coarse"]);
    assert_eq!(here.command("config", json!({}))["result"]["version"], 1);
    assert!(scene.agent.is_running());
}

#[test]
fn a_gateway_that_takes_nothing_over_mqtt_runs_its_file() {
    let config = Config { uplink: "[remote]\nenabled = false", ..Config::default() };
    let mut scene = Scene::with_config(config);
    let mut operator = Operator::at(scene.cloud_broker.port);
    operator.desire(&document(1, 20));
    let deliveries = fleet(seed(74), 3, 20);
    scene.publish(&deliveries);
    scene.wait_for_received(deliveries.len());
    assert_eq!(streams_of(&scene), ["climate"]);
    assert_eq!(scene.cloud_broker.subscriptions_of("tidegate-gw-1-uplink-remote"), 0);
}

#[test]
fn another_cloud_is_tried_before_the_one_that_works_is_given_up() {
    let other = Broker::start(PERSISTENT);
    let scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    let moved = |version: u64, port: u16| {
        let mut document = document(version, 20);
        document["uplink"] = json!({ "broker": format!("mqtt://127.0.0.1:{port}"), "client_id": "moved" });
        document
    };
    let connections = |scene: &Scene| scene.agent.status().unwrap()["uplink"]["connections"].as_u64().unwrap();
    let before = connections(&scene);
    operator.desire(&moved(1, crate::broker::free_port()));
    let back = operator.report("rolled_back", 1);
    assert!(back["reason"].as_str().unwrap().contains("refused"), "{back}");
    assert_eq!(connections(&scene), before, "the uplink was not touched");
    let mut there = Operator::at(other.port);
    operator.desire(&moved(2, other.port));
    operator.report("confirmed", 2);
    there.report("confirmed", 2);
    assert_eq!(there.command("rollback", json!({ "gateway": "gw-1" }))["ok"], true);
    operator.report("rolled_back", 2);
}

#[test]
fn new_credentials_come_with_a_document_and_are_shown_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let passwords = dir.path().join("passwords");
    assert!(password(&passwords, "gw", "the new one"), "a password file is made");
    let lines = format!("password_file = '{}'", passwords.display());
    let closed = Broker::start_own(&lines, true);
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    let mut wanted = document(1, 20);
    wanted["uplink"] =
        json!({ "broker": format!("mqtt://127.0.0.1:{}", closed.port), "username": "gw", "password": "the old one" });
    operator.desire(&wanted);
    let back = operator.report("rolled_back", 1);
    assert!(back["reason"].as_str().unwrap().contains("refused"), "{back}");
    wanted["version"] = json!(2);
    wanted["uplink"]["password"] = json!("the new one");
    operator.desire(&wanted);
    wait_until("it is confirmed", || scene.agent.log().contains("a configuration is confirmed version=2"));
    let log = scene.agent.log();
    assert!(!log.contains("the new one") && !log.contains("the old one"), "{log}");
    scene.agent.terminate();
    scene.agent.start();
    wait_until("it is there after a restart", || {
        scene.agent.status().is_some_and(|status| status["uplink"]["connected"] == true)
    });
}

#[test]
fn a_command_names_the_gateway_where_it_breaks_something_and_says_what_it_did() {
    let mut scene = Scene::start();
    let mut operator = Operator::at(scene.cloud_broker.port);
    let deliveries = fleet(seed(73), 3, 20);
    scene.publish(&deliveries);
    scene.wait_for_received(deliveries.len());
    for command in ["flush", "rollback", "restart"] {
        let refused = operator.command(command, json!({}));
        assert!(refused["ok"] == false && refused.to_string().contains("gw-1"), "{refused}");
        let refused = operator.command(command, json!({ "gateway": "gw-2" }));
        assert_eq!(refused["ok"], false, "{refused}");
    }
    let known = operator.command("burn", json!({}));
    assert!(known["hint"].as_str().unwrap().contains("known: status"), "{known}");
    assert_eq!(operator.command("status", json!({}))["result"]["state"], "online");
    let ledger = operator.command("ledger", json!({}));
    assert_eq!(ledger["result"]["streams"][0]["ledger"]["received"], deliveries.len());
    let page = operator.command("devices", json!({ "limit": 2 }));
    let names = |page: &Value| -> Vec<String> {
        let devices = page["result"]["devices"].as_array().unwrap();
        devices.iter().map(|device| device["device"].as_str().unwrap().to_owned()).collect()
    };
    let first = names(&page);
    assert_eq!(first.len(), 2);
    let rest = names(&operator.command("devices", json!({ "after": first[1], "stream": "climate" })));
    assert_eq!(rest.len(), 1);
    assert!(first[1] < rest[0]);
    for (command, request) in [
        ("flush", json!({ "gateway": "gw-1" })),
        ("snapshot", json!({})),
        ("log-level", json!({ "level": "debug" })),
        ("replay-quarantine", json!({})),
    ] {
        let answer = operator.command(command, request);
        assert_eq!(answer["ok"], true, "{answer}");
    }
    assert_eq!(operator.command("log-level", json!({ "level": "=loud=" }))["ok"], false);
    assert_eq!(operator.command("rollback", json!({ "gateway": "gw-1" }))["ok"], false, "the file runs");
    let restarted = operator.command("restart", json!({ "gateway": "gw-1" }));
    assert_eq!(restarted["ok"], true);
    wait_until("it is up again", || scene.agent.log().matches("tidegate is running").count() == 2);
    assert!(scene.agent.is_running());
}

#[test]
fn a_request_of_mqtt_5_is_answered_where_it_says_and_known_there_by_its_correlation() {
    let config = Config { uplink: "protocol = \"5\"", ..Config::default() };
    let cloud = Broker::mosquitto(PERSISTENT);
    let scene = Scene::set(Setting { cloud, config, ..Setting::plain() });
    wait_until("it listens", || scene.agent.log().contains("configuration and commands can be sent"));
    let asked = std::process::Command::new("mosquitto_rr")
        .args([
            "-V",
            "mqttv5",
            "-p",
            &scene.cloud_broker.port.to_string(),
            "-t",
            "tidegate/gw-1/cmd/status",
            "-W",
            "20",
        ])
        .args(["-e", "answers/here", "-D", "publish", "correlation-data", "7", "-F", "%D %p", "-m", "{\"id\": 7}"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let (correlation, answer) = said.split_once(' ').unwrap_or_else(|| panic!("{asked:?}"));
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!((correlation, &answer["id"], &answer["ok"]), ("7", &json!(7), &json!(true)));
}

/// Blocks `toml file NAME`, `sh tour` and `text shown` of docs/remote.md.
#[cfg(feature = "tools")]
#[test]
fn the_tour_of_the_page_shows_what_the_program_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/remote.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (cloud, devices) = (crate::broker::free_port().to_string(), crate::broker::free_port().to_string());
    let here = |text: &str| {
        text.replace("127.0.0.1:1884", &format!("127.0.0.1:{cloud}")).replace(":1883", &format!(":{devices}"))
    };
    let dir = tempfile::tempdir().unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut running: Vec<Ending> = Vec::new();
    let start = |arguments: [&str; 3]| {
        let log = std::fs::File::create(dir.path().join(format!("{}.log", arguments[0]))).unwrap();
        let child = std::process::Command::new(program)
            .args(arguments)
            .current_dir(dir.path())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Ending(child.unwrap())
    };
    let log = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let (mut said, mut tours) = (String::new(), 0);
    let mut parts = page.split("\n```");
    parts.next();
    for block in parts.step_by(2) {
        let (info, text) = block.split_once('\n').unwrap();
        if let Some(file) = info.strip_prefix("toml file ") {
            std::fs::write(dir.path().join(file), here(text)).unwrap();
            if file == "gateway.toml" {
                running.push(start(["broker", "--config", "cloud.toml"]));
                wait_until("the broker listens", || log("broker.log").contains("listening on"));
                running.push(start(["run", "--config", "gateway.toml"]));
                wait_until("the gateway is there", || {
                    log("run.log").contains("configuration and commands can be sent")
                });
            }
        } else if info == "sh tour" {
            tours += 1;
            let mut shell = std::process::Command::new("bash");
            let shell = shell.arg("-c").arg(here(text)).current_dir(dir.path()).env("PATH", &path);
            let output = shell.output().unwrap();
            said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        } else if info == "text shown" {
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                assert!(said.contains(line), "not there: {line}\n{said}");
            }
        }
    }
    assert_eq!(tours, 6);
    assert!(!running.is_empty());
}

/// A child that ends with the test.
struct Ending(std::process::Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_signed_document_counts_once_and_an_unsigned_one_not_at_all() {
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                       MC4CAQAwBQYDK2VwBCIEID3x49AKOumpx+hcrqEhVLdILZ5v9m2ZSmCkoTmlT4Qd\n\
                       -----END PRIVATE KEY-----\n";
    let key = signed::private_key_pem(KEY).unwrap();
    let uplink = format!("[remote]\npublic_key = \"{}\"", signed::public_key_text(&key));
    let mut scene = Scene::with_config(Config { uplink: &uplink, ..Config::default() });
    let mut operator = Operator::at(scene.cloud_broker.port);
    operator.desire(&document(1, 20));
    let refused = operator.next("a refusal", |_, said| said["state"] == "rejected");
    assert!(refused.to_string().contains("not signed"), "{refused}");
    let sealed = |version: u64, gateway: &str| {
        signed::seal(&key, signed::CONFIG_KIND, gateway, &document(version, 10 + version).to_string())
    };
    operator.desire_text(&sealed(5, "gw-2"));
    let refused = operator.next("a refusal", |_, said| said["state"] == "rejected");
    assert!(refused.to_string().contains("signature is not that"), "{refused}");
    operator.desire_text(&sealed(5, "gw-1"));
    operator.report("confirmed", 5);
    scene.agent.terminate();
    scene.agent.start();
    operator.report("confirmed", 5);
    operator.desire_text(&sealed(4, "gw-1"));
    let refused = operator.report("rejected", 4);
    assert!(refused.to_string().contains("a later one, was taken before"), "{refused}");
    let command = |version: u64, id: &str| {
        let request = json!({ "version": version, "id": id, "gateway": "gw-1" }).to_string();
        signed::seal(&key, &signed::command_kind("flush"), "gw-1", &request)
    };
    let ask = |operator: &mut Operator, text: &str, id: &str| {
        operator.ask("flush", &serde_json::from_str(text).unwrap());
        operator.answer_to(&json!(id))["ok"].clone()
    };
    assert_eq!(ask(&mut operator, &command(7, "a"), "a"), true);
    assert_eq!(ask(&mut operator, &command(7, "a"), "a"), true, "answered again, not done again");
    operator.ask("flush", &serde_json::from_str(&command(7, "b")).unwrap());
    let refused = operator.next("a refusal", |topic, said| topic.ends_with("/reply") && said["ok"] == false);
    assert!(refused.to_string().contains("came before"), "{refused}");
}

/// A password file with one user.
fn password(file: &std::path::Path, user: &str, password: &str) -> bool {
    use std::io::Write as _;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["password", "set"])
        .arg(file)
        .arg(user)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    child.wait().unwrap().success()
}
