//! A slow flow must not cause a commit for each message, nor for each 20 of them: ten and
//! a hundred a second.

use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::gateway::{Agent, DEVICES, QUIET, publisher};
use crate::process::figure;

const SECONDS: u32 = 15;

pub(crate) fn measure() {
    for per_second in [10, 100] {
        flow(per_second);
    }
}

fn flow(per_second: u32) {
    let (devices, cloud) = (Broker::mosquitto(DEVICES), Broker::mosquitto(&[QUIET]));
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path(), devices.port, cloud.port, "disorder = \"5s\"");
    let mut publisher = publisher(&devices);
    let commits = || agent.status().unwrap()["engine"]["storage"]["commits"].as_f64().unwrap();
    let (began, before) = (Instant::now(), commits());
    let between = Duration::from_secs(1) / per_second;
    for number in 0..SECONDS * per_second {
        agent.publish(&mut publisher, u64::from(number), 1);
        std::thread::sleep((between * (number + 1)).saturating_sub(began.elapsed()));
    }
    agent.wait_for(u64::from(SECONDS * per_second));
    let per_commit = (commits() - before) / began.elapsed().as_secs_f64();
    figure(&format!("agent.trickle{per_second}.commits_per_s"), per_commit, "1/s");
    publisher.close();
}
