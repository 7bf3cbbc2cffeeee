//! A slow trickle must not cause a commit for each message: ten a second.

use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::gateway::{Agent, QUIET, publisher};
use crate::process::figure;

const MESSAGES: u64 = 200;
const BETWEEN: Duration = Duration::from_millis(100);

pub(crate) fn measure() {
    let (devices, cloud) = (Broker::start(&[QUIET]), Broker::start(&[QUIET]));
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path(), devices.port, cloud.port, "disorder = \"5s\"");
    let mut publisher = publisher(&devices);
    let commits = || agent.status().unwrap()["engine"]["storage"]["commits"].as_f64().unwrap();
    let (began, before) = (Instant::now(), commits());
    for number in 0..MESSAGES {
        agent.publish(&mut publisher, number, 1);
        std::thread::sleep((BETWEEN * u32::try_from(number + 1).unwrap()).saturating_sub(began.elapsed()));
    }
    agent.wait_for(MESSAGES);
    figure("agent.trickle.commits_per_s", (commits() - before) / began.elapsed().as_secs_f64(), "1/s");
    publisher.close();
}
