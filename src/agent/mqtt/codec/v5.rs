//! MQTT 5, as far as a client of the cloud's broker needs it.
//!
//! The heads of what a broker sends are read here, because the codec refuses reason codes
//! that it has no name for; their properties are read by the codec.

use bytes::{Buf, Bytes, BytesMut};
use rumqttc::v5::mqttbytes::v5::{
    ConnAckProperties, Connect, ConnectProperties, Disconnect, DisconnectProperties, DisconnectReasonCode, Filter,
    LastWill, Login, Packet, PingReq, PubAck, PubAckProperties, PubComp, PubRec, PubRel, Publish, PublishProperties,
    Subscribe, Unsubscribe,
};
use rumqttc::v5::mqttbytes::{Error, QoS};

use crate::agent::mqtt::packet::{
    AnswerTo, Arrived, ConnAck, FromBroker, Grant, Greeting, Outgoing, Properties, Terms, ToBroker,
};
use crate::agent::mqtt::reason::Reason;
use crate::model::limits::PACKET_BYTES_MAX;

use super::{CodecError, Frame};

/// For so long a broker keeps the session of a connection that is gone, if it is to keep it.
const SESSION_SECS: u32 = 3_600;
const CONNACK: u8 = 2;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;
const PUBREC: u8 = 5;
const PUBREL: u8 = 6;
const PUBCOMP: u8 = 7;
const SUBACK: u8 = 9;
const PINGRESP: u8 = 13;
const DISCONNECT: u8 = 14;
const AUTH: u8 = 15;

pub(super) fn decode(frame: Frame) -> Result<FromBroker, CodecError> {
    match frame.kind() {
        CONNACK => connack(frame.into_body()),
        PUBLISH => publish_of(frame),
        PUBREL => answer(frame.into_body()).map(|(packet, _)| FromBroker::PubRel(packet)),
        SUBACK => suback(frame.into_body()),
        PUBACK => answer(frame.into_body()).map(|(packet, reason)| FromBroker::PubAck { packet, reason }),
        PUBREC => answer(frame.into_body()).map(|(packet, reason)| FromBroker::PubRec { packet, reason }),
        // Its reason says at most that the broker has forgotten the message, which it had taken.
        PUBCOMP => answer(frame.into_body()).map(|(packet, _)| FromBroker::PubComp(packet)),
        PINGRESP => Ok(FromBroker::PingResp),
        DISCONNECT => disconnect(frame.into_body()),
        AUTH => Err(CodecError::Auth),
        kind @ (1 | 8 | 10..=12) => Ok(FromBroker::Other(kind)),
        kind => Err(CodecError::Malformed(format!("no packet has type {kind}"))),
    }
}

fn connack(mut body: Bytes) -> Result<FromBroker, CodecError> {
    let (flags, code) = (byte(&mut body)?, byte(&mut body)?);
    // A broker that knows 3.1.1 alone says no in its own form, without properties.
    if body.is_empty() {
        let (resumed, reason) = (false, Reason::of_connack(code));
        return Ok(FromBroker::ConnAck(ConnAck { resumed, reason, terms: Terms::default() }));
    }
    let properties = ConnAckProperties::read(&mut body).map_err(unreadable)?;
    let text = properties.as_ref().and_then(|properties| properties.reason_string.as_deref());
    let reason = Reason::new(code, text);
    let terms = properties.as_ref().map(terms).transpose()?.unwrap_or_default();
    Ok(FromBroker::ConnAck(ConnAck { resumed: flags & 1 == 1, reason, terms }))
}

fn publish_of(mut frame: Frame) -> Result<FromBroker, CodecError> {
    let Packet::Publish(publish) = Packet::read(&mut frame.bytes, None).map_err(unreadable)? else {
        return Err(CodecError::Malformed("a PUBLISH that is none".into()));
    };
    let Ok(topic) = String::from_utf8(publish.topic.to_vec()) else {
        return Err(CodecError::Malformed("a topic that is not UTF-8".into()));
    };
    let answer_to = publish.properties.and_then(|properties| {
        let topic = properties.response_topic.filter(|topic| !topic.is_empty())?;
        Some(Box::new(AnswerTo { topic, correlation: properties.correlation_data }))
    });
    Ok(FromBroker::Publish(Arrived {
        topic,
        payload: publish.payload,
        retain: publish.retain,
        dup: publish.dup,
        packet: (publish.qos != QoS::AtMostOnce).then_some(publish.pkid),
        exactly_once: publish.qos == QoS::ExactlyOnce,
        answer_to,
    }))
}

/// Read by hand for the reason codes: there are more than the codec has names for.
fn suback(mut body: Bytes) -> Result<FromBroker, CodecError> {
    if body.len() < 3 {
        return Err(short());
    }
    body.advance(2);
    let (mut properties, mut shift) = (0_usize, 0);
    loop {
        let digit = byte(&mut body)?;
        properties |= usize::from(digit & 0x7f) << shift;
        shift += 7;
        if digit & 0x80 == 0 {
            break;
        }
        if shift > 21 {
            return Err(CodecError::Malformed("a length of more than four bytes".into()));
        }
    }
    if body.len() < properties {
        return Err(short());
    }
    body.advance(properties);
    let grant = |code: &u8| match code {
        0 => Grant::Unacknowledged,
        1 | 2 => Grant::Acknowledged,
        _ => Grant::Refused,
    };
    Ok(FromBroker::SubAck(body.iter().map(grant).collect()))
}

