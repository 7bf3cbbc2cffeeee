//! Payloads of real systems, each with what a careful reader takes from it.
//!
//! `PAYLOADS_DIR=FOLDER cargo test --test payloads` runs any folder of that kind; without it
//! the shared folder next to the repository, and the samples in `tests/fixtures/payloads`
//! always. A sample is `SYSTEM/NNN.topic`, `.payload` and `.expect.json`; its configuration is
//! `tests/fixtures/payloads/SYSTEM.toml`. The last line is `N passed, M failed, K unsupported`,
//! the latter for systems without a configuration.
#![allow(clippy::unwrap_used, clippy::float_cmp, missing_docs, reason = "numbers come out as they went in")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value};
use tidegate::config::check::check_for_replay;
use tidegate::engine::Engine;
use tidegate::engine::trace::TracedRecord;
use tidegate::model::record::TimeSource;
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, WallTime};

/// 2026-12-01: after every sample.
const NOW_MS: i64 = 1_796_083_200_000;

struct Sample {
    /// `tasmota/001`.
    name: String,
    system: String,
    topic: String,
    payload: Vec<u8>,
    expected: Value,
}

/// What is expected of one record.
struct Wanted {
    device: Option<String>,
    /// `None`: the receive time.
    event_ms: Option<i64>,
    numbers: BTreeMap<String, f64>,
    /// Fields that must not be there.
    absent: Vec<String>,
}

