//! A small blocking MQTT 3.1.1 client for the other ends of the agent: the
//! reference consumer, the demo's devices and the tests.
//!
//! It uses the codec of the client library and nothing else of it: no thread,
//! no runtime, no reconnect inside. One `Connection` is one TCP connection;
//! [`Subscriber`] and [`Publisher`] make a fresh one after every error. That the
//! agent and its test client share no session code is wanted: a mistake in one
//! of them cannot hide in the other.
//!
//! Limits: packets up to 1 MiB, [`PUBLISH_WINDOW`] publishes without PUBACK, a
//! peer that is silent for `PING_AFTER` is asked, and given up after the same
//! time again. No TLS, no `QoS` 2.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rumqttc::mqttbytes;
use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v4::{
    Connect, ConnectReturnCode, Packet, PubAck, Publish, Subscribe, SubscribeFilter, SubscribeReasonCode,
};

pub use self::publisher::Publisher;
pub use self::subscriber::{Received, Subscriber};
use super::codec::v4::reason_of;
use super::foreign;
use super::reason::Reason;
use crate::agent::clock;

mod publisher;
mod subscriber;

/// Largest packet in either direction.
pub const PACKET_BYTES_MAX: usize = 1024 * 1024;
/// Publishes without PUBACK; below every broker's default.
pub const PUBLISH_WINDOW: usize = 20;
/// Silence after which the peer is asked whether it is there.
const PING_AFTER: Duration = Duration::from_secs(10);
/// For TCP connects, writes and the answers to CONNECT and SUBSCRIBE.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Shortest wait for the socket: zero would mean "for ever".
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Where to connect, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSpec {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The broker's session hangs on it.
    pub client_id: String,
    /// False: the broker keeps subscriptions and what arrives meanwhile.
    pub clean: bool,
}

/// A PUBLISH that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Bytes,
    /// State from before the subscription.
    pub retain: bool,
    /// The broker says that it may have sent it before.
    pub dup: bool,
    /// For the acknowledgement: connection and packet id. `None` at `QoS` 0.
    tag: Option<(u32, u16)>,
}

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is none.
    #[error("no connection: {0}")]
    NoConnection(std::io::Error),
    /// The network said no.
    #[error("the connection is lost: {0}")]
    Io(#[from] std::io::Error),
    /// The bytes are not MQTT, or too many.
    #[error("the broker sends no valid MQTT: {0}")]
    Protocol(#[from] mqttbytes::Error),
    /// The peer speaks something else.
    #[error("no MQTT is spoken there: {0}")]
    Foreign(&'static str),
    /// The broker does not want us.
    #[error("the broker refused the connection: {0}")]
    Refused(Reason),
    /// The broker does not want us to hear this.
    #[error("the broker refused the subscription to {0}: its access rules do not allow it")]
    NotSubscribed(String),
    /// The broker ended the connection before it let us in.
    #[error(
        "the broker closed the connection without an answer to CONNECT: a port for TLS, or no room for more clients?"
    )]
    TurnedAway,
    /// The broker ended the connection.
    #[error("the broker closed the connection")]
    Closed,
    /// No answer in time.
    #[error("the broker does not answer")]
    Silent,
}

impl ClientError {
    /// Trying again gives the same answer until a person has changed something.
    pub fn is_permanent(&self) -> bool {
        match self {
            ClientError::Foreign(_) | ClientError::NotSubscribed(_) => true,
            ClientError::Refused(reason) => reason.is_permanent(),
            ClientError::NoConnection(_)
            | ClientError::Io(_)
            | ClientError::Protocol(_)
            | ClientError::TurnedAway
            | ClientError::Closed
            | ClientError::Silent => false,
        }
    }
}

/// What came in.
#[derive(Debug)]
enum Incoming {
    Publish(Publish),
    PubAck(u16),
    SubAck(Vec<SubscribeReasonCode>),
    ConnAck { code: ConnectReturnCode, resumed: bool },
    Other,
}

/// One TCP connection that speaks MQTT.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    inbound: BytesMut,
    heard: Instant,
    asked: bool,
}

impl Connection {
    /// Connects and waits for CONNACK. True: the broker kept our session.
    fn open(spec: &ClientSpec) -> Result<(Connection, bool), ClientError> {
        let mut refusal = std::io::Error::new(ErrorKind::NotFound, format!("{} has no address", spec.host));
        let addresses = (spec.host.as_str(), spec.port).to_socket_addrs().map_err(ClientError::NoConnection)?;
        for address in addresses {
            match TcpStream::connect_timeout(&address, ANSWER_WITHIN) {
                Ok(stream) => return Connection::greet(stream, spec),
                Err(error) => refusal = error,
            }
        }
        Err(ClientError::NoConnection(refusal))
    }

