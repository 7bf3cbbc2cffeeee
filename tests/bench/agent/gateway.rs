//! The agent as a child process, devices that publish to its broker, and waiting.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidegate::agent::mqtt::client::{ClientSpec, Publisher};

use crate::broker::Broker;

pub(crate) const WAIT_MAX: Duration = Duration::from_secs(300);
/// Brokers write no line for each message.
pub(crate) const QUIET: &str = "log_type error";
/// What the README recommends for the devices' broker.
pub(crate) const DEVICES: &[&str] = &[QUIET, "max_inflight_messages 1000", "max_queued_messages 1000000"];

/// The real binary with its configuration and state.
pub(crate) struct Agent {
    child: Option<Child>,
    dir: PathBuf,
    /// Names of devices.
    devices: u64,
}

impl Agent {
    /// Starts it on an empty state. `stream`: what its stream has beside topic, field, and time.
    pub(crate) fn start(dir: &Path, devices: u16, cloud: u16, stream: &str) -> Agent {
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
socket = "{dir}/control.sock"
[[streams]]
name = "bench"
topic = "devices/{{device}}/bench"
fields = {{ value = "/value" }}
time = {{ field = "/ts", unit = "ms" }}
{stream}
[[streams.windows]]
name = "10s"
size = "10s"
aggregates = ["count", "sum", "min", "max"]
"#,
            dir = dir.display(),
        );
        std::fs::write(dir.join("tidegate.toml"), config).unwrap();
        let mut agent = Agent { child: None, dir: dir.to_owned(), devices: 100 };
        agent.start_again();
        agent.wait_until("it subscribes", |status| status["devices"]["subscribed"] == true);
        agent
    }

    /// With so many devices.
    pub(crate) fn with_devices(mut self, devices: u64) -> Agent {
        self.devices = devices;
        self
    }

    /// Starts it on the state that it has. Returns how long until it said that it is ready.
    pub(crate) fn start_again(&mut self) -> Duration {
        let notify = self.dir.join("notify.sock");
        // Absent the first time.
        let _ = std::fs::remove_file(&notify);
        let listener = UnixDatagram::bind(&notify).unwrap();
        listener.set_read_timeout(Some(WAIT_MAX)).unwrap();
        let began = Instant::now();
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["run", "--log", "warn", "--config"])
            .arg(self.dir.join("tidegate.toml"))
            .env("NOTIFY_SOCKET", &notify)
            .envs(environment())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let mut message = [0; 256];
        loop {
            let len = listener.recv(&mut message).unwrap();
            if message[..len].windows(7).any(|word| word == b"READY=1") {
                return began.elapsed();
            }
        }
    }

    /// SIGTERM, and waits.
    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// SIGKILL, and waits.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn status(&self) -> Option<Value> {
        let mut socket = UnixStream::connect(self.dir.join("control.sock")).ok()?;
        socket.write_all(b"status\n").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// Looks fifty times a second: often enough, and cheap beside the load.
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(status) = self.status().filter(&condition) {
                return status;
            }
            assert!(Instant::now() < deadline, "not within {WAIT_MAX:?}: {what}: {:?}", self.status());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Until so many messages were taken in and are acknowledged.
    pub(crate) fn wait_for(&self, messages: u64) -> Value {
        self.wait_until("all is acknowledged", |status| {
            accepted(status) == messages && status["engine"]["storage"]["unacknowledged"] == 0
        })
    }

    /// Messages `from` .. `from + count`, of all devices in turn.
    pub(crate) fn publish(&self, publisher: &mut Publisher, from: u64, count: u64) {
        (from..from + count).for_each(|number| self.publish_one(publisher, number));
        publisher.flush(WAIT_MAX).unwrap();
    }

    pub(crate) fn publish_one(&self, publisher: &mut Publisher, number: u64) {
        let topic = format!("devices/device-{:03}/bench", number % self.devices);
        publisher.publish(&topic, payload(number).as_bytes(), WAIT_MAX).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What systemd's unit sets for it.
fn environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let unit = include_str!("../../../systemd/tidegate.service");
    unit.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='))
}

/// 96 bytes, as a device that measures a few things sends them.
pub(crate) fn payload(number: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let value = (number % 400) as f64 * 0.25;
    let text = format!(
        r#"{{"ts":{now},"value":{value:.2},"humidity":41.5,"battery":3.30,"rssi":-71,"counter":1{number:08}}}"#
    );
    format!("{text:<96}")
}

pub(crate) fn accepted(status: &Value) -> u64 {
    status["engine"]["streams"][0]["ledger"]["accepted"].as_u64().unwrap_or(0)
}

/// The devices' side of `broker`.
pub(crate) fn publisher(broker: &Broker) -> Publisher {
    let spec = ClientSpec { host: "127.0.0.1".into(), port: broker.port, client_id: "bench".into(), clean: true };
    Publisher::new(spec)
}
