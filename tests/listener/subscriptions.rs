//! Filters: what matches, how often it is delivered, and how a subscription ends.

use crate::client::{Client, Connect, Message};
use crate::server::Server;
use crate::wire::{BOTH, Version};

fn pair(server: &Server, version: Version) -> (Client, Client) {
    (Connect::new(version, "device").open(server), Connect::new(version, "reader").open(server))
}

fn topics(messages: Vec<Message>) -> Vec<String> {
    messages.into_iter().map(|message| message.topic).collect()
}

/// A filter, topics that it takes, and topics that it does not.
const FILTERS: &[(&str, &[&str], &[&str])] = &[
    ("a/b", &["a/b"], &["a", "a/b/", "/a/b", "A/b", "a/b/c"]),
    ("a/+", &["a/b", "a/"], &["a", "a/b/c", "b/a"]),
    ("+", &["a", "b"], &["a/b", "/a"]),
    ("+/+", &["a/b", "/a"], &["a", "a/b/c"]),
    ("/+", &["/a"], &["a", "/a/b"]),
    ("a/#", &["a", "a/b", "a/b/c", "a/"], &["b", "ab"]),
    ("a/+/c", &["a/b/c", "a//c"], &["a/c", "a/b/d"]),
    ("+/b/#", &["a/b", "a/b/c", "/b"], &["b", "a/c"]),
    ("#", &["a", "/", "a/b/c"], &[]),
    ("ä/日本", &["ä/日本"], &["a/日本"]),
    ("a b/c", &["a b/c"], &["a/b c"]),
];

#[test]
fn filters_take_exactly_the_topics_of_the_standard() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        for (filter, taken, left) in FILTERS {
            assert_eq!(reader.subscribe(&[(filter, 1)]), [1]);
            for topic in taken.iter().chain(*left) {
                device.publish(0x02, topic, "");
            }
            let found = topics(reader.drain().into_iter().filter(|m| !m.topic.starts_with("fence/")).collect());
            assert_eq!(found, *taken, "{version:?} {filter}");
            reader.unsubscribe(&[filter]);
        }
    }
}

#[test]
fn wildcards_do_not_take_topics_that_begin_with_a_dollar() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        reader.subscribe(&[("#", 1), ("+/a", 1), ("$own/#", 0)]);
        device.publish(0x00, "$own/a", "named");
        device.publish(0x00, "$other/a", "not named");
        let found: Vec<Message> = reader.drain().into_iter().filter(|m| m.topic.contains("a")).collect();
        // Ours takes none from clients: MQTT keeps these topics for servers.
        let named: &[&str] = if server.is_ours() { &[] } else { &["$own/a"] };
        assert_eq!(topics(found), named, "{version:?}");
    }
}

#[test]
fn the_lower_quality_of_service_of_sender_and_subscription_counts() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        for granted in 0..3_u8 {
            assert_eq!(reader.subscribe(&[("q", granted)]), [granted]);
            for sent in 0..3_u8 {
                device.publish(sent << 1, "q", &sent.to_string());
                let message = reader.message();
                assert_eq!(message.qos, sent.min(granted), "{version:?}: {sent} to {granted}");
                reader.acknowledge(&message);
            }
        }
    }
}

#[test]
fn overlapping_subscriptions_deliver_once_at_their_highest_quality() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        assert_eq!(reader.subscribe(&[("a/#", 2), ("a/+", 1), ("a/b", 0)]), [2, 1, 0]);
        device.publish(0x04, "a/b", "overlapping");
        let found: Vec<u8> = reader.drain().into_iter().map(|message| message.qos).collect();
        // 2.0.11 takes the last filter's quality instead of the highest.
        if server.is_ours() {
            assert_eq!(found, [2], "{version:?}");
        }
    }
}

#[test]
fn a_subscription_that_is_made_again_replaces_the_first() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        reader.subscribe(&[("a", 2)]);
        assert_eq!(reader.subscribe(&[("a", 0)]), [0]);
        device.publish(0x04, "a", "once");
        let found: Vec<u8> = reader.drain().into_iter().map(|message| message.qos).collect();
        assert_eq!(found, [0], "{version:?}");
    }
}

#[test]
fn what_is_unsubscribed_does_not_come_and_the_rest_does() {
    for version in BOTH {
        let server = Server::start();
        let (mut device, mut reader) = pair(&server, version);
        reader.subscribe(&[("a", 1), ("b", 1), ("c/+", 1)]);
        let codes = reader.unsubscribe(&["a", "c/+", "never"]);
        if version == Version::V5 {
            assert_eq!(codes, [0x00, 0x00, 0x11], "no subscription existed");
        }
        for topic in ["a", "b", "c/d"] {
            device.publish(0x02, topic, "");
        }
        assert_eq!(topics(reader.drain()), ["b"], "{version:?}");
    }
}

#[test]
fn a_client_gets_what_it_publishes_itself() {
    for version in BOTH {
        let server = Server::start();
        let mut client = Connect::new(version, "both").open(&server);
        client.subscribe(&[("mine", 0)]);
        client.send(&crate::wire::publish(version, 0, "mine", 0, &[], b"echo"));
        assert_eq!(client.message().payload, "echo", "{version:?}");
    }
}

#[test]
fn each_of_many_readers_gets_each_message_in_order() {
    for version in BOTH {
        let server = Server::start();
        let mut readers: Vec<Client> = (0..20_u8)
            .map(|number| {
                let mut reader = Connect::new(version, &format!("reader-{number}")).open(&server);
                reader.subscribe(&[("a/+", number % 3)]);
                reader
            })
            .collect();
        let mut device = Connect::new(version, "device").open(&server);
        for number in 0..15 {
            device.publish(0x02, "a/b", &number.to_string());
        }
        for reader in &mut readers {
            let found: Vec<String> = reader.drain().into_iter().map(|message| message.payload).collect();
            assert_eq!(found, (0..15).map(|number| number.to_string()).collect::<Vec<_>>(), "{version:?}");
        }
    }
}

#[test]
fn messages_cross_between_the_versions() {
    let server = Server::start();
    for (from, to) in [(Version::V311, Version::V5), (Version::V5, Version::V311)] {
        let mut reader = Connect::new(to, "reader").open(&server);
        reader.subscribe(&[("a", 2)]);
        let mut device = Connect::new(from, "device").open(&server);
        device.publish(0x04, "a", "across");
        let message = reader.message();
        assert_eq!((message.payload.as_str(), message.qos), ("across", 2), "{from:?} to {to:?}");
    }
}
