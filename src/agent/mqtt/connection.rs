//! One connection to one broker, from CONNECT to its end; never a second one.
//!
//! The way there is `dial.rs`, packets are `codec.rs`; here they meet. There is no session
//! logic: what is left to do is little, packet ids and keep-alive, in `ingest.rs` and
//! `uplink/mqtt.rs`, over [`Link::read`] and [`Link::send`].
//!
//! Limits: each step of connecting takes at most 10 s, so does a stalled write; a packet
//! has at most 8 MiB in either direction. A device may send up to 256 MB
//! through mosquitto; a larger packet than ours ends the connection and would
//! come again and again, so the limit lies far above the 256 KiB that a payload
//! may have (those are acknowledged, counted and dropped by the engine), and
//! the error names the broker's `message_size_limit`, which keeps it from happening.

use std::future::Future;
use std::io::ErrorKind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::config::boot::{BrokerSpec, Protocol};
use crate::model::limits::PACKET_BYTES_MAX;

use super::codec::{Codec, CodecError};
use super::credentials::{self, CredentialError};
use super::dial::{Pipe, STEP_SECS_MAX, authority, dial, step};
use super::foreign;
use super::keep_alive::ANSWER_MAX;
use super::packet::{ConnAck, FromBroker, Greeting, ToBroker, Will};
use super::reason::{NO_RETAIN, Reason, UNSUPPORTED_VERSION};
use super::tls::{self, CertificateError, TlsError, TlsFiles};

/// Bytes of a buffer for reading. Messages are parts of it, and hold all of it for as long as
/// the last one of them waits in the inbox.
const READ_BYTES: usize = 8 * 1_024;
/// So much of it is left at least when something is read into it: a new one for every short
/// read would hold a hundred times what the messages take.
const READ_BYTES_MIN: usize = 256;
/// Packets are gathered up to here before they are written.
const WRITE_BYTES: usize = 64 * 1_024;

/// What a connection is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// The broker keeps our subscriptions and unacknowledged messages while we are away.
    PersistentSession,
    /// Nothing is kept; the broker publishes this (topic, payload), retained, when we vanish.
    CleanSession {
        /// The last will.
        will: Option<(String, Vec<u8>)>,
    },
}

/// Makes connections to one broker, one after the other.
pub struct Dialer {
    spec: BrokerSpec,
    purpose: Purpose,
    files: TlsFiles,
    /// False once the broker has refused a last will that is retained.
    retain: bool,
}

/// An accepted connection.
pub struct Link {
    pipe: Box<dyn Pipe>,
    codec: Codec,
    inbound: BytesMut,
    outbound: BytesMut,
}

/// Why a connection could not be made or has ended. The reaction is always the
/// same, a fresh connection after a wait, so this is for the person who reads it.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A certificate or key file.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A certificate of theirs or ours is not accepted.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The file of a user name or password.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The broker said no.
    #[error("the broker refused the connection: {0}")]
    Refused(Reason),
    /// The broker said no to the version.
    #[error("the broker does not speak this version of MQTT: try `protocol = \"{0}\"`")]
    Version(&'static str),
    /// The broker ended the connection and said why (MQTT 5).
    #[error("the broker ended the connection: {0}")]
    Ended(Reason),
    /// A step of connecting took too long.
    #[error("{0} within {STEP_SECS_MAX} s")]
    NoAnswer(String),
    /// The peer closed the connection.
    #[error("the broker closed the connection")]
    Closed,
    /// The peer does not take what we send, or does not answer.
    #[error("the broker stopped responding")]
    Unresponsive,
    /// A packet above `limits::PACKET_BYTES_MAX`.
    #[error(
        "a packet of {0} bytes is above our limit of {PACKET_BYTES_MAX}: it stays first in the broker's queue for us \
         until that session is removed there; set message_size_limit, so that it does not happen again"
    )]
    TooLarge(usize),
    /// Network and TLS trouble, or bytes that are no MQTT.
    #[error("{0}")]
    Broken(String),
}

impl LinkError {
    /// Of a socket, or of TLS on it.
    pub fn of_io(error: &std::io::Error) -> LinkError {
        const CLOSED: [ErrorKind; 4] =
            [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted, ErrorKind::BrokenPipe];
        if CLOSED.contains(&error.kind()) {
            LinkError::Closed
        } else if error.kind() == ErrorKind::TimedOut {
            LinkError::Unresponsive
        } else if let Some(refused) = tls::refused_certificate(error) {
            // TLS 1.3 reports a certificate that the broker refuses only here.
            LinkError::Certificate(refused)
        } else {
            LinkError::Broken(error.to_string())
        }
    }

