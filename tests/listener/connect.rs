//! Who is let in, which session goes on, and what a second connection does to the first.

use crate::client::{Client, Connect};
use crate::server::Server;
use crate::wire::{BOTH, Version, four, kind, packet, property, text};

#[test]
fn a_session_is_present_exactly_where_one_was_kept() {
    let server = Server::start();
    for version in BOTH {
        let id = format!("device-{version:?}");
        let clean = Connect::new(version, &id);
        let kept = clean.clone().persistent();
        assert!(!kept.open(&server).session_present, "there is none yet");
        for _ in 0..2 {
            let client = kept.open(&server);
            assert!(client.session_present, "{version:?}: it goes on");
            client.disconnect();
        }
        let client = clean.open(&server);
        assert!(!client.session_present, "{version:?}: a clean start forgets");
        client.disconnect();
        assert!(!kept.open(&server).session_present, "{version:?}: and leaves nothing");
    }
}

#[test]
fn a_clean_session_ends_with_its_connection() {
    let server = Server::start();
    for version in BOTH {
        let mut client = Connect::new(version, "gone").open(&server);
        client.subscribe(&[("a", 1)]);
        client.cut();
        assert!(!Connect::new(version, "gone").clean(false).open(&server).session_present, "{version:?}");
        // The other version's turn starts from nothing.
        Connect::new(version, "gone").open(&server).disconnect();
    }
}

#[test]
fn subscriptions_and_messages_of_a_session_survive_a_restart_of_the_server() {
    for version in BOTH {
        let mut server = Server::start();
        let kept = Connect::new(version, "kept").persistent();
        let mut client = kept.open(&server);
        client.subscribe(&[("a/+", 1)]);
        client.disconnect();
        let mut device = Connect::new(version, "device").open(&server);
        device.publish(0x02, "a/b", "before");
        device.disconnect();
        server.restart();
        let mut device = Connect::new(version, "device").open(&server);
        device.publish(0x02, "a/c", "after");
        let mut client = kept.open(&server);
        assert!(client.session_present, "{version:?}");
        let payloads: Vec<String> = client.drain().into_iter().map(|message| message.payload).collect();
        assert_eq!(payloads, ["before", "after"], "{version:?}");
    }
}

#[test]
fn a_second_connection_with_the_same_id_takes_the_session_over() {
    for version in BOTH {
        let server = Server::start();
        let connect = Connect::new(version, "twin").persistent();
        let mut first = connect.open(&server);
        first.subscribe(&[("a", 1)]);
        let mut second = connect.open(&server);
        assert!(second.session_present, "{version:?}");
        let reason = first.ends();
        if version == Version::V5 && server.is_ours() {
            assert_eq!(reason, Some(0x8E), "session taken over");
        }
        let mut device = Connect::new(version, "device").open(&server);
        device.publish(0x02, "a", "to the second");
        assert_eq!(second.message().payload, "to the second");
    }
}

#[test]
fn a_taken_over_client_with_a_clean_session_leaves_no_subscription() {
    let server = Server::start();
    for version in BOTH {
        let connect = Connect::new(version, "twin");
        let mut first = connect.open(&server);
        first.subscribe(&[("a", 1)]);
        let mut second = connect.open(&server);
        assert!(!second.session_present);
        first.ends();
        second.publish(0x02, "a", "nobody");
        assert_eq!(second.drain(), []);
    }
}

#[test]
fn without_a_client_id_a_clean_3_1_1_client_is_let_in_and_another_is_not() {
    let server = Server::start();
    Connect::new(Version::V311, "").open(&server).ping();
    let (mut client, answer) = Connect::new(Version::V311, "").clean(false).ask(&server);
    assert_eq!(answer.code, 2, "identifier rejected");
    assert_eq!(client.ends(), None);
}

