//! Much of one kind: it is bounded, and others are served in between.

use super::*;
use crate::engine::broker::packet::Farewell;
use crate::model::limits::INBOUND_MAX;

/// With so many retained messages, `kept/0` and so on.
fn with_retained(count: u16, qos: Qos) -> World {
    let mut world = World::new();
    world.client(1, "device", 0);
    for number in 0..count {
        let topic = format!("kept/{number:04}");
        world.publish(1, &Publish { retain: true, ..publish(&topic, "x", qos, number + 1) });
    }
    world.commit();
    world.client(2, "reader", 0);
    world.told();
    world
}

fn topics(world: &mut World, connection: u32) -> Vec<String> {
    let deliveries = world.deliveries().into_iter().filter(|(to, _)| *to == connection);
    deliveries.map(|(_, delivery)| delivery.message.topic.to_string()).collect()
}

#[test]
fn what_is_retained_comes_in_pieces_each_message_once() {
    let mut world = with_retained(3_000, Q0);
    world.subscribe(2, &[filter("#", Q0), filter("kept/+", Q0)]);
    let mut got = topics(&mut world, 2);
    assert_eq!(got.len(), 256, "a piece of the first at once");
    world.client(3, "other", 0);
    world.subscribe(3, &[filter("kept/0007", Q0)]);
    assert_eq!(topics(&mut world, 3), ["kept/0007"], "who asks for little does not wait");
    let mut goes = 0;
    while world.broker.is_behind() {
        goes += 1;
        world.broker.catch_up(world.now());
        got.extend(topics(&mut world, 2));
    }
    assert_eq!((got.len(), goes), (6_000, 2));
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 3_000, "each twice: for both subscriptions");
}

#[test]
fn whoever_asks_again_begins_again_and_whoever_goes_is_sent_no_more() {
    let mut world = with_retained(1_000, Q0);
    for _ in 0..50 {
        world.subscribe(2, &[filter("#", Q0)]);
    }
    assert_eq!(topics(&mut world, 2).len(), 50 * 256);
    world.broker.catch_up(world.now());
    assert_eq!(topics(&mut world, 2).len(), 1_000 - 256, "the last time counts");
    world.subscribe(2, &[filter("#", Q0)]);
    world.say(2, ClientEvent::Unsubscribe { packet: 9, filters: &["#".to_owned()] });
    assert!(!world.broker.is_behind());
    world.subscribe(2, &[filter("#", Q0)]);
    world.say(2, ClientEvent::Gone);
    assert!(!world.broker.is_behind());
}

/// Packet ids of the SUBACKs, and how many deliveries came before the last of them.
fn answered(world: &mut World, connection: u32) -> (Vec<u16>, usize) {
    let (mut answers, mut deliveries, mut before) = (Vec::new(), 0, 0);
    for (_, what) in world.told().into_iter().filter(|(to, _)| *to == connection) {
        if let ToClient::SubAck { packet, .. } = what {
            answers.push(packet);
            before = deliveries;
        } else if matches!(what, ToClient::Publish(_)) {
            deliveries += 1;
        }
    }
    (answers, before)
}

