//! The devices: what they send, and what each payload means. The meaning is
//! written down when the payload is made, so that the oracle never decodes.

mod payload;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use tidegate::engine::spec::{DedupBy, PipelineSpec, Scope, StreamSpec};
use tidegate::model::record::RejectReason;
use tidegate::model::rng::Rng;

use self::payload::{Payload, garbage, join, record, single, wild};
use super::plan::{Plan, as_len, as_ms, line_of};

/// Labels that groups of devices have.
const SITES: [&str; 3] = ["north", "süd", "a b"];
/// Records that a burst has.
const BURST: u64 = 200;

/// One message on its way from a device to the agent.
#[derive(Debug)]
pub(crate) struct Message {
    /// Never used twice: a retained copy is a message of its own.
    pub uid: u64,
    pub topic: String,
    pub payload: Vec<u8>,
    /// `QoS` 1; else 0.
    pub confirmed: bool,
    /// The device asked the broker to retain it.
    pub keep: bool,
    /// The broker sends it from its retained store.
    pub retained: bool,
    /// The number in the name of the stream that the topic belongs to.
    pub line: Option<usize>,
    pub device: String,
    /// The label of its group; empty: none that can be.
    pub group: String,
    pub items: Rc<Vec<Item>>,
}

/// What a payload holds.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A record.
    Record(Reading),
    /// Something that is counted and not used.
    Reject(RejectReason),
}

/// A record.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Without a time: the receive time.
    pub at: Option<i64>,
    /// Without mark and sequence number.
    pub values: BTreeMap<&'static str, Datum>,
    pub is_mark: bool,
    pub number: Option<u64>,
    /// Fields that are no state that can be.
    pub left_out: u64,
}

/// The value of one field.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub(crate) enum Datum {
    Number(f64),
    State(String),
}

struct Device {
    line: usize,
    name: String,
    site: &'static str,
    /// Its readings are late by this.
    lag_ms: i64,
    /// Its clock is ahead by this, and by so many parts of a million of all that passes.
    skew_ms: i64,
    drift_ppm: i64,
    next_number: u64,
    /// Keeps its readings until then.
    offline_until: i64,
    kept: Vec<i64>,
    sent: VecDeque<Payload>,
}

/// All devices.
pub(crate) struct Fleet {
    devices: Vec<Device>,
    next_uid: u64,
    grain_ms: i64,
    start_ms: i64,
    devices_per_stream: u64,
    lag_ms: i64,
    /// Occurrences, for the proof that there were some.
    pub seen: BTreeMap<&'static str, u64>,
}

impl Fleet {
    pub(crate) fn new(plan: &Plan, rng: &mut Rng) -> Fleet {
        let mut fleet = Fleet {
            devices: Vec::new(),
            next_uid: 0,
            grain_ms: plan.grain_ms,
            start_ms: plan.start_wall_ms,
            devices_per_stream: plan.devices,
            lag_ms: plan.lag_ms,
            seen: BTreeMap::new(),
        };
        fleet.follow(&plan.spec, rng);
        fleet
    }

    /// There are other streams now: those that are new have new devices.
    pub(crate) fn follow(&mut self, spec: &PipelineSpec, rng: &mut Rng) {
        let names = ["d0", "d 1", "d%2", "dü3", "d\"4", "d.5"];
        for stream in &spec.streams {
            let line = line_of(stream.name.as_str());
            if self.devices.iter().any(|device| device.line == line) {
                continue;
            }
            let lags = matches!(stream.watermark.scope, Scope::Stream(_) | Scope::Group(_));
            for (index, name) in names.iter().take(as_len(self.devices_per_stream)).enumerate() {
                let skew_ms = if rng.chance(6) { as_ms(rng.below(10_000)) - 5_000 } else { 0 };
                let drift_ppm = if rng.chance(8) { as_ms(rng.below(40_000)) - 20_000 } else { 0 };
                *self.seen.entry("devices with a clock that is off").or_default() += u64::from(skew_ms != 0);
                *self.seen.entry("devices with a clock that drifts").or_default() += u64::from(drift_ppm != 0);
                self.devices.push(Device {
                    line,
                    name: (*name).to_owned(),
                    site: SITES[as_len(rng.below(3))],
                    lag_ms: if lags && index % 2 == 1 { self.lag_ms } else { 0 },
                    skew_ms,
                    drift_ppm,
                    next_number: if rng.chance(2) { 0 } else { rng.below(100_000) },
                    offline_until: i64::MIN,
                    kept: Vec::new(),
                    sent: VecDeque::new(),
                });
            }
        }
    }