#[test]
fn without_a_client_id_an_mqtt_5_client_is_told_the_one_it_has() {
    let server = Server::start();
    let assigned = || {
        let (client, answer) = Connect::new(Version::V5, "").ask(&server);
        assert_eq!(answer.code, 0);
        let mut ids = answer.properties.into_iter().filter(|(found, _)| *found == property::ASSIGNED_CLIENT_ID);
        (client, String::from_utf8(ids.next().expect("an id is assigned").1).unwrap())
    };
    let ((mut one, first), (mut other, second)) = (assigned(), assigned());
    assert_ne!(first, second);
    one.ping();
    other.ping();
}

#[test]
fn an_assigned_client_id_brings_its_session_back() {
    let server = Server::start();
    let expiry = four(property::SESSION_EXPIRY, 600);
    let (client, answer) = Connect::new(Version::V5, "").property(&expiry).ask(&server);
    let (_, id) = answer.properties.iter().find(|(found, _)| *found == property::ASSIGNED_CLIENT_ID).unwrap();
    client.disconnect();
    let again = Connect::new(Version::V5, str::from_utf8(id).unwrap()).persistent();
    assert!(again.open(&server).session_present);
}

#[test]
fn an_mqtt_5_client_that_disconnects_may_shorten_its_session() {
    let server = Server::start();
    let kept = Connect::new(Version::V5, "kept").persistent();
    let mut client = kept.open(&server);
    let body = [vec![0, 5], four(property::SESSION_EXPIRY, 0)].concat();
    client.send(&packet(kind::DISCONNECT, &body));
    client.ends();
    assert!(!kept.open(&server).session_present);
}

#[test]
fn an_unknown_protocol_level_is_refused() {
    let server = Server::start();
    for level in [6, 0x7F] {
        let mut client = Client::dial(&server, Version::V311);
        let body = [text("MQTT"), vec![level, 0x02, 0, 0], text("x")].concat();
        client.send(&packet(kind::CONNECT, &body));
        // 3.1.1 prescribes the answer; one in MQTT 5's form (0x84) is as good.
        if let Some((first, body)) = client.next() {
            assert_eq!(first, kind::CONNACK);
            assert!(matches!(body[1], 0x01 | 0x84), "unacceptable protocol version: {body:?}");
            client.ends();
        }
    }
    Connect::new(Version::V311, "x").open(&server).ping();
}

#[test]
fn a_second_connect_on_a_connection_ends_it() {
    let server = Server::start();
    for version in BOTH {
        let connect = Connect::new(version, "twice");
        let mut client = connect.open(&server);
        client.send(&connect.bytes());
        let reason = client.ends();
        if version == Version::V5 && server.is_ours() {
            assert_eq!(reason, Some(0x82), "protocol error");
        }
    }
}

#[test]
fn what_follows_a_disconnect_is_not_read() {
    let server = Server::start();
    for version in BOTH {
        let mut witness = Connect::new(version, "witness").open(&server);
        witness.subscribe(&[("late", 0)]);
        let mut client = Connect::new(version, "late").open(&server);
        let late = crate::wire::publish(version, 0, "late", 0, &[], b"too late");
        client.send(&[&[kind::DISCONNECT, 0], late.as_slice()].concat());
        client.ends();
        assert_eq!(witness.drain(), []);
    }
}

#[test]
fn a_connect_may_come_byte_by_byte_and_with_its_first_messages() {
    let server = Server::start();
    for version in BOTH {
        let connect = Connect::new(version, "eager");
        let mut slow = Client::dial(&server, version);
        for byte in connect.bytes() {
            slow.send(&[byte]);
        }
        assert_eq!(slow.expect(kind::CONNACK)[1], 0);
        slow.disconnect();

        let mut eager = Client::dial(&server, version);
        let message = crate::wire::publish(version, 0x02, "a", 7, &[], b"at once");
        eager.send(&[connect.bytes(), message].concat());
        assert_eq!(eager.expect(kind::CONNACK)[1], 0);
        eager.expect_ack(kind::PUBACK, 7);
    }
}
