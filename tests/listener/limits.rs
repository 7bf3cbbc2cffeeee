//! Limits that one side announces and the other keeps.

use crate::client::{Client, Connect};
use crate::server::Server;
use crate::wire::{BOTH, Version, ack, four, kind, property, publish, two};

/// Larger than any packet that the listener takes.
const TOO_LARGE: usize = 300 * 1024;

#[test]
fn a_client_never_has_more_unacknowledged_messages_than_it_asked_for() {
    for qos in [1, 2] {
        let server = Server::start();
        if !server.is_ours() {
            // 2.0.11 sends one more after the first round.
            return;
        }
        let connect = Connect::new(Version::V5, "reader").property(&two(property::RECEIVE_MAXIMUM, 3));
        let mut reader = connect.open(&server);
        reader.subscribe(&[("a", 2)]);
        let mut device = Connect::new(Version::V5, "device").open(&server);
        for number in 0..9 {
            device.publish(qos << 1, "a", &number.to_string());
        }
        for round in 0..3 {
            let window: Vec<_> = (0..3).map(|_| reader.message()).collect();
            // The next packet would be a message, if there were one.
            reader.ping();
            for (number, message) in window.iter().enumerate() {
                assert_eq!(message.payload, (round * 3 + number).to_string(), "QoS {qos}");
            }
            if qos == 1 {
                for message in &window {
                    reader.send(&ack(kind::PUBACK, message.id));
                }
                continue;
            }
            for message in &window {
                reader.send(&ack(kind::PUBREC, message.id));
            }
            for message in &window {
                assert_eq!(reader.expect_ack(kind::PUBREL, message.id), 0);
            }
            for message in &window {
                reader.send(&ack(kind::PUBCOMP, message.id));
            }
        }
    }
}

#[test]
fn a_message_larger_than_a_client_takes_is_left_out_for_that_client_alone() {
    let server = Server::start();
    let connect = Connect::new(Version::V5, "small").property(&four(property::MAXIMUM_PACKET_SIZE, 64));
    let mut small = connect.open(&server);
    let mut large = Connect::new(Version::V5, "large").open(&server);
    small.subscribe(&[("a", 1)]);
    large.subscribe(&[("a", 1)]);
    let mut device = Connect::new(Version::V5, "device").open(&server);
    device.publish(0x02, "a", &"x".repeat(100));
    device.publish(0x02, "a", "fits");
    let payloads = |client: &mut Client| client.drain().into_iter().map(|m| m.payload.len()).collect::<Vec<_>>();
    assert_eq!(payloads(&mut small), [4]);
    assert_eq!(payloads(&mut large), [100, 4]);
}

#[test]
fn a_packet_that_is_too_large_ends_the_connection_before_it_has_come() {
    for version in BOTH {
        let server = Server::start();
        if !server.is_ours() {
            return;
        }
        let mut client = Connect::new(version, "client").open(&server);
        // Announced, and its beginning sent.
        let packet = publish(version, 0x02, "a", 1, &[], &vec![b'x'; TOO_LARGE]);
        client.send(&packet[..1_000]);
        let reason = client.ends();
        if version == Version::V5 {
            assert_eq!(reason, Some(0x95), "packet too large");
        }
        Connect::new(version, "client").open(&server).ping();
    }
}

#[test]
fn an_mqtt_5_client_is_told_the_limits() {
    let server = Server::start();
    let (_client, answer) = Connect::new(Version::V5, "client").ask(&server);
    let names: Vec<u8> = answer.properties.iter().map(|(name, _)| *name).collect();
    if server.is_ours() {
        for name in [property::RECEIVE_MAXIMUM, property::MAXIMUM_PACKET_SIZE, property::TOPIC_ALIAS_MAXIMUM] {
            assert!(names.contains(&name), "{name:#04x} is in {names:?}");
        }
    }
}

#[test]
fn an_mqtt_5_client_that_exceeds_the_receive_maximum_is_sent_away() {
    let server = Server::start();
    if !server.is_ours() {
        return;
    }
    let (mut client, answer) = Connect::new(Version::V5, "client").ask(&server);
    let maximum = answer.properties.iter().find(|(name, _)| *name == property::RECEIVE_MAXIMUM);
    let maximum = maximum.map_or(65_535, |(_, value)| u16::from_be_bytes(value.as_slice().try_into().unwrap()));
    assert!(maximum < 1_000, "a bound that means something: {maximum}");
    // QoS 2, never released: none of them is complete.
    let burst: Vec<u8> = (1..=maximum + 1).flat_map(|id| publish(Version::V5, 0x04, "a", id, &[], b"x")).collect();
    client.try_send(&burst);
    assert_eq!(client.ends(), Some(0x93), "receive maximum exceeded");
}

#[test]
fn a_3_1_1_client_may_send_any_number_before_it_is_answered() {
    let server = Server::start();
    let mut client = Connect::new(Version::V311, "client").open(&server);
    let burst: Vec<u8> = (1..=2_000).flat_map(|id| publish(Version::V311, 0x02, "a", id, &[], b"x")).collect();
    std::thread::scope(|scope| {
        let mut writer = client.writer();
        scope.spawn(move || std::io::Write::write_all(&mut writer, &burst).unwrap());
        for id in 1..=2_000 {
            client.expect_ack(kind::PUBACK, id);
        }
    });
}

#[test]
fn a_thousand_clients_are_served_at_a_time() {
    let server = Server::start();
    let mut clients: Vec<Client> =
        (0..1_000).map(|number| Connect::new(BOTH[number % 2], &format!("c{number}")).open(&server)).collect();
    for client in &mut clients {
        client.send(&publish(client.version, 0x02, "a", 1, &[], b"x"));
    }
    for client in &mut clients {
        client.expect_ack(kind::PUBACK, 1);
    }
}

#[test]
fn a_client_that_connects_and_says_nothing_is_cut_off() {
    let server = Server::start();
    if !server.is_ours() {
        return;
    }
    for beginning in [&b""[..], b"\x10", b"\x10\x10\x00\x04MQ"] {
        let mut client = Client::dial(&server, Version::V5);
        client.send(beginning);
        client.ends();
    }
}
