//! Messages in, acknowledgements back, against a real broker and a scripted one.

use std::net::{Ipv4Addr, TcpListener};

use tidegate::engine::step::Command;
use tidegate::model::limits::{COMMANDS_LEN, INBOX_LEN};

use crate::broker::Broker;
use crate::broker::needs::{Need, has};
use crate::peer::{Peer, Received};
use crate::task::{Task, broker_spec, wait_until};

const PERSISTENT: [&str; 2] = ["persistence true", "persistence_location {dir}/"];

fn payloads(task: &Task, count: usize) -> Vec<(String, bool)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    task.messages(count).iter().map(|message| (text(&message.payload), message.dup)).collect()
}

#[test]
fn f34_what_was_not_acknowledged_comes_again_marked_and_what_was_does_not() {
    let mut broker = Broker::start(&PERSISTENT);
    let task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+"]);
    let (first, acks) = task.subscribed(false);
    let mut device = Peer::connect(broker.port, "device");
    for payload in ["a", "b", "c"] {
        device.publish("d/1", payload.as_bytes());
    }
    let messages = task.messages(3);
    assert!(messages.iter().all(|message| !message.dup && message.topic == "d/1"));
    acks.send(messages[1].packet.expect("QoS 1")).expect("connected");
    // The broker handles our packets in order: when this one is through, so is the acknowledgement.
    device.publish("d/1", b"d");
    assert_eq!(payloads(&task, 1), [("d".to_owned(), false)]);

    broker.restart();
    task.down();
    let (second, _new_acks) = task.devices_up(true);
    assert!(second > first, "connections are numbered");
    assert_eq!(task.refused(), Vec::<String>::new(), "a resumed session needs no new subscription");
    assert_eq!(payloads(&task, 3), [("a".to_owned(), true), ("c".to_owned(), true), ("d".to_owned(), true)]);
    assert!(acks.send(1).is_err(), "an acknowledgement of the old connection has nowhere to go");
}

#[test]
fn f39_a_broker_that_forgot_everything_is_subscribed_to_again() {
    let mut broker = Broker::start(&[]);
    let task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+", "e/#"]);
    task.subscribed(false);
    broker.kill();
    task.down();
    broker.restart();
    task.subscribed(false);
    let mut device = Peer::connect(broker.port, "device");
    device.publish("d/1", b"one");
    device.publish("e/x/y", b"two");
    assert_eq!(payloads(&task, 2), [("one".to_owned(), false), ("two".to_owned(), false)]);
}

#[test]
fn a_payload_far_above_the_engines_limit_arrives_whole() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    // The listener takes nothing that large.
    let broker = Broker::mosquitto(&[]);
    let task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+"]);
    let (_, acks) = task.subscribed(false);
    let mut device = Peer::connect(broker.port, "device");
    let large: Vec<u8> = (0..5_000_000_u32).map(|index| (index % 251) as u8).collect();
    for size in [300 * 1_024, 5_000_000] {
        device.publish("d/1", &large[..size]);
        let messages = task.messages(1);
        assert_eq!(messages[0].payload, large[..size]);
        acks.send(messages[0].packet.expect("QoS 1")).expect("connected");
    }
    device.publish("d/1", b"behind it");
    assert_eq!(payloads(&task, 1), [("behind it".to_owned(), false)]);
}

#[test]
fn commands_go_out_by_the_same_connection_unretained_and_without_them_it_goes_on() {
    let broker = Broker::start(&[]);
    let mut edge = Peer::connect(broker.port, "edge");
    edge.subscribe("spBv1.0/+/NCMD/e");
    let task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+"]);
    task.subscribed(false);
    let commands = task.commands();
    for number in 0..COMMANDS_LEN {
        let payload = number.to_string().into_bytes();
        commands.try_send(Command { topic: "spBv1.0/G/NCMD/e".into(), payload }).expect("room for a whole queue");
    }
    for number in 0..COMMANDS_LEN {
        let payload = number.to_string().into_bytes();
        assert_eq!(edge.receive(), Received { topic: "spBv1.0/G/NCMD/e".into(), payload, retain: false });
    }
    drop(commands);
    let mut device = Peer::connect(broker.port, "device");
    device.publish("d/1", b"on");
    assert_eq!(payloads(&task, 1), [("on".to_owned(), false)], "the connection is still that one");
}

#[test]
fn a_full_inbox_holds_the_broker_back_and_loses_nothing() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let broker = Broker::start(&["max_inflight_messages 0", "max_queued_messages 0"]);
    let task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+"]);
    let (_, acks) = task.subscribed(false);
    let mut device = Peer::connect(broker.port, "device");
    let numbers: Vec<String> = (0..2 * INBOX_LEN).map(|number| number.to_string()).collect();
    device.publish_many("d/1", numbers.iter().map(String::as_bytes));
    wait_until("the inbox is full", || task.inbox.is_crowded());
    // Nothing was taken meanwhile; now everything is there, once, in order.
    let messages = task.messages(numbers.len());
    for (message, number) in messages.iter().zip(&numbers) {
        assert_eq!(message.payload, number.as_bytes());
        acks.send(message.packet.expect("QoS 1")).expect("there is room for every acknowledgement");
    }
    device.publish("d/1", b"end");
    assert_eq!(payloads(&task, 1), [("end".to_owned(), false)]);
}

