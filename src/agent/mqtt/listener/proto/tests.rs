//! Conversations byte by byte: what a server has to refuse, and what every trap of the codec
//! would have done.

mod connecting;
mod flow;
mod malformed;
mod reading;
mod writing;

use std::sync::Arc;

use super::*;
use crate::engine::broker::packet::{Delivery, Message};

const START: ProcTime = ProcTime::from_millis(1_000);
const V3: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c";
const V5: &[u8] = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01c";

fn limits() -> ProtoLimits {
    ProtoLimits {
        packet_bytes: 4 * 1024,
        connect_bytes: 1024,
        in_flight: 3,
        keep_alive_max: Span::ZERO,
        topic_alias_max: 4,
        connect_within: Span::from_secs(5),
        session_expiry_max_secs: 1_000,
    }
}

fn feed(proto: &mut Proto, bytes: &[u8]) -> (Vec<Read>, Result<(), Fault>) {
    let mut into = Vec::new();
    let result = proto.feed(bytes, START, &mut into);
    (into, result)
}

fn take(proto: &mut Proto) -> Vec<u8> {
    proto.output().split().to_vec()
}

/// Lets in whoever `connect` is. Its CONNACK is taken out.
fn opened_with(limits: ProtoLimits, connect: &[u8]) -> Proto {
    let mut proto = Proto::new(limits, START);
    let (read, result) = feed(&mut proto, connect);
    assert_eq!(result, Ok(()));
    assert!(matches!(&read[..], [Read::Hello(_)]), "{read:?}");
    let granted = proto.asked_session_expiry_secs;
    proto.accept(false, &Accepted { assigned_client_id: None, session_expiry_secs: granted }, START);
    take(&mut proto);
    proto
}

fn opened(connect: &[u8]) -> Proto {
    opened_with(limits(), connect)
}

/// A packet with its length.
fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    [&[first, u8::try_from(body.len()).unwrap()], body].concat()
}

/// A CONNECT from its flags on.
fn connect(level: u8, rest: &[u8]) -> Vec<u8> {
    packet(0x10, &[b"\x00\x04MQTT", &[level][..], rest].concat())
}

fn hello(bytes: &[u8]) -> Result<Hello, (Fault, Vec<u8>)> {
    let mut proto = Proto::new(limits(), START);
    match feed(&mut proto, bytes) {
        (mut read, Ok(())) => match read.pop() {
            Some(Read::Hello(hello)) if read.is_empty() => Ok(*hello),
            other => panic!("{other:?}"),
        },
        (read, Err(fault)) => {
            assert!(read.is_empty() && proto.is_closed());
            Err((fault, take(&mut proto)))
        }
    }
}

fn only(read: Vec<Read>) -> FromClient {
    match <[Read; 1]>::try_from(read) {
        Ok([Read::Packet(packet)]) => packet,
        other => panic!("{other:?}"),
    }
}

fn message(topic: &str, payload: &[u8]) -> Message {
    Message {
        topic: topic.into(),
        payload: payload.into(),
        qos: Qos::AtLeastOnce,
        retain: false,
        expiry_secs: None,
        properties: None,
    }
}

fn delivery(message: Message) -> Delivery {
    Delivery {
        message: Arc::new(message),
        qos: Qos::AtLeastOnce,
        retain: false,
        dup: false,
        packet: Some(7),
        subscriptions: vec![],
        expiry_secs: None,
    }
}
