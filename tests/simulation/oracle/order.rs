//! Readings that are passed on: a list of those that wait.

use std::collections::BTreeMap;

use tidegate::engine::spec::{OnIdle, StreamSpec};

use super::cell::PassedOn;
use super::marks::Marks;

/// What becomes of a reading.
pub(crate) enum Fate {
    Held,
    Late { behind: i64 },
    OutOfOrder { behind: i64 },
}

#[derive(Clone, Debug)]
struct Waiting {
    scope: String,
    at: i64,
    arrival: u64,
    /// The row, but for `early`.
    row: String,
}

/// Ordered output of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    waiting: Vec<Waiting>,
    floors: BTreeMap<String, i64>,
    arrivals: u64,
    pub books: PassedOn,
    /// Rows that went out, with whether early.
    pub sent: Vec<(String, bool)>,
}

impl Order {
    pub(crate) fn pass_on_arrival(&mut self, row: String) {
        self.books.accepted += 1;
        self.books.on_time += 1;
        self.sent.push((row, false));
    }

    pub(crate) fn put(&mut self, scope: &str, watermark: Option<i64>, at: i64, row: String, held_max: usize) -> Fate {
        self.books.accepted += 1;
        if let Some(watermark) = watermark.filter(|watermark| at <= *watermark) {
            self.books.side_output += 1;
            return Fate::Late { behind: watermark - at };
        }
        if let Some(floor) = self.floors.get(scope).filter(|floor| at < **floor) {
            self.books.side_output += 1;
            return Fate::OutOfOrder { behind: floor - at };
        }
        self.arrivals += 1;
        self.waiting.push(Waiting { scope: scope.to_owned(), at, arrival: self.arrivals, row });
        self.books.open = self.waiting.len() as u64;
        while self.waiting.len() > held_max {
            let lowest = self.waiting.iter().min_by_key(|waiting| (waiting.at, waiting.arrival)).expect("one at least");
            let arrival = lowest.arrival;
            self.release(true, |waiting| waiting.arrival == arrival);
        }
        Fate::Held
    }

    /// What the watermark of a scope has passed.
    pub(crate) fn release_passed(&mut self, scope: &str, watermark: Option<i64>) {
        if let Some(watermark) = watermark {
            self.release(false, |waiting| waiting.scope == scope && waiting.at <= watermark);
        }
    }

    /// All that a scope holds still, if nobody in it is active any more.
    pub(crate) fn release_idle(&mut self, spec: &StreamSpec, marks: &Marks, scope: &str) {
        if spec.on_idle != OnIdle::Hold && !marks.is_anybody_active(spec, scope) {
            self.release(true, |waiting| waiting.scope == scope);
        }
    }

    pub(crate) fn release_all(&mut self) {
        self.release(true, |_| true);
    }

    /// The last time that a scope holds, or that it has sent early.
    pub(crate) fn last_of(&self, scope: &str) -> Option<i64> {
        let held = self.waiting.iter().filter(|waiting| waiting.scope == scope).map(|waiting| waiting.at);
        held.chain(self.floors.get(scope).copied()).max()
    }

    fn release(&mut self, early: bool, which: impl Fn(&Waiting) -> bool) {
        let (gone, stay): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|waiting| which(waiting));
        self.waiting = stay;
        self.books.open = self.waiting.len() as u64;
        for waiting in gone {
            if early {
                let floor = self.floors.entry(waiting.scope).or_insert(waiting.at);
                *floor = waiting.at.max(*floor);
                self.books.early += 1;
            } else {
                self.books.on_time += 1;
            }
            self.sent.push((waiting.row, early));
        }
        self.books.open = self.waiting.len() as u64;
    }
}
