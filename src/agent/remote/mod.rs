//! Configuration and commands over MQTT: the gateway has no keyboard.
//!
//! ```text
//! <prefix>/<gw>/config/desired ──▶ session ──▶ steward ──▶ journal (what survives a crash)
//! <prefix>/<gw>/cmd/<name>     ──▶    │           ├──────▶ engine thread (between two commits)
//! <prefix>/<gw>/config/reported ◀─────┤           └──────▶ tasks (what to listen to, where to send)
//! <prefix>/<gw>/cmd/<name>/reply ◀────┘
//! ```
//!
//! The steward is on the network thread and waits for nothing that others need: the medium has threads of its own,
//! the engine answers between two of its turns.

mod commands;
mod journal;
mod probe;
pub mod reported;
mod session;
mod steward;
mod trial;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, warn};

use crate::config::boot::{BrokerSpec, Config};
use crate::config::check::desired::check_desired;

use super::clock::{SystemClock, boot};
use super::inbox::InboxSender;
use super::rejected::Samples;
use super::tasks::{Reins, base_topic};

use journal::{Boot, Entry, Journal};
use reported::{News, Origin, State};
use session::{HEARD_LEN, Session};
use steward::{Steward, Wire};

/// Answers that wait for a session.
const SAID_LEN: usize = 64;

/// The gateway's own file.
#[derive(Clone, Debug)]
pub struct Source {
    /// What stands in it.
    pub text: String,
    /// Its name, which tells TOML from JSON.
    pub file: String,
}

/// The configuration that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// All of it.
    config: Config,
    /// The document that it is made of; `None`: the file alone.
    entry: Option<Entry>,
}

impl Running {
    /// Of the document.
    fn version(&self) -> Option<u64> {
        self.entry.as_ref().map(|entry| entry.version)
    }

    /// The same.
    fn hash(&self) -> Option<&str> {
        self.entry.as_ref().map(|entry| entry.hash.as_str())
    }

