//! What the broker says about itself.

use serde::Serialize;

use super::Broker;

/// The broker's part of the status document. Counters are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BrokerStatus {
    /// Sessions, connected or not.
    pub sessions: usize,
    /// Those whose client is connected.
    pub connected: usize,
    /// Of all sessions.
    pub subscriptions: usize,
    /// Retained messages.
    pub retained: usize,
    /// Bytes of them.
    pub retained_bytes: usize,
    /// Deliveries at `QoS` 1 and 2 that are not acknowledged by their client, sent or not.
    pub queued: usize,
    /// Bytes that they need.
    pub queued_bytes: usize,
    /// What has happened.
    #[serde(flatten)]
    pub counters: Counters,
}

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Deliveries that were handed to connections, repeated ones too.
    pub delivered: u64,
    /// Deliveries that were given up because a queue, or all together, were full.
    pub dropped_queue_full: u64,
    /// Deliveries at `QoS` 0 that a slow connection had no room for.
    pub dropped_slow: u64,
    /// Deliveries whose time was over before they were sent.
    pub expired: u64,
    /// Retained messages that were passed on and not kept, for lack of room.
    pub retained_refused: u64,
    /// Last wills.
    pub wills_published: u64,
    /// Connections that had to go because their client id came again.
    pub taken_over: u64,
    /// Sessions that had to go because there were too many.
    pub sessions_evicted: u64,
    /// Clients that were not let in because there were too many.
    pub sessions_refused: u64,
    /// Sessions whose time was over.
    pub sessions_expired: u64,
}

impl Broker {
    /// Nothing in it would have to be stored.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.retained.len() == 0
    }

    /// What has happened.
    pub fn counters(&self) -> Counters {
        Counters { retained_refused: self.retained.refused, ..self.counters }
    }

    /// Figures for people.
    pub fn status(&self) -> BrokerStatus {
        BrokerStatus {
            sessions: self.sessions.len(),
            connected: self.links.len(),
            subscriptions: self.sessions.values().map(|session| session.subscriptions.len()).sum(),
            retained: self.retained.len(),
            retained_bytes: self.retained.bytes(),
            queued: self.sessions.values().map(|session| session.outgoing.len()).sum(),
            queued_bytes: self.messages.bytes(),
            counters: self.counters(),
        }
    }
}
