//! What survives a restart, from snapshots and from pages.

use super::*;
use crate::engine::broker::packet::Properties;

/// A page of what has changed, which is then durable.
fn page(world: &mut World) -> Vec<u8> {
    let mut out = Vec::new();
    world.broker.write_changes(world.now(), &mut out);
    world.commit();
    out
}

fn restored(world: &World, parts: &[Vec<u8>]) -> World {
    let mut other = World { broker: Broker::new(world.broker.limits), millis: world.millis };
    for part in parts {
        let mut reader = Reader::new(part);
        other.broker.read(&mut reader, other.now().proc).expect("what was written");
        assert!(reader.is_empty());
    }
    other
}

#[test]
fn everything_that_was_promised_survives() {
    let mut world = World::new();
    world.client(1, "publisher", 60);
    world.client(2, "a", 60);
    world.client(3, "memory", 0);
    world.subscribed(2, "t/#", Q2);
    world.subscribed(3, "t/#", Q2);
    let properties = Properties {
        payload_format: Some(1),
        content_type: Some("text/plain".into()),
        response_topic: Some("r".into()),
        correlation: Some(Box::from(*b"\0\xff")),
        user: vec![("k".into(), "v".into()), ("k".into(), "w".into())],
    };
    for (packet, payload, qos) in [(1, "1", Q2), (2, "2", Q2), (3, "3", Q1)] {
        let sent = Publish { properties: Some(&properties), retain: true, ..publish("t/a", payload, qos, packet) };
        world.publish(1, &sent);
        world.commit();
    }
    world.told();
    world.say(2, ClientEvent::PubRec { packet: 1, refused: false });
    world.commit();
    world.restart();
    assert_eq!(world.told(), []);
    assert_eq!((world.broker.status().sessions, world.broker.status().connected), (2, 0));

    world.connect(4, &connect("publisher", false, 60));
    assert_eq!(world.publish(4, &publish("t/a", "?", Q2, 2)), Seen::Known);
    let again = Publish { dup: true, ..publish("t/a", "3", Q1, 3) };
    assert_eq!(world.publish(4, &again), Seen::Known);
    world.told();
    world.connect(5, &connect("a", false, 60));
    let told = world.told();
    assert_eq!(told[0], (5, ToClient::ConnAck { session_present: true }));
    assert_eq!(told[1], (5, ToClient::PubRel { packet: 1, found: true }));
    let ToClient::Publish(second) = &told[2].1 else { panic!("a message") };
    assert_eq!((second.packet, second.dup, brief(second).as_str()), (Some(2), true, "t/a=2 q2 dup"));
    assert_eq!(second.message.properties.as_deref(), Some(&properties));
    assert_eq!(told.len(), 4);
    world.subscribe(5, &[filter("t/a", Q0)]);
    world.commit();
    assert_eq!(world.got(), ["5: t/a=3 q0 retain"]);
}

#[test]
fn what_was_not_committed_is_as_if_it_had_not_been() {
    let mut world = World::new();
    world.client(1, "a", 60);
    world.subscribed(1, "t", Q2);
    let stored = world.whole();
    world.publish(1, &publish("t", "x", Q2, 1));
    world.say(1, ClientEvent::Unsubscribe { packet: 3, filters: &["t".into()] });
    world.restart_from(&stored);
    world.connect(2, &connect("a", false, 60));
    world.told();
    assert_eq!(world.publish(2, &publish("t", "x", Q2, 1)), Seen::New);
    world.commit();
    assert_eq!(world.got(), ["2: t=x q2"]);
}

#[test]
fn a_snapshot_is_the_same_after_it_was_read_and_pages_lead_to_the_same_state() {
    let mut world = World::new();
    let mut parts = vec![world.whole()];
    world.connect(1, &connect("a", true, 60));
    world.connect(2, &connect("b", true, 60));
    parts.push(page(&mut world));
    world.subscribe(2, &[filter("t", Q2)]);
    parts.push(page(&mut world));
    for packet in 1..=3 {
        let sent = Publish { expiry_secs: Some(30), retain: packet == 2, ..publish("t", "x", Q2, packet) };
        world.publish(1, &sent);
    }
    parts.push(page(&mut world));
    world.say(1, ClientEvent::PubRel { packet: 1 });
    world.say(2, ClientEvent::PubRec { packet: 1, refused: false });
    world.say(2, ClientEvent::PubRec { packet: 2, refused: false });
    world.say(2, ClientEvent::PubComp { packet: 2 });
    world.say(2, ClientEvent::Gone);
    parts.push(page(&mut world));
    let whole = world.whole();
    assert_eq!(restored(&world, &parts).whole(), whole, "from pages");
    assert_eq!(restored(&world, std::slice::from_ref(&whole)).whole(), whole, "from itself");
    world.connect(3, &connect("b", true, 0));
    parts.push(page(&mut world));
    assert_eq!(restored(&world, &parts).whole(), world.whole());
    assert!(world.broker.is_committed());
}

