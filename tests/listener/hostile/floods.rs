//! Floods: very many packets of one kind, and readers that do not read.

use super::Siege;
use super::attack::Attack;
use crate::client::Connect;
use crate::wire::{
    Version, ack, four, kind, packet, properties, property, publish, subscribe, text, unsubscribe, worded,
};

const FLOODERS: usize = 20;

fn hello(version: Version, id: &str) -> Vec<u8> {
    Connect::new(version, id).bytes()
}

/// Each of these, from `FLOODERS` connections that read their answers, or not.
fn flooded(name: &'static str, reads: bool, burst: impl Fn(usize) -> Vec<u8>) -> super::Figures {
    let siege = Siege::begin(name, "");
    let mut attack = Attack::new();
    for number in 0..FLOODERS {
        attack.flood(siege.server.port, hello(Version::V5, &format!("flood-{number}")), burst(number), reads);
    }
    siege.endure();
    attack.end();
    siege.end()
}

#[test]
fn pings_flood() {
    flooded("PINGREQ, answers read", true, |_| [kind::PINGREQ, 0].repeat(8_000));
    let figures = flooded("PINGREQ, answers not read", false, |_| [kind::PINGREQ, 0].repeat(8_000));
    let _ = figures;
}

#[test]
fn releases_and_acknowledgements_of_nothing_flood() {
    flooded("PUBREL", true, |_| (1..5_000).flat_map(|id| ack(kind::PUBREL, id)).collect());
    flooded("PUBREL, answers not read", false, |_| (1..5_000).flat_map(|id| ack(kind::PUBREL, id)).collect());
    flooded("PUBREC", true, |_| (1..5_000).flat_map(|id| ack(kind::PUBREC, id)).collect());
    flooded("PUBACK", true, |_| (1..5_000).flat_map(|id| ack(kind::PUBACK, id)).collect());
}

#[test]
fn subscriptions_flood() {
    flooded("SUBSCRIBE, UNSUBSCRIBE", true, |number| {
        let filters: Vec<String> = (0..100).map(|level| format!("flood/{number}/{level}/+/#")).collect();
        let with_qos: Vec<(&str, u8)> = filters.iter().map(|filter| (filter.as_str(), 2)).collect();
        let plain: Vec<&str> = filters.iter().map(String::as_str).collect();
        [subscribe(Version::V5, 1, &[], &with_qos), unsubscribe(Version::V5, 2, &plain)].concat()
    });
    flooded("SUBSCRIBE, answers not read", false, |number| {
        subscribe(Version::V5, 1, &[], &[(&format!("flood/{number}"), 1)]).repeat(500)
    });
}

#[test]
fn messages_flood() {
    let small =
        |flags: u8| move |_: usize| (1..2_000).flat_map(|id| publish(Version::V5, flags, "f", id, &[], b"")).collect();
    flooded("QoS 0, nobody subscribes", true, small(0));
    // More than may be unanswered: ended, and back again.
    flooded("QoS 1, window exceeded", true, small(0x02));
    flooded("QoS 2, window exceeded", true, small(0x04));
    flooded("CONNECT, again and again", true, |number| hello(Version::V5, &format!("flood-{number}")));
}

/// Publishers flood readers that never read.
fn unread(name: &'static str, readers: usize, qos: u8, message: &[u8]) -> super::Figures {
    let siege = Siege::begin(name, "");
    let port = siege.server.port;
    let mut attack = Attack::new();
    let lazy: Vec<_> = (0..readers)
        .map(|number| {
            let hello =
                [hello(Version::V5, &format!("lazy-{number}")), subscribe(Version::V5, 1, &[], &[("flood", qos)])];
            super::attack::say(port, &hello.concat()).expect("there is room")
        })
        .collect();
    for number in 0..3 {
        attack.flood(port, hello(Version::V5, &format!("flood-{number}")), message.to_vec(), true);
    }
    siege.endure();
    attack.end();
    drop(lazy);
    siege.end()
}

#[test]
fn a_reader_that_never_reads_is_given_up() {
    let large = vec![b'x'; 200_000];
    unread("large messages at QoS 0, nobody reads", 1, 0, &publish(Version::V5, 0, "flood", 1, &[], &large));
    unread("small messages at QoS 0, nobody reads", 1, 0, &publish(Version::V5, 0, "flood", 1, &[], b"x").repeat(500));
    unread("messages at QoS 1, nobody reads", 1, 1, &publish(Version::V5, 0x02, "flood", 1, &[], &large));
    let wordy: Vec<u8> = (0..4)
        .flat_map(|_| [&[property::USER][..], &text("k".repeat(30_000)), &text("v".repeat(30_000))].concat())
        .collect();
    unread("user properties, nobody reads", 1, 0, &publish(Version::V5, 0, "flood", 1, &wordy, b""));
    let _ = (packet, properties, four, worded);
}

#[test]
fn many_readers_that_never_read_share_one_bound() {
    let large = vec![b'x'; 200_000];
    unread("large messages at QoS 0, 500 do not read", 500, 0, &publish(Version::V5, 0, "flood", 1, &[], &large));
    unread("large messages at QoS 1, 500 do not read", 500, 1, &publish(Version::V5, 0x02, "flood", 1, &[], &large));
    unread("small messages, 500 do not read", 500, 0, &publish(Version::V5, 0, "flood", 1, &[], b"x").repeat(500));
}
