//! What the flash is given: an estimate, a projection, and a budget. PURE.
//!
//! **Estimate.** A block device is given more than a program writes: blocks that are not
//! full, the database's own bookkeeping, the file system's. Measured on ext4
//! (`cargo bench --bench wear`), that is a share of the bytes and an amount for each
//! commit: [`physical`].
//!
//! **Budget.** Bytes a day become credit, a little each millisecond; what is written is
//! paid from it. While there is debt, the next commit waits until it is paid, at most
//! `interval_max`. So under a steady load the interval settles where a commit costs what
//! comes in meanwhile; no steps, nothing to swing. Credit and debt end at an hour's
//! worth each: a quiet night does not allow for a day's bytes in the morning, and a load
//! that no interval can pay for does not punish the hours after it.
//!
//! Nothing of it is persisted and no day begins: a restart starts without credit, so it
//! gains nothing, and a wall clock that jumps changes nothing. Any 24 hours hold
//! to the budget, not only those from midnight to midnight.

use std::collections::VecDeque;

use serde::Serialize;

use crate::model::time::{ProcTime, Span};

const DAY_MS: u64 = 86_400_000;
/// What a block device is given for 100 bytes handed to the store.
const BYTES_PERCENT: u64 = 110;
/// What it is given for a commit, however small.
const BYTES_PER_COMMIT: u64 = 6 * 1024;
/// Between two samples that are kept.
const SAMPLE_EVERY: Span = Span::from_secs(60);
/// Samples that are kept: projections rest on the last hour.
const SAMPLES: usize = 61;
/// Before this nothing is projected: the start is not typical.
const PROJECT_AFTER: Span = Span::from_secs(10);

/// What a block device is given, by estimate, for `bytes` written in `commits`.
pub fn physical(bytes: u64, commits: u64) -> u64 {
    (bytes / 100).saturating_mul(BYTES_PERCENT) + commits.saturating_mul(BYTES_PER_COMMIT)
}

/// A budget, and what is left of it.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    per_day: u64,
    interval_max: Span,
    /// In bytes × [`DAY_MS`]; negative: debt.
    credit: i128,
    at: ProcTime,
}

impl Budget {
    /// `per_day`: bytes. `interval_max`: the longest that a commit is held back.
    pub fn new(per_day: u64, interval_max: Span) -> Budget {
        Budget { per_day, interval_max, credit: 0, at: ProcTime::default() }
    }

    /// An hour's worth.
    fn bound(&self) -> i128 {
        i128::from(self.per_day) * i128::from(DAY_MS) / 24
    }

    /// Per millisecond. Two hours' worth are kept back: from full credit to full debt
    /// is within the budget too.
    fn income(&self) -> i128 {
        (i128::from(self.per_day) * 22 / 24).max(1)
    }

    /// So many bytes were written.
    pub fn spend(&mut self, now: ProcTime, bytes: u64) {
        let income = self.income() * i128::from(now.since(self.at).as_millis());
        self.at = self.at.max(now);
        let credit = (self.credit + income).min(self.bound()) - i128::from(bytes) * i128::from(DAY_MS);
        self.credit = credit.max(-self.bound());
    }

    /// Before this there is debt; never more than `interval_max` after the last
    /// [`Budget::spend`].
    pub fn paid_at(&self) -> ProcTime {
        let debt = (-self.credit).max(0);
        let wait = u64::try_from((debt + self.income() - 1) / self.income()).unwrap_or(u64::MAX);
        self.at + Span::from_millis(wait).min(self.interval_max)
    }

    /// True while not even the longest interval keeps to it.
    pub fn is_exceeded(&self) -> bool {
        self.credit <= -self.bound()
    }
}

/// How far the counters have come at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Readings taken in.
    pub readings: u64,
    /// Bytes that the device was given for what we wrote, by estimate.
    pub written: u64,
    /// Bytes that the device was given in all, where it can be told.
    pub device: Option<u64>,
}

/// The counters of the last hour.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    kept: VecDeque<(ProcTime, Sample)>,
    latest: Option<(ProcTime, Sample)>,
}

