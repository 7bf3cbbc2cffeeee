//! Packets that the standards forbid: the connection ends, MQTT 5 says why, and the server
//! serves everybody else.

use crate::client::{Client, Connect};
use crate::server::Server;
use crate::wire::{BOTH, Version, kind, packet, properties, publish, subscribe, text};

/// What a case sends, in the words of that version, and whether mosquitto takes it.
type Case = (&'static str, fn(Version) -> Vec<u8>, bool);

/// Sent by a client that was let in.
const CASES: &[Case] = &[
    ("packet type 0", |_| vec![0x00, 0x00], false),
    ("packet type 15 in 3.1.1, AUTH unasked in 5", |_| vec![0xF0, 0x00], false),
    ("a CONNACK from a client", |_| vec![kind::CONNACK, 2, 0, 0], false),
    ("a SUBACK from a client", |_| vec![kind::SUBACK, 3, 0, 1, 0], true),
    ("a PINGRESP from a client", |_| vec![kind::PINGRESP, 0], true),
    ("a remaining length of five bytes", |_| vec![0x32, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], false),
    ("SUBSCRIBE with flags 0", |v| with_first(0x80, subscribe(v, 1, &[], &[("a", 0)])), false),
    ("UNSUBSCRIBE with flags 0", |v| with_first(0xA0, crate::wire::unsubscribe(v, 1, &["a"])), false),
    ("PUBREL with flags 0", |_| vec![0x60, 2, 0, 1], false),
    ("PUBACK with flags", |_| vec![0x41, 2, 0, 1], true),
    ("PINGREQ with flags", |_| vec![0xC5, 0], true),
    ("DISCONNECT with flags", |_| vec![0xE1, 0], true),
    ("PINGREQ with a body", |_| vec![0xC0, 1, 0], true),
    ("QoS 3", |v| publish(v, 0x06, "a", 1, &[], b""), false),
    ("QoS 0 with DUP", |v| publish(v, 0x08, "a", 0, &[], b""), true),
    ("PUBLISH with packet id 0", |v| publish(v, 0x02, "a", 0, &[], b""), false),
    ("SUBSCRIBE with packet id 0", |v| subscribe(v, 0, &[], &[("a", 0)]), false),
    ("UNSUBSCRIBE with packet id 0", |v| crate::wire::unsubscribe(v, 0, &["a"]), false),
    ("PUBREL with packet id 0", |_| vec![0x62, 2, 0, 0], false),
    ("PUBLISH to a +", |v| publish(v, 0x02, "a/+", 1, &[], b""), false),
    ("PUBLISH to a #", |v| publish(v, 0x02, "#", 1, &[], b""), false),
    ("PUBLISH to an empty topic", |v| publish(v, 0x02, "", 1, &[], b""), false),
    ("PUBLISH to a topic with NUL", |v| publish(v, 0x02, "a\0b", 1, &[], b""), false),
    ("PUBLISH to a topic that is not UTF-8", |v| publish_raw(v, &[0xC3, 0x28]), false),
    ("PUBLISH to a topic with a surrogate", |v| publish_raw(v, &[0xED, 0xA0, 0x80]), false),
    ("PUBLISH that is cut in its topic", |_| packet(0x32, &[0, 9, b'a']), false),
    ("PUBLISH without packet id", |_| packet(0x32, &text("a")), false),
    ("SUBSCRIBE without a filter", |v| subscribe(v, 1, &[], &[]), false),
    ("SUBSCRIBE to an empty filter", |v| subscribe(v, 1, &[], &[("", 0)]), false),
    ("SUBSCRIBE to a/#/b", |v| subscribe(v, 1, &[], &[("a/#/b", 0)]), false),
    ("SUBSCRIBE to a+", |v| subscribe(v, 1, &[], &[("a+", 0)]), false),
    ("SUBSCRIBE to a#", |v| subscribe(v, 1, &[], &[("a#", 0)]), false),
    ("SUBSCRIBE for QoS 3", |v| subscribe(v, 1, &[], &[("a", 3)]), false),
    ("SUBSCRIBE with reserved options", |v| subscribe(v, 1, &[], &[("a", 0xC0)]), false),
    ("SUBSCRIBE whose filter lacks its options", |v| truncated(subscribe(v, 1, &[], &[("a", 0)])), false),
    ("UNSUBSCRIBE without a filter", |v| crate::wire::unsubscribe(v, 1, &[]), false),
    ("PUBACK that is too short", |_| vec![0x40, 1, 0], false),
];

/// Sent by MQTT 5 clients that were let in.
const CASES_5: &[Case] = &[
    ("an unknown property", |v| publish(v, 0x02, "a", 1, &[0x7E, 1], b""), false),
    ("a property that does not belong there", |v| publish(v, 0x02, "a", 1, &[0x21, 0, 1], b""), false),
    ("a property twice", |v| publish(v, 0x02, "a", 1, &[0x01, 0, 0x01, 0], b""), false),
    ("a subscription identifier from a client", |v| publish(v, 0x02, "a", 1, &[0x0B, 1], b""), true),
    ("a subscription identifier of 0", |v| subscribe(v, 1, &[0x0B, 0], &[("a", 0)]), false),
    ("a payload format of 2", |v| publish(v, 0x02, "a", 1, &[0x01, 2], b""), true),
    ("a response topic with a wildcard", |v| publish(v, 0x02, "a", 1, &[0x08, 0, 1, b'#'], b""), true),
    ("properties longer than the packet", |_| packet(0x32, &[0, 1, b'a', 0, 1, 200, 1]), false),
    ("retain handling 3", |v| subscribe(v, 1, &[], &[("a", 0x30)]), false),
    ("a session expiry raised from 0 by DISCONNECT", |_| packet(kind::DISCONNECT, &[0, 5, 0x11, 0, 0, 0, 9]), false),
];

/// Sent first on a connection.
const FIRST: &[Case] = &[
    ("no CONNECT first", |_| vec![kind::PINGREQ, 0], false),
    ("HTTP", |_| b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), false),
    ("TLS", |_| b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), false),
    ("CONNECT with flags", |v| with_first(0x11, Connect::new(v, "x").bytes()), false),
    ("CONNECT with its reserved flag", |v| connect(v, b"MQTT", 0x03, &text("x")), false),
    ("CONNECT of another protocol", |v| connect(v, b"HTTP", 0x02, &text("x")), false),
    ("CONNECT with a will of QoS 3", |v| Connect::new(v, "x").will("w", "gone", 3, false, &[]).bytes(), false),
    ("CONNECT with a will flag of QoS without a will", |v| connect(v, b"MQTT", 0x0A, &text("x")), false),
    ("CONNECT with a will to a wildcard", |v| Connect::new(v, "x").will("w/#", "gone", 0, false, &[]).bytes(), false),
    ("CONNECT that lacks its will", |v| connect(v, b"MQTT", 0x06, &text("x")), false),
    ("CONNECT without client id", |v| connect(v, b"MQTT", 0x02, &[]), false),
    ("CONNECT with a client id that is not UTF-8", |v| connect(v, b"MQTT", 0x02, &[0, 2, 0xC3, 0x28]), false),
    ("CONNECT with bytes behind it", |v| connect(v, b"MQTT", 0x02, b"\0\x01xyz"), true),
    ("a CONNECT of 200 MB", |_| vec![0x10, 0xFF, 0xFF, 0xFF, 0x5F, 0, 4, b'M', b'Q'], true),
];