#[test]
fn a_failed_commit_is_written_again_with_whatever_came_since() {
    let mut world = World::new();
    let parts = [world.whole()];
    world.connect(1, &connect("a", true, 60));
    let mut lost = Vec::new();
    world.broker.write_changes(world.now(), &mut lost);
    world.subscribe(1, &[filter("t", Q1)]);
    let second = page(&mut world);
    assert_eq!(restored(&world, &[parts[0].clone(), second]).whole(), world.whole());
    let mut nothing = Vec::new();
    world.broker.write_changes(world.now(), &mut nothing);
    assert_eq!(nothing, [0; 5], "a page without changes is a few bytes");
}

#[test]
fn after_a_crash_what_waited_is_marked_and_what_comes_then_is_not() {
    let mut world = World::new();
    world.client(1, "publisher", 0);
    world.client(2, "a", 60);
    world.subscribed(2, "t", Q1);
    let send = |world: &mut World, payload| {
        world.publish(1, &publish("t", payload, Q1, 1));
        world.commit();
    };
    send(&mut world, "1");
    world.say(2, ClientEvent::Gone);
    send(&mut world, "2");
    send(&mut world, "3");
    world.told();
    let stored = world.whole();
    // It is back, and acknowledges more than its window; nothing of that is durable.
    world.connect(3, &Connect { receive_max: 1, ..connect("a", false, 60) });
    for packet in 1..=3 {
        world.say(3, ClientEvent::PubAck { packet, refused: false });
    }
    assert_eq!(world.got(), ["3: t=1 q1 dup", "3: t=2 q1", "3: t=3 q1"]);
    world.restart_from(&stored);
    world.connect(4, &connect("a", false, 60));
    assert_eq!(world.got(), ["4: t=1 q1 dup", "4: t=2 q1 dup", "4: t=3 q1 dup"]);
    for packet in 1..=3 {
        world.say(4, ClientEvent::PubAck { packet, refused: false });
    }
    world.say(4, ClientEvent::Gone);
    world.commit();
    world.restart();
    world.connect(1, &connect("publisher", false, 0));
    world.connect(5, &connect("a", false, 60));
    send(&mut world, "4");
    assert_eq!(world.got(), ["5: t=4 q1"], "under a packet id that is not one of before");
}

#[test]
fn what_is_left_of_a_session_and_a_message_survives() {
    let mut world = World::new();
    world.client(1, "publisher", 0);
    world.client(2, "away", 60);
    world.client(3, "here", 60);
    world.subscribed(2, "t", Q1);
    world.say(2, ClientEvent::Gone);
    world.publish(1, &Publish { expiry_secs: Some(40), ..publish("t", "x", Q1, 1) });
    world.pass(20);
    world.commit();
    world.restart();
    assert!(!world.broker.is_committed(), "that the other client is away is new");
    world.pass(15);
    world.connect(4, &connect("away", false, 60));
    assert_eq!(world.deliveries()[0].1.expiry_secs, Some(5));
    world.say(4, ClientEvent::Gone);
    world.pass(44);
    assert_eq!(world.broker.status().sessions, 2);
    world.pass(1);
    assert_eq!(world.broker.status().sessions, 1, "60 s from the restart on");
}

#[test]
fn damaged_bytes_are_noticed_and_never_panic() {
    let mut world = World::new();
    world.client(1, "a", 60);
    world.subscribed(1, "t", Q2);
    world.publish(1, &Publish { retain: true, expiry_secs: Some(9), ..publish("t", "x", Q2, 1) });
    world.commit();
    let whole = world.whole();
    for cut in 0..whole.len() {
        let read = Broker::new(BrokerLimits::default()).read(&mut Reader::new(&whole[..cut]), ProcTime::default());
        assert!(read.is_err(), "cut at {cut}");
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let mut broker = Broker::new(BrokerLimits::default());
            if broker.read(&mut Reader::new(&damaged), ProcTime::default()).is_ok() {
                broker.after_restore(now(5), ProcTime::default());
                broker.handle(now(5), 1, ClientEvent::Connect(&connect("a", false, 60)));
                broker.mark_committed();
            }
        }
    }
}
