//! Topics, filters, properties and sessions without end.

use std::io::Write as _;

use super::attack::{Attack, ends, say};
use super::{Siege, scaled};
use crate::client::{Client, Connect};
use crate::wire::{Version, kind, property, publish, subscribe, text, two};

/// Sessions that there may be.
const SESSIONS: u64 = 2_000;

fn hello(id: &str) -> Vec<u8> {
    Connect::new(Version::V5, id).bytes()
}

/// 128 user properties without a word in them, which is the most.
fn wordless() -> Vec<u8> {
    [&[property::USER][..], &text(""), &text("")].concat().repeat(128)
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
        // Kept and cleared at once, and another one.
        let kept: Vec<u8> = (0..10)
            .flat_map(|at| {
                let topic = format!("{at}{}", &topic.chars().take(30_000).collect::<String>());
                [b"x".as_slice(), b""].map(|payload| publish(Version::V5, 0x01, &topic, 1, &[], payload)).concat()
            })
            .collect();
        attack.flood(port, hello(&format!("kept-{number}")), kept, true);
    }
    siege.endure();
    attack.end();
    siege.end();
}

/// Clients that each subscribe to as many of these as they may.
fn subscribers(name: &'static str, clients: usize, filter: impl Fn(usize, usize) -> String) {
    let siege = Siege::begin(name, "");
    let mut crowd: Vec<_> = (0..clients.min(1_900))
        .map(|number| {
            let filters: Vec<String> = (0..128).map(|at| filter(number, at)).collect();
            let filters: Vec<(&str, u8)> = filters.iter().map(|filter| (filter.as_str(), 0)).collect();
            let hello = Connect::new(Version::V5, &format!("{name}-{number}")).persistent().bytes();
            let subscribe = subscribe(Version::V5, 1, &[], &filters);
            say(siege.server.port, &[hello, subscribe, vec![kind::DISCONNECT, 0]].concat()).expect("there is room")
        })
        .collect();
    crowd.iter_mut().for_each(ends);
    siege.endure();
    let figures = siege.end();
    assert!(figures.broker("subscriptions") < 128 * clients as u64, "not all of them were taken");
}

#[test]
fn filters_of_very_many_clients_share_a_bound() {
    subscribers("many levels", scaled(100), |number, at| format!("{number:05}{at:03}/{}", "abcd/+/".repeat(63)));
    subscribers("many bytes", scaled(100), |number, at| format!("{number:05}{at:03}{}", "y".repeat(1_000)));
    subscribers("many groups", scaled(200), |number, at| format!("$share/{number:05}{at:03}{}/#", "g".repeat(900)));
}

/// Messages, one after the other, and now and then a look whether they are in.
fn pour(device: &mut Client, messages: impl Iterator<Item = Vec<u8>>) {
    for (number, message) in messages.enumerate() {
        device.send(&message);
        if number % 500 == 499 {
            device.ping();
        }
    }
    device.ping();
}

#[test]
fn retained_messages_end_at_their_bounds() {
    for (name, list, most) in [("retained", vec![], 4_096), ("retained, without words", wordless(), 600)] {
        let siege = Siege::begin(name, "");
        let mut device = Connect::new(Version::V5, "device").open(&siege.server);
        let topic = |number: usize| format!("kept/{number}");
        let message = |number| publish(Version::V5, 0x01, &topic(number), 0, &list, &[b'x'; 600]);
        pour(&mut device, (0..10_000).map(message));
        let figures = siege.end();
        assert!(figures.broker("retained") <= most, "{}", figures.broker("retained"));
        assert_eq!(figures.broker("retained_refused") + figures.broker("retained"), 10_000);
    }
}

#[test]
fn queues_count_with_what_they_take() {
    for (name, list) in [("queues", vec![]), ("queues, without words", wordless())] {
        let siege = Siege::begin(name, "");
        let filter = |number: usize| format!("q/{number}");
        for number in 0..60 {
            let mut away = Connect::new(Version::V5, &format!("away-{number}")).persistent().open(&siege.server);
            away.subscribe(&[(&filter(number), 1)]);
            away.disconnect();
        }
        let mut device = Connect::new(Version::V5, "device").open(&siege.server);
        for number in 0..60 {
            for _ in 0..scaled(4) {
                let burst = (1..=100).flat_map(|id| publish(Version::V5, 0x02, &filter(number), id, &list, b""));
                device.send(&burst.collect::<Vec<u8>>());
                (1..=100).for_each(|id| assert!(device.expect_ack(kind::PUBACK, id) < 0x80));
            }
        }
        siege.end();
    }
}

#[test]
fn topic_aliases_are_bounded() {
    let siege = Siege::begin("topic aliases", "");
    let topics = (1..=32_u16).flat_map(|alias| {
        let topic = format!("{alias:05}{}", "x".repeat(30_000));
        publish(Version::V5, 0, &topic, 1, &two(property::TOPIC_ALIAS, alias), b"")
    });
    let topics: Vec<u8> = topics.collect();
    let crowd: Vec<_> = (0..200)
        .map(|number| {
            let mut stream = say(siege.server.port, &hello(&format!("alias-{number}"))).expect("there is room");
            // Until it is ended.
            let _ = stream.write_all(&topics);
            stream
        })
        .collect();
    siege.endure();
    drop(crowd);
    assert!(siege.end().refused("memory") > 0);
}

#[test]
fn user_properties_are_bounded() {
    let siege = Siege::begin("user properties", "");
    let port = siege.server.port;
    let many = [&[property::USER][..], &text(""), &text("")].concat().repeat(50_000);
    let mut attack = Attack::new();
    for number in 0..10 {
        let most = publish(Version::V5, 0, "p", 1, &wordless(), b"").repeat(50);
        attack.flood(port, hello(&format!("most-{number}")), most, true);
        attack.flood(port, hello(&format!("many-{number}")), publish(Version::V5, 0, "p", 1, &many, b""), true);
    }
    siege.endure();
    attack.end();
    assert!(siege.end().refused("quota") > 0);
}

#[test]
fn sessions_end_at_their_bound() {
    let siege = Siege::begin("sessions", "");
    let all = scaled(4_000);
    for thousand in 0..all.div_ceil(1_000) {
        let mut crowd: Vec<_> = (0..1_000)
            .map(|number| {
                let connect = Connect::new(Version::V5, &format!("{thousand}-{number:0>100}")).persistent();
                let connect = connect.will("will", &"w".repeat(7_000), 1, false, &super::four_hours());
                // Goodbye, and the will all the same.
                let bytes = [connect.bytes(), vec![kind::DISCONNECT, 1, 0x04]].concat();
                say(siege.server.port, &bytes).expect("there is room")
            })
            .collect();
        crowd.iter_mut().for_each(ends);
    }
    let figures = siege.end();
    assert!(figures.broker("sessions") <= SESSIONS);
    assert!(figures.broker("sessions_evicted") >= all as u64 - SESSIONS);
}
