//! Agent figures: what one `QoS` 1 message costs, all told.
//!
//! The real binary between two real mosquitto brokers: subscribe, decode,
//! aggregate (10 s windows, count/sum/min/max), commit to sled with fdatasync,
//! acknowledge, publish the panes. 100 devices, 100-byte JSON, as fast as one
//! publisher sends; the devices' broker has an in-flight window of 1,000, so that
//! commits are large. CPU time is the agent's own, user and system, from the
//! kernel's accounting; memory is its peak resident set.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark: real processes, real time")]

#[path = "../end_to_end/broker.rs"]
mod broker;
mod process;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker::Broker;
use process::{figure, process_cpu_time, process_rss_mib};
use serde_json::Value;
use tidegate::agent::mqtt::client::{ClientSpec, Publisher};

const DEVICES: u64 = 100;
const WARM_UP: u64 = 20_000;
const MESSAGES: u64 = 300_000;
const WAIT_MAX: Duration = Duration::from_secs(100);

fn main() {
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let devices = Broker::start(&["max_inflight_messages 1000", "max_queued_messages 1000000"]);
    let cloud = Broker::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path(), devices.port, cloud.port);
    let spec = ClientSpec { host: "127.0.0.1".into(), port: devices.port, client_id: "bench".into(), clean: true };
    let mut publisher = Publisher::new(spec);
    agent.wait_until(|status| status["engine"]["storage"]["commits"].is_u64());

    publish(&mut publisher, 0, WARM_UP);
    agent.wait_until(|status| is_done(status, WARM_UP));
    let (began, before) = (Instant::now(), process_cpu_time(agent.child.id()));
    publish(&mut publisher, WARM_UP, MESSAGES);
    let done = agent.wait_until(|status| is_done(status, WARM_UP + MESSAGES));
    let spent = process_cpu_time(agent.child.id()).saturating_sub(before);

    figure("agent.qos1.cpu_us_per_msg", spent.as_secs_f64() * 1e6 / MESSAGES as f64, "us");
    figure("agent.qos1.msgs_per_s", MESSAGES as f64 / began.elapsed().as_secs_f64(), "1/s");
    let commits = done["engine"]["storage"]["commits"].as_f64().unwrap();
    figure("agent.qos1.msgs_per_commit", (WARM_UP + MESSAGES) as f64 / commits, "1");
    let (resident, peak) = process_rss_mib(agent.child.id());
    figure("agent.rss_mib", resident, "MiB");
    figure("agent.rss_peak_mib.qos1", peak, "MiB");
    assert_eq!(done["engine"]["balanced"], true, "the ledger balances");
    publisher.close();
}

fn is_done(status: &Value, messages: u64) -> bool {
    let engine = &status["engine"];
    engine["streams"][0]["ledger"]["accepted"] == messages && engine["storage"]["unacknowledged"] == 0
}

fn publish(publisher: &mut Publisher, from: u64, count: u64) {
    for number in from..from + count {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let value = (number % 400) as f64 * 0.25;
        let payload = format!(
            r#"{{"ts":{now},"value":{value:.2},"humidity":41.5,"battery":3.30,"rssi":-71,"counter":1{number:08}}}"#
        );
        publisher
            .publish(&format!("devices/device-{:03}/bench", number % DEVICES), payload.as_bytes(), WAIT_MAX)
            .unwrap();
    }
    publisher.flush(WAIT_MAX).unwrap();
}

/// The real binary.
struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(dir: &Path, devices: u16, cloud: u16) -> Agent {
        let socket = dir.join("control.sock");
        let config = format!(
            r#"
[gateway]
id = "bench"
[devices]
broker = "mqtt://127.0.0.1:{devices}"
[uplink]
broker = "mqtt://127.0.0.1:{cloud}"
[storage]
path = "{dir}/state"
[control]
socket = "{socket}"
[[streams]]
name = "bench"
topic = "devices/{{device}}/bench"
fields = {{ value = "/value" }}
time = {{ field = "/ts", unit = "ms" }}
disorder = "5s"
[[streams.windows]]
name = "10s"
size = "10s"
aggregates = ["count", "sum", "min", "max"]
"#,
            dir = dir.display(),
            socket = socket.display(),
        );
        std::fs::write(dir.join("tidegate.toml"), config).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["run", "--log", "warn", "--config"])
            .arg(dir.join("tidegate.toml"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Agent { child, socket }
    }

    fn status(&self) -> Option<Value> {
        let mut socket = UnixStream::connect(&self.socket).ok()?;
        socket.write_all(b"status\n").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// Looks ten times a second: often enough, and cheap beside the load.
    fn wait_until(&self, condition: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(status) = self.status().filter(&condition) {
                return status;
            }
            assert!(Instant::now() < deadline, "the agent does not get there: {:?}", self.status());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