#[test]
fn f35_qos_0_and_retained_messages_are_marked_as_what_they_are() {
    let broker = Broker::start(&[]);
    let mut device = Peer::connect(broker.port, "device");
    // QoS 0, retained.
    device.write(0x31, b"\x00\x03d/1state");
    device.publish("x", b"the broker has handled what came before");
    let task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+"]);
    task.devices_up(false);
    let (mut refused, mut messages) = (None, Vec::new());
    while refused.is_none() || messages.is_empty() {
        match task.next() {
            tidegate::agent::inbox::Input::DevicesSubscribed { refused: filters } => refused = Some(filters),
            tidegate::agent::inbox::Input::Messages(burst) => messages.extend(burst.messages),
            _ => panic!("only those"),
        }
    }
    assert_eq!(messages[0].payload, "state");
    assert_eq!((messages[0].retain, messages[0].packet), (true, None));
}

#[test]
fn at_a_stop_owed_acknowledgements_are_sent_before_the_disconnect() {
    let broker = Broker::start(&[]);
    let mut task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+"]);
    let (_, acks) = task.subscribed(false);
    Peer::connect(broker.port, "device").publish("d/1", b"one");
    let messages = task.messages(1);
    task.stop();
    acks.send(messages[0].packet.expect("QoS 1")).expect("still connected");
    drop(acks);
    task.join();

    let task = Task::ingest(broker_spec(broker.port, "gw"), &["d/+"]);
    task.subscribed(true);
    Peer::connect(broker.port, "device").publish("d/1", b"two");
    assert_eq!(payloads(&task, 1), [("two".to_owned(), false)], "one was acknowledged");
}

/// A server of which every byte is ours.
fn scripted() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

#[test]
fn a_refused_subscription_is_reported_with_its_filter_and_tried_again_on_reconnect() {
    let (listener, port) = scripted();
    let task = Task::ingest(broker_spec(port, "gw"), &["a", "b", "c"]);
    let mut server = Peer::accept(&listener, false);
    assert_eq!(server.read(), (0x82, b"\x00\x01\x00\x01a\x01\x00\x01b\x01\x00\x01c\x01".to_vec()));
    server.write(0x90, &[0, 1, 1, 0x80, 1]);
    task.devices_up(false);
    assert_eq!(task.refused(), ["b"]);

    drop(server);
    let mut server = Peer::accept(&listener, true);
    assert_eq!(server.read().0, 0x82, "although the session was kept");
    server.write(0x90, &[0, 1, 1, 1, 1]);
    task.subscribed(true);

    drop(server);
    let _server = Peer::accept(&listener, true);
    task.subscribed(true);
}

#[test]
fn f38_acknowledgements_go_out_in_order_and_qos_2_leftovers_are_taken_through_their_handshake() {
    let (listener, port) = scripted();
    let task = Task::ingest(broker_spec(port, "gw"), &["d/#"]);
    let mut server = Peer::accept(&listener, true);
    assert_eq!(server.read().0, 0x82, "the first connection of a process subscribes");
    // An unsolicited PUBREL of an older session comes before the SUBACK.
    server.write(0x62, &[0, 77]);
    assert_eq!(server.read(), (0x70, vec![0, 77]), "PUBCOMP");
    server.write(0x90, &[0, 1, 1]);
    let (_, acks) = task.subscribed(true);

    server.write(0x32, b"\x00\x01d\x00\x05one");
    server.write(0x34, b"\x00\x01d\x00\x06two");
    let messages = task.messages(2);
    assert_eq!(messages.iter().filter_map(|message| message.packet).collect::<Vec<_>>(), [5, 6]);
    acks.send(6).expect("connected");
    acks.send(5).expect("connected");
    assert_eq!(server.read(), (0x50, vec![0, 6]), "PUBREC");
    assert_eq!(server.read(), (0x40, vec![0, 5]), "PUBACK");
    server.write(0x62, &[0, 6]);
    assert_eq!(server.read(), (0x70, vec![0, 6]), "PUBCOMP");
}

#[test]
fn a_packet_above_our_limit_ends_the_connection_with_advice() {
    let (listener, port) = scripted();
    let task = Task::ingest(broker_spec(port, "gw"), &["d/#"]);
    let mut server = Peer::accept(&listener, false);
    server.read();
    server.write(0x90, &[0, 1, 1]);
    task.subscribed(false);
    // A PUBLISH that announces 16 MiB; the rest need not come.
    server.write_raw(b"\x32\x80\x80\x80\x08");
    let reason = task.down();
    assert!(reason.contains("message_size_limit"), "{reason}");
}
