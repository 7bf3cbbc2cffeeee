//! Delivery at `QoS` 1 and 2, both ways.

use super::*;
use crate::engine::broker::packet::Farewell;

fn pair(qos: Qos, expiry_secs: u32) -> World {
    let mut world = World::new();
    world.client(1, "publisher", 60);
    world.client(2, "a", expiry_secs);
    world.subscribed(2, "t", qos);
    world
}

fn packets(deliveries: &[(u32, Delivery)]) -> Vec<u16> {
    deliveries.iter().filter_map(|(_, delivery)| delivery.packet).collect()
}

#[test]
fn at_qos_0_it_goes_at_once_and_above_after_the_commit() {
    let mut world = pair(Q1, 0);
    world.publish(1, &publish("t", "0", Q0, 0));
    assert_eq!(world.got(), ["2: t=0 q0"]);
    world.publish(1, &publish("t", "1", Q1, 1));
    assert_eq!(world.got(), [""; 0]);
    assert!(world.broker.waits_for_commit());
    world.commit();
    assert_eq!(world.got(), ["2: t=1 q1"]);
    assert!(!world.broker.waits_for_commit());
    world.say(2, ClientEvent::PubAck { packet: 1, refused: false });
    assert_eq!(world.broker.status().queued, 0);
    assert_eq!(world.broker.status().queued_bytes, 0);
}

#[test]
fn nothing_at_the_same_qos_is_overtaken() {
    let mut world = pair(Q0, 0);
    world.publish(1, &publish("t", "1", Q1, 1));
    world.publish(1, &publish("t", "2", Q0, 0));
    assert_eq!(world.got(), [""; 0]);
    world.commit();
    assert_eq!(world.got(), ["2: t=1 q0", "2: t=2 q0"]);
    world.publish(1, &publish("t", "3", Q0, 0));
    assert_eq!(world.got(), ["2: t=3 q0"]);
}

#[test]
fn the_window_of_the_client_is_kept() {
    let mut world = World::new();
    world.client(1, "publisher", 0);
    world.connect(2, &Connect { receive_max: 2, ..connect("a", true, 0) });
    world.subscribed(2, "t", Q1);
    for packet in 1..=4 {
        world.publish(1, &publish("t", "x", Q1, packet));
    }
    world.commit();
    assert_eq!(packets(&world.deliveries()), [1, 2]);
    world.say(2, ClientEvent::PubAck { packet: 3, refused: false });
    assert_eq!(packets(&world.deliveries()), [0_u16; 0], "that one was not sent");
    world.say(2, ClientEvent::PubAck { packet: 2, refused: true });
    assert_eq!(packets(&world.deliveries()), [3]);
}

#[test]
fn qos_2_takes_four_packets_and_each_stage_is_durable_first() {
    let mut world = pair(Q2, 60);
    world.publish(1, &publish("t", "x", Q2, 9));
    world.commit();
    assert_eq!(packets(&world.deliveries()), [1]);
    world.say(2, ClientEvent::PubRec { packet: 1, refused: false });
    assert_eq!(world.told(), []);
    world.commit();
    assert_eq!(world.told(), [(2, ToClient::PubRel { packet: 1, found: true })]);
    world.say(2, ClientEvent::PubRec { packet: 5, refused: false });
    assert_eq!(world.told(), [(2, ToClient::PubRel { packet: 5, found: false })]);
    world.say(2, ClientEvent::PubComp { packet: 1 });
    assert_eq!(world.broker.status().queued, 0);
    assert!(!world.broker.waits_for_commit() && !world.broker.is_committed());
}

#[test]
fn qos_2_towards_a_session_in_memory_waits_for_nothing_but_the_cause() {
    let mut world = pair(Q2, 0);
    world.publish(1, &publish("t", "x", Q2, 9));
    world.commit();
    world.told();
    world.say(2, ClientEvent::PubRec { packet: 1, refused: false });
    assert_eq!(world.told(), [(2, ToClient::PubRel { packet: 1, found: true })]);
}

#[test]
fn a_refused_message_is_not_offered_again() {
    let mut world = pair(Q2, 60);
    world.publish(1, &publish("t", "x", Q2, 9));
    world.commit();
    world.told();
    world.say(2, ClientEvent::PubRec { packet: 1, refused: true });
    assert_eq!((world.told(), world.broker.status().queued), (vec![], 0));
}