    fn greet(stream: TcpStream, spec: &ClientSpec) -> Result<(Connection, bool), ClientError> {
        let greeted = Connection::say_hello(stream, spec);
        match &greeted {
            Err(ClientError::Closed) => Err(ClientError::TurnedAway),
            Err(ClientError::Io(error)) if is_closed(error) => Err(ClientError::TurnedAway),
            Ok(_) | Err(_) => greeted,
        }
    }

    fn say_hello(stream: TcpStream, spec: &ClientSpec) -> Result<(Connection, bool), ClientError> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let mut connection = Connection { stream, inbound: BytesMut::new(), heard: clock::instant(), asked: false };
        let mut connect = Connect::new(spec.client_id.clone());
        connect.clean_session = spec.clean;
        // Three questions may go unanswered before the broker gives us up.
        connect.keep_alive = u16::try_from(PING_AFTER.as_secs() * 3).expect("half a minute");
        connection.send(&Packet::Connect(connect))?;
        let deadline = clock::instant() + ANSWER_WITHIN;
        while clock::instant() < deadline {
            match connection.receive(ANSWER_WITHIN)? {
                Some(Incoming::ConnAck { code: ConnectReturnCode::Success, resumed }) => {
                    return Ok((connection, resumed));
                }
                Some(Incoming::ConnAck { code, .. }) => return Err(ClientError::Refused(reason_of(code))),
                Some(Incoming::Publish(_) | Incoming::PubAck(_) | Incoming::SubAck(_) | Incoming::Other) | None => {}
            }
        }
        Err(ClientError::Silent)
    }

    /// Asks for these filters at `QoS` 1. The answer is a [`Incoming::SubAck`]:
    /// messages of a resumed session may come before it.
    fn subscribe(&mut self, filters: &[String]) -> Result<(), ClientError> {
        let filters = filters.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce));
        let mut subscribe = Subscribe::new_many(filters);
        subscribe.pkid = 1;
        self.send(&Packet::Subscribe(subscribe))
    }

    fn ack(&mut self, packet: u16) -> Result<(), ClientError> {
        self.send(&Packet::PubAck(PubAck::new(packet)))
    }

    fn send(&mut self, packet: &Packet) -> Result<(), ClientError> {
        let mut bytes = BytesMut::new();
        packet.write(&mut bytes, PACKET_BYTES_MAX)?;
        Ok(self.stream.write_all(&bytes)?)
    }

    /// The next packet; `None` when none came within `wait`.
    fn receive(&mut self, wait: Duration) -> Result<Option<Incoming>, ClientError> {
        let deadline = clock::instant() + wait;
        loop {
            if let Some(what) = foreign::speech(&self.inbound) {
                return Err(ClientError::Foreign(what));
            }
            match Packet::read(&mut self.inbound, PACKET_BYTES_MAX) {
                Ok(packet) => return Ok(Some(incoming(packet))),
                Err(mqttbytes::Error::InsufficientBytes(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let left = deadline.saturating_duration_since(clock::instant());
            if !self.read_some(left)? && left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// True when bytes came within `wait`. Keeps the peer honest on the way.
    fn read_some(&mut self, wait: Duration) -> Result<bool, ClientError> {
        self.stream.set_read_timeout(Some(wait.clamp(WAIT_MIN, PING_AFTER)))?;
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(ClientError::Closed),
            Ok(len) => {
                self.inbound.extend_from_slice(&chunk[..len]);
                self.heard = clock::instant();
                self.asked = false;
                return Ok(true);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if clock::instant() >= self.heard + PING_AFTER * 2 && self.asked {
            return Err(ClientError::Silent);
        }
        if clock::instant() >= self.heard + PING_AFTER && !self.asked {
            self.asked = true;
            self.send(&Packet::PingReq)?;
        }
        Ok(false)
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe)
}

fn incoming(packet: Packet) -> Incoming {
    match packet {
        Packet::Publish(publish) => Incoming::Publish(publish),
        Packet::PubAck(ack) => Incoming::PubAck(ack.pkid),
        Packet::SubAck(ack) => Incoming::SubAck(ack.return_codes),
        Packet::ConnAck(ack) => Incoming::ConnAck { code: ack.code, resumed: ack.session_present },
        Packet::Connect(_)
        | Packet::PubRec(_)
        | Packet::PubRel(_)
        | Packet::PubComp(_)
        | Packet::Subscribe(_)
        | Packet::Unsubscribe(_)
        | Packet::UnsubAck(_)
        | Packet::PingReq
        | Packet::PingResp
        | Packet::Disconnect => Incoming::Other,
    }
}
