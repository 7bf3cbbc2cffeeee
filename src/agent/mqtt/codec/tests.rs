//! Both versions: what a broker sends, what it may send, and what breaks the protocol.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects; all else fails it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::agent::mqtt::packet::{ConnAck, Grant, Outgoing, Properties, Terms, Will};
use crate::agent::mqtt::reason::Reason;

const V4: Codec = Codec { protocol: Protocol::V311 };
const V5: Codec = Codec { protocol: Protocol::V5 };

fn decode(codec: Codec, bytes: &[u8]) -> Result<Option<FromBroker>, CodecError> {
    codec.decode(&mut BytesMut::from(bytes))
}

fn one(codec: Codec, bytes: &[u8]) -> FromBroker {
    decode(codec, bytes).expect("valid").expect("whole")
}

#[track_caller]
fn malformed(codec: Codec, bytes: &[u8]) {
    match decode(codec, bytes) {
        Err(CodecError::Malformed(_)) => {}
        other => panic!("{bytes:02x?}: {other:?}"),
    }
}

#[test]
fn a_disconnect_may_have_no_reason_a_reason_or_words() {
    let reason = |bytes: &[u8]| match one(V5, bytes) {
        FromBroker::Disconnect(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(b"\xe0\x00"), Reason::default());
    assert_eq!(reason(b"\xe0\x01\x04").code, 4, "what the library's reader takes for incomplete");
    assert_eq!(reason(b"\xe0\x01\x8b").to_string(), "it is shutting down");
    assert_eq!(reason(b"\xe0\x02\x8b\x00").code, 0x8b);
    assert_eq!(reason(b"\xe0\x07\x97\x05\x1f\x00\x02no").to_string(), "a quota is used up (it says: no)");
    assert_eq!(reason(b"\xe0\x01\xee").code, 0xee, "a code that the standard does not have");
    malformed(V5, b"\xe0\x02\x8b\x80");
    malformed(V5, b"\xe0\x03\x8b\x05\x1f");
}

#[test]
fn an_answer_to_a_publish_may_carry_a_reason() {
    let answer = |codec, bytes: &[u8]| match one(codec, bytes) {
        FromBroker::PubAck { packet, reason } => (packet, reason.code),
        other => panic!("{other:?}"),
    };
    assert_eq!(answer(V4, b"\x40\x02\x01\x02"), (0x102, 0));
    assert_eq!(answer(V5, b"\x40\x02\x01\x02"), (0x102, 0));
    assert_eq!(answer(V5, b"\x40\x03\x00\x07\x10"), (7, 0x10));
    assert_eq!(answer(V5, b"\x40\x04\x00\x07\x97\x00"), (7, 0x97));
    assert_eq!(answer(V5, b"\x40\x03\x00\x07\xee"), (7, 0xee), "a code that the standard does not have");
    for bytes in [&b"\x40\x00"[..], b"\x40\x01\x00", b"\x40\x04\x00\x07\x97\x80"] {
        malformed(V5, bytes);
    }
    malformed(V4, b"\x40\x00");
    malformed(V4, b"\x40\x01\x00");
}

#[test]
fn a_connack_says_what_the_broker_allows() {
    let connack = |codec, bytes: &[u8]| match one(codec, bytes) {
        FromBroker::ConnAck(connack) => connack,
        other => panic!("{other:?}"),
    };
    let plain = ConnAck { resumed: true, reason: Reason::default(), terms: Terms::default() };
    assert_eq!(connack(V4, b"\x20\x02\x01\x00"), plain);
    assert_eq!(connack(V5, b"\x20\x03\x01\x00\x00"), plain);
    let properties = b"\x20\x11\x00\x00\x0e\x21\x00\x05\x27\x00\x00\x10\x00\x25\x00\x24\x00\x13\x00";
    let mut long = properties.to_vec();
    long[1] += 1;
    long[4] += 1;
    long.push(30);
    let terms = connack(V5, &long).terms;
    assert_eq!(
        terms,
        Terms {
            receive_max: Some(5),
            packet_max: Some(4_096),
            no_retain: true,
            no_qos1: true,
            keep_alive_secs: Some(30)
        }
    );
    malformed(V5, b"\x20\x06\x00\x00\x03\x21\x00\x00");
    malformed(V5, b"\x20\x04\x00\x00\x05\x21");
    assert_eq!(connack(V5, b"\x20\x02\x00\x01").reason.code, 0x84, "a broker that knows 3.1.1 alone");
    assert_eq!(connack(V5, b"\x20\x03\x00\x87\x00").reason.code, 0x87);
    assert_eq!(connack(V4, b"\x20\x02\x00\x04").reason.code, 0x86);
}

#[test]
fn a_broker_that_wants_auth_gets_a_clear_answer() {
    let refused = decode(V5, b"\xf0\x02\x18\x00").expect_err("not supported");
    assert!(refused.to_string().contains("AUTH"), "{refused}");
}

#[test]
fn incomplete_packets_are_waited_for_and_too_large_ones_are_not() {
    for codec in [V4, V5] {
        for bytes in [&b""[..], b"\x40", b"\x40\x82", b"\x40\x02\x00", b"\x30\xff\xff\x7f\x00"] {
            assert!(matches!(decode(codec, bytes), Ok(None)), "{bytes:02x?}");
        }
        let refused = decode(codec, b"\x30\x81\x80\x80\x04").expect_err("8 MiB and one byte");
        assert_eq!(refused, CodecError::TooLarge(PACKET_BYTES_MAX + 1));
        malformed(codec, b"\x40\xff\xff\xff\xff\x00");
        // Exactly one is taken, the next stays.
        let mut two = BytesMut::from(&b"\xd0\x00\x40\x02\x00\x01"[..]);
        assert!(matches!(codec.decode(&mut two), Ok(Some(FromBroker::PingResp))));
        assert_eq!(&two[..], b"\x40\x02\x00\x01");
    }
}

#[test]
fn what_a_device_broker_sends_is_read() {
    match one(V4, b"\x3b\x08\x00\x01a\x00\x09xyz") {
        FromBroker::Publish(message) => {
            assert_eq!((message.topic.as_str(), &message.payload[..]), ("a", &b"xyz"[..]));
            assert_eq!(
                (message.packet, message.retain, message.dup, message.exactly_once),
                (Some(9), true, true, false)
            );
        }
        other => panic!("{other:?}"),
    }
    match one(V4, b"\x90\x05\x00\x01\x00\x02\x80") {
        FromBroker::SubAck(grants) => assert_eq!(grants, [Grant::Unacknowledged, Grant::Acknowledged, Grant::Refused]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(one(V4, b"\x62\x02\x00\x07"), FromBroker::PubRel(7)));
    assert!(matches!(one(V5, b"\x62\x02\x00\x07"), FromBroker::PubRel(7)));
    assert!(matches!(one(V4, b"\xb0\x02\x00\x07"), FromBroker::Other(11)));
}

#[test]
fn what_the_clouds_broker_sends_to_a_subscriber_is_read() {
    match one(V5, b"\x32\x0f\x00\x01a\x00\x09\x08\x08\x00\x01r\x09\x00\x01cx") {
        FromBroker::Publish(message) => {
            assert_eq!((message.topic.as_str(), &message.payload[..], message.packet), ("a", &b"x"[..], Some(9)));
            let answer_to = message.answer_to.expect("it says where");
            assert_eq!((answer_to.topic.as_str(), answer_to.correlation.as_deref()), ("r", Some(&b"c"[..])));
        }
        other => panic!("{other:?}"),
    }
    match one(V5, b"\x90\x06\x00\x01\x00\x01\x00\x87") {
        FromBroker::SubAck(grants) => assert_eq!(grants, [Grant::Acknowledged, Grant::Unacknowledged, Grant::Refused]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_is_written_as_its_version_has_it() {
    let outgoing = || Outgoing {
        topic: "t".into(),
        payload: Bytes::from_static(b"x"),
        retain: true,
        packet: Some(7),
        exactly_once: false,
        dup: false,
        properties: Properties {
            content_type: Some("c"),
            expiry_secs: Some(5),
            user: vec![("k", "v")],
            correlation: None,
        },
    };
    let written = |codec: Codec, packet| {
        let mut out = BytesMut::new();
        codec.encode(packet, &mut out).expect("written");
        out.to_vec()
    };
    assert_eq!(written(V4, ToBroker::Publish(outgoing())), b"\x33\x06\x00\x01t\x00\x07x");
    assert_eq!(
        written(V5, ToBroker::Publish(outgoing())),
        b"\x33\x17\x00\x01t\x00\x07\x10\x02\x00\x00\x00\x05\x26\x00\x01k\x00\x01v\x03\x00\x01cx"
    );
    let best_effort = Outgoing { packet: None, retain: false, properties: Properties::default(), ..outgoing() };
    assert_eq!(written(V4, ToBroker::Publish(best_effort.clone())), b"\x30\x04\x00\x01tx");
    assert_eq!(written(V5, ToBroker::Publish(best_effort)), b"\x30\x05\x00\x01t\x00x");
    assert_eq!(written(V5, ToBroker::PingReq), b"\xc0\x00");
    assert_eq!(written(V5, ToBroker::Disconnect)[0], 0xe0);
    let huge = Outgoing { payload: Bytes::from(vec![0; PACKET_BYTES_MAX]), ..outgoing() };
    for codec in [V4, V5] {
        let refused = codec.encode(ToBroker::Publish(huge.clone()), &mut BytesMut::new());
        assert!(matches!(refused, Err(CodecError::TooLarge(_))), "{refused:?}");
    }
}

#[test]
fn a_publisher_at_qos_2_speaks_and_understands_all_four_steps() {
    let outgoing = || Outgoing {
        topic: "t".into(),
        payload: Bytes::from_static(b"x"),
        retain: false,
        packet: Some(7),
        exactly_once: true,
        dup: true,
        properties: Properties::default(),
    };
    let written = |codec: Codec, packet| {
        let mut out = BytesMut::new();
        codec.encode(packet, &mut out).expect("written");
        out.to_vec()
    };
    assert_eq!(written(V4, ToBroker::Publish(outgoing())), b"\x3c\x06\x00\x01t\x00\x07x");
    assert_eq!(written(V5, ToBroker::Publish(outgoing())), b"\x3c\x07\x00\x01t\x00\x07\x00x");
    for codec in [V4, V5] {
        assert_eq!(written(codec, ToBroker::PubRel(7)), b"\x62\x02\x00\x07");
        match one(codec, b"\x50\x02\x00\x07") {
            FromBroker::PubRec { packet: 7, reason } => assert!(!reason.is_refusal()),
            other => panic!("{other:?}"),
        }
        assert!(matches!(one(codec, b"\x70\x02\x00\x07"), FromBroker::PubComp(7)));
    }
    match one(V5, b"\x50\x03\x00\x07\x97") {
        FromBroker::PubRec { packet: 7, reason } => assert!(reason.is_refusal()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(one(V5, b"\x70\x04\x00\x07\x92\x00"), FromBroker::PubComp(7)));
    malformed(V5, b"\x50\x01\x00");
}

fn greeting() -> Greeting {
    Greeting {
        client_id: "id".into(),
        clean: true,
        keep_alive_secs: 60,
        login: Some(("u".into(), "p".into())),
        will: Some(Will { topic: "w".into(), payload: b"off".to_vec(), retain: true }),
    }
}

#[test]
fn connect_ends_the_session_with_the_connection_and_names_our_limit() {
    let mut out = BytesMut::new();
    V5.connect(greeting(), &mut out).expect("written");
    assert_eq!(&out[2..11], b"\x00\x04MQTT\x05\xee\x00");
    // Session expiry 0, maximum packet size 8 MiB.
    assert_eq!(&out[12..23], b"\x0a\x11\x00\x00\x00\x00\x27\x00\x80\x00\x00");
    let mut out = BytesMut::new();
    V4.connect(greeting(), &mut out).expect("written");
    assert_eq!(&out[2..12], b"\x00\x04MQTT\x04\xee\x00\x3c");
    let mut out = BytesMut::new();
    V4.connect(Greeting { will: None, login: Some((String::new(), "p".into())), ..greeting() }, &mut out).unwrap();
    assert_eq!(out[9], 0x42, "a password alone");
}

#[test]
fn a_text_that_mqtt_has_no_room_for_is_refused_and_not_shown() {
    let long = Greeting { login: Some(("u".into(), "p".repeat(TEXT_BYTES_MAX + 1))), ..greeting() };
    for codec in [V4, V5] {
        let refused = codec.connect(long.clone(), &mut BytesMut::new()).expect_err("too long").to_string();
        assert!(refused.contains("the password has 65536 bytes") && !refused.contains("ppp"), "{refused}");
    }
}

/// Whatever a broker sends, whole or cut, changed in one place or at random: no panic.
#[test]
fn garbage_never_panics() {
    let packets: [&[u8]; 8] = [
        b"\x20\x12\x00\x00\x0f\x21\x00\x05\x27\x00\x00\x10\x00\x25\x00\x24\x00\x13\x00\x1e",
        b"\x40\x09\x00\x07\x97\x05\x1f\x00\x02no",
        b"\xe0\x0f\x97\x0d\x1f\x00\x02no\x26\x00\x01a\x00\x01b",
        b"\x3b\x08\x00\x01a\x00\x09xyz",
        b"\x90\x05\x00\x01\x00\x02\x80",
        b"\x62\x02\x00\x07",
        b"\xd0\x00",
        b"\xf0\x02\x18\x00",
    ];
    let mut random = crate::model::rng::Rng::new(7);
    for codec in [V4, V5] {
        for packet in packets {
            for len in 0..=packet.len() {
                let _ = decode(codec, &packet[..len]);
            }
            for index in 0..packet.len() {
                for byte in 0..=u8::MAX {
                    let mut changed = packet.to_vec();
                    changed[index] = byte;
                    let _ = decode(codec, &changed);
                }
            }
        }
        for _ in 0..100_000 {
            let len = random.below(40);
            let mut bytes: Vec<u8> = (0..len).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
            if let (true, Some(second)) = (random.below(4) > 0, bytes.get_mut(1)) {
                *second = u8::try_from(len.saturating_sub(2)).unwrap();
            }
            let _ = decode(codec, &bytes);
        }
    }
}
