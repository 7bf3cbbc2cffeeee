//! When to try a broker again. Pure.
//!
//! Full jitter under a hard cap (M. Brooker, "Exponential Backoff And Jitter"):
//! the n-th wait is uniform in `[0, min(60 s, 0.5 s * 2^n)]`, with a floor of
//! 50 ms so that a broker that accepts and drops at once is not hammered.
//! Every wait is jittered, not the first alone, and the count starts over only
//! after 30 s of stable connection: a flapping link stays polite. A fleet that
//! lost the same broker therefore comes back spread over the whole minute.

use crate::model::rng::Rng;
use crate::model::time::{ProcTime, Span};

/// The ceiling of the first wait.
const BASE: Span = Span::from_millis(500);
/// No wait is longer, unless a test wants it shorter.
pub const WAIT_MAX: Span = Span::from_secs(60);
/// No wait is shorter.
pub const WAIT_MIN: Span = Span::from_millis(50);
/// A connection this old was a good one.
const STABLE: Span = Span::from_secs(30);
/// 0.5 s * 2^7 is above the cap already.
const EXPONENT_MAX: u32 = 7;

/// The retry schedule of one connection.
#[derive(Clone, Debug)]
pub struct Backoff {
    random: Rng,
    wait_max: Span,
    exponent: u32,
    up_since: Option<ProcTime>,
}

impl Backoff {
    /// `entropy` differs between processes; the client id differs between
    /// gateways even where entropy is poor, as right after boot.
    pub fn new(client_id: &str, entropy: u64, wait_max: Span) -> Backoff {
        let random = Rng::new(fnv1a(client_id.as_bytes()) ^ entropy);
        Backoff { random, wait_max, exponent: 0, up_since: None }
    }

    /// The broker accepted us.
    pub fn handle_up(&mut self, now: ProcTime) {
        self.up_since = Some(now);
    }

    /// The connection ended, or the attempt failed: how long to wait.
    pub fn handle_down(&mut self, now: ProcTime) -> Span {
        if self.up_since.take().is_some_and(|since| now.since(since) >= STABLE) {
            self.exponent = 0;
        }
        let ceiling = self.wait_max.as_millis().min(BASE.as_millis() << self.exponent);
        self.exponent = (self.exponent + 1).min(EXPONENT_MAX);
        Span::from_millis(self.random.below(ceiling + 1)).max(WAIT_MIN)
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> ProcTime {
        ProcTime::from_millis(secs * 1_000)
    }

    #[test]
    fn f42_no_wait_is_ever_above_the_cap_or_below_the_floor() {
        for entropy in 0..200 {
            let mut backoff = Backoff::new("gw", entropy, WAIT_MAX);
            for attempt in 0..500 {
                let wait = backoff.handle_down(at(attempt));
                assert!((WAIT_MIN..=WAIT_MAX).contains(&wait), "entropy {entropy}, attempt {attempt}: {wait:?}");
            }
        }
    }

    #[test]
    fn f41_the_count_starts_over_only_after_thirty_stable_seconds() {
        let longest_wait_after = |uptime: Span| {
            (0..200).map(move |entropy| {
                let mut backoff = Backoff::new("gw", entropy, WAIT_MAX);
                for _ in 0..10 {
                    backoff.handle_down(at(0));
                }
                backoff.handle_up(at(100));
                backoff.handle_down(at(100) + uptime)
            })
        };
        let flapped = longest_wait_after(Span::from_millis(29_999)).max();
        let stable = longest_wait_after(Span::from_millis(30_000)).max();
        assert!(flapped > Some(Span::from_secs(50)), "{flapped:?}");
        assert!(stable <= Some(BASE), "{stable:?}");
    }

    #[test]
    fn f42_a_thousand_gateways_that_lost_one_broker_do_not_come_back_bunched() {
        // The poorest case: no entropy at all, only the client ids differ.
        let gateway = |index: u32| Backoff::new(&format!("gw-{index:04}"), 0, WAIT_MAX);
        let mut gateways: Vec<Backoff> = (0..1_000).map(gateway).collect();
        for attempt in 0..12 {
            let mut per_tenth = [0_usize; 10];
            let ceiling = WAIT_MAX.as_millis().min(500 << attempt.min(7));
            for gateway in &mut gateways {
                let wait = gateway.handle_down(at(0)).as_millis();
                per_tenth[usize::try_from(wait * 10 / (ceiling + 1)).expect("small")] += 1;
            }
            // 100 expected in each, standard deviation 9.5.
            let bunched = per_tenth.iter().max().expect("ten slots");
            // The floor of 50 ms lifts the first tenth of the first wait to its end.
            assert!(*bunched <= 150 || attempt == 0, "attempt {attempt}: {per_tenth:?}");
        }
    }
}
