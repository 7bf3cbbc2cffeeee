//! Topics, filters, properties and sessions without end.

use super::attack::{Attack, say};
use super::{Siege, scaled};
use crate::client::{Client, Connect};
use crate::wire::{Version, kind, property, publish, subscribe, text, two, worded};

fn hello(id: &str) -> Vec<u8> {
    Connect::new(Version::V5, id).bytes()
}

#[test]
fn long_topics_and_thousands_of_levels_cost_their_bytes() {
    let siege = Siege::begin("long topics", "");
    let port = siege.server.port;
    let mut reader = Connect::new(Version::V5, "wild").open(&siege.server);
    let filters: Vec<String> = (1..100).map(|levels| "+/".repeat(levels) + "x").collect();
    let filters: Vec<(&str, u8)> = filters.iter().map(|filter| (filter.as_str(), 0)).collect();
    assert!(reader.subscribe(&filters).iter().all(|code| *code == 0));
    let topics = ["x".repeat(65_535), "/".repeat(65_535), "a/".repeat(32_767), "ä".repeat(32_767)];
    let mut attack = Attack::new();
    for (number, topic) in topics.into_iter().enumerate() {
        attack.flood(port, hello(&format!("long-{number}")), publish(Version::V5, 0, &topic, 1, &[], b""), true);
    }
    siege.endure();
    attack.end();
    siege.end();
}

#[test]
fn filters_of_many_levels_from_many_clients_have_a_bound() {
    let siege = Siege::begin("filters of many levels", "");
    let mut crowd = Vec::new();
    for number in 0..scaled(200).min(1_900) {
        let mut client = Connect::new(Version::V5, &format!("deep-{number}")).open(&siege.server);
        let filters: Vec<String> = (0..128).map(|at| format!("{number:05}{at:03}/{}", "abcd/+/".repeat(63))).collect();
        let filters: Vec<(&str, u8)> = filters.iter().map(|filter| (filter.as_str(), 0)).collect();
        client.subscribe(&filters);
        crowd.push(client);
    }
    siege.endure();
    drop(crowd);
    siege.end();
}

#[test]
fn filters_of_many_bytes_from_many_clients_have_a_bound() {
    let siege = Siege::begin("long filters", "");
    let mut crowd = Vec::new();
    for number in 0..scaled(500).min(1_900) {
        let id = format!("wide-{number}");
        let mut client = Connect::new(Version::V5, &id).persistent().open(&siege.server);
        let filters: Vec<String> = (0..128).map(|at| format!("{number:05}{at:03}{}", "y".repeat(1_000))).collect();
        let filters: Vec<(&str, u8)> = filters.iter().map(|filter| (filter.as_str(), 0)).collect();
        client.subscribe(&filters);
        crowd.push(client);
    }
    siege.endure();
    drop(crowd);
    siege.end();
}

#[test]
fn retained_messages_end_at_their_bound() {
    let siege = Siege::begin("retained", "");
    let mut device = Connect::new(Version::V5, "device").open(&siege.server);
    for number in 0..10_000 {
        device.send(&publish(Version::V5, 0x01, &format!("kept/{number}"), 0, &[], &[b'x'; 600]));
        if number % 500 == 0 {
            device.ping();
        }
    }
    device.ping();
    let figures = siege.end();
    assert_eq!(figures.broker("retained"), 4_096);
    assert_eq!(figures.broker("retained_refused"), 10_000 - 4_096);
}

/// 128 user properties without a word in them, which is the most.
fn empty_properties() -> Vec<u8> {
    [&[property::USER][..], &text(""), &text("")].concat().repeat(128)
}

#[test]
fn retained_messages_with_empty_properties_count_with_what_they_take() {
    let siege = Siege::begin("retained, empty properties", "");
    let mut device = Connect::new(Version::V5, "device").open(&siege.server);
    let list = empty_properties();
    for number in 0..10_000 {
        device.send(&publish(Version::V5, 0x01, &format!("kept/{number}"), 0, &list, b"x"));
        if number % 500 == 0 {
            device.ping();
        }
    }
    device.ping();
    siege.end();
}

#[test]
fn queues_with_empty_properties_count_with_what_they_take() {
    let siege = Siege::begin("queues, empty properties", "");
    let list = empty_properties();
    for number in 0..100 {
        let mut away = Connect::new(Version::V5, &format!("away-{number}")).persistent().open(&siege.server);
        away.subscribe(&[(&format!("q/{number}"), 1)]);
        away.disconnect();
    }
    let mut device = Connect::new(Version::V5, "device").open(&siege.server);
    for number in 0..100 {
        for _ in 0..20 {
            for id in 1..=50 {
                device.send(&publish(Version::V5, 0x02, &format!("q/{number}"), id, &list, b""));
            }
            (1..=50).for_each(|id| drop(device.expect_ack(kind::PUBACK, id)));
        }
    }
    siege.end();
}

#[test]
fn topic_aliases_are_bounded() {
    let siege = Siege::begin("topic aliases", "");
    let mut crowd = Vec::new();
    for number in 0..600 {
        let mut stream = say(siege.server.port, &hello(&format!("alias-{number}"))).expect("there is room");
        for alias in 1..=32_u16 {
            let topic = format!("{alias:05}{}", "x".repeat(60_000));
            let message = publish(Version::V5, 0, &topic, 1, &two(property::TOPIC_ALIAS, alias), b"");
            if std::io::Write::write_all(&mut stream, &message).is_err() {
                break;
            }
        }
        crowd.push(stream);
    }
    siege.endure();
    drop(crowd);
    let figures = siege.end();
    assert!(figures.refused("memory") > 0);
}

#[test]
fn user_properties_are_bounded() {
    let siege = Siege::begin("user properties", "");
    let port = siege.server.port;
    let many = [&[property::USER][..], &text(""), &text("")].concat().repeat(50_000);
    let most = empty_properties();
    let mut attack = Attack::new();
    for number in 0..10 {
        attack.flood(port, hello(&format!("p-{number}")), publish(Version::V5, 0, "p", 1, &most, b"").repeat(50), true);
        attack.flood(port, hello(&format!("q-{number}")), publish(Version::V5, 0, "p", 1, &many, b""), true);
    }
    siege.endure();
    attack.end();
    let figures = siege.end();
    assert!(figures.refused("quota") > 0);
}

#[test]
fn sessions_end_at_their_bound_and_honest_clients_keep_theirs() {
    let siege = Siege::begin("sessions", "");
    for number in 0..scaled(5_000) {
        let id = format!("session-{number:0>100}");
        let connect = Connect::new(Version::V5, &id).persistent().will("will", &"w".repeat(7_000), 1, false, &[]);
        let mut client: Client = connect.open(&siege.server);
        client.try_send(&[kind::DISCONNECT, 1, 0x04]);
    }
    let figures = siege.end();
    assert!(figures.broker("sessions_evicted") > 0);
    assert!(figures.broker("sessions") <= 2_000);
    let _ = worded;
    let _ = subscribe;
}
