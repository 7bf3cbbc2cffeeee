//! A thousand gateways that lost one cloud come back spread out, not in waves. Pure: the
//! clock is a number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate::agent::mqtt::backoff::{Backoff, WAIT_MAX, WAIT_MIN};
use tidegate::model::time::ProcTime;

use crate::scale::rounds;

const GATEWAYS: u32 = 1_000;

/// When each attempt of the fleet comes, and when the cloud takes them.
struct Fleet {
    backoffs: Vec<Backoff>,
    /// The next attempt of each gateway.
    due: BinaryHeap<Reverse<(ProcTime, usize)>>,
}

impl Fleet {
    /// All of them are cut off at the same millisecond. The worst of boards: nothing but
    /// their names tells them apart.
    fn cut_off(at: ProcTime, entropy: u64) -> Fleet {
        let mut fleet = Fleet { backoffs: Vec::new(), due: BinaryHeap::new() };
        for index in 0..GATEWAYS as usize {
            let mut backoff = Backoff::new(&format!("tidegate-gw-{index:04}-uplink"), entropy, WAIT_MAX);
            backoff.handle_up(ProcTime::from_millis(0));
            fleet.due.push(Reverse((at + backoff.handle_down(at), index)));
            fleet.backoffs.push(backoff);
        }
        fleet
    }

    /// Attempts before `end`, each in vain.
    fn try_in_vain_until(&mut self, end: ProcTime) -> Vec<ProcTime> {
        let mut attempts = Vec::new();
        while let Some(&Reverse((at, index))) = self.due.peek()
            && at < end
        {
            self.due.pop();
            let wait = self.backoffs[index].handle_down(at);
            assert!((WAIT_MIN..=WAIT_MAX).contains(&wait), "{wait:?}");
            self.due.push(Reverse((at + wait, index)));
            attempts.push(at);
        }
        attempts
    }

    /// When each of them comes next.
    fn next_attempts(&self) -> Vec<ProcTime> {
        self.due.iter().map(|Reverse((at, _))| *at).collect()
    }
}

/// The most attempts in any `slot_ms`, wherever it begins.
fn most_within(attempts: &[ProcTime], slot_ms: u64) -> usize {
    let mut sorted: Vec<u64> = attempts.iter().map(|at| at.as_millis()).collect();
    sorted.sort_unstable();
    let within = |first: usize| sorted[first..].iter().take_while(|at| **at < sorted[first] + slot_ms).count();
    (0..sorted.len()).map(within).max().unwrap_or(0)
}

#[test]
fn a_thousand_gateways_come_back_spread_over_a_minute_after_any_outage() {
    for entropy in 0..rounds(20, 1_000) {
        let cut = ProcTime::from_millis(3_600_000);
        let mut fleet = Fleet::cut_off(cut, entropy);
        // Minutes and hours, and never a whole number of caps.
        let back = ProcTime::from_millis(cut.as_millis() + 90_000 + entropy * 137_731 % 7_200_000);
        let attempts = fleet.try_in_vain_until(back);
        // Steady: one attempt of each in 30 s on average, 33 a second of all, standard
        // deviation 6; the highest of thousands of slots is some five of those above it.
        let steady: Vec<_> =
            attempts.into_iter().filter(|at| at.as_millis() > back.as_millis().saturating_sub(60_000)).collect();
        assert!(most_within(&steady, 1_000) <= 80, "{entropy}: {} within a second", most_within(&steady, 1_000));

        let comeback = fleet.next_attempts();
        assert_eq!(comeback.len(), GATEWAYS as usize);
        let last = comeback.iter().max().expect("a thousand").as_millis();
        assert!(last - back.as_millis() <= WAIT_MAX.as_millis(), "{entropy}: nobody comes later than the cap");
        let within = |ms| most_within(&comeback, ms);
        assert!(within(1_000) <= 80 && within(100) <= 25, "{entropy}: {} {}", within(1_000), within(100));
    }
}

#[test]
fn a_cloud_that_takes_them_and_drops_them_at_once_meets_no_second_wave() {
    for entropy in 0..rounds(20, 1_000) {
        let cut = ProcTime::from_millis(3_600_000);
        let mut fleet = Fleet::cut_off(cut, entropy);
        fleet.try_in_vain_until(ProcTime::from_millis(cut.as_millis() + 300_000));
        // It takes whoever comes for ten seconds, then drops all of them in one millisecond.
        let end = ProcTime::from_millis(cut.as_millis() + 310_000);
        let mut taken = Vec::new();
        while let Some(&Reverse((at, index))) = fleet.due.peek()
            && at < end
        {
            fleet.due.pop();
            fleet.backoffs[index].handle_up(at);
            taken.push(index);
        }
        assert!(taken.len() > 200, "{entropy}: {}", taken.len());
        let mut again = Vec::new();
        for index in taken {
            again.push(end + fleet.backoffs[index].handle_down(end));
        }
        // None had been up for long: they go on at the cap, as if nothing had been.
        assert!(most_within(&again, 1_000) <= 30, "{entropy}: {} of {}", most_within(&again, 1_000), again.len());
    }
}