    /// Trying again gives the same answer until a person has changed something. The agent tries
    /// again all the same: somebody far away may do so.
    pub fn is_permanent(&self) -> bool {
        match self {
            LinkError::Tls(_) | LinkError::Certificate(_) | LinkError::Credential(_) | LinkError::Version(_) => true,
            LinkError::Refused(reason) => reason.is_permanent(),
            LinkError::Ended(_)
            | LinkError::NoAnswer(_)
            | LinkError::Closed
            | LinkError::Unresponsive
            | LinkError::TooLarge(_)
            | LinkError::Broken(_) => false,
        }
    }

    /// The broker has no room for one more connection, or may have none: said to an attempt.
    pub fn turns_away(&self) -> bool {
        match self {
            LinkError::Closed => true,
            // Busy, a quota, too many connections at once.
            LinkError::Refused(reason) => matches!(reason.code, 0x88 | 0x89 | 0x97 | 0x9f),
            LinkError::Tls(_)
            | LinkError::Certificate(_)
            | LinkError::Credential(_)
            | LinkError::Version(_)
            | LinkError::Ended(_)
            | LinkError::NoAnswer(_)
            | LinkError::Unresponsive
            | LinkError::TooLarge(_)
            | LinkError::Broken(_) => false,
        }
    }

    /// The broker itself has ended an accepted connection, for a reason that may be one of
    /// the messages in flight; with MQTT 3.1.1 it has no other way to refuse one.
    pub fn blames_a_message(&self) -> bool {
        match self {
            LinkError::Closed => true,
            LinkError::Ended(reason) => reason.blames_a_message(),
            LinkError::Tls(_)
            | LinkError::Certificate(_)
            | LinkError::Credential(_)
            | LinkError::Refused(_)
            | LinkError::Version(_)
            | LinkError::NoAnswer(_)
            | LinkError::Unresponsive
            | LinkError::TooLarge(_)
            | LinkError::Broken(_) => false,
        }
    }
}

impl From<CodecError> for LinkError {
    fn from(error: CodecError) -> LinkError {
        match error {
            CodecError::TooLarge(bytes) => LinkError::TooLarge(bytes),
            CodecError::Malformed(_) | CodecError::Auth => LinkError::Broken(error.to_string()),
        }
    }
}

impl Dialer {
    /// For one broker.
    pub fn new(spec: BrokerSpec, purpose: Purpose) -> Dialer {
        Dialer { spec, purpose, files: TlsFiles::default(), retain: true }
    }

    /// Connects, reading every file anew.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn connect(&mut self) -> Result<(Link, ConnAck), LinkError> {
        let greeting = self.greeting()?;
        let pipe = dial(&self.spec, &mut self.files).await?;
        let codec = Codec::new(self.spec.protocol);
        let mut link = Link { pipe, codec, inbound: BytesMut::new(), outbound: BytesMut::new() };
        codec.connect(greeting, &mut link.outbound)?;
        let what = format!("no CONNACK from {}", authority(&self.spec.host, self.spec.port));
        let connack = step(what, link.greet()).await??;
        if connack.reason.is_refusal() {
            return Err(self.refused(connack.reason));
        }
        Ok((link, connack))
    }

    /// What is not as it should be although there is a connection; empty: nothing.
    pub fn notice(&self) -> String {
        match self.files.problem() {
            "" => String::new(),
            problem => format!("the new TLS files cannot be used, those before are: {problem}"),
        }
    }

    fn greeting(&self) -> Result<Greeting, LinkError> {
        let (clean, will) = match &self.purpose {
            Purpose::PersistentSession => (false, None),
            Purpose::CleanSession { will } => (true, will.clone()),
        };
        Ok(Greeting {
            client_id: self.spec.client_id.clone(),
            clean,
            keep_alive_secs: u16::try_from(self.spec.keep_alive.as_millis() / 1_000).unwrap_or(u16::MAX),
            login: credentials::login(&self.spec)?,
            will: will.map(|(topic, payload)| Will { topic, payload, retain: self.retain }),
        })
    }

    fn refused(&mut self, reason: Reason) -> LinkError {
        match (reason.code, self.spec.protocol) {
            (UNSUPPORTED_VERSION, Protocol::V5) => LinkError::Version("3.1.1"),
            (UNSUPPORTED_VERSION, Protocol::V311) => LinkError::Version("5"),
            (NO_RETAIN, _) => {
                self.retain = false;
                LinkError::Refused(reason)
            }
            _ => LinkError::Refused(reason),
        }
    }
}

