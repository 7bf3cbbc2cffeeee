//! Wear figures: what a block device is given for what comes in.
//!
//! `cargo bench --bench wear` as root: ext4 on a loop device, the agent's engine on
//! its store, bytes from the kernel's count for that device, so that metadata and
//! journal are in them. `-- reading 240` measures that group over 240 s at the real
//! pace (the default); `-- fast` lets time pass as fast as it goes, which gives about the
//! same within a minute. Before it measures, a store has run for 40 minutes of its time.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark: a real disk, real time")]

mod gateway;
mod loop_device;
mod outbox;
#[path = "../process.rs"]
mod process;
mod reading;

use gateway::Pace;

/// As long as the measurements of notes on storage were.
const SECONDS: u64 = 240;

/// How long and how fast.
pub(crate) struct Options {
    pub(crate) seconds: u64,
    pub(crate) pace: Pace,
}

type Measure = fn(&Options);

const GROUPS: &[(&str, Measure)] = &[("reading", reading::measure), ("outbox", outbox::measure)];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    let seconds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(SECONDS);
    let pace = if words.iter().any(|word| word == "fast") { Pace::Fast } else { Pace::Real };
    let options = Options { seconds, pace };
    let wanted = |name: &str| words.iter().any(|word| word == name);
    let all = !GROUPS.iter().any(|(name, _)| wanted(name));
    for (name, measure) in GROUPS {
        if all || wanted(name) {
            measure(&options);
        }
    }
}
