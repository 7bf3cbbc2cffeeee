//! Another configuration: what goes on, what stays as it is, what stays shut.

use std::rc::Rc;

use tidegate::engine::aggregate::Kind;
use tidegate::engine::spec::{PipelineSpec, StreamSpec, WindowSpec};

use super::Oracle;
use super::cell::{Cell, Key};
use super::marks::Owner;
use super::stream::StreamState;

impl Oracle {
    pub(super) fn redefine(&mut self, spec: &Rc<PipelineSpec>) {
        let mut before = core::mem::take(&mut self.streams);
        for stream in &spec.streams {
            let name = stream.name.to_string();
            let Some(state) = before.remove(&name) else {
                self.streams.insert(name, StreamState::new(stream));
                continue;
            };
            self.streams.insert(name.clone(), state);
            self.redefine_stream(&name, stream);
        }
        for (name, mut state) in before {
            state.order.release_all();
            for (row, early) in core::mem::take(&mut state.order.sent) {
                *self.readings.entry(format!("{row} early {early}")).or_default() += 1;
            }
            let windows = state.windows.clone();
            self.streams.insert(name.clone(), state);
            for window in &windows {
                self.end_window(&name, window);
            }
            let mut state = self.streams.remove(&name).expect("it was just put there");
            // A clash of two sessions is found at the end, in the streams that are left.
            _ = state.sessions_into(&mut self.cells);
        }
        self.spec = Rc::clone(spec);
        self.joins.follow(spec);
    }

    fn redefine_stream(&mut self, name: &str, stream: &StreamSpec) {
        let windows = self.streams[name].windows.clone();
        for window in &windows {
            let same =
                |today: &&WindowSpec| (&today.name, today.kind, today.key) == (&window.name, window.kind, window.key);
            let today = stream.windows.iter().find(same);
            let state = self.streams.get_mut(name).expect("it is there");
            let fresh = |today: &WindowSpec| {
                today.late.is_backfill() && (!window.late.is_backfill() || window.aggregates != today.aggregates)
            };
            for owner in state.owners().iter().filter(|owner| Owner::of(window.key, owner.key()) == **owner) {
                match today {
                    None => {
                        if let Some(newest) = state.newest_of(owner) {
                            state.fences.shut(window.name.as_str(), owner, newest);
                        }
                    }
                    // What has expired would open again, or has no accumulators to add to.
                    Some(today) if today.lateness > window.lateness || fresh(today) => {
                        if let Some(watermark) = state.marks.of(&state.spec, owner) {
                            state.fences.shut_expired(window, owner, watermark);
                        }
                    }
                    Some(_) => {}
                }
            }
            match today {
                None => self.end_window(name, window),
                Some(today) if *today != **window => self.change_window(name, window, today),
                Some(_) => {}
            }
        }
        self.streams.get_mut(name).expect("it is there").set_spec(stream);
    }

    /// What a window has open is published as it is, and nothing will come any more.
    fn end_window(&mut self, name: &str, window: &WindowSpec) {
        let state = self.streams.get_mut(name).expect("it is there");
        let of_window = |key: &Key| key.0 == name && key.1 == window.name.as_str();
        let (spec, marks) = (Rc::clone(&state.spec), state.marks.clone());
        let passed = |key: &Key, cell: &Cell| {
            let watermark = marks.of(&spec, &Owner::of(window.key, &key.2));
            watermark.is_some_and(|watermark| watermark >= cell.end - 1)
        };
        for (key, cell) in state.sessions.live_mut().filter(|(key, _)| of_window(key)) {
            (cell.fired, cell.undefined) = (passed(key, cell), true);
        }
        state.sessions.end_all(of_window);
        for (key, cell) in self.cells.iter_mut().filter(|(key, cell)| of_window(key) && !cell.undefined) {
            (cell.fired, cell.undefined) = (passed(key, cell), true);
        }
        state.books.windows.remove(window.name.as_str());
    }

    /// Open windows go on under the definition of today.
    fn change_window(&mut self, name: &str, window: &WindowSpec, today: &WindowSpec) {
        let today = Rc::new(today.clone());
        let state = self.streams.get_mut(name).expect("it is there");
        let of_window = |key: &Key| key.0 == name && key.1 == window.name.as_str();
        let (spec, marks) = (Rc::clone(&state.spec), state.marks.clone());
        let (before, now) = (&window.aggregates.kinds, &today.aggregates.kinds);
        let in_one = |kind: &&Kind| before.contains(kind) != now.contains(kind);
        let changed: Vec<Kind> = Kind::ALL.iter().filter(in_one).copied().collect();
        let change = |key: &Key, cell: &mut Cell| {
            let watermark = marks.of(&spec, &Owner::of(window.key, &key.2));
            if !cell.undefined && !cell.has_expired(watermark) {
                cell.spec = Rc::clone(&today);
                cell.inexact.extend(&changed);
            }
        };
        state.sessions.live_mut().filter(|(key, _)| of_window(key)).for_each(|(key, cell)| change(key, cell));
        self.cells.iter_mut().filter(|(key, _)| of_window(key)).for_each(|(key, cell)| change(key, cell));
        for (_, cell) in self.deltas.iter_mut().filter(|(key, _)| of_window(key)) {
            cell.inexact.extend(&changed);
        }
    }
}
