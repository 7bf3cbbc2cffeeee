//! MQTT packets as the agent sees them, whatever version a connection speaks.
//! What the agent never sends and never acts on is not here.

use bytes::Bytes;

use super::reason::Reason;

/// What a broker sends.
#[derive(Debug)]
pub enum FromBroker {
    /// The answer to CONNECT.
    ConnAck(ConnAck),
    /// A message.
    Publish(Arrived),
    /// The answer to a publish of ours.
    PubAck {
        /// Its packet id.
        packet: u16,
        /// Why not, or that it worked.
        reason: Reason,
    },
    /// The second step of a publish of ours at `QoS` 2.
    PubRec {
        /// Its packet id.
        packet: u16,
        /// Why not, or that it worked.
        reason: Reason,
    },
    /// The third step of `QoS` 2, with its packet id.
    PubRel(u16),
    /// The last step of a publish of ours at `QoS` 2, with its packet id.
    PubComp(u16),
    /// The answer to SUBSCRIBE, filter by filter.
    SubAck(Vec<Grant>),
    /// The answer to a ping.
    PingResp,
    /// The broker ends the connection (MQTT 5).
    Disconnect(Reason),
    /// A packet that has no meaning for us: its type.
    Other(u8),
}

/// The answer to CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnAck {
    /// The broker kept our session.
    pub resumed: bool,
    /// Whether it takes us.
    pub reason: Reason,
    /// What it allows.
    pub terms: Terms,
}

/// What a broker allows on a connection. MQTT 3.1.1 does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// Publishes that may be unacknowledged; `None`: as many as there are packet ids.
    pub receive_max: Option<u16>,
    /// Bytes of the largest packet it takes.
    pub packet_max: Option<u32>,
    /// False: it keeps nothing that is published as retained.
    pub no_retain: bool,
    /// It takes messages at `QoS` 0 only.
    pub no_qos1: bool,
    /// Seconds of the keep-alive that it wants instead of ours.
    pub keep_alive_secs: Option<u16>,
}

/// A message as it arrived.
#[derive(Debug)]
pub struct Arrived {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Bytes,
    /// State from before the subscription.
    pub retain: bool,
    /// The broker may have sent it before.
    pub dup: bool,
    /// Packet id; `None` at `QoS` 0.
    pub packet: Option<u16>,
    /// It came at `QoS` 2.
    pub exactly_once: bool,
    /// Where its sender waits for an answer (MQTT 5).
    pub answer_to: Option<Box<AnswerTo>>,
}

/// Where an answer to a message is to be published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerTo {
    /// On this topic.
    pub topic: String,
    /// With this, by which its sender knows it.
    pub correlation: Option<Bytes>,
}

/// The answer to one filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grant {
    /// `QoS` 1 or above.
    Acknowledged,
    /// `QoS` 0 only.
    Unacknowledged,
    /// Not at all.
    Refused,
}

/// What we send.
#[derive(Debug)]
pub enum ToBroker {
    /// A message at `QoS` 1 or 2, or 0 without a packet id.
    Publish(Outgoing),
    /// A message of this packet id is taken.
    PubAck(u16),
    /// The second step of `QoS` 2.
    PubRec(u16),
    /// The third step of a publish of ours at `QoS` 2.
    PubRel(u16),
    /// The last step of `QoS` 2.
    PubComp(u16),
    /// These filters, at `QoS` 1.
    Subscribe {
        /// Packet id.
        packet: u16,
        /// Topic filters.
        filters: Vec<String>,
    },
    /// These filters no more.
    Unsubscribe {
        /// Packet id.
        packet: u16,
        /// Topic filters.
        filters: Vec<String>,
    },
    /// Are you there?
    PingReq,
    /// The end; the last will is not published.
    Disconnect,
}

/// A message to publish.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Bytes,
    /// For whoever subscribes later.
    pub retain: bool,
    /// `None`: at `QoS` 0, without an answer.
    pub packet: Option<u16>,
    /// At `QoS` 2, where it has a packet id.
    pub exactly_once: bool,
    /// It was sent before, in this session.
    pub dup: bool,
    /// What MQTT 5 says beside it.
    pub properties: Properties,
}

/// What MQTT 5 says beside a message; 3.1.1 has no place for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    /// A media type.
    pub content_type: Option<&'static str>,
    /// Seconds after which it is of no use.
    pub expiry_secs: Option<u32>,
    /// User properties.
    pub user: Vec<(&'static str, &'static str)>,
    /// What the sender of a request knows its answer by.
    pub correlation: Option<Bytes>,
}

/// Who we are, for CONNECT.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// Client id.
    pub client_id: String,
    /// Start without a session and leave none.
    pub clean: bool,
    /// Seconds.
    pub keep_alive_secs: u16,
    /// User name and password; empty texts are left out.
    pub login: Option<(String, String)>,
    /// What the broker publishes at `QoS` 1 when we vanish.
    pub will: Option<Will>,
}

/// A last will.
#[derive(Clone, Debug)]
pub struct Will {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Vec<u8>,
    /// For whoever subscribes later.
    pub retain: bool,
}
