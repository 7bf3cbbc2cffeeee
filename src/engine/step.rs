//! What goes into the engine and what comes out of it.
//!
//! The engine never acts. It takes [`Event`]s, and a commit turns what they
//! changed into a [`Step`]: bytes to make durable, and effects that are
//! allowed once they are. A crash in between loses nothing: messages that were
//! not acknowledged are delivered again, publishes are found in the outbox.

use crate::model::time::{Now, Span};

use super::broker::packet::{ClientEvent, Message as OwnMessage, ToClient};
use super::encode::Encoding;
use super::outbox::LaneKind;
use super::samples::{Replay, Replayed};

/// Everything that can wake the engine. Closed on purpose: this list is the
/// whole answer to "what makes it do something?".
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A message of a device's broker.
    Message(Message<'a>),
    /// The device broker accepted a connection. `resumed`: it kept our session.
    SessionStarted {
        /// CONNACK's session-present flag.
        resumed: bool,
    },
    /// Whether silence means anything: false while the input is disconnected,
    /// behind, or held back by us. Idle timers stand still then.
    InputLive(bool),
    /// The uplink accepted a connection.
    UplinkUp,
    /// What the present uplink connection allows, when its CONNACK said so.
    UplinkTerms(UplinkTerms),
    /// The uplink connection is gone; whatever was in flight was not acknowledged.
    UplinkDown,
    /// As [`Event::UplinkDown`], and it was the cloud's broker that ended the connection,
    /// with a batch in flight: with MQTT 3.1.1 its only way to refuse one.
    UplinkClosedByPeer,
    /// The cloud's broker acknowledged a batch.
    UplinkAcked(BatchId),
    /// The cloud's broker has answered a batch with a reason why not (MQTT 5).
    UplinkRefused(BatchId, Refusal),
    /// Something that knows says that devices are there, or not.
    Availability(Availability<'a>),
    /// A person wants a sample of what was rejected to be taken in.
    Replay(Replay<'a>),
    /// A connection of the listener reports something.
    Client {
        /// Which; [`DeliveryTag::CLIENTS`] or above.
        connection: u32,
        /// What.
        event: ClientEvent<'a>,
    },
    /// A message of the agent itself for the listener's clients.
    Own(&'a OwnMessage),
    /// So many messages at `QoS` 0 found no room at connections of the listener.
    ClientsDropped(u64),
    /// Nothing but time has passed.
    Tick,
}

/// What an uplink connection allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UplinkTerms {
    /// Bytes of the largest payload that may be published.
    pub payload_max: usize,
    /// Publishes that may be unacknowledged at a time, at least 1.
    pub window: usize,
}

/// What a reason code in a PUBACK means for the batch. One variant per reaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is what is in it: it will never be taken. (0x99 payload format invalid, 0x90
    /// topic name invalid, 0x83 implementation specific, 0x80 unspecified.)
    Poison,
    /// Not now, and everything else neither: a quota, a permission. (0x97, 0x87 and codes
    /// that are not known.) It is published again later.
    NotNow,
}

/// One MQTT PUBLISH as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its payload, any bytes.
    pub payload: &'a [u8],
    /// Retained: state from before we subscribed, not an event.
    pub retain: bool,
    /// The broker says that it may have sent this before.
    pub dup: bool,
    /// How to acknowledge it; `None` at `QoS` 0, where nothing can be promised.
    pub tag: Option<DeliveryTag>,
}

/// A last will, an online topic, a bridge that lost its radio: who is there does not
/// have to be guessed from silence. Offline, a device is idle at once; online, it is
/// active at once and its silence begins anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Availability<'a> {
    /// The place of the stream; `None`: all streams.
    pub stream: Option<usize>,
    /// The device; `None`: all that are known, for what connects them is on or off.
    /// One that no stream knows is counted, and not made known: whoever publishes
    /// availability for a whole house would fill the stream, and be waited for.
    pub device: Option<&'a str>,
    /// On, or off.
    pub online: bool,
}

/// Names one inbound delivery, so that an acknowledgement can never reach
/// another message that has the same packet id on a later connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryTag {
    /// Counts connections of this process.
    pub connection: u32,
    /// MQTT packet id.
    pub packet: u16,
}

impl DeliveryTag {
    /// The first number of a connection of the listener; those of the connection to the device
    /// broker are below.
    pub const CLIENTS: u32 = 1 << 31;

    /// It came over the listener.
    pub fn is_of_client(self) -> bool {
        self.connection >= DeliveryTag::CLIENTS
    }
}

/// Names one published batch. Never reused within a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchId(pub u64);

/// Outbox records ready to be published as one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// For [`Event::UplinkAcked`].
    pub id: BatchId,
    /// Full topic.
    pub topic: String,
    /// The encoded envelope.
    pub payload: Vec<u8>,
    /// Records in it.
    pub records: u32,
    /// The lane that its records come from.
    pub lane: LaneKind,
    /// How the payload is written, compression aside.
    pub encoding: Encoding,
    /// How long it is of use; a broker that speaks MQTT 5 drops it afterwards. `None`: for ever.
    pub expiry: Option<Span>,
}

impl Batch {
    /// A batch of one JSON record of lane `live`.
    pub fn new(id: BatchId, topic: impl Into<String>, payload: impl Into<Vec<u8>>) -> Batch {
        Batch {
            id,
            topic: topic.into(),
            payload: payload.into(),
            records: 1,
            lane: LaneKind::Live,
            encoding: Encoding::Json,
            expiry: None,
        }
    }
}

/// One result for the devices' own broker, best effort: a display or a rule on the gateway
/// works while the cloud is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalRecord {
    /// Full topic.
    pub topic: String,
    /// The record as JSON, as it stands in an envelope.
    pub payload: Vec<u8>,
}

/// Something for a device, or for what connects it, on the devices' own broker. Best effort,
/// at `QoS` 0 and not retained: what needs it asks again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Full topic.
    pub topic: String,
    /// As the device reads it.
    pub payload: Vec<u8>,
}

/// An action of the shell, allowed because its cause is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Acknowledge an inbound message.
    Ack(DeliveryTag),
    /// Publish to the cloud at `QoS` 1 and report the acknowledgement.
    Publish(Batch),
    /// Publish to the devices' broker, if it can be done at once.
    PublishLocal(LocalRecord),
    /// Tell what became of a replay.
    Replayed(Replayed),
    /// Publish to the devices' broker, on the connection that messages come by, if it can be
    /// done at once.
    Command(Command),
    /// Tell a client of the listener.
    Tell {
        /// Its connection.
        connection: u32,
        /// What.
        what: ToClient,
    },
}

/// What one commit covers.
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// The page to persist; empty when nothing changed.
    pub writes: Vec<u8>,
    /// What may be done once `writes` are durable, in this order.
    pub effects: Vec<Effect>,
}

/// A source of clock readings; the shell's real clock, or a test's.
pub trait Clock {
    /// Reads all clocks at once.
    fn now(&self) -> Now;
}
