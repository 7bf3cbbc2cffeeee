//! MQTT 3.1.1.

use bytes::BytesMut;
use rumqttc::mqttbytes::v4::{
    Connect, ConnectReturnCode, LastWill, Login, Packet, PubAck, PubComp, PubRec, PubRel, Publish, SubAck, Subscribe,
    SubscribeFilter, SubscribeReasonCode, Unsubscribe,
};
use rumqttc::mqttbytes::{Error, QoS};

use crate::agent::mqtt::packet::{Arrived, ConnAck, FromBroker, Grant, Greeting, Outgoing, Terms, ToBroker};
use crate::agent::mqtt::reason::Reason;
use crate::model::limits::PACKET_BYTES_MAX;

use super::{CodecError, Frame};

/// The header of a packet beside its body.
const HEADER_BYTES_MAX: usize = 5;

pub(super) fn decode(mut frame: Frame) -> Result<FromBroker, CodecError> {
    let kind = frame.kind();
    Ok(match Packet::read(&mut frame.bytes, PACKET_BYTES_MAX + HEADER_BYTES_MAX).map_err(unreadable)? {
        Packet::Publish(publish) => FromBroker::Publish(arrived(publish)),
        Packet::PubAck(ack) => FromBroker::PubAck { packet: ack.pkid, reason: Reason::default() },
        Packet::PubRec(received) => FromBroker::PubRec { packet: received.pkid, reason: Reason::default() },
        Packet::PubRel(release) => FromBroker::PubRel(release.pkid),
        Packet::PubComp(complete) => FromBroker::PubComp(complete.pkid),
        Packet::SubAck(ack) => FromBroker::SubAck(grants(&ack)),
        Packet::ConnAck(ack) => FromBroker::ConnAck(ConnAck {
            resumed: ack.session_present,
            reason: reason_of(ack.code),
            terms: Terms::default(),
        }),
        Packet::PingResp => FromBroker::PingResp,
        Packet::Connect(_)
        | Packet::Subscribe(_)
        | Packet::Unsubscribe(_)
        | Packet::UnsubAck(_)
        | Packet::PingReq
        | Packet::Disconnect => FromBroker::Other(kind),
    })
}

/// It is whole: what the codec calls incomplete is malformed.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn unreadable(error: Error) -> CodecError {
    let short = matches!(error, Error::InsufficientBytes(_));
    CodecError::Malformed(if short { "a packet is shorter than it says".into() } else { error.to_string() })
}

fn arrived(publish: Publish) -> Arrived {
    Arrived {
        packet: (publish.qos != QoS::AtMostOnce).then_some(publish.pkid),
        exactly_once: publish.qos == QoS::ExactlyOnce,
        topic: publish.topic,
        payload: publish.payload,
        retain: publish.retain,
        dup: publish.dup,
        answer_to: None,
    }
}

fn grants(ack: &SubAck) -> Vec<Grant> {
    let grant = |code: &SubscribeReasonCode| match code {
        SubscribeReasonCode::Success(QoS::AtMostOnce) => Grant::Unacknowledged,
        SubscribeReasonCode::Success(QoS::AtLeastOnce | QoS::ExactlyOnce) => Grant::Acknowledged,
        SubscribeReasonCode::Failure => Grant::Refused,
    };
    ack.return_codes.iter().map(grant).collect()
}

/// What a broker's answer to CONNECT means.
pub(in crate::agent::mqtt) fn reason_of(code: ConnectReturnCode) -> Reason {
    Reason::of_connack(match code {
        ConnectReturnCode::Success => 0,
        ConnectReturnCode::RefusedProtocolVersion => 1,
        ConnectReturnCode::BadClientId => 2,
        ConnectReturnCode::ServiceUnavailable => 3,
        ConnectReturnCode::BadUserNamePassword => 4,
        ConnectReturnCode::NotAuthorized => 5,
    })
}

pub(super) fn encode(packet: ToBroker, out: &mut BytesMut) -> Result<(), CodecError> {
    write(
        &match packet {
            ToBroker::Publish(outgoing) => Packet::Publish(publish(outgoing)),
            ToBroker::PubAck(packet) => Packet::PubAck(PubAck::new(packet)),
            ToBroker::PubRec(packet) => Packet::PubRec(PubRec::new(packet)),
            ToBroker::PubRel(packet) => Packet::PubRel(PubRel::new(packet)),
            ToBroker::PubComp(packet) => Packet::PubComp(PubComp::new(packet)),
            ToBroker::Subscribe { packet, filters } => {
                let filters = filters.into_iter().map(|filter| SubscribeFilter::new(filter, QoS::AtLeastOnce));
                Packet::Subscribe(Subscribe { pkid: packet, filters: filters.collect() })
            }
            ToBroker::Unsubscribe { packet, filters } => {
                Packet::Unsubscribe(Unsubscribe { pkid: packet, topics: filters })
            }
            ToBroker::PingReq => Packet::PingReq,
            ToBroker::Disconnect => Packet::Disconnect,
        },
        out,
    )
}

fn publish(outgoing: Outgoing) -> Publish {
    let qos = match outgoing.packet {
        None => QoS::AtMostOnce,
        Some(_) if outgoing.exactly_once => QoS::ExactlyOnce,
        Some(_) => QoS::AtLeastOnce,
    };
    let mut publish = Publish::from_bytes(outgoing.topic, qos, outgoing.payload);
    publish.dup = outgoing.dup;
    publish.retain = outgoing.retain;
    publish.pkid = outgoing.packet.unwrap_or(0);
    publish
}

pub(super) fn connect(greeting: Greeting, out: &mut BytesMut) -> Result<(), CodecError> {
    let mut connect = Connect::new(greeting.client_id);
    connect.clean_session = greeting.clean;
    connect.keep_alive = greeting.keep_alive_secs;
    connect.login = greeting.login.map(|(username, password)| Login { username, password });
    connect.last_will =
        greeting.will.map(|will| LastWill::new(will.topic, will.payload, QoS::AtLeastOnce, will.retain));
    write(&Packet::Connect(connect), out)
}

fn write(packet: &Packet, out: &mut BytesMut) -> Result<(), CodecError> {
    match packet.write(out, PACKET_BYTES_MAX + HEADER_BYTES_MAX) {
        Ok(_bytes) => Ok(()),
        Err(Error::OutgoingPacketTooLarge { pkt_size, .. }) => Err(CodecError::TooLarge(pkt_size)),
        Err(other) => Err(CodecError::Malformed(other.to_string())),
    }
}
