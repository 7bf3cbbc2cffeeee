//! What a record costs with every aggregate there is.

use crate::load::{Load, ns_per_record};
use crate::pipeline;
use crate::process::figure;

const DEVICES: usize = 1_000;
const WARM_UP: u64 = 500_000;
const RECORDS: u64 = 1_000_000;

pub(crate) fn measure() {
    let mut load = Load::new(pipeline::all_aggregates(), DEVICES);
    load.run(WARM_UP);
    let mut spent = None;
    let counted = allocation_counter::measure(|| spent = Some(load.run(RECORDS)));
    figure("engine.all_aggregates.cpu_ns_per_record", ns_per_record(spent.unwrap(), RECORDS), "ns");
    figure("engine.all_aggregates.allocs_per_record", counted.count_total as f64 / RECORDS as f64, "1");
    load.check();
}
