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

use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
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
    // Not flume's: what is still in that one when the keeper ends would never be answered.
    let (queue, mut tasks) = channel(SAMPLES_PENDING_MAX);
    let figures = Arc::new(Figures::default());
    let samples = Samples { queue, figures: Arc::clone(&figures) };
    let state = state.to_owned();
    thread::Builder::new().name("samples".into()).spawn(move || {
        let mut keeper = Keeper { shelf: Shelf::open(&state, reserve), figures, failing: false };
        keeper.count();
        keeper.run(&mut tasks);
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
        self.queue.send(task(answer)).await.map_err(|_| Stopping)?;
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
    fn run(&mut self, tasks: &mut Receiver<Task>) {
        while let Some(task) = tasks.blocking_recv() {
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
        // As rare as samples are. Quoted: a topic is whatever a device says.
        let (stream, reason, topic, hint) = (&sample.stream, sample.reason.as_str(), &sample.topic, &sample.hint);
        warn!(%stream, reason, ?topic, hint, "a message was rejected; `tidegate quarantine` keeps samples");
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

#[cfg(test)]
mod tests {
    use super::super::inbox::inbox;
    use super::frame::tests::sample;
    use super::*;
    use crate::model::record::RejectReason;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn garbage() -> Sample {
        sample("s", RejectReason::NotJson, b"garbage")
    }

    #[test]
    fn a_sample_that_finds_the_keeper_busy_is_dropped_and_counted() {
        let (queue, tasks) = channel(1);
        let samples = Samples { queue, figures: Arc::default() };
        samples.keep(garbage());
        samples.keep(garbage());
        assert_eq!((samples.facts().dropped, tasks.len()), (1, 1));
    }

    #[test]
    fn a_medium_that_takes_nothing_is_counted_and_one_that_does_has_all_at_the_stop() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("no directory");
        std::fs::write(&file, "").unwrap();
        for (state, kept, failed) in [(file.as_path(), 0, 2), (dir.path(), 2, 0)] {
            let samples = spawn(state, 0).unwrap();
            samples.keep(garbage());
            samples.keep(garbage());
            run(samples.stop());
            let facts = samples.facts();
            assert_eq!((facts.kept, facts.failed), (kept, failed), "{}", state.display());
            let gone = run(samples.answer(Query::List, &inbox().0));
            assert_eq!(gone, Err(Stopping), "after the stop nobody answers, and nobody waits");
        }
    }

    #[test]
    fn what_the_engine_has_not_seen_is_not_in_doubt() {
        let dir = tempfile::tempdir().unwrap();
        let samples = spawn(dir.path(), 0).unwrap();
        samples.keep(garbage());
        let (sender, receiver) = inbox();
        drop(receiver);
        let replay = Query::Replay { selection: Selection::default(), again: false };
        let told = run(samples.answer(replay, &sender)).unwrap();
        assert_eq!(told["samples"][0]["result"], "stopping");
        let list = run(samples.answer(Query::List, &sender)).unwrap();
        assert_eq!((&list["entries"][0]["kept"], &list["entries"][0]["in_doubt"]), (&1.into(), &0.into()));
    }

    #[test]
    fn what_the_engine_was_handed_and_never_answered_is_in_doubt() {
        let dir = tempfile::tempdir().unwrap();
        let samples = spawn(dir.path(), 0).unwrap();
        samples.keep(garbage());
        let (sender, receiver) = inbox();
        let replay = Query::Replay { selection: Selection::default(), again: false };
        let told = run(async {
            let asked = samples.answer(replay, &sender);
            let handed = async {
                while receiver.recv_ready().is_none() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::join!(asked, handed).0
        });
        assert_eq!(told, Err(Stopping));
        let list = run(samples.answer(Query::List, &sender)).unwrap();
        assert_eq!(list["entries"][0]["in_doubt"], 1);
    }
}
