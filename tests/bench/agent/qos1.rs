//! What one `QoS` 1 message costs, all told: subscribe, decode, aggregate (10 s windows,
//! count/sum/min/max), commit to sled with fdatasync, acknowledge, publish the panes. 100
//! devices, 96-byte JSON, as fast as one publisher sends; the devices' broker has an
//! in-flight window of 1,000, so that commits are large.

use std::time::Instant;

use crate::broker::Broker;
use crate::gateway::{Agent, DEVICES, QUIET, publisher};
use crate::process::{figure, process_cpu_time, process_rss_mib};

const WARM_UP: u64 = 20_000;
const MESSAGES: u64 = 300_000;

pub(crate) fn measure() {
    let (devices, cloud) = (Broker::mosquitto(DEVICES), Broker::mosquitto(&[QUIET]));
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path(), devices.port, cloud.port, "disorder = \"5s\"");
    let mut publisher = publisher(&devices);
    agent.publish(&mut publisher, 0, WARM_UP);
    agent.wait_for(WARM_UP);
    let (began, before) = (Instant::now(), process_cpu_time(agent.pid()));
    agent.publish(&mut publisher, WARM_UP, MESSAGES);
    let done = agent.wait_for(WARM_UP + MESSAGES);
    let spent = process_cpu_time(agent.pid()).saturating_sub(before);

    figure("agent.qos1.cpu_us_per_msg", spent.as_secs_f64() * 1e6 / MESSAGES as f64, "us");
    figure("agent.qos1.msgs_per_s", MESSAGES as f64 / began.elapsed().as_secs_f64(), "1/s");
    let commits = done["engine"]["storage"]["commits"].as_f64().unwrap();
    figure("agent.qos1.msgs_per_commit", (WARM_UP + MESSAGES) as f64 / commits, "1");
    let (resident, peak) = process_rss_mib(agent.pid());
    figure("agent.rss_mib.qos1", resident, "MiB");
    figure("agent.rss_peak_mib.qos1", peak, "MiB");
    assert_eq!(done["engine"]["balanced"], true, "the books balance");
    publisher.close();
}
