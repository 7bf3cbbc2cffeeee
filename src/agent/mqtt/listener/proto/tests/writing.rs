//! What a client is told, as bytes.

use mqtt_protocol_core::mqtt::packet::Property;
use mqtt_protocol_core::mqtt::packet::v5_0;

use super::*;
use crate::engine::broker::packet::{Farewell, Properties};

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