impl Link {
    async fn greet(&mut self) -> Result<ConnAck, LinkError> {
        self.flush().await?;
        while self.inbound.is_empty() {
            self.read_some().await?;
        }
        if let Some(what) = foreign::speech(&self.inbound) {
            return Err(LinkError::Broken(format!("no MQTT is spoken there: {what}")));
        }
        let FromBroker::ConnAck(connack) = self.read().await? else {
            return Err(LinkError::Broken("the broker sends something before its CONNACK: is it MQTT?".into()));
        };
        Ok(connack)
    }

    /// The next packet. Cancel-safe: what was read so far stays in the buffer.
    ///
    /// # Errors
    /// [`LinkError`]; the connection is over.
    pub async fn read(&mut self) -> Result<FromBroker, LinkError> {
        loop {
            if let Some(packet) = self.codec.decode(&mut self.inbound)? {
                let FromBroker::Disconnect(reason) = packet else { return Ok(packet) };
                return Err(LinkError::Ended(reason));
            }
            self.read_some().await?;
        }
    }

    async fn read_some(&mut self) -> Result<(), LinkError> {
        if self.inbound.capacity() - self.inbound.len() < READ_BYTES_MIN {
            self.inbound.reserve(READ_BYTES);
        }
        match self.pipe.read_buf(&mut self.inbound).await {
            Ok(0) => Err(LinkError::Closed),
            Ok(_len) => Ok(()),
            Err(error) => Err(LinkError::of_io(&error)),
        }
    }

    /// A packet that is here already; `None` when reading would wait.
    ///
    /// # Errors
    /// [`LinkError`]; the connection is over.
    pub fn read_ready(&mut self) -> Result<Option<FromBroker>, LinkError> {
        let read = pin!(self.read());
        // Nobody is to be woken: the caller goes on to `read`, which registers its own waker.
        match read.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(packet) => packet.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Writes packets and flushes once. Not cancel-safe; the caller awaits it to the end.
    ///
    /// # Errors
    /// [`LinkError`], also when the peer takes nothing for 10 s; the connection is over.
    pub async fn send(&mut self, packets: impl IntoIterator<Item = ToBroker>) -> Result<(), LinkError> {
        for packet in packets {
            self.codec.encode(packet, &mut self.outbound)?;
            if self.outbound.len() >= WRITE_BYTES {
                self.write().await?;
            }
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        self.write().await?;
        let flushed = timeout(Duration::from_millis(ANSWER_MAX.as_millis()), self.pipe.flush()).await;
        flushed.map_err(|_elapsed| LinkError::Unresponsive)?.map_err(|error| LinkError::of_io(&error))
    }

    async fn write(&mut self) -> Result<(), LinkError> {
        while !self.outbound.is_empty() {
            let written = self.pipe.write_buf(&mut self.outbound);
            match timeout(Duration::from_millis(ANSWER_MAX.as_millis()), written).await {
                Ok(Ok(0)) => return Err(LinkError::Closed),
                Ok(Ok(_len)) => {}
                Ok(Err(error)) => return Err(LinkError::of_io(&error)),
                Err(_elapsed) => return Err(LinkError::Unresponsive),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Messages that trickle in and wait in the inbox: memory is that of the messages.
    #[test]
    fn messages_of_many_short_reads_share_few_buffers() {
        const MESSAGES: usize = 2_000;
        // As small as they get beside their payload.
        const PACKET: &[u8] = b"\x30\x12\x00\x01tsome 15 bytes..";
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let payloads: Vec<Bytes> = runtime.block_on(async {
            let (mut broker, pipe) = tokio::io::duplex(64);
            let codec = Codec::new(Protocol::V311);
            let mut link = Link { pipe: Box::new(pipe), codec, inbound: BytesMut::new(), outbound: BytesMut::new() };
            let mut payloads = Vec::new();
            for _ in 0..MESSAGES {
                broker.write_all(PACKET).await.expect("room for one");
                match link.read().await {
                    Ok(FromBroker::Publish(message)) => payloads.push(message.payload),
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => panic!("{error}"),
                }
            }
            payloads
        });
        let next = |pair: &[Bytes]| pair[1].as_ptr() as usize == pair[0].as_ptr() as usize + PACKET.len();
        let buffers = 1 + payloads.windows(2).filter(|pair| !next(pair)).count();
        let bytes = MESSAGES * PACKET.len();
        assert!(buffers * READ_BYTES < bytes * 3 / 2, "{buffers} buffers for {bytes} bytes");
    }
}
