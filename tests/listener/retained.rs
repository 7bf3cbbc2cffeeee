//! Retained messages: the last one of a topic, for whoever subscribes later.

use crate::client::{Client, Connect, Message};
use crate::server::Server;
use crate::wire::{self, BOTH, Version, property, worded};

/// `QoS` 1 with the retain flag.
const KEEP: u8 = 0x03;

fn pair(server: &Server, version: Version) -> (Client, Client) {
    (Connect::new(version, "device").open(server), Connect::new(version, "reader").open(server))
}

fn payloads(messages: Vec<Message>) -> Vec<String> {
    let mut payloads: Vec<String> = messages.into_iter().map(|message| message.payload).collect();
    payloads.sort();
    payloads
}

#[test]
fn the_last_retained_message_comes_on_subscribing_with_its_flag() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        device.publish(KEEP, "room/1", "old");
        device.publish(KEEP, "room/1", "new");
        device.publish(KEEP, "room/2", "other");
        device.publish(0x02, "room/3", "not kept");
        reader.subscribe(&[("room/+", 1)]);
        let found = reader.drain();
        assert!(found.iter().all(|message| message.retain && !message.dup && message.qos == 1), "{found:?}");
        assert_eq!(payloads(found), ["new", "other"], "{version:?}");
    }
}

#[test]
fn a_retained_message_to_a_subscriber_of_before_comes_without_the_flag() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        reader.subscribe(&[("room/1", 1)]);
        device.publish(KEEP, "room/1", "live");
        let message = reader.message();
        assert_eq!((message.payload.as_str(), message.retain), ("live", false), "{version:?}");
    }
}

#[test]
fn an_empty_payload_clears_and_is_passed_on_but_not_kept() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        device.publish(KEEP, "room/1", "kept");
        reader.subscribe(&[("room/1", 1)]);
        let kept = reader.message();
        reader.acknowledge(&kept);
        device.publish(KEEP, "room/1", "");
        let cleared = reader.message();
        assert_eq!((cleared.payload.as_str(), cleared.retain), ("", false), "{version:?}");
        reader.acknowledge(&cleared);
        reader.unsubscribe(&["room/1"]);
        reader.subscribe(&[("room/1", 1)]);
        assert_eq!(reader.drain(), [], "{version:?}: nothing is kept");
    }
}

#[test]
fn every_quality_of_service_is_kept_and_the_lower_one_is_delivered() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        for qos in 0..3 {
            device.publish(qos << 1 | 1, &format!("q/{qos}"), &qos.to_string());
        }
        for asked in 0..3_u8 {
            reader.subscribe(&[("q/#", asked)]);
            let mut found: Vec<(String, u8)> = reader.drain().into_iter().map(|m| (m.payload, m.qos)).collect();
            found.sort();
            let expected: Vec<(String, u8)> = (0..3_u8).map(|sent| (sent.to_string(), sent.min(asked))).collect();
            assert_eq!(found, expected, "{version:?}, asked for {asked}");
        }
    }
}

#[test]
fn subscribing_again_sends_them_again() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        device.publish(KEEP, "room/1", "kept");
        for _ in 0..3 {
            reader.subscribe(&[("room/1", 0)]);
            assert_eq!(payloads(reader.drain()), ["kept"], "{version:?}");
        }
    }
}

#[test]
fn a_resumed_session_does_not_get_them_again() {
    for version in BOTH {
        let server = Server::start();
        let mut device = Connect::new(version, "device").open(&server);
        device.publish(KEEP, "room/1", "kept");
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        reader.subscribe(&[("room/1", 1)]);
        assert_eq!(payloads(reader.drain()), ["kept"], "{version:?}");
        reader.disconnect();
        assert_eq!(kept.open(&server).drain(), [], "{version:?}");
    }
}

#[test]
fn they_survive_a_restart_and_a_crash_of_the_listener() {
    for version in BOTH {
        let mut server = Server::start();
        let (mut device, reader) = pair(&server, version);
        device.publish(KEEP, "room/1", "kept");
        device.publish(KEEP, "room/2", "cleared");
        device.publish(KEEP, "room/2", "");
        drop((device, reader));
        if server.is_ours() {
            server.crash();
        }
        server.restart();
        let mut reader = Connect::new(version, "reader").open(&server);
        reader.subscribe(&[("#", 1)]);
        assert_eq!(payloads(reader.drain()), ["kept"], "{version:?}");
    }
}

#[test]
fn what_mqtt_5_says_beside_a_message_is_kept_with_it() {
    let server = Server::start();
    let (mut device, mut reader) = pair(&server, Version::V5);
    let list = [
        worded(property::CONTENT_TYPE, "text/plain"),
        worded(property::RESPONSE_TOPIC, "answers/here"),
        worded(property::CORRELATION, "17"),
        [vec![property::USER], crate::wire::text("unit"), crate::wire::text("K")].concat(),
        vec![property::PAYLOAD_FORMAT, 1],
    ];
    device.publish_with(KEEP, "room/1", &list.concat(), "293");
    reader.subscribe(&[("room/1", 1)]);
    let message = reader.message();
    assert_eq!(message.values(property::CONTENT_TYPE), [b"text/plain"]);
    assert_eq!(message.values(property::RESPONSE_TOPIC), [b"answers/here"]);
    assert_eq!(message.values(property::CORRELATION), [b"17"]);
    assert_eq!(message.values(property::USER), [b"unit=K"]);
    assert_eq!(message.values(property::PAYLOAD_FORMAT), [[1]]);
}

#[test]
fn a_subscriber_gets_all_that_is_retained_however_much() {
    const COUNT: usize = 3_000;
    let server = Server::start();
    let (mut device, _) = pair(&server, Version::V5);
    let text = "x".repeat(500);
    for start in (0..COUNT).step_by(50) {
        for id in 1..=50 {
            let topic = format!("room/{}", start + usize::from(id));
            device.send(&wire::publish(Version::V5, KEEP, &topic, id, &[], text.as_bytes()));
        }
        (1..=50).for_each(|id| assert_eq!(device.expect_ack(0x40, id), 0));
    }
    for (qos, name) in [(0, "zero"), (1, "one")] {
        let mut reader = Connect::new(Version::V5, name).open(&server);
        reader.subscribe(&[("room/+", qos)]);
        for number in 0..COUNT {
            let message = reader.message();
            assert!(message.retain && message.payload == text, "number {number} at QoS {qos}: {message:?}");
            if qos > 0 {
                reader.acknowledge(&message);
            }
        }
    }
}
