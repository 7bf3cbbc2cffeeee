//! The reference consumer as a program, and the client that it and these tests use.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tidegate::agent::mqtt::client::{ClientSpec, Publisher};
use tidegate::agent::uplink::packing::{is_packed, pack};

use crate::broker::Broker;
use crate::cloud::{Cloud, WAIT_MAX};
use crate::scene::{PERSISTENT, wait_until};

fn publisher(broker: &Broker) -> Publisher {
    let spec = ClientSpec { host: "127.0.0.1".into(), port: broker.port, client_id: "gateway".into(), clean: true };
    Publisher::new(spec)
}

fn envelope(records: &[Value]) -> Vec<u8> {
    json!({"v": 1, "gw": "gw-1", "epoch": 1, "lane": "live", "records": records}).to_string().into_bytes()
}

fn pane(id: &str, rev: u64, seq: u64) -> Value {
    json!({"kind": "pane", "id": id, "rev": rev, "seq": seq, "count": seq})
}

fn receive(broker: &Broker, file: &std::path::Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["receive", "--broker", &format!("mqtt://127.0.0.1:{}", broker.port), "--to", "ndjson"])
        .arg(file)
        .args(more)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(child: Child) -> (ExitStatus, String) {
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

fn wait_for_subscription(broker: &Broker) {
    wait_until("the receiver subscribes", || broker.subscriptions_of("tidegate-receive") > 0);
}

#[test]
fn the_receiver_writes_the_end_state_after_a_signal_and_over_a_restart_of_its_broker() {
    let mut broker = Broker::start(PERSISTENT);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.ndjson");
    let child = receive(&broker, &file, &[]);
    wait_for_subscription(&broker);
    let mut publisher = publisher(&broker);
    publisher.publish("tidegate/gw-1/data/live", &envelope(&[pane("b", 0, 0), pane("a", 1, 1)]), WAIT_MAX).unwrap();
    publisher.flush(WAIT_MAX).unwrap();
    broker.restart();
    publisher.publish("tidegate/gw-1/data/live", &envelope(&[pane("a", 0, 2), pane("c", 0, 3)]), WAIT_MAX).unwrap();
    publisher.flush(WAIT_MAX).unwrap();
    wait_until("the receiver has it", || broker.acknowledged_by("tidegate-receive") >= 2);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();

    let (status, said) = finish(child);
    assert!(status.success(), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    let state: Vec<(String, u64)> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| (record["id"].as_str().unwrap().to_owned(), record["seq"].as_u64().unwrap()))
        .collect();
    assert_eq!(state, [("a".to_owned(), 1), ("b".to_owned(), 0), ("c".to_owned(), 3)]);
}

#[test]
fn the_receiver_ends_by_itself_and_names_what_is_missing() {
    let broker = Broker::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.ndjson");
    let child = receive(&broker, &file, &["--records", "2"]);
    wait_for_subscription(&broker);
    let mut publisher = publisher(&broker);
    let packed = pack(&envelope(&[pane("a", 0, 4), pane("b", 0, 7)]));
    assert!(is_packed(&packed), "a zstd frame is read like the rest");
    publisher.publish("tidegate/gw-1/data/live", &packed, WAIT_MAX).unwrap();
    publisher.flush(WAIT_MAX).unwrap();
    let (status, said) = finish(child);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("missing: gw-1 epoch 1 lane live seq 5..=6"), "{said}");

    let (status, said) = finish(receive(&broker, &file, &["--until-idle", "0"]));
    assert!(status.success() && fs::read_to_string(&file).unwrap().is_empty(), "{said}");
}

#[test]
fn the_test_client_itself_loses_nothing_when_its_broker_restarts() {
    let mut broker = Broker::start(PERSISTENT);
    let mut cloud = Cloud::connect(broker.port);
    let mut publisher = publisher(&broker);
    for seq in 0..3_000 {
        if seq % 1_000 == 500 {
            broker.restart();
        }
        let id = format!("pane-{seq:04}");
        publisher.publish("tidegate/gw-1/data/live", &envelope(&[pane(&id, 0, seq)]), WAIT_MAX).unwrap();
    }
    publisher.flush(WAIT_MAX).unwrap();
    cloud.wait_until("all panes", |cloud| cloud.receiver.panes().count() == 3_000);
    cloud.assert_contract();
}
