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
//! | what comes in and goes out | `step` · `decode` · `fields` `states` `number` · `encode` · `outbox` `uplink` · `replay` |
//! | who is there | `devices` `names` `groups` · `idle` · `ttl` `tombstones` |
//! | how far time has come | `watermark` · `advance` · `scope` · `timers` `deadlines` |
//! | windows | `window` · `aggregate` · `add` · `fire` · `shows` · `backfill` · `emit` · `fence` |
//! | single readings | `dedup` · `records` `ordered` · `redelivery` |
//! | across streams | `join` |
//! | the books | `ledger` · `status` · `samples` of what is rejected |
//! | durability | `driver` `commit_policy` `wear` · `checkpoint` `additions` `snapshot` `wire` · `restore` `rearm` · `ring` `chain` `store` `memory_store` |
//! | what it is told | `spec` |

mod add;
mod additions;
mod advance;
pub mod aggregate;
mod backfill;
pub mod chain;
mod checkpoint;
pub mod commit_policy;
mod deadlines;
pub mod decode;
mod dedup;
mod devices;
pub mod driver;
mod emit;
pub mod encode;
mod fence;
pub mod fields;
mod fire;
mod groups;
mod idle;
pub mod join;
pub mod ledger;
pub mod memory_store;
mod names;
mod number;
mod ordered;
pub mod outbox;
mod rearm;
mod records;
pub mod redelivery;
pub mod replay;
mod restore;
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
mod ttl;
mod uplink;
pub mod watermark;
pub mod wear;
pub mod window;
pub mod wire;

use crate::model::ids::{DeviceId, FieldIx, StateIx};
use crate::model::limits::PAYLOAD_BYTES_MAX;
use crate::model::record::{Record, RejectReason, TimeSource};
use crate::model::time::{EventTime, Now};
use crate::model::topic::DeviceTemplate;

use self::decode::batch::DecodedBatch;
use self::decode::{DecodedTime, Decoder};
use self::emit::Emit;
use self::join::{Joins, Taps};
use self::outbox::Outbox;
use self::redelivery::{Redelivery, fingerprint};
use self::samples::{Replayed, Samples};
use self::spec::PipelineSpec;
use self::step::{Availability, DeliveryTag, Event, Message};
use self::stream::Stream;
use self::timers::{Clocks, IdleClock};

