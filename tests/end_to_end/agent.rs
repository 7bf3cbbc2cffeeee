//! The agent as a child process, and what it says about itself.

#![allow(dead_code, reason = "shared by several test programs, each uses a part")]

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The real binary with its configuration; ended with its owner.
pub(crate) struct Agent {
    dir: PathBuf,
    child: Option<Child>,
    /// Of its environment.
    pub(crate) env: Vec<(&'static str, String)>,
}

impl Agent {
    /// Writes the configuration; does not start yet.
    pub(crate) fn new(dir: &Path, config: &Config<'_>) -> Agent {
        fs::write(dir.join("tidegate.toml"), config.text(dir)).unwrap();
        Agent { dir: dir.to_owned(), child: None, env: Vec::new() }
    }

    /// Starts it, with what state it finds.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "one at a time");
        self.child = Some(self.spawn());
    }

    /// Starts it with a log that takes nothing, like a file on a full disk.
    pub(crate) fn start_without_log(&mut self) {
        assert!(self.child.is_none(), "one at a time");
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        self.child = Some(self.command().stdout(Stdio::null()).stderr(full).spawn().unwrap());
    }

    /// Starts another one on the same configuration; how it ended.
    pub(crate) fn start_second(&self) -> ExitStatus {
        self.spawn().wait().unwrap()
    }

    fn spawn(&self) -> Child {
        let log = OpenOptions::new().create(true).append(true).open(self.dir.join("agent.log")).unwrap();
        self.command().stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("run").arg("--config").arg(self.dir.join("tidegate.toml")).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// SIGKILL: it has no chance to tidy up.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("the agent runs");
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the agent had ended by itself ({status}):\n{}", self.log());
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM. Returns how and after how long it ended.
    pub(crate) fn terminate(&mut self) -> (ExitStatus, Duration) {
        let mut child = self.child.take().expect("the agent runs");
        let asked = Instant::now();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        (status, asked.elapsed())
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// The most memory that it has had in use since it started, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let pid = self.child.as_ref().expect("the agent runs").id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says so");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Its configuration; beside it `state`, and `control.sock` while it runs.
    pub(crate) fn place(&self) -> PathBuf {
        self.dir.join("tidegate.toml")
    }

    /// As systemd does.
    pub(crate) fn restart_if_ended(&mut self) {
        if !self.is_running() {
            self.child = None;
            self.start();
        }
    }

    /// What it logged, over all its lives.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("agent.log")).unwrap_or_default()
    }

    /// Its status document; `None` while it does not answer.
    pub(crate) fn status(&self) -> Option<Value> {
        let mut socket = UnixStream::connect(self.dir.join("control.sock")).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        socket.write_all(b"status\n").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        serde_json::from_str(&answer).ok()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only when it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the agent's last words:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// A number of the books of the one stream.
pub(crate) fn ledger(status: &Value, name: &str) -> u64 {
    status["engine"]["streams"][0]["ledger"][name].as_u64().unwrap_or(0)
}

/// What differs between the configurations of tests. Commits and snapshots are frequent,
/// so that kills meet every phase of them. No device falls idle, so that panes depend on
/// the readings alone.
pub(crate) struct Config<'a> {
    /// Ports of the brokers.
    pub(crate) devices: u16,
    /// Instead of the devices' broker: where they connect to the agent itself.
    pub(crate) listener: Option<u16>,
    pub(crate) cloud: u16,
    /// Further lines about each of them.
    pub(crate) broker: &'a str,
    pub(crate) encoding: &'a str,
    /// Further lines of `[uplink]`, and whole tables after it.
    pub(crate) uplink: &'a str,
    /// Further lines of `[storage]`.
    pub(crate) storage: &'a str,
    pub(crate) snapshot_interval: &'a str,
    /// Further lines of the stream.
    pub(crate) stream: &'a str,
    /// Further lines at the end.
    pub(crate) more: &'a str,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Config {
            devices: 0,
            listener: None,
            cloud: 0,
            broker: "",
            encoding: "json",
            uplink: "",
            storage: "",
            snapshot_interval: "400ms",
            stream: "",
            more: "",
        }
    }
}

impl Config<'_> {
    fn text(&self, dir: &Path) -> String {
        let dir = dir.display();
        let Config { devices, cloud, broker, encoding, uplink, storage, snapshot_interval, stream, more, .. } = self;
        let input = match self.listener {
            Some(port) => format!("[listener]\ntcp = \"127.0.0.1:{port}\"\nack_within = \"20ms\"\n"),
            None => format!("[devices]\nbroker = \"mqtt://127.0.0.1:{devices}\"\n{broker}\n"),
        };
        format!(
            r#"[gateway]
id = "gw-1"
encoding = "{encoding}"

{input}
[uplink]
broker = "mqtt://127.0.0.1:{cloud}"
{broker}
{uplink}

[storage]
path = "{dir}/state"
commit_interval = "50ms"
snapshot_interval = "{snapshot_interval}"
{storage}

[control]
socket = "{dir}/control.sock"

[[streams]]
name = "climate"
topic = "devices/{{device}}/climate"
fields = {{ temperature = "/temperature" }}
time = {{ field = "/ts", unit = "ms" }}
disorder = "2s"
idle_timeout = "1h"
{stream}

[[streams.windows]]
name = "5s"
size = "5s"
lateness = "60s"
aggregates = ["count", "sum", "mean", "min", "max"]
{more}"#
        )
    }
}
