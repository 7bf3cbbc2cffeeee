//! What clients of the listener have lost goes into the log, at most once an hour for each kind.
//! It is counted in the status; but who does not look there would never know.

use tracing::warn;

use crate::engine::broker::status::Counters;
use crate::model::time::{ProcTime, Span};

/// The same kind is told again after this.
const TELL_AGAIN: Span = Span::from_secs(3_600);

/// What is told, and what it was the last time.
#[derive(Debug, Default)]
pub(super) struct Drops {
    told: [Told; KINDS.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    count: u64,
    at: Option<ProcTime>,
}

struct Kind {
    counter: &'static str,
    count: fn(&Counters) -> u64,
    about: &'static str,
}

static KINDS: [Kind; 5] = [
    Kind {
        counter: "dropped_queue_full",
        count: |counters| counters.dropped_queue_full,
        about: "messages for clients that are away or slow were given up: their queue, or all queues together, are full \
                (`queue_messages`, `queue_size`)",
    },
    Kind {
        counter: "dropped_slow",
        count: |counters| counters.dropped_slow,
        about: "messages at QoS 0 were given up: a client reads too slowly",
    },
    Kind {
        counter: "retained_refused",
        count: |counters| counters.retained_refused,
        about: "retained messages were passed on and not kept (`retained_messages`, `retained_size`)",
    },
    Kind {
        counter: "sessions_evicted",
        count: |counters| counters.sessions_evicted,
        about: "sessions have ended to make room for others, with what waited for them (`max_sessions`)",
    },
    Kind {
        counter: "sessions_refused",
        count: |counters| counters.sessions_refused,
        about: "clients were not let in: there are as many sessions as there may be (`max_sessions`)",
    },
];

impl Drops {
    /// Tells what is new, as it is now.
    pub(super) fn look(&mut self, now: ProcTime, counters: &Counters) {
        for (kind, more) in self.news(now, counters) {
            warn!(counter = kind.counter, more, "listener: {}", kind.about);
        }
    }

    /// Kinds that are to be told, and how many more there are than the last time.
    fn news(&mut self, now: ProcTime, counters: &Counters) -> Vec<(&'static Kind, u64)> {
        let is_due = |told: &Told| told.at.is_none_or(|at| now.since(at) >= TELL_AGAIN);
        let mut news = Vec::new();
        for (kind, told) in KINDS.iter().zip(&mut self.told) {
            let count = (kind.count)(counters);
            if count > told.count && is_due(told) {
                news.push((kind, count - told.count));
                *told = Told { count, at: Some(now) };
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_at_once_and_then_once_an_hour_with_what_came_meanwhile() {
        let mut drops = Drops::default();
        let mut news = |millis, counters: &Counters| -> Vec<_> {
            let news = drops.news(ProcTime::from_millis(millis), counters);
            news.into_iter().map(|(kind, more)| (kind.counter, more)).collect()
        };
        let mut counters = Counters::default();
        assert_eq!(news(0, &counters), []);
        counters.dropped_queue_full = 3;
        assert_eq!(news(1_000, &counters), [("dropped_queue_full", 3)]);
        counters.dropped_queue_full = 9;
        counters.sessions_evicted = 1;
        assert_eq!(news(2_000, &counters), [("sessions_evicted", 1)]);
        assert_eq!(news(3_601_000, &counters), [("dropped_queue_full", 6)]);
        assert_eq!(news(9_000_000, &counters), []);
    }
}
