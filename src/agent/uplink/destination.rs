//! Where results go, which a document may change, and what was acknowledged there.

use crate::config::boot::BrokerSpec;

/// The broker to publish to, from now on. Counted, so that nobody takes an answer of one for that of another.
#[derive(Clone, Debug)]
pub struct Destination {
    /// How many there were before.
    pub number: u32,
    /// The broker.
    pub broker: BrokerSpec,
}

/// A status that the cloud's broker has acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatusAcked {
    /// How many configurations the process had before the one that it speaks of.
    pub configuration: u32,
    /// How many brokers there were before this one.
    pub destination: u32,
}
