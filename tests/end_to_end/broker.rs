//! A real broker on a free loopback port, for tests: the agent's own listener
//! (`tidegate broker`), so that nothing has to be installed, or mosquitto, where a test wants
//! what only that can do, or where `TIDEGATE_TEST_BROKER=mosquitto` asks for it everywhere.
//!
//! ```ignore
//! let mut broker = Broker::start(&["persistence true", "persistence_location {dir}/"]);
//! connect_to(broker.port);
//! broker.kill();      // SIGKILL
//! broker.restart();   // same port, same configuration, same files
//! ```
//!
//! Every start waits until the broker answers a CONNECT, so a test never
//! sleeps. Only the child that this value started is ever signalled; it is
//! killed when the value is dropped. Works as root too: mosquitto would drop
//! to the user `mosquitto` and then could not read the test's files.

#![allow(dead_code, reason = "shared by several test programs, each uses a part")]
#![allow(clippy::disallowed_methods, reason = "the outside world of a test: real processes, real time")]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use self::needs::mosquitto;

#[path = "../world/needs.rs"]
pub(crate) mod needs;

/// Generous: two cores are shared with compilers.
const START_MAX: Duration = Duration::from_secs(30);
/// Between two looks at a condition that nothing can signal.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Another process may take the free port first.
const PORT_TRIES: usize = 10;

/// Which program it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// `tidegate broker`. It forgets everything in a restart, unless it is told to persist.
    Listener {
        /// As mosquitto's `persistence true`.
        persists: bool,
    },
    Mosquitto,
}

/// One broker process and its directory.
pub(crate) struct Broker {
    kind: Kind,
    /// Port of the plain listener, on 127.0.0.1. Survives a restart.
    pub(crate) port: u16,
    dir: TempDir,
    child: Option<Child>,
}

impl Broker {
    /// Starts a broker with these lines of mosquitto's configuration: the agent's own where
    /// it can do what they say.
    pub(crate) fn start(lines: &[&str]) -> Broker {
        let wanted = std::env::var("TIDEGATE_TEST_BROKER").unwrap_or_default();
        match own_config(lines).filter(|_| wanted != "mosquitto") {
            Some((config, persists)) => Broker::start_own(&config, persists),
            None => Broker::mosquitto(lines),
        }
    }

    /// The agent's own, with these lines in `[listener]`.
    pub(crate) fn start_own(config: &str, persists: bool) -> Broker {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut broker = Broker { kind: Kind::Listener { persists }, port: 0, dir, child: None };
        for _ in 0..PORT_TRIES {
            broker.port = free_port();
            let (port, dir) = (broker.port, broker.dir.path().display());
            let text = format!(
                "gateway.id = 'broker'\n[storage]\npath = '{dir}/state'\ncommit_interval = '20ms'\n\
                 [listener]\ntcp = '127.0.0.1:{port}'\nack_within = '5ms'\n{config}"
            );
            fs::write(broker.dir.path().join("broker.toml"), text).expect("the configuration is written");
            if broker.spawn() {
                return broker;
            }
        }
        panic!("the broker does not start:\n{}", broker.log());
    }

    /// Starts mosquitto with these lines added to its configuration.
    ///
    /// The lines come after a plain loopback listener that allows anonymous
    /// clients (unless a line speaks of `allow_anonymous`), so settings of a
    /// listener belong to that one until a line opens another. `{dir}` in a
    /// line becomes the broker's own temporary directory. It logs everything, unless a
    /// line speaks of `log_type`.
    pub(crate) fn mosquitto(config_lines: &[&str]) -> Broker {
        Broker::start_in(tempfile::tempdir().expect("a temporary directory"), config_lines)
    }

    /// As [`Broker::mosquitto`], in a directory that already holds files the
    /// configuration names, such as certificates.
    pub(crate) fn start_in(dir: TempDir, config_lines: &[&str]) -> Broker {
        let mut broker = Broker { kind: Kind::Mosquitto, port: 0, dir, child: None };
        for _ in 0..PORT_TRIES {
            broker.port = free_port();
            broker.write_config(config_lines);
            if broker.spawn() {
                return broker;
            }
        }
        panic!("mosquitto does not start:\n{}", broker.log());
    }

