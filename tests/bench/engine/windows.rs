//! What a record costs in other kinds of windows: sliding ones, where ten panes hold
//! each record; and sessions that never pause and are a minute long.

use tidegate::engine::spec::WindowKind;
use tidegate::model::time::Span;

use crate::load::{Load, ns_per_record};
use crate::pipeline;
use crate::process::figure;

const DEVICES: usize = 1_000;
const WARM_UP: u64 = 500_000;
const RECORDS: u64 = 1_000_000;

pub(crate) fn measure() {
    let (size, slide) = (Span::from_secs(10), Span::from_secs(1));
    measure_kind("sliding10", WindowKind::Sliding { size, slide, offset_ms: 0 });
    let max_length = Some(Span::from_secs(60));
    measure_kind("session", WindowKind::Session { gap: Span::from_secs(30), max_length });
}

fn measure_kind(name: &str, kind: WindowKind) {
    let mut load = Load::new(pipeline::of(kind), DEVICES);
    load.run(WARM_UP);
    figure(&format!("engine.{name}.cpu_ns_per_record"), ns_per_record(load.run(RECORDS), RECORDS), "ns");
    let counted = allocation_counter::measure(|| _ = load.run(RECORDS));
    figure(&format!("engine.{name}.allocs_per_record"), counted.count_total as f64 / RECORDS as f64, "1");
    load.check();
}
