//! Agent figures: the real binary between two real mosquitto brokers.
//!
//! `cargo bench --bench agent` measures all groups, `-- qos1 peers` those two. CPU time is
//! a process's own, user and system, from the kernel's accounting; memory is its
//! resident set. The brokers log errors only: writing a line for each message would be most
//! of what they do.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark: real processes, real time")]

mod backlog;
#[path = "../../end_to_end/broker.rs"]
mod broker;
mod gateway;
mod loaded;
mod peers;
#[path = "../process.rs"]
mod process;
mod qos1;
mod trickle;

const GROUPS: &[(&str, fn())] = &[
    ("qos1", qos1::measure),
    ("trickle", trickle::measure),
    ("backlog", backlog::measure),
    ("loaded", loaded::measure),
    ("peers", peers::measure),
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
