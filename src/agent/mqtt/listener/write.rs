//! Packets to a client, in both versions, into a buffer.

use bytes::{BufMut, BytesMut};
use smallvec::SmallVec;

use crate::engine::broker::packet::{Delivery, Properties, Qos};

use super::alias::Written;
use super::window::Answer;

/// The largest remaining length.
const REMAINING_MAX: usize = 0x0fff_ffff;
/// Properties of most packets fit into it.
type Section = SmallVec<[u8; 64]>;

/// What a client is told in CONNACK (MQTT 5).
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) receive_max: u16,
    pub(super) packet_max: u32,
    pub(super) topic_alias_max: u16,
    /// Where they differ from what it asked for.
    pub(super) client_id: Option<&'a str>,
    pub(super) keep_alive_secs: Option<u16>,
    pub(super) session_expiry_secs: Option<u32>,
}

/// CONNACK that lets it in. `terms`: MQTT 5.
pub(super) fn welcome(out: &mut BytesMut, session_present: bool, terms: Option<Terms<'_>>) {
    let Some(terms) = terms else {
        out.put_slice(&[0x20, 2, u8::from(session_present), 0]);
        return;
    };
    let mut section = Section::new();
    if let Some(secs) = terms.session_expiry_secs {
        section.push(0x11);
        section.extend_from_slice(&secs.to_be_bytes());
    }
    section.push(0x21);
    section.extend_from_slice(&terms.receive_max.to_be_bytes());
    section.push(0x27);
    section.extend_from_slice(&terms.packet_max.to_be_bytes());
    if terms.topic_alias_max > 0 {
        section.push(0x22);
        section.extend_from_slice(&terms.topic_alias_max.to_be_bytes());
    }
    if let Some(id) = terms.client_id {
        section.push(0x12);
        text(&mut section, id.as_bytes());
    }
    if let Some(secs) = terms.keep_alive_secs {
        section.push(0x13);
        section.extend_from_slice(&secs.to_be_bytes());
    }
    out.put_u8(0x20);
    var_int(out, 2 + width(section.len()) + section.len());
    out.put_slice(&[u8::from(session_present), 0]);
    var_int(out, section.len());
    out.put_slice(&section);
}

/// CONNACK that does not. `code`: in its version's own.
pub(super) fn refusal(out: &mut BytesMut, code: u8, is_v5: bool) {
    out.put_slice(if is_v5 { &[0x20, 3, 0] } else { &[0x20, 2, 0] });
    out.put_u8(code);
    if is_v5 {
        out.put_u8(0);
    }
}

/// DISCONNECT (MQTT 5).
pub(super) fn disconnect(out: &mut BytesMut, code: u8) {
    out.put_slice(&[0xe0, 1, code]);
}

/// PINGRESP.
pub(super) fn pong(out: &mut BytesMut) {
    out.put_slice(&[0xd0, 0]);
}

/// PUBACK or PUBREC. `code`: 0 in MQTT 3.1.1.
pub(super) fn answer(out: &mut BytesMut, answer: Answer, packet: u16, code: u8) {
    let first = match answer {
        Answer::PubAck => 0x40,
        Answer::PubRec => 0x50,
    };
    with_code(out, first, packet, code);
}

/// PUBREL. `code`: as above.
pub(super) fn release(out: &mut BytesMut, packet: u16, code: u8) {
    with_code(out, 0x62, packet, code);
}

/// PUBCOMP. `code`: as above.
pub(super) fn complete(out: &mut BytesMut, packet: u16, code: u8) {
    with_code(out, 0x70, packet, code);
}

fn with_code(out: &mut BytesMut, first: u8, packet: u16, code: u8) {
    let [high, low] = packet.to_be_bytes();
    if code == 0 {
        out.put_slice(&[first, 2, high, low]);
    } else {
        out.put_slice(&[first, 3, high, low, code]);
    }
}

/// SUBACK. In MQTT 3.1.1 there is one code for everything that is refused.
pub(super) fn suback(out: &mut BytesMut, packet: u16, codes: &[u8], is_v5: bool) {
    coded(out, 0x90, packet, codes.len(), is_v5);
    out.extend(codes.iter().map(|code| if is_v5 { *code } else { (*code).min(0x80) }));
}

/// UNSUBACK. In MQTT 3.1.1 there are no codes.
pub(super) fn unsuback(out: &mut BytesMut, packet: u16, codes: &[u8], is_v5: bool) {
    let codes = if is_v5 { codes } else { &[] };
    coded(out, 0xb0, packet, codes.len(), is_v5);
    out.put_slice(codes);
}

