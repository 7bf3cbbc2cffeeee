//! Two streams and one join, a clock that the test moves, and an engine that may
//! be taken down and restored after every input.

use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::driver::Driver;
use tidegate::engine::encode::record_json;
use tidegate::engine::memory_store::MemorySlots;
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

/// The wall clock at the start; event times in tests count from here.
pub(crate) const START_MS: i64 = 1_773_480_000_000;

/// What a stream is made of: `stream` and `window` are lines of TOML.
pub(crate) fn stream(name: &str, stream: &str, window: &str) -> String {
    format!(
        r#"
[[streams]]
name = "{name}"
topic = "{name}/{{device}}"
fields = {{ v = "/v" }}
time = {{ field = "/ts", unit = "ms" }}
max_future = "off"
{stream}
[[streams.windows]]
name = "10s"
size = "10s"
aggregates = ["count", "sum"]
{window}
"#
    )
}

/// Streams `a` and `b` without disorder, and one join.
pub(crate) fn pipeline(join: &str) -> PipelineSpec {
    let plain = "disorder = \"0s\"\nidle_timeout = \"off\"";
    parse(&format!("{}{}\n[[joins]]\nname = \"j\"\n{join}\n", stream("a", plain, ""), stream("b", plain, "")))
}

pub(crate) fn parse(text: &str) -> PipelineSpec {
    let text = format!("[gateway]\nid = \"gw\"\n{text}");
    check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}\n{text}")).config
}

pub(crate) const WINDOWS: &str = "windows = [\"a/10s\", \"b/10s\"]";

type TestDriver = Driver<Ring<MemorySlots>>;

pub(crate) struct World {
    pub(crate) spec: PipelineSpec,
    pub(crate) driver: TestDriver,
    /// Take the engine down and up again after every input.
    restarts: bool,
    now: Now,
    /// All rows of joins so far.
    pub(crate) rows: Vec<Value>,
}

fn moment(at: u64) -> Now {
    let wall = WallTime::from_millis(START_MS + i64::try_from(at).unwrap());
    Now { proc: ProcTime::from_millis(at), wall, quality: ClockQuality::Synced }
}

fn start(spec: &PipelineSpec, slots: MemorySlots, now: Now) -> TestDriver {
    let mut driver = Driver::start(spec.clone(), Ring::new(slots, Packing::NONE), now).unwrap();
    driver.handle(now, Event::InputLive(true));
    driver.handle(now, Event::UplinkUp);
    driver
}

impl World {
    pub(crate) fn new(spec: PipelineSpec) -> World {
        let now = moment(0);
        let driver = start(&spec, MemorySlots::new(0), now);
        World { spec, driver, restarts: false, now, rows: Vec::new() }
    }

    pub(crate) fn restarting(spec: PipelineSpec) -> World {
        World { restarts: true, ..World::new(spec) }
    }

    /// Takes the engine down, with a snapshot, and starts it again under `spec`.
    pub(crate) fn restart_as(&mut self, spec: PipelineSpec) -> Vec<Value> {
        let cursor = self.driver.engine().outbox().next_order();
        self.driver.stop(self.now, &mut |_| ());
        let down = std::mem::replace(&mut self.driver, start(&spec, MemorySlots::new(0), self.now));
        self.spec = spec;
        self.driver = start(&self.spec, down.into_store().into_slots(), self.now);
        self.collect(cursor)
    }

    /// Down without a snapshot: what was committed as pages is all there is.
    fn crash(&mut self) {
        self.now = moment(self.now.proc.as_millis() + 1_500);
        self.driver.advance(self.now, &mut |_| ());
        assert!(self.driver.engine().is_committed(), "a commit is due after a second");
        let down = std::mem::replace(&mut self.driver, start(&self.spec, MemorySlots::new(0), self.now));
        self.driver = start(&self.spec, down.into_store().into_slots(), self.now);
    }

    pub(crate) fn event(&mut self, at: u64, event: Event<'_>) -> Vec<Value> {
        self.now = moment(at);
        let cursor = self.driver.engine().outbox().next_order();
        self.driver.handle(self.now, event);
        let rows = self.collect(cursor);
        if self.restarts {
            let spec = self.spec.clone();
            assert_eq!(self.restart_as(spec).len(), 0, "a restart makes no rows");
        }
        rows
    }

    /// As [`World::event`], through a commit of a page and a crash.
    pub(crate) fn event_and_crash(&mut self, at: u64, event: Event<'_>) -> Vec<Value> {
        let rows = self.event(at, event);
        self.crash();
        rows
    }

    fn collect(&mut self, cursor: u64) -> Vec<Value> {
        let engine = self.driver.engine();
        assert!(engine.balances(), "the books balance after every input: {:?}", engine.status(self.now).joins);
        let mut rows = Vec::new();
        for (lane, _, seq, row) in engine.outbox().rows_since(cursor) {
            let mut value: Value = serde_json::from_slice(&record_json("gw", seq, &row)).unwrap();
            value["lane"] = lane.as_str().into();
            if value["kind"] == "join" {
                rows.push(value);
            }
        }
        self.rows.extend(rows.iter().cloned());
        rows
    }

    pub(crate) fn tick(&mut self, at: u64) -> Vec<Value> {
        self.event(at, Event::Tick)
    }

    /// A reading with event time `ts` after the start.
    pub(crate) fn reading(&mut self, at: u64, topic: &str, ts: i64, v: f64) -> Vec<Value> {
        let payload = json!({ "ts": START_MS + ts, "v": v }).to_string();
        let message = Message { topic, payload: payload.as_bytes(), retain: false, dup: false, tag: None };
        self.event(at, Event::Message(message))
    }

    pub(crate) fn finish(&mut self) -> Vec<Value> {
        let cursor = self.driver.engine().outbox().next_order();
        self.driver.engine_mut().finish(self.now);
        self.collect(cursor)
    }

    /// The books of the one join.
    pub(crate) fn books(&self) -> Value {
        serde_json::to_value(&self.driver.engine().status(self.now).joins[0]).unwrap()
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }
}

/// Start, pane, revision, sums of both sides, and what is missing.
pub(crate) fn brief(rows: &[Value]) -> Vec<Value> {
    let brief = |row: &Value| {
        json!([
            row["start_ms"].as_i64().unwrap() - START_MS,
            row["pane"],
            row["rev"],
            row["values"]["a"]["v"]["sum"],
            row["values"]["b"]["v"]["sum"],
            row["missing"]
        ])
    };
    rows.iter().map(brief).collect()
}

/// Times and values of the pairs.
pub(crate) fn pairs(rows: &[Value]) -> Vec<Value> {
    let pair = |row: &Value| {
        json!([
            row["left_ms"].as_i64().unwrap() - START_MS,
            row["right_ms"].as_i64().unwrap() - START_MS,
            row["values"]["a"]["v"],
            row["values"]["b"]["v"]
        ])
    };
    rows.iter().map(pair).collect()
}
