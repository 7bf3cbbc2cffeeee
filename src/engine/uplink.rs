//! The engine's side of the outbox: what is next for the uplink, what a person should
//! know, and what it means that state was lost.

use crate::model::time::Now;

use super::Engine;
use super::encode::Envelope;
use super::outbox::row::Row;
use super::outbox::{LaneKind, Next, Outbox};

impl Engine {
    /// Hands over every row that is held and lets go of it: for replays, where
    /// printing is the acknowledgement.
    pub fn take_rows(&mut self, each: &mut dyn FnMut(LaneKind, u64, &Row<'_>)) {
        self.outbox.take_rows(each);
    }

    /// The outbox, to look at.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The outbox, for the driver, which moves its older rows to the chain and back.
    pub(super) fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// What to do next for the uplink, if it is up and something durable waits.
    pub fn next_for_uplink(&mut self, now: Now) -> Next {
        if !self.uplink_up {
            return Next::Nothing;
        }
        let envelope = Envelope {
            topic_prefix: &self.spec.topic_prefix,
            gateway: self.spec.gateway.as_str(),
            encoding: self.spec.encoding,
        };
        self.outbox.next(now, envelope)
    }

    /// State was lost: what comes now counts under a higher epoch, and windows
    /// that may lack records say so.
    pub fn start_epoch(&mut self, now: Now, floor: u64, lost: bool) {
        // Wall-clock seconds, so that a new card in an old gateway still rises.
        let clock = u64::try_from(now.wall.as_millis() / 1_000).unwrap_or(0);
        self.outbox.start_epoch(floor.max(self.outbox.epoch()).saturating_add(1).max(clock));
        if lost {
            self.partial_before = Some(now.wall.as_event_time());
            for stream in &mut self.streams {
                stream.mark_open_as_partial();
            }
        }
    }

    /// Gives up the older half of the rows in memory, leaving gaps that say so. False
    /// when nothing could be given up.
    pub fn shed_outbox(&mut self) -> bool {
        self.outbox.shed(self.outbox.memory() / 2)
    }

    /// Queues something that a person should know.
    pub fn raise_alarm(&mut self, now: Now, code: &str, text: &str) {
        self.outbox.alarm(now, code, text);
    }
}
