//! What 50,000 devices with three open windows each take: the peak of a process that
//! takes their messages in, commits to sled on a disk, and takes a snapshot, with the
//! bounds of production.

use std::process::Command;

use tidegate::agent::store::SledStore;
use tidegate::engine::driver::Driver;
use tidegate::engine::step::{DeliveryTag, Effect, Event, Message};
use tidegate::model::rng::Rng;
use tidegate::model::time::Now;

use crate::load::now;
use crate::pipeline;
use crate::process::{figure, process_rss_mib};

/// The argument that makes this program the process that is measured.
pub(crate) const INSIDE: &str = "memory.inside";
const DEVICES: u64 = 50_000;
const WINDOWS: usize = 3;
/// Between two messages of a device.
const PERIOD_MS: u64 = 10_000;

pub(crate) fn measure() {
    let this = std::env::current_exe().unwrap();
    let status = Command::new(this).args(["--bench", INSIDE]).status().unwrap();
    assert!(status.success());
}

fn advance(driver: &mut Driver<SledStore>, now: Now, acks: &mut u64) {
    let mut sent = Vec::new();
    driver.advance(now, &mut |effect| match effect {
        Effect::Ack(_) => *acks += 1,
        Effect::Publish(batch) => sent.push(batch.id),
        Effect::Tell { .. } | Effect::PublishLocal(_) | Effect::Command(_) | Effect::Replayed(_) => {}
    });
    for batch in sent {
        driver.handle(now, Event::UplinkAcked(batch));
    }
}

/// Fills the state and prints the figures.
pub(crate) fn fill() {
    let (_, at_start) = process_rss_mib(std::process::id());
    let dir = tempfile::tempdir().unwrap();
    let store = tidegate::agent::store::open(dir.path()).unwrap();
    let mut driver = Driver::start(pipeline::three_open(), store, now(0)).unwrap();
    driver.handle(now(0), Event::InputLive(true));
    driver.handle(now(0), Event::UplinkUp);
    let mut random = Rng::new(7);
    // As LoRaWAN devices are named: 16 digits, of which half are the maker's.
    let topics: Vec<String> = (0..DEVICES).map(|_| format!("bench/a81758ff{:08x}", random.next_u64() >> 32)).collect();
    let mut acks = 0_u64;
    let periods = WINDOWS as u64 + 2;
    for number in 0..DEVICES * periods {
        let now = now(number * PERIOD_MS / DEVICES);
        let value = random.below(4_000) as f64 * 0.01;
        let payload = format!("{{\"value\":{value:.2}}}");
        let tag = DeliveryTag { connection: 1, packet: u16::try_from(number % 65_535).unwrap() + 1 };
        let topic = &topics[usize::try_from(number % DEVICES).unwrap()];
        let message = Message { topic, payload: payload.as_bytes(), retain: false, dup: false, tag: Some(tag) };
        driver.handle(now, Event::Message(message));
        if number % 1_024 == 0 {
            advance(&mut driver, now, &mut acks);
            if number % (DEVICES / 2) < 1024 {}
        }
    }
    let end = now(periods * PERIOD_MS);
    let (resident, peak) = process_rss_mib(std::process::id());
    advance(&mut driver, end, &mut acks);
    driver.stop(end, &mut |_| acks += 1);
    let (_, peak_snapshot) = process_rss_mib(std::process::id());
    let status = driver.status(end);
    assert_eq!(driver.storage_status().failure, None);
    assert_eq!(acks, DEVICES * periods, "everything is durable");
    let open = status.streams[0].open_windows;
    assert!(open >= usize::try_from(DEVICES).unwrap() * WINDOWS, "{open} open windows");
    assert_eq!(status.streams[0].windows[0].side_output, 0);
    figure("engine.rss_mib.at_start", at_start, "MiB");
    figure("engine.rss_mib.50k_devices.before_snapshot", resident, "MiB");
    figure("engine.rss_mib.50k_devices.before_snapshot_peak", peak, "MiB");
    figure("engine.rss_mib.50k_devices", peak_snapshot, "MiB");
    let state = driver.engine().snapshot(end);
    let packed = (tidegate::agent::store::ZSTD.pack)(&state);
    let panes = open as f64;
    figure("engine.state_bytes_per_pane", state.len() as f64 / panes, "B");
    figure("engine.state_bytes_per_pane_packed", packed.len() as f64 / panes, "B");
}
