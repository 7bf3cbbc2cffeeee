//! A window of a key in a window join, and which of them stay shut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::outbox::row::{self, Row};
use crate::engine::timers::LiveTime;
use crate::model::limits::JOIN_FENCES_MAX;
use crate::model::time::EventTime;

use super::waiting::Wait;

/// One window of one key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct CellId {
    pub key: Arc<str>,
    pub start: EventTime,
}

/// What is known of it.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub end: EventTime,
    /// By side: the row of its newest pane.
    pub panes: Vec<Option<Box<[u8]>>>,
    /// The revision that the next row has.
    pub revision: u32,
    /// The watermarks of all sides have passed its end.
    pub passed: bool,
    /// It is in the books: a row was made, or was too large to be.
    pub settled: bool,
    /// When it goes although a watermark does not come.
    pub deadline: LiveTime,
    /// A side has closed its window: the deadline stands.
    pub closing: bool,
    pub wait: Option<Wait>,
    /// It has a new pane that was not looked at; true: one that is late.
    pub news: Option<bool>,
}

/// Bytes of a cell beside its key and panes: an estimate of memory and snapshot.
const CELL_COST: usize = 96;

impl Cell {
    pub(super) fn cost(&self, id: &CellId) -> usize {
        CELL_COST + id.key.len() + self.panes.iter().flatten().map(|pane| pane.len()).sum::<usize>()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.panes.iter().all(Option::is_some)
    }
}

/// Windows that may have been reported, and whose cells are gone: opened again, they
/// would use their ids a second time.
#[derive(Clone, Debug, Default)]
pub(super) struct Fences {
    /// By key: windows that start here or before are shut.
    pub by_key: BTreeMap<Arc<str>, EventTime>,
    /// The same for every key.
    pub floor: Option<EventTime>,
    /// Keys whose fence changed since the last commit.
    pub changed: BTreeSet<Arc<str>>,
}

impl Fences {
    /// True for a window that may not be opened.
    pub(super) fn stop(&self, id: &CellId) -> bool {
        self.floor.max(self.by_key.get(&id.key).copied()).is_some_and(|until| id.start <= until)
    }

    /// Shuts the windows of a key up to this one. Full: the lowest fence becomes that of
    /// every key.
    pub(super) fn shut(&mut self, id: &CellId) {
        let until = self.by_key.entry(Arc::clone(&id.key)).or_insert(id.start);
        *until = id.start.max(*until);
        self.changed.insert(Arc::clone(&id.key));
        if self.by_key.len() <= JOIN_FENCES_MAX {
            return;
        }
        let lowest = self.by_key.iter().map(|(key, until)| (*until, key)).min();
        if let Some((until, key)) = lowest.map(|(until, key)| (until, Arc::clone(key))) {
            self.by_key.remove(&key);
            self.floor = self.floor.max(Some(until));
            self.changed.insert(key);
        }
    }

    /// A window of a key has expired, and all before it: nothing needs to be shut there.
    pub(super) fn drop_up_to(&mut self, id: &CellId) {
        if self.by_key.get(&id.key).is_some_and(|until| *until <= id.start) {
            self.by_key.remove(&id.key);
            self.changed.insert(Arc::clone(&id.key));
        }
    }
}

/// Records in a window, as its pane says.
pub(super) fn count_of(pane: &[u8]) -> u64 {
    match row::read(pane) {
        Ok(Row::Pane(row, _)) => row.count,
        Ok(_) | Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(key: usize, start: i64) -> CellId {
        CellId { key: Arc::from(format!("{key:05}")), start: EventTime::from_millis(start) }
    }

    #[test]
    fn a_key_is_shut_up_to_a_window_and_with_too_many_keys_the_lowest_holds_for_all() {
        let mut fences = Fences::default();
        fences.shut(&id(1, 50));
        fences.shut(&id(1, 40));
        assert!(fences.stop(&id(1, 50)) && !fences.stop(&id(1, 51)) && !fences.stop(&id(2, 40)));
        fences.drop_up_to(&id(1, 49));
        assert!(fences.stop(&id(1, 50)));
        fences.drop_up_to(&id(1, 50));
        assert!(!fences.stop(&id(1, 50)));

        for key in 0..JOIN_FENCES_MAX {
            fences.shut(&id(key, 100));
        }
        assert!(!fences.stop(&id(99_999, 100)));
        fences.shut(&id(99_998, 200));
        assert_eq!(fences.by_key.len(), JOIN_FENCES_MAX);
        assert!(fences.stop(&id(99_999, 100)) && !fences.stop(&id(99_999, 101)));
        assert!(fences.stop(&id(99_998, 200)));
    }
}
