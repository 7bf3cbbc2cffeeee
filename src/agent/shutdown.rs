//! When to end, and how long ending may take.
//!
//! ```text
//! SIGTERM, SIGINT → ingest reads no more → engine: final commit, snapshot
//!   → owed acknowledgements sent, DISCONNECT → status "offline", DISCONNECT
//! ```
//!
//! systemd waits 10 s (`TimeoutStopSec`) before it kills; we give up by
//! ourselves after 8 s, which costs nothing that was acknowledged.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A graceful stop takes no longer.
pub const STOP_MAX: Duration = Duration::from_secs(8);

/// The signals that end the agent, caught from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Has to be called within the runtime.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn catch() -> io::Result<Signals> {
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one of them; its name.
    pub async fn recv(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
