//! Does the engine do what Apache Flink does? Field by field, on recorded runs of
//! the real Flink.
//!
//! `CONFORMANCE_DIR=… cargo test --release --test conformance` runs any folder of
//! that format. Default: the corpus beside the checkout (`../shared`), else the
//! five scenarios in tests/fixtures. One line per scenario, then
//! `N passed, M failed, K unsupported`, and the same of the scenarios in which
//! Flink 1.20 did something else, which is `all_idle = "stay"` here.
//!
//! Every scenario is run twice: in one go, and with the engine taken down and
//! restored from its own persisted bytes after every seventh line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate::engine::aggregate::{Aggregates, Kind};
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::MemorySlots;
use tidegate::engine::outbox::row::{LateRow, PaneKind, PaneRow, PaneValues, RawValues, Row};
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::spec::{
    AllIdle, FieldSpec, FieldsSpec, MappingSpec, OutboxSpec, PipelineSpec, Resume, Scope, StreamSpec, WatermarkSpec,
    WindowKind, WindowSpec,
};
use tidegate::engine::step::Event;
use tidegate::model::ids::Name;
use tidegate::model::record::Record;
use tidegate::model::template::Template;
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, Span, WallTime};
use tidegate::model::topic::TopicPattern;

type Fields = serde_json::Map<String, Value>;

fn main() -> ExitCode {
    let Some(folder) = folder() else {
        println!("the conformance corpus is required (TIDEGATE_REQUIRE_CORPUS) and is not there");
        return ExitCode::FAILURE;
    };
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".config.json")?.to_owned()))
        .collect();
    names.sort();
    let of_before = |name: &&String| folder.join(format!("{name}.{OF_BEFORE}")).is_file();
    let before = Totals::of(&folder, names.iter().filter(of_before), AllIdle::Stay);
    let totals = Totals::of(&folder, names.iter(), AllIdle::Advance);
    println!("{totals}; as Flink 1.20: {before}");
    if totals.failed + before.failed > 0 || totals.passed == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What Flink did before FLINK-38454, where it differs.
const OF_BEFORE: &str = "expected-flink1.20.jsonl";

#[derive(Default)]
struct Totals {
    passed: usize,
    failed: usize,
    unsupported: usize,
}

