//! Subscriptions, and who gets what.

use super::*;

fn suback(codes: &[u8]) -> ToClient {
    ToClient::SubAck { packet: 1, codes: codes.to_vec() }
}

#[test]
fn each_filter_is_answered_and_bounds_are_kept() {
    let mut world = World::with(BrokerLimits { subscriptions: 2, ..BrokerLimits::default() });
    world.client(1, "a", 0);
    let refused = Filter { refused: Some(0x80), ..filter("no", Q1) };
    let deep = "/".repeat(300);
    let asked = [filter("a", Q0), refused, filter("b", Q2), filter("c", Q1), filter("a", Q1), filter(&deep, Q0)];
    world.subscribe(1, &asked);
    assert_eq!(world.told(), [(1, suback(&[0, 0x80, 2, 0x97, 1, 0x97]))]);
    assert_eq!(world.broker.status().subscriptions, 2);
}

#[test]
fn a_stored_subscription_is_acknowledged_after_the_commit() {
    let mut world = World::new();
    world.client(1, "a", 60);
    world.subscribe(1, &[filter("a", Q0)]);
    assert_eq!(world.told(), []);
    world.commit();
    assert_eq!(world.told(), [(1, suback(&[0]))]);
    let gone = [String::from("a"), String::from("b")];
    world.say(1, ClientEvent::Unsubscribe { packet: 2, filters: &gone });
    assert_eq!(world.told(), []);
    world.commit();
    assert_eq!(world.told(), [(1, ToClient::UnsubAck { packet: 2, codes: vec![0, 0x11] })]);
    world.publish(1, &publish("a", "x", Q0, 0));
    assert_eq!(world.got(), [""; 0]);
}

#[test]
fn overlapping_subscriptions_bring_one_message_with_the_highest_qos_and_all_identifiers() {
    let mut world = World::new();
    world.client(1, "a", 0);
    for (id, wanted, qos) in [(7, "t/+", Q1), (8, "t/#", Q2), (9, "other", Q2)] {
        world.say(1, ClientEvent::Subscribe { packet: 1, id: Some(id), filters: &[filter(wanted, qos)] });
    }
    world.publish(1, &publish("t/a", "x", Q2, 1));
    world.commit();
    let deliveries = world.deliveries();
    assert_eq!(deliveries.len(), 1);
    let mut ids = deliveries[0].1.subscriptions.clone();
    ids.sort_unstable();
    assert_eq!((deliveries[0].1.qos, ids), (Q2, vec![7, 8]));
}

#[test]
fn the_lower_qos_of_sender_and_subscription_counts() {
    for (sent, wanted, expected) in [(Q0, Q2, "q0"), (Q1, Q2, "q1"), (Q2, Q1, "q1"), (Q2, Q0, "q0"), (Q2, Q2, "q2")] {
        let mut world = World::new();
        world.client(1, "a", 0);
        world.subscribed(1, "t", wanted);
        world.publish(1, &publish("t", "x", sent, 1));
        world.commit();
        assert_eq!(world.got(), [format!("1: t=x {expected}")]);
    }
}

#[test]
fn whoever_wants_no_echo_gets_none() {
    let mut world = World::new();
    world.client(1, "a", 0);
    world.client(2, "b", 0);
    for connection in [1, 2] {
        world.subscribe(connection, &[Filter { no_local: true, ..filter("t", Q0) }]);
    }
    world.publish(1, &publish("t", "x", Q0, 0));
    assert_eq!(world.got(), ["2: t=x q0"]);
}

#[test]
fn what_the_agent_says_goes_to_subscribers_like_any_message() {
    let mut world = World::new();
    world.client(1, "a", 0);
    world.subscribed(1, "#", Q1);
    world.broker.publish_own(world.now(), message("t", "x", Q0));
    assert_eq!(world.got(), ["1: t=x q0"]);
    world.broker.publish_own(world.now(), message("$SYS/t", "x", Q0));
    assert_eq!(world.got(), [""; 0]);
    world.broker.publish_own(world.now(), message("t", "y", Q1));
    assert_eq!(world.got(), [""; 0]);
    world.commit();
    assert_eq!(world.got(), ["1: t=y q1"]);
}

#[test]
fn a_group_shares_in_turn_and_beside_ordinary_subscriptions() {
    let mut world = World::new();
    for (connection, name) in [(1, "a"), (2, "b"), (3, "c")] {
        world.client(connection, name, 0);
    }
    world.subscribed(1, "$share/g/t/#", Q0);
    world.subscribed(2, "$share/g/t/#", Q0);
    world.subscribed(3, "t/x", Q0);
    for payload in ["1", "2", "3"] {
        world.publish(3, &publish("t/x", payload, Q0, 0));
    }
    let expected = ["3: t/x=1 q0", "1: t/x=1 q0", "3: t/x=2 q0", "2: t/x=2 q0", "3: t/x=3 q0", "1: t/x=3 q0"];
    assert_eq!(world.got(), expected);
}

#[test]
fn a_group_prefers_members_with_room_then_connected_ones_then_any() {
    let mut world = World::new();
    world.connect(1, &Connect { receive_max: 1, ..connect("narrow", false, 60) });
    world.client(2, "wide", 60);
    world.subscribed(1, "$share/g/t", Q1);
    world.subscribed(2, "$share/g/t", Q1);
    let mut packet = 0;
    let mut send = |world: &mut World| {
        packet += 1;
        world.publish(2, &publish("t", "x", Q1, packet));
        world.commit();
        world.deliveries().iter().map(|(connection, _)| *connection).collect::<Vec<_>>()
    };
    assert_eq!(send(&mut world), [1]);
    assert_eq!(send(&mut world), [2]);
    assert_eq!(send(&mut world), [2], "the window of the other is full");
    world.client(3, "publisher", 0);
    world.say(1, ClientEvent::Gone);
    assert_eq!(send(&mut world), [2]);
    world.say(2, ClientEvent::Gone);
    world.publish(3, &publish("t", "x", Q1, 9));
    assert_eq!(world.broker.status().queued, 5, "one of them keeps it");
}
