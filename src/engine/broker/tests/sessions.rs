//! Connections, sessions and wills.

use super::*;
use crate::engine::broker::packet::Farewell;

fn ack(session_present: bool) -> ToClient {
    ToClient::ConnAck { session_present }
}

#[test]
fn a_session_that_ends_with_its_connection_waits_for_nothing() {
    let mut world = World::new();
    world.connect(1, &connect("a", true, 0));
    assert_eq!(world.told(), [(1, ack(false))]);
    assert!(!world.broker.waits_for_commit() && world.broker.is_committed());
    world.say(1, ClientEvent::Gone);
    world.connect(2, &connect("a", false, 0));
    assert_eq!(world.told(), [(2, ack(false))]);
}

#[test]
fn a_new_session_that_stays_is_acknowledged_after_the_commit_and_resumed_at_once() {
    let mut world = World::new();
    world.connect(1, &connect("a", true, 60));
    assert_eq!(world.told(), []);
    assert!(world.broker.waits_for_commit());
    world.commit();
    assert_eq!(world.told(), [(1, ack(false))]);
    world.say(1, ClientEvent::Gone);
    world.commit();
    world.connect(2, &connect("a", false, 60));
    assert_eq!(world.told(), [(2, ack(true))]);
    world.say(2, ClientEvent::Gone);
    world.connect(3, &connect("a", true, 60));
    assert_eq!(world.told(), [], "its end has to be durable");
    world.commit();
    assert_eq!(world.told(), [(3, ack(false))]);
}

#[test]
fn a_session_whose_beginning_is_not_durable_is_not_said_to_go_on() {
    let mut world = World::new();
    world.connect(1, &connect("a", false, 60));
    world.say(1, ClientEvent::Gone);
    world.connect(2, &connect("a", false, 60));
    assert_eq!(world.told(), []);
    world.commit();
    assert_eq!(world.told(), [(1, ack(false)), (2, ack(true))]);
}

#[test]
fn nothing_goes_to_a_connection_before_its_connack() {
    let mut world = World::new();
    world.client(1, "publisher", 0);
    world.connect(2, &connect("a", true, 60));
    world.subscribe(2, &[filter("t", Q0)]);
    world.publish(1, &publish("t", "x", Q0, 0));
    assert_eq!(world.told(), []);
    world.commit();
    let told = world.told();
    assert_eq!(told[0], (2, ack(false)));
    assert!(matches!(told[1].1, ToClient::SubAck { .. }) && matches!(told[2].1, ToClient::Publish(_)));
}

#[test]
fn whoever_has_the_client_id_last_has_the_session() {
    let mut world = World::new();
    world.client(1, "a", 60);
    world.subscribed(1, "t", Q1);
    world.connect(2, &connect("a", false, 60));
    assert_eq!(world.told(), [(1, ToClient::Disconnect(Farewell::TakenOver)), (2, ack(true))]);
    world.say(1, ClientEvent::Gone);
    world.client(3, "publisher", 0);
    assert_eq!(world.publish(1, &publish("t", "late", Q1, 1)), Seen::Refused);
    world.publish(3, &publish("t", "x", Q1, 1));
    world.commit();
    assert_eq!(world.got(), ["2: t=x q1"]);
    assert_eq!(world.broker.status().counters.taken_over, 1);
}

#[test]
fn a_session_that_ends_with_its_connection_is_not_taken_over() {
    let mut world = World::new();
    world.client(1, "a", 0);
    world.subscribed(1, "t", Q0);
    world.connect(2, &connect("a", false, 0));
    assert_eq!(world.told(), [(1, ToClient::Disconnect(Farewell::TakenOver)), (2, ack(false))]);
    world.publish(2, &publish("t", "x", Q0, 0));
    assert_eq!(world.got(), [""; 0]);
}

#[test]
fn a_session_ends_when_its_time_is_over() {
    let mut world = World::new();
    world.client(1, "a", 60);
    world.say(1, ClientEvent::Gone);
    assert_eq!(world.broker.next_deadline(), Some(ProcTime::from_millis(61_000)));
    world.pass(59);
    assert_eq!(world.broker.status().sessions, 1);
    world.pass(1);
    assert_eq!(world.broker.status().sessions, 0);
    assert_eq!(world.broker.next_deadline(), None);
    assert!(!world.broker.is_committed(), "its end is to be stored");
}

#[test]
fn a_goodbye_may_change_when_the_session_ends() {
    let mut world = World::new();
    world.client(1, "a", 60);
    world.say(1, ClientEvent::Disconnect { with_will: false, session_expiry_secs: Some(5) });
    world.pass(5);
    assert_eq!(world.broker.status().sessions, 0);
    world.client(2, "b", 60);
    world.say(2, ClientEvent::Disconnect { with_will: false, session_expiry_secs: Some(0) });
    assert_eq!(world.broker.status().sessions, 0);
    world.client(3, "c", 0);
    world.say(3, ClientEvent::Disconnect { with_will: false, session_expiry_secs: Some(9) });
    assert_eq!(world.broker.status().sessions, 0, "what was to end with the connection does");
    world.commit();
    world.restart();
    assert_eq!(world.broker.status().sessions, 0);
}

