//! What clients that mean harm can make the broker keep, and what that costs others.

use super::*;
use crate::engine::broker::packet::{Farewell, Properties};

const QUEUE_BYTES: usize = 20_000;

fn filters(count: usize, levels: usize) -> Vec<Filter> {
    (0..count).map(|number| filter(&format!("{number}/{}", "+/".repeat(levels)), Q0)).collect()
}

#[test]
fn all_subscriptions_together_have_a_bound_and_room_comes_back() {
    let mut world = World::with(BrokerLimits { subscription_bytes: 100_000, ..BrokerLimits::default() });
    for connection in 1..=3 {
        world.client(connection, &format!("deep-{connection}"), 60);
    }
    world.subscribe(1, &filters(10, 100));
    world.commit();
    let ToClient::SubAck { codes, .. } = &world.told()[0].1 else { panic!("an answer") };
    assert_eq!(codes.iter().filter(|code| matches!(code, 0)).count(), 2, "of 46 KB each: {codes:?}");
    world.subscribe(2, &[filter("short", Q0), filter(&"x/".repeat(100), Q0)]);
    world.subscribe(1, &filters(1, 100));
    world.commit();
    let told = world.told();
    let codes: Vec<_> = told.iter().map(|(_, what)| what).collect();
    let suback = |codes: &[u8]| ToClient::SubAck { packet: 1, codes: codes.to_vec() };
    assert_eq!(codes, [&suback(&[0, 0x97]), &suback(&[0])], "what is there may be asked for again");
    let bytes = world.broker.subscription_bytes();
    world.restart();
    assert_eq!(world.broker.subscription_bytes(), bytes, "it is counted as before");
    world.connect(4, &connect("deep-1", true, 0));
    world.connect(5, &connect("deep-2", true, 0));
    assert_eq!(world.broker.subscription_bytes(), 0);
}

#[test]
fn a_filter_that_is_named_again_in_one_packet_brings_what_is_retained_once() {
    let mut world = World::new();
    world.client(1, "a", 0);
    for topic in ["r/1", "r/2"] {
        world.publish(1, &Publish { retain: true, ..publish(topic, "x", Q1, 1) });
    }
    world.commit();
    world.told();
    let mut asked = vec![filter("r/#", Q0); 500];
    asked.push(filter("r/2", Q0));
    asked.push(filter("r/#", Q1));
    world.subscribe(1, &asked);
    assert_eq!(world.got(), ["1: r/2=x q0 retain", "1: r/1=x q1 retain", "1: r/2=x q1 retain"], "as it was named last");
}

/// A publisher, somebody greedy whose queue is full, and an honest reader.
fn greedy(expiry_secs: u32, is_there: bool) -> World {
    let mut world = World::with(BrokerLimits { queue_bytes: QUEUE_BYTES, ..BrokerLimits::default() });
    world.client(1, "publisher", 0);
    world.connect(2, &Connect { receive_max: 100, ..connect("greedy", false, expiry_secs) });
    world.commit();
    world.client(3, "honest", 0);
    world.subscribed(2, "greedy", Q1);
    world.subscribed(3, "honest", Q1);
    if !is_there {
        world.say(2, ClientEvent::Gone);
    }
    for packet in 1..=30 {
        world.publish(1, &publish("greedy", &"x".repeat(1_000), Q1, packet));
        world.commit();
    }
    world.told();
    world
}

fn honest_is_served(world: &mut World) {
    for packet in 1..=20 {
        world.publish(1, &publish("honest", "y", Q1, packet));
    }
    world.commit();
    let packets: Vec<u16> = world.deliveries().iter().filter_map(|(to, it)| it.packet.filter(|_| *to == 3)).collect();
    assert_eq!(packets.len(), 10, "its window");
    for packet in packets {
        world.say(3, ClientEvent::PubAck { packet, refused: false });
    }
    assert_eq!(world.deliveries().len(), 10, "and the rest");
    assert!(world.broker.messages.bytes() <= QUEUE_BYTES);
}

#[test]
fn whoever_is_away_with_a_full_queue_makes_way_for_others() {
    let mut world = greedy(60, false);
    let before = world.broker.status().counters.dropped_queue_full;
    honest_is_served(&mut world);
    assert!(world.broker.status().counters.dropped_queue_full > before, "its oldest are gone");
    world.connect(4, &connect("greedy", false, 60));
    assert_eq!(world.deliveries().len(), 10, "it still gets what there is room for");
}

#[test]
fn whoever_acknowledges_nothing_goes_when_others_need_the_room() {
    for expiry_secs in [0, 60] {
        let mut world = greedy(expiry_secs, true);
        assert_eq!(world.broker.status().connected, 3, "it harms nobody yet");
        world.publish(1, &publish("honest", &"y".repeat(2_000), Q1, 99));
        assert!(world.told().contains(&(2, ToClient::Disconnect(Farewell::QuotaExceeded))), "{expiry_secs}");
        world.commit();
        let (_, delivery) = &world.deliveries()[0];
        world.say(3, ClientEvent::PubAck { packet: delivery.packet.expect("at QoS 1"), refused: false });
        honest_is_served(&mut world);
    }
}

