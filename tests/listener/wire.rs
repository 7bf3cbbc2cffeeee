//! The bytes of MQTT 3.1.1 and 5, written and read by hand: as much as tests need, and
//! nothing checked on the way out, so that a test can also write what is wrong.

/// Which MQTT a client speaks: the level byte of its CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    V311 = 4,
    V5 = 5,
}

/// Both, for tests whose promise is the same.
pub(crate) const BOTH: [Version; 2] = [Version::V311, Version::V5];

/// First bytes of packets, with the flags that the standard prescribes.
pub(crate) mod kind {
    pub(crate) const CONNECT: u8 = 0x10;
    pub(crate) const CONNACK: u8 = 0x20;
    pub(crate) const PUBLISH: u8 = 0x30;
    pub(crate) const PUBACK: u8 = 0x40;
    pub(crate) const PUBREC: u8 = 0x50;
    pub(crate) const PUBREL: u8 = 0x62;
    pub(crate) const PUBCOMP: u8 = 0x70;
    pub(crate) const SUBSCRIBE: u8 = 0x82;
    pub(crate) const SUBACK: u8 = 0x90;
    pub(crate) const UNSUBSCRIBE: u8 = 0xA2;
    pub(crate) const UNSUBACK: u8 = 0xB0;
    pub(crate) const PINGREQ: u8 = 0xC0;
    pub(crate) const PINGRESP: u8 = 0xD0;
    pub(crate) const DISCONNECT: u8 = 0xE0;
}

/// Identifiers of MQTT 5 properties that the tests use.
pub(crate) mod property {
    pub(crate) const PAYLOAD_FORMAT: u8 = 0x01;
    pub(crate) const MESSAGE_EXPIRY: u8 = 0x02;
    pub(crate) const CONTENT_TYPE: u8 = 0x03;
    pub(crate) const RESPONSE_TOPIC: u8 = 0x08;
    pub(crate) const CORRELATION: u8 = 0x09;
    pub(crate) const SUBSCRIPTION_ID: u8 = 0x0B;
    pub(crate) const SESSION_EXPIRY: u8 = 0x11;
    pub(crate) const ASSIGNED_CLIENT_ID: u8 = 0x12;
    pub(crate) const SERVER_KEEP_ALIVE: u8 = 0x13;
    pub(crate) const WILL_DELAY: u8 = 0x18;
    pub(crate) const RECEIVE_MAXIMUM: u8 = 0x21;
    pub(crate) const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
    pub(crate) const TOPIC_ALIAS: u8 = 0x23;
    pub(crate) const USER: u8 = 0x26;
    pub(crate) const MAXIMUM_PACKET_SIZE: u8 = 0x27;
}

/// A string or binary with its length in front.
pub(crate) fn text(content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let len = u16::try_from(content.len()).expect("a test's text is short");
    [&len.to_be_bytes(), content].concat()
}

/// A variable byte integer.
pub(crate) fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value % 128).expect("below 128");
        value /= 128;
        bytes.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return bytes;
        }
    }
}

/// A whole packet.
pub(crate) fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    [&[first], varint(body.len()).as_slice(), body].concat()
}

/// Properties with their length in front; nothing at all in 3.1.1.
pub(crate) fn properties(version: Version, list: &[u8]) -> Vec<u8> {
    match version {
        Version::V311 => Vec::new(),
        Version::V5 => [varint(list.len()).as_slice(), list].concat(),
    }
}

/// A property of four bytes.
pub(crate) fn four(identifier: u8, value: u32) -> Vec<u8> {
    [&[identifier], value.to_be_bytes().as_slice()].concat()
}

/// A property of two bytes.
pub(crate) fn two(identifier: u8, value: u16) -> Vec<u8> {
    [&[identifier], value.to_be_bytes().as_slice()].concat()
}

/// A property that is text or binary.
pub(crate) fn worded(identifier: u8, value: &str) -> Vec<u8> {
    [&[identifier], text(value).as_slice()].concat()
}

/// PUBLISH. `id` is written for `QoS` 1 and 2 only.
pub(crate) fn publish(version: Version, flags: u8, topic: &str, id: u16, list: &[u8], payload: &[u8]) -> Vec<u8> {
    let id = if flags & 0x06 == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
    let body = [text(topic), id, properties(version, list), payload.to_vec()].concat();
    packet(kind::PUBLISH | flags, &body)
}

/// SUBSCRIBE with filters and their option bytes.
pub(crate) fn subscribe(version: Version, id: u16, list: &[u8], filters: &[(&str, u8)]) -> Vec<u8> {
    let mut body = [id.to_be_bytes().to_vec(), properties(version, list)].concat();
    for (filter, options) in filters {
        body.extend(text(filter));
        body.push(*options);
    }
    packet(kind::SUBSCRIBE, &body)
}

/// UNSUBSCRIBE.
pub(crate) fn unsubscribe(version: Version, id: u16, filters: &[&str]) -> Vec<u8> {
    let mut body = [id.to_be_bytes().to_vec(), properties(version, &[])].concat();
    for filter in filters {
        body.extend(text(filter));
    }
    packet(kind::UNSUBSCRIBE, &body)
}

/// PUBACK, PUBREC, PUBREL, PUBCOMP without a reason, as both versions write them.
pub(crate) fn ack(first: u8, id: u16) -> Vec<u8> {
    packet(first, &id.to_be_bytes())
}

/// Takes the first `count` bytes off.
pub(crate) fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at_checked(count).expect("the server's packet is complete");
    *rest = tail;
    head
}

pub(crate) fn take_u16(rest: &mut &[u8]) -> u16 {
    u16::from_be_bytes(take(rest, 2).try_into().expect("two bytes"))
}

pub(crate) fn take_text(rest: &mut &[u8]) -> Vec<u8> {
    let len = usize::from(take_u16(rest));
    take(rest, len).to_vec()
}

pub(crate) fn take_varint(rest: &mut &[u8]) -> usize {
    let mut value = 0;
    for shift in [0, 7, 14, 21] {
        let byte = take(rest, 1)[0];
        value |= usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// Properties as they came: identifier and value, numbers as their bytes, texts without their
/// length, a user property as `name=value`, a subscription identifier in four bytes.
pub(crate) fn take_properties(rest: &mut &[u8]) -> Vec<(u8, Vec<u8>)> {
    let len = take_varint(rest);
    let mut list = take(rest, len);
    let mut found = Vec::new();
    while !list.is_empty() {
        let identifier = take(&mut list, 1)[0];
        let value = match identifier {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28..=0x2A => take(&mut list, 1).to_vec(),
            0x13 | 0x21..=0x23 => take(&mut list, 2).to_vec(),
            0x02 | 0x11 | 0x18 | 0x27 => take(&mut list, 4).to_vec(),
            0x0B => u32::try_from(take_varint(&mut list)).expect("at most 28 bits").to_be_bytes().to_vec(),
            0x26 => [take_text(&mut list), b"=".to_vec(), take_text(&mut list)].concat(),
            0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => take_text(&mut list),
            other => panic!("the server sends property {other:#04x}, which does not exist"),
        };
        found.push((identifier, value));
    }
    found
}
