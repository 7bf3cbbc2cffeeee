//! The shell: everything that touches the outside world, and the composition
//! root that connects it to the engine.
//!
//! One runtime thread serves the network (listener, device broker, uplink, control
//! socket, signals); the engine has a thread of its own. Between them lie the
//! inbox and, per connection, one queue back; all bounded, and the engine
//! thread waits for none. Trouble with the network never ends the agent.

mod changes;
pub mod clock;
pub mod control;
mod driven;
pub mod engine_thread;
pub mod inbox;
pub mod interrupt;
pub mod liveness;
pub mod mqtt;
pub mod outbox;
pub mod rejected;
pub mod remote;
mod replays;
pub mod routes;
mod secrets;
pub mod shutdown;
pub mod signed;
pub mod status;
pub mod store;
pub mod systemd;
mod tasks;
pub mod telemetry;
pub mod unix_socket;
pub mod uplink;
pub mod wear;

use std::future::{Future, pending};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::config::boot::Config;
use crate::engine::driver::Driver;
use crate::engine::step::Clock;
use crate::model::time::Span;

use clock::{SystemClock, sleep};
use engine_thread::{Engine, Peers, Wiring};
use inbox::{InboxSender, Input, inbox};
use mqtt::listener::facts::ListenerFacts;
use outbox::viewer::Viewer;
use rejected::Samples;
use remote::{Remote, Restored, Source};
use shutdown::{ENGINE_MAX, FAREWELL_MAX, STOP_MAX, Signals};
use status::Identity;
use tasks::{Tasks, turns};
use wear::BlockDevice;

/// Name resolution runs on these, one attempt each, and an attempt that was given up after
/// 10 s stays there until the resolver has answered. One that hangs for 30 s can hold three of
/// each connection; none must queue behind those of another.
const BLOCKING_THREADS: usize = 12;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It was told to, on this machine.
    Stopped,
    /// Somebody far away wants it to begin again.
    Restart,
}

/// Runs the agent until SIGTERM or SIGINT, or a command to begin again: restores the state, serves, stops in order.
/// With the file that `config` was read from, it goes by the last document that was confirmed, where there is one,
/// and takes others.
///
/// # Errors
/// The store cannot be used, the operating system refuses threads or signal
/// handlers, the engine thread ended by itself, or did not finish within
/// [`ENGINE_MAX`]. Never because of the network.
pub fn run(config: &Config, source: Option<&Source>) -> anyhow::Result<Ended> {
    let clock = SystemClock::start();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("starting the network runtime")?;
    // Before the restore: a signal meanwhile ends the agent in order, right after it.
    let mut signals = {
        let _context = runtime.enter();
        Signals::catch().context("catching signals")?
    };
    secrets::warn_of_open_files(config);
    let is_new = !std::fs::read_dir(&config.storage.path).is_ok_and(|mut files| files.next().is_some());
    let of_file = config;
    let store = store::open_with(&config.storage.path, config.storage.reserve_bytes).context("opening the store")?;
    // Behind the lock of the store: the journal is one agent's.
    let restored = source.filter(|_| of_file.remote.is_some()).map(|source| remote::restore(of_file, source));
    let config = &restored.as_ref().map_or(of_file, |restored| restored.running.config()).clone();
    let mut engine = Driver::start(config.pipeline.clone(), store, clock.now()).context("restoring the state")?;
    engine.set_packer(uplink::packing::pack);
    let took_ms = clock.proc().as_millis();
    info!(took_ms, "{}", if is_new { "nothing to restore: a new state" } else { "state restored" });
    let ended = runtime.block_on(supervise_with(config, restored, engine, clock, signals.recv()));
    // A name resolution that hangs must not hold the exit up.
    runtime.shutdown_background();
    ended
}

/// Wires everything, waits for `stop` to give a reason, and ends it all in order, with this configuration and no other.
///
/// # Errors
/// As for [`run`], but for the store.
pub async fn supervise<E: Engine + Send + 'static>(
    config: &Config,
    engine: E,
    clock: SystemClock,
    stop: impl Future<Output = &'static str>,
) -> anyhow::Result<Ended> {
    supervise_with(config, None, engine, clock, stop).await
}

