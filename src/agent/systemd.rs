//! What systemd is told. Without `NOTIFY_SOCKET` nothing happens.
//!
//! The watchdog is fed by the engine thread at the end of a turn that took a
//! pulse of the network thread from the inbox. So a feed means that the network
//! thread runs, the inbox moves, the engine ran and the store answered; a timer
//! of its own would go on feeding while one of them hangs.

use sd_notify::NotifyState;
use tracing::debug;

use crate::model::time::{ProcTime, Span};

/// Between two updates of the status line.
const LINE_EVERY: Span = Span::from_secs(5);

/// State is restored; clients are served.
pub fn ready() {
    tell(NotifyState::Ready);
}

/// The stop has begun.
pub fn stopping() {
    tell(NotifyState::Stopping);
}

/// How often the network thread sends its pulse: a quarter of the time after which
/// systemd acts. `None`: nobody watches.
pub fn pulse_every() -> Option<Span> {
    let mut micros = 0;
    sd_notify::watchdog_enabled(false, &mut micros).then(|| Span::from_millis((micros / 4_000).max(1)))
}

/// Feeds the watchdog and keeps the status line; owned by the engine thread.
#[derive(Debug, Default)]
pub struct Supervision {
    pulse: bool,
    line: String,
    line_at: Option<ProcTime>,
}

impl Supervision {
    /// A pulse of the network thread has come through the inbox.
    pub fn handle_pulse(&mut self) {
        self.pulse = true;
    }

    /// The engine thread has finished a turn.
    pub fn handle_progress(&mut self) {
        if std::mem::take(&mut self.pulse) {
            tell(NotifyState::Watchdog);
        }
    }

    /// A new status line; true words matter more than every word, so at most one in 5 s.
    pub fn handle_line(&mut self, now: ProcTime, line: &str) {
        let rested = self.line_at.is_none_or(|at| now.since(at) >= LINE_EVERY);
        if rested && line != self.line {
            tell(NotifyState::Status(line));
            self.line.clear();
            self.line.push_str(line);
            self.line_at = Some(now);
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        debug!(%error, "systemd was not told");
    }
}
