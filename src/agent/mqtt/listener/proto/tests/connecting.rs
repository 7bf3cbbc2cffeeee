//! The CONNECT: what is read from it, what is refused, and what answers it.

use mqtt_protocol_core::mqtt::packet::Property;
use mqtt_protocol_core::mqtt::packet::v5_0;

use super::*;

#[test]
fn a_connect_is_read_in_both_versions() {
    let old = hello(&connect(4, b"\xee\x00\x3c\x00\x01c\x00\x01w\x00\x02hi\x00\x01u\x00\x01p")).unwrap();
    assert!(!old.connect.is_v5 && old.connect.clean_start);
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
    assert!(new.connect.is_v5);
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
