//! Runs a fleet: one thread, all connections in it.
//!
//! ```text
//! Load ──▶ feed: each message when it is due ──▶ a short queue per connection ──▶ Pipeline
//!                                                watch: progress, signals, a broker that is silent
//! ```
//!
//! A device belongs to one connection, so its messages stay in order. A full queue stops the
//! feed: what a slow or absent broker does not take is sent later, and nothing piles up here.

use std::io::{IsTerminal as _, Write as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flume::Sender;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};

use crate::agent::clock::{SystemClock, instant, sleep, wall};
use crate::agent::interrupt::Interrupt;
use crate::agent::mqtt::dial::authority;
use crate::agent::mqtt::pipeline::{Parcel, Pipeline, PipelineSpec, Tally};
use crate::fleet::load::{Load, LoadSpec, Shipment};
use crate::model::time::{EventTime, Span};

use super::{report, words};

/// Connections that are made at the same time.
const DIALS: usize = 32;
/// Messages that wait for one connection.
const QUEUE_LEN: usize = 256;
/// After so many messages the connections get their turn.
const FEED_LEN: u64 = 64;
/// Between two looks at signals and figures.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// For so long the number of connections has not changed: it is what the broker takes.
const SETTLED: Duration = Duration::from_secs(1);

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// When they are due.
    Real,
    /// As fast as the broker acknowledges.
    Max,
}

/// What a run is to do.
pub(super) struct Plan {
    /// Whose start counts unless `starts_now`.
    pub(super) load: LoadSpec,
    /// Event time begins when all connections are there.
    pub(super) starts_now: bool,
    pub(super) pace: Pace,
    /// Nothing is sent after it.
    pub(super) seconds: Option<Duration>,
    pub(super) messages: Option<u64>,
    pub(super) connections: u32,
    /// The client id gets the number of the connection behind it.
    pub(super) pipeline: PipelineSpec,
    /// For an acknowledgement, if that has an end.
    pub(super) wait: Option<Duration>,
}

/// What has become of it.
pub(super) struct Outcome {
    /// In event time; `None`: the connections never were there.
    pub(super) start: Option<EventTime>,
    pub(super) tally: Rc<Tally>,
    /// From the first message to the last acknowledgement.
    pub(super) elapsed: Duration,
    /// Why it ended too early.
    pub(super) gave_up: Option<String>,
}

/// Runs to its end, or until interrupted.
///
/// # Errors
/// When the system gives no runtime.
pub(super) fn drive(plan: &Plan, interrupt: &Interrupt) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    Ok(LocalSet::new().block_on(&runtime, run(plan, interrupt)))
}

async fn run(plan: &Plan, interrupt: &Interrupt) -> Outcome {
    let tally = Rc::new(Tally::default());
    let mut run = Run { start: None, began: instant() };
    let mut connections = connect(plan, &tally);
    let gave_up = tokio::select! {
        () = work(plan, interrupt, &tally, &mut run, &mut connections) => None,
        reason = watch(plan, interrupt, &tally) => Some(reason),
    };
    // Whichever of the two was first to see it.
    let gave_up = gave_up.or_else(|| tally.take_permanent().map(|problem| words::told(&problem, &plan.pipeline)));
    Outcome { start: run.start, elapsed: instant().saturating_duration_since(run.began), tally, gave_up }
}

/// When it began, in event time and for us.
struct Run {
    start: Option<EventTime>,
    began: Instant,
}

struct Connections {
    queues: Vec<Sender<Parcel>>,
    tasks: Vec<JoinHandle<()>>,
}

fn connect(plan: &Plan, tally: &Rc<Tally>) -> Connections {
    let clock = SystemClock::start();
    let dials = Rc::new(Semaphore::new(DIALS));
    let start = |number: u32| {
        let (queue, parcels) = flume::bounded(QUEUE_LEN);
        let mut spec = plan.pipeline.clone();
        spec.broker.client_id = format!("{}-{number}", spec.broker.client_id);
        let pipeline = Pipeline::new(spec, parcels, Rc::clone(tally), clock);
        (queue, spawn_local(pipeline.run(Rc::clone(&dials))))
    };
    let (queues, tasks) = (0..plan.connections).map(start).unzip();
    Connections { queues, tasks }
}

async fn work(plan: &Plan, interrupt: &Interrupt, tally: &Tally, run: &mut Run, connections: &mut Connections) {
    let all = u64::from(plan.connections);
    while tally.connects() < all && !interrupt.is_set() {
        sleep(Span::from_millis(5)).await;
    }
    let start = if plan.starts_now { wall().as_event_time() } else { plan.load.start };
    run.start = Some(start);
    run.began = instant();
    let load = Load::new(LoadSpec { start, ..plan.load.clone() });
    feed(plan, interrupt, run.began, load, &connections.queues).await;
    // That nothing more comes.
    connections.queues.clear();
    for task in connections.tasks.drain(..) {
        // It fails only when it is cancelled, and nobody does that.
        let _ = task.await;
    }
}

