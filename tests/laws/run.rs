//! A case through the engine, from deadline to deadline as the agent sleeps, with
//! restarts wherever a law wants them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::engine::driver::Driver;
use tidegate::engine::encode::record_json;
use tidegate::engine::memory_store::{MemoryStore, memory_store};
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::status::Status;
use tidegate::engine::step::{self, Event};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

use crate::draw::{Case, Message, START_MS};

/// Parses what was drawn: a case is a configuration that a person could write.
pub(crate) fn spec(config: &str) -> PipelineSpec {
    check_for_replay(config, "law.toml").unwrap_or_else(|refused| panic!("{refused}\n{config}")).config
}

pub(crate) struct Run {
    pub(crate) driver: Driver<MemoryStore>,
    /// Everything that came out, in order.
    pub(crate) rows: Vec<Value>,
    last: u64,
}

/// A window: key, name, start, end.
pub(crate) type Window = (String, String, i64, i64);

impl Run {
    pub(crate) fn new(config: &str) -> Run {
        let driver = Driver::start(spec(config), memory_store(), now(0)).unwrap();
        let mut run = Run { driver, rows: Vec::new(), last: 0 };
        run.connect();
        run
    }

    /// To the end of the case and of all windows.
    pub(crate) fn of(case: &Case) -> Run {
        let mut run = Run::new(&case.config);
        for message in &case.messages {
            run.take(message);
        }
        run.sleep_until(case.end);
        run.finish();
        run
    }

    pub(crate) fn status(&self) -> Status {
        self.driver.status(now(self.last))
    }

    fn connect(&mut self) {
        self.driver.handle(now(self.last), Event::UplinkUp);
        self.driver.handle(now(self.last), Event::InputLive(true));
    }

    /// Stops, and starts from what the store has.
    pub(crate) fn restart(&mut self, config: &str) {
        let at = now(self.last);
        self.driver.stop(at, &mut |_| ());
        let down = std::mem::replace(&mut self.driver, Driver::start(spec(config), memory_store(), at).unwrap());
        let cursor = down.engine().outbox().next_order();
        let slots = down.into_store().into_slots().reopen();
        self.driver = Driver::start(spec(config), Ring::new(slots, Packing::NONE), at).unwrap();
        self.connect();
        self.collect(cursor);
    }

    /// Goes over to another configuration while it runs.
    pub(crate) fn reconfigure(&mut self, config: &str) -> Result<(), String> {
        let at = now(self.last);
        let cursor = self.driver.engine().outbox().next_order();
        let done = self.driver.reconfigure(at, &spec(config), &mut |_| ());
        self.collect(cursor);
        done.map_err(|error| format!("{error}: {config}"))
    }

    pub(crate) fn take(&mut self, message: &Message) {
        self.take_on("d", message);
    }

    /// The message on another topic.
    pub(crate) fn take_on(&mut self, first: &str, message: &Message) {
        self.sleep_until(message.arrival);
        let topic = format!("{first}/site{}/device{}", message.site, message.device);
        let payload = format!("{{\"ts\":{},\"v\":{}}}", START_MS + message.ts, message.value);
        let (topic, payload) = (topic.as_str(), payload.as_bytes());
        let message = step::Message { topic, payload, retain: false, dup: false, tag: None };
        self.handle(Event::Message(message));
    }

    pub(crate) fn sleep_until(&mut self, until: u64) {
        while let Some(at) = self.driver.engine().next_deadline().map(ProcTime::as_millis).filter(|at| *at < until) {
            self.last = self.last.max(at);
            self.handle(Event::Tick);
        }
        self.last = until;
    }

    fn handle(&mut self, event: Event<'_>) {
        let cursor = self.driver.engine().outbox().next_order();
        self.driver.handle(now(self.last), event);
        self.collect(cursor);
    }

    pub(crate) fn finish(&mut self) {
        let cursor = self.driver.engine().outbox().next_order();
        self.driver.engine_mut().finish(now(self.last));
        self.collect(cursor);
    }

    fn collect(&mut self, cursor: u64) {
        for (lane, _, seq, row) in self.driver.engine().outbox().rows_since(cursor) {
            let mut row: Value = serde_json::from_slice(&record_json("gw", seq, &row)).unwrap();
            row["lane"] = lane.as_str().into();
            self.rows.push(row);
        }
    }

    pub(crate) fn panes(&self) -> impl Iterator<Item = &Value> {
        self.rows.iter().filter(|row| row["kind"] == "pane")
    }

    /// The last word about each window: ids that another one replaced are not among them.
    pub(crate) fn results(&self) -> BTreeMap<Window, &Value> {
        let replaced: BTreeSet<&str> = self
            .panes()
            .flat_map(|row| row["replaces"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect();
        let last: BTreeMap<&str, &Value> = self.panes().map(|row| (row["id"].as_str().unwrap(), row)).collect();
        let held = last.into_iter().filter(|(id, _)| !replaced.contains(id));
        held.map(|(_, row)| (window_of(row), row)).collect()
    }
}

fn window_of(row: &Value) -> Window {
    let text = |name: &str| row[name].as_str().unwrap().to_owned();
    let time = |name: &str| row[name].as_i64().unwrap() - START_MS;
    (text("key"), text("window"), time("start_ms"), time("end_ms"))
}

fn now(at: u64) -> Now {
    let wall = WallTime::from_millis(START_MS + i64::try_from(at).unwrap());
    Now { proc: ProcTime::from_millis(at), wall, quality: ClockQuality::Synced }
}
