//! `tidegate quarantine`: bad payloads arrive, are listed and shown; the configuration is mended,
//! and they are taken in. The real program, killed at any moment.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::agent::ledger;
use crate::broker::Broker;
use crate::broker::needs::{Need, has};
use crate::scene::{DEVICES_CONFIG, Scene, wait_until};

/// The begin of a window, in seconds.
const START_S: i64 = 1_700_000_000;

/// `tidegate quarantine …`.
fn quarantine(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("quarantine").args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Of the agent with this configuration; what it says, and its exit code.
fn say(config: &Path, args: &[&str]) -> (String, Option<i32>) {
    let found = quarantine(&[args, &["--config", config.to_str().unwrap()]].concat());
    (text(&found.stdout) + &text(&found.stderr), found.status.code())
}

fn json(config: &Path, args: &[&str]) -> Value {
    let (said, code) = say(config, &[args, &["--json"]].concat());
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}, exit code {code:?}"))
}

/// Samples listed, by reason, with those in doubt.
fn listed(config: &Path) -> Vec<(String, u64, u64)> {
    let document = json(config, &["list"]);
    let number = |entry: &Value, name: &str| entry[name].as_u64().unwrap();
    let entries = document["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| (entry["reason"].as_str().unwrap().to_owned(), number(entry, "kept"), number(entry, "in_doubt")))
        .collect()
}

fn is_listed(config: &Path, expected: &[(&str, u64, u64)]) -> bool {
    let found = listed(config);
    found.iter().map(|(reason, kept, doubt)| (reason.as_str(), *kept, *doubt)).eq(expected.iter().copied())
}

/// A reading with its time in seconds.
fn in_seconds(scene: &mut Scene, second: i64) {
    let payload = format!("{{\"ts\":{},\"temperature\":{second}}}", START_S + second);
    scene.publish_raw("devices/device-01/climate", payload.as_bytes());
}

/// The agent starts again, with another unit of time.
fn set_unit(scene: &mut Scene, unit: &str) {
    let config = scene.agent.place();
    let before = fs::read_to_string(&config).unwrap();
    let after = before.replace("unit = \"ms\"", &format!("unit = \"{unit}\""));
    let after = after.replace("unit = \"s\"", &format!("unit = \"{unit}\""));
    fs::write(&config, after).unwrap();
    scene.agent.start();
    wait_until("the agent answers", || scene.agent.status().is_some());
}

fn samples(status: &Value, name: &str) -> u64 {
    status["engine"]["streams"][0]["samples"][name].as_u64().unwrap()
}

#[test]
fn what_was_rejected_is_taken_in_once_the_configuration_is_mended() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    // The listener does not take what is too large for the agent.
    let mut scene = Scene::with_devices_broker(Broker::mosquitto(DEVICES_CONFIG));
    let config = scene.agent.place();
    assert_eq!(say(&config, &["list"]), ("no samples of rejected messages\n".to_owned(), Some(0)));
    for second in 1..=3 {
        in_seconds(&mut scene, second);
    }
    let raw = [b"\x1b[2Jnot json".as_slice(), &[0xff, 0x00]].concat();
    scene.publish_raw("devices/device-02/climate", &raw);
    scene.publish_raw("devices/device-02/climate", b"{\"ts\":1700000001000,\"temperature\":\"warm\"}");
    scene.publish_raw("devices/device-02/climate", &vec![b'x'; 300 * 1024]);
    scene.flush();
    let all = [("too_large", 1, 0), ("not_json", 1, 0), ("before_min_time", 3, 0), ("wrong_type", 1, 0)];
    wait_until("all are sampled", || is_listed(&config, &all));
    let (said, _) = say(&config, &["list"]);
    assert!(said.contains("climate/before_min_time: 3 samples") && said.contains("hint: looks like seconds"), "{said}");
    let (shown, _) = say(&config, &["show", "climate", "before_min_time"]);
    assert!(shown.contains("  | {\"ts\":1700000001,\"temperature\":1}\n"), "{shown}");
    assert!(shown.contains("climate/before_min_time 3: received 20") && shown.contains("on devices/device-01/climate"));
    let (shown, _) = say(&config, &["show", "climate", "not_json"]);
    assert!(shown.contains("1b 5b 32 4a 6e 6f 74") && shown.contains(".[2Jnot json..") && !shown.contains('\x1b'));

    // kill -9: what was listed is there, and the files alone tell.
    scene.agent.kill();
    assert!(is_listed(&config, &all));
    let state = config.with_file_name("state");
    let by_dir = quarantine(&["show", "climate", "not_json", "--raw", "1", "--dir", state.to_str().unwrap()]);
    assert_eq!(by_dir.stdout, raw);
    let (said, code) = say(&config, &["replay"]);
    assert!(code == Some(1) && said.contains("a replay needs the agent"), "{said}");

    set_unit(&mut scene, "s");
    let (said, code) = say(&config, &["replay"]);
    assert!(said.contains("climate/before_min_time 1: taken in: 1 accepted\n"), "{said}");
    assert!(said.contains("climate/not_json 1: rejected again: not_json"), "{said}");
    assert!(said.contains("climate/too_large 1: not replayed: only the begin of its 307200 bytes"), "{said}");
    assert!(said.contains("climate/wrong_type 1: rejected again: "), "{said}");
    assert!(code == Some(3) && said.ends_with("3 of 6 samples taken in, 3 left\n"), "{said}");
    assert!(is_listed(&config, &[("too_large", 1, 0), ("not_json", 1, 0), ("wrong_type", 1, 0)]));
    let (said, code) = say(&config, &["replay", "climate", "before_min_time"]);
    assert_eq!((said.as_str(), code), ("no such samples\n", Some(0)), "a second replay counts nothing twice");

    in_seconds(&mut scene, 100);
    scene.flush();
    scene.wait_for_panes(1);
    let results = scene.cloud.results();
    assert_eq!((&results[0]["start_ms"], &results[0]["count"]), (&Value::from(START_S * 1_000), &Value::from(3)));
    scene.cloud.assert_contract();
    let status = scene.agent.status().unwrap();
    assert_eq!((samples(&status, "replayed"), ledger(&status, "accepted")), (5, 4), "{status}");
    assert_eq!((ledger(&status, "rejected"), ledger(&status, "received")), (6 + 2, 12), "{status}");
    assert_eq!(status["engine"]["balanced"], true);
    assert_eq!(status["samples"]["kept"], 3);

    // By name, without a configuration, and after a stop in order.
    let socket = config.with_file_name("control.sock");
    assert!(text(&quarantine(&["list", "--socket", socket.to_str().unwrap()]).stdout).contains("climate/not_json: 1 "));
    let in_use = quarantine(&["list", "--dir", state.to_str().unwrap()]);
    assert!(text(&in_use.stderr).contains("an agent is running on"));
    scene.agent.terminate();
    assert!(is_listed(&config, &[("too_large", 1, 0), ("not_json", 1, 0), ("wrong_type", 1, 0)]));
}

