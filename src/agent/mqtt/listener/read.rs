//! Packets of a client that has been let in, in both versions.

use mqtt_protocol_core::mqtt::result_code::{
    DisconnectReasonCode, PubackReasonCode, PubcompReasonCode, PubrecReasonCode, PubrelReasonCode,
};

use crate::engine::broker::packet::{Filter, Qos, RetainHandling};

use super::alias::Inbound;
use super::fault::Fault;
use super::frame::{Body, Frame};
use super::gate;
use super::packet::{ClientPublish, FromClient};
use super::properties::{self, Allowed};

/// Filters of one SUBSCRIBE or UNSUBSCRIBE. Three bytes can be one, and each takes memory many
/// times that.
const FILTERS_MAX: usize = 1_024;
/// A DISCONNECT that takes the will back.
const NORMAL: u8 = 0x00;

/// What a client sends.
#[derive(Debug)]
pub(super) enum Sent {
    /// Something for the broker.
    Packet(FromClient),
    /// PINGREQ.
    Ping,
}

/// What the reading of a packet depends on.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) is_v5: bool,
    /// The client's topic aliases.
    pub(super) aliases: &'a mut Inbound,
    /// Its session expiry, as it asked for it when it connected.
    pub(super) session_expiry_secs: u32,
}

/// Reads a packet.
pub(super) fn packet(frame: Frame<'_>, context: &mut Context<'_>) -> Result<Sent, Fault> {
    let (kind, flags, is_v5) = (frame.first >> 4, frame.first & 0x0f, context.is_v5);
    let expected = match kind {
        3 => flags,
        6 | 8 | 10 => 0x02,
        _ => 0x00,
    };
    if flags != expected {
        return Err(Fault::Malformed("reserved flags in its first byte"));
    }
    let mut body = Body(frame.body);
    let packet = match kind {
        3 => FromClient::Publish(publish(flags, body, context)?),
        4 => {
            let (packet, code) = ack(body, is_v5, |code| PubackReasonCode::try_from(code).is_ok())?;
            FromClient::PubAck { packet, refused: code >= 0x80 }
        }
        5 => {
            let (packet, code) = ack(body, is_v5, |code| PubrecReasonCode::try_from(code).is_ok())?;
            FromClient::PubRec { packet, refused: code >= 0x80 }
        }
        6 => FromClient::PubRel { packet: ack(body, is_v5, |code| PubrelReasonCode::try_from(code).is_ok())?.0 },
        7 => FromClient::PubComp { packet: ack(body, is_v5, |code| PubcompReasonCode::try_from(code).is_ok())?.0 },
        8 => subscribe(&mut body, is_v5)?,
        10 => unsubscribe(&mut body, is_v5)?,
        12 => return body.end().map(|()| Sent::Ping),
        14 => disconnect(body, context)?,
        0 => return Err(Fault::Malformed("packet type 0")),
        1 => return Err(Fault::Protocol("a second CONNECT")),
        15 => return Err(Fault::Protocol("AUTH, which nobody has asked for")),
        _ => return Err(Fault::Protocol("a packet that only a server sends")),
    };
    Ok(Sent::Packet(packet))
}

/// The lowest two bits.
pub(super) fn qos(bits: u8) -> Result<Qos, Fault> {
    match bits & 0x03 {
        0 => Ok(Qos::AtMostOnce),
        1 => Ok(Qos::AtLeastOnce),
        2 => Ok(Qos::ExactlyOnce),
        _ => Err(Fault::Malformed("QoS 3")),
    }
}

fn publish(flags: u8, mut body: Body<'_>, context: &mut Context<'_>) -> Result<ClientPublish, Fault> {
    let qos = qos(flags >> 1)?;
    let (retain, dup) = (flags & 0x01 != 0, flags & 0x08 != 0);
    if dup && qos == Qos::AtMostOnce {
        return Err(Fault::Malformed("a repetition at QoS 0"));
    }
    let topic = body.text()?;
    if !(topic.is_empty() && context.is_v5) {
        gate::topic(topic)?;
    }
    let packet = if qos == Qos::AtMostOnce { None } else { Some(body.packet_id()?) };
    let said = match (context.is_v5, body.0) {
        (false, _) => None,
        (true, [0, payload @ ..]) => {
            body = Body(payload);
            None
        }
        (true, _) => Some(properties::read(&mut body, Allowed::PUBLISH)?),
    };
    let topic = match said.as_ref().and_then(|said| said.topic_alias) {
        Some(alias) => context.aliases.resolve(alias, topic)?,
        None if topic.is_empty() => return Err(Fault::Protocol("neither a topic nor a topic alias")),
        None => topic,
    };
    let expiry_secs = said.as_ref().and_then(|said| said.expiry_secs);
    let properties = said.and_then(properties::Said::boxed_message);
    let mut publish = ClientPublish::new(topic, body.0);
    (publish.qos, publish.retain, publish.dup, publish.packet) = (qos, retain, dup, packet);
    (publish.expiry_secs, publish.properties) = (expiry_secs, properties);
    Ok(publish)
}