fn with_first(first: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] = first;
    bytes
}

/// Without its last byte, and counted so.
fn truncated(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.pop();
    bytes[1] -= 1;
    bytes
}

fn publish_raw(version: Version, topic: &[u8]) -> Vec<u8> {
    packet(0x32, &[text(topic), vec![0, 1], properties(version, &[])].concat())
}

fn connect(version: Version, protocol: &[u8], flags: u8, rest: &[u8]) -> Vec<u8> {
    let head = [text(protocol), vec![version as u8, flags, 0, 0], properties(version, &[])].concat();
    packet(kind::CONNECT, &[head.as_slice(), rest].concat())
}

/// All cases on one server, which is alive after each. Collects what is wrong.
fn run(version: Version, cases: &[Case], mut client: impl FnMut(&Server) -> Client) {
    let server = Server::start();
    let mut wrong = Vec::new();
    let mut witness = Connect::new(version, "witness").open(&server);
    for (name, bytes, mosquitto_takes_it) in cases {
        if *mosquitto_takes_it && !server.is_ours() {
            continue;
        }
        let mut client = client(&server);
        // The PINGREQ is answered where the server goes on, so that nothing waits.
        client.try_send(&[bytes(version), vec![kind::PINGREQ, 0]].concat());
        let mut answers = Vec::new();
        let ended = loop {
            match client.next() {
                Some((kind::PINGRESP, _)) => break false,
                Some(answer) => answers.push(answer),
                None => break true,
            }
        };
        let reason = answers.iter().find(|(first, _)| *first == kind::DISCONNECT).map(|(_, body)| body.first());
        match reason {
            _ if !ended => wrong.push(format!("{name}: the connection goes on after {answers:02x?}")),
            Some(_) if version == Version::V311 => wrong.push(format!("{name}: a DISCONNECT in 3.1.1")),
            Some(code) if code.is_none_or(|code| *code < 0x80) => wrong.push(format!("{name}: {code:02x?}")),
            Some(_) | None => {}
        }
        witness.ping();
    }
    assert!(wrong.is_empty(), "{version:?}:\n{}", wrong.join("\n"));
}

