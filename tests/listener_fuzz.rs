//! Streams that no client should send, through the listener's protocol: packets of both
//! versions, mutated and cut at random, answered and delivered to at random. Nothing panics,
//! what is kept is bounded, and what is written is always whole packets.
//!
//! A few seconds; `TIDEGATE_FUZZ=full` runs a thousand times as many streams. The seed is
//! fixed: a failure repeats.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tidegate::agent::mqtt::listener::fault::Fault;
use tidegate::agent::mqtt::listener::packet::FromClient;
use tidegate::agent::mqtt::listener::proto::{Accepted, Proto, ProtoLimits, Read};
use tidegate::agent::mqtt::listener::reply::{AckReason, Goodbye, Refusal, Told};
use tidegate::engine::broker::packet::{Delivery, Farewell, Message, Properties, Qos, ToClient};
use tidegate::model::time::{ProcTime, Span};

#[path = "world/streams.rs"]
mod streams;

use streams::{Dice, stream};

const STREAMS: u64 = 60_000;
const LIMITS: ProtoLimits = ProtoLimits {
    packet_bytes: 2_048,
    connect_bytes: 512,
    in_flight: 4,
    keep_alive_max: Span::from_secs(60),
    topic_alias_max: 3,
    connect_within: Span::from_secs(5),
    session_expiry_max_secs: 3_600,
};
/// Bytes of one read.
const READ_MAX: usize = 700;

fn delivery(dice: &mut Dice) -> Delivery {
    let qos = *dice.pick(&[&Qos::AtMostOnce, &Qos::AtLeastOnce, &Qos::ExactlyOnce]);
    let beside = Properties {
        payload_format: dice.one_in(2).then_some(1),
        content_type: dice.one_in(2).then(|| "text".into()),
        response_topic: dice.one_in(3).then(|| "r".into()),
        correlation: dice.one_in(3).then(|| [7; 3].into()),
        user: (0..dice.below(3)).map(|_| ("k".into(), "v".into())).collect(),
    };
    let message = Message {
        topic: format!("t/{}", dice.below(30)).into(),
        payload: vec![dice.byte(); dice.below(90)].into(),
        qos,
        retain: dice.one_in(2),
        expiry_secs: None,
        properties: dice.one_in(2).then(|| Box::new(beside)),
    };
    Delivery {
        message: Arc::new(message),
        qos,
        retain: dice.one_in(2),
        dup: dice.one_in(2),
        packet: (qos != Qos::AtMostOnce).then(|| dice.id() + 1),
        subscriptions: (0..dice.below(3)).map(|_| u32::from(dice.byte()) * 999 + 1).collect(),
        expiry_secs: dice.one_in(2).then_some(5),
    }
}

fn to_client(dice: &mut Dice) -> ToClient {
    let packet = dice.id() + 1;
    let found = dice.one_in(2);
    match dice.below(40) {
        0..=4 => ToClient::SubAck { packet, codes: vec![0, 2, 0x97] },
        5..=9 => ToClient::UnsubAck { packet, codes: vec![0, 0x11] },
        10..=14 => ToClient::PubRel { packet, found },
        15..=19 => ToClient::PubComp { packet, found },
        20 => ToClient::ConnAck { session_present: found },
        21 => ToClient::NoRoom,
        22 => ToClient::Disconnect(Farewell::TakenOver),
        _ => ToClient::Publish(delivery(dice)),
    }
}

/// Takes the output: whole packets that a server may send.
fn written(proto: &mut Proto) -> usize {
    let out = proto.output().split();
    let mut left = &out[..];
    let mut packets = 0;
    while let Some((first, rest)) = left.split_first() {
        assert!([2, 3, 4, 5, 6, 7, 9, 11, 13, 14].contains(&(first >> 4)), "{first:#x}");
        let width = rest.iter().position(|byte| *byte < 0x80).unwrap() + 1;
        let len = rest[..width].iter().rev().fold(0, |len, byte| len << 7 | usize::from(byte & 0x7f));
        left = &rest[width + len..];
        packets += 1;
    }
    packets
}

#[derive(Default, Debug)]
struct Counts {
    hellos: u64,
    packets: u64,
    faults: u64,
    written: usize,
    told: u64,
}

