//! One fleet of every kind of device that there is a preset for, all at once. PURE and
//! seeded: the same [`MixedSpec`] gives the same messages on every machine.
//!
//! ```text
//! plan      who measures when, whose connection is gone, what arrives late
//!   └ systems   how the measurement of one make of device looks on the wire,
//!               and what a careful reader takes from it: its `Meaning`
//! books     what has to come of all the messages: windows, late readings, counts
//! ```
//!
//! Nothing here knows how the engine reads a payload. A system writes its bytes and says
//! beside them what they mean; [`books`] adds the meanings up.
//!
//! All numbers are multiples of 1/8 below 2^40, so sums are exact in any order. Devices that
//! send a time are disordered within the bound, keep their readings while they are offline,
//! and now and then send one much later; those without one send when they measure, and what
//! they measure offline is lost. Memory: all messages of a run, some 500 bytes each.

pub mod books;
mod plan;
mod streams;
mod systems;
mod written;

use crate::model::time::{EventTime, Span};

pub use plan::plan;
pub use systems::{ALL, CLIMATE, System};

/// Event time of the beginning: 2024-03-31 00:30 UTC. Half an hour later the clocks of
/// Berlin, and of the devices that show them, go from 2:00 to 3:00.
pub const START: EventTime = EventTime::from_millis(1_711_845_000_000);

/// What the fleet does.
#[derive(Clone, Copy, Debug)]
pub struct MixedSpec {
    /// Names the run.
    pub seed: u64,
    /// Devices of each system.
    pub devices: u32,
    /// How long they measure.
    pub duration: Span,
    /// Longest time from a measurement to its sending, stragglers and gaps aside.
    pub disorder: Span,
    /// Some messages are retained ones that tell nothing new.
    pub retained: bool,
}

/// What a device measured, before anybody writes it down.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// When.
    pub at: EventTime,
    /// So many measurements of the device came before.
    pub number: u64,
    /// A temperature in degrees: quarters, −40 ..= 50.
    pub warmth: f64,
    /// A share in per cent: quarters, 0 ..= 100.
    pub share: f64,
    /// For whatever else a system needs.
    pub chance: u64,
}

/// One message, and what it means.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// Full topic.
    pub topic: String,
    /// Any bytes.
    pub payload: Vec<u8>,
    /// Record by record, in their order.
    pub means: Vec<Meaning>,
}

/// What one record of a message is to the stream of its system.
#[derive(Clone, PartialEq, Debug)]
pub enum Meaning {
    /// A reading.
    Reading(Reading),
    /// A copy of a reading of this device that came before.
    Copy(String),
    /// Refused for this reason.
    Refused(&'static str),
    /// Passed over by the filter of the stream.
    Filtered,
    /// Not for the stream, by its configuration.
    Ignored,
    /// Somebody is there, or not.
    Presence(Whom, bool),
}

/// Who a word of presence is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whom {
    /// This device.
    Device(String),
    /// Devices whose names begin so.
    Below(String),
    /// All of the system.
    All,
}

/// One reading.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// Whose.
    pub device: String,
    /// The time in it, as exact as it is written; `None`: it has none that can be used.
    pub at: Option<EventTime>,
    /// Every number by the name that it has in results.
    pub values: Vec<(String, f64)>,
}

/// One message on its way to the broker.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// When it is sent: an offset from the start.
    pub at: Span,
    /// The system, as `preset` names it.
    pub system: &'static str,
    /// Sent as one that was retained.
    pub retained: bool,
    /// The message.
    pub message: Message,
}

impl Message {
    fn new(topic: String, payload: impl Into<Vec<u8>>, means: Vec<Meaning>) -> Message {
        Message { topic, payload: payload.into(), means }
    }

    fn reading(topic: String, payload: impl Into<Vec<u8>>, reading: Reading) -> Message {
        Message::new(topic, payload, vec![Meaning::Reading(reading)])
    }

    fn refused(topic: String, payload: impl Into<Vec<u8>>, reason: &'static str) -> Message {
        Message::new(topic, payload, vec![Meaning::Refused(reason)])
    }

    fn ignored(topic: String, payload: impl Into<Vec<u8>>) -> Message {
        Message::new(topic, payload, vec![Meaning::Ignored])
    }

    fn presence(topic: String, payload: impl Into<Vec<u8>>, whom: Whom, online: bool) -> Message {
        Message::new(topic, payload, vec![Meaning::Presence(whom, online)])
    }
}

impl Reading {
    fn new(device: impl Into<String>, at: Option<EventTime>) -> Reading {
        Reading { device: device.into(), at, values: Vec::new() }
    }

    fn with(mut self, name: &str, value: f64) -> Reading {
        self.values.push((name.to_owned(), value));
        self
    }
}
