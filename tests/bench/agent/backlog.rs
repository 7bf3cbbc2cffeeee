//! What waited in the devices' broker while the agent was away: 50,000 `QoS` 1 messages in
//! its persistent session, with an in-flight window of 1,000 and with mosquitto's own
//! of 20. From the last look at which nothing had been taken in to the acknowledgement
//! of the last one.

use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::gateway::{Agent, DEVICES, QUIET, WAIT_MAX, accepted, publisher};
use crate::process::figure;

const MESSAGES: u64 = 50_000;
const NEXT_LOOK: Duration = Duration::from_millis(5);

pub(crate) fn measure() {
    drain("agent.backlog.window1000.msgs_per_s", DEVICES);
    drain("agent.backlog.window20.msgs_per_s", &[QUIET, "max_queued_messages 1000000"]);
}

fn drain(name: &str, devices: &[&str]) {
    let (devices, cloud) = (Broker::mosquitto(devices), Broker::mosquitto(&[QUIET]));
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(dir.path(), devices.port, cloud.port, "disorder = \"5s\"");
    agent.stop();
    let mut publisher = publisher(&devices);
    agent.publish(&mut publisher, 0, MESSAGES);
    publisher.close();
    agent.start_again();
    let (started, mut began) = (Instant::now(), Instant::now());
    let done = loop {
        let status = agent.status().unwrap();
        if accepted(&status) == 0 {
            began = Instant::now();
        }
        if accepted(&status) == MESSAGES && status["engine"]["storage"]["unacknowledged"] == 0 {
            break status;
        }
        assert!(started.elapsed() < WAIT_MAX, "{status}");
        std::thread::sleep(NEXT_LOOK);
    };
    figure(name, MESSAGES as f64 / began.elapsed().as_secs_f64(), "1/s");
    let storage = &done["engine"]["storage"];
    println!("# {} commits, window {} learned", storage["commits"], storage["broker_window"]);
}
