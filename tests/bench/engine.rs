//! Engine figures: CPU time and allocations per record.
//!
//! 1,000 devices at 10 readings a second each, event times within 2 s of order,
//! tumbling windows of 10 s, bound 5 s; count, sum, min and max of one field.
//! Everything the engine does is inside the measurement: watermarks, panes into
//! the outbox, pages encoded every 10,000 records (1 s), batches encoded as JSON
//! for the uplink and acknowledged. Time is the CPU time of this process.
//!
//! `engine.all_aggregates`: the same with every aggregate there is.
//!
//! The yardstick of the same run: a loop over a plain `HashMap` from (device name,
//! window start) to count, sum, min and max, that does nothing else.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod pipeline;
mod process;

use std::collections::HashMap;

use process::{cpu_time, figure};
use tidegate::engine::Engine;
use tidegate::engine::spec::{PipelineSpec, WindowKind};
use tidegate::engine::step::Event;
use tidegate::model::record::Record;
use tidegate::model::rng::Rng;
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, Span, WallTime};

const DEVICES: usize = 1_000;
const WARM_UP: u64 = 500_000;
const RECORDS: u64 = 5_000_000;
/// Of each of the other kinds of windows.
const OTHER_RECORDS: u64 = 1_000_000;
const EPOCH_MS: i64 = 1_760_000_000_000;

fn main() {
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let names: Vec<String> = (0..DEVICES).map(|device| format!("device-{device:04}")).collect();
    let mut load = Load::new(pipeline::tumbling());
    load.run(&names, WARM_UP);

    let before = cpu_time();
    load.run(&names, RECORDS);
    let spent = cpu_time().saturating_sub(before);
    figure("engine.tumbling.cpu_ns_per_record", spent.as_secs_f64() * 1e9 / RECORDS as f64, "ns");

    let before = cpu_time();
    plain_loop(&names, &load.noise, RECORDS);
    let plain = cpu_time().saturating_sub(before);
    figure("engine.plain_hash_map.cpu_ns_per_record", plain.as_secs_f64() * 1e9 / RECORDS as f64, "ns");
    figure("engine.tumbling.times_plain_hash_map", spent.as_secs_f64() / plain.as_secs_f64(), "1");

    let counted = allocation_counter::measure(|| load.run(&names, RECORDS));
    figure("engine.tumbling.allocs_per_record", counted.count_total as f64 / RECORDS as f64, "1");
    assert!(load.engine.balances(), "the ledger balances");

    let mut load = Load::new(pipeline::all_aggregates());
    load.run(&names, WARM_UP);
    let before = cpu_time();
    let counted = allocation_counter::measure(|| load.run(&names, RECORDS / 5));
    let spent = cpu_time().saturating_sub(before);
    let records = (RECORDS / 5) as f64;
    figure("engine.all_aggregates.cpu_ns_per_record", spent.as_secs_f64() * 1e9 / records, "ns");
    figure("engine.all_aggregates.allocs_per_record", counted.count_total as f64 / records, "1");
    assert!(load.engine.balances(), "the ledger balances");

    let (size, slide) = (Span::from_secs(10), Span::from_secs(1));
    other_windows("sliding10", WindowKind::Sliding { size, slide, offset_ms: 0 }, &names);
    other_windows(
        "session",
        WindowKind::Session { gap: Span::from_secs(30), max_length: Some(Span::from_secs(60)) },
        &names,
    );
}

/// The same load on other windows: ten panes to each record; sessions that never pause
/// and are a minute long.
fn other_windows(name: &str, kind: WindowKind, names: &[String]) {
    let mut load = Load::new(pipeline::of(kind));
    load.run(names, WARM_UP);
    let before = cpu_time();
    load.run(names, OTHER_RECORDS);
    let spent = cpu_time().saturating_sub(before);
    let per_record = |total: f64| total / OTHER_RECORDS as f64;
    figure(&format!("engine.{name}.cpu_ns_per_record"), per_record(spent.as_secs_f64() * 1e9), "ns");
    let counted = allocation_counter::measure(|| load.run(names, OTHER_RECORDS));
    figure(&format!("engine.{name}.allocs_per_record"), per_record(counted.count_total as f64), "1");
    assert!(load.engine.balances(), "the ledger balances");
}

struct Load {
    engine: Engine,
    noise: Vec<(i64, f64)>,
    page: Vec<u8>,
    sent: u64,
    /// Whose turn it is, and where in the noise: counted, for a division costs as
    /// much as a part of what is measured.
    device: usize,
    drawn: usize,
}

impl Load {
    fn new(pipeline: PipelineSpec) -> Load {
        let engine = Engine::new(pipeline);
        let mut load = Load { engine, noise: noise(), page: Vec::new(), sent: 0, device: 0, drawn: 0 };
        load.engine.handle(now(0), Event::InputLive(true));
        load.engine.handle(now(0), Event::UplinkUp);
        load
    }

    fn run(&mut self, names: &[String], records: u64) {
        let field = self.engine.field(0, "value").unwrap();
        for _ in 0..records {
            // One round over all devices takes 100 ms of event time.
            let device = self.device;
            self.device = if device + 1 == DEVICES { 0 } else { device + 1 };
            self.drawn = if self.drawn + 1 == self.noise.len() { 0 } else { self.drawn + 1 };
            let millis = self.sent / 10;
            let (behind, value) = self.noise[self.drawn];
            let at = EventTime::from_millis(EPOCH_MS + i64::try_from(millis).unwrap() - behind);
            let values = [(field, value)];
            let record = Record::new(&names[device], at, &values);
            self.engine.handle_record(now(millis), 0, &record);
            self.sent += 1;
            if self.sent.is_multiple_of(10_000) {
                self.commit(now(millis));
            }
        }
    }

    fn commit(&mut self, now: Now) {
        let step = self.engine.step(now, std::mem::take(&mut self.page));
        self.page = step.writes;
        self.engine.mark_committed();
        while let Some(batch) = self.engine.next_batch() {
            self.engine.handle(now, Event::UplinkAcked(batch.id));
        }
    }
}

/// How late and how large readings are, made beforehand: drawing is not measured.
fn noise() -> Vec<(i64, f64)> {
    let mut random = Rng::new(1);
    let mut draw = |bound| i64::try_from(random.below(bound)).unwrap();
    (0..65_521).map(|_| (draw(2_000), draw(4_000) as f64 * 0.25)).collect()
}

/// The least that the job can be taken for; windows are dropped when they are over.
fn plain_loop(names: &[String], noise: &[(i64, f64)], records: u64) {
    let mut windows: HashMap<(&str, i64), (u64, f64, f64, f64)> = HashMap::new();
    for number in 0..records {
        let (behind, value) = noise[usize::try_from(number).unwrap() % noise.len()];
        let at = EPOCH_MS + i64::try_from(number / 10).unwrap() - behind;
        let device = names[usize::try_from(number % DEVICES as u64).unwrap()].as_str();
        let window = windows.entry((device, at.div_euclid(10_000))).or_insert((0, 0.0, f64::MAX, f64::MIN));
        *window = (window.0 + 1, window.1 + value, window.2.min(value), window.3.max(value));
        if number.is_multiple_of(1_000_000) {
            windows.retain(|(_, start), _| *start >= at.div_euclid(10_000) - 1);
        }
    }
    std::hint::black_box(&windows);
}

fn now(millis: u64) -> Now {
    let wall = EPOCH_MS + i64::try_from(millis).unwrap();
    Now { proc: ProcTime::from_millis(millis), wall: WallTime::from_millis(wall), quality: ClockQuality::Synced }
}
