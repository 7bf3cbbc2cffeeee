//! What has happened on all connections of a run.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::agent::mqtt::connection::LinkError;

/// Halves of a power of two, quarters of those, and so on: a figure is exact to 1/32.
const STEPS_LOG2: u32 = 5;
const STEPS: usize = 1 << STEPS_LOG2;
/// Up to 2^40 µs, twelve days.
const POWERS: usize = 40;

/// Counts of one run, by one thread.
#[derive(Debug, Default)]
pub struct Tally {
    sent: Cell<u64>,
    payload_bytes: Cell<u64>,
    acked: Cell<u64>,
    refused: Cell<u64>,
    repeated: Cell<u64>,
    connects: Cell<u64>,
    losses: Cell<u64>,
    connected: Cell<usize>,
    /// Since the last look.
    recent: RefCell<Latencies>,
    all: RefCell<Latencies>,
    problem: RefCell<Option<LinkError>>,
    refusal: RefCell<Option<String>>,
    /// One that trying again does not mend; the first.
    permanent: RefCell<Option<LinkError>>,
    turned_away: Cell<u64>,
}

impl Tally {
    /// Messages published, each once.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Bytes of their payloads.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes.get()
    }

    /// Messages that the broker has answered for to the end.
    pub fn acked(&self) -> u64 {
        self.acked.get()
    }

    /// Messages that it said no to.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Packets sent again after a connection was lost.
    pub fn repeated(&self) -> u64 {
        self.repeated.get()
    }

    /// Connections accepted.
    pub fn connects(&self) -> u64 {
        self.connects.get()
    }

    /// Connections that ended before we ended them.
    pub fn losses(&self) -> u64 {
        self.losses.get()
    }

    /// Connections that are there now.
    pub fn connected(&self) -> usize {
        self.connected.get()
    }

    /// From the first sending of a message to its last answer, of the whole run.
    pub fn latencies(&self) -> Latencies {
        self.all.borrow().clone()
    }

    /// The same since this was asked last.
    pub fn take_recent(&self) -> Latencies {
        self.recent.take()
    }

    /// What went wrong with a connection last, once.
    pub fn take_problem(&self) -> Option<LinkError> {
        self.problem.take()
    }

    /// Why a message was refused last, once.
    pub fn take_refusal(&self) -> Option<String> {
        self.refusal.take()
    }

    /// What no further attempt mends, once. The connection that met it has ended.
    pub fn take_permanent(&self) -> Option<LinkError> {
        self.permanent.take()
    }

    /// Attempts that the broker ended before it had let them in.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.get()
    }

    pub(super) fn handle_up(&self) {
        add(&self.connects, 1);
        self.connected.set(self.connected.get() + 1);
    }

    pub(super) fn handle_down(&self, lost: bool) {
        add(&self.losses, u64::from(lost));
        self.connected.set(self.connected.get().saturating_sub(1));
    }

    pub(super) fn handle_problem(&self, problem: LinkError) {
        *self.problem.borrow_mut() = Some(problem);
    }

    pub(super) fn handle_permanent(&self, problem: LinkError) {
        self.permanent.borrow_mut().get_or_insert(problem);
    }

    pub(super) fn handle_turned_away(&self) {
        add(&self.turned_away, 1);
    }

    pub(super) fn handle_sent(&self, payload_bytes: usize) {
        add(&self.sent, 1);
        add(&self.payload_bytes, payload_bytes as u64);
    }

    pub(super) fn handle_repeated(&self, packets: usize) {
        add(&self.repeated, packets as u64);
    }

    pub(super) fn handle_acked(&self, latency: Duration) {
        add(&self.acked, 1);
        self.recent.borrow_mut().insert(latency);
        self.all.borrow_mut().insert(latency);
    }

    pub(super) fn handle_refused(&self, problem: &str) {
        add(&self.refused, 1);
        *self.refusal.borrow_mut() = Some(problem.to_owned());
    }
}

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

/// How long things took: a histogram of fixed size, 10 KiB, whatever is put into it.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Vec<u64>,
    len: u64,
    most: Duration,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: vec![0; STEPS * POWERS], len: 0, most: Duration::ZERO }
    }
}

impl Latencies {
    fn insert(&mut self, latency: Duration) {
        self.counts[bucket(latency)] += 1;
        self.len += 1;
        self.most = self.most.max(latency);
    }

    /// The longest.
    pub fn most(&self) -> Duration {
        self.most
    }

    /// So many per cent took no longer; at most 1/32 too much. `None`: there is none.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.len * percent.min(100)).div_ceil(100).max(1);
        let mut below = 0;
        let reached = |count: &u64| {
            below += count;
            below >= rank
        };
        let bucket = self.counts.iter().position(reached)?;
        Some(Duration::from_micros(upper_us(bucket)).min(self.most))
    }
}

/// Exact below [`STEPS`] µs, then [`STEPS`] steps for each power of two.
fn bucket(latency: Duration) -> usize {
    let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    let power = (micros >> STEPS_LOG2).checked_ilog2().map_or(0, |log| log + 1);
    let step = micros >> power.saturating_sub(1);
    let index = if power == 0 { micros } else { u64::from(power) * STEPS as u64 + (step - STEPS as u64) };
    usize::try_from(index).unwrap_or(usize::MAX).min(STEPS * POWERS - 1)
}

/// The largest value of a bucket, in µs.
fn upper_us(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    if power == 0 { step } else { ((step + STEPS as u64 + 1) << (power - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_at_most_a_thirty_second_too_much() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50), None);
        for micros in 1..=100_000 {
            latencies.insert(Duration::from_micros(micros));
        }
        for percent in [1, 50, 90, 99] {
            let exact = percent * 1_000;
            let found = u64::try_from(latencies.percentile(percent).expect("some").as_micros()).expect("small");
            assert!(found >= exact && found <= exact + exact / 32 + 1, "{percent}: {found}");
        }
        assert_eq!(latencies.percentile(100), Some(latencies.most()));
        assert_eq!(latencies.most(), Duration::from_millis(100));
    }

    #[test]
    fn every_value_lies_in_its_bucket_and_none_is_too_large() {
        for micros in (0..5_000).chain([1 << 20, (1 << 30) + 12_345]) {
            let bucket = bucket(Duration::from_micros(micros));
            assert!(upper_us(bucket) >= micros, "{micros}");
            assert!(bucket == 0 || upper_us(bucket - 1) < micros, "{micros}");
        }
        assert_eq!(bucket(Duration::MAX), STEPS * POWERS - 1);
    }
}
