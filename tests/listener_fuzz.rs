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

const SEED: u64 = 0x7469_6465_6761_7465;
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

/// xorshift64*: it has to be the same for ever, not good.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() >> 33).unwrap() % bound
    }

    fn byte(&mut self) -> u8 {
        self.roll().to_be_bytes()[0]
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn id(&mut self) -> u16 {
        u16::try_from(self.below(7)).unwrap()
    }
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
    out.extend(text);
}

fn length(out: &mut Vec<u8>, len: usize) {
    let mut left = len;
    while left > 0x7f {
        out.push(0x80 | left.to_le_bytes()[0]);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
}

/// Properties, mostly ones that the packet may have.
fn properties(dice: &mut Dice, out: &mut Vec<u8>, is_v5: bool, of: &[&[u8]]) {
    if !is_v5 {
        return;
    }
    let mut section: Vec<u8> = Vec::new();
    while dice.one_in(2) {
        section.extend(dice.pick(of));
    }
    length(out, section.len());
    out.extend(section);
}

const MESSAGE: &[&[u8]] = &[
    b"\x01\x01",
    b"\x02\0\0\0\x05",
    b"\x03\0\x01c",
    b"\x08\0\x01r",
    b"\x09\0\x02\0\xff",
    b"\x26\0\x01k\0\x01v",
    b"\x23\0\x01",
    b"\x23\0\x03",
    b"\x0b\x01",
];
const HELLO: &[&[u8]] = &[
    b"\x11\0\0\0\x05",
    b"\x21\0\x02",
    b"\x22\0\x00",
    b"\x22\0\x02",
    b"\x27\0\0\0\x40",
    b"\x19\x01",
    b"\x17\x00",
    b"\x26\0\x01k\0\x01v",
    b"\x15\0\x01m",
];
const WILL: &[&[u8]] = &[b"\x18\0\0\0\x05", b"\x01\0", b"\x02\0\0\0\x09", b"\x26\0\0\0\0"];
const TOPICS: &[&[u8]] = &[b"a", b"a/b", b"", b"+", b"#", b"a/#", b"$share/g/a", b"a\0", b"\xff", b"a/b/c/d/e/f/g"];

fn connect(dice: &mut Dice, is_v5: bool) -> Vec<u8> {
    let flags = dice.pick(&[&0x02_u8, &0x00, &0x06, &0x2e, &0xc2, &0xce, &0x82, &0x42]);
    let flags = if dice.one_in(9) { dice.byte() } else { *flags };
    let mut body = b"\0\x04MQTT".to_vec();
    body.extend([4 + u8::from(is_v5), flags, 0, dice.byte()]);
    properties(dice, &mut body, is_v5, HELLO);
    text(&mut body, dice.pick::<[u8]>(&[b"client", b"", b"x\x07", b"ab"]));
    if flags & 0x04 != 0 {
        properties(dice, &mut body, is_v5, WILL);
        text(&mut body, b"w");
        text(&mut body, b"gone");
    }
    for flag in [0x80, 0x40] {
        if flags & flag != 0 {
            text(&mut body, b"secret");
        }
    }
    whole(0x10, &body)
}

fn packet(dice: &mut Dice, is_v5: bool) -> Vec<u8> {
    let mut body = Vec::new();
    let first = match dice.below(12) {
        0..=3 => {
            let first = 0x30 | *dice.pick(&[&0_u8, &1, &2, &4, &0x0a, &0x0c, &6, &8]);
            let topic = if dice.one_in(3) { dice.pick(TOPICS) } else { b"t/1" };
            text(&mut body, topic);
            if first & 0x06 != 0 {
                body.extend(dice.id().to_be_bytes());
            }
            properties(dice, &mut body, is_v5, MESSAGE);
            let bound = if dice.one_in(20) { 3_000 } else { 40 };
            let len = dice.below(bound);
            body.extend((0..len).map(|_| dice.byte()));
            first
        }
        4 | 5 => {
            body.extend(dice.id().to_be_bytes());
            if is_v5 && dice.one_in(3) {
                body.push(*dice.pick(&[&0_u8, &0x10, &0x92, &0x97]));
            }
            *dice.pick(&[&0x40_u8, &0x50, &0x62, &0x70])
        }
        kind @ (6 | 7) => {
            body.extend(dice.id().to_be_bytes());
            properties(dice, &mut body, is_v5, &[b"\x0b\x07", b"\x26\0\0\0\0"]);
            for _ in 0..dice.below(4) {
                text(&mut body, dice.pick(TOPICS));
                if kind == 6 {
                    body.push(dice.byte() & 0x07);
                }
            }
            if kind == 6 { 0x82 } else { 0xa2 }
        }
        8 | 9 => 0xc0,
        10 if dice.one_in(4) => 0xe0,
        10 => dice.byte(),
        _ => {
            body.extend((0..dice.below(20)).map(|_| dice.byte()));
            dice.byte()
        }
    };
    whole(first, &body)
}

fn whole(first: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    length(&mut out, body.len());
    out.extend(body);
    out
}

fn stream(dice: &mut Dice) -> Vec<u8> {
    let is_v5 = dice.one_in(2);
    let mut out = if dice.one_in(30) { Vec::new() } else { connect(dice, is_v5) };
    for _ in 0..dice.below(24) {
        out.extend(packet(dice, is_v5));
    }
    while !out.is_empty() && dice.one_in(3) {
        let at = dice.below(out.len());
        match dice.below(4) {
            0 => out[at] = dice.byte(),
            1 => out[at] ^= 1 << dice.below(8),
            2 => drop(out.remove(at)),
            _ => out.insert(at, dice.byte()),
        }
    }
    out
}

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
    let (mut read, mut unanswered) = (Vec::new(), Vec::new());
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
                    assert_eq!(proto.tell(&to_client(&mut Dice(SEED)), now), Told::Closed);
                    if dice.one_in(20) {
                        proto.refuse(*dice.pick(&[&Refusal::BadCredentials, &Refusal::ServerBusy]));
                    } else {
                        proto.accept(false, &Accepted { assigned_client_id: Some("x"), session_expiry_secs: 5 }, now);
                    }
                }
                Read::Packet(packet) => {
                    counts.packets += 1;
                    if let FromClient::Publish(publish) = packet {
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
    let mut dice = Dice(SEED);
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
