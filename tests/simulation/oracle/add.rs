//! What becomes of a record in the windows of its stream.

use std::rc::Rc;

use tidegate::engine::spec::{KeySpec, LatePolicy, Strategy, WindowKind, WindowSpec};
use tidegate::model::time::Span;

use super::cell::{Cell, Key, Taken, WindowBooks};
use super::marks::Owner;
use super::redefine::Part;
use super::sessions::{Found, Rules};
use super::stream::StreamState;
use super::windows::windows_of;
use super::{Oracle, note_late};

/// Open windows that a device, a group or the stream may have.
const OPEN_MAX: usize = 1_024;

/// In ascending order: of several windows the best outcome counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Expired,
    Backfilled,
    Redefined,
    NoRoom,
    Taken,
}

impl Oracle {
    pub(super) fn add_to_windows(&mut self, name: &str, record: &Taken<'_>) {
        let state = self.streams.get_mut(name).expect("it was there");
        let is_bare =
            record.reading.values.is_empty() && matches!(state.spec.watermark.strategy, Strategy::Punctuated { .. });
        let old = state.old.iter().enumerate().map(|(place, old)| (Some(place), Rc::clone(&old.spec)));
        let windows: Vec<_> = state.windows.iter().cloned().map(|window| (None, window)).chain(old).collect();
        for (old, window) in windows {
            let state = self.streams.get_mut(name).expect("it was there");
            if is_bare {
                if old.is_none() {
                    let books = state.books.windows.get_mut(window.name.as_str()).expect("set with the spec");
                    books.accepted += 1;
                    books.no_window += 1;
                }
                continue;
            }
            let label = state.marks.members[record.device].group.clone().unwrap_or_default();
            let owner = match window.key {
                KeySpec::Device => Owner::Device(record.device.to_owned()),
                KeySpec::Group => Owner::Group(label),
                KeySpec::Stream => Owner::Whole,
            };
            if window.key != KeySpec::Device {
                let newest = state.newest.entry(owner.clone()).or_insert(record.at);
                *newest = record.at.max(*newest);
            }
            let Some(part) = state.part_of(old, &window, &owner) else { continue };
            if !part.concerns(window.kind, record.at) {
                continue;
            }
            let books = state.books.windows.get_mut(window.name.as_str()).expect("set with the spec");
            books.accepted += 1;
            let watermark = state.marks.of(&state.spec, &owner);
            let outcome = match window.kind {
                WindowKind::Session { gap, max_length } => {
                    let (gap, max_length) = (gap.as_i64(), max_length.map(Span::as_i64));
                    let rules = Rules { spec: &window, gap, max_length, watermark };
                    Some(self.add_to_session(name, &owner, rules, record, old))
                }
                WindowKind::Tumbling { .. } | WindowKind::Sliding { .. } | WindowKind::Calendar { .. } => {
                    self.add_to_fixed(name, &owner, (&window, part), watermark, record)
                }
            };
            self.settle(name, &window, watermark, record, outcome);
        }
    }

    fn settle(
        &mut self,
        name: &str,
        window: &WindowSpec,
        watermark: Option<i64>,
        record: &Taken<'_>,
        outcome: Option<Outcome>,
    ) {
        let state = self.streams.get_mut(name).expect("it was there");
        let books: &mut WindowBooks = state.books.windows.get_mut(window.name.as_str()).expect("set with the spec");
        // Between two windows, but those around it have expired.
        let is_late = || watermark.is_some_and(|watermark| record.at + window.lateness.as_i64() <= watermark);
        let reason = match outcome {
            Some(Outcome::Taken) => return,
            Some(Outcome::Backfilled) => {
                books.backfilled += 1;
                return;
            }
            None if !is_late() => {
                books.no_window += 1;
                return;
            }
            None | Some(Outcome::Expired) if window.late == LatePolicy::Drop => {
                books.dropped += 1;
                return;
            }
            None | Some(Outcome::Expired) => "late",
            Some(Outcome::Redefined) => "redefined",
            Some(Outcome::NoRoom) => "too_many_windows",
        };
        books.side_output += 1;
        let lag = watermark.map_or(0, |watermark| i128::from(watermark) - i128::from(record.at));
        note_late(&mut self.late, name, window.name.as_str(), record, reason, lag.max(0), false);
    }

