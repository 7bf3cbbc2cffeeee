//! The server under test: `tidegate broker` on a free port, or mosquitto beside it.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::broker::{Broker, free_port};
use crate::client::WAIT_MAX;

/// Between two looks at a port that nothing listens on yet.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Another process may take the free port first.
const PORT_TRIES: usize = 10;

/// What stands in `[listener]`, for a directory and a port.
pub(crate) type Section<'a> = dyn Fn(&Path, u16) -> String + 'a;

/// A running server and its files. It is killed when the value is dropped.
pub(crate) struct Server {
    /// On 127.0.0.1. Survives a restart.
    pub(crate) port: u16,
    kind: Kind,
}

/// What a process takes of the machine's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident_kib: u64,
    /// The most so far.
    pub(crate) peak_kib: u64,
}

enum Kind {
    Ours { dir: TempDir, child: Option<Child>, configured: bool },
    Mosquitto(Broker),
}

impl Server {
    /// On an empty state, as it is without a configuration.
    pub(crate) fn start() -> Server {
        if std::env::var("TIDEGATE_LISTENER_TESTS").is_ok_and(|kind| kind == "mosquitto") {
            return Server::mosquitto();
        }
        Server::on_a_free_port(None)
    }

    /// What `listener` writes into `[listener]`, for its directory and port. A control socket is
    /// there too. Of our own listener only: mosquitto is configured otherwise.
    pub(crate) fn configured(listener: &Section<'_>) -> Server {
        Server::on_a_free_port(Some(listener))
    }

    fn on_a_free_port(listener: Option<&Section<'_>>) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server { port: 0, kind: Kind::Ours { dir, child: None, configured: listener.is_some() } };
        for _ in 0..PORT_TRIES {
            server.port = free_port();
            if let Some(listener) = listener {
                let dir = server.dir();
                let at = dir.display();
                let text = format!(
                    "gateway.id = 'broker'\nstorage.path = '{at}/state'\ncontrol.socket = '{at}/control'\n[listener]\n{}",
                    listener(dir, server.port)
                );
                fs::write(dir.join("tidegate.toml"), text).unwrap();
            }
            if server.spawn() {
                return server;
            }
        }
        panic!("tidegate broker does not start:\n{}", server.log());
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> &Path {
        match &self.kind {
            Kind::Ours { dir, .. } => dir.path(),
            Kind::Mosquitto(broker) => broker.dir(),
        }
    }

    /// The status document, of one that is [configured](Server::configured).
    pub(crate) fn status(&self) -> serde_json::Value {
        let asked = tidegate(&["status", "--json", "--socket", self.dir().join("control").to_str().unwrap()], "");
        serde_json::from_slice(&asked.stdout).unwrap_or_else(|error| panic!("{error}: {asked:?}"))
    }

    /// How often something was refused for this reason.
    pub(crate) fn refused(&self, reason: &str) -> u64 {
        self.status()["listener"]["refused"][reason].as_u64().unwrap_or(0)
    }

    /// Memory of its process, and that it runs.
    pub(crate) fn memory(&self) -> Memory {
        let Kind::Ours { child: Some(child), .. } = &self.kind else { panic!("it runs, and is ours") };
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap().trim();
        assert!(!state.starts_with(['Z', 'X']), "the server has ended:\n{}", self.log());
        let kib = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells");
            line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
        };
        Memory { resident_kib: kib("VmRSS"), peak_kib: kib("VmHWM") }
    }

    /// CPU time that its process has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        let Kind::Ours { child: Some(child), .. } = &self.kind else { panic!("it runs, and is ours") };
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        // Behind the name, which may hold anything, in parentheses.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().map(|place| fields[*place].parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    fn mosquitto() -> Server {
        let broker = Broker::start(&[
            "persistence true",
            "persistence_location {dir}/",
            "autosave_on_changes true",
            "autosave_interval 1",
            "max_keepalive 65535",
            "message_size_limit 262144",
        ]);
        Server { port: broker.port, kind: Kind::Mosquitto(broker) }
    }

    /// Whether it is the listener, held to all that it promises.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours { .. })
    }

    /// SIGTERM, and on the same port again with the same files.
    pub(crate) fn restart(&mut self) {
        self.end(rustix::process::Signal::TERM);
        self.begin();
    }

    /// SIGKILL at this instant, and on the same port again with the same files.
    pub(crate) fn crash(&mut self) {
        self.end(rustix::process::Signal::KILL);
        self.begin();
    }

    fn end(&mut self, signal: rustix::process::Signal) {
        match &mut self.kind {
            Kind::Ours { child, .. } => {
                let mut child = child.take().expect("it runs");
                rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
                child.wait().unwrap();
            }
            Kind::Mosquitto(broker) if signal == rustix::process::Signal::TERM => broker.stop(),
            Kind::Mosquitto(broker) => broker.kill(),
        }
    }

    fn begin(&mut self) {
        if let Kind::Mosquitto(broker) = &mut self.kind {
            broker.restart();
        } else {
            assert!(self.spawn(), "tidegate broker does not start again:\n{}", self.log());
        }
    }

    /// True once it accepts; false when it ended instead.
    fn spawn(&mut self) -> bool {
        let (port, log) = (self.port, self.log_file());
        let Kind::Ours { dir, child, configured } = &mut self.kind else { return false };
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        // As its unit does.
        command.env("MALLOC_MMAP_THRESHOLD_", "131072");
        if *configured {
            command.args(["broker", "--config"]).arg(dir.path().join("tidegate.toml"));
        } else {
            command.args(["broker", "--listen", &format!("127.0.0.1:{port}"), "--state"]).arg(dir.path().join("state"));
        }
        let mut started = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let began = Instant::now();
        while began.elapsed() < WAIT_MAX && started.try_wait().unwrap().is_none() {
            // Asked again after the answer: on a port that another process took meanwhile,
            // the answer is not ours and our child ends.
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() && started.try_wait().unwrap().is_none() {
                *child = Some(started);
                return true;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        // Both fail only when it is gone already.
        let _ = started.kill();
        let _ = started.wait();
        false
    }

    fn log_file(&self) -> PathBuf {
        self.dir().join(if self.is_ours() { "log" } else { "mosquitto.log" })
    }

    /// All that it wrote.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }
}

/// Runs another subcommand, with something on its standard input.
pub(crate) fn tidegate(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that reads nothing has ended already.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() && self.is_ours() {
            eprintln!("what the server wrote:\n{}", self.log());
        }
        if let Kind::Ours { child: Some(child), .. } = &mut self.kind {
            // Both fail only when it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
