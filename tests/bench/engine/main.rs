//! Engine figures: CPU time, allocations and memory. One file per group of figures;
//! `cargo bench --bench engine -- tumbling` measures that group alone.
//!
//! The load is in `load.rs`, what it runs on in `pipeline.rs`. A new figure is a
//! file, or a line in one, and a line in [`GROUPS`].

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod all_aggregates;
mod devices;
mod idle;
mod load;
mod memory;
mod pipeline;
#[path = "../process.rs"]
mod process;
mod tumbling;
mod windows;

const GROUPS: &[(&str, fn())] = &[
    ("tumbling", tumbling::measure),
    ("all_aggregates", all_aggregates::measure),
    ("windows", windows::measure),
    ("devices", devices::measure),
    ("idle", idle::measure),
    ("memory", memory::measure),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    if words.iter().any(|word| word == memory::INSIDE) {
        return memory::fill();
    }
    let wanted: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.contains(name) {
            measure();
        }
    }
}
