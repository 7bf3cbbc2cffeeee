//! The synchronous loop around the engine, on a thread of its own.
//!
//! ```text
//! wait(inbox, next deadline) → read the clock once → take ≤ BATCH_MAX messages
//!   → engine.handle → engine.advance (commit, then effects) → status, watchdog
//! ```
//!
//! It waits on nothing but the inbox and the store: every queue out of here
//! takes without waiting or is given up ([`super::routes`]). So the tasks that
//! feed the inbox always find it emptied, and nothing can lock up in a circle.

mod bursts;
mod drops;
mod orders;
mod report;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use tracing::{error, info};

use crate::engine::broker::packet::ClientEvent;
use crate::engine::broker::status::Counters;
use crate::engine::outbox::Outbox;
use crate::engine::samples::{Replay, Sample, Verdict};
use crate::engine::spec::PipelineSpec;
use crate::engine::step::{Clock, Effect, Event};
use crate::engine::wear::Written;
use crate::model::limits::{BATCH_MAX, COMMIT_MESSAGES_MAX, INBOX_LEN, REDELIVERY_LEN};
use crate::model::time::{Now, ProcTime, Span};

use super::clock::{SystemClock, pause};
use super::inbox::{Closed, Inbox, Input, Look};
use super::liveness::Liveness;
use super::mqtt::listener::facts::ListenerFacts;
use super::rejected::Samples;
use super::rejected::frame::Kept;
use super::routes::Routes;
use super::status::{ConnectionFacts, Identity};
use super::systemd::Supervision;
use super::wear::{BlockDevice, Wear};

use drops::Drops;

/// The retained status is renewed this often.
pub const STATUS_EVERY: Span = Span::from_secs(30);
/// A change of health is looked for, and published, at most this often.
const HEALTH_EVERY: Span = Span::from_secs(1);
/// The longest wait: bounds what a mistaken deadline can do.
const WAIT_MAX: Span = Span::from_secs(60);
/// Messages that trickle in are gathered for so long. What they do is seen after a commit, for
/// which they are waited for anyhow; each wake-up of this thread costs as much as a message.
const GATHER: Span = Span::from_millis(2);

/// What the shell needs of the engine. The driver implements it; tests use a
/// fake. No method waits on anything but the store.
pub trait Engine {
    /// Takes one input in; never acts.
    fn handle(&mut self, now: Now, event: Event<'_>);
    /// Commits when that is due, then allows effects.
    fn advance(&mut self, now: Now, perform: &mut dyn FnMut(Effect));
    /// Allows effects that need no commit, where there are so many that they take room; true
    /// then. Asked for each packet of a client, so it is cheap.
    fn tell_early(&mut self, _perform: &mut dyn FnMut(Effect)) -> bool {
        false
    }
    /// When [`Engine::advance`] next has something to do.
    fn next_deadline(&self, now: Now) -> Option<ProcTime>;
    /// Final commit and snapshot; effects allowed.
    fn stop(&mut self, now: Now, perform: &mut dyn FnMut(Effect));
    /// Messages taken in and not acknowledged. At `COMMIT_MESSAGES_MAX` no more
    /// are asked for until a commit succeeds.
    fn unacknowledged(&self) -> usize;
    /// What is wrong with it; empty: healthy. Asked every second, so it is cheap.
    fn health(&self) -> Vec<String>;
    /// What it wrote for what it took in. Asked every second, so it is cheap.
    fn written(&self) -> Written {
        Written::default()
    }
    /// Samples of what was rejected, to be kept. Asked each turn, so it is cheap.
    fn take_samples(&mut self) -> Vec<Sample> {
        Vec::new()
    }
    /// What has happened to the listener's clients; `None`: there is no listener. Asked every
    /// second, so it is cheap.
    fn client_counters(&self) -> Option<Counters> {
        None
    }
    /// Its outbox, to look at.
    fn outbox(&self) -> Option<&Outbox> {
        None
    }
    /// Goes over to another configuration, between two commits.
    ///
    /// # Errors
    /// Why it stays with the one that it has.
    fn reconfigure(&mut self, _: Now, _: &PipelineSpec, _: &mut dyn FnMut(Effect)) -> Result<(), String> {
        Err("this engine has one configuration".into())
    }
    /// Commits at once; `snapshot`: and writes all of the state.
    ///
    /// # Errors
    /// What the store says.
    fn flush(&mut self, _: Now, _snapshot: bool, _: &mut dyn FnMut(Effect)) -> Result<(), String> {
        Ok(())
    }
    /// Devices of a stream behind one of them, by name; `None`: there is no such stream.
    fn devices(&self, _stream: &str, _after: &str, _limit: usize) -> Option<serde_json::Value> {
        None
    }
    /// Its part of the status document. May walk through all devices.
    fn report(&self, now: Now) -> serde_json::Value;
}

/// What the thread is given besides the engine.
pub struct Wiring {
    /// The machine's clocks.
    pub clock: SystemClock,
    /// Its inputs.
    pub inbox: Inbox,
    /// Who we are.
    pub identity: Identity,
    /// Longest time between a message and its commit.
    pub commit_interval: Span,
    /// What the state lies on, where that can be told.
    pub device: Option<BlockDevice>,
    /// Where samples of what was rejected are kept; `None`: nowhere.
    pub samples: Option<Samples>,
    /// Who is on the other side.
    pub peers: Peers,
}

/// Who is on the other side.
#[derive(Clone, Default)]
pub struct Peers {
    /// A device broker is configured.
    pub devices: bool,
    /// A broker of the cloud is configured.
    pub uplink: bool,
    /// The listener, and whether results are retained there.
    pub listener: Option<(Arc<ListenerFacts>, bool)>,
}

/// Starts the thread. It ends after [`Input::Stop`], or when every sender is gone.
/// `alive` is dropped when it ends, be it by a panic.
///
/// # Errors
/// The operating system has no thread to give.
pub fn spawn<E: Engine + Send + 'static>(
    engine: E,
    wiring: Wiring,
    alive: oneshot::Sender<()>,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("engine".into()).spawn(move || {
        let _alive = alive;
        EngineThread::new(engine, wiring).run();
    })
}

