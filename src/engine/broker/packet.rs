//! What the clients of the listener say and are told: MQTT's packets without its bytes,
//! the same for 3.1.1 and 5.

use std::sync::Arc;

/// What a sender promises, and a receiver asks for at most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Qos {
    /// 0
    AtMostOnce,
    /// 1
    AtLeastOnce,
    /// 2
    ExactlyOnce,
}

/// What MQTT 5 says beside a message and a broker passes on as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Payload format indicator.
    pub payload_format: Option<u8>,
    /// Media type.
    pub content_type: Option<Box<str>>,
    /// Where an answer goes.
    pub response_topic: Option<Box<str>>,
    /// What the answer has to repeat.
    pub correlation: Option<Box<[u8]>>,
    /// User properties, in order, names may repeat.
    pub user: Vec<(Box<str>, Box<str>)>,
}

/// Bytes that all of them take beside their texts, and that each user property takes: its place,
/// and two blocks of memory.
const PROPERTIES_BYTES: usize = 96;
const USER_PROPERTY_BYTES: usize = 64;

impl Properties {
    /// Bytes that they take in memory, about. User properties without a word in them take
    /// many times what they were sent in.
    pub fn bytes(&self) -> usize {
        let Properties { payload_format: _, content_type, response_topic, correlation, user } = self;
        PROPERTIES_BYTES
            + content_type.as_deref().map_or(0, str::len)
            + response_topic.as_deref().map_or(0, str::len)
            + correlation.as_deref().map_or(0, <[u8]>::len)
            + user.iter().map(|(name, value)| USER_PROPERTY_BYTES + name.len() + value.len()).sum::<usize>()
    }
}

/// A PUBLISH of a client, as it arrived. Its topic is valid and allowed; aliases are resolved.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Topic, without wildcards, not empty.
    pub topic: &'a str,
    /// Any bytes.
    pub payload: &'a [u8],
    /// What the sender promises.
    pub qos: Qos,
    /// Keep it for whoever subscribes later; an empty payload clears what is kept.
    pub retain: bool,
    /// It may have been sent before.
    pub dup: bool,
    /// Packet id, never 0; `None` exactly at `QoS` 0.
    pub packet: Option<u16>,
    /// Seconds after which it is of no use.
    pub expiry_secs: Option<u32>,
    /// `None`: none.
    pub properties: Option<&'a Properties>,
}

/// A message that the broker keeps or passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Topic.
    pub topic: Box<str>,
    /// Payload.
    pub payload: Box<[u8]>,
    /// Of its sender.
    pub qos: Qos,
    /// Its sender wants it kept.
    pub retain: bool,
    /// Seconds after which it is of no use, counted from when it came.
    pub expiry_secs: Option<u32>,
    /// What stands beside it.
    pub properties: Option<Box<Properties>>,
}

impl Message {
    /// Bytes of what it says.
    pub fn bytes(&self) -> usize {
        self.topic.len() + self.payload.len() + self.properties.as_deref().map_or(0, Properties::bytes)
    }
}

/// A client that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// It speaks MQTT 5, else 3.1.1.
    pub is_v5: bool,
    /// Client id, never empty: one that is assigned when the client has none.
    pub client_id: String,
    /// Forget what was kept for this id (3.1.1: clean session).
    pub clean_start: bool,
    /// How long the session outlives the connection: 0 not at all, `u32::MAX` for ever
    /// (3.1.1: 0 with a clean session, else for ever, bounded by the listener's own limit).
    pub session_expiry_secs: u32,
    /// Messages at `QoS` 1 and 2 that may be unacknowledged towards the client, at least 1.
    pub receive_max: u16,
    /// What is published when it vanishes. Its topic is valid and allowed.
    pub will: Option<Will>,
}

/// A last will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// The message.
    pub message: Message,
    /// Seconds to wait for the client to come back.
    pub delay_secs: u32,
}

/// One subscription that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Valid; may begin with `$share/<group>/`.
    pub filter: String,
    /// At most.
    pub qos: Qos,
    /// Not what this client publishes itself.
    pub no_local: bool,
    /// The retain flag stays as its sender set it.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
    /// The access rules refuse it, with this reason code; nothing is subscribed.
    pub refused: Option<u8>,
}

