//! Who carries a document through: checked, written down, applied, tried, confirmed or taken back.
//!
//! ```text
//!            ┌ rejected     what is wrong, all of it
//! desired ─ check ─ written down ─ applied ─ trial ┬ confirmed     a status was acknowledged under it
//!            └ unchanged                           └ rolled_back   not in time, or it could not be applied
//! ```
//!
//! One at a time. What comes in a trial waits, and only the last of it counts. The engine goes over between two
//! commits, so each record counts under one document; a crash at any of these arrows starts with the confirmed one.
//! Another broker for the cloud is tried on a connection of its own before the present one is given up.

use std::time::Duration;

use bytes::Bytes;
use flume::{Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};

use crate::agent::clock::{SystemClock, sleep, wall};
use crate::agent::inbox::{InboxSender, Input, Reconfigure};
use crate::agent::rejected::Samples;
use crate::agent::signed;
use crate::agent::tasks::{Reins, filters};
use crate::agent::uplink::destination::Destination;
use crate::config::boot::BrokerSpec;
use crate::config::check::desired::{Desired, check_desired, glance};
use crate::config::check::{Checked, Refused};
use crate::engine::spec::PipelineSpec;
use crate::model::time::Span;

use super::journal::{Entry, Journal};
use super::probe::probe;
use super::reported::{News, Origin, Shown, State, shown};
use super::session::{Heard, Said, What};
use super::trial::Trial;
use super::{Running, Source};

/// Without a trial nothing is due; the longest one is as long.
const LOOK_AGAIN: Span = Span::from_secs(3_600);

/// One of the brokers that documents come by.
pub(super) struct Wire {
    pub origin: Origin,
    pub reported: watch::Sender<Bytes>,
    pub said: Sender<Said>,
    pub broker: watch::Sender<BrokerSpec>,
}

/// See the module.
pub(super) struct Steward {
    pub clock: SystemClock,
    pub gateway: String,
    /// `<prefix>/<gw>`.
    pub base: String,
    pub public_key: Option<[u8; 32]>,
    pub source: Source,
    /// `None`: it cannot be used, and no document is taken.
    pub journal: Option<Journal>,
    pub running: Running,
    pub reins: Reins,
    pub inbox: InboxSender,
    pub samples: Samples,
    pub wires: Vec<Wire>,
    pub heard: Receiver<Heard>,
    /// Ends the process, to be started again.
    pub restart: Sender<()>,
    pub trial: Option<Trial>,
    /// What came meanwhile.
    pub waiting: Option<Document>,
    pub destination: u32,
}

/// A text that somebody wants to be the configuration.
pub(super) struct Document {
    pub text: String,
    pub origin: Origin,
    /// It was there before we listened.
    pub retained: bool,
}

