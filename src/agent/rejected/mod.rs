//! Samples of rejected messages: kept on disk, shown, and taken in again when somebody asks.
//!
//! ```text
//! engine thread ─ sample ─▶ ╔═ 16 ═╗
//! control socket ─ query ─▶ ║ queue ║─▶ keeper, a thread of its own ─▶ shelf: the files
//!                           ╚══════╝
//! a replay:  mark (durable) ─▶ inbox ─▶ engine: as messages ─▶ commit ─▶ verdicts ─▶ remove
//! ```
//!
//! Best effort: the engine thread hands a sample over or drops it, and waits for nothing. A medium that takes
//! no samples is logged once and counted; the agent's health does not depend on it.

pub mod document;
pub mod frame;
pub mod query;
pub mod shelf;
pub mod source;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flume::{Receiver, Sender};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::engine::samples::{Sample, Verdict};
use crate::model::limits::SAMPLES_PENDING_MAX;

use super::inbox::{InboxSender, Input};
use super::outbox::viewer::Stopping;

use document::Tale;
use query::{Query, Selection};
use shelf::{Begun, Key, Shelf};

/// Whoever asks for a replay is told after this time that it is not durable yet.
const REPLAY_MAX: Duration = Duration::from_secs(4);
/// For the last samples at the end. They are not worth more.
const STOP_MAX: Duration = Duration::from_secs(1);

/// What the keeper is asked to do.
enum Task {
    Keep(Sample),
    Show(Query, oneshot::Sender<Value>),
    Begin { selection: Selection, again: bool, answer: oneshot::Sender<(Begun, io::Result<()>)> },
    Settle { settled: Vec<(Key, u64, Option<Verdict>)>, answer: oneshot::Sender<io::Result<()>> },
    Stop(oneshot::Sender<()>),
}

/// For the status.
#[derive(Debug, Default)]
struct Figures {
    kept: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// How the samples on disk are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SampleFacts {
    /// Samples on disk.
    pub kept: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Samples that found the keeper busy, since the start.
    pub dropped: u64,
    /// Samples that the medium did not take, since the start.
    pub failed: u64,
}

/// A way to the keeper.
#[derive(Clone)]
pub struct Samples {
    queue: Sender<Task>,
    figures: Arc<Figures>,
}

/// Starts the keeper of the samples in the state's directory. `reserve`: bytes of the medium that it leaves
/// free. It ends with [`Samples::stop`], or when every handle is gone.
///
/// # Errors
/// The operating system has no thread to give.
pub fn spawn(state: &Path, reserve: u64) -> io::Result<Samples> {
    let (queue, tasks) = flume::bounded(SAMPLES_PENDING_MAX);
    let figures = Arc::new(Figures::default());
    let samples = Samples { queue, figures: Arc::clone(&figures) };
    let state = state.to_owned();
    thread::Builder::new().name("samples".into()).spawn(move || {
        let mut keeper = Keeper { shelf: Shelf::open(&state, reserve), figures, failing: false };
        keeper.count();
        keeper.run(&tasks);
    })?;
    Ok(samples)
}

impl Samples {
    /// Hands one over to be kept, or drops it.
    pub fn keep(&self, sample: Sample) {
        if self.queue.try_send(Task::Keep(sample)).is_err() {
            self.figures.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For the status.
    pub fn facts(&self) -> SampleFacts {
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let Figures { kept, bytes, dropped, failed } = &*self.figures;
        SampleFacts { kept: of(kept), bytes: of(bytes), dropped: of(dropped), failed: of(failed) }
    }

    /// Answers a query, as a document.
    ///
    /// # Errors
    /// [`Stopping`].
    pub async fn answer(&self, query: Query, inbox: &InboxSender) -> Result<Value, Stopping> {
        let Query::Replay { selection, again } = query else {
            return self.ask(|answer| Task::Show(query, answer)).await;
        };
        // On its own: what was begun is settled although nobody waits any more.
        let (told, tale) = oneshot::channel();
        let (samples, inbox) = (self.clone(), inbox.clone());
        tokio::spawn(async move {
            // Whoever asked may have gone.
            let _ = told.send(samples.replay(selection, again, &inbox).await);
        });
        match timeout(REPLAY_MAX, tale).await {
            Ok(told) => told.map_err(|_| Stopping)?,
            Err(_elapsed) => Ok(document::not_durable()),
        }
    }

    async fn replay(&self, selection: Selection, again: bool, inbox: &InboxSender) -> Result<Value, Stopping> {
        let (begun, marked) = self.ask(|answer| Task::Begin { selection, again, answer }).await?;
        let mut tale = Tale { left: begun.left, marked: marked.err(), ..Tale::default() };
        if !begun.samples.is_empty() {
            let (answer, verdicts) = oneshot::channel();
            let sent = inbox.send(Input::Replay { samples: begun.samples.clone(), answer }).await;
            // Not sent: not taken in. Sent and not answered: nobody knows.
            let verdicts = match sent {
                Ok(()) => verdicts.await.map_err(|_| Stopping)?.into_iter().map(Some).collect(),
                Err(_) => vec![None; begun.samples.len()],
            };
            let settled = begun.samples.iter().zip(&verdicts);
            let settled = settled.map(|(kept, verdict)| (kept.key(), kept.number, verdict.clone())).collect();
            tale.settled = self.ask(|answer| Task::Settle { settled, answer }).await?.err();
            tale.replayed = begun.samples.into_iter().zip(verdicts).collect();
            info!(samples = tale.replayed.len(), "samples of rejected messages were replayed");
        }
        Ok(tale.document())
    }

    /// Waits for what is on its way to the disk, for a second at most.
    pub async fn stop(&self) {
        let stopped = self.ask(Task::Stop);
        // It hangs in the medium: the samples are not worth waiting for.
        let _ = timeout(STOP_MAX, stopped).await;
    }

    async fn ask<T>(&self, task: impl FnOnce(oneshot::Sender<T>) -> Task) -> Result<T, Stopping> {
        let (answer, answered) = oneshot::channel();
        self.queue.send_async(task(answer)).await.map_err(|_| Stopping)?;
        answered.await.map_err(|_| Stopping)
    }
}

struct Keeper {
    shelf: Shelf,
    figures: Arc<Figures>,
    /// It is said once that the medium takes nothing.
    failing: bool,
}

impl Keeper {
    fn run(&mut self, tasks: &Receiver<Task>) {
        while let Ok(task) = tasks.recv() {
            // Whoever asked may have gone.
            match task {
                Task::Keep(sample) => self.keep(sample),
                Task::Show(query, answer) => drop(answer.send(document::of(&self.shelf, &query))),
                Task::Begin { selection, again, answer } => {
                    let begun = self.shelf.begin(&selection, again);
                    drop(answer.send(begun));
                }
                Task::Settle { settled, answer } => drop(answer.send(self.shelf.settle(&settled))),
                Task::Stop(answer) => {
                    let _ = answer.send(());
                    return;
                }
            }
            self.count();
        }
    }

    fn keep(&mut self, sample: Sample) {
        match self.shelf.keep(sample) {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.figures.failed.fetch_add(1, Ordering::Relaxed);
                if !core::mem::replace(&mut self.failing, true) {
                    warn!(%error, "samples of rejected messages cannot be kept");
                }
            }
        }
    }

    fn count(&self) {
        self.figures.kept.store(self.shelf.count() as u64, Ordering::Relaxed);
        self.figures.bytes.store(self.shelf.bytes(), Ordering::Relaxed);
    }
}
