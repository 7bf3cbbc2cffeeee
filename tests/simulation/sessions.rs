//! The oracle's session windows: a list of those that live, and every other one is
//! compared with each record.

use std::collections::{BTreeMap, BTreeSet};

use super::oracle::{Cell, Key};

#[derive(Default)]
pub(crate) struct Sessions {
    /// By stream, window and device (start 0): start and content.
    live: BTreeMap<Key, Vec<(i64, Cell)>>,
    ended: Vec<(Key, Cell)>,
}

impl Sessions {
    /// The session that a record which is alone in `alone` belongs to, once all that it
    /// connects are one. `None`: that one has expired.
    pub(crate) fn touch(
        &mut self,
        key: &Key,
        alone: (i64, i64),
        lateness: i64,
        watermark: Option<i64>,
    ) -> Option<&mut Cell> {
        let expired = |end: i64| watermark.is_some_and(|watermark| watermark >= end - 1 + lateness);
        let live = self.live.entry(key.clone()).or_default();
        let (gone, live_on): (Vec<_>, Vec<_>) = live.drain(..).partition(|(_, cell)| expired(cell.end));
        self.ended.extend(gone.into_iter().map(|(start, cell)| (with_start(key, start), cell)));
        let is_joined = |start: i64, end: i64| start <= alone.1 && end >= alone.0;
        let (touched, mut apart): (Vec<_>, Vec<_>) =
            live_on.into_iter().partition(|(start, cell)| is_joined(*start, cell.end));
        let start = touched.iter().map(|(start, _)| *start).fold(alone.0, i64::min);
        let end = touched.iter().map(|(_, cell)| cell.end).fold(alone.1, i64::max);
        if expired(end) {
            // It touched nothing that lives, for that would have a later end.
            *live = apart;
            return None;
        }
        let mut merged = Cell { end, ..Cell::default() };
        for (before, cell) in touched {
            merged.count += cell.count;
            merged.receive_time |= cell.receive_time;
            merged.absorbed.extend(cell.absorbed);
            merged.absorbed.insert(before);
            for (name, values) in cell.fields {
                merged.fields.entry(name).or_default().extend(values);
            }
        }
        merged.absorbed.remove(&start);
        apart.push((start, merged));
        *live = apart;
        live.last_mut().map(|(_, cell)| cell)
    }

    /// All sessions there ever were, among the windows of other kinds; and the ids that
    /// were not those of one session only.
    pub(crate) fn end(self, mut cells: BTreeMap<Key, Cell>) -> (BTreeSet<Key>, BTreeMap<Key, Cell>) {
        let live = self.live.into_iter().flat_map(|(key, live)| {
            live.into_iter().map(move |(start, cell)| (with_start(&key, start), cell)).collect::<Vec<_>>()
        });
        let (mut used, mut reused) = (BTreeSet::new(), BTreeSet::new());
        for (key, cell) in self.ended.into_iter().chain(live) {
            let starts = cell.absorbed.iter().copied().chain([key.3]);
            for known in starts.map(|start| with_start(&key, start)) {
                if !used.insert(known.clone()) {
                    reused.insert(known);
                }
            }
            cells.insert(key, cell);
        }
        (reused, cells)
    }
}

fn with_start(key: &Key, start: i64) -> Key {
    (key.0.clone(), key.1.clone(), key.2.clone(), start)
}