#[test]
fn who_outlives_the_connection_has_subscribed_when_all_of_it_is_in_the_queue() {
    let mut world = with_retained(1_000, Q1);
    world.client(3, "stays", 600);
    let everything = [filter("#", Q1)];
    world.say(3, ClientEvent::Subscribe { packet: 7, id: None, filters: &everything });
    world.commit();
    assert_eq!(answered(&mut world, 3).0, [0; 0], "the power may go here: three quarters would be missing");
    world.say(3, ClientEvent::Subscribe { packet: 8, id: None, filters: &[filter("kept/0007", Q0)] });
    world.commit();
    assert_eq!(answered(&mut world, 3).0, [0; 0]);
    while world.broker.is_behind() {
        world.broker.catch_up(world.now());
    }
    assert_eq!(answered(&mut world, 3).0, [0; 0], "not before it is durable");
    assert!(!world.broker.is_committed());
    world.commit();
    assert_eq!(answered(&mut world, 3).0, [7, 8]);
    let status = world.broker.status();
    assert_eq!((status.queued, status.counters.dropped_queue_full), (1_000, 0));

    // Asked for in little, or by a session that ends with its connection, it is first.
    world.say(3, ClientEvent::Subscribe { packet: 9, id: None, filters: &[filter("kept/0008", Q0)] });
    world.commit();
    assert_eq!(answered(&mut world, 3), (vec![9], 0));
    world.say(2, ClientEvent::Subscribe { packet: 4, id: None, filters: &everything });
    assert_eq!(answered(&mut world, 2), (vec![4], 0));
}

#[test]
fn what_is_not_wanted_any_more_keeps_no_answer_back() {
    let mut world = with_retained(1_000, Q1);
    world.client(3, "stays", 600);
    let everything = [filter("#", Q0)];
    world.say(3, ClientEvent::Subscribe { packet: 7, id: None, filters: &everything });
    world.say(3, ClientEvent::Unsubscribe { packet: 8, filters: &["#".to_owned()] });
    world.commit();
    assert_eq!(answered(&mut world, 3).0, [7]);

    // Another connection of the session is not told what that one has asked.
    world.say(3, ClientEvent::Subscribe { packet: 9, id: None, filters: &everything });
    world.client(4, "stays", 600);
    while world.broker.is_behind() {
        world.broker.catch_up(world.now());
    }
    world.commit();
    assert!(answered(&mut world, 4).0.is_empty());

    // However many a client asks in the meantime.
    let few = BrokerLimits { queue_messages: 3, in_flight: 2, ..BrokerLimits::default() };
    world.broker.set_limits(few);
    for packet in 10..17 {
        world.say(4, ClientEvent::Subscribe { packet, id: None, filters: &everything });
        world.commit();
    }
    let told = world.told();
    assert!(told.contains(&(4, ToClient::Disconnect(Farewell::QuotaExceeded))));
}

#[test]
fn sessions_have_their_turns() {
    let mut world = with_retained(3_000, Q0);
    world.client(3, "other", 0);
    for connection in [2, 3] {
        world.subscribe(connection, &[filter("#", Q0)]);
    }
    world.told();
    world.broker.catch_up(world.now());
    let deliveries = world.deliveries();
    let of = |connection: u32| deliveries.iter().filter(|(to, _)| *to == connection).count();
    assert_eq!((of(2), of(3)), (2_048, 2_048));
}

#[test]
fn much_that_may_be_sent_is_so_many_bytes_too() {
    let mut world = World::new();
    world.client(1, "device", 0);
    world.client(2, "reader", 0);
    world.subscribed(2, "t", Q0);
    let payload = "x".repeat(200_000);
    for count in 1..=3 {
        world.publish(1, &Publish { packet: None, ..publish("t", &payload, Q0, 0) });
        assert_eq!(world.broker.has_much_ready(), count == 3);
    }
    world.told();
    assert!(!world.broker.has_much_ready());
}

#[test]
fn a_will_finds_room_as_another_message_does() {
    let mut world = World::with(BrokerLimits { queue_bytes: 20_000, ..BrokerLimits::default() });
    world.client(1, "device", 0);
    world.client(2, "away", 60);
    world.client(3, "reader", 0);
    world.commit();
    world.subscribed(2, "readings", Q1);
    world.subscribed(3, "gone/+", Q1);
    world.commit();
    world.say(2, ClientEvent::Gone);
    for packet in 1..=40 {
        world.publish(1, &publish("readings", &"x".repeat(1_000), Q1, packet));
        world.commit();
    }
    for connection in 10..15 {
        let will = Some(Will { message: message("gone/device", &"y".repeat(900), Q1), delay_secs: 0 });
        let id = format!("device-{connection}");
        world.connect(connection, &Connect { will, ..connect(&id, true, 0) });
    }
    world.told();
    for connection in 10..15 {
        world.say(connection, ClientEvent::Gone);
    }
    world.commit();
    assert_eq!(topics(&mut world, 3), ["gone/device"; 5]);
}