#[test]
fn a_malformed_packet_ends_its_connection() {
    for version in BOTH {
        run(version, CASES, |server| Connect::new(version, "wrong").open(server));
    }
}

#[test]
fn a_malformed_mqtt_5_packet_ends_its_connection() {
    run(Version::V5, CASES_5, |server| Connect::new(Version::V5, "wrong").open(server));
}

#[test]
fn a_malformed_beginning_ends_its_connection() {
    for version in BOTH {
        run(version, FIRST, |server| Client::dial(server, version));
    }
}

#[test]
fn an_mqtt_5_client_is_told_what_was_wrong() {
    let server = Server::start();
    let cases: [(&[u8], &[u8]); 4] = [
        (&publish(Version::V5, 0x02, "a/#", 1, &[], b""), &[0x82, 0x90, 0x81]),
        (&[0x60, 2, 0, 1], &[0x81, 0x82]),
        (&publish(Version::V5, 0x06, "a", 1, &[], b""), &[0x81, 0x82, 0x9B]),
        (&publish(Version::V5, 0x02, "a", 1, &[0x7E, 1], b""), &[0x81, 0x82]),
    ];
    for (bytes, reasons) in cases {
        let mut client = Connect::new(Version::V5, "wrong").open(&server);
        client.send(bytes);
        let reason = client.ends();
        // mosquitto does not always say.
        assert!(reason.map_or(!server.is_ours(), |reason| reasons.contains(&reason)), "{reason:02x?} for {bytes:02x?}");
    }
}

#[test]
fn an_mqtt_5_client_that_offers_no_topic_aliases_in_so_many_words_is_served() {
    let server = Server::start();
    let list = crate::wire::two(crate::wire::property::TOPIC_ALIAS_MAXIMUM, 0);
    let mut client = Connect::new(Version::V5, "none").property(&list).open(&server);
    client.subscribe(&[("a", 0)]);
    Connect::new(Version::V5, "device").open(&server).publish(0, "a", "x");
    assert_eq!(client.message().topic, "a");
}