fn converse(dice: &mut Dice, stream: &[u8], counts: &mut Counts) {
    let mut now = ProcTime::from_millis(1);
    let mut proto = Proto::new(LIMITS, now);
    let (mut read, mut unanswered, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = stream;
    // Each turn reads, or answers what lets the reading go on.
    while !proto.is_closed() && (!left.is_empty() || proto.has_held_back() || !proto.wants_read()) {
        if proto.wants_read() {
            let (now_read, later) = left.split_at(dice.below(left.len().min(READ_MAX) + 1));
            left = later;
            if let Err(fault) = proto.feed(now_read, now, &mut read) {
                assert!(proto.is_closed() && fault.code() >= 0x80 && !fault.to_string().is_empty());
                counts.faults += 1;
            }
        }
        let bound = LIMITS.packet_bytes + READ_MAX + usize::from(LIMITS.topic_alias_max) * LIMITS.packet_bytes;
        assert!(proto.pending_bytes() <= bound, "{}", proto.pending_bytes());
        for read in read.drain(..) {
            match read {
                Read::Hello(hello) => {
                    counts.hellos += 1;
                    assert!(hello.connect.client_id.len() <= 128 && hello.connect.receive_max > 0);
                    assert!(hello.connect.session_expiry_secs <= LIMITS.session_expiry_max_secs);
                    assert_eq!(proto.tell(&to_client(&mut Dice::numbered(0)), now), Told::Closed);
                    if dice.one_in(20) {
                        proto.refuse(*dice.pick(&[&Refusal::BadCredentials, &Refusal::ServerBusy]));
                    } else {
                        proto.accept(false, &Accepted { assigned_client_id: Some("x"), session_expiry_secs: 5 }, now);
                    }
                }
                Read::Packet(packet) => {
                    counts.packets += 1;
                    if let FromClient::Subscribe { packet, .. } = &packet {
                        requests.push(ToClient::SubAck { packet: *packet, codes: vec![0] });
                    } else if let FromClient::Unsubscribe { packet, .. } = &packet {
                        requests.push(ToClient::UnsubAck { packet: *packet, codes: vec![0] });
                    } else if let FromClient::Publish(publish) = packet {
                        assert!(!publish.topic().is_empty() && !publish.topic().contains(['+', '#', '\0']));
                        assert_eq!(publish.packet.is_some(), publish.qos != Qos::AtMostOnce);
                        unanswered.extend(publish.packet);
                    }
                }
            }
        }
        while !unanswered.is_empty() && (dice.one_in(2) || !proto.wants_read()) {
            let packet = unanswered.swap_remove(dice.below(unanswered.len()));
            proto.ack(packet, *dice.pick(&[&AckReason::Success, &AckReason::QuotaExceeded]));
        }
        while !requests.is_empty() && (dice.one_in(2) || !proto.wants_read()) {
            let answer = requests.swap_remove(dice.below(requests.len()));
            proto.tell(&answer, now);
        }
        while dice.one_in(2) {
            counts.told += u64::from(proto.tell(&to_client(dice), now) == Told::Written);
        }
        now = now + Span::from_millis(u64::from(dice.byte()));
        if dice.one_in(50) {
            proto.goodbye(Goodbye::Administrative);
        }
        if let Some(deadline) = proto.deadline().filter(|_| dice.one_in(80)) {
            let fault = proto.expired(deadline);
            assert!(matches!(fault, None | Some(Fault::ConnectTimeout | Fault::KeepAlive)));
        }
        counts.written += written(&mut proto);
    }
    counts.written += written(&mut proto);
    if proto.is_closed() {
        assert!(!proto.wants_read() && proto.deadline().is_none());
        assert_eq!(proto.tell(&to_client(dice), now), Told::Closed);
        assert!(proto.output().is_empty());
    }
}

#[test]
fn no_stream_of_bytes_brings_the_listener_down() {
    let full = std::env::var("TIDEGATE_FUZZ").is_ok_and(|value| value == "full");
    let streams = STREAMS * if full { 1_000 } else { 1 };
    let mut dice = Dice::numbered(0);
    let mut counts = Counts::default();
    for _ in 0..streams {
        let stream = stream(&mut dice);
        converse(&mut dice, &stream, &mut counts);
    }
    println!("{streams} streams: {counts:?}");
    // It has come far enough for all that to mean something.
    assert!(counts.hellos > streams / 3 && counts.packets > streams && counts.told > streams, "{counts:?}");
    assert!(counts.faults > streams / 4 && counts.written > 0, "{counts:?}");
}
