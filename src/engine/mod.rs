//! The engine. PURE: bytes and time in, steps out. No runtime, MQTT, store,
//! files, threads or clock.
//!
//! ```text
//! message ─ decode ▶ record ─ stream ▶ dedup ▶ records, add ▶ advance ▶ fire ─ emit ▶ outbox
//!                                        │          │            │               └─ join
//!                                     copies   windows, panes   watermark
//! ```
//!
//! | subject | modules |
//! |---|---|
//! | what comes in and goes out | `step` · `intake` `availability` · `decode` `aftermath` `commands` · `carry` `calculations` `expression` · `fields` `states` `number` · `encode` · `outbox` `uplink` · `replay` `trace` |
//! | who is there | `devices` `names` `groups` · `idle` · `ttl` `tombstones` |
//! | how far time has come | `watermark` · `advance` · `scope` · `timers` `deadlines` |
//! | windows | `window` · `aggregate` · `add` · `fire` · `shows` · `backfill` · `emit` · `fence` |
//! | single readings | `dedup` · `records` `ordered` · `redelivery` |
//! | across streams | `stream` is one of them · `join` |
//! | clients of the listener | `broker` (sessions, subscriptions, queues, retained messages) · `clients` |
//! | the books | `ledger` · `status` · `samples` of what is rejected |
//! | durability | `driver` `commit_policy` `wear` · `checkpoint` `additions` `snapshot` `wire` · `restore` `rearm` `fit` `retire` `reconfigure` · `ring` `chain` `store` `memory_store` |
//! | what it is told | `spec` |

mod add;
mod additions;
mod advance;
mod aftermath;
pub mod aggregate;
mod availability;
mod backfill;
pub mod broker;
mod calculations;
mod carry;
pub mod chain;
mod checkpoint;
mod clients;
mod commands;
pub mod commit_policy;
mod deadlines;
pub mod decode;
mod dedup;
mod devices;
pub mod driver;
mod emit;
pub mod encode;
pub mod expression;
mod fence;
pub mod fields;
mod fire;
mod fit;
mod groups;
mod idle;
mod intake;
pub mod join;
pub mod ledger;
pub mod memory_store;
mod names;
mod number;
mod ordered;
pub mod outbox;
mod rearm;
mod reconfigure;
mod records;
pub mod redelivery;
pub mod replay;
mod restore;
mod retire;
pub mod ring;
pub mod samples;
mod scope;
mod shows;
pub mod snapshot;
pub mod spec;
pub mod states;
pub mod status;
pub mod step;
pub mod store;
mod stream;
mod timers;
mod tombstones;
pub mod trace;
mod ttl;
mod uplink;
pub mod watermark;
pub mod wear;
pub mod window;
pub mod wire;

use crate::model::ids::{DeviceId, FieldIx, StateIx};
use crate::model::record::Record;
use crate::model::time::{EventTime, Now};

use self::broker::Broker;
use self::commands::Commands;
use self::decode::Decoder;
use self::emit::Emit;
use self::fence::Graves;
use self::intake::Whole;
use self::join::{Joins, Taps};
use self::outbox::Outbox;
use self::redelivery::Redelivery;
use self::samples::{Replayed, Samples};
use self::spec::PipelineSpec;
use self::step::{DeliveryTag, Event};
use self::stream::Stream;
use self::timers::{Clocks, IdleClock};

/// All state of the agent that matters, and every rule about it. Single-owner,
/// deterministic: the same inputs at the same times give the same steps, byte
/// for byte.
pub struct Engine {
    spec: PipelineSpec,
    streams: Vec<Stream>,
    decoders: Vec<Decoder>,
    joins: Joins,
    taps: Taps,
    outbox: Outbox,
    redelivery: Redelivery,
    idle_clock: IdleClock,
    /// When the state was last stored; while it is read: how long after the snapshot.
    stored_at: Clocks,
    /// A watermark follows the clock.
    follows_clock: bool,
    /// Then: the clocks at the last input, or at the start.
    seen: Option<Now>,
    uplink_up: bool,
    resumed: bool,
    partial_before: Option<EventTime>,
    /// The record at hand, where more counts than was sent.
    whole: Whole,
    open_cost: usize,
    device_cost: usize,
    carry_cost: usize,
    /// Messages whose consequences are not durable yet.
    acks: Vec<DeliveryTag>,
    /// Replays whose consequences are not durable yet.
    replays: Vec<Replayed>,
    samples: Samples,
    commands: Commands,
    /// What must not be used again of streams that are configured no more.
    graves: Graves,
    /// Of the listener's clients; `None`: there is no listener.
    broker: Option<Broker>,
    unmatched: u64,
    /// Availability of devices that no stream knows.
    unknown_devices: u64,
    canary: Option<Canary>,
}

/// A rule broken on purpose, so that the simulation can prove that it would
/// notice. Never set by the agent.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Redelivered messages are counted again.
    CountRedeliveries,
    /// Panes are published under the revision of the one before.
    RepeatRevisions,
    /// Messages are acknowledged before the commit.
    AckBeforeCommit,
    /// Deltas are emitted twice.
    RepeatDeltas,
    /// Copies that `dedup` has recognised are counted.
    CountDuplicates,
}

