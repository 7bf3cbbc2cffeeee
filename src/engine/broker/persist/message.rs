//! A message as persisted bytes.
//!
//! ```text
//! topic | payload | flags: qos, retain, expiry, wall, properties
//!       | seconds, left ms | wall ms | properties
//! properties: flags | format | content type | response topic | correlation | n × (name | value)
//! ```

use crate::engine::wire::{Damaged, Reader, put_bytes, put_i64, put_str, put_u64};
use crate::model::time::{ProcTime, Span, WallTime};

use super::{Expiry, Message};
use crate::engine::broker::packet::{Properties, Qos};

const QOS: u8 = 3;
const RETAIN: u8 = 4;
const EXPIRES: u8 = 8;
const WALL: u8 = 16;
const PROPERTIES: u8 = 32;

const FORMAT: u8 = 1;
const CONTENT_TYPE: u8 = 2;
const RESPONSE_TOPIC: u8 = 4;
const CORRELATION: u8 = 8;

/// Flags of what is there.
fn flag(there: bool, flag: u8) -> u8 {
    if there { flag } else { 0 }
}

pub(super) fn qos_code(qos: Qos) -> u8 {
    match qos {
        Qos::AtMostOnce => 0,
        Qos::AtLeastOnce => 1,
        Qos::ExactlyOnce => 2,
    }
}

pub(super) fn read_qos(code: u8) -> Result<Qos, Damaged> {
    match code {
        0 => Ok(Qos::AtMostOnce),
        1 => Ok(Qos::AtLeastOnce),
        2 => Ok(Qos::ExactlyOnce),
        _ => Err(Damaged),
    }
}

pub(super) fn write_message(out: &mut Vec<u8>, message: &Message, expiry: Option<Expiry>, now: ProcTime) {
    put_str(out, &message.topic);
    put_bytes(out, &message.payload);
    let wall = expiry.and_then(|expiry| expiry.wall);
    out.push(
        qos_code(message.qos)
            | flag(message.retain, RETAIN)
            | flag(expiry.is_some(), EXPIRES)
            | flag(wall.is_some(), WALL)
            | flag(message.properties.is_some(), PROPERTIES),
    );
    if let Some(expiry) = expiry {
        put_u64(out, u64::from(message.expiry_secs.unwrap_or(0)));
        put_u64(out, expiry.at.since(now).as_millis());
    }
    if let Some(wall) = wall {
        put_i64(out, wall.as_millis());
    }
    if let Some(properties) = &message.properties {
        write_properties(out, properties);
    }
}

pub(super) fn read_message(reader: &mut Reader<'_>, written: ProcTime) -> Result<(Message, Option<Expiry>), Damaged> {
    let (topic, payload) = (reader.str()?.into(), reader.bytes()?.into());
    let flags = reader.u8()?;
    if flags & WALL != 0 && flags & EXPIRES == 0 {
        return Err(Damaged);
    }
    let mut expiry_secs = None;
    let mut expiry = None;
    if flags & EXPIRES != 0 {
        expiry_secs = Some(reader.uint()?);
        let at = written + Span::from_millis(reader.u64()?);
        let wall = if flags & WALL == 0 { None } else { Some(WallTime::from_millis(reader.i64()?)) };
        expiry = Some(Expiry { at, wall });
    }
    let properties = if flags & PROPERTIES == 0 { None } else { Some(Box::new(read_properties(reader)?)) };
    let (qos, retain) = (read_qos(flags & QOS)?, flags & RETAIN != 0);
    Ok((Message { topic, payload, qos, retain, expiry_secs, properties }, expiry))
}

fn write_properties(out: &mut Vec<u8>, properties: &Properties) {
    let Properties { payload_format, content_type, response_topic, correlation, user } = properties;
    out.push(
        flag(payload_format.is_some(), FORMAT)
            | flag(content_type.is_some(), CONTENT_TYPE)
            | flag(response_topic.is_some(), RESPONSE_TOPIC)
            | flag(correlation.is_some(), CORRELATION),
    );
    out.extend(payload_format);
    for text in content_type.iter().chain(response_topic) {
        put_str(out, text);
    }
    if let Some(correlation) = correlation {
        put_bytes(out, correlation);
    }
    put_u64(out, user.len() as u64);
    for (name, value) in user {
        put_str(out, name);
        put_str(out, value);
    }
}

fn read_properties(reader: &mut Reader<'_>) -> Result<Properties, Damaged> {
    let flags = reader.u8()?;
    let mut properties = Properties::default();
    if flags & FORMAT != 0 {
        properties.payload_format = Some(reader.u8()?);
    }
    if flags & CONTENT_TYPE != 0 {
        properties.content_type = Some(reader.str()?.into());
    }
    if flags & RESPONSE_TOPIC != 0 {
        properties.response_topic = Some(reader.str()?.into());
    }
    if flags & CORRELATION != 0 {
        properties.correlation = Some(reader.bytes()?.into());
    }
    for _ in 0..reader.u64()? {
        properties.user.push((reader.str()?.into(), reader.str()?.into()));
    }
    Ok(properties)
}
