//! What MQTT 5 adds to a subscription: identifiers and options.

use crate::client::{Client, Connect};
use crate::server::Server;
use crate::wire::{Version, property, publish, varint};

/// Subscription options.
const NO_LOCAL: u8 = 0x04;
const RETAIN_AS_PUBLISHED: u8 = 0x08;
const ONLY_IF_NEW: u8 = 0x10;
const NO_RETAINED: u8 = 0x20;

fn reader(server: &Server) -> Client {
    Connect::new(Version::V5, "reader").open(server)
}

fn device(server: &Server) -> Client {
    Connect::new(Version::V5, "device").open(server)
}

fn identifier(value: usize) -> Vec<u8> {
    [vec![property::SUBSCRIPTION_ID], varint(value)].concat()
}

#[test]
fn a_message_names_every_subscription_that_it_comes_by() {
    let server = Server::start();
    let (mut device, mut reader) = (device(&server), reader(&server));
    reader.subscribe_with(&identifier(1), &[("a/#", 1)]);
    reader.subscribe_with(&identifier(268_435_455), &[("a/b", 1)]);
    reader.subscribe_with(&[], &[("+/b", 1)]);
    device.publish(0x02, "a/b", "");
    let mut found: Vec<u32> = reader
        .drain()
        .iter()
        .flat_map(|message| message.values(property::SUBSCRIPTION_ID).into_iter().map(read))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [1, 268_435_455]);
    device.publish(0x02, "a/c", "");
    assert_eq!(reader.message().values(property::SUBSCRIPTION_ID).into_iter().map(read).collect::<Vec<_>>(), [1]);
}

fn read(value: &[u8]) -> u32 {
    u32::from_be_bytes(value.try_into().unwrap())
}

#[test]
fn a_subscription_made_again_has_the_new_identifier() {
    let server = Server::start();
    let (mut device, mut reader) = (device(&server), reader(&server));
    reader.subscribe_with(&identifier(1), &[("a", 0)]);
    reader.subscribe_with(&identifier(2), &[("a", 0)]);
    device.publish(0x00, "a", "");
    assert_eq!(reader.message().values(property::SUBSCRIPTION_ID).into_iter().map(read).collect::<Vec<_>>(), [2]);
}

#[test]
fn no_local_keeps_a_clients_own_messages_away_and_no_others() {
    let server = Server::start();
    let (mut device, mut reader) = (device(&server), reader(&server));
    reader.subscribe(&[("a", 1 | NO_LOCAL)]);
    reader.publish(0x02, "a", "own");
    device.publish(0x02, "a", "other");
    let found: Vec<String> = reader.drain().into_iter().map(|message| message.payload).collect();
    assert_eq!(found, ["other"]);
}

#[test]
fn retain_as_published_leaves_the_flag_as_the_sender_set_it() {
    let server = Server::start();
    let (mut device, mut reader) = (device(&server), reader(&server));
    reader.subscribe(&[("kept/+", RETAIN_AS_PUBLISHED), ("plain/+", 0)]);
    for (flags, topic, expected) in
        [(1, "kept/a", true), (0, "kept/b", false), (1, "plain/a", false), (0, "plain/b", false)]
    {
        device.publish(flags, topic, "x");
        let message = reader.message();
        assert_eq!((message.topic.as_str(), message.retain), (topic, expected));
    }
}

#[test]
fn retain_handling_decides_when_retained_messages_come() {
    let server = Server::start();
    let (mut device, mut reader) = (device(&server), reader(&server));
    device.publish(0x03, "a", "kept");
    let mut count = |options: u8| {
        reader.subscribe(&[("a", options)]);
        reader.drain().len()
    };
    assert_eq!(count(NO_RETAINED), 0);
    assert_eq!(count(ONLY_IF_NEW), 0, "it exists already");
    assert_eq!(count(0), 1);
    assert_eq!(count(ONLY_IF_NEW), 0);
    reader.unsubscribe(&["a"]);
    reader.subscribe(&[("a", ONLY_IF_NEW)]);
    assert_eq!(reader.drain().len(), 1, "a new one");
}

#[test]
fn user_properties_and_the_like_pass_in_order() {
    let server = Server::start();
    let (mut device, mut reader) = (device(&server), reader(&server));
    reader.subscribe(&[("a", 1)]);
    let user = |name, value| [vec![property::USER], crate::wire::text(name), crate::wire::text(value)].concat();
    let list = [user("b", "1"), user("a", "2"), user("b", "3")].concat();
    device.publish_with(0x02, "a", &list, "");
    assert_eq!(reader.message().values(property::USER), [b"b=1", b"a=2", b"b=3"]);
}

#[test]
fn a_topic_alias_of_a_client_stands_for_its_topic() {
    let server = Server::start();
    let mut reader = reader(&server);
    reader.subscribe(&[("a/+", 1)]);
    let (mut device, answer) = Connect::new(Version::V5, "device").ask(&server);
    let maximum = answer.properties.iter().find(|(found, _)| *found == property::TOPIC_ALIAS_MAXIMUM);
    let maximum = maximum.map_or(0, |(_, value)| u16::from_be_bytes(value.as_slice().try_into().unwrap()));
    assert!(maximum >= 1, "aliases are offered");
    let alias = crate::wire::two(property::TOPIC_ALIAS, 1);
    for (id, topic, payload) in [(1, "a/first", "1"), (2, "", "2"), (3, "a/second", "3"), (4, "", "4")] {
        device.send(&publish(Version::V5, 0x02, topic, id, &alias, payload.as_bytes()));
        device.expect_ack(crate::wire::kind::PUBACK, id);
        let message = reader.message();
        let expected = if id < 3 { "a/first" } else { "a/second" };
        assert_eq!((message.topic.as_str(), message.payload.as_str()), (expected, payload));
        assert_eq!(message.values(property::TOPIC_ALIAS), Vec::<&[u8]>::new(), "the reader offers none");
        reader.acknowledge(&message);
    }
}

#[test]
fn a_topic_alias_that_was_not_offered_or_never_set_ends_the_connection() {
    let server = Server::start();
    for (alias, topic, code) in [(0_u16, "a", 0x94), (0, "", 0x94), (65_535, "a", 0x94), (1, "", 0x82)] {
        let mut device = device(&server);
        let list = crate::wire::two(property::TOPIC_ALIAS, alias);
        device.send(&publish(Version::V5, 0x02, topic, 1, &list, b""));
        let reason = device.ends();
        // mosquitto calls it now this, now that.
        let is_right = reason == Some(code) || !server.is_ours() && matches!(reason, Some(0x81 | 0x82 | 0x94));
        assert!(is_right, "alias {alias} of {topic:?}: {reason:02x?}");
    }
}