fn terms(properties: &ConnAckProperties) -> Result<Terms, CodecError> {
    if properties.receive_max == Some(0) || properties.max_packet_size == Some(0) {
        return Err(CodecError::Malformed("a limit of 0 in CONNACK".into()));
    }
    Ok(Terms {
        receive_max: properties.receive_max,
        packet_max: properties.max_packet_size,
        no_retain: properties.retain_available == Some(0),
        no_qos1: properties.max_qos == Some(0),
        keep_alive_secs: properties.server_keep_alive,
    })
}

/// The answers to a publish look alike; so do their properties.
fn answer(mut body: Bytes) -> Result<(u16, Reason), CodecError> {
    if body.len() < 2 {
        return Err(short());
    }
    let packet = body.get_u16();
    if body.is_empty() {
        return Ok((packet, Reason::default()));
    }
    let code = byte(&mut body)?;
    let properties = if body.is_empty() { None } else { PubAckProperties::read(&mut body).map_err(unreadable)? };
    let text = properties.and_then(|properties| properties.reason_string);
    Ok((packet, Reason::new(code, text.as_deref())))
}

fn disconnect(mut body: Bytes) -> Result<FromBroker, CodecError> {
    if body.is_empty() {
        return Ok(FromBroker::Disconnect(Reason::default()));
    }
    let code = byte(&mut body)?;
    let properties =
        if body.is_empty() { None } else { DisconnectProperties::extract(&mut body).map_err(unreadable)? };
    let text = properties.and_then(|properties| properties.reason_string);
    Ok(FromBroker::Disconnect(Reason::new(code, text.as_deref())))
}

fn byte(body: &mut Bytes) -> Result<u8, CodecError> {
    if body.is_empty() { Err(short()) } else { Ok(body.get_u8()) }
}

fn short() -> CodecError {
    CodecError::Malformed("a packet is shorter than it says".into())
}

/// It is whole: what the codec calls incomplete is malformed.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn unreadable(error: Error) -> CodecError {
    if matches!(error, Error::InsufficientBytes(_)) { short() } else { CodecError::Malformed(error.to_string()) }
}

pub(super) fn encode(packet: ToBroker, out: &mut BytesMut) -> Result<(), CodecError> {
    let packet = match packet {
        ToBroker::Publish(outgoing) => Packet::Publish(publish(outgoing)),
        ToBroker::PubRel(packet) => Packet::PubRel(PubRel::new(packet, None)),
        ToBroker::PingReq => Packet::PingReq(PingReq),
        ToBroker::Disconnect => Packet::Disconnect(Disconnect::new(DisconnectReasonCode::NormalDisconnection)),
        ToBroker::PubAck(packet) => Packet::PubAck(PubAck::new(packet, None)),
        ToBroker::PubRec(packet) => Packet::PubRec(PubRec::new(packet, None)),
        ToBroker::PubComp(packet) => Packet::PubComp(PubComp::new(packet, None)),
        ToBroker::Subscribe { packet, filters } => {
            let filters = filters.into_iter().map(|filter| Filter::new(filter, QoS::AtLeastOnce)).collect();
            Packet::Subscribe(Subscribe { pkid: packet, filters, properties: None })
        }
        ToBroker::Unsubscribe { packet, filters } => {
            Packet::Unsubscribe(Unsubscribe { pkid: packet, filters, properties: None })
        }
    };
    write(&packet, out)
}

fn publish(outgoing: Outgoing) -> Publish {
    let qos = match outgoing.packet {
        None => QoS::AtMostOnce,
        Some(_) if outgoing.exactly_once => QoS::ExactlyOnce,
        Some(_) => QoS::AtLeastOnce,
    };
    Publish {
        dup: outgoing.dup,
        qos,
        retain: outgoing.retain,
        topic: Bytes::from(outgoing.topic),
        pkid: outgoing.packet.unwrap_or(0),
        payload: outgoing.payload,
        properties: Some(properties(outgoing.properties)),
    }
}

fn properties(properties: Properties) -> PublishProperties {
    PublishProperties {
        message_expiry_interval: properties.expiry_secs,
        user_properties: properties.user.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        content_type: properties.content_type.map(str::to_owned),
        correlation_data: properties.correlation,
        ..PublishProperties::default()
    }
}

pub(super) fn connect(greeting: Greeting, out: &mut BytesMut) -> Result<(), CodecError> {
    let limit = u32::try_from(PACKET_BYTES_MAX).expect("8 MiB fits 32 bits");
    let properties = ConnectProperties {
        // A clean session ends with the connection; the outbox is what remembers.
        session_expiry_interval: Some(if greeting.clean { 0 } else { SESSION_SECS }),
        max_packet_size: Some(limit),
        ..ConnectProperties::new()
    };
    let connect = Connect {
        keep_alive: greeting.keep_alive_secs,
        client_id: greeting.client_id,
        clean_start: greeting.clean,
        properties: Some(properties),
    };
    let will = greeting.will.map(|will| LastWill::new(will.topic, will.payload, QoS::AtLeastOnce, will.retain, None));
    let login = greeting.login.map(|(username, password)| Login { username, password });
    write(&Packet::Connect(connect, will, login), out)
}

fn write(packet: &Packet, out: &mut BytesMut) -> Result<(), CodecError> {
    let size = packet.size();
    if size > PACKET_BYTES_MAX {
        return Err(CodecError::TooLarge(size));
    }
    packet.write(out, None).map(|_bytes| ()).map_err(|error| CodecError::Malformed(error.to_string()))
}
