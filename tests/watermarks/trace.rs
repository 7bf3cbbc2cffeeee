//! A trace and what comes of it, in one line each:
//!
//! ```text
//! 6001: idle a [0,10000) rev 0 count 1 sum 1 W -1001      moment, pane, key, window, …
//! 7000: late a 1000 by 8999                               a record that no window took
//! 7000: a W 9999 active bound 1000                        what `look` was asked for
//! ```
//!
//! Every trace is run three times: in one life; stopped and started between all lines
//! from a snapshot; and from the first snapshot and pages. The last not with an idle
//! timeout: a page says what was left of the deadlines of the devices that changed, and
//! silence between a page and the end is not counted.

use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::Engine;
use tidegate::engine::chain::Chain;
use tidegate::engine::driver::Driver;
use tidegate::engine::encode::record_json;
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Availability, Event, Message};
use tidegate::engine::store::{Loaded, Store, StoreError};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

/// The wall clock at the start; event times count from here.
pub(crate) const START_MS: i64 = 1_773_480_000_000;

#[derive(Clone, Debug)]
enum Line {
    Message { topic: String, payload: String },
    Available { device: Option<String>, online: bool },
    Live(bool),
    Clock { ahead_ms: i64, quality: ClockQuality },
    Look(String),
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restarts {
    None,
    FromSnapshots,
    FromPages,
}

/// Keeps what it is given; after the first snapshot only pages, if it is told so.
#[derive(Debug, Default)]
struct Kept {
    snapshot: Option<Vec<u8>>,
    pages: Vec<Vec<u8>>,
    only_pages: bool,
}

impl Chain for Kept {}

impl Store for Kept {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        Ok(Loaded { snapshot: self.snapshot.clone(), pages: self.pages.clone(), ..Loaded::default() })
    }

    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.pages.push(page.to_vec());
        Ok(())
    }

    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        if self.only_pages && self.snapshot.is_some() {
            return Err(StoreError::Full);
        }
        self.snapshot = Some(state.to_vec());
        self.pages.clear();
        Ok(())
    }

    fn wants_snapshot(&self) -> bool {
        false
    }

    fn bytes_written(&self) -> u64 {
        0
    }
}

pub(crate) struct Trace {
    pub(crate) spec: PipelineSpec,
    lines: Vec<(u64, Line)>,
}

/// Windows of 10 s without lateness; `stream` and `window` say the rest.
pub(crate) fn spec(stream: &str, window: &str) -> PipelineSpec {
    let size = if window.split("[[").next().unwrap().contains("gap") { "" } else { "size = \"10s\"" };
    let text = format!(
        r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
topic = "d/{{site}}/{{device}}"
time = {{ field = "/ts", unit = "ms" }}
{stream}
[[streams.windows]]
name = "w"
aggregates = ["sum"]
{size}
{window}
"#
    );
    check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}")).config
}

impl Trace {
    pub(crate) fn new(stream: &str, window: &str) -> Trace {
        Trace { spec: spec(stream, window), lines: Vec::new() }
    }

    fn line(mut self, at: u64, line: Line) -> Trace {
        self.lines.push((at, line));
        self
    }

    /// `name`: `site/device`, or a device of site `x`. `ts` counts from the start.
    pub(crate) fn reading(self, at: u64, name: &str, ts: i64) -> Trace {
        self.payload(at, name, &json!({ "ts": START_MS + ts, "v": 1 }))
    }

    /// Several, at one moment.
    pub(crate) fn readings(self, at: u64, name: &str, times: &[i64]) -> Trace {
        times.iter().fold(self, |trace, ts| trace.reading(at, name, *ts))
    }

    pub(crate) fn payload(self, at: u64, name: &str, payload: &Value) -> Trace {
        let topic = if name.contains('/') { format!("d/{name}") } else { format!("d/x/{name}") };
        self.line(at, Line::Message { topic, payload: payload.to_string() })
    }

    pub(crate) fn available(self, at: u64, device: Option<&str>, online: bool) -> Trace {
        self.line(at, Line::Available { device: device.map(str::to_owned), online })
    }

    pub(crate) fn live(self, at: u64, live: bool) -> Trace {
        self.line(at, Line::Live(live))
    }

    /// From here on the wall clock is ahead of where it was at the start.
    pub(crate) fn clock(self, at: u64, ahead_ms: i64, quality: ClockQuality) -> Trace {
        self.line(at, Line::Clock { ahead_ms, quality })
    }

    pub(crate) fn look(self, at: u64, device: &str) -> Trace {
        self.line(at, Line::Look(device.to_owned()))
    }

    pub(crate) fn tick(self, at: u64) -> Trace {
        self.line(at, Line::Tick)
    }

    /// What comes of it, the same in all three runs.
    pub(crate) fn run(&self) -> Vec<String> {
        let plain = Run::of(self, Restarts::None);
        for restarts in [Restarts::FromSnapshots, Restarts::FromPages] {
            if restarts == Restarts::FromPages && self.spec.streams[0].watermark.idle_timeout.is_some() {
                continue;
            }
            let found = Run::of(self, restarts);
            let same = found.iter().zip(&plain).take_while(|(found, plain)| found == plain).count();
            assert_eq!(
                found.get(same),
                plain.get(same),
                "{restarts:?}, after {:?}",
                same.checked_sub(1).map(|at| &plain[at])
            );
        }
        plain
    }

