//! A configuration, a clock that the test moves, and a gateway that may lose its
//! power after every input: what comes out has to be the same.

#![allow(dead_code, reason = "each test uses its part")]

use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::chain::Chain;
use tidegate::engine::driver::Driver;
use tidegate::engine::encode::record_json;
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::status::{SamplesStatus, StreamStatus};
use tidegate::engine::step::{Event, Message};
use tidegate::engine::store::{Loaded, Store, StoreError};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

/// The wall clock at the start; times in tests count from here.
pub(crate) const START_MS: i64 = 1_773_480_000_000;

/// What happens after every input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Restart {
    Never,
    /// Everything is read back from the first snapshot and all pages since.
    FromPages,
    /// Everything is read back from a snapshot of now.
    FromSnapshot,
}

/// A store that gives out what the test wrote.
struct Tape(Loaded);

impl Store for Tape {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        Ok(std::mem::take(&mut self.0))
    }
    fn commit(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn snapshot(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn wants_snapshot(&self) -> bool {
        false
    }
    fn bytes_written(&self) -> u64 {
        0
    }
}

impl Chain for Tape {}

pub(crate) struct World {
    driver: Driver<Tape>,
    pipeline: PipelineSpec,
    restart: Restart,
    snapshot: Vec<u8>,
    pages: Vec<Vec<u8>>,
    uplink_up: bool,
    /// Look at the books after every input.
    pub(crate) audit: bool,
}

/// The pipeline of one stream `s` with disorder 2 s; `more` goes into the stream.
pub(crate) fn pipeline(more: &str) -> PipelineSpec {
    let fields = if more.contains("fields =") { "" } else { "fields = { v = \"/v\" }" };
    let topic = if more.contains("topic =") { "" } else { "topic = \"d/{device}\"" };
    let time = if more.contains("time = {") || more.contains("time = [") {
        ""
    } else {
        "time = { field = \"/ts\", unit = \"ms\" }"
    };
    let disorder = if more.contains("watermark =") { "" } else { "disorder = \"2s\"" };
    let text = format!(
        r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
{topic}
{fields}
{time}
{disorder}
{more}
"#
    );
    check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}")).config
}

impl World {
    pub(crate) fn new(more: &str, restart: Restart) -> World {
        let pipeline = pipeline(more);
        let now = World::now(0);
        let driver = Driver::start(pipeline.clone(), Tape(Loaded::default()), now).unwrap();
        let snapshot = driver.engine().snapshot(now);
        let mut world = World { driver, pipeline, restart, snapshot, pages: Vec::new(), uplink_up: true, audit: true };
        world.wake(now);
        world
    }

    fn now(at: u64) -> Now {
        let wall = WallTime::from_millis(START_MS + i64::try_from(at).unwrap());
        Now { proc: ProcTime::from_millis(at), wall, quality: ClockQuality::Synced }
    }

    fn wake(&mut self, now: Now) {
        if self.uplink_up {
            self.driver.handle(now, Event::UplinkUp);
        }
        self.driver.handle(now, Event::InputLive(true));
    }

    /// Reads everything back, perhaps under another configuration.
    pub(crate) fn start_again(&mut self, at: u64, more: Option<&str>) -> Vec<Value> {
        let now = World::now(at);
        if let Some(more) = more {
            self.pipeline = pipeline(more);
        }
        let page = self.driver.engine().step(now, Vec::new()).writes;
        match self.restart {
            Restart::Never | Restart::FromSnapshot => {
                self.pages.clear();
                self.snapshot = self.driver.engine().snapshot(now);
            }
            Restart::FromPages if page.is_empty() => {}
            Restart::FromPages => self.pages.push(page),
        }
        let order = self.driver.engine().outbox().next_order();
        let loaded = Loaded { snapshot: Some(self.snapshot.clone()), pages: self.pages.clone(), ..Loaded::default() };
        let epoch = self.driver.status(now).epoch;
        self.driver = Driver::start(self.pipeline.clone(), Tape(loaded), now).unwrap();
        assert_eq!(self.driver.status(now).epoch, epoch, "read without damage");
        if more.is_some() {
            self.pages.clear();
            self.snapshot = self.driver.engine().snapshot(now);
            self.driver.engine_mut().mark_committed(Some(now));
        }
        self.wake(now);
        self.rows(order)
    }

    /// From here on everything is read back from pages; the first has all changes so far.
    pub(crate) fn restart_from_pages(&mut self) {
        self.restart = Restart::FromPages;
    }

    fn rows(&self, order: u64) -> Vec<Value> {
        let rows = self.driver.engine().outbox().rows_since(order).into_iter().map(|(lane, _, seq, row)| {
            let mut value: Value = serde_json::from_slice(&record_json("gw", seq, &row)).unwrap();
            value["lane"] = lane.as_str().into();
            value
        });
        rows.collect()
    }

