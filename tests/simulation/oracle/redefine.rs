//! Another configuration: what goes on, what stays as it is, what stays shut.

use std::collections::BTreeMap;
use std::rc::Rc;

use tidegate::engine::spec::{PipelineSpec, StreamSpec, WindowKind, WindowSpec};

use super::Oracle;
use super::cell::{Cell, Key};
use super::marks::Owner;
use super::stream::StreamState;
use super::windows::windows_of;

/// Definitions of one stream that finish.
const OLD_MAX: usize = 8;

/// A definition of before, as far as it goes on.
#[derive(Clone, Debug)]
pub(super) struct Old {
    pub spec: Rc<WindowSpec>,
    /// Stands for the time in the keys of its sessions that live; 0 is the definition of today.
    pub number: i64,
    /// Up to where, and the last start that is shut nevertheless.
    borders: BTreeMap<Owner, (i64, Option<i64>)>,
}

impl Old {
    pub(super) fn is_shut(&self, owner: &Owner, start: i64) -> bool {
        self.borders.get(owner).is_some_and(|(_, after)| after.is_some_and(|after| start <= after))
    }

    /// A window that ends behind the border lacks something.
    pub(super) fn cuts(&self, owner: &Owner, end: i64) -> bool {
        let is_sliding = matches!(self.spec.kind, WindowKind::Sliding { .. });
        !is_sliding && self.borders.get(owner).is_some_and(|(border, _)| *border < end)
    }
}

/// Which times are a definition's; of windows that slide, which starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Its place among the old ones.
    pub old: Option<usize>,
    from: Option<i64>,
    until: Option<i64>,
}

impl Part {
    pub(super) fn holds(self, at: i64) -> bool {
        self.from.is_none_or(|from| from <= at) && self.until.is_none_or(|until| at < until)
    }

    pub(super) fn concerns(self, kind: WindowKind, at: i64) -> bool {
        if self.from.is_none() && self.until.is_none() {
            return true;
        }
        match kind {
            WindowKind::Sliding { .. } => windows_of(kind, at).iter().any(|(start, _)| self.holds(*start)),
            WindowKind::Tumbling { .. } | WindowKind::Calendar { .. } | WindowKind::Session { .. } => self.holds(at),
        }
    }
}

impl StreamState {
    /// `None`: it is over.
    pub(super) fn part_of(&self, old: Option<usize>, window: &WindowSpec, owner: &Owner) -> Option<Part> {
        let until = match old {
            Some(place) => Some(self.until(place, owner)?),
            None => None,
        };
        let from = self.border(window.name.as_str(), owner, old.unwrap_or(self.old.len()));
        Some(Part { old, from, until })
    }

    pub(super) fn is_shut(&self, old: Option<usize>, window: &WindowSpec, owner: &Owner, start: i64) -> bool {
        match old {
            Some(place) => self.old[place].is_shut(owner, start),
            None => self.fences.stop(window.name.as_str(), owner, start),
        }
    }

    pub(super) fn cuts(&self, old: Option<usize>, owner: &Owner, end: i64) -> bool {
        old.is_some_and(|place| self.old[place].cuts(owner, end))
    }

    pub(super) fn borders_of(&self, old: Option<usize>) -> Option<Old> {
        old.map(|place| self.old[place].clone())
    }

    /// Up to where an old definition goes on, if the watermark is not past all of it.
    pub(super) fn until(&self, place: usize, owner: &Owner) -> Option<i64> {
        let old = &self.old[place];
        let (border, _) = old.borders.get(owner)?;
        let last = match old.spec.kind {
            WindowKind::Tumbling { size, .. } | WindowKind::Sliding { size, .. } => border - 1 + size.as_i64(),
            WindowKind::Session { gap, .. } => border - 1 + gap.as_i64(),
            WindowKind::Calendar { .. } => windows_of(old.spec.kind, border - 1)[0].1,
        };
        let over = last - 1 + old.spec.lateness.as_i64();
        let watermark = self.marks.of(&self.spec, owner);
        watermark.is_none_or(|watermark| watermark < over).then_some(*border)
    }

    /// Where the definition of a name begins that is behind the first `place` old ones.
    pub(super) fn border(&self, name: &str, owner: &Owner, place: usize) -> Option<i64> {
        let of_name = |old: &usize| self.old[*old].spec.name.as_str() == name;
        (0..place).filter(of_name).filter_map(|old| self.until(old, owner)).max()
    }
}

