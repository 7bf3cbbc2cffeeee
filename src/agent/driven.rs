//! The driver as the engine thread's engine.

use serde::Serialize;

use crate::engine::broker::status::Counters;
use crate::engine::chain::Chain;
use crate::engine::driver::{Driver, StorageStatus};
use crate::engine::outbox::Outbox;
use crate::engine::samples::Sample;
use crate::engine::spec::PipelineSpec;
use crate::engine::status::Status;
use crate::engine::step::{Effect, Event};
use crate::engine::store::Store;
use crate::engine::wear::Written;
use crate::model::time::{Now, ProcTime};

use super::engine_thread::Engine;

/// The engine's part of the status document.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    engine: Status,
    storage: StorageStatus,
}

impl<S: Store + Chain> Engine for Driver<S> {
    fn handle(&mut self, now: Now, event: Event<'_>) {
        Driver::handle(self, now, event);
    }

    fn advance(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        Driver::advance(self, now, perform);
    }

    fn tell_early(&mut self, perform: &mut dyn FnMut(Effect)) -> bool {
        Driver::tell_early(self, perform)
    }

    fn next_deadline(&self, _now: Now) -> Option<ProcTime> {
        Driver::next_deadline(self)
    }

    fn stop(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        Driver::stop(self, now, perform);
    }

    fn health(&self) -> Vec<String> {
        let StorageStatus { failure, outbox_failure, warning, .. } = self.storage_status();
        let of_outbox = outbox_failure.map(|reason| format!("the outbox on disk: {reason}"));
        failure.into_iter().chain(of_outbox).chain(warning).collect()
    }

    fn unacknowledged(&self) -> usize {
        self.engine().uncommitted_messages()
    }

    fn client_counters(&self) -> Option<Counters> {
        self.engine().client_counters()
    }

    fn written(&self) -> Written {
        Driver::written(self)
    }

    fn take_samples(&mut self) -> Vec<Sample> {
        Driver::take_samples(self)
    }

    fn outbox(&self) -> Option<&Outbox> {
        Some(self.engine().outbox())
    }

    fn reconfigure(
        &mut self,
        now: Now,
        pipeline: &PipelineSpec,
        perform: &mut dyn FnMut(Effect),
    ) -> Result<(), String> {
        Driver::reconfigure(self, now, pipeline, perform).map_err(|error| error.to_string())
    }

    fn flush(&mut self, now: Now, snapshot: bool, perform: &mut dyn FnMut(Effect)) -> Result<(), String> {
        if snapshot {
            Driver::stop(self, now, perform);
        } else {
            Driver::flush(self, now, perform);
        }
        self.storage_status().failure.map_or(Ok(()), Err)
    }

    fn devices(&self, stream: &str, after: &str, limit: usize) -> Option<serde_json::Value> {
        let devices = self.engine().devices_of(stream, after, limit)?;
        Some(serde_json::to_value(devices).expect("numbers and text always serialise"))
    }

    fn report(&self, now: Now) -> serde_json::Value {
        let report = Report { engine: self.status(now), storage: self.storage_status() };
        serde_json::to_value(report).expect("numbers and text always serialise")
    }
}
