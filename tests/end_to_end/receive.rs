//! The reference consumer as a program, and the client that it and these tests use.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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

fn receive(broker: &Broker, file: &Path, more: &[&str]) -> Child {
    receive_from(broker.port, file, more)
}

fn receive_from(port: u16, file: &Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["receive", "--broker", &format!("mqtt://127.0.0.1:{port}"), "--to", "ndjson"])
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

/// Something that takes connections, answers each thing it reads with the next of these, and
/// closes then. Its port, and how many came.
fn answering(answers: &'static [&'static [u8]]) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&came);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            for answer in answers {
                let mut asked = [0; 512];
                if !matches!(stream.read(&mut asked), Ok(1..)) || stream.write_all(answer).is_err() {
                    break;
                }
            }
        }
    });
    (port, came)
}

const CONNACK: &[u8] = b"\x20\x02\x00\x00";

/// What is answered, and what is to be said of it.
const REFUSALS: [(&[&[u8]], &str); 5] = [
    (&[b"\x20\x02\x00\x05"], "not authorised"),
    (&[b"\x20\x02\x00\x04"], "wrong user name or password"),
    (&[CONNACK, b"\x90\x03\x00\x01\x80"], "refused the subscription to tidegate/+/data/+"),
    (&[b"\x15\x03\x03\x00\x02\x02\x32"], "this looks like a port for TLS"),
    (&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], "a web server"),
];

#[test]
fn what_a_person_has_to_change_ends_the_receiver_at_once_and_leaves_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.ndjson");
    fs::write(&file, "of yesterday\n").unwrap();
    for (answers, expected) in REFUSALS {
        let (port, came) = answering(answers);
        let (status, said) = finish(receive_from(port, &file, &[]));
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && said.lines().count() < 6, "{said}");
        assert_eq!(came.load(Ordering::Relaxed), 1, "{said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "of yesterday\n");
}

#[test]
fn a_broker_that_closes_is_tried_with_growing_waits_and_silence_before_a_subscription_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.ndjson");
    let refused = crate::broker::free_port();
    let (turning_away, _) = answering(&[]);
    let (flapping, came) = answering(&[CONNACK, b""]);
    for (port, expected) in [
        (refused, "no connection: Connection refused"),
        (turning_away, "closed the connection without an answer to CONNECT"),
        (flapping, "the broker closed the connection"),
    ] {
        let (status, said) = finish(receive_from(port, &file, &["--until-idle", "2"]));
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && said.lines().count() < 10, "{said}");
        assert!(!file.exists(), "{said}");
    }
    let came = came.load(Ordering::Relaxed);
    // With waits of 50 ms, the shortest there are, it would be 40.
    assert!((1..30).contains(&came), "{came}");
}

#[test]
fn what_is_wrong_on_the_command_line_is_said_before_anything_is_received() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing/state.ndjson");
    let (status, said) = finish(receive_from(1, &missing, &["--until-idle", "0"]));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write") && !said.contains("trying again"), "{said}");
    let (status, said) = finish(receive_from(1, &dir.path().join("a"), &["--topic-prefix", "bad/#"]));
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("without wildcards"), "{said}");
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
