//! Whether a record costs the same with many devices: tumbling windows of 10 s, every
//! device in turn, which is the worst order for a cache.

use crate::load::{Load, ns_per_record};
use crate::pipeline;
use crate::process::figure;

const COUNTS: [(&str, usize); 4] = [("100", 100), ("1k", 1_000), ("10k", 10_000), ("50k", 50_000)];
/// At least four windows of every device.
const WINDOWS: u64 = 4;
const RECORDS_PER_WINDOW: u64 = 100;
const RECORDS_MIN: u64 = 5_000_000;

pub(crate) fn measure() {
    let costs = COUNTS.map(|(name, devices)| {
        let mut load = Load::new(pipeline::tumbling(), devices);
        let window = devices as u64 * RECORDS_PER_WINDOW;
        load.run(window * 2);
        let records = RECORDS_MIN.next_multiple_of(window).max(window * WINDOWS);
        let cost = ns_per_record(load.run(records), records);
        load.check();
        figure(&format!("engine.devices{name}.cpu_ns_per_record"), cost, "ns");
        cost
    });
    for ((name, _), cost) in COUNTS.iter().zip(costs).skip(1) {
        figure(&format!("engine.devices{name}.times_100"), cost / costs[0], "1");
    }
}
