//! The demo's child processes: two brokers and the agent. Each is ended by
//! its own handle, also when the demo fails half-way.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::agent::clock::SystemClock;
use crate::agent::mqtt::client::{ClientSpec, Received, Subscriber};
use crate::model::time::Span;

/// Where Debian keeps daemons, which a user's PATH may lack.
const DAEMON_DIRS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// Another process may take a free port first.
const PORT_TRIES: usize = 10;
/// For a broker's first answer.
const START_MAX: Span = Span::from_secs(10);
/// Between two looks at a process.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A directory that goes away with the demo.
#[derive(Debug)]
pub(super) struct ScratchDir(PathBuf);

/// A child that ends with its owner.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    name: &'static str,
    log: PathBuf,
}

/// An MQTT broker that can be started on a loopback port.
pub(super) trait BrokerProgram {
    /// Starts it on this port; its files are in `dir`, and begin with `name`.
    fn command(&self, port: u16, name: &str, dir: &Path) -> anyhow::Result<Command>;
}

/// Debian's broker.
#[derive(Debug)]
pub(super) struct Mosquitto {
    program: PathBuf,
}

/// A broker on a loopback port.
#[derive(Debug)]
pub(super) struct Broker {
    /// Its port.
    pub(super) port: u16,
    process: Process,
}

impl ScratchDir {
    /// In the system's directory for temporary files, readable by us alone.
    pub(super) fn new() -> anyhow::Result<ScratchDir> {
        let path = std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(ScratchDir(path))
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // A leftover in the temporary directory is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Process {
    /// Starts a program with its output in `DIR/NAME.log`.
    pub(super) fn start(name: &'static str, command: &mut Command, dir: &Path) -> anyhow::Result<Process> {
        let log = dir.join(format!("{name}.log"));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        // A group of its own: Ctrl-C reaches the demo alone, which ends the others in order.
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Process { child, name, log })
    }

    /// `Some` when it has ended.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// An error with what it said last, for a child that ended by itself.
    pub(super) fn failure(&self, status: ExitStatus) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        anyhow::anyhow!("{} ended by itself ({status}):\n{tail}", self.name)
    }

    /// SIGTERM, then SIGKILL when it is not gone within `wait`. Returns how it ended.
    pub(super) fn stop(&mut self, clock: &SystemClock, wait: Span) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = clock.proc() + wait;
        while clock.proc() < deadline {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
        self.child.kill()?;
        self.child.wait()?;
        bail!("{} did not stop within {} ms and was killed", self.name, wait.as_millis())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Mosquitto {
    /// Where it is installed.
    pub(super) fn find() -> anyhow::Result<Mosquitto> {
        Ok(Mosquitto { program: find_mosquitto(program_dirs())? })
    }
}

impl BrokerProgram for Mosquitto {
    fn command(&self, port: u16, name: &str, dir: &Path) -> anyhow::Result<Command> {
        let config = dir.join(format!("{name}.conf"));
        fs::write(&config, broker_config(port))?;
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(config);
        Ok(command)
    }
}

impl Broker {
    /// Starts it on a free port and waits until it answers.
    pub(super) fn start(
        clock: &SystemClock,
        program: &impl BrokerProgram,
        name: &'static str,
        dir: &Path,
    ) -> anyhow::Result<Broker> {
        let mut failure = None;
        for _ in 0..PORT_TRIES {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let mut process = Process::start(name, &mut program.command(port, name, dir)?, dir)?;
            match wait_until_it_answers(clock, &mut process, port)? {
                None => return Ok(Broker { port, process }),
                Some(status) => failure = Some(process.failure(status)),
            }
        }
        Err(failure.unwrap_or_else(|| anyhow::anyhow!("no free port for {name}")))
    }

    /// A client of this broker.
    pub(super) fn client(&self, client_id: &str) -> ClientSpec {
        ClientSpec { host: "127.0.0.1".into(), port: self.port, client_id: client_id.into(), clean: true }
    }

    /// SIGTERM and its end.
    pub(super) fn stop(mut self, clock: &SystemClock) -> anyhow::Result<()> {
        self.process.stop(clock, START_MAX).map(drop)
    }
}

/// Readings of devices that publish at `QoS` 0 are kept for the agent too, and a
/// burst is not cut at mosquitto's default of 1,000 messages. Nothing is stored.
fn broker_config(port: u16) -> String {
    format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_dest stderr\n\
         upgrade_outgoing_qos true\nmax_queued_messages 100000\nmax_inflight_messages 100\nset_tcp_nodelay true\n"
    )
}

/// `Some` when it ended instead.
fn wait_until_it_answers(clock: &SystemClock, process: &mut Process, port: u16) -> anyhow::Result<Option<ExitStatus>> {
    let client = ClientSpec { host: "127.0.0.1".into(), port, client_id: "tidegate-demo-ready".into(), clean: true };
    let mut probe = Subscriber::new(client, &["tidegate-demo-ready"]);
    let deadline = clock.proc() + START_MAX;
    while clock.proc() < deadline {
        if let Some(status) = process.ended()? {
            return Ok(Some(status));
        }
        if matches!(probe.next(LOOK_AGAIN), Received::Subscribed(_)) {
            probe.close();
            // Asked again: on a port that somebody else took, the answer is not ours.
            return process.ended();
        }
    }
    bail!("{} does not answer on port {port}", process.name)
}

fn find_mosquitto(dirs: impl Iterator<Item = PathBuf>) -> anyhow::Result<PathBuf> {
    dirs.map(|dir| dir.join("mosquitto")).find(|program| program.is_file()).context(
        "the demo needs the MQTT broker mosquitto, which is not installed.\n\
         On Debian and Raspberry Pi OS: sudo apt-get install mosquitto",
    )
}

/// The user's PATH, then where daemons are.
fn program_dirs() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    in_path.into_iter().chain(DAEMON_DIRS.map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_mosquitto_the_error_says_how_to_get_it() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = || [dir.path().join("missing"), dir.path().to_owned()].into_iter();
        let error = find_mosquitto(dirs()).unwrap_err().to_string();
        assert!(error.contains("sudo apt-get install mosquitto"), "{error}");
        fs::write(dir.path().join("mosquitto"), "").unwrap();
        assert_eq!(find_mosquitto(dirs()).unwrap(), dir.path().join("mosquitto"));
    }

    #[test]
    fn a_child_ends_with_its_owner_and_its_last_words_are_kept() {
        let clock = SystemClock::start();
        let dir = tempfile::tempdir().unwrap();
        let mut failing =
            Process::start("failing", Command::new("sh").args(["-c", "echo no luck; exit 3"]), dir.path()).unwrap();
        let status = failing.child.wait().unwrap();
        assert!(failing.failure(status).to_string().contains("no luck"));

        let mut patient = Process::start("patient", Command::new("sleep").arg("600"), dir.path()).unwrap();
        assert!(patient.ended().unwrap().is_none());
        assert!(!patient.stop(&clock, Span::from_secs(10)).unwrap().success(), "SIGTERM ended it");
    }
}
