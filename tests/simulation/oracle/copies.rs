//! Readings that come twice: whole lists of what has come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate::engine::spec::{DedupBy, StreamSpec};

use super::cell::{Books, Taken};
use crate::devices::Datum;

/// A larger step is a new start.
const JUMP: u64 = 65_536;

/// What is known of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    seen: VecDeque<(i64, BTreeMap<&'static str, Datum>)>,
    now: Option<Run>,
    before: Option<Run>,
}

#[derive(Clone, Debug)]
struct Run {
    first: u64,
    highest: u64,
    numbers: BTreeSet<u64>,
}

impl Run {
    fn begin(number: u64) -> Run {
        Run { first: number, highest: number, numbers: BTreeSet::from([number]) }
    }

    /// Within the horizon.
    fn covers(&self, number: u64, horizon: u64) -> bool {
        number <= self.highest && self.highest - number < horizon
    }

    /// Numbers in between that never came.
    fn missing(&self, from: u64, past: u64) -> u64 {
        (from.max(self.first)..past).filter(|number| !self.numbers.contains(number)).count() as u64
    }
}

impl Copies {
    /// `ahead`: how much newer than the newest time of the device so far.
    pub(crate) fn is_copy(
        &mut self,
        spec: &StreamSpec,
        record: &Taken<'_>,
        ahead: Option<i64>,
        books: &mut Books,
    ) -> bool {
        let Some(dedup) = &spec.dedup else { return false };
        if dedup.by == DedupBy::TimeAndValues {
            let reading = (record.at, record.reading.values.clone());
            if self.seen.contains(&reading) {
                return true;
            }
            self.seen.push_back(reading);
            if self.seen.len() > dedup.horizon {
                self.seen.pop_front();
            }
            return false;
        }
        let Some(number) = record.reading.number else {
            books.sequence[2] += 1;
            return false;
        };
        let newer = record.reading.at.map(|_| ahead.is_none_or(|ahead| ahead > 0));
        let disorder = spec.watermark.strategy.longest_wait().as_i64();
        // The same reading, with the time of a second gateway.
        if ahead.is_some_and(|ahead| (1..=disorder).contains(&ahead))
            && self.now.as_ref().is_some_and(|now| now.highest == number)
        {
            return true;
        }
        self.is_known(number, newer, dedup.horizon as u64, books)
    }

    /// `newer`: than all before, as far as it has a time of its own.
    fn is_known(&mut self, number: u64, newer: Option<bool>, horizon: u64, books: &mut Books) -> bool {
        let Some(now) = &mut self.now else {
            self.now = Some(Run::begin(number));
            return false;
        };
        if number > now.highest {
            let step = number - now.highest;
            if step > horizon
                && newer != Some(true)
                && let Some(before) = self.before.as_mut().filter(|before| before.covers(number, horizon))
            {
                return !before.numbers.insert(number);
            }
            if step > JUMP {
                self.start_over(number, horizon, books);
                return false;
            }
            // What leaves the horizon without having come.
            let (from, past) = ((now.highest + 1).saturating_sub(horizon), (number + 1).saturating_sub(horizon));
            now.numbers.insert(number);
            books.sequence[0] += now.missing(from, past);
            now.highest = number;
            return false;
        }
        if now.covers(number, horizon) {
            if now.numbers.insert(number) {
                return false;
            }
            if newer != Some(true) {
                return true;
            }
        } else if newer == Some(false) && number >= horizon {
            return true;
        }
        self.start_over(number, horizon, books);
        false
    }

    fn start_over(&mut self, number: u64, horizon: u64, books: &mut Books) {
        books.sequence[1] += 1;
        if let Some(now) = self.now.replace(Run::begin(number)) {
            books.sequence[0] += now.missing((now.highest + 1).saturating_sub(horizon), now.highest);
            self.before = Some(now);
        }
    }
}
