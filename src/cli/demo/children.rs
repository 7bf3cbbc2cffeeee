//! The demo's child processes: the agent and the cloud's broker, both this very program.
//! Each is ended by its own handle, also when the demo fails half-way.

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

/// Below the ports that the kernel gives to outgoing connections (32,768 and up): one of those
/// could take the port of a server that is down, and it could not come back.
const PORTS: std::ops::Range<u16> = 10_000..30_000;
/// Another process may take a free port first.
const PORT_TRIES: usize = 10;
/// For a server's first answer.
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

/// A child that devices or the cloud's receiver connect to, on a loopback port that stays its own.
#[derive(Debug)]
pub(super) struct Server {
    /// Its port.
    pub(super) port: u16,
    /// Its process, or the one that was killed.
    pub(super) process: Process,
    command: Command,
    dir: PathBuf,
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
    /// Starts a program with its output at the end of `DIR/NAME.log`.
    pub(super) fn start(name: &'static str, command: &mut Command, dir: &Path) -> anyhow::Result<Process> {
        let log = dir.join(format!("{name}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
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

    /// SIGKILL: it has no chance to tidy up.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
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
        self.kill()?;
        bail!("{} did not stop within {} ms and was killed", self.name, wait.as_millis())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only when it is gone already.
        let _ = self.kill();
    }
}

impl Server {
    /// Starts it on a free port and waits until it answers. `command`: what to start for this port.
    pub(super) fn start(
        clock: &SystemClock,
        name: &'static str,
        dir: &Path,
        command: impl Fn(u16) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Server> {
        let mut failure = None;
        for port in free_ports().take(PORT_TRIES) {
            let mut command = command(port)?;
            let mut process = Process::start(name, &mut command, dir)?;
            match wait_until_it_answers(clock, &mut process, port)? {
                None => return Ok(Server { port, process, command, dir: dir.to_owned() }),
                Some(status) => failure = Some(process.failure(status)),
            }
        }
        Err(failure.unwrap_or_else(|| anyhow::anyhow!("no free port for {name}")))
    }

    /// Starts it again after its end, on the same port and the same files.
    pub(super) fn start_again(&mut self, clock: &SystemClock) -> anyhow::Result<()> {
        self.process = Process::start(self.process.name, &mut self.command, &self.dir)?;
        match wait_until_it_answers(clock, &mut self.process, self.port)? {
            None => Ok(()),
            Some(status) => Err(self.process.failure(status)),
        }
    }

    /// A client of it, with a session that outlives its connections.
    pub(super) fn client(&self, client_id: &str) -> ClientSpec {
        ClientSpec { host: "127.0.0.1".into(), port: self.port, client_id: client_id.into(), clean: false }
    }
}

/// That nothing listens on at this moment. Demos that run side by side begin at different ones.
fn free_ports() -> impl Iterator<Item = u16> {
    let begin = usize::try_from(std::process::id()).unwrap_or(0) * 97 % PORTS.len();
    PORTS.cycle().skip(begin).take(PORTS.len()).filter(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
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

#[cfg(test)]
mod tests {
    use super::*;

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