#[test]
fn on_return_unacknowledged_messages_come_first_in_order_and_marked() {
    let mut world = World::new();
    world.client(1, "publisher", 0);
    world.connect(2, &Connect { receive_max: 3, ..connect("a", true, 60) });
    world.subscribed(2, "t", Q2);
    for (packet, payload) in [(1, "1"), (2, "2"), (3, "3"), (4, "4")] {
        world.publish(1, &publish("t", payload, if packet == 2 { Q1 } else { Q2 }, packet));
    }
    world.commit();
    assert_eq!(world.got().len(), 3);
    world.say(2, ClientEvent::PubRec { packet: 1, refused: false });
    world.commit();
    world.told();
    world.say(2, ClientEvent::Gone);
    world.publish(1, &publish("t", "lost", Q0, 0));
    world.publish(1, &publish("t", "5", Q1, 5));
    world.commit();
    world.connect(3, &connect("a", false, 60));
    let told = world.told();
    assert_eq!(told[0], (3, ToClient::ConnAck { session_present: true }));
    assert_eq!(told[1], (3, ToClient::PubRel { packet: 1, found: true }));
    let rest: Vec<_> = told[2..]
        .iter()
        .filter_map(|(_, what)| if let ToClient::Publish(delivery) = what { Some(brief(delivery)) } else { None })
        .collect();
    assert_eq!(rest, ["t=2 q1 dup", "t=3 q2 dup", "t=4 q2", "t=5 q1"]);
}

#[test]
fn the_oldest_that_waits_is_dropped_when_a_queue_is_full_and_the_newest_when_all_are() {
    let mut world = World::with(BrokerLimits { queue_messages: 2, queue_bytes: 800, ..BrokerLimits::default() });
    world.client(1, "publisher", 0);
    world.client(2, "a", 60);
    world.subscribed(2, "t", Q1);
    world.say(2, ClientEvent::Gone);
    for (packet, payload) in [(1, "1"), (2, "2"), (3, "3")] {
        world.publish(1, &publish("t", payload, Q1, packet));
    }
    world.commit();
    assert_eq!(world.broker.status().counters.dropped_queue_full, 1);
    let long = "x".repeat(800);
    world.publish(1, &publish("t", &long, Q1, 4));
    world.connect(3, &connect("a", false, 60));
    assert_eq!(world.got(), ["3: t=3 q1"]);
    assert_eq!(world.broker.status().counters.dropped_queue_full, 3);
}

#[test]
fn what_is_left_of_its_time_goes_with_a_message_and_then_it_is_dropped() {
    let mut world = pair(Q1, 60);
    world.say(2, ClientEvent::Gone);
    for (packet, secs) in [(1, 5), (2, 20)] {
        world.publish(1, &Publish { expiry_secs: Some(secs), ..publish("t", "x", Q1, packet) });
    }
    world.commit();
    world.pass(8);
    world.connect(3, &connect("a", false, 60));
    let deliveries = world.deliveries();
    assert_eq!(deliveries.len(), 1);
    assert_eq!(deliveries[0].1.expiry_secs, Some(12));
    assert_eq!(world.broker.status().counters.expired, 1);
}

#[test]
fn a_redelivery_is_known_by_its_mark_its_packet_id_and_its_content() {
    let mut world = pair(Q0, 0);
    let first = publish("t", "x", Q1, 7);
    assert_eq!(world.publish(1, &first), Seen::New);
    assert_eq!(world.publish(1, &first), Seen::New, "without the mark it is another one");
    assert_eq!(world.publish(1, &Publish { dup: true, ..first }), Seen::Known);
    assert_eq!(world.publish(1, &Publish { dup: true, ..publish("t", "y", Q1, 7) }), Seen::New);
    let again = Publish { dup: true, ..first };
    assert_eq!(world.publish(2, &again), Seen::New, "each client has its own packet ids");
    assert_eq!(world.publish(2, &again), Seen::Known);
    world.say(2, ClientEvent::Gone);
    world.connect(3, &connect("a", false, 0));
    assert_eq!(world.publish(3, &again), Seen::New, "its session has ended with its connection");
}

