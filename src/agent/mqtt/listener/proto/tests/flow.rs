//! Answers and the window of what is unanswered; the keep-alive, which a full window suspends.

use super::*;

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
fn the_longest_keep_alive_holds_for_who_can_be_told_of_it() {
    let limits = ProtoLimits { keep_alive_max: Span::from_secs(60), ..limits() };
    for (asked, old, new) in [(0_u8, None, Some(90)), (10, Some(15), Some(15)), (120, Some(180), Some(90))] {
        for (level, end, properties) in [(4, old, &[][..]), (5, new, &[0])] {
            let hello = connect(level, &[&[0x02, 0, asked], properties, b"\x00\x01c"].concat());
            let proto = opened_with(limits, &hello);
            let end = end.map(|secs| START + Span::from_secs(secs));
            assert_eq!((proto.deadline(), proto.has_keep_alive()), (end, end.is_some()), "{asked} s, level {level}");
        }
    }
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
