//! A document on trial: confirmed by the acknowledgement of a status, or taken back.

use tracing::{error, info};

use crate::agent::clock::wall;
use crate::model::time::{ProcTime, Span};

use super::Running;
use super::journal::Entry;
use super::reported::{News, Origin, Shown, State};
use super::steward::Steward;

/// After a way back that the store did not take.
const TRY_AGAIN: Span = Span::from_secs(5);

/// A document that has to show that it works.
pub(super) struct Trial {
    pub entry: Entry,
    pub origin: Origin,
    pub before: Running,
    /// The status that has to be acknowledged is of it.
    pub configuration: u32,
    pub until: ProcTime,
    pub warnings: Vec<Shown>,
    /// Why it is going back; that is tried until the store takes it.
    pub failed: Option<String>,
}

impl Steward {
    /// What has become of it by now.
    pub(super) async fn look_at_trial(&mut self) {
        let Some(trial) = &self.trial else { return };
        let now = self.clock.proc();
        if let Some(reason) = trial.failed.clone().filter(|_| trial.until <= now) {
            return self.take_back(&reason).await;
        }
        let acked = *self.reins.acked.borrow_and_update();
        let is_acked = acked.configuration >= trial.configuration && acked.destination >= self.destination;
        // One that came by the devices' broker has nothing to do with the cloud; the engine has answered.
        if trial.failed.is_none() && (is_acked || trial.origin == Origin::Local) {
            return self.confirm().await;
        }
        if trial.failed.is_none() && trial.until <= now {
            self.take_back("no status was acknowledged by the cloud's broker in time").await;
        }
    }

    async fn confirm(&mut self) {
        let at_ms = wall().as_millis();
        if let Err(error) = self.journal(move |journal| journal.confirm(at_ms)).await {
            return self.take_back(&format!("the gateway's storage does not take writes: {error}")).await;
        }
        let Some(Trial { entry, origin, before, warnings, .. }) = self.trial.take() else { return };
        info!(version = entry.version, hash = %entry.hash, "a configuration is confirmed");
        let news = News::new(State::Confirmed, origin, Some(entry.version), Some(entry.hash));
        self.report(&News { warnings, ..news });
        drop(before);
        self.tell_health().await;
    }

    /// The one before it is back. What the store does not take now is tried again.
    pub(super) async fn take_back(&mut self, reason: &str) {
        let Some(trial) = &self.trial else { return };
        let (pipeline, hash) = (trial.before.config.pipeline.clone(), trial.before.config.hash.clone());
        if let Err(error) = self.reconfigure(&pipeline, &hash).await {
            error!(%error, "the configuration before cannot be put back yet");
            let until = self.clock.proc() + TRY_AGAIN;
            if let Some(trial) = &mut self.trial {
                (trial.failed, trial.until) = (Some(reason.to_owned()), until);
            }
            return;
        }
        let Some(Trial { entry, origin, before, warnings, .. }) = self.trial.take() else { return };
        self.running = before;
        self.steer();
        let news = News::new(State::RolledBack, origin, Some(entry.version), Some(entry.hash));
        self.give_up(reason, News { warnings, reason: Some(reason.to_owned()), ..news }).await;
    }
}