#[test]
fn a_client_whose_whole_window_was_not_acknowledged_sends_it_again_and_nothing_is_taken_twice() {
    let payloads: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    // Counting, and few packet ids, that have all been used before.
    for first in [65_500, 1] {
        for restart in [false, true] {
            let mut world = pair(Q0, 0);
            let packet = |at: usize| u16::try_from((first + at - 1) % 65_535 + 1).expect("at most 65,535");
            for (at, _) in payloads.iter().enumerate() {
                assert_eq!(world.publish(1, &publish("t", "of before", Q1, packet(at))), Seen::New);
            }
            world.commit();
            for (at, payload) in payloads.iter().enumerate() {
                assert_eq!(world.publish(1, &publish("t", payload, Q1, packet(at))), Seen::New);
            }
            world.commit();
            if restart {
                world.restart();
            } else {
                world.say(1, ClientEvent::Gone);
            }
            // It is cut off half-way, and begins anew.
            for (connection, sent) in [(3, 50), (4, 100)] {
                world.connect(connection, &connect("publisher", false, 60));
                for (at, payload) in payloads.iter().enumerate().take(sent) {
                    let again = Publish { dup: true, ..publish("t", payload, Q1, packet(at)) };
                    assert_eq!(world.publish(connection, &again), Seen::Known, "{at}");
                }
                world.say(connection, ClientEvent::Gone);
            }
        }
    }
}

#[test]
fn a_session_that_goes_on_for_the_last_time_knows_what_was_taken_in() {
    let mut world = pair(Q0, 0);
    let sent = publish("t", "x", Q1, 7);
    assert_eq!(world.publish(1, &sent), Seen::New);
    world.say(1, ClientEvent::Gone);
    world.connect(3, &connect("publisher", false, 0));
    assert_eq!(world.publish(3, &Publish { dup: true, ..sent }), Seen::Known);
}

#[test]
fn a_packet_id_that_is_used_again_is_another_message() {
    let mut world = pair(Q0, 0);
    let dup = |payload| Publish { dup: true, ..publish("t", payload, Q1, 7) };
    assert_eq!(world.publish(1, &publish("t", "1", Q1, 7)), Seen::New);
    world.commit();
    world.say(1, ClientEvent::Gone);
    world.connect(3, &connect("publisher", false, 60));
    assert_eq!(world.publish(3, &dup("2")), Seen::New, "its first sending was lost");
    assert_eq!(world.publish(3, &dup("2")), Seen::Known);
    assert_eq!(world.publish(3, &dup("1")), Seen::New, "nobody waits for the one of before");
    assert_eq!(world.publish(3, &publish("t", "1", Q1, 7)), Seen::New, "not marked, so a new one, though alike");
    assert_eq!(world.publish(3, &publish("t", "3", Q1, 8)), Seen::New);
    assert_eq!(world.publish(3, &dup("1")), Seen::Known, "followed by another");
}

#[test]
fn at_qos_2_the_packet_id_decides_until_it_is_released() {
    let mut world = pair(Q0, 0);
    for connection in [1, 2] {
        let first = publish("t", "x", Q2, 7);
        assert_eq!(world.publish(connection, &first), Seen::New);
        assert_eq!(world.publish(connection, &publish("t", "y", Q2, 7)), Seen::Known);
        world.commit();
        world.told();
        world.say(connection, ClientEvent::PubRel { packet: 7 });
        let complete = (connection, ToClient::PubComp { packet: 7, found: true });
        if connection == 1 {
            assert_eq!(world.told(), [], "a crash now would bring the id back");
            world.commit();
        }
        assert_eq!(world.told(), [complete]);
        world.say(connection, ClientEvent::PubRel { packet: 7 });
        assert_eq!(world.told(), [(connection, ToClient::PubComp { packet: 7, found: false })]);
        assert_eq!(world.publish(connection, &Publish { dup: true, ..first }), Seen::New);
    }
}

#[test]
fn a_client_that_exceeds_its_window_has_to_go() {
    let mut world = World::with(BrokerLimits { in_flight: 2, ..BrokerLimits::default() });
    world.client(1, "a", 0);
    for packet in [1, 2] {
        assert_eq!(world.publish(1, &publish("t", "x", Q2, packet)), Seen::New);
    }
    assert_eq!(world.publish(1, &publish("t", "x", Q2, 3)), Seen::Refused);
    assert_eq!(world.told(), [(1, ToClient::Disconnect(Farewell::QuotaExceeded))]);
}
