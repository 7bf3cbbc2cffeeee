//! The devices: what they send, and what each payload means. The meaning is
//! written down when the payload is made, so that the oracle never decodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

use tidegate::engine::spec::{FieldsSpec, FormatSpec, Scope, StreamSpec, TimeFallback, TimeFormat, TimeSpec};
use tidegate::model::record::RejectReason;
use tidegate::model::rng::Rng;

use super::plan::{MIN_TIME_MS, Plan, as_len, as_ms, pick};

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
    /// `None`: no stream wants the topic.
    pub stream: Option<usize>,
    pub device: String,
    pub items: Rc<Vec<Item>>,
}

/// What a payload holds.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A record. Without a time: the receive time.
    Record { at: Option<i64>, values: BTreeMap<&'static str, f64> },
    /// Something that is counted and not used.
    Reject(RejectReason),
}

struct Device {
    stream: usize,
    name: String,
    /// Its readings are late by this.
    lag_ms: i64,
    /// Keeps its readings until then.
    offline_until: i64,
    kept: Vec<i64>,
    last: Option<(Vec<u8>, Rc<Vec<Item>>)>,
}

/// All devices.
pub(crate) struct Fleet {
    devices: Vec<Device>,
    streams: Vec<StreamSpec>,
    next_uid: u64,
    grain_ms: i64,
}

impl Fleet {
    pub(crate) fn new(plan: &Plan) -> Fleet {
        let names = ["d0", "d 1", "d%2", "dü3", "d\"4", "d.5"];
        let devices = (0..plan.spec.streams.len()).flat_map(|stream| {
            let lags = matches!(plan.spec.streams[stream].watermark.scope, Scope::Stream(_));
            names.iter().take(as_len(plan.devices)).enumerate().map(move |(index, name)| Device {
                stream,
                name: (*name).to_owned(),
                lag_ms: if lags && index % 2 == 1 { plan.lag_ms } else { 0 },
                offline_until: i64::MIN,
                kept: Vec::new(),
                last: None,
            })
        });
        Fleet { devices: devices.collect(), streams: plan.spec.streams.clone(), next_uid: 0, grain_ms: plan.grain_ms }
    }

