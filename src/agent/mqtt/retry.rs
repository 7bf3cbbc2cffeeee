//! What happens between two connections: how long to wait, and what the log says. A reason
//! that stays the same is a warning once.

use tracing::{debug, warn};

use crate::agent::clock::entropy;
use crate::config::boot::BrokerSpec;
use crate::model::time::{ProcTime, Span};

use super::backoff::Backoff;

/// The retries of one connection.
pub struct Retry {
    backoff: Backoff,
    broker: String,
    /// What it means that there is none, for the log.
    consequence: &'static str,
    reported: String,
}

impl Retry {
    /// `wait_max`: the longest wait between two attempts.
    pub fn new(broker: &BrokerSpec, wait_max: Span, consequence: &'static str) -> Retry {
        Retry {
            backoff: Backoff::new(&broker.client_id, entropy(), wait_max),
            broker: broker.host.clone(),
            consequence,
            reported: String::new(),
        }
    }

    /// The broker accepted us.
    pub fn handle_up(&mut self, now: ProcTime) {
        self.backoff.handle_up(now);
        self.reported.clear();
    }

    /// The connection ended, or the attempt failed: how long to wait.
    pub fn handle_down(&mut self, now: ProcTime, reason: &str) -> Span {
        let wait = self.backoff.handle_down(now);
        let (broker, wait_ms) = (&self.broker, wait.as_millis());
        if reason == self.reported {
            debug!(%broker, reason, wait_ms, "still {}", self.consequence);
        } else {
            warn!(%broker, reason, wait_ms, "{}", self.consequence);
            reason.clone_into(&mut self.reported);
        }
        wait
    }
}
