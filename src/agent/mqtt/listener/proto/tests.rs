//! Conversations byte by byte: what a server has to refuse, and what every trap of the codec
//! would have done.

use std::sync::Arc;

use mqtt_protocol_core::mqtt::packet::Property;
use mqtt_protocol_core::mqtt::packet::v5_0;

use super::*;
use crate::engine::broker::packet::{Delivery, Farewell, Message, Properties, RetainHandling};

const START: ProcTime = ProcTime::from_millis(1_000);
const V3: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c";
const V5: &[u8] = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01c";

fn limits() -> ProtoLimits {
    ProtoLimits {
        packet_bytes: 4 * 1024,
        connect_bytes: 1024,
        in_flight: 3,
        keep_alive_max: Span::ZERO,
        topic_alias_max: 4,
        connect_within: Span::from_secs(5),
        session_expiry_max_secs: 1_000,
    }
}

fn feed(proto: &mut Proto, bytes: &[u8]) -> (Vec<Read>, Result<(), Fault>) {
    let mut into = Vec::new();
    let result = proto.feed(bytes, START, &mut into);
    (into, result)
}

fn take(proto: &mut Proto) -> Vec<u8> {
    proto.output().split().to_vec()
}

/// Lets in whoever `connect` is. Its CONNACK is taken out.
fn opened_with(limits: ProtoLimits, connect: &[u8]) -> Proto {
    let mut proto = Proto::new(limits, START);
    let (read, result) = feed(&mut proto, connect);
    assert_eq!(result, Ok(()));
    assert!(matches!(&read[..], [Read::Hello(_)]), "{read:?}");
    let granted = proto.asked_session_expiry_secs;
    proto.accept(false, &Accepted { assigned_client_id: None, session_expiry_secs: granted }, START);
    take(&mut proto);
    proto
}

fn opened(connect: &[u8]) -> Proto {
    opened_with(limits(), connect)
}

/// A packet with its length.
fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    [&[first, u8::try_from(body.len()).unwrap()], body].concat()
}

/// A CONNECT from its flags on.
fn connect(level: u8, rest: &[u8]) -> Vec<u8> {
    packet(0x10, &[b"\x00\x04MQTT", &[level][..], rest].concat())
}

fn hello(bytes: &[u8]) -> Result<Hello, (Fault, Vec<u8>)> {
    let mut proto = Proto::new(limits(), START);
    match feed(&mut proto, bytes) {
        (mut read, Ok(())) => match read.pop() {
            Some(Read::Hello(hello)) if read.is_empty() => Ok(*hello),
            other => panic!("{other:?}"),
        },
        (read, Err(fault)) => {
            assert!(read.is_empty() && proto.is_closed());
            Err((fault, take(&mut proto)))
        }
    }
}

fn only(read: Vec<Read>) -> FromClient {
    match <[Read; 1]>::try_from(read) {
        Ok([Read::Packet(packet)]) => packet,
        other => panic!("{other:?}"),
    }
}

fn message(topic: &str, payload: &[u8]) -> Message {
    Message {
        topic: topic.into(),
        payload: payload.into(),
        qos: Qos::AtLeastOnce,
        retain: false,
        expiry_secs: None,
        properties: None,
    }
}

fn delivery(message: Message) -> Delivery {
    Delivery {
        message: Arc::new(message),
        qos: Qos::AtLeastOnce,
        retain: false,
        dup: false,
        packet: Some(7),
        subscriptions: vec![],
        expiry_secs: None,
    }
}

#[test]
fn a_connect_is_read_in_both_versions() {
    let old = hello(&connect(4, b"\xee\x00\x3c\x00\x01c\x00\x01w\x00\x02hi\x00\x01u\x00\x01p")).unwrap();
    assert!(!old.is_v5 && old.connect.clean_start);
    assert_eq!(
        (old.keep_alive_secs, old.username.as_deref(), old.password.as_deref()),
        (60, Some("u"), Some(&b"p"[..]))
    );
    let will = old.connect.will.unwrap();
    assert_eq!((&*will.message.topic, &*will.message.payload, will.message.qos), ("w", &b"hi"[..], Qos::AtLeastOnce));
    assert!(will.message.retain);

    let props = b"\x11\x00\x00\x00\x09\x21\x00\x05\x27\x00\x00\x01\x00\x22\x00\x08\x15\x00\x01m";
    let will = b"\x08\x18\x00\x00\x00\x07\x03\x00\x00\x00\x01w\x00\x00";
    let rest = [b"\x06\x00\x00", &[u8::try_from(props.len()).unwrap()][..], props, b"\x00\x01c", will].concat();
    let new = hello(&connect(5, &rest)).unwrap();
    assert!(new.is_v5);
    assert_eq!((new.connect.session_expiry_secs, new.connect.receive_max), (9, 5));
    assert_eq!((new.packet_max, new.topic_alias_max), (Some(256), 8));
    assert_eq!(new.authentication_method.as_deref(), Some("m"));
    assert_eq!(new.connect.will.unwrap().delay_secs, 7);
    assert_eq!(hello(V5).unwrap().connect.receive_max, u16::MAX);
}

#[test]
fn a_session_of_3_1_1_lasts_as_long_as_the_limit_allows() {
    assert_eq!(hello(V3).unwrap().connect.session_expiry_secs, 0);
    assert_eq!(hello(&connect(4, b"\x00\x00\x00\x00\x01c")).unwrap().connect.session_expiry_secs, 1_000);
}