    pub(crate) fn event(&mut self, at: u64, event: Event<'_>) -> Vec<Value> {
        let now = World::now(at);
        let order = self.driver.engine().outbox().next_order();
        self.driver.handle(now, event);
        if matches!(event, Event::UplinkUp | Event::UplinkDown) {
            self.uplink_up = matches!(event, Event::UplinkUp);
        }
        let rows = self.rows(order);
        if self.restart != Restart::Never {
            let more = self.start_again(at, None);
            assert_eq!(more, Vec::<Value>::new(), "a restart says nothing");
        }
        assert!(!self.audit || self.driver.engine().balances(), "the books balance after every input");
        rows
    }

    pub(crate) fn tick(&mut self, at: u64) -> Vec<Value> {
        self.event(at, Event::Tick)
    }

    /// A reading of `device` with event time `ts` after the start.
    pub(crate) fn reading(&mut self, at: u64, device: &str, ts: i64, v: f64) -> Vec<Value> {
        self.payload(at, device, &json!({ "ts": START_MS + ts, "v": v }))
    }

    pub(crate) fn payload(&mut self, at: u64, device: &str, payload: &Value) -> Vec<Value> {
        let topic = format!("d/{device}");
        let payload = payload.to_string();
        let message = Message { topic: &topic, payload: payload.as_bytes(), retain: false, dup: false, tag: None };
        self.event(at, Event::Message(message))
    }

    /// Any message.
    pub(crate) fn message(&mut self, at: u64, topic: &str, payload: impl AsRef<[u8]>) -> Vec<Value> {
        let message = Message { topic, payload: payload.as_ref(), retain: false, dup: false, tag: None };
        self.event(at, Event::Message(message))
    }

    /// One that the broker kept from before the subscription.
    pub(crate) fn retained(&mut self, at: u64, topic: &str, payload: impl AsRef<[u8]>) -> Vec<Value> {
        let message = Message { topic, payload: payload.as_ref(), retain: true, dup: false, tag: None };
        self.event(at, Event::Message(message))
    }

    /// When time alone will next change something.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.driver.engine().next_deadline().map(ProcTime::as_millis)
    }

    pub(crate) fn finish(&mut self, at: u64) -> Vec<Value> {
        let order = self.driver.engine().outbox().next_order();
        self.driver.engine_mut().finish(World::now(at));
        assert!(self.driver.engine().balances(), "the books balance at the end");
        self.rows(order)
    }

    pub(crate) fn status(&self, at: u64) -> StreamStatus {
        self.driver.status(World::now(at)).streams[0].clone()
    }

    /// Bytes of the page that the next commit would write, and of a snapshot.
    pub(crate) fn sizes(&self, at: u64) -> (usize, usize) {
        let now = World::now(at);
        (self.driver.engine().step(now, Vec::new()).writes.len(), self.driver.engine().snapshot(now).len())
    }

    pub(crate) fn commit(&mut self) {
        self.driver.engine_mut().mark_committed(None);
    }
}

/// Runs the same story without a restart, restarted from pages, and from snapshots; it
/// has to say the same each time.
pub(crate) fn told_alike(more: &str, story: impl Fn(&mut World) -> Vec<Value>) -> Vec<Value> {
    let told = timed_alike(more, &story);
    assert_eq!(told_with(more, Restart::FromPages, &story), told, "restarted from pages");
    told.1
}

/// As [`told_alike`], for stories of silence: the clock of idleness goes on from where
/// it was when a device was last written, so pages alone give it back some time.
pub(crate) fn silent_alike(more: &str, story: impl Fn(&mut World) -> Vec<Value>) -> Vec<Value> {
    timed_alike(more, &story).1
}

type Told = (Vec<String>, Vec<Value>, StreamStatus);

fn timed_alike(more: &str, story: &impl Fn(&mut World) -> Vec<Value>) -> Told {
    let told = told_with(more, Restart::Never, story);
    assert_eq!(told_with(more, Restart::FromSnapshot, story), told, "restarted from snapshots");
    told
}

fn told_with(more: &str, restart: Restart, story: &impl Fn(&mut World) -> Vec<Value>) -> Told {
    let mut world = World::new(more, restart);
    let rows = story(&mut world);
    let mut status = world.status(0);
    // Of this process alone.
    status.samples = SamplesStatus::default();
    // In short first: that is what a person reads when it differs.
    (brief(&rows), rows, status)
}

/// Lane, kind, device and event time (or start) after the start, in short.
pub(crate) fn brief(rows: &[Value]) -> Vec<String> {
    let short = |row: &Value| {
        let time = ["event_ms", "start_ms"].iter().find_map(|key| row[*key].as_i64()).unwrap_or_default();
        let word = row["reason"].as_str().or(row["pane"].as_str()).unwrap_or(match row["early"].as_bool() {
            Some(true) => "early",
            _ => "",
        });
        let (lane, kind, key) = (row["lane"].as_str(), row["kind"].as_str(), row["key"].as_str());
        let text = [lane, kind, key].map(Option::unwrap_or_default).join(" ");
        format!("{text} {} {word}", time - START_MS).trim_end().to_owned()
    };
    rows.iter().map(short).collect()
}
