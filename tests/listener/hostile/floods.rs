//! Floods: very many packets of one kind.

use super::attack::{Attack, ends, say};
use super::{Figures, Siege, scaled};
use crate::client::Connect;
use crate::wire::{Version, ack, kind, publish, subscribe, unsubscribe};

const FLOODERS: usize = 20;
/// Of one burst.
const PACKETS: u16 = 5_000;

fn hello(number: usize) -> Vec<u8> {
    Connect::new(Version::V5, &format!("flood-{number}")).bytes()
}

/// Each of these, from `FLOODERS` connections that read their answers, or not.
fn flooded(name: &'static str, reads: bool, burst: impl Fn(usize) -> Vec<u8>) -> Figures {
    let siege = Siege::begin(name, "");
    flood(siege, reads, burst)
}

fn flood(siege: Siege, reads: bool, burst: impl Fn(usize) -> Vec<u8>) -> Figures {
    let mut attack = Attack::new();
    for number in 0..FLOODERS {
        attack.flood(siege.server.port, hello(number), burst(number), reads);
    }
    siege.endure();
    attack.end();
    siege.end()
}

#[test]
fn pings_flood() {
    for (name, reads) in [("PINGREQ", true), ("PINGREQ, answers not read", false)] {
        flooded(name, reads, |_| [kind::PINGREQ, 0].repeat(usize::from(PACKETS)));
    }
}

#[test]
fn acknowledgements_of_nothing_flood() {
    for (name, first, reads) in [
        ("PUBREL", kind::PUBREL, true),
        ("PUBREL, answers not read", kind::PUBREL, false),
        ("PUBREC", kind::PUBREC, true),
        ("PUBACK", kind::PUBACK, true),
        ("PUBCOMP", kind::PUBCOMP, true),
    ] {
        flooded(name, reads, |_| (1..PACKETS).flat_map(|id| ack(first, id)).collect());
    }
}

#[test]
fn messages_flood() {
    let small = |flags: u8| {
        move |_: usize| (1..PACKETS).flat_map(|id| publish(Version::V5, flags, "f", id, &[], b"")).collect::<Vec<u8>>()
    };
    flooded("QoS 0, nobody subscribes", true, small(0));
    for (name, flags) in [("QoS 1, window exceeded", 0x02), ("QoS 2, window exceeded", 0x04)] {
        let figures = flooded(name, true, small(flags));
        assert!(figures.refused("receive_maximum") > 0, "ended, and back again");
    }
    let large = publish(Version::V5, 0, "f", 0, &[], &vec![b'x'; 200_000]);
    flooded("large messages, nobody subscribes", true, |_| large.clone());
    let figures = flooded("CONNECT, again and again", true, hello);
    assert!(figures.refused("protocol") > 0);
    let figures = flooded("CONNECT of one client id", true, |_| Connect::new(Version::V311, "one").bytes());
    assert!(figures.refused("protocol") > 0);
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

/// With as much retained as may be, below a topic.
fn with_retained_below(name: &'static str, below: &str) -> Siege {
    let siege = Siege::begin(name, "");
    let mut device = Connect::new(Version::V5, "device").open(&siege.server);
    for number in 0..4_096 {
        device.send(&publish(Version::V5, 0x01, &format!("{below}/{number}"), 0, &[], b"kept"));
    }
    device.ping();
    siege
}

fn with_retained(name: &'static str) -> Siege {
    with_retained_below(name, "kept")
}

#[test]
fn what_is_retained_is_asked_for_by_many_names() {
    // 128 filters that all match all of it: half a million deliveries for each packet.
    let filters: Vec<String> = (0..128_u8)
        .map(|mask| (0..7).map(|level| if mask >> level & 1 == 1 { "+/" } else { "a/" }).collect::<String>() + "+")
        .collect();
    let filters: Vec<(&str, u8)> = filters.iter().map(|filter| (filter.as_str(), 0)).collect();
    for (name, reads) in [("128 filters for all that is retained", true), ("128 filters, not read", false)] {
        let siege = with_retained_below(name, "a/a/a/a/a/a/a");
        flood(siege, reads, |_| subscribe(Version::V5, 1, &[], &filters));
    }
}

#[test]
fn what_is_retained_is_asked_for_again_and_again() {
    flood(with_retained("one filter a thousand times"), true, |_| {
        subscribe(Version::V5, 1, &[], &vec![("kept/#", 0); 1_000])
    });
    flood(with_retained("one filter in a thousand packets"), true, |_| {
        subscribe(Version::V5, 1, &[], &[("kept/#", 0)]).repeat(1_000)
    });
    flood(with_retained("one filter at QoS 1, not acknowledged"), true, |_| {
        subscribe(Version::V5, 1, &[], &[("kept/#", 1)]).repeat(1_000)
    });
}

#[test]
fn whoever_says_goodbye_in_a_crowd_is_let_go() {
    let siege = Siege::begin("goodbye behind a megabyte", "");
    let mut attack = Attack::new();
    for number in 0..FLOODERS {
        let port = siege.server.port;
        let megabyte = publish(Version::V5, 0, "f", 0, &[], &vec![b'x'; 200_000]).repeat(5);
        let bytes = [hello(number), megabyte, vec![kind::DISCONNECT, 0]].concat();
        attack.add(move |_| {
            for _ in 0..scaled(10) {
                ends(&mut say(port, &bytes).expect("there is room"));
            }
        });
    }
    attack.finish();
    siege.until("they are gone", |status| status["listener"]["connected"] == 2);
    siege.end();
}
