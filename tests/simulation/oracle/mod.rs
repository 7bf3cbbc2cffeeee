//! What the end has to be: a sequential replay of what the driver took in, in
//! plain maps. Shares no code with the engine; the rules are those of Flink's
//! window operator and of docs/semantics.md, written down again.

mod add;
mod carried;
mod cell;
mod copies;
mod fences;
mod joins;
mod lateness;
mod leave;
mod marks;
mod order;
mod redefine;
mod results;
mod sessions;
mod stream;
mod windows;

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};
use tidegate::engine::spec::{PipelineSpec, Strategy};
use tidegate::model::record::RejectReason;

use self::joins::Joins;
use self::stream::StreamState;
use super::devices::{Datum, Item};
use super::log::{Entry, Moment, Take};

pub(crate) use self::cell::{Books, Cell, Key, PassedOn, Taken, WindowBooks};
pub(crate) use self::joins::{pair_form, waits_long};
pub(crate) use self::marks::Owner;
pub(crate) use self::results::is_result;

/// Rows, and how often each.
pub(crate) type Rows = BTreeMap<String, u64>;

/// The truth.
pub(crate) struct Oracle {
    pub cells: BTreeMap<Key, Cell>,
    /// What came for windows that had expired, where it is gathered.
    pub deltas: BTreeMap<Key, Cell>,
    /// Late and future records.
    pub late: Rows,
    /// Readings that are passed on.
    pub readings: Rows,
    /// By stream.
    pub books: BTreeMap<String, Books>,
    pub joins: Joins,
    spec: Rc<PipelineSpec>,
    streams: BTreeMap<String, StreamState>,
}

impl Oracle {
    /// Replays `entries`, up to `end_wall`.
    ///
    /// # Errors
    /// The rules themselves give one id to two sessions.
    pub(crate) fn new(spec: &Rc<PipelineSpec>, entries: &[Moment], end_wall: i64) -> Result<Oracle, String> {
        let mut oracle = Oracle {
            cells: BTreeMap::new(),
            deltas: BTreeMap::new(),
            late: BTreeMap::new(),
            readings: BTreeMap::new(),
            books: BTreeMap::new(),
            joins: Joins::new(spec),
            spec: Rc::clone(spec),
            streams: spec.streams.iter().map(|stream| (stream.name.to_string(), StreamState::new(stream))).collect(),
        };
        for moment in entries {
            oracle.follow_clock(moment.wall_ms);
            match &moment.entry {
                Entry::Take(take) => oracle.take(take, moment.wall_ms),
                Entry::Idle(devices) => oracle.fall_idle(devices),
                Entry::Online(devices) => oracle.wake(devices),
                Entry::Gone(devices) => oracle.end_devices(devices),
                Entry::Redefine(spec) => oracle.redefine(spec),
            }
            oracle.sweep_joins();
        }
        oracle.follow_clock(end_wall);
        oracle.finish()?;
        Ok(oracle)
    }

    fn finish(&mut self) -> Result<(), String> {
        for (name, state) in &mut self.streams {
            state.sessions_into(&mut self.cells)?;
            for (row, early) in core::mem::take(&mut state.order.sent) {
                *self.readings.entry(format!("{row} early {early}")).or_default() += 1;
            }
            state.books.passed_on = state.order.books;
            self.books.insert(name.clone(), state.books.clone());
        }
        for (key, cell) in &mut self.cells {
            if let Some(state) = self.streams.get(&key.0).filter(|_| !cell.undefined) {
                let owner = Owner::of(cell.spec.key, &key.2);
                let watermark = state.marks.of(&state.spec, &owner);
                cell.fired = watermark.is_some_and(|watermark| watermark >= cell.end - 1);
            }
        }
        Ok(())
    }

    /// The watermark of a key, for what is joined at the end.
    pub(crate) fn watermark(&self, stream: &str, owner: &Owner) -> Option<i64> {
        let state = self.streams.get(stream)?;
        state.marks.of(&state.spec, owner)
    }

    /// Watermarks that follow the clock.
    fn follow_clock(&mut self, wall: i64) {
        for state in self.streams.values_mut() {
            if let Strategy::Processing { delay } = state.spec.watermark.strategy {
                state.marks.raise_shared("", Some(wall - delay.as_i64() - 1));
                state.release_passed("");
            }
        }
    }