struct EngineThread<E> {
    engine: E,
    clock: SystemClock,
    inbox: Inbox,
    /// Room of messages that have been handled but may not make way for others yet.
    held_room: usize,
    identity: Identity,
    routes: Routes,
    /// The last round took messages and nothing else.
    gathers: bool,
    liveness: Liveness,
    supervision: Supervision,
    devices: ConnectionFacts,
    uplink: ConnectionFacts,
    /// Known once its task has said something: it runs only where it is wanted.
    local: Option<ConnectionFacts>,
    wear: Wear,
    drops: Drops,
    samples: Option<Samples>,
    peers: Peers,
    health: Vec<String>,
    health_at: ProcTime,
    /// When the retained status is due; `None` without an uplink.
    status_at: Option<ProcTime>,
    /// How many there were before the present one.
    configuration: u32,
    /// What is wrong with one that was sent; empty: nothing.
    config_notice: String,
}

// Else a redelivery could be forgotten while its message is unacknowledged.
const _: () = assert!(COMMIT_MESSAGES_MAX + INBOX_LEN < REDELIVERY_LEN);

/// What a turn means for the loop.
enum Turn {
    Next,
    Stop(&'static str),
}

impl<E: Engine> EngineThread<E> {
    fn new(engine: E, wiring: Wiring) -> EngineThread<E> {
        let Wiring { clock, inbox, identity, commit_interval, device, samples, peers } = wiring;
        let now = clock.proc();
        let mut routes = Routes::default();
        let mut liveness = Liveness::new(commit_interval);
        if let Some((_, retain)) = &peers.listener {
            routes.set_listener(*retain, !peers.devices);
        }
        if !peers.devices {
            // Nobody holds anything back for us: silence means something from the start.
            liveness.handle_subscribed(now);
        }
        let wear = Wear::start(device, now, &engine.written());
        EngineThread {
            engine,
            clock,
            inbox,
            held_room: 0,
            identity,
            routes,
            gathers: false,
            liveness,
            supervision: Supervision::default(),
            devices: ConnectionFacts::default(),
            uplink: ConnectionFacts::default(),
            local: None,
            wear,
            drops: Drops::default(),
            samples,
            peers,
            health: Vec::new(),
            health_at: now,
            status_at: None,
            configuration: 0,
            config_notice: String::new(),
        }
    }

    fn run(mut self) {
        let reason = loop {
            match self.turn() {
                Ok(Turn::Next) => {}
                Ok(Turn::Stop(reason)) => break reason,
                Err(Closed) => break "the agent ended",
            }
        };
        let now = self.clock.now();
        self.engine.stop(now, &mut |effect| self.routes.perform(effect));
        self.keep_samples();
        let report = self.engine.report(now);
        let last = self.status(now, &self.health(), &report).offline(reason);
        self.routes.send_last(last);
        self.routes.ring();
        // Ends the acknowledgements: the connection sends what it has and disconnects.
        self.routes.clear_devices();
        self.routes.clear_local();
        self.routes.clear_clients();
        info!(reason, "engine stopped");
    }

