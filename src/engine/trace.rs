//! What one message would become, told step by step; for people who write a configuration.
//! The very code that takes messages in answers, up to the moment before a record meets its
//! windows.

use crate::model::ids::DeviceId;
use crate::model::limits::PAYLOAD_BYTES_MAX;
use crate::model::record::{RejectReason, TimeSource};
use crate::model::time::{ClockQuality, EventTime, Now};

use super::Engine;
use super::availability::{Named, whom, word};
use super::calculations::Calculated;
use super::decode::{self, DecodedTime, Decoder};
use super::intake::{Sender, read_with};
use super::spec::{TimeFallback, TimeSpec};

/// What a message is to the streams of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Whom it says to be there or not, for each stream that listens.
    pub signals: Vec<TracedSignal>,
    /// The readings in it; `None`: it is nobody's, or nothing but a signal.
    pub readings: Option<TracedReadings>,
}

/// An availability signal.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedSignal {
    /// Of this stream.
    pub stream: String,
    /// `device pump-7`, `devices below press.`, `all devices`.
    pub whom: String,
    /// What the payload says; `None`: neither of the words.
    pub online: Option<bool>,
}

/// The readings of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedReadings {
    /// The stream.
    pub stream: String,
    /// The topic that fits, as an MQTT filter.
    pub filter: String,
    /// What it captured, by name.
    pub captures: Vec<(String, String)>,
    /// The stream wants to ignore it.
    pub ignored: bool,
    /// The records, or why there is none.
    pub records: Vec<TracedRecord>,
}

/// One record, as far as it came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedRecord {
    /// Whose it is.
    pub device: Option<String>,
    /// Its labels by name.
    pub labels: Vec<(String, String)>,
    /// The label of its group.
    pub group: Option<String>,
    /// Its event time.
    pub at: Option<EventTime>,
    /// Where that came from.
    pub source: TimeSource,
    /// Why the time of receipt stands for the one that the payload should have, in a sentence;
    /// empty: it does not, or is wanted.
    pub fallback: String,
    /// It is further ahead than `max_future`: the record goes to lane `late` as it is.
    pub is_future: bool,
    /// Its numbers by name.
    pub values: Vec<(String, f64)>,
    /// Its states by name.
    pub states: Vec<(String, String)>,
    /// Fields that were there and could not be used.
    pub left_out: u32,
    /// The stream's filter passes it over.
    pub is_filtered: bool,
    /// Why it does not count.
    pub rejected: Option<RejectReason>,
    /// A guess at what is wrong.
    pub hint: Option<&'static str>,
}

impl Engine {
    /// What a message would become that arrives now. Fields that it names become known, as they
    /// would: for engines that are made for this.
    pub fn trace(&mut self, now: Now, topic: &str, payload: &[u8]) -> Trace {
        let signals = self.trace_signals(topic, payload);
        let is_signal = signals.iter().any(|signal| signal.online.is_some());
        let readings = if is_signal { None } else { self.trace_readings(now, topic, payload) };
        Trace { signals, readings }
    }

    fn trace_signals(&self, topic: &str, payload: &[u8]) -> Vec<TracedSignal> {
        let mut signals = Vec::new();
        for stream in &self.streams {
            for rule in &stream.spec.availability {
                let Some(captures) = rule.pattern.match_topic(topic) else { continue };
                let whom = match whom(&rule.devices, &captures) {
                    Some(Named::Device(device)) => format!("device {device}"),
                    Some(Named::Below(prefix)) => format!("devices below {prefix}"),
                    Some(Named::All) => "all devices".to_owned(),
                    None => "a device without an id".to_owned(),
                };
                let online = word(rule, payload).and_then(|word| rule.read(&word));
                signals.push(TracedSignal { stream: stream.spec.name.as_str().to_owned(), whom, online });
            }
        }
        signals
    }

    fn trace_readings(&mut self, now: Now, topic: &str, payload: &[u8]) -> Option<TracedReadings> {
        let (index, found) = self.find_stream(topic)?;
        let spec = &self.streams[index].spec;
        let mut readings = TracedReadings {
            stream: spec.name.as_str().to_owned(),
            filter: String::new(),
            captures: Vec::new(),
            ignored: found.is_none(),
            records: Vec::new(),
        };
        let Some((place, captures)) = found else { return Some(readings) };
        let pattern = &spec.topics[place].pattern;
        pattern.filter().clone_into(&mut readings.filter);
        let named = pattern.capture_names().iter().cloned().zip(captures.iter().map(|text| (*text).to_owned()));
        readings.captures = named.collect();
        let rejected = |reason| TracedRecord { rejected: Some(reason), ..TracedRecord::default() };
        if payload.len() > PAYLOAD_BYTES_MAX {
            readings.records.push(rejected(RejectReason::TooLarge));
            return Some(readings);
        }
        match Sender::new(spec, index, place, captures) {
            Err(reason) => readings.records.push(rejected(reason)),
            Ok(sender) => {
                self.read_payload(&sender, topic, payload);
                let count = self.decoders[index].batch().len();
                let times = self.bad_times(&sender, topic, payload);
                let record = |place: usize| {
                    let mut record = self.trace_record(now, &sender, place, payload);
                    // Others than the reader found are of no use: a format may need its memory.
                    let reason = times.get(place).copied().flatten().filter(|_| times.len() == count);
                    if let Some(reason) = reason.filter(|_| record.at.is_some() && record.source == TimeSource::Receive)
                    {
                        record.fallback = self.fallback(index, payload, reason);
                    }
                    record
                };
                readings.records = (0..count).map(record).collect();
            }
        }
        Some(readings)
    }

