//! Outbox rows to what goes over the wire: the uplink contract.
//!
//! Topic `PREFIX/GATEWAY/data/LANE`. `id = gateway/stream/window/key/start_ms`,
//! each part percent-encoded outside `[A-Za-z0-9._~-]`.

pub mod json;

use crate::model::ids::push_escaped;

use super::outbox::LaneKind;

/// Version of the envelope.
pub const ENVELOPE_VERSION: u32 = 1;

/// What all batches of one gateway share.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// First level of every topic.
    pub topic_prefix: &'a str,
    /// The gateway's id, verbatim.
    pub gateway: &'a str,
}

impl Envelope<'_> {
    /// The topic of a lane.
    pub fn topic(&self, lane: LaneKind) -> String {
        let mut topic = String::with_capacity(64);
        topic.push_str(self.topic_prefix);
        topic.push('/');
        push_escaped(&mut topic, self.gateway);
        topic.push_str("/data/");
        topic.push_str(lane.as_str());
        topic
    }
}