    /// Every device with the number of its stream.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (usize, &str)> {
        self.devices.iter().map(|device| (device.line, device.name.as_str()))
    }

    /// What some device sends now.
    pub(crate) fn messages(&mut self, spec: &PipelineSpec, rng: &mut Rng, wall: i64) -> Vec<Message> {
        let index = as_len(rng.below(self.devices.len() as u64));
        let device = &mut self.devices[index];
        let Some(stream) = stream_of(spec, device.line) else {
            // Its stream is gone. It does not know.
            return vec![self.message(None, rng, index, (b"{\"v\":1}".to_vec(), Rc::new(Vec::new())))];
        };
        let clock = device.skew_ms + device.drift_ppm * (wall - self.start_ms) / 1_000_000;
        if device.offline_until > wall {
            device.kept.push(wall + clock - wall.rem_euclid(self.grain_ms));
            return Vec::new();
        }
        // Not with `state_ttl`: when a group ends that all have left, no counter says.
        if rng.chance(80) && stream.state_ttl.is_none() {
            device.site = SITES[as_len(rng.below(3))];
        }
        if !device.kept.is_empty() {
            let kept = core::mem::take(&mut device.kept);
            return self.backlog(stream, rng, index, &kept);
        }
        let disorder = stream.watermark.strategy.longest_wait().as_millis();
        let lag_ms = device.lag_ms;
        let shown = wall + clock;
        let payload = match rng.below(100) {
            0..=59 => {
                let within = rng.between(0, disorder);
                self.reading(stream, rng, index, shown - lag_ms - as_ms(within))
            }
            60..=69 => {
                let beyond = disorder + rng.below(6_000);
                self.reading(stream, rng, index, shown - as_ms(beyond))
            }
            70..=75 => {
                let long_ago = rng.below(200_000);
                self.reading(stream, rng, index, shown - as_ms(long_ago))
            }
            76..=78 => {
                let at = wild(rng, stream, wall);
                self.reading(stream, rng, index, at)
            }
            79..=84 => garbage(rng, stream, wall),
            85 if rng.chance(2) => return self.burst(stream, rng, index, shown),
            85..=88 => self.array(stream, rng, index, shown),
            89..=91 => {
                device.offline_until = wall + as_ms(rng.between(500, 20_000));
                return Vec::new();
            }
            92..=93 => return vec![self.misdirected(spec, rng, index)],
            // Once more, and not always the last one.
            _ => {
                let back = as_len(rng.below(device.sent.len().max(1) as u64));
                match device.sent.get(back) {
                    Some(sent) => sent.clone(),
                    None => return Vec::new(),
                }
            }
        };
        let device = &mut self.devices[index];
        device.sent.push_front(payload.clone());
        device.sent.truncate(4);
        vec![self.message(Some(stream), rng, index, payload)]
    }

    /// One record per device at `wall`, so that the windows before it fire.
    pub(crate) fn flush(&mut self, spec: &PipelineSpec, rng: &mut Rng, wall: i64) -> Vec<Message> {
        let mut messages = Vec::new();
        for index in 0..self.devices.len() {
            let Some(stream) = stream_of(spec, self.devices[index].line) else { continue };
            let payload = self.reading(stream, rng, index, wall);
            messages.push(Message { confirmed: true, keep: false, ..self.message(Some(stream), rng, index, payload) });
        }
        messages
    }

    /// The copy that the broker keeps for new subscriptions.
    pub(crate) fn retained(&mut self, message: &Message) -> Message {
        self.next_uid += 1;
        Message {
            uid: self.next_uid,
            topic: message.topic.clone(),
            payload: message.payload.clone(),
            device: message.device.clone(),
            group: message.group.clone(),
            items: Rc::clone(&message.items),
            retained: true,
            ..*message
        }
    }

    fn message(&mut self, stream: Option<&StreamSpec>, rng: &mut Rng, index: usize, payload: Payload) -> Message {
        let device = &self.devices[index];
        self.next_uid += 1;
        let has_groups = stream.is_some_and(StreamSpec::has_groups);
        let topic = topic(device.line, has_groups.then_some(device.site), &device.name);
        Message {
            uid: self.next_uid,
            topic,
            payload: payload.0,
            confirmed: !rng.chance(12),
            keep: rng.chance(10),
            retained: false,
            line: Some(device.line),
            device: device.name.clone(),
            group: device.site.to_owned(),
            items: payload.1,
        }
    }

    /// A topic of nobody, a device id that cannot be, or such a group.
    fn misdirected(&mut self, spec: &PipelineSpec, rng: &mut Rng, index: usize) -> Message {
        self.next_uid += 1;
        let long = "x".repeat(200);
        let line = self.devices[index].line;
        let stream = stream_of(spec, line);
        let site = stream.filter(|stream| stream.has_groups()).map(|_| self.devices[index].site);
        let mut message = Message {
            uid: self.next_uid,
            topic: "elsewhere/d0".to_owned(),
            payload: b"{\"v\":1}".to_vec(),
            confirmed: true,
            keep: false,
            retained: false,
            line: None,
            device: String::new(),
            group: String::new(),
            items: Rc::new(vec![Item::Reject(RejectReason::BadDevice)]),
        };
        match (rng.below(3), stream, site) {
            (0, Some(_), _) => (message.topic, message.line) = (topic(line, site, &long), Some(line)),
            (1, Some(stream), Some(_)) => {
                let device = self.devices[index].name.clone();
                let at = self.start_ms + as_ms(rng.below(60_000));
                let (payload, items) = self.reading(stream, rng, index, at);
                (message.topic, message.line) = (topic(line, Some(&long), &device), Some(line));
                (message.payload, message.items, message.device) = (payload, items, device);
            }
            _ => {}
        }
        message
    }

    fn backlog(&mut self, stream: &StreamSpec, rng: &mut Rng, index: usize, kept: &[i64]) -> Vec<Message> {
        let together = rng.chance(2);
        let records: Vec<_> = kept.iter().map(|at| self.record(stream, rng, index, *at)).collect();
        if together {
            return vec![self.message(Some(stream), rng, index, join(records.into_iter()))];
        }
        records.into_iter().map(|record| self.message(Some(stream), rng, index, single(record))).collect()
    }

    /// All at once, of a long time.
    fn burst(&mut self, stream: &StreamSpec, rng: &mut Rng, index: usize, shown: i64) -> Vec<Message> {
        *self.seen.entry("bursts").or_default() += 1;
        let step = as_ms(crate::plan::pick(rng, &[1, 20, 300]));
        let times = (0..as_ms(BURST)).rev().map(|back| shown - back * step);
        let times: Vec<_> = times.map(|at| at - at.rem_euclid(self.grain_ms)).collect();
        let records: Vec<_> = times.iter().map(|at| self.record(stream, rng, index, *at)).collect();
        let mut messages = Vec::new();
        let mut records = records.into_iter().peekable();
        while records.peek().is_some() {
            let payload = join(records.by_ref().take(as_len(BURST / 4)));
            messages.push(self.message(Some(stream), rng, index, payload));
        }
        messages
    }

    fn reading(&mut self, stream: &StreamSpec, rng: &mut Rng, index: usize, at: i64) -> Payload {
        single(self.record(stream, rng, index, at - at.rem_euclid(self.grain_ms)))
    }

    fn record(&mut self, stream: &StreamSpec, rng: &mut Rng, index: usize, at: i64) -> (String, Item) {
        let number = self.number(stream, rng, index);
        record(rng, stream, at, number)
    }

    /// The next sequence number of a device, where the stream asks for one. Some are lost,
    /// and now and then the device begins anew.
    fn number(&mut self, stream: &StreamSpec, rng: &mut Rng, index: usize) -> Option<u64> {
        let by_number = |by: &DedupBy| matches!(by, DedupBy::Sequence { .. });
        stream.dedup.as_ref().filter(|dedup| by_number(&dedup.by))?;
        let next = &mut self.devices[index].next_number;
        match rng.below(200) {
            0..=5 => return None,
            6..=11 => *next += rng.between(1, 5),
            12 => *next = rng.below(3),
            13 => *next += 100_000,
            _ => {}
        }
        *next += 1;
        Some(*next - 1)
    }

    fn array(&mut self, stream: &StreamSpec, rng: &mut Rng, index: usize, shown: i64) -> Payload {
        let mut records = Vec::new();
        for _ in 0..rng.between(1, 4) {
            if rng.chance(5) {
                records.push(("[7]".to_owned(), Item::Reject(RejectReason::WrongShape)));
                continue;
            }
            let at = shown - as_ms(rng.below(2_000));
            records.push(self.record(stream, rng, index, at - at.rem_euclid(self.grain_ms)));
        }
        join(records.into_iter())
    }
}

fn topic(line: usize, site: Option<&str>, device: &str) -> String {
    match site {
        Some(site) => format!("s{line}/{site}/{device}"),
        None => format!("s{line}/{device}"),
    }
}

fn stream_of(spec: &PipelineSpec, line: usize) -> Option<&StreamSpec> {
    spec.streams.iter().find(|stream| line_of(stream.name.as_str()) == line)
}