/// The document's `wear`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WearStatus {
    /// `device`: measured at the block device, other programs' writes included.
    /// `estimate`: from what this program wrote.
    pub source: &'static str,
    /// The block device; null where it cannot be told.
    pub device: Option<String>,
    /// What the whole device was given since the start, whoever wrote it.
    pub device_bytes: Option<u64>,
    /// What it was given for what this program wrote since the start, by estimate.
    pub written_bytes: u64,
    /// Of the last hour, by `source`; null without a reading.
    pub bytes_per_reading: Option<f64>,
    /// As the last hour, by `source`, went on for a day.
    pub bytes_per_day: Option<u64>,
    /// The same of this program alone, by estimate.
    pub written_per_day: Option<u64>,
    /// Null: there is none.
    pub budget: Option<BudgetStatus>,
}

/// The document's `wear.budget`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BudgetStatus {
    /// As configured.
    pub bytes_per_day: u64,
    /// `written_per_day` as a part of it: 1 is all.
    pub share: Option<f64>,
    /// How long the last commit made the next one wait.
    pub held_back_ms: u64,
    /// Not even the longest interval keeps to it.
    pub exceeded: bool,
}

/// What is known of one program's writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Readings taken in since the start of the books.
    pub readings: u64,
    /// Bytes since the start of the process, by estimate.
    pub bytes: u64,
    /// The budget, if there is one.
    pub budget: Option<Budget>,
}

impl Meter {
    /// Notes the counters. The first call is where everything starts from.
    pub fn note(&mut self, now: ProcTime, sample: Sample) {
        self.latest = Some((now, sample));
        if self.kept.back().is_none_or(|(last, _)| now.since(*last) >= SAMPLE_EVERY) {
            if self.kept.len() == SAMPLES {
                self.kept.pop_front();
            }
            self.kept.push_back((now, sample));
        }
    }

    /// What the last hour tells. `start`: the first sample of this process.
    pub fn status(&self, start: Sample, device: Option<&str>, written: &Written) -> WearStatus {
        let (now, last) = self.latest.unwrap_or_default();
        let (since, first) = self.kept.front().copied().unwrap_or_default();
        let past = now.since(since);
        let ours = last.written.saturating_sub(first.written);
        let measured = last.device.zip(first.device).map(|(last, first)| last.saturating_sub(first));
        let given = measured.unwrap_or(ours);
        let readings = last.readings.saturating_sub(first.readings);
        let per_day = |bytes: u64| (past >= PROJECT_AFTER).then(|| project(bytes, past));
        let written_per_day = per_day(ours);
        WearStatus {
            source: if measured.is_some() { "device" } else { "estimate" },
            device: device.filter(|_| measured.is_some()).map(str::to_owned),
            device_bytes: last.device.zip(start.device).map(|(last, start)| last.saturating_sub(start)),
            written_bytes: last.written,
            bytes_per_reading: (readings > 0).then(|| tenths(given as f64 / readings as f64)),
            bytes_per_day: per_day(given),
            written_per_day,
            budget: written.budget.map(|budget| BudgetStatus {
                bytes_per_day: budget.per_day,
                share: written_per_day.map(|bytes| (bytes as f64 / budget.per_day as f64 * 1_000.0).round() / 1_000.0),
                held_back_ms: budget.paid_at().since(budget.at).as_millis(),
                exceeded: budget.is_exceeded(),
            }),
        }
    }
}

