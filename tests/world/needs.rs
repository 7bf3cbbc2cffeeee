//! Programs that a test needs beyond Rust, and what happens where they are missing: the test
//! says so in one line, which `tests/all` collects, and is of no use. In CI everything is there.
//!
//! `TIDEGATE_TEST_WITHOUT=mosquitto,openssl` has these tests behave as if that were missing.

#![allow(dead_code, reason = "shared by several test programs, each uses a part")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program from another package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// The broker, and `mosquitto_passwd`.
    Mosquitto,
    /// `mosquitto_pub` and `mosquitto_sub`.
    MosquittoClients,
    Openssl,
    /// For Python 3.
    Paho,
}

impl Need {
    /// Debian's package, and the word in `TIDEGATE_TEST_WITHOUT`.
    fn package(self) -> &'static str {
        match self {
            Need::Mosquitto => "mosquitto",
            Need::MosquittoClients => "mosquitto-clients",
            Need::Openssl => "openssl",
            Need::Paho => "python3-paho-mqtt",
        }
    }

    fn is_here(self) -> bool {
        let without = std::env::var("TIDEGATE_TEST_WITHOUT").unwrap_or_default();
        if without.split(',').any(|package| package == self.package()) {
            return false;
        }
        match self {
            Need::Mosquitto => runs(mosquitto(), "-h") && runs("mosquitto_passwd", "-h"),
            Need::MosquittoClients => runs("mosquitto_pub", "--help") && runs("mosquitto_sub", "--help"),
            Need::Openssl => runs("openssl", "version"),
            Need::Paho => python_with_paho().is_some(),
        }
    }
}

/// Whether all of that is here: the first line of every test that needs it.
///
/// # Panics
/// In CI, when it is not.
pub(crate) fn has(needs: &[Need]) -> bool {
    let missing: Vec<&str> = needs.iter().filter(|need| !need.is_here()).map(|need| need.package()).collect();
    if missing.is_empty() {
        return true;
    }
    let strict = is_ci() || std::env::var_os("TIDEGATE_REQUIRE_CORPUS").is_some();
    assert!(!strict, "a CI run needs {missing:?}");
    tell_not_run(&format!("{} (sudo apt-get install -y {})", missing.join(" and "), missing.join(" ")));
    false
}

/// Whether nothing may be missing that a machine can have.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}

/// Says that this test is of no use here. Not with `println!`: what a test that passes has
/// printed is thrown away.
pub(crate) fn tell_not_run(needs: &str) {
    let thread = std::thread::current();
    let (program, test) = (env!("CARGO_CRATE_NAME"), thread.name().unwrap_or("main"));
    // Whoever closed it does not want to know.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {program}::{test}, needs {needs}");
}

/// The broker. Debian keeps it in `/usr/sbin`, which a user's PATH may lack.
pub(crate) fn mosquitto() -> &'static str {
    if Path::new("/usr/sbin/mosquitto").exists() { "/usr/sbin/mosquitto" } else { "mosquitto" }
}

/// The interpreter that knows the client of the package: the one on the PATH may be another.
pub(crate) fn python_with_paho() -> Option<&'static str> {
    let knows_it =
        |python: &&str| runs_with(Command::new(python).args(["-c", "import paho.mqtt.client as m; m.MQTTv5"]), 0);
    ["python3", "/usr/bin/python3"].into_iter().find(knows_it)
}

/// mosquitto's programs end with 1 or 3 when they are asked for help; what matters is that they start.
fn runs(program: &str, argument: &str) -> bool {
    runs_with(Command::new(program).arg(argument), 100)
}

fn runs_with(command: &mut Command, code_max: i32) -> bool {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.code().is_some_and(|code| code <= code_max))
}
