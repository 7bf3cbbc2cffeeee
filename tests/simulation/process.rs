//! The agent's process: the production driver on the disk, started, run, stopped
//! and killed. What the shell would do with an effect is done here.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use tidegate::engine::Canary;
use tidegate::engine::driver::Driver;
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::status::Status;
use tidegate::engine::step::{DeliveryTag, Effect, Event, Message};
use tidegate::model::rng::Rng;
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

use super::broker::{Broker, Delivery};
use super::cloud::Cloud;
use super::devices::Fleet;
use super::disk::Disk;
use super::log::{Entry, Log, Take};
use super::plan::{Plan, as_ms, pick};

/// Lines of the trace that a failure shows.
const TRACE_LINES: usize = 30;
/// Bytes that the outbox may hold beyond its bound: a newest row per lane (with some
/// hundred buckets of sketches), gaps.
const OUTBOX_SLACK: usize = 5 * 4_096 + 2_048;

/// Everything there is.
pub(crate) struct World {
    pub plan: Plan,
    pub rng: Rng,
    pub canary: Option<Canary>,
    pub disk: Disk,
    pub driver: Driver<Ring<Disk>>,
    pub fleet: Fleet,
    pub broker: Broker,
    pub cloud: Cloud,
    pub log: Log,
    pub resumed: bool,
    /// Devices that are known, and whether they are idle, as they were last seen.
    pub known: BTreeMap<(usize, String), bool>,
    /// The change of the configuration that the log ends with is durable.
    is_settled: bool,
    /// Signals about devices that no stream knew, in this process.
    pub unknown: u64,
    pub wall_ms: i64,
    proc_ms: u64,
    connection: u32,
    tags: BTreeMap<DeliveryTag, u64>,
    pub trace: Trace,
}

/// What happened: a few lines for people, a fingerprint for the determinism check.
pub(crate) struct Trace {
    pub verbose: bool,
    lines: VecDeque<String>,
    effects: DefaultHasher,
    pub starts: u64,
    pub publishes: u64,
    /// What occurred, and how often.
    pub seen: BTreeMap<String, u64>,
}

impl World {
    pub(crate) fn new(seed: u64, canary: Option<Canary>, verbose: bool) -> Result<World, String> {
        let plan = Plan::new(seed);
        let disk = Disk::new(seed);
        let now = now_at(0, plan.start_wall_ms);
        let driver = open(&plan, &disk, now)?;
        let mut rng = Rng::fork(seed, 2);
        let mut world = World {
            fleet: Fleet::new(&plan, &mut rng),
            rng,
            canary,
            driver,
            disk,
            broker: Broker::new(&plan),
            cloud: Cloud::new(&plan),
            log: Log::new(Rc::new(plan.spec.clone())),
            resumed: false,
            known: BTreeMap::new(),
            is_settled: true,
            unknown: 0,
            wall_ms: plan.start_wall_ms,
            proc_ms: 0,
            connection: 0,
            tags: BTreeMap::new(),
            trace: Trace {
                verbose,
                lines: VecDeque::new(),
                effects: DefaultHasher::new(),
                starts: 1,
                publishes: 0,
                seen: BTreeMap::new(),
            },
            plan,
        };
        if verbose {
            println!("{:#?}", world.plan.spec);
        }
        if let Some(canary) = canary {
            world.driver.set_canary(canary);
        }
        Ok(world)
    }

