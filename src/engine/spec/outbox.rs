//! What the outbox may hold, and how fast it may be emptied.

use crate::engine::outbox::LaneKind;
use crate::model::limits::{BATCH_PAYLOAD_BYTES_MAX, OUTBOX_BYTES_DEFAULT, OUTBOX_MEMORY_MAX, UPLINK_WINDOW};
use crate::model::time::Span;

/// Bounds of the outbox. What is beyond them is given up, oldest first and from the
/// lowest lane, with a gap record that says what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxSpec {
    /// Bytes as stored, in memory and on disk. > 0.
    pub bytes_max: u64,
    /// Bytes of rows in memory, and so in snapshots. Reached only while the disk
    /// does not take them. > 0.
    pub memory_max: usize,
    /// Per lane, in the order of [`LaneKind::ALL`].
    pub lanes: [LaneSpec; LaneKind::ALL.len()],
}

/// Bounds of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LaneSpec {
    /// Bytes as stored; `None`: only the bound of all lanes.
    pub bytes_max: Option<u64>,
    /// How old a record may become before it is sent, while the agent runs; `None`: any age.
    pub age_max: Option<Span>,
}

impl OutboxSpec {
    /// The same bound everywhere, for whoever has no chain.
    pub fn of(bytes_max: usize) -> OutboxSpec {
        OutboxSpec { bytes_max: bytes_max as u64, memory_max: bytes_max, lanes: Default::default() }
    }
}

impl Default for OutboxSpec {
    fn default() -> Self {
        OutboxSpec { bytes_max: OUTBOX_BYTES_DEFAULT, memory_max: OUTBOX_MEMORY_MAX, lanes: Default::default() }
    }
}

/// How the outbox is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkPolicy {
    /// Messages per second; `None`: as many as go. > 0.
    pub messages_per_second: Option<u64>,
    /// Bytes of payload per second. > 0.
    pub bytes_per_second: Option<u64>,
    /// Bytes of payload per day (UTC). > 0.
    pub bytes_per_day: Option<u64>,
    /// Percent of the uplink for lanes `backlog` and `late` while others have something
    /// to send too; 1 to 99.
    pub backlog_share: u8,
    /// Bytes of one payload, before compression.
    pub payload_max: usize,
    /// Batches that may be unacknowledged, at least 1.
    pub window: usize,
    /// Payloads are compressed.
    pub compressed: bool,
}

impl Default for UplinkPolicy {
    fn default() -> Self {
        UplinkPolicy {
            messages_per_second: None,
            bytes_per_second: None,
            bytes_per_day: None,
            backlog_share: 50,
            payload_max: BATCH_PAYLOAD_BYTES_MAX,
            window: UPLINK_WINDOW,
            compressed: false,
        }
    }
}
