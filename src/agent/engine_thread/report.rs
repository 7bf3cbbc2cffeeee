//! What the thread says about itself and everything around it: health, the status document,
//! systemd's line.

use tracing::debug;

use crate::agent::rejected::Samples;
use crate::agent::status::{Status, add_reasons};
use crate::model::time::Now;

use super::{Engine, EngineThread, HEALTH_EVERY, STATUS_EVERY};

impl<E: Engine> EngineThread<E> {
    /// The retained status, when it is due or health has changed, and systemd's line.
    pub(super) fn publish_status(&mut self, now: Now) {
        let due = self.status_at.is_some_and(|at| at <= now.proc);
        if !due && now.proc.since(self.health_at) < HEALTH_EVERY {
            return;
        }
        self.health_at = now.proc;
        self.wear.note(now.proc, &self.engine.written());
        if let Some(counters) = self.engine.client_counters() {
            self.drops.look(now.proc, &counters);
        }
        let health = self.health();
        if let Some(worst) = health.first() {
            self.supervision.handle_line(now.proc, &format!("degraded: {worst}"));
        } else {
            self.supervision.handle_line(now.proc, "all connected, healthy");
        }
        let changed = health != self.health;
        if changed {
            debug!(reasons = ?health, "health changed");
            self.health = health;
        }
        if self.status_at.is_some() && (due || changed) {
            let report = self.engine.report(now);
            let document = self.status(now, &self.health, &report).online();
            let every = if self.routes.send_status(document, self.configuration) { STATUS_EVERY } else { HEALTH_EVERY };
            self.status_at = Some(now.proc + every);
        }
    }

    pub(super) fn health(&self) -> Vec<String> {
        let mut reasons = self.engine.health();
        reasons.extend(self.wear.trouble());
        reasons.extend(Some(self.config_notice.clone()).filter(|notice| !notice.is_empty()));
        let facts = |wanted: bool, facts| Some(facts).filter(|_| wanted);
        add_reasons(&mut reasons, facts(self.peers.devices, &self.devices), facts(self.peers.uplink, &self.uplink));
        if let Some((listener, _)) = &self.peers.listener {
            reasons.extend(listener.trouble());
        }
        reasons
    }

    pub(super) fn status<'a>(&'a self, now: Now, health: &'a [String], engine: &'a serde_json::Value) -> Status<'a> {
        let local = self.local.as_ref();
        Status {
            identity: &self.identity,
            now,
            devices: Some(&self.devices).filter(|_| self.peers.devices),
            uplink: Some(&self.uplink).filter(|_| self.peers.uplink),
            listener: self.peers.listener.as_ref().map(|(facts, _)| facts.status()),
            local,
            wear: self.wear.status(),
            samples: self.samples.as_ref().map(Samples::facts),
            health,
            engine,
        }
    }
}