    pub(crate) fn now(&self) -> Now {
        now_at(self.proc_ms, self.wall_ms)
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.wall_ms
    }

    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        let line = format!("{:>9} ms  {}", self.wall_ms - self.plan.start_wall_ms, what());
        self.trace.say(line);
    }

    pub(crate) fn status(&self) -> Status {
        self.driver.status(self.now())
    }

    /// One input, and whatever it makes due.
    pub(crate) fn handle(&mut self, event: Event<'_>) -> Result<(), String> {
        self.notice_silence();
        self.driver.handle(self.now(), event);
        self.advance()
    }

    /// A delivery arrives at the agent.
    pub(crate) fn take(&mut self, delivery: &Delivery) {
        self.notice_silence();
        let message = &delivery.message;
        let tag = delivery.packet.map(|packet| DeliveryTag { connection: self.connection, packet });
        let place = (self.broker.session(), delivery.packet);
        let redelivery = delivery.dup && self.resumed && self.log.was_taken(message.uid, place);
        self.say(|| {
            let text: String = String::from_utf8_lossy(&message.payload).chars().take(200).collect();
            let (packet, dup) = (delivery.packet, delivery.dup);
            format!("message {} as {packet:?}, dup {dup}, known {redelivery}: {} {text}", message.uid, message.topic)
        });
        if let Some(tag) = tag {
            self.tags.insert(tag, message.uid);
        }
        let take = Take { message: message.clone(), delivery: place, redelivery };
        self.log.push(self.wall_ms, Entry::Take(take));
        let event = Event::Message(Message {
            topic: &message.topic,
            payload: &message.payload,
            retain: message.retained,
            dup: delivery.dup,
            tag,
        });
        self.driver.handle(self.now(), event);
        self.known = self.look();
    }

    /// Lets the driver do what is due, and carries its effects out.
    pub(crate) fn advance(&mut self) -> Result<(), String> {
        self.notice_silence();
        let now = self.now();
        let mut effects = Vec::new();
        self.driver.advance(now, &mut |effect| effects.push(effect));
        for effect in effects {
            self.perform(effect)?;
        }
        if self.disk.crashed() {
            self.say(|| "the power went off during a write".to_owned());
            self.trace.count("power cuts during a write", 1);
            return self.restart();
        }
        if self.driver.next_deadline().is_some_and(|at| at <= now.proc) {
            return Err("a deadline stays in the past: the shell would spin".to_owned());
        }
        self.check_bound()
    }

    fn perform(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Ack(tag) => {
                (1_u8, tag.connection, tag.packet).hash(&mut self.trace.effects);
                let uid = *self.tags.get(&tag).ok_or("an acknowledgement for nothing that was delivered")?;
                self.say(|| format!("ack of message {uid} as {}", tag.packet));
                self.log.note_ack(uid);
                if tag.connection == self.connection && self.broker.is_connected() {
                    self.broker.handle_puback(tag.packet);
                }
                Ok(())
            }
            Effect::Publish(batch) => {
                (2_u8, batch.id.0, &batch.topic, &batch.payload).hash(&mut self.trace.effects);
                self.trace.publishes += 1;
                self.say(|| format!("publish {:?} {}", batch.id, String::from_utf8_lossy(&batch.payload)));
                self.cloud.handle_publish(batch)
            }
            Effect::PublishLocal(record) => {
                (3_u8, &record.topic, &record.payload).hash(&mut self.trace.effects);
                self.trace.count("results on the devices' broker", 1);
                if record.topic.starts_with("tidegate/gw-1/local/") { Ok(()) } else { Err(record.topic) }
            }
            Effect::Replayed(_) => Err("nobody has asked for a replay".to_owned()),
            Effect::Tell { .. } => Err("there is no listener".to_owned()),
            Effect::Command(command) => Err(format!("nobody is to be asked: {}", command.topic)),
        }
    }

    fn check_bound(&self) -> Result<(), String> {
        let outbox = self.driver.engine().outbox();
        let (held, bound) = (outbox.bytes(), self.plan.spec.outbox.bytes_max);
        if held <= bound + (self.cloud.held_bytes() + OUTBOX_SLACK) as u64 {
            return Ok(());
        }
        Err(format!("the outbox holds {held} bytes, {bound} are allowed"))
    }

    /// Time passes; the driver wakes at its deadlines, now and then too late.
    pub(crate) fn pass(&mut self, span_ms: u64) -> Result<(), String> {
        let end_ms = self.wall_ms + as_ms(span_ms);
        loop {
            let left = u64::try_from(end_ms - self.wall_ms).unwrap_or(0);
            let due = self.driver.next_deadline().map(|at| at.since(self.now().proc).as_millis());
            let Some(due) = due.filter(|due| *due <= left) else {
                self.step(left);
                return self.advance();
            };
            let late = if self.plan.wakes_late && self.rng.chance(8) { self.rng.below(30) } else { 0 };
            self.step((due + late).min(left));
            self.advance()?;
        }
    }

    /// Somebody sets the clock. The monotonic one does not care.
    pub(crate) fn set_clock(&mut self, by_ms: i64) {
        self.say(|| format!("the clock jumps by {by_ms} ms"));
        self.wall_ms += by_ms;
    }

    fn step(&mut self, span_ms: u64) {
        self.proc_ms += span_ms;
        self.wall_ms += as_ms(span_ms);
    }

    pub(crate) fn connect_devices(&mut self) -> Result<(), String> {
        let resumed = self.broker.connect(&mut self.rng);
        self.say(|| format!("devices' broker connected, session kept: {resumed}"));
        self.trace.count(if resumed { "sessions resumed" } else { "sessions new" }, 1);
        self.resumed = resumed;
        self.connection += 1;
        self.handle(Event::SessionStarted { resumed })?;
        if !self.broker.is_connected() {
            return Ok(()); // The power went off.
        }
        if !resumed || self.rng.chance(3) {
            let retained = self.broker.retained();
            let copies = retained.iter().map(|message| self.fleet.retained(message)).collect();
            self.broker.queue_retained(copies);
        }
        self.handle(Event::InputLive(true))
    }

    /// A torn connection. What had arrived is still taken in.
    pub(crate) fn tear_devices(&mut self) -> Result<(), String> {
        let arrived = self.broker.tear(&mut self.rng);
        self.say(|| format!("devices' broker gone, {} deliveries arrived before", arrived.len()));
        for delivery in &arrived {
            self.take(delivery);
        }
        self.handle(Event::InputLive(false))
    }

    pub(crate) fn connect_cloud(&mut self) -> Result<(), String> {
        self.say(|| "cloud connected".to_owned());
        self.cloud.connect();
        self.handle(Event::UplinkUp)
    }

    pub(crate) fn tear_cloud(&mut self) -> Result<(), String> {
        self.say(|| "cloud gone".to_owned());
        self.cloud.tear(&mut self.rng)?;
        self.handle(Event::UplinkDown)
    }

    /// A clean stop, and a new process.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.say(|| "stop".to_owned());
        let (now, mut effects) = (self.now(), Vec::new());
        self.driver.stop(now, &mut |effect| effects.push(effect));
        effects.into_iter().try_for_each(|effect| self.perform(effect))?;
        self.restart()
    }

    /// The process dies here, and another one starts on what survived.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let durable = !self.disk.crashed() && self.driver.engine().is_committed();
        self.is_settled |= self.driver.storage_status().snapshots > 0;
        // A start drops fences of windows that have expired since.
        let clean = durable && !self.plan.has_deadlines() && !self.log.is_redefined();
        let before = clean.then(|| self.driver.engine().snapshot(self.now()));
        _ = self.broker.tear(&mut self.rng);
        self.cloud.tear(&mut self.rng)?;
        self.wall_ms += as_ms(pick(&mut self.rng, &[0, 1, 700, 20_000]));
        self.proc_ms = 0;
        self.tags.clear();
        let reordered = self.plan.reconfigures && self.rng.chance(3);
        if reordered {
            self.say(|| "another order of fields and windows".to_owned());
            self.plan.reorder(&mut self.rng);
        }
        // What is not durable now may still be drained by what comes: then it would not be
        // known what of it there was.
        let redefined = self.plan.redefines && durable && self.is_settled;
        let change = if redefined { self.plan.redefine(&mut self.rng) } else { None };
        if let Some(change) = change {
            self.say(|| format!("another configuration: {change}"));
            self.trace.count(change, 1);
            self.fleet.follow(&self.plan.spec, &mut self.rng);
            self.cloud.follow(&self.plan.spec);
        }
        loop {
            self.disk.reopen();
            self.trace.starts += 1;
            self.driver = open(&self.plan, &self.disk, self.now())?;
            if !self.disk.crashed() {
                break;
            }
        }
        if let Some(canary) = self.canary {
            self.driver.set_canary(canary);
        }
        self.unknown = 0;
        let known = self.look();
        let is_active = |line: usize, device: &str| known.get(&(line, device.to_owned())) == Some(&false);
        let lost = self.log.cut_to(&self.status(), is_active)?;
        self.known = known;
        if change.is_some() {
            self.log.push(self.wall_ms, Entry::Redefine(Rc::new(self.plan.spec.clone())));
            self.is_settled = false;
        }
        self.trace.count("takes undone by a crash", lost as u64);
        self.trace.count("equal states after a crash", u64::from(before.is_some()));
        self.say(|| format!("started anew; {lost} messages were not durable yet"));
        match before {
            Some(before) if !reordered && change.is_none() && before != self.driver.engine().snapshot(self.now()) => {
                Err("all was durable, and the state after the restart is another".to_owned())
            }
            Some(_) | None => self.check_books(),
        }
    }

    /// The books balance, and nothing that was handed over is missing in them.
    pub(crate) fn check_books(&mut self) -> Result<(), String> {
        let failing = self.driver.storage_status().failure.is_some();
        self.trace.count("checked while the disk fails", u64::from(failing));
        if !self.driver.engine().balances() {
            return Err(format!("the books do not balance: {:?}", self.status()));
        }
        self.log.check_totals(&self.status())
    }
}

impl Trace {
    /// Counts something that has to occur at least in some seeds.
    pub(crate) fn count(&mut self, what: &str, times: u64) {
        *self.seen.entry(what.to_owned()).or_default() += times;
    }

    fn say(&mut self, line: String) {
        if self.verbose {
            println!("{line}");
        }
        if self.lines.len() == TRACE_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        let short = |line: &String| line.chars().take(300).collect::<String>();
        self.lines.iter().map(short).collect::<Vec<_>>().join("\n")
    }

    /// Names the sequence of effects.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.effects.finish()
    }
}

fn open(plan: &Plan, disk: &Disk, now: Now) -> Result<Driver<Ring<Disk>>, String> {
    let store = Ring::new(disk.clone(), Packing::NONE);
    Driver::start(plan.spec.clone(), store, now).map_err(|error| format!("the driver did not start: {error}"))
}

fn now_at(proc_ms: u64, wall_ms: i64) -> Now {
    Now { proc: ProcTime::from_millis(proc_ms), wall: WallTime::from_millis(wall_ms), quality: ClockQuality::Synced }
}