    /// One round: wait, take, handle, advance.
    fn turn(&mut self) -> Result<Turn, Closed> {
        let first = self.wait()?;
        let now = self.clock.now();
        if self.inbox.is_crowded() {
            self.liveness.handle_crowded(now.proc);
        }
        if first.is_none() {
            self.engine.handle(now, Event::Tick);
        }
        self.gathers = first.is_some();
        let mut taken = 0;
        let mut next = first;
        while let Some(input) = next {
            if let Input::Stop { reason } = input {
                return Ok(Turn::Stop(reason));
            }
            self.gathers &= matches!(input, Input::Messages(_) | Input::FromClient(_));
            taken += self.handle(now, input);
            next = if taken < BATCH_MAX { self.inbox.recv_ready() } else { None };
        }
        if let Some(live) = self.liveness.poll(now.proc) {
            self.engine.handle(now, Event::InputLive(live));
        }
        self.engine.advance(now, &mut |effect| self.routes.perform(effect));
        self.publish_own(now);
        self.routes.ring();
        self.devices.dropped = self.routes.commands_dropped();
        if let Some(local) = &mut self.local {
            local.dropped = self.routes.local_dropped();
        }
        self.give_room_back();
        self.keep_samples();
        let acks = self.routes.take_acks();
        if acks > 0 {
            self.liveness.handle_acks(now.proc, acks);
        }
        self.publish_status(now);
        self.supervision.handle_progress();
        Ok(Turn::Next)
    }

    /// Results and commands that the listener's clients may want to see.
    fn publish_own(&mut self, now: Now) {
        let dropped = self.routes.take_clients_dropped();
        if dropped > 0 {
            self.engine.handle(now, Event::ClientsDropped(dropped));
        }
        let own = self.routes.take_own();
        if !own.is_empty() {
            for message in &own {
                self.engine.handle(now, Event::Own(message));
            }
            self.engine.advance(now, &mut |effect| self.routes.perform(effect));
        }
    }

    fn wait(&mut self) -> Result<Option<Input>, Closed> {
        if let Some(input) = self.inbox.recv_ready() {
            return Ok(Some(input));
        }
        let now = self.clock.now();
        self.liveness.handle_wait(now.proc);
        let deadlines = [self.engine.next_deadline(now), self.liveness.next_deadline(), self.status_at];
        let wait = deadlines.into_iter().flatten().map(|deadline| deadline.since(now.proc)).min();
        let wait = wait.unwrap_or(WAIT_MAX).min(WAIT_MAX);
        if self.gathers && wait > Span::ZERO {
            self.gathers = false;
            // Short of a deadline: what is due then is done with what was gathered.
            pause(wait.min(GATHER));
            return Ok(self.inbox.recv_ready());
        }
        self.inbox.recv(wait)
    }

    /// Returns the number of messages taken; everything else counts as one.
    fn handle(&mut self, now: Now, input: Input) -> usize {
        match input {
            Input::Messages(burst) => return self.handle_burst(now, burst),
            Input::FromClient(burst) => return self.handle_client_burst(now, burst),
            Input::ClientUp { connection, connect, outbox } => {
                self.routes.add_client(connection, outbox);
                self.engine.handle(now, Event::Client { connection, event: ClientEvent::Connect(&connect) });
            }
            Input::ClientDown { connection } => {
                self.engine.handle(now, Event::Client { connection, event: ClientEvent::Gone });
                self.routes.remove_client(connection);
            }
            Input::DevicesUp { connection, resumed, acks, commands, notice } => {
                self.routes.set_devices(connection, acks, commands);
                self.devices.handle_up(now.proc, notice);
                self.engine.handle(now, Event::SessionStarted { resumed });
            }
            Input::DevicesSubscribed { refused } => {
                self.devices.subscribed = refused.is_empty();
                self.devices.refused = refused;
                self.liveness.handle_subscribed(now.proc);
            }
            Input::DevicesDown { reason } => {
                self.routes.clear_devices();
                self.devices.handle_down(now.proc, reason);
                self.liveness.handle_down(now.proc);
            }
            Input::UplinkUp { outbound, terms, notice } => {
                self.routes.set_uplink(outbound);
                self.uplink.handle_up(now.proc, notice);
                self.status_at = Some(now.proc);
                self.engine.handle(now, Event::UplinkUp);
                if let Some(terms) = terms {
                    self.engine.handle(now, Event::UplinkTerms(terms));
                }
            }
            Input::UplinkAcked(batch) => self.engine.handle(now, Event::UplinkAcked(batch)),
            Input::UplinkRefused(batch, refusal) => self.engine.handle(now, Event::UplinkRefused(batch, refusal)),
            Input::UplinkNotice(notice) => self.uplink.reason = notice,
            Input::UplinkDown { reason, blames_a_batch } => {
                if self.uplink.connected {
                    self.engine.handle(now, if blames_a_batch { Event::UplinkClosedByPeer } else { Event::UplinkDown });
                }
                self.routes.clear_uplink();
                self.uplink.handle_down(now.proc, reason);
                self.status_at = None;
            }
            Input::LocalUp { records } => {
                self.routes.set_local(records);
                self.local.get_or_insert_default().handle_up(now.proc, String::new());
            }
            Input::LocalDown { reason } => {
                self.routes.clear_local();
                self.local.get_or_insert_default().handle_down(now.proc, reason);
            }
            Input::Query(answer) => {
                self.wear.note(now.proc, &self.engine.written());
                let report = self.engine.report(now);
                // Whoever asked may have gone.
                let _ = answer.send(self.status(now, &self.health(), &report).online());
            }
            Input::Look(look) => self.show(look),
            Input::Replay { samples, answer } => self.replay(now, &samples, answer),
            Input::Reconfigure(wanted) => self.reconfigure(now, *wanted),
            Input::Order(order) => self.obey(now, order),
            Input::ConfigNotice(notice) => self.config_notice = notice,
            Input::Pulse => self.supervision.handle_pulse(),
            Input::Stop { .. } => error!("a stop is taken by the loop"),
        }
        1
    }