    fn take(&mut self, take: &Take, wall: i64) {
        let message = &take.message;
        let Some(name) = message.line.map(|line| format!("stream{line}")) else { return };
        let Some(state) = self.streams.get_mut(&name) else { return };
        if take.redelivery {
            state.books.redelivered += 1;
            return;
        }
        if !message.confirmed {
            state.books.unprotected += 1;
        }
        for item in message.items.iter() {
            let state = self.streams.get_mut(&name).expect("it was there");
            let reading = match item {
                Item::Reject(reason) => {
                    state.reject(*reason);
                    continue;
                }
                Item::Record(reading) => reading,
            };
            let newest = state.marks.members.get(&message.device).and_then(|member| member.newest);
            let is_old = |at: &i64| newest.is_some_and(|newest| *at <= newest);
            if message.retained && reading.at.as_ref().is_none_or(is_old) {
                state.books.received += 1;
                state.books.ignored += 1;
                continue;
            }
            let at = reading.at.unwrap_or(wall);
            let record = Taken { device: &message.device, at, wall, reading };
            self.record(&name, &message.group, &record);
            self.sweep_joins();
        }
    }

    fn record(&mut self, name: &str, group: &str, record: &Taken<'_>) {
        let state = self.streams.get_mut(name).expect("it was there");
        let spec = Rc::clone(&state.spec);
        let sent = record;
        let reading = state.complete(sent);
        let record = &Taken { reading: &reading, ..*sent };
        let Taken { device, at, wall, .. } = *record;
        if let (Some(max), Some(_)) = (spec.max_future, reading.at)
            && i128::from(at) > i128::from(wall) + i128::from(max.as_i64())
        {
            state.books.received += 1;
            state.books.future += 1;
            let ahead = i128::from(at) - i128::from(wall);
            return note_late(&mut self.late, name, "", record, "future", ahead, true);
        }
        if let Err(reason) = state.admit(device, group) {
            return state.reject(reason);
        }
        state.books.received += 1;
        if state.is_copy(sent) {
            state.books.duplicate += 1;
            return state.hear(device);
        }
        state.books.accepted += 1;
        if spec.carry_forward.is_some() {
            state.carried.remember(sent);
        }
        state.books.fields_left_out += reading.left_out;
        if let Some((reason, behind)) = state.pass_on(record) {
            note_late(&mut self.late, name, "", record, reason, i128::from(behind), true);
        }
        if !reading.values.is_empty() {
            let before = [Owner::Device(device.to_owned()), Owner::Group(group.to_owned())]
                .map(|owner| (state.marks.of(&spec, &owner), owner));
            self.join_record(name, &before, record);
        }
        self.add_to_windows(name, record);
        let state = self.streams.get_mut(name).expect("it was there");
        state.marks.record(&spec, device, at, reading.is_mark);
        let scope = state.marks.scope_of(&spec, device);
        state.release_passed(&scope);
    }
}

impl StreamState {
    fn reject(&mut self, reason: RejectReason) {
        self.books.received += 1;
        *self.books.rejected.entry(reason.as_str()).or_default() += 1;
    }
}

/// `whole`: with its sequence number, which is no value of windows.
fn note_late(late: &mut Rows, stream: &str, window: &str, record: &Taken<'_>, reason: &str, lag: i128, whole: bool) {
    let values = values_of(record, whole);
    let Taken { device, at, wall, .. } = record;
    let known = json!([stream, window, device, at, wall, reason, lag.to_string(), values]);
    *late.entry(known.to_string()).or_default() += 1;
}

/// The values of a record as they are sent.
fn values_of(record: &Taken<'_>, whole: bool) -> BTreeMap<&'static str, Value> {
    let values = record.reading.values.iter().map(|(name, datum)| (*name, json_of(datum)));
    let number = record.reading.number.filter(|_| whole).map(|number| ("n", json!(number as f64)));
    values.chain(number).collect()
}

fn json_of(datum: &Datum) -> Value {
    match datum {
        Datum::Number(value) => json!(value),
        Datum::State(text) => json!(text),
    }
}

/// Numbers as floats, whichever way they were written.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), normal(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => value.clone(),
    }
}

/// A late record as the receiver has it, in the form of [`Oracle::late`].
pub(crate) fn late_form(record: &Value) -> String {
    let lag = record["lag_ms"].as_u64().map_or(String::new(), |lag| lag.to_string());
    let of = |name: &str| record[name].clone();
    let (stream, window, key) = (of("stream"), of("window"), of("key"));
    let values = normal(&record["values"]);
    json!([stream, window, key, of("event_ms"), of("received_ms"), of("reason"), lag, values]).to_string()
}

/// A reading that was passed on, in the form of [`Oracle::readings`].
pub(crate) fn reading_form(record: &Value) -> String {
    let of = |name: &str| record[name].clone();
    let (stream, key, values) = (of("stream"), of("key"), normal(&record["values"]));
    let row = json!([stream, key, of("event_ms"), of("received_ms"), of("time_source"), values]);
    format!("{row} early {}", record["early"])
}
