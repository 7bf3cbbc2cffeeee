//! Figures of documents: how long one is checked, and how long the engine stands still for one.
//!
//! `cargo bench --bench remote`. The pause is of the clock, with the medium's part in it: the state lies in the
//! directory for temporary files. It is the longest of forty.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark: a real disk, real time")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

#[path = "../process.rs"]
mod process;

use process::{cpu_time, figure};
use tidegate::agent::store::open;
use tidegate::config::check::check_for_replay;
use tidegate::config::check::desired::check_desired;
use tidegate::engine::driver::Driver;
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

const DEVICES: usize = 1_000;
const CHANGES: u64 = 40;
const START_MS: i64 = 1_790_000_000_000;

fn main() {
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    check();
    // The stream of the devices stays as it is; its windows become others.
    pause("beside", |_| 10);
    pause("changed", |change| 10 + change % 7);
}

/// 200 streams, 256 KiB.
fn check() {
    let file = "[gateway]\nid = 'gw'\n[uplink]\nbroker = 'mqtt://cloud'\n[storage]\npath = '/s'\n";
    let mut streams = Vec::new();
    for number in 0..200 {
        let fields: Vec<String> = (0..24).map(|field| format!("\"field{field}\":\"/readings/{field}/v\"")).collect();
        let window = |size: u32| {
            format!(
                "{{\"name\":\"w{size}\",\"size\":\"{size}s\",\"aggregates\":[\"count\",\"sum\",\"mean\",\"min\",\"max\"]}}"
            )
        };
        let windows: Vec<String> = [10, 60, 300].into_iter().map(window).collect();
        streams.push(format!(
            "{{\"name\":\"stream{number}\",\"topic\":\"site/{number}/{{device}}\",\"fields\":{{{}}},\
             \"time\":{{\"field\":\"/ts\",\"unit\":\"ms\"}},\"disorder\":\"5s\",\"windows\":[{}]}}",
            fields.join(","),
            windows.join(",")
        ));
    }
    let mut document = format!("{{\"version\":1,\"streams\":[{}]}}", streams.join(","));
    while document.len() < 256 * 1024 {
        document.push(' ');
    }
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let before = cpu_time();
            let checked = check_desired(&document, file, "tidegate.toml").unwrap();
            assert_eq!(checked.config.config.pipeline.streams.len(), 200);
            cpu_time().saturating_sub(before)
        })
        .collect();
    times.sort_unstable();
    figure("remote.check.256k_200_streams.cpu_ms", times[times.len() / 2].as_secs_f64() * 1e3, "ms");
    figure("remote.check.256k_200_streams.bytes", document.len() as f64, "bytes");
}

fn pipeline(size_secs: u64, beside_secs: u64) -> PipelineSpec {
    let mut text = String::from("[gateway]\nid = 'gw'\n");
    for (name, topic, size) in [("s", "s", size_secs), ("beside", "b", beside_secs)] {
        write!(
            text,
            "[[streams]]\nname = '{name}'\ntopic = '{topic}/{{device}}'\nfields = {{ a = '/a', b = '/b', c = '/c' }}\n\
             time = {{ field = '/ts', unit = 'ms' }}\nmax_future = 'off'\ndisorder = '20s'\n\
             [[streams.windows]]\nname = 'w'\nsize = '{size}s'\naggregates = ['count', 'sum', 'min', 'max']\n\
             [[streams.windows]]\nname = 'minute'\nsize = '1m'\naggregates = ['count', 'mean']\n"
        )
        .unwrap();
    }
    check_for_replay(&text, "bench.toml").unwrap().config
}

fn now(millis: u64) -> Now {
    let wall = WallTime::from_millis(START_MS + i64::try_from(millis).unwrap());
    Now { proc: ProcTime::from_millis(millis), wall, quality: ClockQuality::Synced }
}

/// The longest time in `Driver::reconfigure`, between seconds in which each device sends once.
fn pause(name: &str, size: impl Fn(u64) -> u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::start(pipeline(size(0), 10), open(dir.path()).unwrap(), now(0)).unwrap();
    let (mut longest, mut cpu) = (Duration::ZERO, Duration::ZERO);
    for change in 1..=CHANGES {
        for second in 0..3 {
            let millis = (change * 3 + second) * 1_000;
            for device in 0..DEVICES {
                let topic = format!("s/device-{device:04}");
                let ts = START_MS + i64::try_from(millis).unwrap();
                let payload = format!("{{\"ts\":{ts},\"a\":{device},\"b\":2.5,\"c\":-1}}");
                let payload = payload.as_bytes();
                let message = Message { topic: &topic, payload, retain: false, dup: false, tag: None };
                driver.handle(now(millis), Event::Message(message));
            }
            driver.advance(now(millis + 999), &mut |_| ());
        }
        let at = now((change * 3 + 3) * 1_000 - 1);
        let wanted = pipeline(size(change), 10 + change % 5);
        let (began, spent) = (Instant::now(), cpu_time());
        driver.reconfigure(at, &wanted, &mut |_| ()).unwrap();
        longest = longest.max(began.elapsed());
        cpu = cpu.max(cpu_time().saturating_sub(spent));
    }
    assert!(driver.status(now(CHANGES * 4_000)).balanced);
    figure(&format!("remote.pause.1000_devices.{name}.ms"), longest.as_secs_f64() * 1e3, "ms");
    figure(&format!("remote.pause.1000_devices.{name}.cpu_ms"), cpu.as_secs_f64() * 1e3, "ms");
}
