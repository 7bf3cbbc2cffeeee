//! Recordings of the real world, replayed: the books balance, and the results are those
//! of a naive computation over all accepted readings at once, window by window.
//!
//! The recordings lie beside the checkout (`../shared/real`) and are not part of it:
//! database rights under the `ODbL` 1.0, from the data sets of `CampusIoT`
//! (<https://github.com/CampusIoT/datasets>). Attribution: Didier Donsez, Olivier Alphand,
//! Université Grenoble Alpes LIG (`lorawan-mountain`, `helium-tower-temperature`); CNES
//! (`balloon-clock-behind`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::engine::replay::Replay;
use tidegate::engine::status::{Status, WindowStatus};
use tidegate::fleet::oracle::{Oracle, Totals, WindowKey};
use tidegate::fleet::plot::{Plot, Point};
use tidegate::model::time::{EventTime, Span};

const HOUR: Span = Span::from_secs(3_600);
const DAY_MS: i64 = 86_400_000;

/// Where the recordings are. Missing: a failure in CI, else the test says so and ends.
fn recording(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../shared/real/{name}.trace.jsonl"));
    if path.is_file() {
        return Some(path);
    }
    let required = std::env::var_os("TIDEGATE_REQUIRE_CORPUS").is_some()
        || std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!required, "{} is required here", path.display());
    println!("{name}: not beside the checkout, nothing was replayed");
    None
}

/// One line of a recording.
#[derive(serde::Deserialize)]
struct Reading {
    arrival_ms: i64,
    device: String,
    event_ms: i64,
    value: f64,
}

/// What a replay gave.
struct Outcome {
    readings: Vec<Reading>,
    /// The last revision of each window.
    panes: BTreeMap<WindowKey, Value>,
    late: Vec<Value>,
    status: Status,
}

impl Outcome {
    fn window(&self) -> &WindowStatus {
        &self.status.streams[0].windows[0]
    }

    /// The windows are those that a batch over the readings that `counts` gives.
    fn equals_batch(&self, size: Span, counts: impl Fn(&Reading) -> bool) {
        let mut batch = Oracle::new(size, 0);
        for reading in self.readings.iter().filter(|reading| counts(reading)) {
            batch.add(&reading.device, EventTime::from_millis(reading.event_ms), reading.value);
        }
        assert_eq!(self.panes.len(), batch.windows().len(), "windows");
        for ((key, pane), (expected_key, totals)) in self.panes.iter().zip(batch.windows()) {
            assert_eq!(key, expected_key);
            let Totals { count, sum, min, max } = *totals;
            let found = |what: &str| pane["values"]["value"][what].as_f64().unwrap();
            assert_eq!(pane["count"], count, "{key:?}");
            assert_eq!((found("min"), found("max")), (min, max), "{key:?}");
            assert!((found("sum") - sum).abs() <= sum.abs() * 1e-12, "{key:?}: {} for {sum}", found("sum"));
        }
    }
}

fn replay(path: &Path, stream: &str, size: &str, lateness: &str) -> Outcome {
    let config = format!(
        r#"
[gateway]
id = "gw"
[[streams]]
name = "real"
topic = "real/{{device}}"
time = {{ source = "receive" }}
{stream}
[[streams.windows]]
name = "{size}"
size = "{size}"
lateness = "{lateness}"
aggregates = ["count", "sum", "mean", "min", "max"]
"#
    );
    let checked = check_for_replay(&config, "recording.toml").unwrap_or_else(|refused| panic!("{refused}"));
    let mut replay = Replay::new(checked.config);
    let (mut readings, mut out) = (Vec::new(), Vec::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        replay.handle_line(line, &mut out).unwrap();
        readings.push(serde_json::from_str(line).unwrap());
    }
    replay.finish(&mut out);
    let status = replay.status();
    assert!(status.balanced, "the books balance");
    assert_eq!(status.streams[0].ledger.received, readings.len() as u64, "every line is accounted for");
    let (mut panes, mut late) = (BTreeMap::new(), Vec::new());
    for row in std::str::from_utf8(&out).unwrap().lines().map(|row| serde_json::from_str::<Value>(row).unwrap()) {
        if row["lane"] == "late" {
            late.push(row);
        } else {
            let start = EventTime::from_millis(row["start_ms"].as_i64().unwrap());
            panes.insert(WindowKey { device: row["key"].as_str().unwrap().to_owned(), start }, row);
        }
    }
    Outcome { readings, panes, late, status }
}

/// A clock that is days off; the worst healthy path is 71.6 minutes.
fn is_broken(reading: &Reading) -> bool {
    reading.arrival_ms - reading.event_ms > DAY_MS
}

/// Two battery endpoints, about ten gateways, ten months. The event time is the clock of
/// the first gateway that heard a message; those of three gateways were 936, 766 and 2.6
/// days behind for a while, and one counter of microseconds wrapped twice (71.6 minutes).
///
/// What is wrong here is wrong against our own clock, which was right. So the watermark
/// follows our clock, and waits for two hours: longer than the wrap, shorter than any
/// fault. Every healthy reading is on time then, and every other one is late.
#[test]
fn lorawan_mountain_counts_what_healthy_clocks_said_and_reports_the_rest() {
    let Some(path) = recording("lorawan-mountain") else { return };
    let outcome = replay(&path, "watermark = \"processing\"\ndelay = \"2h\"", "1h", "0s");
    assert_eq!(outcome.readings.iter().filter(|reading| is_broken(reading)).count(), 261);
    let books = outcome.window();
    assert_eq!((books.accepted, books.on_time, books.side_output), (22_958, 22_697, 261));
    assert_eq!((books.late_update, books.dropped, books.open), (0, 0, 0));
    assert_eq!(outcome.late.len(), 261);
    assert!(outcome.late.iter().all(|row| row["reason"] == "late" && row["lag_ms"].as_i64().unwrap() > DAY_MS / 2));
    outcome.equals_batch(HOUR, |reading| !is_broken(reading));
}

