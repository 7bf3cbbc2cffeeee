//! What somebody far away wants: another configuration, a commit, a look at the devices.

use tracing::{info, warn};

use crate::agent::inbox::{Order, Reconfigure};
use crate::engine::step::Clock;
use crate::model::time::Now;

use super::{Engine, EngineThread};

impl<E: Engine> EngineThread<E> {
    /// Whoever asked may have gone: what was begun is done all the same.
    pub(super) fn reconfigure(&mut self, now: Now, wanted: Reconfigure) {
        let Reconfigure { pipeline, hash, answer } = wanted;
        let changed = self.engine.reconfigure(now, &pipeline, &mut |effect| self.routes.perform(effect));
        let took_ms = self.clock.now().proc.since(now.proc).as_millis();
        match &changed {
            Ok(()) => {
                self.configuration += 1;
                self.identity.config_hash = hash;
                // It is acknowledged under the new one, which is how one knows that it works.
                self.status_at = self.status_at.map(|_| now.proc);
                info!(took_ms, hash = %self.identity.config_hash, "another configuration");
            }
            Err(reason) => warn!(took_ms, %reason, "the configuration stays as it is"),
        }
        let _ = answer.send(changed.map(|()| self.configuration));
    }

    pub(super) fn obey(&mut self, now: Now, order: Order) {
        match order {
            Order::Flush(answer) => drop(answer.send(self.flush(now, false))),
            Order::Snapshot(answer) => drop(answer.send(self.flush(now, true))),
            Order::Devices { stream, after, limit, answer } => {
                drop(answer.send(self.engine.devices(&stream, &after, limit)));
            }
        }
    }

    fn flush(&mut self, now: Now, snapshot: bool) -> Result<(), String> {
        self.engine.flush(now, snapshot, &mut |effect| self.routes.perform(effect))
    }
}