impl Steward {
    /// Until the agent stops.
    pub(super) async fn run(mut self, news: News, mut stop: watch::Receiver<bool>) {
        self.tell_health().await;
        self.report(&news);
        loop {
            let until = self.trial.as_ref().map_or(LOOK_AGAIN, |trial| trial.until.since(self.clock.proc()));
            let waits = self.trial.is_some() && acked_is_open(&self.reins);
            let heard = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                _ = self.reins.acked.changed(), if waits => None,
                () = sleep(until) => None,
                heard = self.heard.recv_async() => match heard {
                    Ok(heard) => Some(heard),
                    Err(_) => break,
                },
            };
            match heard {
                Some(heard) => self.handle(heard, &mut stop).await,
                None => self.look_at_trial().await,
            }
            if self.trial.is_none()
                && let Some(document) = self.waiting.take()
            {
                self.consider(document, &mut stop).await;
            }
            if self.trial.is_none() {
                self.follow();
            }
        }
        // The process was told to end: what is on trial may come again.
        if let Err(error) = self.journal(Journal::close).await {
            warn!(%error, "the end was not written down: it will look like a crash");
        }
    }

    async fn handle(&mut self, heard: Heard, stop: &mut watch::Receiver<bool>) {
        let Heard { origin, receipt, what, payload, retained, answer_to } = heard;
        match what {
            What::Desired => {
                if let Some(text) = self.opened(origin, &payload) {
                    let document = Document { text, origin, retained };
                    if self.trial.is_some() {
                        self.waiting = Some(document);
                    } else {
                        self.consider(document, stop).await;
                    }
                }
            }
            What::Command(name) => self.command(origin, &name, &payload, retained, answer_to).await,
        }
        if let Some(receipt) = receipt {
            self.say(origin, Said::Done(receipt)).await;
        }
    }

    /// The text, if it is of whoever may send one.
    fn opened(&self, origin: Origin, payload: &[u8]) -> Option<String> {
        if payload.is_empty() {
            info!("nothing is desired any more: what runs goes on");
            return None;
        }
        let refuse = |message: String, hint: Option<&str>| {
            self.report(&News::new(State::Rejected, origin, None, None).because(Shown::new(message, hint)));
            None
        };
        if let Some(key) = &self.public_key {
            return match signed::open(key, signed::CONFIG_KIND, &self.gateway, payload) {
                Ok(text) => Some(text),
                Err(error) => refuse(error.to_string(), Some("sign it: `tidegate remote set --key`")),
            };
        }
        match std::str::from_utf8(payload) {
            Ok(text) => Some(text.to_owned()),
            Err(error) => refuse(format!("not UTF-8: {error}"), None),
        }
    }

    /// From its text to the begin of its trial.
    async fn consider(&mut self, document: Document, stop: &mut watch::Receiver<bool>) {
        let Document { text, origin, retained } = document;
        let (version, hash) = glance(&text);
        let news = |state| News::new(state, origin, version, hash.clone());
        if let Some(hash) = &hash {
            let said = if self.running.hash() == Some(hash) {
                Some(news(State::Unchanged))
            } else if let Some(ended) = self.journal.as_ref().and_then(|journal| journal.ended(hash)) {
                let message = format!("it was tried before, and taken back: {}", ended.reason);
                let hint = "change it; where it is to be tried again as it is, give it another version";
                Some(news(State::Rejected).because(Shown::new(message, Some(hint))))
            } else {
                None
            };
            if let Some(said) = said {
                // What is retained comes with each connection, and is nothing new.
                if !retained {
                    self.report(&said);
                }
                return;
            }
        }
        let checked = match self.check(text.clone()).await {
            Ok(checked) => checked,
            Err(refused) => {
                info!(problems = refused.problems.len(), "a configuration was sent that cannot be used");
                return self.report(&news(State::Rejected).refused(&refused));
            }
        };
        if let Err(problem) = self.may_begin(checked.config.version).await {
            return self.report(&news(State::Rejected).because(problem));
        }
        self.begin(text, origin, checked, stop).await;
    }

    async fn check(&self, text: String) -> Result<Checked<Desired>, Refused> {
        let source = self.source.clone();
        let check = move || check_desired(&text, &source.text, &source.file);
        tokio::task::spawn_blocking(check).await.unwrap_or_else(|_panicked| {
            error!("a fault of ours: the check of a configuration has ended");
            Err(Refused { problems: Vec::new(), warnings: Vec::new() })
        })
    }

    /// Signed documents count up: none is replayed.
    async fn may_begin(&mut self, version: u64) -> Result<(), Shown> {
        if self.journal.is_none() {
            return Err(Shown::new("the gateway has no place to write it down: see its log", None));
        }
        if self.public_key.is_none() {
            return Ok(());
        }
        match self.journal(move |journal| journal.take_version(false, version)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Shown::new("a signed document with this version, or a later one, was taken before", None)),
            Err(error) => Err(Shown::new(format!("the gateway's storage does not take writes: {error}"), None)),
        }
    }

    async fn begin(
        &mut self,
        text: String,
        origin: Origin,
        checked: Checked<Desired>,
        stop: &mut watch::Receiver<bool>,
    ) {
        let Checked { config: Desired { version, trial, config }, hash, warnings } = checked;
        let entry = Entry { version, hash: hash.clone(), at_ms: wall().as_millis() };
        let warnings = shown(&warnings);
        let news =
            |state| News { warnings: warnings.clone(), ..News::new(state, origin, Some(version), Some(hash.clone())) };
        let noted = entry.clone();
        if let Err(error) = self.journal(move |journal| journal.begin(noted, &text)).await {
            let problem = Shown::new(format!("the gateway's storage does not take writes: {error}"), None);
            return self.report(&news(State::Rejected).because(problem));
        }
        let until = self.clock.proc() + trial;
        let moves = config.uplink != self.running.config.uplink;
        if let (true, Some(broker)) = (moves, &config.uplink) {
            let tried = tokio::select! {
                tried = probe(broker, &self.base, trial) => tried,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            if let Err(reason) = tried {
                let reason = format!("{}: {reason}", broker.host);
                return self.give_up(&reason, News { reason: Some(reason.clone()), ..news(State::RolledBack) }).await;
            }
        }
        let configuration = match self.reconfigure(&config.pipeline, &config.hash).await {
            Ok(configuration) => configuration,
            Err(reason) => {
                return self.give_up(&reason, News { reason: Some(reason.clone()), ..news(State::RolledBack) }).await;
            }
        };
        super::crash_if_asked(version);
        let before = std::mem::replace(&mut self.running, Running { config, entry: Some(entry.clone()) });
        self.steer();
        let warnings = warnings.clone();
        self.trial = Some(Trial { entry, origin, before, configuration, until, warnings, failed: None });
        self.report(&news(State::Applied));
        self.report(&News { trial: Some(trial), ..news(State::Trial) });
        self.look_at_trial().await;
    }

    /// Nothing has changed yet.
    pub(super) async fn give_up(&mut self, reason: &str, news: News) {
        let reason = reason.to_owned();
        warn!(%reason, "a configuration was not applied");
        if let Err(error) = self.journal(move |journal| journal.fail(&reason)).await {
            warn!(%error, "what came of a configuration was not written down");
        }
        self.report(&news);
    }

    /// Has the engine go over.
    pub(super) async fn reconfigure(&self, pipeline: &PipelineSpec, hash: &str) -> Result<u32, String> {
        let (answer, answered) = oneshot::channel();
        let wanted = Reconfigure { pipeline: pipeline.clone(), hash: hash.to_owned(), answer };
        let gone = || "the agent is stopping".to_owned();
        self.inbox.send(Input::Reconfigure(Box::new(wanted))).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// The tasks do what the running configuration says.
    pub(super) fn steer(&mut self) {
        let wanted = filters(&self.running.config.pipeline);
        self.reins.filters.send_if_modified(|filters| {
            let differs = *filters != wanted;
            *filters = wanted;
            differs
        });
        if let (Some(destination), Some(broker)) = (&self.reins.destination, &self.running.config.uplink)
            && destination.borrow().broker != *broker
        {
            self.destination += 1;
            destination.send_replace(Destination { number: self.destination, broker: broker.clone() });
        }
    }

    /// The session at the cloud's broker goes where results go, once everything is said where it is.
    fn follow(&self) {
        let Some(broker) = self.running.config.uplink.as_ref().map(super::own_session) else { return };
        for wire in self.wires.iter().filter(|wire| wire.origin == Origin::Uplink) {
            wire.broker.send_if_modified(|present| {
                let differs = *present != broker;
                present.clone_from(&broker);
                differs
            });
        }
    }

    pub(super) fn report(&self, news: &News) {
        // On trial, what is confirmed is the one before.
        let running = self.trial.as_ref().map_or(&self.running, |trial| &trial.before);
        let document = news.document(&self.gateway, wall(), running, self.journal.as_ref());
        let document = Bytes::from(document);
        for wire in &self.wires {
            wire.reported.send_replace(document.clone());
            // Full, or nobody there: it is said with the next connection.
            let _ = wire.said.try_send(Said::Report(document.clone()));
        }
    }

    /// A session that does not take it has ended.
    pub(super) async fn say(&self, origin: Origin, said: Said) {
        if let Some(wire) = self.wires.iter().find(|wire| wire.origin == origin) {
            let _ = wire.said.send_async(said).await;
        }
    }

    pub(super) async fn tell_health(&self) {
        let is_safe = self.journal.as_ref().is_some_and(Journal::is_safe_mode);
        let safe = "safe mode: the agent had ended too often, and a configuration of before runs".to_owned();
        let _ = self.inbox.send(Input::ConfigNotice(if is_safe { safe } else { String::new() })).await;
    }

    /// On a thread that may wait for the medium.
    pub(super) async fn journal<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Journal) -> std::io::Result<T> + Send + 'static,
    ) -> std::io::Result<T> {
        let Some(mut journal) = self.journal.take() else {
            return Err(std::io::Error::other("there is no journal"));
        };
        let worked = tokio::task::spawn_blocking(move || {
            let done = work(&mut journal);
            (journal, done)
        });
        match worked.await {
            Ok((journal, done)) => {
                self.journal = Some(journal);
                done
            }
            Err(_panicked) => Err(std::io::Error::other("a fault of ours: see the log")),
        }
    }
}

/// Without an uplink nobody tells it.
fn acked_is_open(reins: &Reins) -> bool {
    reins.acked.has_changed().is_ok()
}

/// As tokio wants it.
pub(super) fn duration(span: Span) -> Duration {
    Duration::from_millis(span.as_millis())
}