/// The same with a watermark that follows the records. The two wraps are updates within
/// the lateness. And two faults pass: the first readings after a silence of 44.7 days, 63
/// hours behind and still newer than anything before them. From the order of records
/// nobody can tell; 259 of 261 are told.
#[test]
fn lorawan_mountain_by_the_order_of_its_records_lets_two_faults_pass() {
    let Some(path) = recording("lorawan-mountain") else { return };
    for scope in ["device", "shared"] {
        let stream = format!("disorder = \"10s\"\nidle_timeout = \"off\"\nscope = \"{scope}\"");
        let outcome = replay(&path, &stream, "1h", "2h");
        let books = outcome.window();
        assert_eq!((books.on_time, books.late_update, books.side_output), (22_697, 2, 259), "{scope}");
        let late = |row: &Value| (row["key"].as_str().unwrap().to_owned(), row["event_ms"].as_i64().unwrap());
        let late: std::collections::BTreeSet<_> = outcome.late.iter().map(late).collect();
        let told = |reading: &Reading| late.contains(&(reading.device.clone(), reading.event_ms));
        assert!(outcome.readings.iter().filter(|reading| told(reading)).all(is_broken), "{scope}");
        outcome.equals_batch(HOUR, |reading| !told(reading));
    }
}

/// Three balloons whose recorder is 83 to 143 s behind the satellites' time: every
/// reading is from the future of the receiver.
#[test]
fn balloon_clock_behind_is_taken_in_or_set_aside_as_the_guard_says_and_never_half() {
    let Some(path) = recording("balloon-clock-behind") else { return };
    let outcome = replay(&path, "disorder = \"5s\"\nmax_future = \"5m\"", "1m", "0s");
    let books = outcome.window();
    assert_eq!((books.accepted, books.on_time, books.side_output), (15_000, 15_000, 0));
    outcome.equals_batch(Span::from_secs(60), |_| true);

    let guarded = replay(&path, "disorder = \"5s\"\nmax_future = \"60s\"", "1m", "0s");
    assert_eq!((guarded.status.streams[0].ledger.future, guarded.window().accepted), (15_000, 0));
    assert_eq!((guarded.panes.len(), guarded.late.len()), (0, 15_000));

    // Between the balloons' errors: 117, 142 and 83 s.
    let split = replay(&path, "disorder = \"5s\"\nmax_future = \"100s\"", "1m", "0s");
    let ahead = |reading: &Reading| reading.event_ms - reading.arrival_ms > 100_000;
    let set_aside = split.readings.iter().filter(|reading| ahead(reading)).count();
    assert_eq!(split.late.len(), set_aside);
    assert!((1..15_000).contains(&set_aside), "{set_aside}");
    split.equals_batch(Span::from_secs(60), |reading| !ahead(reading));
}

/// One sensor on a tower, a summer of half hours. The curve is drawn into
/// target/plots, for people to look at; that it is a summer in Grenoble is checked here.
#[test]
fn helium_tower_temperature_is_a_summer_with_days_and_nights() {
    let Some(path) = recording("helium-tower-temperature") else { return };
    let outcome = replay(&path, "disorder = \"30s\"\nidle_timeout = \"off\"", "3h", "0s");
    let books = outcome.window();
    assert_eq!((books.accepted, books.on_time, books.side_output), (6_635, 6_635, 0));
    outcome.equals_batch(Span::from_secs(3 * 3_600), |_| true);

    let number = |pane: &Value, what: &str| pane["values"]["value"][what].as_f64().unwrap();
    let points: Vec<Point> = outcome
        .panes
        .iter()
        .map(|(key, pane)| Point {
            at: key.start,
            low: number(pane, "min"),
            middle: number(pane, "mean"),
            high: number(pane, "max"),
        })
        .collect();
    assert!(points.iter().all(|point| point.low <= point.middle && point.middle <= point.high));
    assert!(points.iter().all(|point| point.low > 0.0 && point.high < 50.0), "a summer, in the shade or not");
    let mean_from = |hour: i64| {
        let at = |point: &&Point| point.at.as_millis().rem_euclid(DAY_MS) / 3_600_000 == hour;
        let values: Vec<f64> = points.iter().filter(at).map(|point| point.middle).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let (night, afternoon) = (mean_from(3), mean_from(15));
    assert!(afternoon - night > 4.0, "{afternoon} °C in the afternoon, {night} °C before dawn");

    let title = "helium-tower-temperature: mean, lowest and highest of 3 h".to_owned();
    let svg = Plot { title, unit: "°C".to_owned(), points, gap: HOUR + HOUR + HOUR }.to_svg();
    let plots = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("plots");
    std::fs::create_dir_all(&plots).unwrap();
    std::fs::write(plots.join("helium-tower-temperature.svg"), &svg).unwrap();
    assert!(svg.lines().count() > 10);
}