    /// Every device with its stream.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (usize, &str)> {
        self.devices.iter().map(|device| (device.stream, device.name.as_str()))
    }

    /// What some device sends now.
    pub(crate) fn messages(&mut self, rng: &mut Rng, wall: i64) -> Vec<Message> {
        let index = as_len(rng.below(self.devices.len() as u64));
        let device = &mut self.devices[index];
        if device.offline_until > wall {
            device.kept.push(wall - wall.rem_euclid(self.grain_ms));
            return Vec::new();
        }
        if !device.kept.is_empty() {
            let kept = core::mem::take(&mut device.kept);
            return self.backlog(rng, index, &kept);
        }
        let disorder = self.streams[device.stream].watermark.strategy.longest_wait().as_millis();
        let within = rng.between(0, disorder);
        let beyond = disorder + rng.below(6_000);
        let long_ago = rng.below(200_000);
        let (payload, items) = match rng.below(100) {
            0..=59 => {
                let at = wall - device.lag_ms - as_ms(within);
                self.reading(rng, index, at)
            }
            60..=69 => self.reading(rng, index, wall - as_ms(beyond)),
            70..=75 => self.reading(rng, index, wall - as_ms(long_ago)),
            76..=78 => self.wild(rng, index, wall),
            79..=85 => garbage(rng, &self.streams[device.stream], wall),
            86..=88 => self.array(rng, index, wall),
            89..=91 => {
                device.offline_until = wall + as_ms(rng.between(500, 20_000));
                return Vec::new();
            }
            92..=93 => return vec![self.misdirected(rng)],
            _ => match &device.last {
                Some(last) => last.clone(),
                None => return Vec::new(),
            },
        };
        let device = &mut self.devices[index];
        device.last = Some((payload.clone(), Rc::clone(&items)));
        vec![self.message(rng, index, payload, items)]
    }

    /// One record per device at `wall`, so that the windows before it fire.
    pub(crate) fn flush(&mut self, rng: &mut Rng, wall: i64) -> Vec<Message> {
        (0..self.devices.len())
            .map(|index| {
                let (payload, items) = self.reading(rng, index, wall);
                Message { confirmed: true, keep: false, ..self.message(rng, index, payload, items) }
            })
            .collect()
    }

    /// The copy that the broker keeps for new subscriptions.
    pub(crate) fn retained(&mut self, message: &Message) -> Message {
        self.next_uid += 1;
        Message {
            uid: self.next_uid,
            topic: message.topic.clone(),
            payload: message.payload.clone(),
            device: message.device.clone(),
            items: Rc::clone(&message.items),
            retained: true,
            ..*message
        }
    }

    fn message(&mut self, rng: &mut Rng, index: usize, payload: Vec<u8>, items: Rc<Vec<Item>>) -> Message {
        let device = &self.devices[index];
        self.next_uid += 1;
        Message {
            uid: self.next_uid,
            topic: format!("s{}/{}", device.stream, device.name),
            payload,
            confirmed: !rng.chance(12),
            keep: rng.chance(10),
            retained: false,
            stream: Some(device.stream),
            device: device.name.clone(),
            items,
        }
    }

    /// A topic of nobody, or a device id that cannot be.
    fn misdirected(&mut self, rng: &mut Rng) -> Message {
        self.next_uid += 1;
        let long = format!("s0/{}", "x".repeat(200));
        let (topic, stream) = if rng.chance(2) { ("elsewhere/d0".to_owned(), None) } else { (long, Some(0)) };
        Message {
            uid: self.next_uid,
            topic,
            payload: b"{\"v\":1}".to_vec(),
            confirmed: true,
            keep: false,
            retained: false,
            stream,
            device: String::new(),
            items: Rc::new(vec![Item::Reject(RejectReason::BadDevice)]),
        }
    }

    fn backlog(&mut self, rng: &mut Rng, index: usize, kept: &[i64]) -> Vec<Message> {
        let spec = &self.streams[self.devices[index].stream];
        if rng.chance(2) {
            let (payload, items) = join(kept.iter().map(|at| record(rng, spec, *at)));
            return vec![self.message(rng, index, payload, items)];
        }
        let readings: Vec<_> = kept.iter().map(|at| record(rng, spec, *at)).collect();
        readings
            .into_iter()
            .map(|(text, item)| self.message(rng, index, text.into_bytes(), Rc::new(vec![item])))
            .collect()
    }

    fn reading(&self, rng: &mut Rng, index: usize, at: i64) -> (Vec<u8>, Rc<Vec<Item>>) {
        let at = at - at.rem_euclid(self.grain_ms);
        let (text, item) = record(rng, &self.streams[self.devices[index].stream], at);
        (text.into_bytes(), Rc::new(vec![item]))
    }

    fn array(&self, rng: &mut Rng, index: usize, wall: i64) -> (Vec<u8>, Rc<Vec<Item>>) {
        let spec = &self.streams[self.devices[index].stream];
        let count = rng.between(1, 4);
        join((0..count).map(|_| {
            if rng.chance(5) {
                return ("[7]".to_owned(), Item::Reject(RejectReason::WrongShape));
            }
            let at = wall - as_ms(rng.below(2_000));
            record(rng, spec, at - at.rem_euclid(self.grain_ms))
        }))
    }

    /// A clock that runs wild: far ahead, long ago, or at the end of all time.
    fn wild(&self, rng: &mut Rng, index: usize, wall: i64) -> (Vec<u8>, Rc<Vec<Item>>) {
        let spec = &self.streams[self.devices[index].stream];
        let millis = matches!(spec.time, TimeSpec::Field { format: TimeFormat::EpochMillis, .. });
        // Without the guard, the end of time would end the stream: ahead, but not for good.
        let at = match (rng.below(4), spec.max_future) {
            (0, Some(_)) if millis => i64::MAX,
            (1, _) => as_ms(rng.below(100_000)),
            (2, None) => wall + as_ms(rng.below(5_000)),
            (_, None) => wall + 1_000,
            (_, Some(max)) => wall + max.as_i64() + as_ms(pick(rng, &[0, 1, 2, 3_600_000, 10_000_000_000])),
        };
        self.reading(rng, index, at)
    }
}

/// An array of records; of nothing but broken ones it is no array of records.
fn join(records: impl Iterator<Item = (String, Item)>) -> (Vec<u8>, Rc<Vec<Item>>) {
    let (texts, mut items): (Vec<String>, Vec<Item>) = records.unzip();
    if texts.iter().all(|text| text == "[7]") {
        items.truncate(1);
    }
    (format!("[{}]", texts.join(",")).into_bytes(), Rc::new(items))
}

