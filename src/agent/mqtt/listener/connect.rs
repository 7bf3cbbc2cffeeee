//! CONNECT, in both versions. The only packet that anybody may send.

use bytes::Bytes;

use crate::engine::broker::packet::{Connect, Message, Qos, Will};

use super::fault::Fault;
use super::frame::Body;
use super::gate;
use super::packet::Hello;
use super::properties::{self, Allowed};
use super::read;

const CLEAN: u8 = 0x02;
const WILL: u8 = 0x04;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USERNAME: u8 = 0x80;

/// The version of a CONNECT, from the start of its body.
///
/// # Errors
/// Another one, or none.
pub(super) fn is_v5(body: &[u8]) -> Result<bool, Fault> {
    let mut body = Body(body);
    let name = body.binary()?;
    match (name, body.u8()?) {
        (b"MQTT", 4) => Ok(false),
        (b"MQTT", 5) => Ok(true),
        (b"MQTT" | b"MQIsdp", level) => Err(Fault::Version(level)),
        _ => Err(Fault::Protocol("a CONNECT of another protocol")),
    }
}

/// Reads the body of a CONNECT whose version is known.
pub(super) fn read(body: &[u8], is_v5: bool) -> Result<Hello, Fault> {
    let mut body = Body(body);
    body.binary()?;
    body.u8()?;
    let flags = body.u8()?;
    let has = |flag: u8| flags & flag != 0;
    if has(0x01) {
        return Err(Fault::Malformed("the reserved flag of a CONNECT"));
    }
    if has(PASSWORD) && !has(USERNAME) && !is_v5 {
        return Err(Fault::Malformed("a password without a user name"));
    }
    let keep_alive_secs = body.u16()?;
    let said = if is_v5 { properties::read(&mut body, Allowed::CONNECT)? } else { properties::Said::default() };
    let client_id = body.text()?.to_owned();
    let will = will(&mut body, flags, is_v5)?;
    let username = if has(USERNAME) { Some(body.text()?.to_owned()) } else { None };
    let password = if has(PASSWORD) { Some(Bytes::copy_from_slice(body.binary()?)) } else { None };
    body.end()?;
    // Last: a packet that cannot be read is malformed, whatever its client id.
    gate::client_id(&client_id, !is_v5 && !has(CLEAN))?;

    let session_expiry_secs = match (is_v5, has(CLEAN)) {
        (true, _) => said.session_expiry_secs.unwrap_or(0),
        (false, true) => 0,
        (false, false) => u32::MAX,
    };
    let receive_max = said.receive_max.unwrap_or(u16::MAX);
    Ok(Hello {
        connect: Connect { is_v5, client_id, clean_start: has(CLEAN), session_expiry_secs, receive_max, will },
        username,
        password,
        keep_alive_secs,
        packet_max: said.packet_max,
        topic_alias_max: said.topic_alias_max.unwrap_or(0),
        authentication_method: said.authentication_method,
    })
}

fn will(body: &mut Body<'_>, flags: u8, is_v5: bool) -> Result<Option<Will>, Fault> {
    let qos = read::qos(flags >> 3)?;
    let retain = flags & WILL_RETAIN != 0;
    if flags & WILL == 0 {
        if retain || qos != Qos::AtMostOnce {
            return Err(Fault::Malformed("flags of a will that is not there"));
        }
        return Ok(None);
    }
    let said = if is_v5 { properties::read(body, Allowed::WILL)? } else { properties::Said::default() };
    let topic = body.text()?;
    gate::topic(topic)?;
    let payload = body.binary()?;
    let (expiry_secs, delay_secs) = (said.expiry_secs, said.will_delay_secs.unwrap_or(0));
    let properties = said.boxed_message();
    let message = Message { topic: topic.into(), payload: payload.into(), qos, retain, expiry_secs, properties };
    Ok(Some(Will { message, delay_secs }))
}
