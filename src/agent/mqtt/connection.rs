//! One connection to one broker, from CONNECT to its end; never a second one.
//!
//! rumqttc makes the connection (TCP, TLS, CONNECT, CONNACK) and is the codec.
//! Its event loop is **not** used after that: measured on 0.25.1, its session
//! logic loses accepted publishes on reconnect, acknowledges the wrong message
//! after one, puts acknowledgements behind a full publish window, dies on an
//! unsolicited PUBREL and flushes once per acknowledgement. What is left to do
//! is little: packet ids and keep-alive, in `ingest.rs` and `uplink/mqtt.rs`,
//! over [`Link::read`] and [`Link::send`].
//!
//! Limits: connecting takes at most 5 s in all, a stalled write 10 s, a packet
//! has at most 8 MiB in either direction. A device may send up to 256 MB
//! through mosquitto; a larger packet than ours ends the connection and would
//! come again and again, so the limit lies far above the 256 KiB that a payload
//! may have (those are acknowledged, counted and dropped by the engine), and
//! the error names the broker's `message_size_limit`, which keeps it from happening.

use std::fs;
use std::future::Future;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rumqttc::{
    ConnectReturnCode, ConnectionError, Event, EventLoop, LastWill, MqttOptions, NetworkOptions, Packet, QoS,
    StateError, TlsConfiguration, Transport,
};
use tokio::time::timeout;

use crate::config::boot::BrokerSpec;
use crate::model::limits::PACKET_BYTES_MAX;

use super::keep_alive::ANSWER_MAX;
use super::tls::{TlsError, client_config};

/// TCP, TLS and CONNACK together.
const CONNECT_SECS_MAX: u64 = 5;
/// Bytes of a password file; more is a mistaken path.
const PASSWORD_BYTES_MAX: usize = 64 * 1024;

/// What a connection is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// The broker keeps our subscriptions and unacknowledged messages while we are away.
    PersistentSession,
    /// Nothing is kept; the broker publishes this, retained, when we vanish.
    CleanSession {
        /// Topic of the last will.
        will_topic: String,
        /// Payload of the last will.
        will: Vec<u8>,
    },
}

/// An accepted connection.
pub struct Link {
    /// Owner of the socket; never polled after the CONNACK.
    eventloop: EventLoop,
}

/// Why a connection could not be made or has ended. The reaction is always the
/// same, a fresh connection after a wait, so this is for the person who reads it.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A certificate or key file.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The password file.
    #[error("password file {}: {problem}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The broker said no.
    #[error("the broker refused the connection: {0}")]
    Refused(&'static str),
    /// Connecting took too long.
    #[error("no answer within {CONNECT_SECS_MAX} s")]
    NoAnswer,
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

impl Link {
    /// Connects, reading every file anew. The flag is CONNACK's session-present.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn connect(spec: &BrokerSpec, purpose: &Purpose) -> Result<(Link, bool), LinkError> {
        let mut eventloop = EventLoop::new(options(spec, purpose)?, 1);
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        network.set_connection_timeout(CONNECT_SECS_MAX);
        eventloop.set_network_options(network);
        match eventloop.poll().await {
            Ok(Event::Incoming(Packet::ConnAck(connack))) => Ok((Link { eventloop }, connack.session_present)),
            Ok(other) => Err(LinkError::Broken(format!("expected CONNACK, got {other:?}"))),
            Err(error) => Err(connect_error(error)),
        }
    }

    /// The next packet. Cancel-safe: what was read so far stays in the buffer.
    ///
    /// # Errors
    /// [`LinkError`]; the connection is over.
    pub async fn read(&mut self) -> Result<Packet, LinkError> {
        match &mut self.eventloop.network {
            Some(network) => network.read().await.map_err(state_error),
            None => Err(LinkError::Closed),
        }
    }

    /// A packet that is here already; `None` when reading would wait.
    ///
    /// # Errors
    /// [`LinkError`]; the connection is over.
    pub fn read_ready(&mut self) -> Result<Option<Packet>, LinkError> {
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
    pub async fn send(&mut self, packets: impl IntoIterator<Item = Packet>) -> Result<(), LinkError> {
        let Some(network) = &mut self.eventloop.network else {
            return Err(LinkError::Closed);
        };
        let write = async {
            for packet in packets {
                network.write(packet).await?;
            }
            network.flush().await
        };
        match timeout(Duration::from_millis(ANSWER_MAX.as_millis()), write).await {
            Ok(written) => written.map_err(state_error),
            Err(_elapsed) => Err(LinkError::Unresponsive),
        }
    }
}

fn options(spec: &BrokerSpec, purpose: &Purpose) -> Result<MqttOptions, LinkError> {
    let mut options = MqttOptions::new(&spec.client_id, address(spec), spec.port);
    options.set_keep_alive(Duration::from_millis(spec.keep_alive.as_millis()));
    options.set_max_packet_size(PACKET_BYTES_MAX, PACKET_BYTES_MAX);
    // Only sizes rumqttc's unused publish table.
    options.set_inflight(1);
    match purpose {
        Purpose::PersistentSession => {
            options.set_clean_session(false);
        }
        Purpose::CleanSession { will_topic, will } => {
            options.set_clean_session(true);
            options.set_last_will(LastWill::new(will_topic, will.clone(), QoS::AtLeastOnce, true));
        }
    }
    if let Some(username) = &spec.username {
        options.set_credentials(username, password(spec)?);
    }
    if let Some(tls) = &spec.tls {
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(client_config(tls)?)));
    }
    Ok(options)
}