async fn feed(plan: &Plan, interrupt: &Interrupt, began: Instant, load: Load, queues: &[Sender<Parcel>]) {
    let until = plan.seconds.filter(|_| plan.pace == Pace::Max);
    let most = plan.messages.unwrap_or(u64::MAX);
    for (number, shipment) in (0..most).zip(load) {
        if plan.pace == Pace::Real && !is_due(interrupt, began, shipment.at).await {
            return;
        }
        if interrupt.is_set() || until.is_some_and(|until| instant() >= began + until) {
            return;
        }
        let Shipment { device, topic, payload, .. } = shipment;
        let queue = &queues[usize::try_from(device).unwrap_or(0) % queues.len()];
        let mut sending = queue.send_async(Parcel { topic, payload: Bytes::from(payload) });
        loop {
            tokio::select! {
                biased;
                // Nobody listens: it has ended by itself, which `watch` tells.
                sent = &mut sending => if sent.is_err() { return } else { break },
                () = sleep(Span::from_millis(50)) => {}
            }
            if interrupt.is_set() {
                return;
            }
        }
        if number % FEED_LEN == FEED_LEN - 1 {
            yield_now().await;
        }
    }
}

/// Waits until then; false when somebody wants an end before.
async fn is_due(interrupt: &Interrupt, began: Instant, at: Duration) -> bool {
    loop {
        let early = at.saturating_sub(instant().saturating_duration_since(began));
        if early.is_zero() {
            return true;
        }
        if interrupt.is_set() {
            return false;
        }
        sleep(whole_millis(early.min(LOOK_AGAIN))).await;
    }
}

/// Rounded up: a timer has no less.
fn whole_millis(wait: Duration) -> Span {
    Span::from_millis(u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}

/// Tells how it goes; ends when there is no point in going on, with the reason.
async fn watch(plan: &Plan, interrupt: &Interrupt, tally: &Tally) -> String {
    let began = instant();
    let broker = authority(&plan.pipeline.broker.host, plan.pipeline.broker.port);
    let mut screen = Screen { live: std::io::stderr().is_terminal(), problem: String::new() };
    let (mut progress_at, mut acked_then) = (began, 0);
    let (mut moved_at, mut moved) = (began, 0);
    let (mut settled_at, mut connects) = (began, 0);
    loop {
        sleep(whole_millis(LOOK_AGAIN)).await;
        let now = instant();
        if let Some(problem) = tally.take_permanent() {
            screen.end();
            return format!("{broker}: {}", words::told(&problem, &plan.pipeline));
        }
        if tally.connects() > connects {
            (settled_at, connects) = (now, tally.connects());
        }
        let full = tally.turned_away() > 0 && tally.connected() < tally_len(plan);
        let full = full && now.saturating_duration_since(settled_at) >= SETTLED;
        let full = full.then(|| words::limit(tally.connected(), plan.connections)).flatten();
        let problem = tally.take_problem().map(|problem| words::told(&problem, &plan.pipeline));
        if let Some(problem) = tally.take_refusal().or(problem) {
            screen.tell(&format!("{broker}: {}", full.as_ref().unwrap_or(&problem)));
        }
        let (acked, done) = (tally.acked(), tally.acked() + tally.refused() + tally.connects());
        let waits = tally.sent() > tally.acked() + tally.refused() || tally.connected() < tally_len(plan);
        if done > moved || !waits {
            (moved_at, moved) = (now, done);
        }
        let silent = now.saturating_duration_since(moved_at);
        if plan.wait.is_some_and(|wait| silent >= wait) {
            screen.end();
            let full = full.map_or_else(String::new, |full| format!("; {full}"));
            return format!("nothing was acknowledged for {} s{full}", silent.as_secs());
        }
        if interrupt.is_urgent() {
            screen.end();
            return "interrupted twice".into();
        }
        let passed = now.saturating_duration_since(progress_at);
        if passed >= PROGRESS {
            let elapsed = now.saturating_duration_since(began);
            screen.show(&report::progress(tally, elapsed, acked - acked_then, passed));
            (progress_at, acked_then) = (now, acked);
        }
    }
}

fn tally_len(plan: &Plan) -> usize {
    usize::try_from(plan.connections).unwrap_or(usize::MAX)
}

/// The terminal of a person, or a log.
struct Screen {
    live: bool,
    problem: String,
}

impl Screen {
    /// One line that the next one replaces, for a person alone.
    fn show(&self, line: &str) {
        if self.live {
            write(&format!("\r\x1b[K{line}"));
        }
    }

    /// A line that stays, once as long as it is the same.
    fn tell(&mut self, problem: &str) {
        if self.problem != problem {
            let clear = if self.live { "\r\x1b[K" } else { "" };
            write(&format!("{clear}{problem}\n"));
            problem.clone_into(&mut self.problem);
        }
    }
}

impl Screen {
    fn end(&self) {
        if self.live {
            write("\n");
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end();
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr();
    // The run counts, also where nobody can see it.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
