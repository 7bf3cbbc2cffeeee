//! What ends a connection, and the code that it earns.

use super::*;

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
    (5, "PUBLISH alias 0", 0x30, b"\0\x01a\x03\x23\0\0", 0x94),
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
