//! What the end has to be: a sequential replay of what the driver took in, in
//! plain maps. Shares no code with the engine; the rules are those of Flink's
//! window operator, written down again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate::engine::spec::{LatePolicy, PipelineSpec, Resume, Scope, StreamSpec, WindowKind};
use tidegate::model::record::RejectReason;
use tidegate::model::time::Span;

use super::devices::Item;
use super::log::{Entry, Take};
use super::sessions::{Rules, Sessions};

/// stream, window, device, the time in the id.
pub(crate) type Key = (String, String, String, i64);

/// One window's content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub count: u64,
    pub receive_time: bool,
    pub end: i64,
    /// The time in its id.
    pub opened: i64,
    pub fields: BTreeMap<&'static str, Vec<f64>>,
    /// The watermark has passed its end.
    pub fired: bool,
    /// Sessions: the times in the ids of others that are part of it.
    pub absorbed: BTreeSet<i64>,
}

/// The books of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Books {
    pub received: u64,
    pub accepted: u64,
    pub future: u64,
    pub ignored: u64,
    pub redelivered: u64,
    pub unprotected: u64,
    pub rejected: BTreeMap<&'static str, u64>,
    /// Per window: beyond lateness, published raw or dropped.
    pub side_output: Vec<u64>,
    pub backfilled: Vec<u64>,
    pub no_window: Vec<u64>,
    pub dropped: Vec<u64>,
}

#[derive(Default)]
struct StreamState {
    books: Books,
    newest: BTreeMap<String, i64>,
    watermarks: BTreeMap<String, i64>,
    devices: BTreeSet<String>,
    /// Scope `stream`: the own watermarks of the devices that count.
    members: BTreeMap<String, i64>,
    /// Scope `stream`: those of all.
    own: BTreeMap<String, i64>,
}

/// The truth.
pub(crate) struct Oracle {
    pub cells: BTreeMap<Key, Cell>,
    /// What came for windows that had expired, where it is gathered.
    pub deltas: BTreeMap<Key, Cell>,
    /// Late and future records; how often each.
    pub late: BTreeMap<String, u64>,
    pub books: Vec<Books>,
    streams: Vec<StreamState>,
    sessions: Sessions,
}

impl Oracle {
    /// Replays `entries`.
    ///
    /// # Errors
    /// The rules themselves give one id to two sessions.
    pub(crate) fn new(spec: &PipelineSpec, entries: &[Entry]) -> Result<Oracle, String> {
        let mut oracle = Oracle {
            cells: BTreeMap::new(),
            deltas: BTreeMap::new(),
            late: BTreeMap::new(),
            books: Vec::new(),
            sessions: Sessions::default(),
            streams: spec.streams.iter().map(|_| StreamState::default()).collect(),
        };
        for (state, stream) in oracle.streams.iter_mut().zip(&spec.streams) {
            state.books.side_output = vec![0; stream.windows.len()];
            state.books.backfilled = vec![0; stream.windows.len()];
            state.books.no_window = vec![0; stream.windows.len()];
            state.books.dropped = vec![0; stream.windows.len()];
        }
        for entry in entries {
            match entry {
                Entry::Take(take) => oracle.take(spec, take),
                Entry::Idle(devices) => oracle.idle(spec, devices),
            }
        }
        core::mem::take(&mut oracle.sessions).end(&mut oracle.cells)?;
        oracle.fire(spec);
        oracle.books = oracle.streams.iter().map(|state| state.books.clone()).collect();
        Ok(oracle)
    }

    fn take(&mut self, spec: &PipelineSpec, take: &Take) {
        let message = &take.message;
        let Some(index) = message.stream else { return };
        let state = &mut self.streams[index];
        if take.redelivery {
            state.books.redelivered += 1;
            return;
        }
        if !message.confirmed {
            state.books.unprotected += 1;
        }
        for item in message.items.iter() {
            let (at, values) = match item {
                Item::Reject(reason) => {
                    self.streams[index].reject(*reason);
                    continue;
                }
                Item::Record { at, values } => (at, values),
            };
            let is_old = |at: &i64| self.streams[index].newest.get(&message.device).is_some_and(|newest| at <= newest);
            if message.retained && at.as_ref().is_none_or(is_old) {
                self.streams[index].books.received += 1;
                self.streams[index].books.ignored += 1;
                continue;
            }
            let record = Record { device: &message.device, at: *at, wall: take.wall_ms, values };
            self.record(index, &spec.streams[index], &record);
        }
    }

