//! What the broker of the listener keeps at most. Everything in it is bounded; what happens
//! when a bound is met stands at each.

use crate::model::limits::INBOUND_MAX;
use crate::model::time::Span;

/// Bytes of a session as stored: its name and deadlines, and its place.
const SESSION_BYTES: usize = 192;
/// The same for each message that may be in flight: what it was at `QoS` 1, or its packet id at
/// `QoS` 2.
const IN_FLIGHT_BYTES: usize = 12;
const PACKET_ID_BYTES: usize = 4;

/// Bounds of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerLimits {
    /// Sessions, connected or not. Full: the session that has been without its client for
    /// longest ends; if all have theirs, the newcomer is refused.
    pub sessions: usize,
    /// Subscriptions of one session. Beyond: refused (0x97).
    pub subscriptions: usize,
    /// Bytes that the subscriptions of all sessions take. Beyond: refused (0x97).
    pub subscription_bytes: usize,
    /// Messages at `QoS` 1 and 2 that are unacknowledged towards one client, and at `QoS` 2
    /// from one client that are not released. So many messages at `QoS` 1 of a session are
    /// remembered, in 8 bytes each.
    pub in_flight: u16,
    /// Messages that wait for one client. Beyond: the oldest that waits is dropped and counted.
    pub queue_messages: usize,
    /// Bytes (topic, payload, properties) that wait for all clients together. Beyond: the
    /// newest is dropped and counted.
    pub queue_bytes: usize,
    /// Retained messages. Beyond: the new one is passed on, not kept, and counted.
    pub retained_messages: usize,
    /// Bytes of all retained messages. Beyond: as above.
    pub retained_bytes: usize,
    /// The longest that a session outlives its connection; whoever asks for more gets this.
    pub session_expiry_max: Span,
    /// Longest time between a message at `QoS` 1 or 2 of a client and the commit that
    /// acknowledges it.
    pub ack_within: Span,
}

impl Default for BrokerLimits {
    fn default() -> BrokerLimits {
        BrokerLimits {
            sessions: 2_000,
            subscriptions: 128,
            subscription_bytes: 16 * 1024 * 1024,
            in_flight: 100,
            queue_messages: 1_000,
            queue_bytes: 8 * 1024 * 1024,
            retained_messages: 4_096,
            retained_bytes: 4 * 1024 * 1024,
            session_expiry_max: Span::from_secs(7 * 86_400),
            ack_within: Span::from_millis(50),
        }
    }
}

impl BrokerLimits {
    /// Bytes that all of it may take of a snapshot. Filters are counted twice in memory, and
    /// stand there once; so do messages that many wait for.
    pub fn cost(&self) -> usize {
        let session = SESSION_BYTES + usize::from(self.in_flight) * IN_FLIGHT_BYTES;
        let filters = self.subscription_bytes / 2;
        let state = self.queue_bytes + self.retained_bytes + filters + INBOUND_MAX * PACKET_ID_BYTES;
        self.sessions.saturating_mul(session).saturating_add(state)
    }
}