    #[track_caller]
    pub(crate) fn gives(&self, expected: &[&str]) {
        let found = self.run();
        assert_eq!(found, expected, "\n{}", found.join("\n"));
    }
}

struct Run<'t> {
    trace: &'t Trace,
    driver: Driver<Kept>,
    restarts: Restarts,
    ahead_ms: i64,
    quality: ClockQuality,
    live: bool,
    out: Vec<String>,
}

fn start(spec: &PipelineSpec, store: Kept, now: Now) -> Driver<Kept> {
    let mut driver = Driver::start(spec.clone(), store, now).unwrap();
    driver.handle(now, Event::UplinkUp);
    driver
}

impl Run<'_> {
    fn of(trace: &Trace, restarts: Restarts) -> Vec<String> {
        let quality = ClockQuality::Synced;
        let now = Now { proc: ProcTime::default(), wall: WallTime::from_millis(START_MS), quality };
        let store = Kept { only_pages: restarts == Restarts::FromPages, ..Kept::default() };
        let driver = start(&trace.spec, store, now);
        let mut run = Run { trace, driver, restarts, ahead_ms: 0, quality, live: true, out: Vec::new() };
        run.driver.handle(now, Event::InputLive(true));
        let mut last = 0;
        for (at, line) in &trace.lines {
            run.restart(last);
            run.sleep_until(last, *at);
            run.take(*at, line);
            last = *at;
        }
        run.restart(last);
        assert!(run.driver.engine().balances(), "the books balance");
        run.out
    }

    fn now(&self, at: u64) -> Now {
        let wall = START_MS + i64::try_from(at).unwrap() + self.ahead_ms;
        Now { proc: ProcTime::from_millis(at), wall: WallTime::from_millis(wall), quality: self.quality }
    }

    fn restart(&mut self, at: u64) {
        if self.restarts == Restarts::None {
            return;
        }
        let now = self.now(at);
        self.driver.stop(now, &mut |_| ());
        let down = std::mem::replace(&mut self.driver, start(&self.trace.spec, Kept::default(), now));
        let cursor = down.engine().outbox().next_order();
        self.driver = start(&self.trace.spec, down.into_store(), now);
        self.driver.handle(now, Event::InputLive(self.live));
        assert_eq!(self.driver.engine().outbox().next_order(), cursor, "a start of its own emits nothing");
    }

    /// As the agent sleeps: from deadline to deadline.
    fn sleep_until(&mut self, from: u64, until: u64) {
        let mut last = from;
        while let Some(at) = self.driver.engine().next_deadline().map(ProcTime::as_millis).filter(|at| *at < until) {
            assert!(at >= last, "deadlines lie ahead: {at} after {last}");
            last = at + 1;
            self.input(at, Event::Tick);
        }
    }

    fn take(&mut self, at: u64, line: &Line) {
        match line {
            Line::Message { topic, payload } => {
                let payload = payload.as_bytes();
                self.input(at, Event::Message(Message { topic, payload, retain: false, dup: false, tag: None }));
            }
            Line::Available { device, online } => {
                let signal = Availability { stream: Some(0), device: device.as_deref(), online: *online };
                self.input(at, Event::Availability(signal));
            }
            Line::Live(is_live) => {
                self.live = *is_live;
                self.input(at, Event::InputLive(*is_live));
            }
            Line::Clock { ahead_ms, quality } => {
                (self.ahead_ms, self.quality) = (*ahead_ms, *quality);
                self.input(at, Event::Tick);
            }
            Line::Tick => self.input(at, Event::Tick),
            Line::Look(device) => {
                self.input(at, Event::Tick);
                let shown = shown(self.driver.engine(), device);
                self.out.push(format!("{at}: {device} {shown}"));
            }
        }
    }

    fn input(&mut self, at: u64, event: Event<'_>) {
        let cursor = self.driver.engine().outbox().next_order();
        self.driver.handle(self.now(at), event);
        self.collect(at, cursor);
    }

    fn collect(&mut self, at: u64, cursor: u64) {
        for (_, _, seq, row) in self.driver.engine().outbox().rows_since(cursor) {
            let row: Value = serde_json::from_slice(&record_json("gw", seq, &row)).unwrap();
            self.out.push(format!("{at}: {}", line_of(&row)));
        }
    }
}

fn shown(engine: &Engine, device: &str) -> String {
    let Some(device) = engine.device(0, device) else { return "unknown".to_owned() };
    let watermark = device.watermark.map_or("none".to_owned(), |at| (at.as_millis() - START_MS).to_string());
    let idle = if device.is_idle { "idle" } else { "active" };
    let bound = device.bound.map_or(String::new(), |bound| format!(" bound {}", bound.as_millis()));
    format!("W {watermark} {idle}{bound}")
}

fn line_of(row: &Value) -> String {
    let time = |name: &str| row[name].as_i64().map_or("none".to_owned(), |at| (at - START_MS).to_string());
    let key = row["key"].as_str().unwrap();
    if row["kind"] == "late" {
        let reason = row["reason"].as_str().unwrap();
        return format!("{reason} {key} {} by {}", time("event_ms"), row["lag_ms"]);
    }
    format!(
        "{} {key} [{},{}) rev {} count {} sum {} W {}",
        row["pane"].as_str().unwrap(),
        time("start_ms"),
        time("end_ms"),
        row["rev"],
        row["count"],
        row["values"]["v"]["sum"],
        time("watermark_ms"),
    )
}