#[test]
fn nobody_stays_for_longer_than_is_configured() {
    let mut world = World::new();
    world.client(1, "a", u32::MAX);
    world.say(1, ClientEvent::Gone);
    world.pass(7 * 86_400);
    assert_eq!(world.broker.status().sessions, 0);
}

#[test]
fn a_resumed_session_may_be_one_that_ends_with_its_connection() {
    let mut world = World::new();
    world.client(1, "a", 60);
    world.subscribed(1, "t", Q1);
    world.say(1, ClientEvent::Gone);
    world.connect(2, &connect("a", false, 0));
    assert_eq!(world.told(), [], "it is not stored any more");
    world.commit();
    assert_eq!(world.told(), [(2, ack(true))]);
    world.publish(2, &publish("t", "x", Q1, 1));
    world.commit();
    assert_eq!(world.got(), ["2: t=x q1"]);
    world.restart();
    assert_eq!(world.broker.status().sessions, 0);
}

#[test]
fn the_session_that_was_alone_for_longest_makes_room() {
    let mut world = World::with(BrokerLimits { sessions: 2, ..BrokerLimits::default() });
    world.client(1, "long", 900);
    world.client(2, "short", 60);
    world.say(1, ClientEvent::Gone);
    world.pass(10);
    world.say(2, ClientEvent::Gone);
    world.client(3, "new", 60);
    world.connect(4, &connect("long", false, 60));
    world.commit();
    assert_eq!(world.told(), [(4, ack(false))]);
    world.connect(5, &connect("other", false, 60));
    assert_eq!(world.told(), [(5, ToClient::NoRoom)]);
    world.subscribe(5, &[filter("t", Q0)]);
    assert_eq!(world.told(), [], "it was not let in");
    assert_eq!(world.broker.status().counters.sessions_evicted, 2);
}

#[test]
fn a_will_is_published_when_the_client_vanishes_and_not_when_it_says_goodbye() {
    let mut world = World::new();
    world.client(1, "watcher", 0);
    world.subscribed(1, "will/#", Q0);
    for (connection, goodbye, expected) in [(2, None, 1), (3, Some(false), 0), (4, Some(true), 1)] {
        world.connect(connection, &Connect { will: will("will/a", 0), ..connect("a", true, 0) });
        world.told();
        match goodbye {
            None => world.say(connection, ClientEvent::Gone),
            Some(with_will) => world.say(connection, ClientEvent::Disconnect { with_will, session_expiry_secs: None }),
        }
        assert_eq!(world.got().len(), expected);
        assert_eq!(world.broker.take_wills().len(), expected);
    }
}

#[test]
fn a_delayed_will_comes_when_the_delay_or_the_session_is_over() {
    for (delay, expiry, due) in [(10, 60, 10), (60, 10, 10), (10, 0, 0)] {
        let mut world = World::new();
        world.connect(2, &Connect { will: will("will/a", delay), ..connect("a", true, expiry) });
        world.commit();
        world.say(2, ClientEvent::Gone);
        if due > 0 {
            world.pass(due - 1);
            assert_eq!(world.broker.take_wills(), []);
            world.pass(1);
        }
        assert_eq!(world.broker.take_wills(), [Arc::new(message("will/a", "gone", Q0))]);
        world.pass(100);
        assert_eq!(world.broker.take_wills(), []);
        assert_eq!(world.broker.status().sessions, 0);
    }
}

#[test]
fn a_delayed_will_is_not_published_when_the_client_is_back() {
    let cases = [
        // Away or taken over, clean start, delay: is it published?
        (true, false, 10, 0),
        (true, true, 10, 1),
        (false, false, 10, 0),
        (false, true, 10, 1),
        (false, false, 0, 1),
    ];
    for (away, clean_start, delay, expected) in cases {
        let mut world = World::new();
        world.connect(1, &Connect { will: will("w", delay), ..connect("a", true, 60) });
        world.commit();
        if away {
            world.say(1, ClientEvent::Gone);
        }
        world.connect(2, &connect("a", clean_start, 60));
        world.pass(30);
        assert_eq!(world.broker.take_wills().len(), expected, "{away} {clean_start} {delay}");
    }
}

#[test]
fn a_will_at_qos_1_waits_for_the_commit_and_may_be_retained() {
    let mut world = World::new();
    world.client(1, "watcher", 0);
    world.subscribed(1, "w", Q1);
    let mut last = will("w", 0);
    if let Some(will) = &mut last {
        will.message.qos = Q1;
        will.message.retain = true;
    }
    world.connect(2, &Connect { will: last, ..connect("a", true, 0) });
    world.told();
    world.say(2, ClientEvent::Gone);
    assert_eq!(world.got(), [""; 0]);
    world.commit();
    assert_eq!(world.got(), ["1: w=gone q1"]);
    assert_eq!(world.broker.status().retained, 1);
}

#[test]
fn answers_do_not_pile_up_while_commits_fail() {
    let limits = BrokerLimits { queue_messages: 3, in_flight: 2, ..BrokerLimits::default() };
    let mut world = World::with(limits);
    world.client(1, "a", 60);
    for _ in 0..100 {
        world.subscribe(1, &[filter("t", Q1)]);
    }
    assert_eq!(world.broker.status().connected, 0);
    world.commit();
    let told = world.told();
    assert_eq!(told.last(), Some(&(1, ToClient::Disconnect(Farewell::QuotaExceeded))));
    assert!(told.len() <= 6);
}
