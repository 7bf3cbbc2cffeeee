//! A captured trace through the real engine: JSON lines in, JSON lines out, the
//! same bytes for the same input on every machine.
//!
//! One line per arrival, in arrival order:
//!
//! ```text
//! {"arrival_ms":1760000000003,"topic":"devices/a/climate","payload":{"ts":…,"t":21.5}}
//! {"arrival_ms":1760000000003,"topic":"devices/a/climate","payload":"21.5"}     the text as payload
//! {"arrival_ms":1760000000003,"device":"a","event_ms":1760000000000,"value":21.5}
//! {"arrival_ms":1760000000003,"device":"a","event_ms":…,"values":{"t":21.5},"stream":"climate","group":"hall"}
//! {"arrival_ms":1760000000003,"device":"a","event_ms":…,"states":{"mode":"on"}}      alone or beside values
//! {"arrival_ms":1760000000400,"device":"a","online":false}                      it is said to be off
//! {"arrival_ms":1760000000400,"stream":"climate","online":true}                 so are all of a stream
//! {"arrival_ms":1760000000500,"tick":true}                                      nothing but time
//! ```
//!
//! The arrival time is both clocks: it never decreases. What is due between two lines
//! happens at its own time, as in the agent. Output lines are the
//! records of the uplink contract, each with its `lane`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::ids::{FieldIx, StateIx};
use crate::model::record::Record;
use crate::model::time::{ClockQuality, EventTime, Now, ProcTime, WallTime};

use super::Engine;
use super::encode::record_json;
use super::spec::PipelineSpec;
use super::status::Status;
use super::step::{Availability, Event, Message};

/// Runs one trace.
#[derive(Debug)]
pub struct Replay {
    engine: Engine,
    gateway: String,
    started: Option<i64>,
    now: Now,
    values: Vec<(FieldIx, f64)>,
    states: Vec<(FieldIx, StateIx)>,
}

/// What is wrong with a line; a sentence for a person.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LineError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    arrival_ms: i64,
    #[serde(default)]
    tick: bool,
    topic: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    retain: bool,
    device: Option<String>,
    event_ms: Option<i64>,
    value: Option<f64>,
    values: Option<BTreeMap<String, f64>>,
    states: Option<BTreeMap<String, String>>,
    stream: Option<String>,
    group: Option<String>,
    online: Option<bool>,
}

impl Replay {
    /// Before the first line.
    pub fn new(spec: PipelineSpec) -> Replay {
        let gateway = spec.gateway.as_str().to_owned();
        let now = Now { proc: ProcTime::default(), wall: WallTime::from_millis(0), quality: ClockQuality::Synced };
        Replay { engine: Engine::new(spec), gateway, started: None, now, values: Vec::new(), states: Vec::new() }
    }

    /// Takes one line in and appends what comes of it to `out`.
    ///
    /// # Errors
    /// Not JSON, an unknown or missing key, a time that goes back, an unknown stream.
    pub fn handle_line(&mut self, line: &str, out: &mut Vec<u8>) -> Result<(), LineError> {
        let line: Line<'_> = serde_json::from_str(line).map_err(|error| LineError(error.to_string()))?;
        self.advance_clock(line.arrival_ms)?;
        match (&line.topic, &line.device, line.tick, line.online) {
            (Some(topic), None, false, None) => self.message(topic, &line)?,
            (None, Some(device), false, None) => self.record(device, &line)?,
            (None, device, false, Some(online)) => self.availability(device.as_deref(), online, &line)?,
            (None, None, true, None) => self.engine.handle(self.now, Event::Tick),
            _ => return Err(LineError("a line has either `topic`, or `device`, or `online`, or `tick`".to_owned())),
        }
        self.drain(out);
        Ok(())
    }