/// rumqttc joins host and port with a colon, which needs brackets around an
/// IPv6 address; with TLS the same text is the server's name, which has none.
fn address(spec: &BrokerSpec) -> String {
    if spec.tls.is_none() && spec.host.parse::<Ipv6Addr>().is_ok() {
        format!("[{}]", spec.host)
    } else {
        spec.host.clone()
    }
}

/// The file's text without the line end an editor leaves behind.
fn password(spec: &BrokerSpec) -> Result<String, LinkError> {
    let Some(path) = &spec.password_file else {
        return Ok(String::new());
    };
    let refuse = |problem: String| LinkError::Password { path: path.clone(), problem };
    let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    if text.len() > PASSWORD_BYTES_MAX {
        return Err(refuse(format!("has {} bytes, at most {PASSWORD_BYTES_MAX} make sense", text.len())));
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's errors; only some get words of their own")]
fn connect_error(error: ConnectionError) -> LinkError {
    match error {
        ConnectionError::NetworkTimeout | ConnectionError::FlushTimeout => LinkError::NoAnswer,
        ConnectionError::MqttState(error) => state_error(error),
        ConnectionError::ConnectionRefused(code) => LinkError::Refused(match code {
            ConnectReturnCode::Success => "no reason given",
            ConnectReturnCode::RefusedProtocolVersion => "it does not speak MQTT 3.1.1",
            ConnectReturnCode::BadClientId => "it does not accept the client id",
            ConnectReturnCode::ServiceUnavailable => "the service is unavailable",
            ConnectReturnCode::BadUserNamePassword => "wrong user name or password",
            ConnectReturnCode::NotAuthorized => "not authorised (user name, password or certificate)",
        }),
        other => LinkError::Broken(other.to_string()),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's errors; only some get words of their own")]
fn state_error(error: StateError) -> LinkError {
    match error {
        StateError::ConnectionAborted => LinkError::Closed,
        StateError::Deserialization(rumqttc::Error::PayloadSizeLimitExceeded(bytes)) => LinkError::TooLarge(bytes),
        StateError::Deserialization(rumqttc::Error::OutgoingPacketTooLarge { pkt_size, max: _ }) => {
            LinkError::TooLarge(pkt_size)
        }
        // TLS 1.3 reports a certificate that the broker refuses only here, as an I/O error.
        StateError::Deserialization(rumqttc::Error::Io(error)) => LinkError::Broken(error.to_string()),
        other => LinkError::Broken(other.to_string()),
    }
}
