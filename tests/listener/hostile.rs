//! Clients that mean harm, against the real process: it lives, panics nowhere, keeps its memory
//! under its cap, and serves honest clients all the while.
//!
//! An attack goes on until honest clients were served so many times, each within a generous
//! deadline: nothing here depends on how fast the machine is. A minute for all of it;
//! `TIDEGATE_FUZZ=full` makes each last fifty times as long. `--nocapture` shows the figures.

mod attack;
mod bombs;
mod brute_force;
mod connections;

mod floods;
mod honest;
mod large;
mod mutated;
mod unread;

use std::time::{Duration, Instant};

use crate::client::{Connect, WAIT_MAX};
use crate::server::{Section, Server};
use crate::wire::{Version, four, property};

use honest::Honest;

/// What the unit gives the agent (`MemoryMax` in systemd/tidegate.service), made for the
/// default limits.
const CAP_KIB: u64 = 64 * 1_024;
/// Rounds of the honest clients that an attack lasts.
const ROUNDS: usize = 40;

/// Whether there is time.
fn is_full() -> bool {
    std::env::var("TIDEGATE_FUZZ").is_ok_and(|value| value == "full")
}

/// So many, or fifty times as many.
fn scaled(count: usize) -> usize {
    count * if is_full() { 50 } else { 1 }
}

/// A server under attack, and the honest clients that it has to serve meanwhile.
struct Siege {
    name: &'static str,
    server: Server,
    honest: Honest,
    cpu_before: Duration,
}

impl Siege {
    /// With what else stands in `[listener]`; commits come fast, so that rounds do.
    fn begin(name: &'static str, more: &str) -> Siege {
        let section = |_: &std::path::Path, port: u16| format!("tcp = '127.0.0.1:{port}'\nack_within = '10ms'\n{more}");
        Siege::configured(name, &section, &Connect::new(Version::V311, "honest"), &Connect::new(Version::V5, "reader"))
    }

    /// With honest clients who log in like that.
    fn configured(name: &'static str, section: &Section<'_>, device: &Connect, reader: &Connect) -> Siege {
        raise_open_files();
        let server = Server::configured(section);
        let honest = Honest::begin(&server, device, reader);
        honest.wait(1);
        let cpu_before = server.cpu_time();
        Siege { name, server, honest, cpu_before }
    }

    /// The attack lasts until the honest clients were served this often since it began.
    fn endure(&self) {
        self.honest.wait(scaled(ROUNDS));
    }

    /// Until this is so, looked at again with each round of the honest ones.
    fn until(&self, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        let began = Instant::now();
        while !is_so(&self.server.status()) {
            assert!(began.elapsed() < WAIT_MAX, "not within {WAIT_MAX:?}: {what}");
            self.honest.wait(0);
        }
    }

    /// The server is well, and a newcomer is let in and served.
    fn end(self) -> Figures {
        self.end_under(CAP_KIB)
    }

    fn end_under(self, cap_kib: u64) -> Figures {
        self.honest.wait(2);
        let mut newcomer = Connect::new(Version::V5, "newcomer").open(&self.server);
        assert_eq!(newcomer.publish(0x02, "newcomer", "here"), 0);
        self.end_without_newcomers(cap_kib)
    }

    fn end_without_newcomers(self, cap_kib: u64) -> Figures {
        let honest = self.honest.end();
        let memory = self.server.memory();
        let cpu = self.server.cpu_time().saturating_sub(self.cpu_before);
        let status = self.server.status();
        println!(
            "{}: peak {} KiB, now {} KiB, CPU {cpu:?}, honest: {} served, the slowest in {:?}\n  {}\n  {}",
            self.name,
            memory.peak_kib,
            memory.resident_kib,
            honest.rounds,
            honest.slowest,
            status["listener"],
            status["engine"]["broker"],
        );
        let log = self.server.log();
        assert!(!log.contains("panicked"), "{}: a panic", self.name);
        assert!(!log.contains("ERROR"), "{}: {log}", self.name);
        assert!(memory.peak_kib <= cap_kib, "{}: {} KiB are above {cap_kib}", self.name, memory.peak_kib);
        Figures { status, resident_kib: memory.resident_kib }
    }
}

/// How it went.
struct Figures {
    status: serde_json::Value,
    resident_kib: u64,
}

impl Figures {
    /// How often something was refused for this reason.
    fn refused(&self, reason: &str) -> u64 {
        self.status["listener"]["refused"][reason].as_u64().unwrap_or(0)
    }

    /// A figure of the broker.
    fn broker(&self, name: &str) -> u64 {
        self.status["engine"]["broker"][name].as_u64().unwrap_or_else(|| panic!("{name} in {}", self.status))
    }
}

/// A will that waits for long, as a property.
fn four_hours() -> Vec<u8> {
    four(property::WILL_DELAY, 4 * 3_600)
}

/// As many file descriptors as the system allows this process. Returns their number.
fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    if limits.current < limits.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits }).unwrap();
    }
    limits.maximum.unwrap_or(u64::MAX)
}