    /// The end of a bounded input: every open window fires.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.engine.finish(self.now);
        self.drain(out);
    }

    /// The books so far.
    pub fn status(&self) -> Status {
        self.engine.status(self.now)
    }

    fn advance_clock(&mut self, arrival_ms: i64) -> Result<(), LineError> {
        let before = self.now.wall.as_millis();
        let first = self.started.is_none();
        let started = *self.started.get_or_insert(arrival_ms);
        if !first && arrival_ms < before {
            return Err(LineError(format!(
                "arrival_ms {arrival_ms} is before {before} of the line above: sort by arrival"
            )));
        }
        let since = u64::try_from(i128::from(arrival_ms) - i128::from(started)).unwrap_or(u64::MAX);
        self.sleep_until(ProcTime::from_millis(since));
        self.now.proc = ProcTime::from_millis(since);
        self.now.wall = WallTime::from_millis(arrival_ms);
        if first {
            self.engine.handle(self.now, Event::InputLive(true));
            self.engine.handle(self.now, Event::UplinkUp);
        }
        Ok(())
    }

    /// As the agent sleeps: from deadline to deadline.
    fn sleep_until(&mut self, until: ProcTime) {
        while let Some(at) = self.engine.next_deadline().filter(|at| self.now.proc < *at && *at < until) {
            let slept = at.since(self.now.proc);
            self.now.proc = at;
            self.now.wall = WallTime::from_millis((self.now.wall.as_event_time() + slept).as_millis());
            self.engine.handle(self.now, Event::Tick);
        }
    }

    fn message(&mut self, topic: &str, line: &Line<'_>) -> Result<(), LineError> {
        let raw = line.payload.ok_or_else(|| LineError("`topic` needs `payload`".to_owned()))?.get();
        let text: String;
        let payload = if raw.starts_with('"') {
            text = serde_json::from_str(raw).map_err(|error| LineError(error.to_string()))?;
            text.as_bytes()
        } else {
            raw.as_bytes()
        };
        let message = Message { topic, payload, retain: line.retain, dup: false, tag: None };
        self.engine.handle(self.now, Event::Message(message));
        Ok(())
    }

    fn record(&mut self, device: &str, line: &Line<'_>) -> Result<(), LineError> {
        let event_ms = line.event_ms.ok_or_else(|| LineError("`device` needs `event_ms`".to_owned()))?;
        let stream = self.stream(line)?.unwrap_or(0);
        self.values.clear();
        let single = line.value.map(|value| ("value", value));
        let several = line.values.iter().flatten().map(|(name, value)| (name.as_str(), *value));
        for (name, value) in single.into_iter().chain(several) {
            let field = self.engine.field(stream, name);
            let field = field.ok_or_else(|| LineError(format!("{name:?} is one field too many, or no name")))?;
            self.values.push((field, value));
        }
        self.states.clear();
        for (name, text) in line.states.iter().flatten() {
            let field = self.engine.field(stream, name);
            let field = field.ok_or_else(|| LineError(format!("{name:?} is one field too many, or no name")))?;
            let state = self.engine.state(stream, text);
            let state = state.ok_or_else(|| LineError(format!("{text:?} is one state too many, or no state")))?;
            if self.values.iter().any(|(known, _)| *known == field) {
                return Err(LineError(format!("{name:?} is a value and a state")));
            }
            self.states.push((field, state));
        }
        if self.values.is_empty() && self.states.is_empty() {
            return Err(LineError("`device` needs `value`, `values` or `states`".to_owned()));
        }
        let at = EventTime::from_millis(event_ms);
        let group = line.group.as_deref().unwrap_or("");
        let record = Record { group, states: &self.states, ..Record::new(device, at, &self.values) };
        self.engine.handle_record(self.now, stream, &record);
        Ok(())
    }

    fn availability(&mut self, device: Option<&str>, online: bool, line: &Line<'_>) -> Result<(), LineError> {
        if line.event_ms.is_some() || line.value.is_some() || line.values.is_some() || line.group.is_some() {
            return Err(LineError("`online` goes with `device` and `stream` only".to_owned()));
        }
        let stream = self.stream(line)?;
        self.engine.handle(self.now, Event::Availability(Availability { stream, device, online }));
        Ok(())
    }

    fn stream(&self, line: &Line<'_>) -> Result<Option<usize>, LineError> {
        let Some(name) = &line.stream else { return Ok(None) };
        let known = self.engine.stream(name);
        known.map(Some).ok_or_else(|| LineError(format!("no stream is named {name:?}")))
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        let gateway = &self.gateway;
        self.engine.take_rows(&mut |lane, seq, row| {
            out.extend_from_slice(b"{\"lane\":\"");
            out.extend_from_slice(lane.as_str().as_bytes());
            out.extend_from_slice(b"\",");
            out.extend_from_slice(&record_json(gateway, seq, row)[1..]);
            out.push(b'\n');
        });
    }
}