    /// Into every window that holds the record. It counts by the first one that has yet to
    /// fire, if that takes it.
    fn add_to_fixed(
        &mut self,
        name: &str,
        owner: &Owner,
        (window, part): (&Rc<WindowSpec>, Part),
        watermark: Option<i64>,
        record: &Taken<'_>,
    ) -> Option<Outcome> {
        let passed = |end: i64| watermark.is_some_and(|watermark| watermark >= end - 1);
        let mut covering = windows_of(window.kind, record.at);
        if matches!(window.kind, WindowKind::Sliding { .. }) {
            covering.retain(|(start, _)| part.holds(*start));
        }
        let first_to_fire = covering.iter().rfind(|(_, end)| !passed(*end)).copied();
        let mut best = None;
        for (start, end) in covering {
            let outcome = self.add_to_one(name, owner, (window, part), (start, end), watermark, record);
            let decides = outcome != Outcome::Taken || passed(end) || Some((start, end)) == first_to_fire;
            best = if decides { best.max(Some(outcome)) } else { best };
        }
        best
    }

    fn add_to_one(
        &mut self,
        name: &str,
        owner: &Owner,
        (window, part): (&Rc<WindowSpec>, Part),
        (start, end): (i64, i64),
        watermark: Option<i64>,
        record: &Taken<'_>,
    ) -> Outcome {
        let key: Key = (name.to_owned(), window.name.to_string(), owner.key().to_owned(), start);
        let expired = watermark.is_some_and(|watermark| watermark >= end - 1 + window.lateness.as_i64());
        let state = self.streams.get_mut(name).expect("it was there");
        if expired && !window.late.is_backfill() {
            return Outcome::Expired;
        }
        let shut = state.is_shut(part.old, window, owner, start);
        let is_cut = state.cuts(part.old, owner, end);
        if expired {
            if shut {
                return Outcome::Redefined;
            }
            self.deltas.entry(key).or_insert_with(|| Cell::new(window, start, end)).add(record);
            return Outcome::Backfilled;
        }
        let is_open = self.cells.get(&key).is_some_and(|cell| !cell.undefined && !cell.has_expired(watermark));
        if !is_open {
            if shut {
                return Outcome::Redefined;
            }
            if !self.has_room(name, owner, watermark) {
                return Outcome::NoRoom;
            }
            let state = self.streams.get_mut(name).expect("it was there");
            state.open.fixed.entry(owner.clone()).or_default().push(key.clone());
        }
        let cell = self.cells.entry(key).or_insert_with(|| Cell::new(window, start, end));
        cell.is_cut |= is_cut;
        cell.add(record);
        Outcome::Taken
    }

    fn add_to_session(
        &mut self,
        name: &str,
        owner: &Owner,
        rules: Rules<'_>,
        record: &Taken<'_>,
        old: Option<usize>,
    ) -> Outcome {
        let cuts = self.streams[name].borders_of(old);
        let state = self.streams.get_mut(name).expect("it was there");
        let number = cuts.as_ref().map_or(0, |old| old.number);
        let key: Key = (name.to_owned(), rules.spec.name.to_string(), owner.key().to_owned(), number);
        let (start, end) = match state.sessions.touch(&key, record.at, rules) {
            Found::Expired => return Outcome::Expired,
            Found::Session(cell) => {
                cell.is_cut |= cuts.as_ref().is_some_and(|old| old.cuts(owner, cell.end));
                cell.add(record);
                return Outcome::Taken;
            }
            Found::None { start, end } => (start, end),
        };
        if state.is_shut(old, rules.spec, owner, start) {
            return Outcome::Redefined;
        }
        if !self.has_room(name, owner, rules.watermark) {
            return Outcome::NoRoom;
        }
        let state = self.streams.get_mut(name).expect("it was there");
        let cell = state.sessions.open(&key, rules.spec, start, end);
        cell.is_cut |= cuts.is_some_and(|old| old.cuts(owner, end));
        cell.add(record);
        Outcome::Taken
    }

    /// For one more open window.
    fn has_room(&mut self, name: &str, owner: &Owner, watermark: Option<i64>) -> bool {
        let state = self.streams.get_mut(name).expect("it was there");
        let sessions = |state: &StreamState| {
            let windows = state.numbered_windows();
            let of_owner = windows.filter(|(_, window)| Owner::of(window.key, owner.key()) == *owner);
            of_owner
                .map(|(number, window)| (name.to_owned(), window.name.to_string(), owner.key().to_owned(), number))
                .map(|key| state.sessions.live_of(&key).filter(|cell| !cell.has_expired(watermark)).count())
                .sum::<usize>()
        };
        let live = sessions(state);
        let open = state.open.fixed.entry(owner.clone()).or_default();
        if open.len() + live < OPEN_MAX {
            return true;
        }
        let cells = &self.cells;
        open.retain(|key| cells.get(key).is_some_and(|cell| !cell.undefined && !cell.has_expired(watermark)));
        open.len() + live < OPEN_MAX
    }
}
