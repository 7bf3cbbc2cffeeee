//! The listener against mosquitto, with the same load in the same run: messages a second,
//! CPU time per message, time to the acknowledgement, memory.
//!
//! `cargo bench --bench listener` measures all groups, `-- qos1 trickle` those two. The agent
//! is the real binary with one stream and a 10 s window, its state on a disk, and an uplink
//! that leads nowhere; it acknowledges after the commit, every 20 ms. mosquitto keeps its
//! persistence on and promises nothing. The load comes from one thread (`load.rs`), whose own
//! limit is measured first, against a peer that does nothing but acknowledge.
//!
//! `TIDEGATE_LISTENER_BENCH=mosquitto` leaves the agent out, to look at the generator alone.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark: real processes, real time")]

#[path = "../../end_to_end/broker.rs"]
mod broker;
mod frame;
mod idle;
mod load;
#[path = "../process.rs"]
mod process;
mod qos1;
mod server;
mod trickle;

const GROUPS: &[(&str, fn())] = &[
    ("ceiling", load::measure_ceiling),
    ("qos1", qos1::measure),
    ("trickle", trickle::measure),
    ("idle", idle::measure),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    let wanted: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.contains(name) {
            measure();
        }
    }
}