    /// What is wrong with the time of each record, where `missing` and `bad` let the time of
    /// receipt stand for it.
    fn bad_times(&self, sender: &Sender<'_>, topic: &str, payload: &[u8]) -> Vec<Option<RejectReason>> {
        let stream = &self.streams[sender.stream];
        let mut spec = stream.spec.clone();
        match &mut spec.mapping.time {
            TimeSpec::Receive => return Vec::new(),
            TimeSpec::Fields { missing, bad, .. } | TimeSpec::Own { missing, bad, .. } => {
                (*missing, *bad) = (TimeFallback::Reject, TimeFallback::Reject);
            }
        }
        let mut decoder = Decoder::new(&spec);
        read_with(&mut decoder, &spec, &mut stream.fields.clone(), sender, topic, payload);
        let batch = decoder.batch();
        (0..batch.len()).map(|place| batch.record(place).time.err()).collect()
    }

    fn fallback(&self, stream: usize, payload: &[u8], reason: RejectReason) -> String {
        // What follows it names the setting that is in force already.
        let hint = decode::explain(&self.streams[stream].spec, payload, reason);
        let hint = hint.and_then(|hint| hint.split("; `").next());
        match hint {
            Some(hint) if reason == RejectReason::BeforeMinTime => format!("{}; {hint}", reason.about()),
            Some(hint) => hint.to_owned(),
            None => reason.about().to_owned(),
        }
    }

    fn trace_record(&self, now: Now, sender: &Sender<'_>, place: usize, payload: &[u8]) -> TracedRecord {
        let stream = &self.streams[sender.stream];
        let batch = self.decoders[sender.stream].batch();
        let entry = batch.record(place);
        let mut traced = TracedRecord { left_out: entry.left_out, ..TracedRecord::default() };
        let who = stream.who(sender, batch, entry);
        match &who {
            Ok(who) => {
                if !stream.is_allowed(who.device.as_str()) {
                    traced.rejected = Some(RejectReason::DeviceDenied);
                }
                let labels = stream.spec.labels.iter().zip(&who.labels);
                let label = |(spec, text): (&super::spec::LabelSpec, &Option<DeviceId>)| {
                    Some((spec.name.clone(), text.as_ref()?.as_str().to_owned()))
                };
                traced.labels = labels.filter_map(label).collect();
                traced.group = who.group.as_ref().map(|group| group.as_str().to_owned());
                traced.device = Some(who.device.as_str().to_owned());
            }
            Err(reason) => traced.rejected = Some(*reason),
        }
        let wall = now.wall.as_event_time();
        match entry.time {
            Err(reason) => {
                traced.rejected = Some(reason);
                traced.hint = decode::explain(&stream.spec, payload, reason);
                return traced;
            }
            Ok(DecodedTime::Receive) => (traced.at, traced.source) = (Some(wall), TimeSource::Receive),
            Ok(DecodedTime::Relative(millis)) => {
                let at = EventTime::from_millis(wall.as_millis().saturating_add(millis));
                (traced.at, traced.source) = (Some(at), TimeSource::Receive);
            }
            Ok(DecodedTime::Event(at)) => (traced.at, traced.source) = (Some(at), TimeSource::Device),
        }
        let ahead = traced.at.zip(stream.spec.max_future).is_some_and(|(at, max)| at > wall + max);
        traced.is_future = ahead && now.quality == ClockQuality::Synced;
        let name = |field| stream.fields.name(field).map_or_else(String::new, |name| name.as_str().to_owned());
        let mut values = batch.values(entry).to_vec();
        if let (Ok(who), Some(at), false) = (&who, traced.at, stream.calculations.is_empty()) {
            let states = batch.states(entry);
            match stream.calculations.apply(&stream.spec, &stream.fields, who, at, &mut values, states) {
                Calculated::Counts(more) => traced.left_out += more,
                Calculated::Filtered => traced.is_filtered = true,
                Calculated::Failed => traced.rejected = traced.rejected.or(Some(RejectReason::Expression)),
            }
        }
        traced.values = values.iter().map(|(field, value)| (name(*field), *value)).collect();
        let state = |state| stream.fields.states().text(state).to_owned();
        traced.states = batch.states(entry).iter().map(|(field, value)| (name(*field), state(*value))).collect();
        traced
    }
}
