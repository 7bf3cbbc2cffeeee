//! What systemd is told. Without `NOTIFY_SOCKET` nothing happens.
//!
//! The watchdog is fed by the engine thread at the end of a turn of its loop,
//! so a feed means: events were taken, the engine ran, the store answered. A
//! timer elsewhere would go on feeding while the engine hangs.

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

/// Feeds the watchdog and keeps the status line; owned by the engine thread.
#[derive(Debug)]
pub struct Supervision {
    /// A quarter of the time after which systemd acts.
    feed_every: Option<Span>,
    fed_at: ProcTime,
    line: String,
    line_at: Option<ProcTime>,
}

impl Supervision {
    /// Reads the watchdog's time from the environment.
    pub fn from_env(now: ProcTime) -> Supervision {
        let mut micros = 0;
        let watched = sd_notify::watchdog_enabled(false, &mut micros);
        let feed_every = watched.then(|| Span::from_millis((micros / 4_000).max(1)));
        Supervision { feed_every, fed_at: now, line: String::new(), line_at: None }
    }

    /// The engine thread has finished a turn.
    pub fn handle_progress(&mut self, now: ProcTime) {
        if self.feed_every.is_some_and(|every| now.since(self.fed_at) >= every) {
            tell(NotifyState::Watchdog);
            self.fed_at = now;
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

    /// By when the engine thread must take a turn although nothing happens.
    pub fn next_deadline(&self) -> Option<ProcTime> {
        self.feed_every.map(|every| self.fed_at + every)
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        debug!(%error, "systemd was not told");
    }
}
