//! What the real binary tells systemd, as systemd would hear it.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::broker::free_port;

const CONFIG: &str = r#"
gateway = { id = "gw" }
devices = { broker = "mqtt://127.0.0.1:DEVICES" }
uplink = { broker = "mqtt://127.0.0.1:CLOUD" }
storage = { path = "DIR/state" }

[[streams]]
name = "s"
topic = "d/{device}"
time = { source = "receive" }

[[streams.windows]]
name = "w"
size = "10s"
aggregates = ["count"]
"#;

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a datagram that starts like this; others go by. `None`: not in time.
fn hear(socket: &UnixDatagram, start: &str) -> Option<String> {
    let mut bytes = [0; 1_024];
    loop {
        let len = socket.recv(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
        if text.starts_with(start) {
            return Some(text);
        }
    }
}

#[test]
fn f89_systemd_hears_ready_a_true_status_line_the_watchdog_and_stopping() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let socket = UnixDatagram::bind(dir.path().join("notify")).expect("bound");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    let config = CONFIG
        .replace("DIR", &dir.path().display().to_string())
        .replace("DEVICES", &free_port().to_string())
        .replace("CLOUD", &free_port().to_string());
    fs::write(dir.path().join("tidegate.toml"), config).expect("written");
    // The shell names its own process, which becomes the agent, as systemd does.
    let child = Command::new("sh")
        .args(["-c", "WATCHDOG_PID=$$ exec \"$0\" run --config \"$1\""])
        .arg(env!("CARGO_BIN_EXE_tidegate"))
        .arg(dir.path().join("tidegate.toml"))
        .env("NOTIFY_SOCKET", dir.path().join("notify"))
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::null())
        .stderr(fs::File::create(dir.path().join("log")).expect("created"))
        .spawn()
        .expect("a shell");
    let mut agent = Ended(child);

    let log = || fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    assert!(hear(&socket, "READY=1").is_some(), "{}", log());
    for _ in 0..3 {
        assert!(hear(&socket, "WATCHDOG=1").is_some(), "{}", log());
    }
    let line = hear(&socket, "STATUS=").unwrap_or_default();
    assert!(line.contains("degraded: ") && line.contains("not connected"), "{line}");
    kill_process(Pid::from_child(&agent.0), Signal::TERM).expect("our own child");
    assert!(hear(&socket, "STOPPING=1").is_some(), "{}", log());
    assert!(agent.0.wait().expect("our own child").success());
}