/// A record with one or two values, multiples of a quarter.
fn record(rng: &mut Rng, spec: &StreamSpec, at: i64) -> (String, Item) {
    let mut text = format!("{{\"ts\":{}", time_text(spec, at));
    let mut values = BTreeMap::new();
    let both = rng.chance(3);
    for (key, present) in [("v", true), ("a", both)] {
        if present {
            let value = f64::from(i32::try_from(rng.below(8_000)).expect("small")) / 4.0 - 1_000.0;
            write!(text, ",\"{key}\":{value}").expect("memory does not fail");
            values.insert(key, value);
        }
    }
    if rng.chance(8) {
        // Left out; the rest counts.
        text += ",\"unit\":\"C\"";
    }
    (text + "}", resolve(spec, at, values))
}

/// What the time of a record means to its stream.
fn resolve(spec: &StreamSpec, at: i64, values: BTreeMap<&'static str, f64>) -> Item {
    let too_early = spec.min_time.is_some() && at < MIN_TIME_MS;
    match spec.time {
        TimeSpec::Receive => {
            let mut values = values;
            if spec.format == FormatSpec::Json(FieldsSpec::All) {
                values.insert("ts", at as f64);
            }
            Item::Record { at: None, values }
        }
        TimeSpec::Field { bad: TimeFallback::Reject, .. } if too_early => Item::Reject(RejectReason::BeforeMinTime),
        TimeSpec::Field { bad: TimeFallback::Receive, .. } if too_early => Item::Record { at: None, values },
        TimeSpec::Field { .. } => Item::Record { at: Some(at), values },
    }
}

fn time_text(spec: &StreamSpec, at: i64) -> String {
    match spec.time {
        TimeSpec::Field { format: TimeFormat::EpochSeconds, .. } => format!("{}.{:03}", at / 1_000, at % 1_000),
        TimeSpec::Field { .. } | TimeSpec::Receive => at.to_string(),
    }
}

/// Payloads that are none, each with its reason.
fn garbage(rng: &mut Rng, spec: &StreamSpec, wall: i64) -> (Vec<u8>, Rc<Vec<Item>>) {
    use RejectReason::{Empty, NoValues, NotFinite, NotJson, TooLarge, WrongShape, WrongType};
    let ts = time_text(spec, wall);
    let all = spec.format == FormatSpec::Json(FieldsSpec::All);
    let (missing, bad) = match &spec.time {
        TimeSpec::Receive => (TimeFallback::Receive, TimeFallback::Receive),
        TimeSpec::Field { missing, bad, .. } => (*missing, *bad),
    };
    let value = BTreeMap::from([("v", 1.25)]);
    let unless = |fallback, reason| match fallback {
        TimeFallback::Reject => Item::Reject(reason),
        TimeFallback::Receive => Item::Record { at: None, values: value.clone() },
    };
    // In a stream of receive times in which all numbers count, `ts` is a value.
    let ts_counts = all && spec.time == TimeSpec::Receive;
    let (text, item) = match rng.below(12) {
        0 => (String::new(), Item::Reject(Empty)),
        1 => ("garbage".to_owned(), Item::Reject(NotJson)),
        2 => (format!("{{\"ts\":{ts},\"v\":1"), Item::Reject(NotJson)),
        3 => ("7".to_owned(), Item::Reject(WrongShape)),
        4 => ("[]".to_owned(), Item::Reject(NoValues)),
        5 => ("[1,2]".to_owned(), Item::Reject(WrongShape)),
        6 if !ts_counts => {
            let reason = if all { NoValues } else { WrongType };
            (format!("{{\"ts\":{ts},\"v\":\"abc\"}}"), Item::Reject(reason))
        }
        7 if !ts_counts => (format!("{{\"ts\":{ts},\"v\":1e999}}"), Item::Reject(NotFinite)),
        8 => ("{\"v\":1.25}".to_owned(), unless(missing, RejectReason::MissingTime)),
        9 => ("{\"ts\":\"soon\",\"v\":1.25}".to_owned(), unless(bad, RejectReason::BadTime)),
        10 if rng.chance(4) => ("x".repeat(300_000), Item::Reject(TooLarge)),
        _ => ("{\"ts\":null,\"v\":1.25}".to_owned(), unless(missing, RejectReason::MissingTime)),
    };
    (text.into_bytes(), Rc::new(vec![item]))
}