    /// Nobody waits for these any more.
    fn idle(&mut self, spec: &PipelineSpec, devices: &[(usize, String)]) {
        for (index, device) in devices {
            self.streams[*index].members.remove(device);
        }
        for (index, _) in devices {
            let state = &mut self.streams[*index];
            if matches!(spec.streams[*index].watermark.scope, Scope::Stream(_)) {
                state.combine();
            }
        }
    }

    fn record(&mut self, index: usize, spec: &StreamSpec, record: &Record<'_>) {
        let state = &mut self.streams[index];
        let at = record.at.unwrap_or(record.wall);
        if let (Some(max), Some(_)) = (spec.max_future, record.at)
            && i128::from(at) > i128::from(record.wall) + i128::from(max.as_i64())
        {
            state.books.received += 1;
            state.books.future += 1;
            let ahead = i128::from(at) - i128::from(record.wall);
            return self.note_late(spec, "", record, "future", ahead);
        }
        if !state.devices.contains(record.device) && state.devices.len() >= spec.devices_max {
            return state.reject(RejectReason::TooManyDevices);
        }
        state.devices.insert(record.device.to_owned());
        state.books.received += 1;
        state.books.accepted += 1;
        let scope = scope_of(spec, record.device);
        let watermark = state.watermarks.get(&scope).copied();
        for (place, window) in spec.windows.iter().enumerate() {
            let lateness = window.lateness.as_i64();
            let mut taken = false;
            let key = |start| (spec.name.as_str().into(), window.name.as_str().into(), record.device.into(), start);
            let covering = windows_of(window.kind, at);
            if let WindowKind::Session { gap, max_length } = window.kind {
                let (gap, max_length) = (gap.as_i64(), max_length.map(Span::as_i64));
                if let Some(cell) = self.sessions.touch(&key(0), at, Rules { gap, max_length, lateness, watermark }) {
                    cell.add(record);
                    taken = true;
                }
            }
            let mut backfilled = false;
            let fixed = !matches!(window.kind, WindowKind::Session { .. });
            for (start, end) in covering.iter().filter(|_| fixed) {
                let expired = watermark.is_some_and(|watermark| watermark >= end - 1 + lateness);
                if !expired || window.late.is_backfill() {
                    self.add((start, end), key(*start), expired, record);
                    (taken, backfilled) = (taken || !expired, backfilled || expired);
                }
            }
            let late = watermark.filter(|watermark| !covering.is_empty() || at + lateness <= *watermark);
            match late {
                _ if taken => {}
                _ if backfilled => self.streams[index].books.backfilled[place] += 1,
                None => self.streams[index].books.no_window[place] += 1,
                Some(_) if window.late == LatePolicy::Drop => self.streams[index].books.dropped[place] += 1,
                Some(watermark) => {
                    self.streams[index].books.side_output[place] += 1;
                    let lag = i128::from(watermark) - i128::from(at);
                    self.note_late(spec, window.name.as_str(), record, "late", lag.max(0));
                }
            }
        }
        let state = &mut self.streams[index];
        let newest = state.newest.entry(record.device.to_owned()).or_insert(at);
        *newest = at.max(*newest);
        let reached = at - spec.watermark.strategy.longest_wait().as_i64() - 1;
        match spec.watermark.scope {
            Scope::Stream(resume) | Scope::Group(resume) => state.join(record.device, reached, resume),
            Scope::Device | Scope::Shared => {
                let highest = state.watermarks.entry(scope).or_insert(reached);
                *highest = reached.max(*highest);
            }
        }
    }

    /// Into one window of those that are no sessions, or what came for it too late.
    fn add(&mut self, (start, end): (&i64, &i64), key: Key, expired: bool, record: &Record<'_>) {
        let cells = if expired { &mut self.deltas } else { &mut self.cells };
        let cell = cells.entry(key).or_default();
        (cell.opened, cell.end) = (*start, *end);
        cell.add(record);
    }

