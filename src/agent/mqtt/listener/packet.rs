//! What a connection of the listener reads, whole and owned.

use bytes::Bytes;

use crate::engine::broker::packet::{ClientEvent, Connect, Filter, Properties, Publish, Qos};

/// A CONNECT, before anybody has decided whether the client is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the broker wants to know. Client id as sent: may be empty. `receive_max`: 65,535
    /// when not said. 3.1.1: session expiry 0 with a clean session, else for ever; in both
    /// versions at most what the connection's limits allow.
    pub connect: Connect,
    /// User name.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Bytes>,
    /// Seconds; 0: none.
    pub keep_alive_secs: u16,
    /// Bytes of the largest packet that the client takes.
    pub packet_max: Option<u32>,
    /// Topic aliases that the client takes.
    pub topic_alias_max: u16,
    /// Enhanced authentication is asked for; refused (0x8C).
    pub authentication_method: Option<String>,
}

/// A PUBLISH. Topic valid, aliases resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPublish {
    /// The topic, and behind it the payload: one allocation, made on one thread and freed on
    /// another.
    bytes: Box<[u8]>,
    topic_len: usize,
    /// What the sender promises.
    pub qos: Qos,
    /// For whoever subscribes later.
    pub retain: bool,
    /// It may have been sent before.
    pub dup: bool,
    /// Packet id; `None` exactly at `QoS` 0.
    pub packet: Option<u16>,
    /// Seconds after which it is of no use.
    pub expiry_secs: Option<u32>,
    /// `None`: none.
    pub properties: Option<Box<Properties>>,
}

impl ClientPublish {
    /// At `QoS` 0, without any of the flags.
    pub fn new(topic: &str, payload: &[u8]) -> ClientPublish {
        ClientPublish {
            bytes: [topic.as_bytes(), payload].concat().into(),
            topic_len: topic.len(),
            qos: Qos::AtMostOnce,
            retain: false,
            dup: false,
            packet: None,
            expiry_secs: None,
            properties: None,
        }
    }

    /// Topic.
    pub fn topic(&self) -> &str {
        let topic = self.bytes.get(..self.topic_len).and_then(|topic| str::from_utf8(topic).ok());
        topic.expect("a text is in front")
    }

    /// Payload.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.topic_len..).unwrap_or_default()
    }
}

impl FromClient {
    /// Bytes of what it holds.
    pub fn bytes(&self) -> usize {
        match self {
            FromClient::Publish(publish) => {
                publish.bytes.len() + publish.properties.as_deref().map_or(0, Properties::bytes)
            }
            FromClient::Subscribe { filters, .. } => filters.iter().map(|filter| filter.filter.len() + 64).sum(),
            FromClient::Unsubscribe { filters, .. } => filters.iter().map(|filter| filter.len() + 32).sum(),
            FromClient::PubAck { .. }
            | FromClient::PubRec { .. }
            | FromClient::PubRel { .. }
            | FromClient::PubComp { .. }
            | FromClient::Disconnect { .. } => 0,
        }
    }

    /// As the broker takes it.
    pub fn event(&self) -> ClientEvent<'_> {
        match self {
            FromClient::Publish(publish) => ClientEvent::Publish(Publish {
                topic: publish.topic(),
                payload: publish.payload(),
                qos: publish.qos,
                retain: publish.retain,
                dup: publish.dup,
                packet: publish.packet,
                expiry_secs: publish.expiry_secs,
                properties: publish.properties.as_deref(),
            }),
            FromClient::Subscribe { packet, id, filters } => {
                ClientEvent::Subscribe { packet: *packet, id: *id, filters }
            }
            FromClient::Unsubscribe { packet, filters } => ClientEvent::Unsubscribe { packet: *packet, filters },
            FromClient::PubAck { packet, refused } => ClientEvent::PubAck { packet: *packet, refused: *refused },
            FromClient::PubRec { packet, refused } => ClientEvent::PubRec { packet: *packet, refused: *refused },
            FromClient::PubRel { packet } => ClientEvent::PubRel { packet: *packet },
            FromClient::PubComp { packet } => ClientEvent::PubComp { packet: *packet },
            FromClient::Disconnect { with_will, session_expiry_secs } => {
                ClientEvent::Disconnect { with_will: *with_will, session_expiry_secs: *session_expiry_secs }
            }
        }
    }
}

/// What a client sends after its CONNECT and what the broker has to know. PINGREQ is answered
/// by the connection itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// A message.
    Publish(ClientPublish),
    /// Subscriptions.
    Subscribe {
        /// Packet id.
        packet: u16,
        /// Subscription identifier (MQTT 5).
        id: Option<u32>,
        /// At least one; valid.
        filters: Vec<Filter>,
    },
    /// The end of subscriptions.
    Unsubscribe {
        /// Packet id.
        packet: u16,
        /// At least one; valid.
        filters: Vec<String>,
    },
    /// To a message at `QoS` 1.
    PubAck {
        /// Packet id.
        packet: u16,
        /// Reason code 0x80 or above.
        refused: bool,
    },
    /// To a message at `QoS` 2.
    PubRec {
        /// Packet id.
        packet: u16,
        /// Reason code 0x80 or above.
        refused: bool,
    },
    /// A message at `QoS` 2 will not be sent again.
    PubRel {
        /// Packet id.
        packet: u16,
    },
    /// The end of a message at `QoS` 2.
    PubComp {
        /// Packet id.
        packet: u16,
    },
    /// Goodbye.
    Disconnect {
        /// Publish the will all the same.
        with_will: bool,
        /// Another session expiry (MQTT 5), already checked: never raised from 0.
        session_expiry_secs: Option<u32>,
    },
}
