//! The only place that reads clocks and asks for randomness. Everything else
//! gets `now` as an argument, so tests own time.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read as _};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::step::Clock;
use crate::model::time::{ClockQuality, Now, ProcTime, Span, WallTime};

/// The machine's clocks; copies share one start of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Monotonic time starts at zero here: one call per process.
    #[expect(clippy::disallowed_methods, reason = "clock.rs is the place that reads clocks")]
    pub fn start() -> SystemClock {
        SystemClock { started: Instant::now() }
    }

    /// The monotonic clock alone, for deadlines of connections.
    #[expect(clippy::disallowed_methods, reason = "clock.rs is the place that reads clocks")]
    pub fn proc(&self) -> ProcTime {
        let elapsed = Instant::now().saturating_duration_since(self.started);
        ProcTime::from_millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        // A later issue derives the quality from the kernel's time status.
        Now { proc: self.proc(), wall: wall(), quality: ClockQuality::Synced }
    }
}

/// The wall clock; before 1970 (a board without RTC) it is negative.
#[expect(clippy::disallowed_methods, reason = "clock.rs is the place that reads clocks")]
pub fn wall() -> WallTime {
    let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
    };
    WallTime::from_millis(millis)
}

/// Waits; the one sleep of the agent. Only for pauses and deadlines that race
/// against something that can end them earlier.
#[expect(clippy::disallowed_methods, reason = "clock.rs has the one sleep")]
pub async fn sleep(span: Span) {
    tokio::time::sleep(Duration::from_millis(span.as_millis())).await;
}

/// The same for a thread that has work to gather meanwhile. Nothing ends it earlier, so it is
/// for milliseconds.
#[expect(clippy::disallowed_methods, reason = "clock.rs has the one sleep")]
pub fn pause(span: Span) {
    std::thread::sleep(Duration::from_millis(span.as_millis()));
}

/// One life of the machine: what tells it from others, and how long it has lasted. Where the kernel does not say,
/// all lives are one.
pub fn boot() -> (String, Span) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let id = read("/proc/sys/kernel/random/boot_id").trim().to_owned();
    let uptime = read("/proc/uptime");
    let secs: Option<f64> = uptime.split(' ').next().and_then(|secs| secs.parse().ok());
    let uptime = secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok()).unwrap_or_default();
    (id, Span::from_millis(u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX)))
}

/// Bits that differ between processes and gateways: enough to spread retries,
/// not for secrets. The standard library keys its hash maps from the kernel's
/// random source, which saves a dependency.
pub fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Random bytes for salts and keys, from the kernel.
///
/// # Errors
/// There is no `/dev/urandom`.
pub fn secret_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A point on the monotonic clock, for socket deadlines of blocking clients.
#[expect(clippy::disallowed_methods, reason = "clock.rs is the place that reads clocks")]
pub fn instant() -> Instant {
    Instant::now()
}
