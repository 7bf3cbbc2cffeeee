//! Bytes to packets and back, for both versions of MQTT.
//!
//! **Decision** (taken when the uplink learned MQTT 5): of rumqttc 0.25.1 the codec is used
//! and nothing else. Its event loop loses accepted publishes on a reconnect, and its TLS
//! support drags in a rustls-webpki with four advisories and an unmaintained PEM reader;
//! without it both are gone from the graph, and TLS, ALPN, proxies and the last good
//! certificate are a few hundred lines over tokio-rustls that we can test. Its
//! continuation (`rumqttc-v4-next`, `rumqttc-v5-next`) repairs the session logic that is not
//! used here, costs two crates instead of one and a whole client in place of a codec.
//!
//! The codec is trusted with whole packets only. Framing is done here: a packet that the
//! codec calls incomplete although it is there would else be waited for until the end of
//! time. What its reader of MQTT 5 does not know (a DISCONNECT without a reason, AUTH, reason
//! codes that it has no name for) is read in `codec/v5.rs`.

use bytes::{Buf, Bytes, BytesMut};

use crate::config::boot::Protocol;
use crate::model::limits::PACKET_BYTES_MAX;

use super::packet::{FromBroker, Greeting, ToBroker};

pub(super) mod v4;
mod v5;

/// Bytes of a text in MQTT, whose length has 16 bits.
pub const TEXT_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes of the remaining length.
const LENGTH_BYTES_MAX: usize = 4;

/// Why bytes are no packets, or a packet cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// Above `limits::PACKET_BYTES_MAX`.
    #[error("a packet of {0} bytes")]
    TooLarge(usize),
    /// They break the protocol.
    #[error("no valid MQTT: {0}")]
    Malformed(String),
    /// A broker that wants to talk about who we are (MQTT 5).
    #[error("the broker wants an authentication (AUTH) that is not supported here: use a password or a certificate")]
    Auth,
}

/// One version of the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    protocol: Protocol,
}

impl Codec {
    /// Of this version.
    pub fn new(protocol: Protocol) -> Codec {
        Codec { protocol }
    }

    /// Takes the next packet out of `buffer`; `None` when it is not whole.
    ///
    /// # Errors
    /// [`CodecError`]; nothing that follows in the buffer is of use.
    pub fn decode(self, buffer: &mut BytesMut) -> Result<Option<FromBroker>, CodecError> {
        let Some(frame) = frame(buffer)? else { return Ok(None) };
        match self.protocol {
            Protocol::V311 => v4::decode(frame),
            Protocol::V5 => v5::decode(frame),
        }
        .map(Some)
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// [`CodecError::TooLarge`].
    pub fn encode(self, packet: ToBroker, out: &mut BytesMut) -> Result<(), CodecError> {
        match self.protocol {
            Protocol::V311 => v4::encode(packet, out),
            Protocol::V5 => v5::encode(packet, out),
        }
    }

    /// Appends CONNECT.
    ///
    /// # Errors
    /// [`CodecError`], when a text is too long for the protocol.
    pub fn connect(self, greeting: Greeting, out: &mut BytesMut) -> Result<(), CodecError> {
        let texts = [
            ("client id", greeting.client_id.len()),
            ("user name", greeting.login.as_ref().map_or(0, |login| login.0.len())),
            ("password", greeting.login.as_ref().map_or(0, |login| login.1.len())),
            ("topic of the last will", greeting.will.as_ref().map_or(0, |will| will.topic.len())),
            ("last will", greeting.will.as_ref().map_or(0, |will| will.payload.len())),
        ];
        if let Some((name, bytes)) = texts.into_iter().find(|(_, bytes)| *bytes > TEXT_BYTES_MAX) {
            let what = format!("the {name} has {bytes} bytes, and MQTT has room for {TEXT_BYTES_MAX}");
            return Err(CodecError::Malformed(what));
        }
        match self.protocol {
            Protocol::V311 => v4::connect(greeting, out),
            Protocol::V5 => v5::connect(greeting, out),
        }
    }
}

/// One packet with its header.
struct Frame {
    /// All of it.
    bytes: BytesMut,
    /// Bytes of the header in front of the body.
    header: usize,
}

impl Frame {
    /// Its type, 0 to 15.
    fn kind(&self) -> u8 {
        self.bytes[0] >> 4
    }

    fn into_body(self) -> Bytes {
        let mut body = self.bytes.freeze();
        body.advance(self.header);
        body
    }
}

/// Cuts off one packet. Bytes of a larger one than is allowed are not waited for.
fn frame(buffer: &mut BytesMut) -> Result<Option<Frame>, CodecError> {
    let mut len = 0_usize;
    for (index, byte) in buffer.iter().skip(1).take(LENGTH_BYTES_MAX).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let header = index + 2;
            if len > PACKET_BYTES_MAX {
                return Err(CodecError::TooLarge(len));
            }
            if buffer.len() < header + len {
                return Ok(None);
            }
            return Ok(Some(Frame { bytes: buffer.split_to(header + len), header }));
        }
    }
    if buffer.len() > LENGTH_BYTES_MAX {
        return Err(CodecError::Malformed("the length of a packet has more than four bytes".into()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
