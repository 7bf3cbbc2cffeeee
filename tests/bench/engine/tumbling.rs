//! What a record costs: 1,000 devices, tumbling windows of 10 s, bound 5 s; count,
//! sum, min and max of one field.
//!
//! The yardstick of the same run: a loop over a plain `HashMap` from (device name,
//! window start) to count, sum, min and max, that does nothing else.

use std::collections::HashMap;
use std::time::Duration;

use crate::load::{EPOCH_MS, Load, Names, ns_per_record};
use crate::pipeline;
use crate::process::{cpu_time, figure};

const DEVICES: usize = 1_000;
const WARM_UP: u64 = 500_000;
const RECORDS: u64 = 50_000_000;
/// Enough for the yardstick and for counting.
const FEWER: u64 = 5_000_000;

pub(crate) fn measure() {
    let mut load = Load::new(pipeline::tumbling(), DEVICES);
    load.run(WARM_UP);
    let engine = ns_per_record(load.run(RECORDS), RECORDS);
    figure("engine.tumbling.cpu_ns_per_record", engine, "ns");

    let plain = ns_per_record(plain_loop(&load.noise, FEWER), FEWER);
    figure("engine.plain_hash_map.cpu_ns_per_record", plain, "ns");
    figure("engine.tumbling.times_plain_hash_map", engine / plain, "1");

    let counted = allocation_counter::measure(|| _ = load.run(FEWER));
    figure("engine.tumbling.allocs_per_record", counted.count_total as f64 / FEWER as f64, "1");
    load.check();
}

/// The least that the job can be taken for; windows are dropped when they are over.
fn plain_loop(noise: &[(i64, f64)], records: u64) -> Duration {
    let names = Names::new(DEVICES);
    let before = cpu_time();
    let mut windows: HashMap<(&str, i64), (u64, f64, f64, f64)> = HashMap::new();
    for number in 0..records {
        let (behind, value) = noise[usize::try_from(number).unwrap() % noise.len()];
        let at = EPOCH_MS + i64::try_from(number / 10).unwrap() - behind;
        let device = names.get(usize::try_from(number % DEVICES as u64).unwrap());
        let window = windows.entry((device, at.div_euclid(10_000))).or_insert((0, 0.0, f64::MAX, f64::MIN));
        *window = (window.0 + 1, window.1 + value, window.2.min(value), window.3.max(value));
        if number.is_multiple_of(1_000_000) {
            windows.retain(|(_, start), _| *start >= at.div_euclid(10_000) - 1);
        }
    }
    std::hint::black_box(&windows);
    cpu_time().saturating_sub(before)
}
