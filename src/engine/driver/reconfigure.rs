//! Another configuration, between two commits.

use super::Driver;
use crate::engine::chain::Chain;
use crate::engine::spec::PipelineSpec;
use crate::engine::step::{Effect, Event};
use crate::engine::store::Store;
use crate::engine::wire::Damaged;
use crate::model::time::Now;

/// Why the configuration stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReconfigureError {
    /// What came before could not be made durable.
    #[error("storage does not take writes: {0}")]
    Storage(String),
    /// A fault of ours: a stream cannot read what it has written.
    #[error("the state of a stream cannot be carried over")]
    State,
}

impl From<Damaged> for ReconfigureError {
    fn from(Damaged: Damaged) -> ReconfigureError {
        ReconfigureError::State
    }
}

impl<S: Store + Chain> Driver<S> {
    /// Goes over to other streams, joins and bounds of the outbox, at a commit: what came before
    /// is durable, and done, under the configuration of before.
    ///
    /// # Errors
    /// [`ReconfigureError`]; then nothing has changed.
    pub fn reconfigure(
        &mut self,
        now: Now,
        pipeline: &PipelineSpec,
        perform: &mut dyn FnMut(Effect),
    ) -> Result<(), ReconfigureError> {
        if self.engine.next_deadline().is_some_and(|at| at <= now.proc) {
            self.handle(now, Event::Tick);
        }
        self.make_room(now, true);
        self.commit(now, perform);
        if let Some(failure) = &self.failure {
            return Err(ReconfigureError::Storage(failure.reason.clone()));
        }
        if self.engine.reconfigure(now, pipeline)? {
            self.snapshot_needed = true;
            self.policy.handle_urgent(now.proc);
            self.make_room(now, true);
            self.commit(now, perform);
            if self.snapshot_needed && self.failure.is_none() {
                // Nothing was to be written; what the numbers of the next page mean is.
                self.snapshot_now(now);
            }
        }
        Ok(())
    }
}