fn main() -> ExitCode {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/payloads");
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/payloads");
    let folders = match std::env::var_os("PAYLOADS_DIR") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => vec![own.clone(), beside],
    };
    let errata = errata(&own);
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    for folder in folders {
        let samples = samples(&folder);
        if samples.is_empty() {
            assert!(
                std::env::var_os("TIDEGATE_REQUIRE_CORPUS").is_none(),
                "no samples in {} although TIDEGATE_REQUIRE_CORPUS is set",
                folder.display()
            );
            println!("no samples in {}: skipped", folder.display());
        }
        let mut systems: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in &samples {
            systems.entry(&sample.system).or_default().push(sample);
        }
        for (system, samples) in systems {
            let Some(mut bench) = Bench::new(&own.join(format!("{system}.toml"))) else {
                unsupported += samples.len();
                println!("{system}: no configuration, {} unsupported", samples.len());
                continue;
            };
            for sample in samples {
                match bench.judge(sample, &errata) {
                    Ok(()) => passed += 1,
                    Err(why) => {
                        failed += 1;
                        println!("{}: {why}", sample.name);
                    }
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {unsupported} unsupported");
    ExitCode::from(u8::from(failed > 0))
}

/// The engine of one system.
struct Bench {
    config: String,
    engine: Engine,
    /// Sparkplug: what is born is known later.
    remembers: bool,
    aliases: BTreeMap<String, String>,
}

impl Bench {
    fn new(file: &Path) -> Option<Bench> {
        let config = std::fs::read_to_string(file).ok()?;
        let mut engine = engine(&config);
        let mut aliases = BTreeMap::new();
        if config.contains("sparkplug") {
            // Samples may lie without the birth that explains them.
            let birth = samples(file.parent()?).into_iter().find(|sample| sample.name == "sparkplug-b/001")?;
            engine.trace(now(), &birth.topic, &birth.payload);
            aliases = aliases_of(&birth.expected);
        }
        Some(Bench { remembers: config.contains("sparkplug"), config, engine, aliases })
    }

    fn judge(&mut self, sample: &Sample, errata: &BTreeMap<String, i64>) -> Result<(), String> {
        if !self.remembers {
            // Fields of one sample would take the room of the next.
            self.engine = engine(&self.config);
        }
        let trace = self.engine.trace(now(), &sample.topic, &sample.payload);
        let records = trace.readings.map(|readings| readings.records).unwrap_or_default();
        let expected = &sample.expected;
        self.aliases.extend(aliases_of(expected));
        if expected["valid"] == false {
            return match records.as_slice() {
                [] => Err("is not valid, and nothing was said about it".to_owned()),
                records if records.iter().all(|record| record.rejected.is_some()) => Ok(()),
                _ => Err(format!("is not valid, and was taken as {}", shown(&records))),
            };
        }
        let wanted = self.wanted(expected, errata.get(&sample.name).copied());
        for wanted in &wanted {
            // A death says who is gone, by the number of its session.
            if records.is_empty() && wanted.numbers.keys().all(|name| name == "bdSeq") {
                continue;
            }
            if wanted.numbers.is_empty() && records.iter().all(|record| record.rejected.is_some()) {
                // No numbers are to be had, and none were made up.
                continue;
            }
            if !records.iter().any(|record| wanted.fits(record)) {
                return Err(format!("wanted {}, got {}", wanted.shown(), shown(&records)));
            }
        }
        Ok(())
    }

    fn wanted(&self, expected: &Value, corrected: Option<i64>) -> Vec<Wanted> {
        let device = |value: &Value| value["device"].as_str().map(str::to_owned);
        if let Some(events) = expected["events"].as_array() {
            let event = |event: &Value| Wanted {
                device: device(event).or_else(|| device(expected)),
                event_ms: event["event_ms"].as_i64(),
                numbers: self.numbers(&event["fields"]),
                absent: Vec::new(),
            };
            return events.iter().map(event).collect();
        }
        let mut numbers = self.numbers(&expected["fields"]);
        numbers.extend(self.numbers(&expected["lenient_fields"]));
        numbers.extend(self.numbers(&expected["decoded"]));
        let nulls = expected["decoded"].as_object().cloned().unwrap_or_default();
        let absent = nulls.into_iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name).collect();
        let times = expected["metric_event_ms"].as_object().cloned().unwrap_or_default();
        if times.is_empty() {
            let event_ms = corrected.or_else(|| expected["event_ms"].as_i64());
            return vec![Wanted { device: device(expected), event_ms, numbers, absent }];
        }
        // Metrics with times of their own are records of their own.
        let metric = |(alias, at): (&String, &Value)| {
            let name = self.aliases.get(alias).unwrap_or(alias).clone();
            let value = numbers.get(&name).copied();
            Wanted {
                device: device(expected),
                event_ms: at.as_i64(),
                numbers: value.map(|value| (name, value)).into_iter().collect(),
                absent: Vec::new(),
            }
        };
        times.iter().map(metric).collect()
    }

    fn numbers(&self, fields: &Value) -> BTreeMap<String, f64> {
        let fields = fields.as_object().map_or_else(Map::new, Map::clone);
        let name = |key: &str| match key.strip_prefix('/') {
            Some(path) => path.replace('/', ".").replace("~1", "/").replace("~0", "~"),
            None => self.aliases.get(key).map_or(key, String::as_str).to_owned(),
        };
        fields.iter().filter_map(|(key, value)| Some((name(key), value.as_f64()?))).collect()
    }
}

impl Wanted {
    fn fits(&self, record: &TracedRecord) -> bool {
        // What is set aside as of the future has no usable time either.
        let at =
            record.at.filter(|_| record.source == TimeSource::Device && !record.is_future).map(EventTime::as_millis);
        record.rejected.is_none()
            && (self.device.is_none() || self.device == record.device)
            && at == self.event_ms
            && self.numbers.iter().all(|(name, number)| has(record, name, *number))
            && self.absent.iter().all(|name| record.values.iter().all(|(known, _)| known != name))
    }

    fn shown(&self) -> String {
        format!("{:?} at {:?}: {:?}", self.device, self.event_ms, self.numbers)
    }
}

/// Whether the number of that name is `number`. What is around the values of a payload may be
/// part of a name or not; a lone value has any name; and the time is the time.
fn has(record: &TracedRecord, name: &str, number: f64) -> bool {
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('.'));
    let alike = |known: &str| known == name || ends(known, name) || ends(name, known);
    let is_time = record.at.is_some_and(|at| [1.0, 1_000.0].contains(&(at.as_millis() as f64 / number)));
    match record.values.as_slice() {
        [(_, value)] if *value == number => true,
        values => is_time || values.iter().any(|(known, value)| alike(known) && *value == number),
    }
}

fn shown(records: &[TracedRecord]) -> String {
    let mut text = String::new();
    for record in records {
        let at = record.at.map(EventTime::as_millis);
        write!(text, "\n    {:?} at {at:?} by {:?}: ", record.device, record.source).unwrap();
        match record.rejected {
            Some(reason) => write!(text, "rejected, {}", reason.as_str()).unwrap(),
            None => write!(text, "{:?}", record.values).unwrap(),
        }
    }
    if text.is_empty() { "nothing".to_owned() } else { text }
}

fn now() -> Now {
    Now { proc: ProcTime::from_millis(0), wall: WallTime::from_millis(NOW_MS), quality: ClockQuality::Synced }
}

/// What a birth calls its metrics.
fn aliases_of(expected: &Value) -> BTreeMap<String, String> {
    let aliases = expected["aliases"].as_object().into_iter().flatten();
    aliases.map(|(alias, name)| (format!("alias:{alias}"), name.as_str().unwrap_or_default().to_owned())).collect()
}

fn engine(config: &str) -> Engine {
    match check_for_replay(config, "config.toml") {
        Ok(checked) => Engine::new(checked.config),
        Err(refused) => panic!("{config}\n{refused}"),
    }
}

fn errata(folder: &Path) -> BTreeMap<String, i64> {
    let text = std::fs::read_to_string(folder.join("errata.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    table.into_iter().map(|(name, at)| (name, at.as_integer().unwrap())).collect()
}

/// All samples of a folder, by system and number.
fn samples(folder: &Path) -> Vec<Sample> {
    let mut samples = Vec::new();
    let Ok(systems) = std::fs::read_dir(folder) else { return samples };
    for system in systems.map(|system| system.unwrap().path()).filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(&system).unwrap().map(|file| file.unwrap().path()) {
            let text = file.to_str().unwrap();
            let Some(stem) = text.strip_suffix(".expect.json") else { continue };
            let system = system.file_name().unwrap().to_str().unwrap().to_owned();
            samples.push(Sample {
                name: format!("{system}/{}", stem.rsplit('/').next().unwrap()),
                topic: std::fs::read_to_string(format!("{stem}.topic")).unwrap(),
                payload: std::fs::read(format!("{stem}.payload")).unwrap(),
                expected: serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap(),
                system,
            });
        }
    }
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    samples
}