fn project(bytes: u64, past: Span) -> u64 {
    let day = u128::from(bytes) * u128::from(DAY_MS) / u128::from(past.as_millis().max(1));
    u64::try_from(day).unwrap_or(u64::MAX)
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Span = Span::from_secs(30);

    const fn at(millis: u64) -> ProcTime {
        ProcTime::from_millis(millis)
    }

    /// Commits of `cost` bytes, as soon as the base interval of 1 s and the budget
    /// allow, up to `until`. Returns the waits.
    fn run(budget: &mut Budget, from: u64, until: u64, cost: impl Fn(Span) -> u64) -> Vec<u64> {
        let (mut now, mut wait, mut waits) = (from, 1_000, Vec::new());
        while now + wait <= until {
            now += wait;
            budget.spend(at(now), cost(Span::from_millis(wait)));
            wait = budget.paid_at().since(at(now)).as_millis().max(1_000);
            waits.push(wait);
        }
        waits
    }

    #[test]
    fn a_load_within_the_budget_is_not_held_back() {
        let mut budget = Budget::new(864_000_000, MAX);
        let waits = run(&mut budget, 0, 3_600_000, |_| 9_000);
        assert!(waits.iter().all(|wait| *wait == 1_000), "10,000 bytes a second are allowed, 9,000 are written");
    }

    #[test]
    fn the_interval_settles_where_a_commit_costs_what_comes_in_meanwhile() {
        // 10,000 B/s, 11/12 of it as income; a commit costs 20,000 and 1,000 for each second.
        let mut budget = Budget::new(864_000_000, MAX);
        let waits = run(&mut budget, 0, 3_600_000, |waited| 20_000 + waited.as_millis());
        assert!(waits[50..].iter().all(|wait| wait.abs_diff(2_449) < 3), "no swinging: {:?}", &waits[50..60]);
        assert!(waits.windows(2).all(|pair| pair[1] + 3 > pair[0]), "it rises once");
    }

    #[test]
    fn any_day_holds_to_the_budget_whatever_was_saved_before() {
        let mut budget = Budget::new(100_000_000, MAX);
        // A quiet week, then a day of more than enough.
        let week = 7 * DAY_MS;
        budget.spend(at(week), 0);
        let (mut now, mut spent) = (week, 0_u64);
        while now < week + DAY_MS {
            budget.spend(at(now), 10_000);
            spent += 10_000;
            now = (budget.paid_at().as_millis()).max(now + 1_000);
        }
        assert!(spent <= 100_000_000, "{spent}");
        assert!(spent > 90_000_000, "it is used: {spent}");
    }

    #[test]
    fn a_commit_is_never_held_back_for_longer_than_the_longest_interval_and_a_calm_hour_forgives() {
        let mut budget = Budget::new(1_000_000, MAX);
        for second in 0..1_000 {
            budget.spend(at(second * 1_000), u64::MAX / 2);
            assert_eq!(budget.paid_at(), at(second * 1_000) + MAX);
        }
        assert!(budget.is_exceeded());
        budget.spend(at(999_000 + 3_600_000 * 2), 0);
        assert_eq!(budget.paid_at(), at(999_000 + 3_600_000 * 2));
        assert!(!budget.is_exceeded());
    }

    #[test]
    fn a_restart_brings_no_credit() {
        let mut budget = Budget::new(86_400_000, MAX);
        budget.spend(at(0), 10_000);
        assert!(budget.paid_at() > at(9_000));
    }

    #[test]
    fn the_projection_follows_the_last_hour_and_says_what_it_rests_on() {
        let mut meter = Meter::default();
        let mut device = 5_000_000;
        let sample =
            |second: u64, device| Sample { readings: second * 10, written: second * 200, device: Some(device) };
        let start = sample(0, device);
        for second in 0..7_200 {
            device += if second < 3_500 { 0 } else { 300 };
            meter.note(at(second * 1_000), sample(second, device));
        }
        let written = Written { budget: Some(Budget::new(34_560_000, MAX)), ..Written::default() };
        let status = meter.status(start, Some("mmcblk0"), &written);
        assert_eq!((status.source, status.device.as_deref()), ("device", Some("mmcblk0")));
        assert_eq!(status.device_bytes, Some(3_700 * 300));
        assert_eq!(status.written_bytes, 7_199 * 200);
        assert_eq!(status.bytes_per_reading, Some(30.0));
        assert_eq!(status.bytes_per_day, Some(300 * 86_400));
        assert_eq!(status.written_per_day, Some(200 * 86_400));
        assert_eq!(status.budget.and_then(|budget| budget.share), Some(0.5));
        assert_eq!(meter.kept.len(), SAMPLES, "bounded");
    }

    #[test]
    fn without_a_device_the_estimate_is_all_there_is_and_nothing_is_projected_from_nothing() {
        let mut meter = Meter::default();
        let none = meter.status(Sample::default(), None, &Written::default());
        assert_eq!((none.source, none.bytes_per_day, none.bytes_per_reading), ("estimate", None, None));
        meter.note(at(0), Sample::default());
        meter.note(at(20_000), Sample { readings: 100, written: 3_333, device: None });
        let status = meter.status(Sample::default(), None, &Written::default());
        assert_eq!((status.bytes_per_reading, status.bytes_per_day), (Some(33.3), Some(14_398_560)));
        assert_eq!((status.device_bytes, status.budget), (None, None));
    }

    #[test]
    fn the_estimate_is_a_share_of_the_bytes_and_an_amount_for_each_commit() {
        assert_eq!(physical(100_000, 0), 110_000);
        assert_eq!(physical(0, 10), 61_440);
    }
}