    /// Asks it to end (SIGTERM: persistence is written) and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.reap();
    }

    /// Ends it at once (SIGKILL), as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.reap();
    }

    /// Starts it again on the same port with the same configuration and files;
    /// stops it first when it runs.
    pub(crate) fn restart(&mut self) {
        self.stop();
        assert!(self.spawn(), "mosquitto does not start again:\n{}", self.log());
    }

    /// Freezes it: connections stay open and nothing answers, as when a cable
    /// is pulled.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Ends a [`Broker::pause`].
    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Its temporary directory, `{dir}` in configuration lines.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("mosquitto.log")).unwrap_or_default()
    }

    /// Subscriptions that it has granted so far.
    pub(crate) fn subscriptions(&self) -> usize {
        self.count("Sending SUBACK to ", "subscribed client=")
    }

    /// Those of one client.
    pub(crate) fn subscriptions_of(&self, client: &str) -> usize {
        self.count(&format!("Sending SUBACK to {client}"), &format!("subscribed client=\"{client}"))
    }

    /// Messages that clients have acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.count("Received PUBACK from ", "acknowledged client=")
    }

    /// Those of one client.
    pub(crate) fn acknowledged_by(&self, client: &str) -> usize {
        self.count(&format!("Received PUBACK from {client}"), &format!("acknowledged client=\"{client}"))
    }

    /// How often a client has said goodbye.
    pub(crate) fn goodbyes_of(&self, client: &str) -> usize {
        self.count(&format!("Received DISCONNECT from {client}"), &format!("said goodbye client=\"{client}"))
    }

    /// How often a client has connected with MQTT 5.
    pub(crate) fn connects_of_five(&self, client: &str) -> usize {
        self.count(&format!("as {client} (p5,"), &format!("let in client=\"{client}\" mqtt=5"))
    }

    fn count(&self, of_mosquitto: &str, own: &str) -> usize {
        let text = match self.kind {
            Kind::Mosquitto => of_mosquitto,
            Kind::Listener { .. } => own,
        };
        self.log().matches(text).count()
    }

    fn write_config(&self, lines: &[&str]) {
        let dir = self.dir.path().display().to_string();
        let mut config = format!("listener {} 127.0.0.1\n", self.port);
        if !lines.iter().any(|line| line.starts_with("allow_anonymous")) {
            config.push_str("allow_anonymous true\n");
        }
        if rustix::process::geteuid().is_root() {
            config.push_str("user root\n");
        }
        for line in lines {
            config.push_str(&line.replace("{dir}", &dir));
            config.push('\n');
        }
        fs::write(self.dir.path().join("mosquitto.conf"), config).expect("the configuration is written");
    }

    /// True once it answers; false when it ended instead.
    fn spawn(&mut self) -> bool {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("mosquitto.log"))
            .expect("the log file opens");
        let mut child = self
            .command()
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log handle is copied"))
            .stderr(log)
            .spawn()
            .expect("the broker starts: mosquitto is installed (sudo apt-get install mosquitto)");
        let deadline = Instant::now() + START_MAX;
        while Instant::now() < deadline {
            if child.try_wait().expect("the child can be asked").is_some() {
                return false;
            }
            // Asked again after the answer: on a port that another process
            // took meanwhile, the answer is not ours and our child ends.
            if answers_connect(self.port) && child.try_wait().expect("the child can be asked").is_none() {
                self.child = Some(child);
                return true;
            }
            thread::sleep(LOOK_AGAIN);
        }
        self.child = Some(child);
        self.kill();
        false
    }

    fn command(&self) -> Command {
        if let Kind::Listener { persists } = self.kind {
            if !persists {
                let _ = fs::remove_dir_all(self.dir.path().join("state"));
            }
            let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
            command.arg("broker").args(["--log", "info,tidegate::agent::mqtt::listener=trace"]);
            command.arg("--config").arg(self.dir.path().join("broker.toml"));
            return command;
        }
        let path = self.dir.path().join("mosquitto.conf");
        let config = fs::read_to_string(&path).expect("the configuration is read");
        let mut command = Command::new(mosquitto());
        // It would override what the configuration says.
        command.args((!config.contains("\nlog_type ")).then_some("-v")).arg("-c").arg(path);
        command
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal).expect("our own child can be signalled");
        }
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().expect("our own child can be waited for");
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What these lines of mosquitto's configuration are in ours, and whether it persists. `None`:
/// only mosquitto has that.
fn own_config(lines: &[&str]) -> Option<(String, bool)> {
    let mut lines_of_ours = vec!["queue_size = '32MiB'\nmax_sessions = 100".to_owned()];
    let mut persists = false;
    for line in lines {
        let (name, value) = line.split_once(' ')?;
        match name {
            "persistence" => persists = value == "true",
            // Only how it is told, or what ours does anyhow.
            "persistence_location" | "log_type" | "upgrade_outgoing_qos" | "autosave_interval" => {}
            "max_queued_messages" | "max_inflight_messages" => {
                let key = if name == "max_queued_messages" { "queue_messages" } else { "max_in_flight" };
                let most = if name == "max_queued_messages" { 100_000 } else { 1_000 };
                let number: u32 = value.parse().ok()?;
                if number == 0 && name == "max_inflight_messages" {
                    // No bound at all. Ours has one.
                    return None;
                }
                let number = if number == 0 { most } else { number.min(most) };
                lines_of_ours.push(format!("{key} = {number}"));
            }
            "max_packet_size" => lines_of_ours.push(format!("max_packet = '{value}B'")),
            _ => return None,
        }
    }
    Some((lines_of_ours.join("\n"), persists))
}

/// A port that nothing listens on at this moment, below those that the kernel gives
/// to outgoing connections (32,768 and up): while a broker is down, one of those could
/// take its port, even one to that very port, and the broker could not come back.
pub(crate) fn free_port() -> u16 {
    static TURN: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    // Programs that run side by side begin at different places.
    let begin = std::process::id().wrapping_mul(2_654_435_761);
    for _ in 0..COUNT {
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + begin.wrapping_add(turn) % COUNT).expect("below 30,000");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("loopback has no free port below 30,000");
}

/// Whether an MQTT server answers a CONNECT on this port, be it with a refusal.
fn answers_connect(port: u16) -> bool {
    // MQTT 3.1.1, clean session, keep-alive 10 s, client id "up?".
    const CONNECT: &[u8] = b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x0a\x00\x03up?";
    let answer = || -> std::io::Result<[u8; 4]> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(CONNECT)?;
        let mut connack = [0; 4];
        stream.read_exact(&mut connack)?;
        // DISCONNECT; a refused client is cut off already.
        let _ = stream.write_all(b"\xe0\x00");
        Ok(connack)
    };
    answer().is_ok_and(|connack| connack[0] == 0x20)
}