impl Totals {
    fn of<'n>(folder: &Path, names: impl Iterator<Item = &'n String>, all_idle: AllIdle) -> Totals {
        let mut totals = Totals::default();
        let flink = if all_idle == AllIdle::Stay { " as Flink 1.20" } else { "" };
        for name in names {
            match scenario(folder, name, all_idle) {
                Ok(compared) => {
                    totals.passed += 1;
                    println!("{name}{flink}: passed ({compared} records)");
                }
                Err(Verdict::Unsupported(what)) => {
                    totals.unsupported += 1;
                    println!("{name}{flink}: unsupported ({what})");
                }
                Err(Verdict::Failed(why)) => {
                    totals.failed += 1;
                    println!("{name}{flink}: FAILED {why}");
                }
            }
        }
        totals
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} unsupported", self.passed, self.failed, self.unsupported)
    }
}

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("CONFORMANCE_DIR") {
        return Some(folder.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = root.join("../shared/conformance/flink");
    if corpus.is_dir() {
        return Some(corpus);
    }
    if std::env::var_os("TIDEGATE_REQUIRE_CORPUS").is_some() {
        return None;
    }
    println!("the whole corpus is not beside the checkout: only the scenarios in tests/fixtures are run");
    Some(root.join("tests/fixtures/conformance"))
}

enum Verdict {
    Unsupported(String),
    Failed(String),
}

fn scenario(folder: &Path, name: &str, all_idle: AllIdle) -> Result<usize, Verdict> {
    let text = |kind: &str| {
        let path = folder.join(format!("{name}.{kind}"));
        std::fs::read_to_string(&path).map_err(|error| Verdict::Failed(format!("{}: {error}", path.display())))
    };
    let config: Value = serde_json::from_str(&text("config.json")?).expect("config is JSON");
    let lines = parse(&text("trace.jsonl")?);
    let spec = pipeline(&config, all_idle)?;
    let expected = if all_idle == AllIdle::Stay { OF_BEFORE } else { "expected.jsonl" };
    let mut expected: Vec<Fields> =
        parse(&text(expected)?).into_iter().filter(|line| line["type"] == "window" || line["type"] == "late").collect();
    expected.iter_mut().for_each(normalise);
    for restart_every in [None, Some(7)] {
        let found = run(&spec, &config, &lines, restart_every);
        if let Some(difference) = compare(&expected, &found) {
            let how = restart_every.map_or(String::new(), |lines| format!("(restarted every {lines} lines) "));
            return Err(Verdict::Failed(format!("{how}{difference}")));
        }
    }
    Ok(expected.len())
}

fn parse(text: &str) -> Vec<Fields> {
    text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON objects")).collect()
}

fn pipeline(config: &Value, all_idle: AllIdle) -> Result<PipelineSpec, Verdict> {
    let unsupported = |what: &Value| Verdict::Unsupported(what.as_str().unwrap_or("?").to_owned());
    let scope = match config["mode"].as_str() {
        Some("global") => Scope::Shared,
        Some("per_device") => Scope::Device,
        Some("per_source_min") => Scope::Stream(Resume::Hold),
        _ => return Err(unsupported(&config["mode"])),
    };
    let window = &config["window"];
    let span = |value: &Value| Span::from_millis(value.as_u64().expect("a span"));
    let offset_ms = window["offset_ms"].as_i64().unwrap_or(0);
    let kind = match window["type"].as_str() {
        Some("tumbling") => WindowKind::Tumbling { size: span(&window["size_ms"]), offset_ms },
        Some("sliding") => {
            WindowKind::Sliding { size: span(&window["size_ms"]), slide: span(&window["slide_ms"]), offset_ms }
        }
        Some("session") => WindowKind::Session { gap: span(&window["gap_ms"]), max_length: None },
        _ => return Err(unsupported(&window["type"])),
    };
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("corpus/{device}").unwrap();
    let device = Template::parse("{device}", &topic).unwrap();
    let window = WindowSpec {
        lateness: span(&config["allowed_lateness_ms"]),
        aggregates: Aggregates::of(&[Kind::Count, Kind::Sum, Kind::Min, Kind::Max]),
        ..WindowSpec::new(name("w"), kind)
    };
    let stream = StreamSpec {
        mapping: MappingSpec {
            fields: FieldsSpec::Named(vec![FieldSpec::number(name("value"), "/value")]),
            ..MappingSpec::default()
        },
        watermark: WatermarkSpec {
            idle_timeout: config["idle_timeout_ms"].as_u64().map(Span::from_millis),
            scope,
            all_idle,
            ..WatermarkSpec::bounded(span(&config["bound_ms"]))
        },
        devices_max: 1_000,
        windows: vec![window],
        ..StreamSpec::new(name("corpus"), topic, device)
    };
    Ok(PipelineSpec { outbox: OutboxSpec::of(1 << 30), ..PipelineSpec::new(name("gw"), vec![stream]) })
}

type TestDriver = Driver<Ring<MemorySlots>>;

fn start(spec: &PipelineSpec, slots: MemorySlots, now: Now) -> TestDriver {
    let mut driver = Driver::start(spec.clone(), Ring::new(slots, Packing::NONE), now).expect("memory does not fail");
    driver.handle(now, Event::InputLive(true));
    driver
}

/// Every row that an input made, with the moment and the number of its firing.
struct Run<'c> {
    spec: &'c PipelineSpec,
    first_ms: i64,
    driver: TestDriver,
    found: Vec<Fields>,
    firings: BTreeMap<(String, i64, i64), u64>,
}

fn run(spec: &PipelineSpec, config: &Value, lines: &[Fields], restart_every: Option<usize>) -> Vec<Fields> {
    let arrival = |line: &Fields| line["arrival_ms"].as_i64().unwrap();
    let first_ms = config["start_ms"].as_i64().unwrap_or_else(|| lines.first().map_or(0, arrival));
    let begin = moment(first_ms, first_ms);
    let driver = start(spec, MemorySlots::new(0), begin);
    let mut run = Run { spec, first_ms, driver, found: Vec::new(), firings: BTreeMap::new() };
    for device in config["registered_devices"].as_array().into_iter().flatten() {
        assert!(run.driver.engine_mut().register_device(begin, 0, device.as_str().unwrap()));
    }
    let mut now = begin;
    for (step, line) in lines.iter().enumerate() {
        if restart_every.is_some_and(|every| step % every == every - 1) {
            run.restart(now);
        }
        run.fall_idle(step, arrival(line));
        now = moment(first_ms, arrival(line));
        run.line(step, now, line);
    }
    if config["flush_at_end"] == true {
        let cursor = run.driver.engine().outbox().next_order();
        run.driver.engine_mut().finish(now);
        run.collect(cursor, lines.len(), now, "end");
    }
    assert!(run.driver.engine().balances(), "the ledger balances");
    run.found.sort_by_cached_key(sort_key);
    run.found
}

fn moment(first_ms: i64, wall: i64) -> Now {
    let proc = u64::try_from(wall - first_ms).expect("arrivals never decrease");
    Now { proc: ProcTime::from_millis(proc), wall: WallTime::from_millis(wall), quality: ClockQuality::Synced }
}