#[test]
fn a_flood_of_garbage_is_counted_exactly_and_kept_hardly_at_all() {
    const EACH: u64 = 3_000;
    let mut scene = Scene::start();
    let config = scene.agent.place();
    let mut kept = 0;
    for round in 1..=3 {
        for n in 0..EACH {
            let payload = format!("garbage {n} {}", "x".repeat(2_000));
            scene.publish_raw("devices/device-01/climate", payload.as_bytes());
        }
        scene.flush();
        scene.catch_up(usize::try_from(round * EACH).unwrap());
        let status = scene.agent.status().unwrap();
        assert_eq!(ledger(&status, "rejected"), round * EACH);
        assert_eq!((samples(&status, "kept"), samples(&status, "dropped")), (4, EACH - 4), "{status}");
        kept += 4;
        wait_until("they are on disk", || is_listed(&config, &[("not_json", kept, 0)]));
        let bytes = scene.agent.status().unwrap()["samples"]["bytes"].as_u64().unwrap();
        assert!(bytes < kept * 2_500, "{bytes} bytes of {kept}");
        scene.agent.kill();
        assert!(is_listed(&config, &[("not_json", kept, 0)]));
        scene.agent.start();
        scene.wait_for_subscriptions(usize::try_from(round).unwrap() + 1);
    }
}