#[test]
fn who_knows_no_receive_maximum_may_release_later() {
    for (is_v5, expected) in [(true, 100), (false, 2_048)] {
        let mut world = World::new();
        world.connect(1, &Connect { is_v5, ..connect("device", true, 60) });
        world.commit();
        let is_taken = |packet: &u16| world.publish(1, &publish("t", "x", Q2, *packet)) == Seen::New;
        assert_eq!((1..=3_000).take_while(is_taken).count(), expected, "5: {is_v5}");
        assert!(world.told().contains(&(1, ToClient::Disconnect(Farewell::QuotaExceeded))));
    }
}

#[test]
fn what_all_together_have_not_released_is_bounded() {
    let mut world = World::new();
    let taken_of = |world: &mut World, number: u32| {
        let v311 = Connect { is_v5: false, ..connect(&format!("device{number}"), true, 60) };
        world.connect(number, &v311);
        world.commit();
        let is_taken = |packet: &u16| world.publish(number, &publish("t", "x", Q2, *packet)) == Seen::New;
        let count = (1..=2_048).take_while(is_taken).count();
        world.commit();
        world.told();
        count
    };
    let crowd = u32::try_from(INBOUND_MAX / 2_048).unwrap();
    for number in 1..=crowd {
        assert_eq!(taken_of(&mut world, number), 2_048);
    }
    assert_eq!(taken_of(&mut world, crowd + 1), 100, "what every client may have in flight");
    (1..=2_048).for_each(|packet| world.say(1, ClientEvent::PubRel { packet }));
    world.commit();
    assert_eq!(
        taken_of(&mut world, crowd + 2),
        2_048 - 100,
        "as many as were released, but for those of the one before"
    );
    assert_eq!(taken_of(&mut world, crowd + 3), 100);
}

#[test]
fn answers_that_wait_for_a_commit_are_bounded() {
    let ask = |event: ClientEvent<'_>| {
        let mut world = World::with(BrokerLimits { queue_messages: 10, ..BrokerLimits::default() });
        world.client(1, "device", 60);
        world.commit();
        world.publish(1, &publish("t", "x", Q2, 7));
        world.commit();
        world.told();
        // From here on, the card takes nothing.
        let count = (0..100_000).take_while(|_| {
            world.say(1, event);
            world.broker.status().connected == 1
        });
        count.count()
    };
    assert!(ask(ClientEvent::PubRel { packet: 7 }) < 3_000);
    let filters = [filter("a", Q0)];
    assert!(ask(ClientEvent::Subscribe { packet: 1, id: None, filters: &filters }) < 1_000);
}

#[test]
fn filters_that_come_and_go_between_two_commits_are_bounded() {
    let mut world = World::with(BrokerLimits { subscription_bytes: 200_000, ..BrokerLimits::default() });
    world.client(1, "device", 60);
    world.commit();
    let named = |number: usize| format!("{number}/{}", "x".repeat(1_000));
    let mut come_and_go = |number: usize| {
        world.subscribe(1, &[filter(&named(number), Q0)]);
        let is_one = world.broker.status().subscriptions == 1;
        world.say(1, ClientEvent::Unsubscribe { packet: 2, filters: &[named(number)] });
        is_one
    };
    let taken = (0..1_000).take_while(|number| come_and_go(*number)).count();
    assert!((50..200).contains(&taken), "{taken}");
    world.commit();
    world.subscribe(1, &[filter("a", Q0)]);
    assert_eq!(world.broker.status().subscriptions, 1, "after a commit there is room again");
}
