//! When to end, and how long ending may take.
//!
//! ```text
//! SIGTERM, SIGINT → ingest reads no more → engine: final commit, snapshot
//!   → owed acknowledgements sent, DISCONNECT → status "offline", DISCONNECT
//! ```
//!
//! systemd waits 10 s (`TimeoutStopSec`) before it kills; we end by ourselves
//! within 8 s. The engine has 6 of them, and being late is an error, although it
//! costs nothing that was acknowledged. The farewells have what is left, 4 s at
//! most: a frozen broker is no error, the last will speaks for us.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::model::time::Span;

/// For the final commit and snapshot.
pub const ENGINE_MAX: Duration = Duration::from_secs(6);
/// For owed acknowledgements, the offline status and DISCONNECT. At least 2 s are
/// left for it within the 8 s of the whole stop.
pub const FAREWELL_MAX: Span = Span::from_secs(4);
/// For both together.
pub const STOP_MAX: Span = Span::from_secs(8);

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