    /// What it says.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// What a start found.
#[derive(Debug)]
pub struct Restored {
    /// What is to run.
    pub running: Running,
    source: Source,
    journal: Option<Journal>,
    news: News,
}

/// The configuration to start with: that of the last confirmed document, or of the file. Never fails: where the
/// journal cannot be used, or its document does not fit the file any more, the file runs, and that is told.
pub fn restore(config: &Config, source: &Source) -> Restored {
    let (id, uptime) = boot();
    let file = |news: News, journal| Restored {
        running: Running { config: config.clone(), entry: None },
        source: source.clone(),
        journal,
        news,
    };
    let (journal, ended) = match Journal::open(&config.storage.path, &Boot { id, uptime }) {
        Ok(opened) => opened,
        Err(error) => {
            error!(%error, "no configuration can be taken over MQTT: its journal cannot be used");
            return file(News::new(State::Confirmed, Origin::File, None, None), None);
        }
    };
    let went_back = |news: News| match &ended {
        Some(ended) => {
            warn!(version = ended.version, reason = %ended.reason, "a configuration went back");
            let (version, hash) = (Some(ended.version), Some(ended.hash.clone()));
            News { reason: Some(ended.reason.clone()), ..News::new(State::RolledBack, Origin::File, version, hash) }
        }
        None => news,
    };
    let Some(entry) = journal.confirmed().cloned() else {
        return file(went_back(News::new(State::Confirmed, Origin::File, None, None)), Some(journal));
    };
    match confirmed(&journal, &entry, source) {
        Ok(config) => {
            let (version, hash) = (Some(entry.version), Some(entry.hash.clone()));
            let news = went_back(News::new(State::Confirmed, Origin::File, version, hash));
            let running = Running { config, entry: Some(entry) };
            Restored { running, source: source.clone(), journal: Some(journal), news }
        }
        Err(reason) => {
            error!(version = entry.version, %reason, "the confirmed configuration cannot be used: the file runs");
            let (version, hash) = (Some(entry.version), Some(entry.hash.clone()));
            let news = News::new(State::RolledBack, Origin::File, version, hash);
            file(News { reason: Some(reason), ..news }, Some(journal))
        }
    }
}

/// What a document of the journal means with today's file.
fn confirmed(journal: &Journal, entry: &Entry, source: &Source) -> Result<Config, String> {
    let text = journal.document(&entry.hash).map_err(|error| format!("it cannot be read: {error}"))?;
    let checked = check_desired(&text, &source.text, &source.file);
    let checked = checked.map_err(|refused| format!("it does not fit the file any more: {refused}"))?;
    if checked.hash != entry.hash {
        return Err("it is damaged".to_owned());
    }
    Ok(checked.config.config)
}

/// The tasks: what serves the brokers, and the steward.
pub(super) struct Remote(Vec<JoinHandle<()>>);

impl Remote {
    /// Starts them, where that is wanted; `None`: this configuration and no other runs. `restart`: told when the
    /// process is to be started again.
    pub(super) fn spawn(
        restored: Option<Restored>,
        reins: Reins,
        inbox: &InboxSender,
        samples: &Samples,
        clock: SystemClock,
        stop: &watch::Receiver<bool>,
        restart: flume::Sender<()>,
    ) -> Remote {
        let Some(restored) = restored else { return Remote::without(None, reins, stop.clone()) };
        let Restored { running, source, journal, news } = restored;
        let config = running.config.clone();
        // A document cannot change this part of the file.
        let Some(spec) = config.remote else { return Remote::without(journal, reins, stop.clone()) };
        let (heard_in, heard) = flume::bounded(HEARD_LEN);
        let base = base_topic(&config.pipeline);
        let uplink = config.uplink.as_ref().map(|broker| (Origin::Uplink, broker));
        let local = config.devices.as_ref().filter(|_| spec.local).map(|broker| (Origin::Local, broker));
        let (mut wires, mut tasks) = (Vec::new(), Vec::new());
        for (origin, broker) in uplink.into_iter().chain(local) {
            let (said_in, said) = flume::bounded(SAID_LEN);
            let (reported_in, reported) = watch::channel(Bytes::new());
            let (broker_in, broker) = watch::channel(own_session(broker));
            let heard = heard_in.clone();
            let session = Session { origin, base: base.clone(), clock, broker, reported, said, heard };
            tasks.push(tokio::spawn(session.run()));
            wires.push(Wire { origin, reported: reported_in, said: said_in, broker: broker_in });
        }
        let steward = Steward {
            clock,
            gateway: config.pipeline.gateway.as_str().to_owned(),
            base,
            public_key: spec.public_key,
            source,
            journal,
            running,
            reins,
            inbox: inbox.clone(),
            samples: samples.clone(),
            wires,
            heard,
            restart,
            trial: None,
            waiting: None,
            destination: 0,
        };
        tasks.push(tokio::spawn(steward.run(news, stop.clone())));
        Remote(tasks)
    }

    /// That the process was told to end is written down all the same.
    fn without(journal: Option<Journal>, reins: Reins, mut stop: watch::Receiver<bool>) -> Remote {
        Remote(vec![tokio::spawn(async move {
            let _reins = reins;
            let _ = stop.wait_for(|stop| *stop).await;
            if let Some(mut journal) = journal {
                let closed = tokio::task::spawn_blocking(move || journal.close()).await;
                if !matches!(closed, Ok(Ok(()))) {
                    warn!("the end was not written down: it will look like a crash");
                }
            }
        })])
    }

    /// Until all have said goodbye.
    pub(super) async fn farewell(self) {
        for task in self.0 {
            let _ = task.await;
        }
    }
}

/// On a connection of its own, so under a client id of its own.
fn own_session(broker: &BrokerSpec) -> BrokerSpec {
    BrokerSpec { client_id: format!("{}-remote", broker.client_id), ..broker.clone() }
}

/// For tests of what a document does that ends the process: `TIDEGATE_TEST_CRASH_ON_VERSION`.
fn crash_if_asked(version: u64) {
    let asked = std::env::var("TIDEGATE_TEST_CRASH_ON_VERSION").ok().and_then(|text| text.parse().ok());
    if asked == Some(version) {
        error!(version, "crashing, as the environment asks for");
        std::process::abort();
    }
}