/// PUBACK, PUBREC, PUBREL and PUBCOMP: the packet id and the reason code.
fn ack(mut body: Body<'_>, is_v5: bool, is_code: impl Fn(u8) -> bool) -> Result<(u16, u8), Fault> {
    let packet = body.packet_id()?;
    if body.is_empty() || !is_v5 {
        return body.end().map(|()| (packet, 0));
    }
    let code = body.u8()?;
    if !is_code(code) {
        return Err(Fault::Malformed("a reason code that this packet cannot have"));
    }
    if !body.is_empty() {
        properties::read(&mut body, Allowed::ACK)?;
    }
    body.end().map(|()| (packet, code))
}

fn subscribe(body: &mut Body<'_>, is_v5: bool) -> Result<FromClient, Fault> {
    let packet = body.packet_id()?;
    let id = if is_v5 { properties::read(body, Allowed::SUBSCRIBE)?.subscription } else { None };
    let mut filters = Vec::new();
    while !body.is_empty() {
        one_more(filters.len())?;
        filters.push(subscription(body, is_v5)?);
    }
    if filters.is_empty() {
        return Err(Fault::Protocol("a SUBSCRIBE without a filter"));
    }
    Ok(FromClient::Subscribe { packet, id, filters })
}

fn subscription(body: &mut Body<'_>, is_v5: bool) -> Result<Filter, Fault> {
    let filter = body.text()?;
    let options = body.u8()?;
    if options & (if is_v5 { 0xc0 } else { 0xfc }) != 0 {
        return Err(Fault::Malformed("reserved bits of a subscription"));
    }
    let retain_handling = match options >> 4 {
        0 => RetainHandling::Send,
        1 => RetainHandling::SendIfNew,
        2 => RetainHandling::DoNotSend,
        _ => return Err(Fault::Malformed("retain handling 3")),
    };
    let (is_shared, no_local) = (gate::filter(filter)?, options & 0x04 != 0);
    if is_shared && no_local {
        return Err(Fault::Protocol("no local on a shared subscription"));
    }
    let (qos, retain_as_published) = (qos(options)?, options & 0x08 != 0);
    Ok(Filter { filter: filter.to_owned(), qos, no_local, retain_as_published, retain_handling, refused: None })
}

fn unsubscribe(body: &mut Body<'_>, is_v5: bool) -> Result<FromClient, Fault> {
    let packet = body.packet_id()?;
    if is_v5 {
        properties::read(body, Allowed::UNSUBSCRIBE)?;
    }
    let mut filters = Vec::new();
    while !body.is_empty() {
        one_more(filters.len())?;
        let filter = body.text()?;
        gate::filter(filter)?;
        filters.push(filter.to_owned());
    }
    if filters.is_empty() {
        return Err(Fault::Protocol("an UNSUBSCRIBE without a filter"));
    }
    Ok(FromClient::Unsubscribe { packet, filters })
}

fn one_more(filters: usize) -> Result<(), Fault> {
    if filters == FILTERS_MAX { Err(Fault::Quota("filters")) } else { Ok(()) }
}

fn disconnect(mut body: Body<'_>, context: &Context<'_>) -> Result<FromClient, Fault> {
    if body.is_empty() || !context.is_v5 {
        return body.end().map(|()| FromClient::Disconnect { with_will: false, session_expiry_secs: None });
    }
    let code = body.u8()?;
    if DisconnectReasonCode::try_from(code).is_err() {
        return Err(Fault::Malformed("a reason code that this packet cannot have"));
    }
    let session_expiry_secs =
        if body.is_empty() { None } else { properties::read(&mut body, Allowed::DISCONNECT)?.session_expiry_secs };
    body.end()?;
    if context.session_expiry_secs == 0 && session_expiry_secs.is_some_and(|secs| secs > 0) {
        return Err(Fault::Protocol("a session expiry at the end where there was none"));
    }
    Ok(FromClient::Disconnect { with_will: code != NORMAL, session_expiry_secs })
}