#[test]
fn a_replay_that_is_killed_at_any_moment_counts_no_sample_twice() {
    let mut scene = Scene::start();
    let config = scene.agent.place();
    let (mut sent, mut doubted, mut accepted) = (0, 0, 0);
    for millis in [0, 2, 4, 6, 8, 10, 13, 17, 25, 60] {
        for second in 0..4 {
            in_seconds(&mut scene, second);
        }
        scene.flush();
        sent += 4;
        wait_until("all are sampled", || is_listed(&config, &[("before_min_time", 4, 0)]));
        scene.agent.terminate();
        set_unit(&mut scene, "s");
        let mut replay = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["quarantine", "replay", "--config", config.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Any moment will do.
        std::thread::park_timeout(Duration::from_millis(millis));
        scene.agent.kill();
        replay.wait().unwrap();

        set_unit(&mut scene, "s");
        let (_, code) = say(&config, &["replay"]);
        let status = scene.agent.status().unwrap();
        let before = core::mem::replace(&mut accepted, ledger(&status, "accepted"));
        let in_doubt: u64 = listed(&config)
            .iter()
            .map(|(_, kept, in_doubt)| {
                assert_eq!(kept, in_doubt);
                *in_doubt
            })
            .sum();
        let taken = accepted - before;
        assert!(taken <= 4, "{taken} of 4 taken in after {millis} ms");
        assert!(taken + in_doubt >= 4, "{taken} taken in and {in_doubt} in doubt of 4 after {millis} ms");
        assert_eq!(code, Some(if in_doubt == 0 { 0 } else { 3 }));
        doubted += in_doubt;
        if in_doubt > 0 {
            let (said, _) = say(&config, &["list"]);
            assert!(said.contains("in doubt: a replay was interrupted"), "{said}");
            let (said, code) = say(&config, &["replay", "--again"]);
            assert!(code == Some(0) && said.ends_with("4 of 4 samples taken in, 0 left\n"), "{said}");
            accepted = ledger(&scene.agent.status().unwrap(), "accepted");
        }
        scene.agent.terminate();
        set_unit(&mut scene, "ms");
        scene.wait_for_subscriptions(1);
    }
    println!("{sent} samples, {doubted} of them in doubt after a kill");
}

/// The files of the ring, damaged as by a card.
fn ring(config: &Path) -> PathBuf {
    config.with_file_name("state").join("rejected/climate@not_json")
}

#[test]
fn a_damaged_ring_costs_what_is_damaged_and_no_more() {
    let mut scene = Scene::start();
    let config = scene.agent.place();
    for n in 0..4 {
        scene.publish_raw("devices/device-01/climate", format!("garbage {n}").as_bytes());
    }
    scene.flush();
    wait_until("all are sampled", || is_listed(&config, &[("not_json", 4, 0)]));
    scene.agent.kill();
    let mut bytes = fs::read(ring(&config)).unwrap();
    let second = bytes.len() / 4 + 40;
    bytes[second] ^= 0xff;
    fs::File::create(ring(&config)).unwrap().write_all(&bytes).unwrap();
    let (said, _) = say(&config, &["list"]);
    assert!(said.contains("climate/not_json: 3 samples") && said.contains("; some cannot be read"), "{said}");
    scene.agent.start();
    scene.wait_for_subscriptions(2);
    scene.publish_raw("devices/device-01/climate", b"garbage 4");
    scene.flush();
    wait_until("it goes on", || is_listed(&config, &[("not_json", 4, 0)]));
    assert!(!say(&config, &["list"]).0.contains("cannot be read"), "the next sample has mended it");
}