#[test]
fn whoever_completes_nothing_keeps_no_room_either() {
    let mut world = World::with(BrokerLimits { queue_bytes: QUEUE_BYTES, ..BrokerLimits::default() });
    world.client(1, "publisher", 0);
    world.client(3, "honest", 0);
    world.connect(2, &Connect { receive_max: 100, ..connect("greedy", false, 60) });
    world.commit();
    world.subscribed(2, "greedy", Q2);
    world.subscribed(3, "honest", Q1);
    for packet in 1..=30 {
        world.publish(1, &publish("greedy", &"x".repeat(1_000), Q2, packet));
        world.say(1, ClientEvent::PubRel { packet });
        world.commit();
    }
    for (_, delivery) in world.deliveries() {
        world.say(2, ClientEvent::PubRec { packet: delivery.packet.expect("at QoS 2"), refused: false });
    }
    world.commit();
    world.told();
    world.publish(1, &publish("honest", &"y".repeat(2_000), Q1, 99));
    assert!(world.told().contains(&(2, ToClient::Disconnect(Farewell::QuotaExceeded))));
    world.commit();
    assert_eq!(world.deliveries().len(), 1);
}

#[test]
fn a_message_that_is_larger_than_all_queues_costs_nobody_anything() {
    let mut world = greedy(60, false);
    let before = world.broker.status();
    world.publish(1, &publish("honest", &"y".repeat(QUEUE_BYTES), Q1, 50));
    world.commit();
    assert_eq!(world.got(), [""; 0]);
    let after = world.broker.status();
    assert_eq!(
        (after.queued, after.counters.dropped_queue_full),
        (before.queued, before.counters.dropped_queue_full + 1)
    );
}

#[test]
fn wills_of_those_who_have_to_go_are_published() {
    let mut world = World::with(BrokerLimits { queue_bytes: QUEUE_BYTES, ..BrokerLimits::default() });
    world.client(1, "publisher", 0);
    world.client(3, "honest", 0);
    world.subscribed(3, "#", Q1);
    for connection in 10..15 {
        let name = format!("greedy-{connection}");
        world.connect(connection, &Connect { will: will(&name, 0), ..connect(&name, false, 0) });
        world.subscribed(connection, &format!("to/{connection}"), Q1);
        world.publish(1, &publish(&format!("to/{connection}"), &"x".repeat(6_000), Q1, 1));
        world.commit();
        for (to, delivery) in world.deliveries() {
            if to == 3 {
                world.say(3, ClientEvent::PubAck { packet: delivery.packet.unwrap_or(0), refused: false });
            }
        }
    }
    assert!(world.broker.status().counters.wills_published >= 2, "{:?}", world.broker.status());
    assert!(world.broker.messages.bytes() <= QUEUE_BYTES);
}

#[test]
fn what_waits_for_a_commit_at_qos_0_has_a_bound_in_bytes() {
    let mut world = World::with(BrokerLimits { queue_bytes: QUEUE_BYTES, ..BrokerLimits::default() });
    world.client(1, "publisher", 0);
    for connection in 2..=4 {
        world.client(connection, &format!("reader-{connection}"), 0);
        world.subscribed(connection, "t", Q0);
    }
    for packet in 1..=30 {
        world.publish(1, &publish("t", &"x".repeat(1_000), Q1, packet));
    }
    world.commit();
    let got = world.deliveries().len();
    assert!((30..=45).contains(&got), "each message once, and each delivery: {got}");
    world.publish(1, &publish("t", "x", Q1, 31));
    world.commit();
    assert_eq!(world.deliveries().len(), 3, "the next commit has all the room again");
}

#[test]
fn properties_count_with_what_they_take_and_not_with_what_they_say() {
    let wordless = Properties { user: vec![("".into(), "".into()); 128], ..Properties::default() };
    assert!(wordless.bytes() > 128 * 32);
    let mut world = World::with(BrokerLimits { retained_bytes: 20_000, ..BrokerLimits::default() });
    world.client(1, "a", 0);
    for topic in ["1", "2", "3", "4"] {
        world.publish(1, &Publish { retain: true, properties: Some(&wordless), ..publish(topic, "x", Q0, 0) });
    }
    assert_eq!((world.broker.status().retained, world.broker.status().counters.retained_refused), (2, 2));
}

#[test]
fn what_is_retained_and_cleared_between_two_commits_leaves_nothing_to_store() {
    let mut world = World::new();
    world.client(1, "a", 0);
    let say = |world: &mut World, topic: &str, payload: &str| {
        world.publish(1, &Publish { retain: true, ..publish(topic, payload, Q0, 0) });
    };
    say(&mut world, "kept", "1");
    world.commit();
    for number in 0..1_000 {
        say(&mut world, &format!("gone/{number}"), "x");
        say(&mut world, &format!("gone/{number}"), "");
    }
    assert!(world.broker.is_committed());
    // Cleared, kept again and cleared: what is stored has to go all the same.
    for payload in ["", "2", "", "3", ""] {
        say(&mut world, "kept", payload);
        assert!(!world.broker.is_committed());
    }
    let (mut page, mut stored) = (Vec::new(), world.whole());
    world.broker.write_changes(world.now(), &mut page);
    assert!(page.windows(4).any(|part| part == b"kept"), "its absence is written");
    world.commit();
    stored.clear();
    stored.extend(world.whole());
    world.restart_from(&stored);
    assert_eq!(world.broker.status().retained, 0);
}

#[test]
fn so_much_may_be_sent_at_once_that_it_is_asked_for() {
    let mut world = World::new();
    for connection in 1..=100 {
        world.client(connection, &format!("reader-{connection}"), 0);
        world.subscribed(connection, "t", Q0);
    }
    let mut messages = 0;
    while !world.broker.has_much_ready() {
        world.publish(1, &publish("t", "x", Q0, 0));
        messages += 1;
        assert!(messages < 100, "a thousand messages would be a hundred thousand deliveries");
    }
    world.told();
    assert!(!world.broker.has_much_ready());
}