/// All state of the agent that matters, and every rule about it. Single-owner,
/// deterministic: the same inputs at the same times give the same steps, byte
/// for byte.
pub struct Engine {
    spec: PipelineSpec,
    streams: Vec<Stream>,
    decoders: Vec<Box<dyn Decoder + Send>>,
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
    decoded: DecodedBatch,
    open_cost: usize,
    device_cost: usize,
    /// Messages whose consequences are not durable yet.
    acks: Vec<DeliveryTag>,
    /// Replays whose consequences are not durable yet.
    replays: Vec<Replayed>,
    samples: Samples,
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
            decoders: spec.streams.iter().map(decode::decoder).collect(),
            outbox: Outbox::new(spec.outbox, spec.uplink),
            redelivery: Redelivery::default(),
            idle_clock: IdleClock::default(),
            stored_at: Clocks::default(),
            follows_clock: spec.follows_clock(),
            seen: None,
            uplink_up: false,
            resumed: false,
            partial_before: None,
            decoded: DecodedBatch::default(),
            open_cost: 0,
            device_cost: 0,
            acks: Vec::new(),
            replays: Vec::new(),
            samples: Samples::default(),
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
            Event::Tick => {}
        }
    }

    fn handle_session(&mut self, resumed: bool) {
        self.resumed = resumed;
        if !resumed {
            self.redelivery.forget_all();
        }
    }

    fn handle_availability(&mut self, now: Now, signal: Availability<'_>) {
        let live = self.idle_clock.read(now.proc);
        let mut known = signal.device.is_none();
        for index in 0..self.streams.len() {
            if signal.stream.is_some_and(|stream| stream != index) {
                continue;
            }
            let (stream, mut out, _) = self.parts(index, now);
            match signal.device {
                Some(device) => known |= stream.handle_availability(&mut out, live, device, signal.online),
                None => stream.handle_availability_of_all(&mut out, live, signal.online),
            }
            self.settle_joins(now, index);
        }
        self.unknown_devices += u64::from(!known);
    }

    /// The first stream that takes a topic, and the device and group that the topic names.
    fn find_stream(&self, topic: &str) -> Option<(usize, Option<DeviceId>, Option<DeviceId>)> {
        self.streams.iter().enumerate().find_map(|(index, stream)| {
            let captures = stream.spec.topic.match_topic(topic)?;
            let id = |template: &DeviceTemplate| {
                let mut buffer = heapless::String::new();
                // Copied out of the borrow: at most 128 bytes.
                template.resolve(&captures, &mut buffer).and_then(DeviceId::new)
            };
            let group = stream.spec.group.as_ref().filter(|_| stream.has_groups).and_then(id);
            Some((index, id(&stream.spec.device), group))
        })
    }

    fn handle_message(&mut self, now: Now, message: Message<'_>) {
        let Some((index, device, group)) = self.find_stream(message.topic) else {
            // A subscription of before that the broker still holds. Nobody wants it.
            self.unmatched += 1;
            self.acks.extend(message.tag);
            return;
        };
        if self.is_redelivery(index, message) {
            return;
        }
        self.take_in(now, index, message, device.as_ref(), group.as_ref());
    }

    /// Notes what has to be acknowledged. True when the message was taken in before.
    fn is_redelivery(&mut self, index: usize, message: Message<'_>) -> bool {
        let stream = &mut self.streams[index];
        stream.changes.ledger = true;
        let Some(tag) = message.tag else {
            stream.ledger.unprotected += 1;
            return false;
        };
        self.acks.push(tag);
        let print = fingerprint(message.topic, message.payload);
        let known = self.resumed && message.dup && self.redelivery.is_known(tag.packet, print);
        if known && self.canary != Some(Canary::CountRedeliveries) {
            stream.ledger.redelivered += 1;
            return true;
        }
        self.redelivery.remember(tag.packet, print);
        false
    }

    fn decode(
        &mut self,
        now: Now,
        index: usize,
        message: Message<'_>,
        device: Option<&DeviceId>,
        group: Option<&DeviceId>,
    ) {
        let stream = &mut self.streams[index];
        let Some(device) = device else { return stream.reject(RejectReason::BadDevice) };
        if message.payload.len() > PAYLOAD_BYTES_MAX {
            return stream.reject(RejectReason::TooLarge);
        }
        let decoded = &mut self.decoded;
        decoded.clear();
        self.decoders[index].decode(message.payload, &mut stream.fields, &mut |result| decoded.push(result));
        let live = self.idle_clock.read(now.proc);
        for place in 0..self.decoded.records.len() {
            let entry = self.decoded.records[place];
            let (stream, mut out, decoded) = self.parts(index, now);
            if !stream.sampling.select(place, decoded.records.len()) {
                continue;
            }
            let (at, source) = match entry.time {
                Err(reason) => {
                    stream.reject(reason);
                    continue;
                }
                Ok(DecodedTime::Receive) => (now.wall.as_event_time(), TimeSource::Receive),
                Ok(DecodedTime::Event(at)) => (at, TimeSource::Device),
            };
            if message.retain && stream.is_stale_state(device.as_str(), at, source) {
                stream.ignore();
                continue;
            }
            let group = group.map_or("", DeviceId::as_str);
            let (values, states) = (decoded.values(entry), decoded.states(entry));
            let record = Record { group, source, states, ..Record::new(device.as_str(), at, values) };
            let accepted = stream.ledger.accepted;
            stream.accept(&mut out, live, &record);
            if stream.ledger.accepted > accepted {
                stream.ledger.fields_left_out += u64::from(entry.left_out);
            }
            self.settle_joins(now, index);
        }
    }

    /// Takes a decoded record in, past topic and payload: for replays of plain
    /// traces, tests and benchmarks.
    pub fn handle_record(&mut self, now: Now, stream: usize, record: &Record<'_>) {
        self.outbox.set_now(now);
        self.handle_deadlines(now);
        let live = self.idle_clock.read(now.proc);
        let index = stream;
        let (stream, mut out, _) = self.parts(index, now);
        stream.accept(&mut out, live, record);
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

    /// One stream, where its rows go, and what was decoded.
    fn parts(&mut self, index: usize, now: Now) -> (&mut Stream, Emit<'_>, &DecodedBatch) {
        let out = Emit {
            now,
            outbox: &mut self.outbox,
            uplink_up: self.uplink_up,
            partial_before: self.partial_before,
            open_cost: &mut self.open_cost,
            device_cost: &mut self.device_cost,
            taps: self.joins.tap(index, &mut self.taps),
            canary: self.canary,
        };
        (&mut self.streams[index], out, &self.decoded)
    }
}