#[test]
fn a_connect_that_is_wrong_is_refused_in_the_words_of_its_version() {
    let long_id = connect(4, &[b"\x02\x00\x00\x00\x81".as_slice(), &[b'x'; 129]].concat());
    let long_id = [&[0x10, 0x8d, 0x01], &long_id[2..]].concat();
    let table: &[(&str, Vec<u8>, u8, &[u8])] = &[
        ("HTTP", b"GET / HTTP/1.1\r\n".to_vec(), 0x81, b""),
        ("flags of the first byte", [&[0x11], &V3[1..]].concat(), 0x81, b""),
        ("a PUBLISH first", b"\x30\x03\x00\x01a".to_vec(), 0x81, b""),
        ("level 3", b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x00\x00\x01c".to_vec(), 0x84, b"\x20\x02\x00\x01"),
        ("level 0", connect(0, b"\x02\x00\x00\x00\x01c"), 0x84, b"\x20\x02\x00\x01"),
        ("a bridge", connect(0x84, b"\x02\x00\x00\x00\x01c"), 0x84, b"\x20\x02\x00\x01"),
        ("level 6", connect(6, b"\x02\x00\x00\x00\x01c"), 0x84, b"\x20\x03\x00\x84\x00"),
        ("another name", b"\x10\x0d\x00\x04HTTP\x04\x02\x00\x00\x00\x01c".to_vec(), 0x82, b""),
        ("reserved flag", connect(4, b"\x03\x00\x00\x00\x01c"), 0x81, b""),
        ("reserved flag", connect(5, b"\x03\x00\x00\x00\x00\x01c"), 0x81, b"\x20\x03\x00\x81\x00"),
        ("password alone", connect(4, b"\x42\x00\x00\x00\x01c\x00\x01p"), 0x81, b""),
        ("QoS without a will", connect(4, b"\x0a\x00\x00\x00\x01c"), 0x81, b""),
        ("retain without a will", connect(5, b"\x22\x00\x00\x00\x00\x01c"), 0x81, b"\x20\x03\x00\x81\x00"),
        ("will at QoS 3", connect(4, b"\x1e\x00\x00\x00\x01c\x00\x01w\x00\x00"), 0x81, b""),
        ("will to a wildcard", connect(4, b"\x06\x00\x00\x00\x01c\x00\x01#\x00\x00"), 0x90, b""),
        (
            "will to nothing",
            connect(5, b"\x06\x00\x00\x00\x00\x01c\x00\x00\x00\x00\x00"),
            0x90,
            b"\x20\x03\x00\x90\x00",
        ),
        ("no id, session kept", connect(4, b"\x00\x00\x00\x00\x00"), 0x85, b"\x20\x02\x00\x02"),
        ("long id", long_id, 0x85, b"\x20\x02\x00\x02"),
        ("control character", connect(5, b"\x02\x00\x00\x00\x00\x01\x07"), 0x85, b"\x20\x03\x00\x85\x00"),
        ("NUL in the id", connect(4, b"\x02\x00\x00\x00\x01\x00"), 0x81, b""),
        ("trailing bytes", connect(4, b"\x02\x00\x00\x00\x01cX"), 0x81, b""),
        ("too short", connect(5, b"\x02\x00\x00\x00\x00\x02c"), 0x81, b"\x20\x03\x00\x81\x00"),
        ("receive maximum 0", connect(5, b"\x02\x00\x00\x03\x21\x00\x00\x00\x01c"), 0x82, b"\x20\x03\x00\x82\x00"),
        ("maximum 0", connect(5, b"\x02\x00\x00\x05\x27\x00\x00\x00\x00\x00\x01c"), 0x82, b"\x20\x03\x00\x82\x00"),
        ("a will's property", connect(5, b"\x02\x00\x00\x02\x01\x00\x00\x01c"), 0x82, b"\x20\x03\x00\x82\x00"),
        ("length of five bytes", b"\x10\x80\x80\x80\x80\x01".to_vec(), 0x81, b""),
        ("too large", b"\x10\x80\x10\x00\x04MQTT\x04".to_vec(), 0x95, b""),
        ("too large", b"\x10\x80\x10\x00\x04MQTT\x05".to_vec(), 0x95, b"\x20\x03\x00\x95\x00"),
    ];
    for (what, bytes, code, answer) in table {
        let (fault, written) = hello(bytes).expect_err(what);
        assert_eq!((fault.code(), &*written), (*code, *answer), "{what}: {fault}");
    }
}

#[test]
fn what_mqtt_5_allows_and_the_codec_would_not_stand_is_let_in() {
    assert_eq!(hello(&connect(5, b"\x02\x00\x00\x03\x22\x00\x00\x00\x01c")).unwrap().topic_alias_max, 0);
    assert!(hello(&connect(5, b"\x42\x00\x00\x00\x00\x01c\x00\x01p")).unwrap().password.is_some());
    assert_eq!(hello(&connect(5, b"\x00\x00\x00\x00\x00\x00")).unwrap().connect.client_id, "");
    assert_eq!(hello(&connect(4, b"\x02\x00\x00\x00\x00")).unwrap().connect.client_id, "");
}

#[test]
fn the_first_byte_is_enough_to_tell_a_stranger_and_the_rest_has_its_time() {
    let mut proto = Proto::new(limits(), START);
    assert_eq!(feed(&mut proto, b"\x16").1, Err(Fault::NotMqtt(0x16)));
    let mut proto = Proto::new(limits(), START);
    for byte in &V3[..V3.len() - 1] {
        assert_eq!(feed(&mut proto, &[*byte]), (vec![], Ok(())));
    }
    let end = START + Span::from_secs(5);
    assert_eq!((proto.deadline(), proto.pending_bytes()), (Some(end), V3.len() - 1));
    assert_eq!(proto.expired(START), None);
    assert_eq!(proto.expired(end), Some(Fault::ConnectTimeout));
    assert!(proto.is_closed() && proto.output().is_empty() && proto.deadline().is_none());
}

#[test]
fn nothing_is_decoded_between_the_connect_and_the_answer_to_it() {
    let mut proto = Proto::new(limits(), START);
    let (read, _) = feed(&mut proto, &[V3, b"\xc0\x00\x30\x03\x00\x01a"].concat());
    assert_eq!(read.len(), 1);
    assert!(!proto.wants_read() && !proto.has_held_back() && proto.output().is_empty());
    assert_eq!(proto.deadline(), None);
    proto.accept(true, &Accepted { assigned_client_id: None, session_expiry_secs: 0 }, START);
    assert!(proto.wants_read() && proto.has_held_back());
    let (read, _) = feed(&mut proto, b"");
    assert_eq!((read.len(), proto.pending_bytes()), (1, 0));
    assert_eq!(take(&mut proto), b"\x20\x02\x01\x00\xd0\x00");
}

#[test]
fn mqtt_5_is_told_the_terms_and_what_differs_from_what_it_asked_for() {
    let mut limits = limits();
    limits.keep_alive_max = Span::from_secs(60);
    let mut proto = Proto::new(limits, START);
    let ask = connect(5, b"\x02\x00\x78\x05\x11\xff\xff\xff\xff\x00\x00");
    let (read, _) = feed(&mut proto, &ask);
    let Some(Read::Hello(hello)) = read.first() else { panic!("{read:?}") };
    assert_eq!(hello.connect.session_expiry_secs, 1_000);
    proto.accept(false, &Accepted { assigned_client_id: Some("auto-1"), session_expiry_secs: 1_000 }, START);
    let out = take(&mut proto);
    let (connack, used) = v5_0::Connack::parse(&out[2..]).unwrap();
    assert_eq!(used, out.len() - 2);
    assert_eq!(connack.props().len(), 6);
    assert_eq!(proto.deadline(), Some(START + Span::from_secs(90)));
    assert!(connack.props().iter().any(|it| matches!(it, Property::ServerKeepAlive(secs) if secs.val() == 60)));
    assert!(
        connack.props().iter().any(|it| matches!(it, Property::SessionExpiryInterval(secs) if secs.val() == 1_000))
    );
    assert!(connack.props().iter().any(|it| matches!(it, Property::ReceiveMaximum(max) if max.val() == 3)));
    assert!(connack.props().iter().any(|it| matches!(it, Property::MaximumPacketSize(max) if max.val() == 4_096)));
    assert!(connack.props().iter().any(|it| matches!(it, Property::TopicAliasMaximum(max) if max.val() == 4)));
    assert!(
        connack.props().iter().any(|it| matches!(it, Property::AssignedClientIdentifier(id) if id.val() == "auto-1"))
    );
}

#[test]
fn a_client_is_turned_away_with_the_code_of_its_version() {
    for (why, old, new) in [
        (Refusal::BadCredentials, 4, 0x86),
        (Refusal::NotAuthorized, 5, 0x87),
        (Refusal::TooManyAttempts, 5, 0x8a),
        (Refusal::QuotaExceeded, 3, 0x97),
        (Refusal::ServerBusy, 3, 0x89),
        (Refusal::ShuttingDown, 3, 0x88),
        (Refusal::BadClientId, 2, 0x85),
        (Refusal::BadAuthenticationMethod, 5, 0x8c),
    ] {
        for (bytes, answer) in [(V3, vec![0x20, 2, 0, old]), (V5, vec![0x20, 3, 0, new, 0])] {
            let mut proto = Proto::new(limits(), START);
            assert!(feed(&mut proto, bytes).1.is_ok());
            proto.refuse(why);
            assert_eq!(take(&mut proto), answer, "{why:?}");
            assert!(proto.is_closed() && !proto.wants_read());
            assert_eq!(feed(&mut proto, b"\xc0\x00"), (vec![], Ok(())));
        }
    }
}

/// In both versions.
const BOTH: u8 = 0;
/// In which version, what, its first byte, what follows its length, and the code that it earns.
const MALFORMED: &[(u8, &str, u8, &[u8], u8)] = &[
    (BOTH, "a second CONNECT", 0x10, V3.split_at(2).1, 0x82),
    (BOTH, "CONNACK", 0x20, b"\0\0", 0x82),
    (BOTH, "SUBACK", 0x90, b"\0\x01\0", 0x82),
    (BOTH, "UNSUBACK", 0xb0, b"\0\x01", 0x82),
    (BOTH, "PINGRESP", 0xd0, b"", 0x82),
    (BOTH, "type 0", 0x00, b"", 0x81),
    (BOTH, "AUTH", 0xf0, b"", 0x82),
    (BOTH, "PINGREQ flags", 0xc5, b"", 0x81),
    (BOTH, "PINGREQ body", 0xc0, b"x", 0x81),
    (BOTH, "PUBACK flags", 0x42, b"\0\x01", 0x81),
    (BOTH, "PUBREC flags", 0x51, b"\0\x01", 0x81),
    (BOTH, "PUBREL flags", 0x60, b"\0\x01", 0x81),
    (BOTH, "PUBCOMP flags", 0x72, b"\0\x01", 0x81),
    (BOTH, "SUBSCRIBE flags", 0x80, b"\0\x01\0\x01a\0", 0x81),
    (BOTH, "UNSUBSCRIBE flags", 0xa0, b"\0\x01\0\x01a", 0x81),
    (BOTH, "DISCONNECT flags", 0xe1, b"", 0x81),
    (BOTH, "PUBLISH QoS 3", 0x36, b"\0\x01a\0\x01\0", 0x81),
    (BOTH, "PUBLISH QoS 0 again", 0x38, b"\0\x01a\0", 0x81),
    (BOTH, "PUBLISH id 0", 0x32, b"\0\x01a\0\0\0", 0x81),
    (BOTH, "PUBLISH to +", 0x30, b"\0\x01+\0", 0x90),
    (BOTH, "PUBLISH to NUL", 0x30, b"\0\x01\0\0", 0x81),
    (BOTH, "PUBLISH to no UTF-8", 0x30, b"\0\x03\xed\xa0\x80\0", 0x81),
    (BOTH, "PUBLISH too short", 0x30, b"\0\x05a", 0x81),
    (BOTH, "PUBACK id 0", 0x40, b"\0\0", 0x81),
    (BOTH, "PUBREC id 0", 0x50, b"\0\0", 0x81),
    (BOTH, "PUBREL id 0", 0x62, b"\0\0", 0x81),
    (BOTH, "PUBCOMP id 0", 0x70, b"\0\0", 0x81),
    (BOTH, "PUBACK short", 0x40, b"\x01", 0x81),
    (4, "SUBSCRIBE empty", 0x82, b"\0\x01", 0x82),
    (5, "SUBSCRIBE empty", 0x82, b"\0\x01\0", 0x82),
    (4, "PUBLISH to nothing", 0x30, b"\0\0", 0x90),
    (4, "PUBACK long", 0x40, b"\0\x01\0", 0x81),
    (4, "DISCONNECT long", 0xe0, b"\0", 0x81),
    (4, "SUBSCRIBE id 0", 0x82, b"\0\0\0\x01a\0", 0x81),
    (4, "SUBSCRIBE a/#/b", 0x82, b"\0\x01\0\x05a/#/b\0", 0x8f),
    (4, "SUBSCRIBE QoS 3", 0x82, b"\0\x01\0\x01a\x03", 0x81),
    (4, "SUBSCRIBE options", 0x82, b"\0\x01\0\x01a\x04", 0x81),
    (4, "SUBSCRIBE without options", 0x82, b"\0\x01\0\x01a", 0x81),
    (4, "UNSUBSCRIBE empty", 0xa2, b"\0\x01", 0x82),
    (4, "UNSUBSCRIBE a+", 0xa2, b"\0\x01\0\x02a+", 0x8f),
    (5, "PUBLISH to nothing", 0x30, b"\0\0\0", 0x82),
    (5, "PUBLISH alias 0", 0x30, b"\0\x01a\x03\x23\0\0", 0x82),
    (5, "PUBLISH alias 5", 0x30, b"\0\x01a\x03\x23\0\x05", 0x94),
    (5, "PUBLISH unknown alias", 0x30, b"\0\0\x03\x23\0\x01", 0x82),
    (5, "PUBLISH subscription", 0x30, b"\0\x01a\x02\x0b\x01", 0x82),
    (5, "PUBLISH twice a property", 0x30, b"\0\x01a\x04\x01\0\x01\0", 0x82),
    (5, "PUBLISH properties short", 0x30, b"\0\x01a\x09\x01", 0x81),
    (5, "PUBLISH no properties", 0x30, b"\0\x01a", 0x81),
    (5, "PUBACK code", 0x40, b"\0\x01\x11", 0x81),
    (5, "PUBREL code", 0x62, b"\0\x01\x10", 0x81),
    (5, "PUBACK property", 0x40, b"\0\x01\0\x02\x01\0", 0x82),
    (5, "PUBACK long", 0x40, b"\0\x01\0\0x", 0x81),
    (5, "SUBSCRIBE subscription 0", 0x82, b"\0\x01\x02\x0b\0\0\x01a\0", 0x82),
    (5, "SUBSCRIBE retain handling 3", 0x82, b"\0\x01\0\0\x01a\x30", 0x81),
    (5, "SUBSCRIBE options", 0x82, b"\0\x01\0\0\x01a\x40", 0x81),
    (5, "SUBSCRIBE QoS 3", 0x82, b"\0\x01\0\0\x01a\x03", 0x81),
    (5, "SUBSCRIBE no local, shared", 0x82, b"\0\x01\0\0\x0a$share/g/a\x04", 0x82),
    (5, "SUBSCRIBE share without group", 0x82, b"\0\x01\0\0\x09$share//a\0", 0x8f),
    (5, "UNSUBSCRIBE empty", 0xa2, b"\0\x01\0", 0x82),
    (5, "DISCONNECT code", 0xe0, b"\x01", 0x81),
    (5, "DISCONNECT expiry from 0", 0xe0, b"\0\x05\x11\0\0\0\x01", 0x82),
    (5, "DISCONNECT server reference", 0xe0, b"\0\x04\x1c\0\x01a", 0x82),
];

#[test]
fn a_malformed_packet_ends_the_connection_and_says_why_in_mqtt_5() {
    for (version, what, first, body, code) in MALFORMED {
        for (level, hello) in [(4, V3), (5, V5)] {
            if *version != level && *version != BOTH {
                continue;
            }
            let mut proto = opened(hello);
            let (read, result) = feed(&mut proto, &[b"\xc0\0", &packet(*first, body)[..], b"\xc0\0"].concat());
            let fault = result.expect_err(what);
            assert_eq!((fault.code(), read.len()), (*code, 0), "{what} in {level}: {fault}");
            let farewell = if level == 5 { vec![0xe0, 1, *code] } else { vec![] };
            assert_eq!(take(&mut proto), [b"\xd0\0", &farewell[..]].concat(), "{what} in {level}");
            assert!(proto.is_closed() && !proto.wants_read());
            assert_eq!(feed(&mut proto, b"\xc0\0"), (vec![], Ok(())), "nothing is read after it");
        }
    }
}

#[test]
fn a_packet_that_is_too_large_is_refused_before_it_comes() {
    let mut proto = opened(V5);
    assert_eq!(feed(&mut proto, b"\x30\x80\x20").1, Err(Fault::TooLarge { bytes: 4_099, max: 4_096 }));
    assert_eq!(take(&mut proto), b"\xe0\x01\x95");
    let mut proto = opened(V3);
    assert_eq!(feed(&mut proto, b"\x30\xfd\x1f"), (vec![], Ok(())), "4,096 bytes");
}

#[test]
fn what_came_before_a_fault_counts() {
    let mut proto = opened(V3);
    let (read, result) = feed(&mut proto, b"\x30\x03\x00\x01a\x00\x00");
    assert_eq!((read.len(), result.is_err()), (1, true));
}

#[test]
fn packets_are_the_same_however_they_are_cut() {
    let stream = [
        &b"\x30\x05\x00\x01a\x00x\x32\x06\x00\x01b\x00\x05\x00\x82\x08\x00\x01\x00\x00\x02a/\x01"[..],
        b"\x62\x02\x00\x09\x40\x03\x00\x03\x80\xc0\x00\xe0\x01\x04",
    ]
    .concat();
    let mut whole = opened(V5);
    let (expected, result) = feed(&mut whole, &stream);
    assert_eq!((expected.len(), result), (6, Ok(())));
    let expected_out = take(&mut whole);
    for step in 1..stream.len() {
        let mut proto = opened(V5);
        let mut read = Vec::new();
        for part in stream.chunks(step) {
            proto.feed(part, START, &mut read).unwrap();
        }
        assert_eq!((&read, take(&mut proto)), (&expected, expected_out.clone()), "{step}");
        assert_eq!(proto.pending_bytes(), 0);
    }
}

#[test]
fn what_a_client_says_arrives_as_it_said_it() {
    let mut proto = opened(V5);
    let publish = b"\0\x01t\0\x09\x18\x02\0\0\0\x05\x08\0\x01r\x09\0\x01\xff\x26\0\x01k\0\x01v\x03\0\x01j\xff\0";
    let FromClient::Publish(it) = only(feed(&mut proto, &packet(0x3d, publish)).0) else { panic!() };
    assert_eq!((it.topic(), it.payload(), it.packet), ("t", &b"\xff\0"[..], Some(9)));
    assert!(it.dup && it.retain && it.qos == Qos::ExactlyOnce);
    assert_eq!(it.expiry_secs, Some(5));
    let properties = it.properties.unwrap();
    assert_eq!(properties.response_topic.as_deref(), Some("r"));
    assert_eq!(properties.correlation.as_deref(), Some(&b"\xff"[..]));
    assert_eq!(properties.user, [("k".into(), "v".into())]);

    let subscribe = packet(0x82, b"\0\x02\x02\x0b\x07\0\x0a$share/g/#\x19\0\x01a\x26");
    let FromClient::Subscribe { packet: 2, id: Some(7), filters } = only(feed(&mut proto, &subscribe).0) else {
        panic!()
    };
    assert!(filters[0].retain_as_published && filters[0].retain_handling == RetainHandling::SendIfNew);
    assert!(filters[1].no_local && filters[1].retain_handling == RetainHandling::DoNotSend);
    assert_eq!((filters[0].qos, filters[1].qos), (Qos::AtLeastOnce, Qos::ExactlyOnce));

    let unsubscribe = packet(0xa2, b"\0\x03\0\0\x01a\0\x01b");
    assert_eq!(
        only(feed(&mut proto, &unsubscribe).0),
        FromClient::Unsubscribe { packet: 3, filters: vec!["a".into(), "b".into()] }
    );
    for (bytes, expected) in [
        (&b"\x40\x02\0\x01"[..], FromClient::PubAck { packet: 1, refused: false }),
        (b"\x40\x03\0\x01\x97", FromClient::PubAck { packet: 1, refused: true }),
        (b"\x50\x04\0\x01\x10\0", FromClient::PubRec { packet: 1, refused: false }),
        (b"\x62\x03\0\x01\x92", FromClient::PubRel { packet: 1 }),
        (b"\x70\x02\0\x01", FromClient::PubComp { packet: 1 }),
    ] {
        assert_eq!(only(feed(&mut proto, bytes).0), expected);
    }
}

#[test]
fn topic_aliases_are_resolved() {
    let mut proto = opened(V5);
    for (bytes, topic) in [(&b"\x30\x07\0\x01a\x03\x23\0\x04"[..], "a"), (b"\x30\x06\0\0\x03\x23\0\x04", "a")] {
        let FromClient::Publish(it) = only(feed(&mut proto, bytes).0) else { panic!() };
        assert_eq!(it.topic(), topic);
    }
    assert_eq!(proto.pending_bytes(), 1, "the topic that is kept");
}

#[test]
fn a_goodbye_takes_the_will_back_unless_it_says_otherwise() {
    let expiry = connect(5, b"\x02\x00\x00\x05\x11\0\0\0\x05\x00\x01c");
    for (hello, bytes, with_will, session_expiry_secs) in [
        (V3, &b"\xe0\x00"[..], false, None),
        (V5, b"\xe0\x00", false, None),
        (V5, b"\xe0\x01\x00", false, None),
        (V5, b"\xe0\x01\x04", true, None),
        (V5, b"\xe0\x07\x00\x05\x11\0\0\0\0", false, Some(0)),
        (&expiry[..], b"\xe0\x07\x00\x05\x11\xff\xff\xff\xff", false, Some(1_000)),
    ] {
        let mut proto = opened(hello);
        let (read, result) = feed(&mut proto, &[bytes, b"\xc0\x00\xc0"].concat());
        assert_eq!(result, Ok(()));
        assert_eq!(only(read), FromClient::Disconnect { with_will, session_expiry_secs });
        assert!(proto.is_closed() && proto.output().is_empty() && proto.pending_bytes() == 0);
    }
}

#[test]
fn answers_go_out_in_any_order_in_the_kind_that_fits() {
    for (hello, props, refused) in [(V3, "", &b"\x40\x02\0\x01"[..]), (V5, "\0", b"\x40\x03\0\x01\x87")] {
        let mut proto = opened(hello);
        for (first, id) in [(0x32, 1), (0x34, 2), (0x32, 3)] {
            let body = [b"\0\x01a\0", &[id][..], props.as_bytes()].concat();
            assert!(feed(&mut proto, &packet(first, &body)).1.is_ok());
        }
        assert!(proto.output().is_empty(), "nothing is answered before the caller says so");
        for id in [3, 2, 2, 3, 99] {
            proto.ack(id, AckReason::Success);
        }
        assert_eq!(take(&mut proto), b"\x40\x02\0\x03\x50\x02\0\x02");
        proto.ack(1, AckReason::NotAuthorized);
        assert_eq!(take(&mut proto), refused);
    }
}

#[test]
fn a_message_at_qos_2_that_comes_again_is_not_answered_by_the_connection() {
    for (hello, body) in [(V3, &b"\0\x01a\0\x02"[..]), (V5, b"\0\x01a\0\x02\0")] {
        let mut proto = opened(hello);
        let (read, _) = feed(&mut proto, &[packet(0x34, body), packet(0x3c, body)].concat());
        assert_eq!(read.len(), 2);
        assert!(proto.output().is_empty());
        assert_eq!(proto.window.count(), 1);
    }
}

#[test]
fn a_client_of_3_1_1_is_not_read_while_its_window_is_full_and_its_silence_is_not_its_own() {
    let keep_alive = connect(4, b"\x02\x00\x0a\x00\x01c");
    let mut proto = opened(&keep_alive);
    let stream: Vec<u8> = (1..=5).flat_map(|id| packet(0x32, &[0, 1, b'a', 0, id])).collect();
    let (read, _) = feed(&mut proto, &stream);
    assert_eq!((read.len(), proto.wants_read(), proto.pending_bytes()), (3, false, 14));
    let late = START + Span::from_secs(100);
    assert_eq!((proto.deadline(), proto.expired(late)), (None, None));
    proto.ack(2, AckReason::Success);
    assert!(proto.wants_read() && proto.has_held_back());
    assert_eq!(proto.expired(late), None, "the time begins anew");
    assert_eq!(proto.deadline(), Some(late + Span::from_secs(15)));
    let mut read = Vec::new();
    proto.feed(b"", late, &mut read).unwrap();
    assert_eq!((read.len(), proto.wants_read()), (1, false));
}

#[test]
fn what_waits_for_pubrel_does_not_stop_the_reading_in_3_1_1() {
    let mut proto = opened(V3);
    for id in 1..=9 {
        assert!(feed(&mut proto, &packet(0x34, &[0, 1, b'a', 0, id])).1.is_ok());
        proto.ack(id.into(), AckReason::Success);
    }
    assert!(proto.wants_read());
}

#[test]
fn a_client_of_mqtt_5_keeps_to_the_receive_maximum_until_pubcomp() {
    let publish = |first: u8, id: u8| packet(first, &[0, 1, b'a', 0, id, 0]);
    let mut proto = opened(V5);
    for id in 1..=3 {
        assert!(feed(&mut proto, &publish(0x34, id)).1.is_ok());
        proto.ack(id.into(), AckReason::Success);
    }
    assert!(proto.wants_read());
    proto.tell(&ToClient::PubComp { packet: 2, found: true }, START);
    assert!(feed(&mut proto, &publish(0x32, 4)).1.is_ok());
    take(&mut proto);
    assert_eq!(feed(&mut proto, &publish(0x32, 5)).1, Err(Fault::ReceiveMaximum(3)));
    assert_eq!(take(&mut proto), b"\xe0\x01\x93");
}

#[test]
fn a_keep_alive_runs_from_packet_to_packet_and_not_at_all_when_there_is_none() {
    assert_eq!(opened(V3).deadline(), None);
    let mut proto = opened(&connect(5, b"\x02\x00\x0a\x00\x00\x01c"));
    let at = |secs: u64| START + Span::from_secs(secs);
    assert_eq!(proto.deadline(), Some(at(15)));
    proto.feed(b"\xc0\0", at(10), &mut vec![]).unwrap();
    assert_eq!(proto.deadline(), Some(at(25)));
    proto.feed(b"\xc0", at(20), &mut vec![]).unwrap();
    assert_eq!(proto.deadline(), Some(at(25)), "half a packet is no sign of life");
    take(&mut proto);
    assert_eq!(proto.expired(at(24)), None);
    assert_eq!(proto.expired(at(25)), Some(Fault::KeepAlive));
    assert_eq!(take(&mut proto), b"\xe0\x01\x8d");
}

#[test]
fn the_longest_keep_alive_holds_for_whoever_asks_for_none() {
    let limits = ProtoLimits { keep_alive_max: Span::from_secs(60), ..limits() };
    assert_eq!(opened_with(limits, V3).deadline(), Some(START + Span::from_secs(90)));
    let short = connect(4, b"\x02\x00\x0a\x00\x01c");
    assert_eq!(opened_with(limits, &short).deadline(), Some(START + Span::from_secs(15)));
}

#[test]
fn the_broker_s_packets_are_written_in_both_versions() {
    let table: &[(ToClient, &[u8], &[u8])] = &[
        (
            ToClient::SubAck { packet: 1, codes: vec![0, 2, 0x87] },
            b"\x90\x05\0\x01\0\x02\x80",
            b"\x90\x06\0\x01\0\0\x02\x87",
        ),
        (ToClient::UnsubAck { packet: 1, codes: vec![0, 0x11] }, b"\xb0\x02\0\x01", b"\xb0\x05\0\x01\0\0\x11"),
        (ToClient::PubRel { packet: 1, found: true }, b"\x62\x02\0\x01", b"\x62\x02\0\x01"),
        (ToClient::PubRel { packet: 1, found: false }, b"\x62\x02\0\x01", b"\x62\x03\0\x01\x92"),
        (ToClient::PubComp { packet: 1, found: false }, b"\x70\x02\0\x01", b"\x70\x03\0\x01\x92"),
        (ToClient::Publish(delivery(message("a", b"x"))), b"\x32\x06\0\x01a\0\x07x", b"\x32\x07\0\x01a\0\x07\0x"),
        (ToClient::Disconnect(Farewell::TakenOver), b"", b"\xe0\x01\x8e"),
        (ToClient::Disconnect(Farewell::ShuttingDown), b"", b"\xe0\x01\x8b"),
    ];
    for (what, old, new) in table {
        for (hello, expected) in [(V3, old), (V5, new)] {
            let mut proto = opened(hello);
            assert_eq!(proto.tell(what, START), Told::Written);
            assert_eq!(take(&mut proto), *expected, "{what:?}");
        }
    }
}

#[test]
fn nothing_is_told_before_the_answer_to_connect_and_after_the_end() {
    let what = ToClient::Publish(delivery(message("a", b"x")));
    let mut proto = Proto::new(limits(), START);
    assert_eq!(proto.tell(&what, START), Told::Closed);
    feed(&mut proto, V5).1.unwrap();
    assert_eq!(proto.tell(&what, START), Told::Closed);
    assert_eq!(proto.tell(&ToClient::NoRoom, START), Told::Written);
    assert_eq!(take(&mut proto), b"\x20\x03\x00\x97\x00");
    assert_eq!(proto.tell(&ToClient::ConnAck { session_present: true }, START), Told::Closed);
    proto.ack(1, AckReason::Success);
    proto.goodbye(Goodbye::ServerBusy);
    proto.refuse(Refusal::ServerBusy);
    assert!(proto.output().is_empty());
}

#[test]
fn a_message_with_everything_is_what_another_codec_reads() {
    let mut proto = opened(&connect(5, b"\x02\x00\x00\x03\x22\x00\x02\x00\x01c"));
    let properties = Properties {
        payload_format: Some(1),
        content_type: Some("text".into()),
        response_topic: Some("r".into()),
        correlation: Some([1, 0, 255].into()),
        user: vec![("k".into(), "v".into()), ("k".into(), "w".into())],
    };
    let mut it = delivery(Message { properties: Some(Box::new(properties)), ..message("t/1", &[b'x'; 300]) });
    it.qos = Qos::ExactlyOnce;
    (it.retain, it.dup) = (true, true);
    it.subscriptions = vec![1, 300, 268_435_455];
    it.expiry_secs = Some(77);
    for (topic, alias) in [("t/1", 1), ("", 1)] {
        assert_eq!(proto.tell(&ToClient::Publish(it.clone()), START), Told::Written);
        let out = take(&mut proto);
        let frame = frame::frame(&out, usize::MAX).unwrap().unwrap();
        assert_eq!(frame.bytes, out.len());
        let (read, used) = v5_0::Publish::parse(frame.first & 0x0f, frame.body.into()).unwrap();
        assert_eq!((used, read.topic_name(), read.packet_id()), (frame.body.len(), topic, Some(7)));
        assert!(read.dup() && read.retain() && read.size() == out.len());
        assert_eq!(read.payload().as_slice(), &[b'x'; 300]);
        assert_eq!(read.props().len(), 11);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest was compared as bytes")]
        for property in read.props() {
            match property {
                Property::TopicAlias(it) => assert_eq!(it.val(), alias),
                Property::MessageExpiryInterval(it) => assert_eq!(it.val(), 77),
                Property::SubscriptionIdentifier(it) => assert!([1, 300, 268_435_455].contains(&it.val())),
                other => assert!(other.size() >= 2),
            }
        }
    }
}

#[test]
fn a_message_that_the_client_cannot_take_is_left_out_and_its_topic_gets_no_alias() {
    let mut proto = opened(&connect(5, b"\x02\x00\x00\x08\x27\0\0\0\x20\x22\x00\x02\x00\x01c"));
    let large = ToClient::Publish(delivery(message("a", &[0; 30])));
    assert_eq!(proto.tell(&large, START), Told::TooLarge);
    assert!(proto.output().is_empty());
    assert_eq!(proto.tell(&ToClient::Publish(delivery(message("a", b"x"))), START), Told::Written);
    assert_eq!(take(&mut proto), b"\x32\x0a\0\x01a\0\x07\x03\x23\0\x01x");
    let endless = "x".repeat(65_536);
    assert_eq!(opened(V3).tell(&ToClient::Publish(delivery(message(&endless, b""))), START), Told::TooLarge);
}

#[test]
fn too_many_filters_are_too_much() {
    let mut body = vec![0, 1];
    body.extend([0, 1, b'a', 0].repeat(1_025));
    let whole = [&[0x82, 0x86, 0x20][..], &body].concat();
    let mut proto = opened_with(ProtoLimits { packet_bytes: 65_536, ..limits() }, V3);
    assert_eq!(feed(&mut proto, &whole).1, Err(Fault::Quota("filters")));
}

#[test]
fn every_fault_has_a_name_of_its_own_and_a_sentence() {
    let faults = [
        Fault::NotMqtt(0x47),
        Fault::ConnectTimeout,
        Fault::KeepAlive,
        Fault::TooLarge { bytes: 2, max: 1 },
        Fault::Malformed("x"),
        Fault::Protocol("x"),
        Fault::Version(3),
        Fault::ClientId("x"),
        Fault::TopicName("x"),
        Fault::TopicFilter("x"),
        Fault::ReceiveMaximum(1),
        Fault::TopicAlias(1),
        Fault::Quota("x"),
    ];
    let names: std::collections::BTreeSet<_> = faults.iter().map(Fault::name).collect();
    assert_eq!(names.len(), faults.len());
    assert!(faults.iter().all(|fault| fault.code() >= 0x80 && !fault.to_string().is_empty()));
}

#[test]
fn the_rest_of_a_large_packet_is_not_kept_in_its_room() {
    let limits = ProtoLimits { packet_bytes: 200_000, ..limits() };
    let mut proto = opened_with(limits, V5);
    let large = [&b"\x30\xa3\x8d\x06\0\x01a\0"[..], &[b'x'; 99_999], b"\x32"].concat();
    for part in large.chunks(32_000) {
        assert_eq!(feed(&mut proto, part).1, Ok(()));
    }
    assert_eq!((proto.pending_bytes(), &proto.pending[..]), (1, &b"\x32"[..]));
    assert!(proto.pending.capacity() < 1_000, "{}", proto.pending.capacity());
    assert_eq!(only(feed(&mut proto, b"\x06\0\x01a\0\x07\0").0).bytes(), 1, "and the next one is read from there");
}

#[test]
fn whoever_subscribes_often_waits_for_the_answers() {
    for connect in [V5, V3] {
        let mut proto = opened(connect);
        let is_v5 = connect == V5;
        let subscribe = if is_v5 { &b"\x82\x07\0\x07\0\0\x01a\0"[..] } else { b"\x82\x06\0\x07\0\x01a\0" };
        let unsubscribe = if is_v5 { &b"\xa2\x06\0\x08\0\0\x01a"[..] } else { b"\xa2\x05\0\x08\0\x01a" };
        let (read, result) = feed(&mut proto, &[subscribe, unsubscribe].concat().repeat(10));
        assert_eq!((read.len(), result, proto.wants_read()), (REQUESTS_MAX, Ok(()), false));
        assert!(!proto.has_held_back() && proto.deadline().is_none(), "its silence is ours");
        assert_eq!(proto.tell(&ToClient::SubAck { packet: 7, codes: vec![0] }, START), Told::Written);
        assert_eq!(proto.tell(&ToClient::UnsubAck { packet: 8, codes: vec![0] }, START), Told::Written);
        assert!(proto.has_held_back());
        assert_eq!(feed(&mut proto, &[]).0.len(), 2);
    }
}

#[test]
fn thousands_of_packets_that_come_at_once_are_decoded_in_pieces() {
    let mut proto = opened(V5);
    let (read, result) = feed(&mut proto, &b"\x30\x04\0\x01a\0".repeat(PACKETS_MAX + 7));
    assert_eq!((read.len(), result, proto.has_held_back()), (PACKETS_MAX, Ok(()), true));
    assert_eq!(feed(&mut proto, b"\x30\x04\0").0.len(), 7, "then what comes next");
    assert!(!proto.has_held_back(), "it is not whole");
    assert_eq!(feed(&mut proto, b"\x01a\0").0.len(), 1);
    let exactly = b"\x30\x04\0\x01a\0".repeat(PACKETS_MAX);
    assert_eq!((feed(&mut proto, &exactly).0.len(), proto.has_held_back()), (PACKETS_MAX, false));
}