/// Wires everything, waits for `stop` to give a reason, and ends it all in order.
///
/// # Errors
/// As for [`run`], but for the store.
async fn supervise_with<E: Engine + Send + 'static>(
    config: &Config,
    restored: Option<Restored>,
    engine: E,
    clock: SystemClock,
    stop: impl Future<Output = &'static str>,
) -> anyhow::Result<Ended> {
    let (sender, receiver) = inbox();
    let identity = Identity { gateway: config.pipeline.gateway.as_str().to_owned(), config_hash: config.hash.clone() };
    let control = config.control.as_deref();
    let last_will = identity.last_will();
    let commit_interval = config.pipeline.commit.longest();
    let device = BlockDevice::of(&config.storage.path);
    let samples = rejected::spawn(&config.storage.path, config.storage.reserve_bytes)
        .context("starting the thread that keeps samples")?;
    let facts = config.listener.as_ref().map(|_| Arc::new(ListenerFacts::default()));
    let peers = peers_of(config, facts.clone());
    let wiring =
        Wiring { clock, inbox: receiver, identity, commit_interval, device, samples: Some(samples.clone()), peers };
    let (alive, mut engine_ended) = oneshot::channel();
    let thread = engine_thread::spawn(engine, wiring, alive).context("starting the engine thread")?;

    let (stop_in, stopping) = watch::channel(false);
    let announced = facts.clone();
    let (turns, reins) = turns(config);
    let mut peers = Tasks::spawn(config, &last_will, facts, turns, &sender, clock, &stopping);
    let (restart_in, restart) = flume::bounded(1);
    let remote = Remote::spawn(restored, reins, &sender, &samples, clock, &stopping, restart_in.clone());
    let viewer = Viewer::new(sender.clone(), config.pipeline.gateway.as_str(), &config.storage.path);
    let control_task = control.and_then(|path| serve_control(path, &sender, viewer, &samples));
    if let Some(every) = systemd::pulse_every() {
        tokio::spawn(pulse(sender.clone(), every));
    }
    systemd::ready();
    info!(gateway = %config.pipeline.gateway, "tidegate is running");

    let mut stop = pin!(stop);
    let mut failure = None;
    let mut ended = Ended::Stopped;
    let reason = tokio::select! {
        reason = &mut stop => reason,
        Ok(()) = restart.recv_async() => {
            ended = Ended::Restart;
            "a restart was asked for"
        }
        trouble = clients_can_connect(config, announced) => {
            failure = Some(trouble);
            "a socket cannot be bound"
        }
        _ = &mut engine_ended => bail!("the engine thread ended by itself: see the log above"),
        name = peers.ended() => bail!("{name} ended by itself: see the log above"),
    };

    info!(reason, "stopping");
    systemd::stopping();
    let asked = clock.proc();
    stop_in.send_replace(true);
    let finish = async {
        // Closed: it has ended already, which the next line sees.
        let _ = sender.send(Input::Stop { reason }).await;
        let _ = engine_ended.await;
    };
    let finished = timeout(ENGINE_MAX, finish).await;
    if let (Some(task), Some(path)) = (control_task, control) {
        task.abort();
        let _ = std::fs::remove_file(path);
    }
    if finished.is_err() {
        error!("not finished in time: what was not acknowledged will be delivered again");
        bail!("the engine did not finish within {} s", ENGINE_MAX.as_secs());
    }
    samples.stop().await;
    let left = FAREWELL_MAX.min((asked + STOP_MAX).since(clock.proc()));
    say_goodbye(peers, remote, left).await;
    if thread.join().is_err() {
        bail!("the engine thread panicked while stopping");
    }
    info!("stopped");
    failure.map_or(Ok(ended), |trouble| bail!(trouble))
}

/// Who is on the other side.
fn peers_of(config: &Config, facts: Option<Arc<ListenerFacts>>) -> Peers {
    let retained = config.local.is_some_and(|local| local.retain);
    Peers {
        devices: config.devices.is_some(),
        uplink: config.uplink.is_some(),
        listener: facts.map(|facts| (facts, retained)),
    }
}

/// To whoever answers within that time.
async fn say_goodbye(peers: Tasks, remote: Remote, within: Span) {
    let farewell = async {
        peers.farewell().await;
        remote.farewell().await;
    };
    if timeout(Duration::from_millis(within.as_millis()), farewell).await.is_err() {
        warn!("a broker does not answer: ending without a farewell");
    }
}

/// Of the listener alone, which somebody has just started and looks at: says where clients can
/// connect, once they can. Ends only with the trouble of a socket that cannot be bound; a gateway
/// goes on without it, and tries again.
async fn clients_can_connect(config: &Config, facts: Option<Arc<ListenerFacts>>) -> String {
    let sockets = config.listener.as_ref().map_or(0, |spec| spec.sockets.len());
    if let Some(facts) = facts.filter(|_| config.uplink.is_none()) {
        loop {
            if let Some(trouble) = facts.unbound() {
                return trouble;
            }
            let listening = facts.status().sockets;
            if listening.len() >= sockets {
                for address in listening {
                    eprintln!("listening on {address}");
                }
                break;
            }
            facts.sockets_changed().await;
        }
    }
    pending().await
}

/// Until the engine thread ends.
async fn pulse(inbox: InboxSender, every: Span) {
    while inbox.send(Input::Pulse).await.is_ok() {
        sleep(every).await;
    }
}

/// Without the socket the agent does its work all the same.
fn serve_control(
    path: &Path,
    inbox: &InboxSender,
    viewer: Viewer,
    samples: &Samples,
) -> Option<tokio::task::JoinHandle<()>> {
    match unix_socket::bind(path) {
        Ok(listener) => Some(tokio::spawn(control::serve(listener, inbox.clone(), viewer, samples.clone()))),
        Err(error) => {
            warn!(path = %path.display(), %error, "no control socket: `tidegate status` will not work");
            None
        }
    }
}
