//! `QoS` 1 and 2 towards a client that goes away before it has acknowledged.

use crate::client::{Client, Connect, Message};
use crate::server::Server;
use crate::wire::{BOTH, ack, kind, take_u16};

/// Messages that wait, fewer than any server's window.
const COUNT: usize = 10;

fn messages(client: &mut Client, count: usize) -> Vec<Message> {
    (0..count).map(|_| client.message()).collect()
}

fn publish_some(server: &Server, version: crate::wire::Version, qos: u8) {
    let mut device = Connect::new(version, "device").open(server);
    for number in 0..COUNT {
        device.publish(qos << 1, &format!("a/{}", number % 3), &number.to_string());
    }
}

#[test]
fn unacknowledged_messages_come_again_with_dup_in_order_under_their_ids() {
    for version in BOTH {
        for qos in [1, 2] {
            let server = Server::start();
            let kept = Connect::new(version, "reader").persistent();
            let mut reader = kept.open(&server);
            reader.subscribe(&[("a/#", 2)]);
            publish_some(&server, version, qos);
            let first = messages(&mut reader, COUNT);
            assert!(first.iter().all(|message| !message.dup && message.qos == qos), "{first:?}");
            reader.cut();
            let mut reader = kept.open(&server);
            let again = messages(&mut reader, COUNT);
            let expected: Vec<Message> = first.into_iter().map(|message| Message { dup: true, ..message }).collect();
            assert_eq!(again, expected, "{version:?} QoS {qos}");
        }
    }
}

#[test]
fn what_is_acknowledged_does_not_come_again() {
    for version in BOTH {
        let server = Server::start();
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        reader.subscribe(&[("a/#", 1)]);
        publish_some(&server, version, 1);
        let first = messages(&mut reader, COUNT);
        // Every other one, and the server has read them when it answers.
        for message in first.iter().step_by(2) {
            reader.acknowledge(message);
        }
        reader.ping();
        reader.cut();
        let mut reader = kept.open(&server);
        let again = messages(&mut reader, COUNT / 2);
        let expected: Vec<&str> = first.iter().skip(1).step_by(2).map(|message| message.payload.as_str()).collect();
        assert_eq!(again.iter().map(|message| message.payload.as_str()).collect::<Vec<_>>(), expected, "{version:?}");
        for message in &again {
            reader.acknowledge(message);
        }
        assert_eq!(reader.drain(), [], "{version:?}");
    }
}

#[test]
fn a_received_message_at_qos_2_comes_again_as_its_release() {
    for version in BOTH {
        let server = Server::start();
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        reader.subscribe(&[("a/#", 2)]);
        let mut device = Connect::new(version, "device").open(&server);
        device.publish(0x04, "a/b", "once");
        let message = reader.message();
        reader.send(&ack(kind::PUBREC, message.id));
        reader.expect_ack(kind::PUBREL, message.id);
        reader.cut();
        let mut reader = kept.open(&server);
        reader.expect_ack(kind::PUBREL, message.id);
        reader.send(&ack(kind::PUBCOMP, message.id));
        assert_eq!(reader.drain(), [], "{version:?}");
        reader.cut();
        assert_eq!(kept.open(&server).drain(), [], "{version:?}: and is over");
    }
}

#[test]
fn messages_for_an_absent_client_wait_for_it_in_order() {
    for version in BOTH {
        let server = Server::start();
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        reader.subscribe(&[("a/#", 1)]);
        reader.disconnect();
        publish_some(&server, version, 2);
        let mut reader = kept.open(&server);
        let found: Vec<(String, bool)> =
            reader.drain().into_iter().map(|message| (message.payload, message.dup)).collect();
        let expected: Vec<(String, bool)> = (0..COUNT).map(|number| (number.to_string(), false)).collect();
        assert_eq!(found, expected, "{version:?}");
    }
}

#[test]
fn an_acknowledgement_for_nothing_is_harmless() {
    for version in BOTH {
        let server = Server::start();
        let mut client = Connect::new(version, "client").open(&server);
        client.send(&ack(kind::PUBACK, 9));
        client.send(&ack(kind::PUBCOMP, 9));
        client.send(&ack(kind::PUBREL, 9));
        // mosquitto hangs up, which is allowed too; the listener goes on.
        let Some((first, body)) = client.next() else {
            assert!(!server.is_ours(), "{version:?}");
            continue;
        };
        if server.is_ours() {
            assert_eq!((first, take_u16(&mut body.as_slice())), (kind::PUBCOMP, 9), "{version:?}");
            client.ping();
        }
    }
}

#[test]
fn redelivery_survives_a_crash_of_the_listener() {
    for version in BOTH {
        let mut server = Server::start();
        if !server.is_ours() {
            return;
        }
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        reader.subscribe(&[("a/#", 2)]);
        publish_some(&server, version, 2);
        let before = messages(&mut reader, COUNT);
        server.crash();
        let mut reader = kept.open(&server);
        assert!(reader.session_present);
        let after = messages(&mut reader, COUNT);
        let words = |list: &[Message]| list.iter().map(|m| (m.id, m.payload.clone())).collect::<Vec<_>>();
        assert_eq!(words(&after), words(&before), "{version:?}");
    }
}
