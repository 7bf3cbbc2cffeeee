//! The server under test: `tidegate broker` on a free port, or mosquitto beside it.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::broker::{Broker, free_port};
use crate::client::WAIT_MAX;

/// Between two looks at a port that nothing listens on yet.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Another process may take the free port first.
const PORT_TRIES: usize = 10;

/// A running server and its files. It is killed when the value is dropped.
pub(crate) struct Server {
    /// On 127.0.0.1. Survives a restart.
    pub(crate) port: u16,
    kind: Kind,
}

enum Kind {
    Ours { dir: TempDir, child: Option<Child> },
    Mosquitto(Broker),
}

impl Server {
    /// On an empty state, as it is without a configuration.
    pub(crate) fn start() -> Server {
        if std::env::var("TIDEGATE_LISTENER_TESTS").is_ok_and(|kind| kind == "mosquitto") {
            return Server::mosquitto();
        }
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server { port: 0, kind: Kind::Ours { dir, child: None } };
        for _ in 0..PORT_TRIES {
            server.port = free_port();
            if server.spawn() {
                return server;
            }
        }
        panic!("tidegate broker does not start:\n{}", server.log());
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
        let Kind::Ours { dir, child } = &mut self.kind else { return false };
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut started = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["broker", "--listen", &format!("127.0.0.1:{port}"), "--state"])
            .arg(dir.path().join("state"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
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
        match &self.kind {
            Kind::Ours { dir, .. } => dir.path().join("log"),
            Kind::Mosquitto(broker) => broker.dir().join("mosquitto.log"),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }
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
