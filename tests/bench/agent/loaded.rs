//! An agent whose cloud is away for long: 1,000 devices with three open windows each,
//! a million records in the outbox. What it takes in memory, how long it takes to start
//! after a kill, and how fast it gets rid of it all when the cloud is back.

use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::gateway::{Agent, DEVICES, QUIET, publisher};
use crate::process::{figure, process_rss_mib};
use serde_json::Value;

const SENDERS: u64 = 1_000;
const RECORDS: u64 = 1_000_000;
/// A steady look at memory: after so long without messages.
const STEADY: Duration = Duration::from_secs(3);

pub(crate) fn measure() {
    let devices = Broker::mosquitto(DEVICES);
    let mut cloud = Broker::mosquitto(&[QUIET]);
    cloud.stop();
    let dir = tempfile::tempdir().unwrap();
    let stream = "disorder = \"20s\"\nrecords = \"arrival\"";
    let mut agent = Agent::start(dir.path(), devices.port, cloud.port, stream).with_devices(SENDERS);
    let mut publisher = publisher(&devices);
    agent.publish(&mut publisher, 0, RECORDS);
    let filled = agent.wait_for(RECORDS);
    let (held, evicted) = (sum(&filled, "held"), sum(&filled, "evicted"));
    println!(
        "# {held} records held, {evicted} evicted, {} windows open",
        filled["engine"]["streams"][0]["open_windows"]
    );
    std::thread::sleep(STEADY);
    let (resident, peak) = process_rss_mib(agent.pid());
    figure("agent.rss_mib", resident, "MiB");
    figure("agent.rss_peak_mib", peak, "MiB");

    agent.kill();
    let ready = agent.start_again();
    let (_, at_start) = process_rss_mib(agent.pid());
    figure("agent.start.ready_ms", ready.as_secs_f64() * 1e3, "ms");
    figure("agent.start.rss_mib", at_start, "MiB");

    let held = sum(&agent.wait_until("it answers", |status| status["devices"]["connected"] == true), "held");
    cloud.restart();
    let connected = agent.wait_until("the cloud is back", |status| sum(status, "held") < held);
    let (began, left) = (Instant::now(), sum(&connected, "held"));
    agent.wait_until("the outbox is empty", |status| sum(status, "held") == 0);
    figure("agent.uplink.records_per_s", left as f64 / began.elapsed().as_secs_f64(), "1/s");
    let (_, peak) = process_rss_mib(agent.pid());
    figure("agent.rss_peak_mib.drain", peak, "MiB");
    publisher.close();
}

fn sum(status: &Value, count: &str) -> u64 {
    let lanes = status["engine"]["outbox"]["lanes"].as_array();
    lanes.into_iter().flatten().filter_map(|lane| lane[count].as_u64()).sum()
}