    /// Whoever asked may have gone; without an answer it knows that nothing is to be had.
    fn show(&self, look: Look) {
        let Some(outbox) = self.engine.outbox() else { return };
        match look {
            Look::Overview(answer) => drop(answer.send(outbox.overview())),
            Look::Piece { lane, from, answer } => drop(answer.send(outbox.piece(lane, from))),
        }
    }

    fn replay(&mut self, now: Now, samples: &[Kept], answer: oneshot::Sender<Vec<Verdict>>) {
        let first = self.routes.replays.handle_begin(samples.len(), answer);
        for (id, kept) in (first..).zip(samples) {
            let Sample { topic, payload, retain, received, part, .. } = &kept.sample;
            let (retain, received, part) = (*retain, *received, *part);
            self.engine.handle(now, Event::Replay(Replay { id, topic, payload, retain, received, part }));
        }
    }

    fn keep_samples(&mut self) {
        for sample in self.engine.take_samples() {
            if let Some(samples) = &self.samples {
                samples.keep(sample);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inbox::{Arrival, Burst, inbox};
    use super::*;

    /// A store that takes nothing: whatever comes in stays unacknowledged.
    struct Hoarder(usize);

    impl Engine for Hoarder {
        fn handle(&mut self, _: Now, event: Event<'_>) {
            self.0 += usize::from(matches!(event, Event::Message(_)));
        }
        fn advance(&mut self, _: Now, _: &mut dyn FnMut(Effect)) {}
        fn next_deadline(&self, _: Now) -> Option<ProcTime> {
            None
        }
        fn stop(&mut self, _: Now, _: &mut dyn FnMut(Effect)) {}
        fn unacknowledged(&self) -> usize {
            self.0
        }
        fn health(&self) -> Vec<String> {
            Vec::new()
        }
        fn report(&self, _: Now) -> serde_json::Value {
            serde_json::Value::Null
        }
    }

    fn burst() -> Input {
        let arrival = |packet| Arrival {
            topic: "t".into(),
            payload: bytes::Bytes::new(),
            retain: false,
            dup: false,
            packet: Some(packet),
        };
        Input::Messages(Burst { connection: 1, messages: (1..=64).map(arrival).collect() })
    }

    #[test]
    fn a_store_that_takes_nothing_stops_the_intake_at_a_bound_and_a_commit_opens_it_again() {
        let (sender, inbox) = inbox();
        let identity = Identity { gateway: "gw".into(), config_hash: String::new() };
        let wiring = Wiring {
            clock: SystemClock::start(),
            inbox,
            identity,
            commit_interval: Span::from_secs(1),
            device: None,
            samples: None,
            peers: Peers { devices: true, uplink: true, listener: None },
        };
        let mut thread = EngineThread::new(Hoarder(0), wiring);
        let mut taken = 0;
        while sender.send_ready(burst()).is_ok() {
            taken += 64;
            thread.turn().unwrap_or_else(|_| panic!("the inbox is open"));
            assert!(taken <= COMMIT_MESSAGES_MAX + INBOX_LEN, "no end of it");
        }
        assert_eq!(thread.engine.0, taken, "what was taken was handled");
        assert!(taken >= COMMIT_MESSAGES_MAX);

        thread.engine.0 = 0;
        thread.give_room_back();
        assert!(sender.send_ready(burst()).is_ok(), "a commit made room");
    }
}
