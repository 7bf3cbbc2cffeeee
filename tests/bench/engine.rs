//! Engine figures: CPU time and allocations per record.
//!
//! 1,000 devices at 10 readings a second each, event times within 2 s of order,
//! tumbling windows of 10 s, bound 5 s; count, sum, min and max of one field.
//! Everything the engine does is inside the measurement: watermarks, panes into
//! the outbox, pages encoded every 10,000 records (1 s), batches encoded as JSON
//! for the uplink and acknowledged. Time is the CPU time of this process.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod pipeline;
mod process;

use process::{cpu_time, figure};
use tidegate::engine::Engine;
use tidegate::engine::step::Event;
use tidegate::fleet::rng::Rng;
use tidegate::model::record::{Record, TimeSource};
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, WallTime};

const DEVICES: usize = 1_000;
const WARM_UP: u64 = 500_000;
const RECORDS: u64 = 5_000_000;
const EPOCH_MS: i64 = 1_760_000_000_000;

fn main() {
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let names: Vec<String> = (0..DEVICES).map(|device| format!("device-{device:04}")).collect();
    let mut load = Load { engine: Engine::new(pipeline::tumbling()), random: Rng::new(1), page: Vec::new(), sent: 0 };
    load.engine.handle(now(0), Event::InputLive(true));
    load.engine.handle(now(0), Event::UplinkUp);
    load.run(&names, WARM_UP);

    let before = cpu_time();
    load.run(&names, RECORDS);
    let spent = cpu_time().saturating_sub(before);
    figure("engine.tumbling.cpu_ns_per_record", spent.as_secs_f64() * 1e9 / RECORDS as f64, "ns");

    let counted = allocation_counter::measure(|| load.run(&names, RECORDS));
    figure("engine.tumbling.allocs_per_record", counted.count_total as f64 / RECORDS as f64, "1");
    assert!(load.engine.balances(), "the ledger balances");
}

struct Load {
    engine: Engine,
    random: Rng,
    page: Vec<u8>,
    sent: u64,
}

impl Load {
    fn run(&mut self, names: &[String], records: u64) {
        let field = self.engine.field(0, "value").unwrap();
        for _ in 0..records {
            // One round over all devices takes 100 ms of event time.
            let device = usize::try_from(self.sent % DEVICES as u64).unwrap();
            let millis = self.sent / 10;
            let behind = i64::try_from(self.random.below(2_000)).unwrap();
            let at = EventTime::from_millis(EPOCH_MS + i64::try_from(millis).unwrap() - behind);
            let value = self.random.below(4_000) as f64 * 0.25;
            let values = [(field, value)];
            let record = Record { device: &names[device], at, source: TimeSource::Device, values: &values };
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

fn now(millis: u64) -> Now {
    let wall = EPOCH_MS + i64::try_from(millis).unwrap();
    Now { proc: ProcTime::from_millis(millis), wall: WallTime::from_millis(wall), quality: ClockQuality::Synced }
}