/// When a subscription is answered with retained messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetainHandling {
    /// Always (3.1.1).
    Send,
    /// Only when it is a new one.
    SendIfNew,
    /// Never.
    DoNotSend,
}

/// Everything that a connection of the listener reports.
#[derive(Clone, Copy, Debug)]
pub enum ClientEvent<'a> {
    /// The first on each connection.
    Connect(&'a Connect),
    /// A message.
    Publish(Publish<'a>),
    /// Subscriptions.
    Subscribe {
        /// Packet id.
        packet: u16,
        /// Subscription identifier (MQTT 5).
        id: Option<u32>,
        /// At least one.
        filters: &'a [Filter],
    },
    /// The end of subscriptions.
    Unsubscribe {
        /// Packet id.
        packet: u16,
        /// At least one.
        filters: &'a [String],
    },
    /// The client has a message at `QoS` 1; `refused`: it does not want it (codes 0x80 and
    /// above), which ends its delivery all the same.
    PubAck {
        /// Packet id.
        packet: u16,
        /// See above.
        refused: bool,
    },
    /// The client has a message at `QoS` 2; refused as above.
    PubRec {
        /// Packet id.
        packet: u16,
        /// See above.
        refused: bool,
    },
    /// The client will not send a message at `QoS` 2 again.
    PubRel {
        /// Packet id.
        packet: u16,
    },
    /// The client has forgotten the packet id of a message at `QoS` 2.
    PubComp {
        /// Packet id.
        packet: u16,
    },
    /// The client says goodbye. Nothing but [`ClientEvent::Gone`] follows.
    Disconnect {
        /// Publish the will all the same.
        with_will: bool,
        /// Another session expiry, where the client gives one.
        session_expiry_secs: Option<u32>,
    },
    /// The connection is over, for whatever reason. The last on each connection.
    Gone,
}

/// What a client is told. PUBACK and PUBREC go their own way, as [`Effect::Ack`], once the
/// message's consequences are durable.
///
/// [`Effect::Ack`]: crate::engine::step::Effect::Ack
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToClient {
    /// It is let in. Nothing else goes to a connection before this.
    ConnAck {
        /// There was a session and it goes on.
        session_present: bool,
    },
    /// It is not: there is no room for another session (MQTT 5: 0x97 quota exceeded).
    NoRoom,
    /// To SUBSCRIBE: a granted `QoS` (0 to 2) or a reason code (0x80 and above) per filter.
    SubAck {
        /// Packet id.
        packet: u16,
        /// Codes.
        codes: Vec<u8>,
    },
    /// To UNSUBSCRIBE: 0x00 success, 0x11 no subscription existed, per filter.
    UnsubAck {
        /// Packet id.
        packet: u16,
        /// Codes.
        codes: Vec<u8>,
    },
    /// To PUBREC. `found`: the packet id is known.
    PubRel {
        /// Packet id.
        packet: u16,
        /// See above.
        found: bool,
    },
    /// To PUBREL. `found`: the packet id was known.
    PubComp {
        /// Packet id.
        packet: u16,
        /// See above.
        found: bool,
    },
    /// A message.
    Publish(Delivery),
    /// It has to go; then the connection ends.
    Disconnect(Farewell),
}

/// A message on its way to one client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// What is sent; shared by all receivers.
    pub message: Arc<Message>,
    /// The lower one of sender and subscription.
    pub qos: Qos,
    /// As the subscription wants it.
    pub retain: bool,
    /// It may have been sent before.
    pub dup: bool,
    /// Packet id; `None` exactly at `QoS` 0.
    pub packet: Option<u16>,
    /// Subscription identifiers that it comes by.
    pub subscriptions: Vec<u32>,
    /// What is left of its expiry.
    pub expiry_secs: Option<u32>,
}

/// Why a client is sent away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Farewell {
    /// Another connection has its client id (0x8E).
    TakenOver,
    /// It exceeds a limit of the listener (0x97).
    QuotaExceeded,
    /// It broke the protocol (0x82).
    ProtocolError,
    /// The agent stops (0x8B).
    ShuttingDown,
}
