//! What a client sends, as the broker gets it.

use super::*;
use crate::engine::broker::packet::RetainHandling;

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
fn the_rest_of_a_large_packet_is_not_kept_in_its_room() {
    let limits = ProtoLimits { packet_bytes: 200_000, ..limits() };
    let mut proto = opened_with(limits, V5);
    let large = [&b"\x30\xa3\x8d\x06\0\x01a\0"[..], &vec![b'x'; 99_999], b"\x32"].concat();
    for part in large.chunks(32_000) {
        assert_eq!(feed(&mut proto, part).1, Ok(()));
    }
    assert_eq!((proto.pending_bytes(), &proto.pending[..]), (1, &b"\x32"[..]));
    assert!(proto.pending.capacity() < 1_000, "{}", proto.pending.capacity());
    assert_eq!(only(feed(&mut proto, b"\x06\0\x01a\0\x07\0").0).bytes(), 1, "and the next one is read from there");
}