    fn note_late(&mut self, spec: &StreamSpec, window: &str, record: &Record<'_>, reason: &str, lag: i128) {
        let at = record.at.unwrap_or(record.wall);
        let values: BTreeMap<_, _> = record.values.iter().collect();
        let known =
            json!([spec.name.as_str(), window, record.device, at, record.wall, reason, lag.to_string(), values]);
        *self.late.entry(known.to_string()).or_default() += 1;
    }

    fn fire(&mut self, spec: &PipelineSpec) {
        for ((stream, _, device, _), cell) in &mut self.cells {
            for (known, state) in spec.streams.iter().zip(&self.streams) {
                if known.name.as_str() == stream {
                    let watermark = state.watermarks.get(&scope_of(known, device));
                    cell.fired = watermark.is_some_and(|watermark| *watermark >= cell.end - 1);
                }
            }
        }
    }
}

/// Every window that `at` is in; of a session, what it would be alone.
fn windows_of(kind: WindowKind, at: i64) -> Vec<(i64, i64)> {
    match kind {
        WindowKind::Session { gap, .. } => vec![(at, at + gap.as_i64())],
        WindowKind::Tumbling { size, offset_ms } => covering(size.as_i64(), size.as_i64(), offset_ms, at),
        WindowKind::Sliding { size, slide, offset_ms } => covering(size.as_i64(), slide.as_i64(), offset_ms, at),
        // The plans have hours of UTC only.
        WindowKind::Calendar { .. } => covering(3_600_000, 3_600_000, 0, at),
    }
}

/// Every window that holds `at`, by trying them all.
fn covering(size: i64, slide: i64, offset_ms: i64, at: i64) -> Vec<(i64, i64)> {
    let newest = at - (at - offset_ms).rem_euclid(slide);
    let starts = (0..).map(|back| newest - back * slide);
    starts.take_while(|start| at < start + size).map(|start| (start, start + size)).collect()
}

/// A late record as the receiver has it, in the form of [`Oracle::late`].
pub(crate) fn late_form(record: &Value) -> String {
    let values: BTreeMap<_, _> = record["values"]
        .as_object()
        .map(|values| values.iter().map(|(name, value)| (name.as_str(), value.as_f64())).collect())
        .unwrap_or_default();
    let lag = record["lag_ms"].as_u64().map_or(String::new(), |lag| lag.to_string());
    let of = |name: &str| record[name].clone();
    let (stream, window, key) = (of("stream"), of("window"), of("key"));
    json!([stream, window, key, of("event_ms"), of("received_ms"), of("reason"), lag, values]).to_string()
}

struct Record<'a> {
    device: &'a str,
    at: Option<i64>,
    wall: i64,
    values: &'a BTreeMap<&'static str, f64>,
}

impl Cell {
    fn add(&mut self, record: &Record<'_>) {
        self.count += 1;
        self.receive_time |= record.at.is_none();
        for (name, value) in record.values {
            self.fields.entry(name).or_default().push(*value);
        }
    }
}

impl StreamState {
    /// Scope `stream`: a record of `device` brings its own watermark to `reached`. The
    /// common one waits for the slowest of the devices that count.
    fn join(&mut self, device: &str, reached: i64, resume: Resume) {
        let own = self.own.get(device).map_or(reached, |own| reached.max(*own));
        self.own.insert(device.to_owned(), own);
        let before = self.watermarks.get("").copied().unwrap_or(i64::MIN);
        if resume == Resume::Hold || own >= before {
            self.members.insert(device.to_owned(), own);
        }
        self.combine();
    }

    /// The common watermark goes to the slowest of those that count; with none, to the
    /// fastest of all.
    fn combine(&mut self) {
        let slowest = self.members.values().min().or(self.own.values().max());
        if let Some(slowest) = slowest {
            let before = self.watermarks.entry(String::new()).or_insert(i64::MIN);
            *before = (*before).max(*slowest);
        }
    }

    fn reject(&mut self, reason: RejectReason) {
        self.books.received += 1;
        *self.books.rejected.entry(reason.as_str()).or_default() += 1;
    }
}

/// Whose watermark counts: the device's, or everybody's.
fn scope_of(spec: &StreamSpec, device: &str) -> String {
    match spec.watermark.scope {
        Scope::Device => device.to_owned(),
        Scope::Shared | Scope::Stream(_) | Scope::Group(_) => String::new(),
    }
}