impl core::fmt::Debug for Engine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine")
            .field("streams", &self.streams.len())
            .field("outbox", &self.outbox)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(spec: PipelineSpec) -> Engine {
        let streams: Vec<_> = spec.streams.iter().cloned().map(Stream::new).collect();
        Engine {
            joins: Joins::new(&spec.joins, &streams).expect("config has looked for the streams and windows of joins"),
            taps: Taps::default(),
            streams,
            decoders: spec.streams.iter().map(|stream| Decoder::of(stream, &spec)).collect(),
            outbox: Outbox::new(spec.outbox, spec.uplink),
            redelivery: Redelivery::default(),
            idle_clock: IdleClock::default(),
            stored_at: Clocks::default(),
            follows_clock: spec.follows_clock(),
            seen: None,
            uplink_up: false,
            resumed: false,
            partial_before: None,
            whole: Whole::default(),
            open_cost: 0,
            device_cost: 0,
            carry_cost: 0,
            acks: Vec::new(),
            replays: Vec::new(),
            samples: Samples::default(),
            commands: Commands::default(),
            graves: Graves::default(),
            broker: spec.broker.map(Broker::new),
            unmatched: 0,
            unknown_devices: 0,
            canary: None,
            spec,
        }
    }

    /// Takes one input in.
    pub fn handle(&mut self, now: Now, event: Event<'_>) {
        // What time alone has brought comes first: a device that was silent for
        // too long was idle before its next message came.
        self.outbox.set_now(now);
        self.handle_deadlines(now);
        match event {
            Event::Message(message) => self.handle_message(now, message),
            Event::SessionStarted { resumed } => self.handle_session(resumed),
            Event::InputLive(live) => self.idle_clock.set_running(now.proc, live),
            Event::UplinkUp => {
                self.uplink_up = true;
                self.outbox.handle_up();
            }
            Event::UplinkTerms(terms) => self.outbox.handle_terms(terms),
            Event::UplinkDown => {
                self.uplink_up = false;
                self.outbox.handle_down();
            }
            Event::UplinkClosedByPeer => {
                self.uplink_up = false;
                self.outbox.handle_closed_by_peer(now);
            }
            Event::UplinkAcked(batch) => self.outbox.handle_ack(now, batch),
            Event::UplinkRefused(batch, why) => self.outbox.handle_refused(now, batch, why),
            Event::Availability(signal) => self.handle_availability(now, signal),
            Event::Replay(replay) => self.handle_replay(now, replay),
            Event::Client { connection, event } => self.handle_client(now, connection, event),
            Event::Own(message) => self.publish_own(now, message),
            Event::ClientsDropped(count) => {
                if let Some(broker) = &mut self.broker {
                    broker.note_dropped(count);
                }
            }
            Event::Tick => {}
        }
    }

    fn handle_session(&mut self, resumed: bool) {
        self.resumed = resumed;
        if !resumed {
            self.redelivery.forget_all();
        }
    }

    /// Takes a decoded record in, past topic, payload and calculations: for replays of
    /// plain traces, tests and benchmarks.
    pub fn handle_record(&mut self, now: Now, stream: usize, record: &Record<'_>) {
        self.outbox.set_now(now);
        self.handle_deadlines(now);
        let live = self.idle_clock.read(now.proc);
        let index = stream;
        if self.streams[index].spec.carry_forward.is_some() {
            self.accept_completed(now, index, record);
        } else {
            let (stream, mut out, _) = self.parts(index, now);
            stream.accept(&mut out, live, record, record);
        }
        self.settle_joins(now, index);
    }

    /// Makes a device known before it has sent anything: under scope `stream` the
    /// watermark waits for it until it is idle. False when the text is no device id.
    pub fn register_device(&mut self, now: Now, stream: usize, device: &str) -> bool {
        let live = self.idle_clock.read(now.proc);
        let Some(name) = DeviceId::new(device) else { return false };
        self.streams[stream].register(&mut self.device_cost, live, &name);
        true
    }

    /// The place of a field of a stream, given to it now if it is new.
    pub fn field(&mut self, stream: usize, name: &str) -> Option<FieldIx> {
        self.streams[stream].fields.intern(name)
    }

    /// The place of a state of a stream, given to it now if it is new.
    pub fn state(&mut self, stream: usize, text: &str) -> Option<StateIx> {
        self.streams[stream].fields.intern_state(text)
    }

    /// The place of a stream.
    pub fn stream(&self, name: &str) -> Option<usize> {
        self.streams.iter().position(|stream| stream.spec.name.as_str() == name)
    }

    /// The end of a bounded input: every open window of every stream fires.
    pub fn finish(&mut self, now: Now) {
        for index in 0..self.streams.len() {
            let (stream, mut out, _) = self.parts(index, now);
            stream.finish(&mut out);
            self.collect_for_joins(now, index);
        }
        self.look_at_joins(now, true);
    }

    /// Breaks a rule; see [`Canary`].
    #[doc(hidden)]
    pub fn set_canary(&mut self, canary: Canary) {
        self.canary = Some(canary);
    }

    #[doc(hidden)]
    pub fn canary(&self) -> Option<Canary> {
        self.canary
    }

    /// One stream, where its rows go, and what reads its payloads.
    fn parts(&mut self, index: usize, now: Now) -> (&mut Stream, Emit<'_>, &Decoder) {
        let out = Emit {
            now,
            outbox: &mut self.outbox,
            uplink_up: self.uplink_up,
            partial_before: self.partial_before,
            open_cost: &mut self.open_cost,
            device_cost: &mut self.device_cost,
            carry_cost: &mut self.carry_cost,
            taps: self.joins.tap(index, &mut self.taps),
            canary: self.canary,
        };
        (&mut self.streams[index], out, &self.decoders[index])
    }
}