/// The next time at which a window of both begins; else of the second. Tried one by one.
fn common_start(from: i64, earlier: WindowKind, later: WindowKind) -> i64 {
    let step = |kind: WindowKind| match kind {
        WindowKind::Tumbling { size, .. } => size.as_i64(),
        WindowKind::Sliding { slide, .. } => slide.as_i64(),
        WindowKind::Calendar { unit, .. } => unit.length().as_i64(),
        WindowKind::Session { .. } => 0,
    };
    let begins = |kind: WindowKind, at: i64| match kind {
        WindowKind::Session { .. } => true,
        WindowKind::Tumbling { size, offset_ms } => (at - offset_ms).rem_euclid(size.as_i64()) == 0,
        WindowKind::Sliding { slide, offset_ms, .. } => (at - offset_ms).rem_euclid(slide.as_i64()) == 0,
        WindowKind::Calendar { .. } => windows_of(kind, at)[0].0 == at,
    };
    let first = |kind: WindowKind, at: i64| match kind {
        WindowKind::Session { .. } => at,
        WindowKind::Tumbling { size, offset_ms } => at + (offset_ms - at).rem_euclid(size.as_i64()),
        WindowKind::Sliding { slide, offset_ms, .. } => at + (offset_ms - at).rem_euclid(slide.as_i64()),
        WindowKind::Calendar { .. } if begins(kind, at) => at,
        WindowKind::Calendar { .. } => windows_of(kind, at)[0].1,
    };
    let (coarse, fine) = if step(earlier) > step(later) { (earlier, later) } else { (later, earlier) };
    let mut at = first(coarse, from);
    for _ in 0..64 {
        if begins(fine, at) {
            return at;
        }
        at = first(coarse, at + 1);
    }
    first(later, from)
}

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
            let old: Vec<_> = self.streams[&name].old.iter().map(|old| (Rc::clone(&old.spec), old.number)).collect();
            for (window, number) in windows.into_iter().map(|window| (window, 0)).chain(old) {
                self.end_window(&name, &window, number);
            }
            let mut state = self.streams.remove(&name).expect("it was just put there");
            // A clash of two sessions is found at the end, in the streams that are left.
            _ = state.sessions_into(&mut self.cells);
        }
        self.spec = Rc::clone(spec);
        self.joins.follow(spec);
    }

    fn redefine_stream(&mut self, name: &str, stream: &StreamSpec) {
        let before = Rc::clone(&self.streams[name].spec);
        let scope = |spec: &StreamSpec| core::mem::discriminant(&spec.watermark.scope);
        let may_finish = scope(&before) == scope(stream) && before.has_groups() == stream.has_groups();
        let windows = self.streams[name].windows.clone();
        for window in &windows {
            let is_same = |today: &&WindowSpec| {
                (&today.name, today.kind, today.key, &today.aggregates)
                    == (&window.name, window.kind, window.key, &window.aggregates)
            };
            match stream.windows.iter().find(is_same) {
                Some(today) if *today != **window => self.change_window(name, window, today),
                Some(_) => {}
                None if may_finish => self.finish_window(name, window, stream),
                None => self.end_window(name, window, 0),
            }
        }
        let state = self.streams.get_mut(name).expect("it is there");
        if !may_finish {
            for old in core::mem::take(&mut state.old) {
                self.end_window(name, &old.spec, old.number);
            }
        }
        let state = self.streams.get_mut(name).expect("it is there");
        let too_many = state.old.len().saturating_sub(OLD_MAX);
        let ended: Vec<Old> = state.old.drain(..too_many).collect();
        for old in ended {
            self.end_window(name, &old.spec, old.number);
        }
        self.streams.get_mut(name).expect("it is there").set_spec(stream);
    }

    /// It goes on up to a border of each owner, behind which its heir begins.
    fn finish_window(&mut self, name: &str, window: &Rc<WindowSpec>, stream: &StreamSpec) {
        let state = self.streams.get_mut(name).expect("it is there");
        let heir = stream.windows.iter().find(|today| today.name == window.name);
        state.numbers += 1;
        let mut old = Old { spec: Rc::clone(window), number: state.numbers, borders: BTreeMap::new() };
        for owner in state.owners().iter().filter(|owner| Owner::of(window.key, owner.key()) == **owner) {
            let Some(newest) = state.newest_of(owner) else { continue };
            let from = state
                .border(window.name.as_str(), owner, state.old.len())
                .map_or(newest + 1, |border| border.max(newest + 1));
            let until = common_start(from, window.kind, heir.map_or(window.kind, |heir| heir.kind));
            let after = state.fences.last(window.name.as_str(), owner);
            if after.is_none_or(|after| after + 1 < until) {
                old.borders.insert(owner.clone(), (until, after));
            }
            state.fences.shut(window.name.as_str(), owner, until - 1);
        }
        let cut = |key: &Key, cell: &mut Cell| {
            let owner = Owner::of(window.key, &key.2);
            cell.is_cut |= old.cuts(&owner, cell.end);
        };
        let of_window = |key: &Key| key.0 == name && key.1 == window.name.as_str();
        state.sessions.renumber(|key| of_window(key) && key.3 == 0, old.number);
        let live = state.sessions.live_mut().filter(|(key, _)| of_window(key) && key.3 == old.number);
        live.for_each(|(key, cell)| cut(key, cell));
        let is_its = |(key, cell): &(&Key, &mut Cell)| of_window(key) && cell.spec == *window;
        self.cells.iter_mut().filter(is_its).for_each(|(key, cell)| cut(key, cell));
        // Without any it has taken nothing.
        if !old.borders.is_empty() {
            state.old.push(old);
        }
    }

    /// What a window has open is published as it is, and nothing will come any more.
    fn end_window(&mut self, name: &str, window: &WindowSpec, number: i64) {
        let state = self.streams.get_mut(name).expect("it is there");
        let of_window = |key: &Key| key.0 == name && key.1 == window.name.as_str();
        let (spec, marks) = (Rc::clone(&state.spec), state.marks.clone());
        let passed = |key: &Key, cell: &Cell| {
            let watermark = marks.of(&spec, &Owner::of(window.key, &key.2));
            watermark.is_some_and(|watermark| watermark >= cell.end - 1)
        };
        for (key, cell) in state.sessions.live_mut().filter(|(key, _)| of_window(key) && key.3 == number) {
            (cell.fired, cell.undefined) = (passed(key, cell), true);
        }
        state.sessions.end_all(|key| of_window(key) && key.3 == number);
        let is_its = |(key, cell): &(&Key, &mut Cell)| of_window(key) && !cell.undefined && *cell.spec == *window;
        for (key, cell) in self.cells.iter_mut().filter(is_its) {
            (cell.fired, cell.undefined) = (passed(key, cell), true);
        }
        if number == 0 {
            state.books.windows.remove(window.name.as_str());
        }
    }

    /// Open windows go on under the definition of today. What has expired would open again where
    /// lateness has grown, or has no accumulators to add to.
    fn change_window(&mut self, name: &str, window: &WindowSpec, today: &WindowSpec) {
        let today = Rc::new(today.clone());
        let state = self.streams.get_mut(name).expect("it is there");
        let opens_again = today.lateness > window.lateness || (today.late.is_backfill() && !window.late.is_backfill());
        for owner in state.owners().iter().filter(|owner| Owner::of(window.key, owner.key()) == **owner) {
            if let Some(watermark) = state.marks.of(&state.spec, owner).filter(|_| opens_again) {
                state.fences.shut_expired(window, owner, watermark);
            }
        }
        let of_window = |key: &Key| key.0 == name && key.1 == window.name.as_str();
        let (spec, marks) = (Rc::clone(&state.spec), state.marks.clone());
        let change = |key: &Key, cell: &mut Cell| {
            let watermark = marks.of(&spec, &Owner::of(window.key, &key.2));
            if !cell.undefined && !cell.has_expired(watermark) {
                cell.spec = Rc::clone(&today);
            }
        };
        let live = state.sessions.live_mut().filter(|(key, _)| of_window(key) && key.3 == 0);
        live.for_each(|(key, cell)| change(key, cell));
        let is_its = |(key, cell): &(&Key, &mut Cell)| of_window(key) && *cell.spec == *window;
        self.cells.iter_mut().filter(is_its).for_each(|(key, cell)| change(key, cell));
    }
}
