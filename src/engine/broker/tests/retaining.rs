//! Retained messages.

use super::*;

fn retained<'a>(topic: &'a str, payload: &'a str, qos: Qos) -> Publish<'a> {
    Publish { retain: true, ..publish(topic, payload, qos, 1) }
}

#[test]
fn the_last_message_of_a_topic_is_for_whoever_comes_later() {
    let mut world = World::new();
    world.client(1, "a", 0);
    world.subscribed(1, "t/#", Q0);
    for payload in ["1", "2"] {
        world.publish(1, &retained("t/a", payload, Q0));
    }
    assert_eq!(world.got(), ["1: t/a=1 q0", "1: t/a=2 q0"], "to those that are there it is not an old one");
    world.subscribe(1, &[filter("+/a", Q1)]);
    assert_eq!(world.got(), ["1: t/a=2 q0 retain"]);
    world.publish(1, &retained("t/a", "", Q0));
    assert_eq!(world.got(), ["1: t/a= q0"]);
    world.subscribe(1, &[filter("#", Q0)]);
    assert_eq!(world.got(), [""; 0]);
}

#[test]
fn the_retain_flag_stays_where_the_subscription_wants_it() {
    let mut world = World::new();
    world.client(1, "a", 0);
    world.subscribe(1, &[Filter { retain_as_published: true, ..filter("t", Q0) }]);
    world.publish(1, &retained("t", "x", Q0));
    world.publish(1, &publish("t", "y", Q0, 0));
    assert_eq!(world.got(), ["1: t=x q0 retain", "1: t=y q0"]);
}

#[test]
fn a_subscription_says_whether_it_wants_old_messages() {
    let mut world = World::new();
    world.client(1, "a", 0);
    world.publish(1, &retained("t", "x", Q0));
    for (handling, first, again) in
        [(RetainHandling::Send, 1, 1), (RetainHandling::SendIfNew, 1, 0), (RetainHandling::DoNotSend, 0, 0)]
    {
        let wanted = [Filter { retain_handling: handling, ..filter("t", Q0) }];
        world.subscribe(1, &wanted);
        assert_eq!(world.got().len(), first);
        world.subscribe(1, &wanted);
        assert_eq!(world.got().len(), again);
        world.say(1, ClientEvent::Unsubscribe { packet: 2, filters: &["t".into()] });
    }
    world.subscribe(1, &[filter("$share/g/t", Q0)]);
    assert_eq!(world.got(), [""; 0], "none for a shared subscription");
}

#[test]
fn what_is_not_durable_yet_is_not_shown_to_later_subscribers() {
    let mut world = World::new();
    world.client(1, "a", 0);
    world.publish(1, &retained("q0", "x", Q0));
    world.publish(1, &retained("q1", "x", Q1));
    world.subscribe(1, &[filter("+", Q1)]);
    assert_eq!(world.got(), ["1: q0=x q0 retain"]);
    world.commit();
    assert_eq!(world.got(), ["1: q1=x q1 retain"]);
    world.client(2, "b", 0);
    world.subscribe(2, &[filter("+", Q0)]);
    assert_eq!(world.got(), ["2: q0=x q0 retain", "2: q1=x q0 retain"]);
    world.client(3, "c", 0);
    world.subscribe(3, &[filter("q1", Q1)]);
    assert_eq!(world.got(), ["3: q1=x q1 retain"], "durable, so at once");
    assert!(!world.broker.waits_for_commit());
}

#[test]
fn retained_messages_expire_and_are_bounded() {
    let limits = BrokerLimits { retained_messages: 2, retained_bytes: 420, ..BrokerLimits::default() };
    let mut world = World::with(limits);
    world.client(1, "a", 0);
    world.publish(1, &Publish { expiry_secs: Some(10), ..retained("a", "x", Q0) });
    world.publish(1, &retained("b", "x", Q0));
    world.publish(1, &retained("c", "x", Q0));
    assert_eq!(world.broker.status().counters.retained_refused, 1);
    world.pass(4);
    world.subscribe(1, &[filter("a", Q0)]);
    assert_eq!(world.deliveries()[0].1.expiry_secs, Some(6));
    world.pass(6);
    world.subscribe(1, &[filter("+", Q0)]);
    assert_eq!(world.got(), ["1: b=x q0 retain"]);
    world.publish(1, &retained("c", "x", Q0));
    assert_eq!(world.broker.status().retained, 2, "what has expired made room");
    world.told();
    world.publish(1, &retained("b", "too long for the bytes that there are", Q0));
    world.told();
    world.subscribe(1, &[filter("+", Q0)]);
    assert_eq!(world.got(), ["1: c=x q0 retain"], "an old one would be taken for the present one");
}
