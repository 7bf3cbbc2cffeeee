//! The two servers that are compared, each a process of its own.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::broker::{Broker, free_port};

const START_MAX: Duration = Duration::from_secs(30);

/// A server on a port, and its process.
pub(crate) struct Server {
    /// Begins the names of its figures.
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) pid: u32,
    _running: Running,
}

#[expect(dead_code, reason = "held: dropped, they end the server")]
enum Running {
    Agent(Agent),
    Mosquitto(Broker),
}

struct Agent {
    child: Child,
    _dir: TempDir,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How to start each of those to measure.
pub(crate) fn servers() -> Vec<fn() -> Server> {
    if std::env::var("TIDEGATE_LISTENER_BENCH").is_ok_and(|name| name == "mosquitto") {
        return vec![mosquitto];
    }
    vec![agent, mosquitto]
}

/// mosquitto, with its persistence on and a line in its log for errors only.
pub(crate) fn mosquitto() -> Server {
    let broker = Broker::mosquitto(&[
        "log_type error",
        "persistence true",
        "persistence_location {dir}/",
        "max_inflight_messages 1000",
        "max_queued_messages 100000",
    ]);
    let pid = pid_of(broker.dir());
    Server { name: "mosquitto", port: broker.port, pid, _running: Running::Mosquitto(broker) }
}

/// The process whose command line names this directory.
fn pid_of(dir: &Path) -> u32 {
    let dir = dir.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(dir).then_some(pid)
    });
    processes.min().expect("mosquitto runs")
}

/// The agent, as a gateway has it: a stream that takes every message of the load, a window,
/// and an uplink that leads nowhere.
pub(crate) fn agent() -> Server {
    // Beside the build: /tmp may be memory, where a commit costs nothing.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let port = free_port();
    std::fs::write(dir.path().join("tidegate.toml"), configuration(dir.path(), port)).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "--log", "warn", "--config"])
        .arg(dir.path().join("tidegate.toml"))
        .envs(environment())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    let mut agent = Agent { child, _dir: dir };
    let began = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(agent.child.try_wait().unwrap().is_none(), "the agent ends");
        assert!(began.elapsed() < START_MAX, "the agent does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Server { name: "listener", port, pid, _running: Running::Agent(agent) }
}

fn configuration(dir: &Path, port: u16) -> String {
    format!(
        r#"
[gateway]
id = "bench"
[listener]
tcp = "127.0.0.1:{port}"
ack_within = "20ms"
[uplink]
broker = "mqtt://127.0.0.1:1"
[storage]
path = "{dir}/state"
[control]
socket = "{dir}/control.sock"
[[streams]]
name = "bench"
topic = "d/{{device}}/b"
fields = {{ value = "/value" }}
time = {{ field = "/ts", unit = "ms" }}
disorder = "5s"
[[streams.windows]]
name = "10s"
size = "10s"
aggregates = ["count", "sum", "min", "max"]
"#,
        dir = dir.display(),
    )
}

/// What systemd's unit sets for it.
fn environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let unit = include_str!("../../../systemd/tidegate.service");
    unit.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='))
}