fn coded(out: &mut BytesMut, first: u8, packet: u16, codes: usize, is_v5: bool) {
    out.put_u8(first);
    var_int(out, 2 + usize::from(is_v5) + codes);
    out.put_u16(packet);
    if is_v5 {
        out.put_u8(0);
    }
}

/// PUBLISH. `written`: MQTT 5. False, and nothing is written, when it is larger than `max`
/// bytes or has no place in MQTT.
pub(super) fn publish(out: &mut BytesMut, it: &Delivery, written: Option<Written>, max: usize) -> bool {
    let message = &*it.message;
    let topic = match written {
        Some(Written::Number(_)) => "",
        Some(Written::Plain | Written::Introduced(_)) | None => &*message.topic,
    };
    let (Some(section), Ok(topic_len)) = (section(it, written), u16::try_from(topic.len())) else { return false };
    let packet = it.packet.filter(|_| it.qos != Qos::AtMostOnce);
    let properties = if written.is_some() { width(section.len()) + section.len() } else { 0 };
    let remaining = 2 + topic.len() + packet.map_or(0, |_| 2) + properties + message.payload.len();
    if remaining > REMAINING_MAX || 1 + width(remaining) + remaining > max {
        return false;
    }
    let qos = match it.qos {
        Qos::AtMostOnce => 0,
        Qos::AtLeastOnce => 0x02,
        Qos::ExactlyOnce => 0x04,
    };
    let dup = it.dup && it.qos != Qos::AtMostOnce;
    out.reserve(1 + width(remaining) + remaining);
    out.put_u8(0x30 | u8::from(dup) << 3 | qos | u8::from(it.retain));
    var_int(out, remaining);
    out.put_u16(topic_len);
    out.put_slice(topic.as_bytes());
    if let Some(packet) = packet {
        out.put_u16(packet);
    }
    if written.is_some() {
        var_int(out, section.len());
        out.put_slice(&section);
    }
    out.put_slice(&message.payload);
    true
}

/// Properties of a PUBLISH; `None` when one is too long to be said.
fn section(it: &Delivery, written: Option<Written>) -> Option<Section> {
    let mut section = Section::new();
    let Some(written) = written else { return Some(section) };
    if let Written::Introduced(alias) | Written::Number(alias) = written {
        section.push(0x23);
        section.extend_from_slice(&alias.to_be_bytes());
    }
    if let Some(secs) = it.expiry_secs {
        section.push(0x02);
        section.extend_from_slice(&secs.to_be_bytes());
    }
    for id in &it.subscriptions {
        section.push(0x0b);
        let mut left = *id;
        while left > 0x7f {
            section.push(0x80 | left.to_le_bytes()[0]);
            left >>= 7;
        }
        section.push(left.to_le_bytes()[0]);
    }
    match it.message.properties.as_deref() {
        Some(properties) => beside(&mut section, properties).then_some(section),
        None => Some(section),
    }
}

fn beside(section: &mut Section, properties: &Properties) -> bool {
    if let Some(format) = properties.payload_format {
        section.extend_from_slice(&[0x01, format]);
    }
    let texts = [
        (0x03, properties.content_type.as_deref().map(str::as_bytes)),
        (0x08, properties.response_topic.as_deref().map(str::as_bytes)),
        (0x09, properties.correlation.as_deref()),
    ];
    for (id, value) in texts {
        let Some(value) = value else { continue };
        section.push(id);
        if !text(section, value) {
            return false;
        }
    }
    properties.user.iter().all(|(name, value)| {
        section.push(0x26);
        text(section, name.as_bytes()) && text(section, value.as_bytes())
    })
}

/// Bytes after their length. False when it cannot be said.
fn text(section: &mut Section, bytes: &[u8]) -> bool {
    let Ok(len) = u16::try_from(bytes.len()) else { return false };
    section.extend_from_slice(&len.to_be_bytes());
    section.extend_from_slice(bytes);
    true
}

/// Bytes of a length.
fn width(len: usize) -> usize {
    match len {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}

/// A length, at most [`REMAINING_MAX`].
fn var_int(out: &mut BytesMut, len: usize) {
    let mut left = len;
    while left > 0x7f {
        out.put_u8(0x80 | left.to_le_bytes()[0]);
        left >>= 7;
    }
    out.put_u8(left.to_le_bytes()[0]);
}
