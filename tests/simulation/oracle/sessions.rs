//! The oracle's session windows: a list of those that live, and every other one is
//! compared with each record.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tidegate::engine::spec::WindowSpec;

use super::cell::{Cell, Key};

#[derive(Default)]
pub(crate) struct Sessions {
    /// By stream, window, key and definition (0: that of today): start and content.
    live: BTreeMap<Key, Vec<(i64, Cell)>>,
    ended: Vec<(Key, Cell)>,
}

/// What sessions of one window definition are like.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub spec: &'a Rc<WindowSpec>,
    pub gap: i64,
    pub max_length: Option<i64>,
    pub watermark: Option<i64>,
}

/// What a record that belongs to one finds.
pub(crate) enum Found<'a> {
    /// The session, once all that it connects are one.
    Session(&'a mut Cell),
    /// It would be one of its own, with these bounds.
    None {
        start: i64,
        end: i64,
    },
    Expired,
}

impl Sessions {
    /// The session that a record at `at` belongs to.
    pub(crate) fn touch(&mut self, key: &Key, at: i64, rules: Rules<'_>) -> Found<'_> {
        let lateness = rules.spec.lateness.as_i64();
        let expired = |end: i64| rules.watermark.is_some_and(|watermark| watermark >= end - 1 + lateness);
        self.end_expired(key, rules.watermark);
        let live = self.live.entry(key.clone()).or_default();
        let (parts, start, end) = rules.parts(live, at);
        if expired(end) {
            return Found::Expired;
        }
        if parts.is_empty() {
            return Found::None { start, end };
        }
        let mut merged = Cell::new(rules.spec, at, end);
        let (touched, apart): (Vec<_>, Vec<_>) = live.drain(..).partition(|(start, _)| parts.contains(start));
        *live = apart;
        for (_, cell) in &touched {
            merged.opened = if merged.count == 0 { cell.opened } else { merged.opened.min(cell.opened) };
            merged.count += cell.count;
        }
        for (_, cell) in touched {
            merged.receive_time |= cell.receive_time;
            merged.is_cut |= cell.is_cut;
            merged.absorbed.extend(cell.absorbed);
            merged.absorbed.insert(cell.opened);
            for (name, values) in cell.fields {
                merged.fields.entry(name).or_default().extend(values);
            }
        }
        merged.absorbed.remove(&merged.opened);
        live.push((start, merged));
        Found::Session(live.last_mut().map(|(_, cell)| cell).expect("it was just added"))
    }

    /// A session of its own.
    pub(crate) fn open(&mut self, key: &Key, spec: &Rc<WindowSpec>, start: i64, end: i64) -> &mut Cell {
        let live = self.live.entry(key.clone()).or_default();
        live.push((start, Cell::new(spec, start, end)));
        live.last_mut().map(|(_, cell)| cell).expect("it was just added")
    }

    /// Forgets those that are over, for new ones may touch them.
    pub(crate) fn end_expired(&mut self, key: &Key, watermark: Option<i64>) {
        let Some(live) = self.live.get_mut(key) else { return };
        let (gone, live_on): (Vec<_>, Vec<_>) = live.drain(..).partition(|(_, cell)| cell.has_expired(watermark));
        self.ended.extend(gone.into_iter().map(|(_, cell)| (with_time(key, cell.opened), cell)));
        *live = live_on;
    }

    /// Those of a definition are those of another one from now on, that of a number.
    pub(crate) fn renumber(&mut self, which: impl Fn(&Key) -> bool, number: i64) {
        let keys: Vec<Key> = self.live.keys().filter(|key| which(key)).cloned().collect();
        for key in keys {
            let live = self.live.remove(&key).expect("it was there");
            self.live.insert(with_time(&key, number), live);
        }
    }

    /// Those that live, by stream, window and key.
    pub(crate) fn live_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Cell)> {
        self.live.iter_mut().flat_map(|(key, live)| live.iter_mut().map(move |(_, cell)| (key, cell)))
    }

    /// Those of one stream, window and key.
    pub(crate) fn live_of(&self, key: &Key) -> impl Iterator<Item = &Cell> {
        self.live.get(key).into_iter().flatten().map(|(_, cell)| cell)
    }

    /// Nothing is added to what `which` says any more.
    pub(crate) fn end_all(&mut self, which: impl Fn(&Key) -> bool) {
        for (key, live) in &mut self.live {
            if which(key) {
                self.ended.extend(live.drain(..).map(|(_, cell)| (with_time(key, cell.opened), cell)));
            }
        }
    }

    /// All sessions there ever were, among the windows of other kinds.
    ///
    /// # Errors
    /// An id that two of them had.
    pub(crate) fn end(self, cells: &mut BTreeMap<Key, Cell>) -> Result<(), String> {
        let live = self.live.into_iter().flat_map(|(key, live)| {
            live.into_iter().map(move |(_, cell)| (with_time(&key, cell.opened), cell)).collect::<Vec<_>>()
        });
        let mut used = BTreeSet::new();
        for (key, cell) in self.ended.into_iter().chain(live) {
            let times = cell.absorbed.iter().copied().chain([key.3]);
            for known in times.map(|time| with_time(&key, time)) {
                if !used.insert(known.clone()) {
                    return Err(format!("two sessions had the id {known:?}"));
                }
            }
            cells.insert(key, cell);
        }
        Ok(())
    }
}

impl Rules<'_> {
    /// The starts of those that become one with a record at `at`, and the bounds of that.
    fn parts(self, live: &[(i64, Cell)], at: i64) -> (Vec<i64>, i64, i64) {
        let mut touched: Vec<(i64, i64)> = live.iter().map(|(start, cell)| (*start, cell.end)).collect();
        touched.sort_unstable();
        let later = touched.iter().map(|(start, _)| *start).find(|start| *start > at);
        touched.retain(|(start, end)| *start <= at + self.gap && *end >= at);
        let start = touched.iter().map(|(start, _)| *start).fold(at, i64::min);
        let end = touched.iter().map(|(_, end)| *end).fold(at + self.gap, i64::max);
        let max = self.max_length.unwrap_or(i64::MAX);
        if end - start <= max {
            return (touched.iter().map(|(start, _)| *start).collect(), start, end);
        }
        let free = later.map_or(at + self.gap, |later| later.min(at + self.gap));
        let before = touched.iter().rev().find(|(start, _)| *start <= at).filter(|(start, _)| at < start + max);
        if let Some((start, end)) = before {
            return (vec![*start], *start, *end.max(&free.min(start + max)));
        }
        match touched.iter().find(|(start, end)| *start > at && end - at <= max) {
            Some((start, end)) if later == Some(*start) => (vec![*start], at, *end),
            Some(_) | None => (Vec::new(), at, free),
        }
    }
}

fn with_time(key: &Key, time: i64) -> Key {
    (key.0.clone(), key.1.clone(), key.2.clone(), time)
}