impl Run<'_> {
    /// Down and up again; the moment does not change.
    fn restart(&mut self, now: Now) {
        self.driver.stop(now, &mut |_| ());
        let down = std::mem::replace(&mut self.driver, start(self.spec, MemorySlots::new(0), now));
        self.driver = start(self.spec, down.into_store().into_slots(), now);
    }

    /// Sleeps as the agent does: from deadline to deadline, up to the next line.
    fn fall_idle(&mut self, step: usize, until_ms: i64) {
        let until = moment(self.first_ms, until_ms).proc;
        while let Some(at) = self.driver.engine().next_deadline().filter(|at| *at <= until) {
            let wall = self.first_ms + i64::try_from(at.as_millis()).unwrap();
            let now = moment(self.first_ms, wall);
            let cursor = self.driver.engine().outbox().next_order();
            self.driver.handle(now, Event::Tick);
            self.collect(cursor, step, now, "idle");
        }
    }

    fn line(&mut self, step: usize, now: Now, line: &Fields) {
        let cursor = self.driver.engine().outbox().next_order();
        if line.contains_key("tick") {
            self.driver.handle(now, Event::Tick);
        } else {
            let field = self.driver.engine_mut().field(0, "value").unwrap();
            let values = [(field, line["value"].as_f64().unwrap())];
            let at = EventTime::from_millis(line["event_ms"].as_i64().unwrap());
            let record = Record::new(line["device"].as_str().unwrap(), at, &values);
            self.driver.engine_mut().handle_record(now, 0, &record);
        }
        self.collect(cursor, step, now, "watermark");
    }

    /// `phase`: that of panes which the watermark fires.
    fn collect(&mut self, cursor: u64, step: usize, now: Now, phase: &str) {
        for (.., row) in self.driver.engine().outbox().rows_since(cursor) {
            let mut fields = match row {
                Row::Pane(pane, values) => {
                    let bounds = (pane.key.to_owned(), pane.start.as_millis(), pane.end.as_millis());
                    // Flink counts the emissions of these very bounds; our revision goes on when a session grows.
                    let firing = self.firings.entry(bounds).or_default();
                    let fields = window_fields(&pane, values, *firing, phase);
                    *firing += 1;
                    fields
                }
                Row::Late(late, values) => late_fields(&late, values),
                Row::Gap(..) | Row::Alarm(_) | Row::Join(..) | Row::Pair(_) | Row::Record(..) => {
                    panic!("the corpus makes panes and late records alone")
                }
            };
            fields.insert("step".into(), step.into());
            fields.insert("at_ms".into(), now.wall.as_millis().into());
            normalise(&mut fields);
            self.found.push(fields);
        }
    }
}

fn window_fields(pane: &PaneRow<'_>, values: PaneValues<'_>, firing: u64, phase: &str) -> Fields {
    let (_, results) = values.fields().next().expect("one field");
    let results: Vec<f64> = results.map(|(_, value)| value.as_number().expect("a number")).collect();
    assert!((results[0] - pane.count as f64).abs() < 0.5, "the aggregate count is that of the pane");
    let phase = if pane.pane == PaneKind::Late { "element" } else { phase };
    let fields = json!({
        "type": "window",
        "phase": phase,
        "device": pane.key,
        "window_start": pane.start.as_millis(),
        "window_end": pane.end.as_millis(),
        "firing": firing,
        "watermark": pane.watermark.map(EventTime::as_millis),
        "count": pane.count,
        "sum": results[1],
        "min": results[2],
        "max": results[3],
    });
    fields.as_object().unwrap().clone()
}

fn late_fields(late: &LateRow<'_>, values: RawValues<'_>) -> Fields {
    let fields = json!({
        "type": "late",
        "phase": "element",
        "device": late.key,
        "event_ms": late.event.as_millis(),
        "watermark": late.event.as_millis() + i64::try_from(late.lag.as_millis()).unwrap(),
        "value": values.fields().next().expect("one field").1.as_number(),
    });
    fields.as_object().unwrap().clone()
}

/// All numbers but times as floats, so that 60 and 60.0 are the same.
fn normalise(fields: &mut Fields) {
    for name in ["count", "sum", "min", "max", "value"] {
        if let Some(value) = fields.get_mut(name) {
            *value = value.as_f64().expect("a number").into();
        }
    }
}

/// The order that the corpus defines.
fn sort_key(line: &Fields) -> (u64, usize, i64, usize, i64, String, i64) {
    let number = |name: &str| line.get(name).and_then(Value::as_i64).unwrap_or(0);
    let place = |list: &[&str], name: &str| list.iter().position(|word| line[name] == *word).unwrap();
    (
        line["step"].as_u64().unwrap(),
        place(&["idle", "element", "watermark", "end"], "phase"),
        number("at_ms"),
        place(&["status", "watermark", "window", "late"], "type"),
        number("window_end"),
        line["device"].as_str().unwrap().to_owned(),
        number("window_start"),
    )
}

fn compare(expected: &[Fields], found: &[Fields]) -> Option<String> {
    let mut report = String::new();
    for index in 0..expected.len().max(found.len()) {
        let (expected, found) = (expected.get(index), found.get(index));
        if expected == found {
            continue;
        }
        let show = |fields: Option<&Fields>| {
            fields.map_or("nothing".to_owned(), |fields| Value::from(fields.clone()).to_string())
        };
        write!(report, "record {index}:\n  Flink:    {}\n  tidegate: {}", show(expected), show(found)).unwrap();
        return Some(report);
    }
    None
}
