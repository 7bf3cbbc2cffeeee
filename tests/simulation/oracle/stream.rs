//! One stream: who is there, what is passed on, what becomes of a record in windows.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;
use tidegate::engine::spec::{
    KeySpec, LatePolicy, OnIdle, Records, Scope, Strategy, StreamSpec, WindowKind, WindowSpec,
};
use tidegate::model::record::RejectReason;
use tidegate::model::time::Span;

use super::cell::{Books, Cell, Key, Taken, WindowBooks};
use super::copies::Copies;
use super::fences::Fences;
use super::marks::{Marks, Owner};
use super::order::{Fate, Order};
use super::sessions::{Found, Rules, Sessions};
use super::windows::windows_of;
use super::{Oracle, note_late, values_of};

/// Open windows that a device, a group or the stream may have.
const OPEN_MAX: usize = 1_024;

#[derive(Default)]
pub(super) struct Open {
    /// Those that may be open still, but for sessions.
    fixed: BTreeMap<Owner, Vec<Key>>,
}

pub(super) struct StreamState {
    pub spec: Rc<StreamSpec>,
    pub windows: Vec<Rc<WindowSpec>>,
    pub books: Books,
    pub marks: Marks,
    pub fences: Fences,
    pub order: Order,
    pub sessions: Sessions,
    /// Newest times of groups and of the stream, where they have windows.
    pub newest: BTreeMap<Owner, i64>,
    copies: BTreeMap<String, Copies>,
    open: Open,
}

/// In ascending order: of several windows the best outcome counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Expired,
    Backfilled,
    Redefined,
    NoRoom,
    Taken,
}

impl StreamState {
    pub(super) fn new(spec: &StreamSpec) -> StreamState {
        let mut state = StreamState {
            spec: Rc::new(spec.clone()),
            windows: Vec::new(),
            books: Books::default(),
            marks: Marks::default(),
            fences: Fences::default(),
            order: Order::default(),
            sessions: Sessions::default(),
            newest: BTreeMap::new(),
            copies: BTreeMap::new(),
            open: Open::default(),
        };
        state.set_spec(spec);
        state
    }

    pub(super) fn set_spec(&mut self, spec: &StreamSpec) {
        self.spec = Rc::new(spec.clone());
        self.windows = spec.windows.iter().cloned().map(Rc::new).collect();
        for window in &spec.windows {
            self.books.windows.entry(window.name.to_string()).or_default();
        }
    }

    pub(super) fn sessions_into(&mut self, cells: &mut BTreeMap<Key, Cell>) -> Result<(), String> {
        core::mem::take(&mut self.sessions).end(cells)
    }

    /// Somebody asks for the groups of devices.
    fn has_groups(&self) -> bool {
        let by_group = |window: &WindowSpec| window.key == KeySpec::Group;
        matches!(self.spec.watermark.scope, Scope::Group(_)) || self.spec.windows.iter().any(by_group)
    }

    /// A record of a device has come; it may be a copy.
    pub(super) fn admit(&mut self, device: &str, group: &str) -> Result<(), RejectReason> {
        if !self.marks.is_known(device) && self.marks.known() >= self.spec.devices_max {
            return Err(RejectReason::TooManyDevices);
        }
        let group = if self.has_groups() { Some(group) } else { None };
        if let Some(group) = group.filter(|group| !self.marks.groups.contains(*group)) {
            if group.is_empty() {
                return Err(RejectReason::BadGroup);
            }
            if self.marks.groups.len() >= self.spec.devices_max {
                return Err(RejectReason::TooManyGroups);
            }
            self.marks.groups.insert(group.to_owned());
        }
        let spec = Rc::clone(&self.spec);
        let scope = self.marks.scope_of(&spec, device);
        self.marks.admit(&spec, device, group);
        if matches!(spec.watermark.scope, Scope::Group(_)) && self.marks.scope_of(&spec, device) != scope {
            self.release_passed(&scope);
            self.order.release_idle(&spec, &self.marks, &scope);
        }
        Ok(())
    }

    /// It was not seen before, as far as that can be told.
    pub(super) fn is_copy(&mut self, record: &Taken<'_>) -> bool {
        let Some(dedup) = &self.spec.dedup else { return false };
        let newest = self.marks.members.get(record.device).and_then(|member| member.newest);
        let copies = self.copies.entry(record.device.to_owned()).or_default();
        copies.is_copy(dedup, record, newest, &mut self.books)
    }

    /// A copy came: its device is there.
    pub(super) fn hear(&mut self, device: &str) {
        if !self.marks.members[device].active {
            self.wake(&[device]);
        }
    }

    pub(super) fn wake(&mut self, devices: &[&str]) {
        let spec = Rc::clone(&self.spec);
        self.marks.wake(&spec, devices);
        self.release_passed_of(devices);
    }

    fn release_passed_of(&mut self, devices: &[&str]) {
        for device in devices {
            let scope = self.marks.scope_of(&self.spec, device);
            self.release_passed(&scope);
        }
    }

    pub(super) fn release_passed(&mut self, scope: &str) {
        let watermark = self.marks.of_scope(&self.spec, scope);
        self.order.release_passed(scope, watermark);
    }

    /// What of a record is passed on; why not, if it is too late for that, and by how much.
    pub(super) fn pass_on(&mut self, record: &Taken<'_>) -> Option<(&'static str, i64)> {
        let source = if record.reading.at.is_none() { "receive" } else { "device" };
        let values = values_of(record, true);
        let row = json!([self.spec.name.as_str(), record.device, record.at, record.wall, source, values]).to_string();
        match self.spec.records {
            Records::Off => None,
            Records::Arrival => {
                self.order.pass_on_arrival(row);
                None
            }
            Records::Ordered { held_max } => {
                let scope = self.marks.scope_of(&self.spec, record.device);
                let watermark = self.marks.of_scope(&self.spec, &scope);
                match self.order.put(&scope, watermark, record.at, row, held_max) {
                    Fate::Held => None,
                    Fate::Late { behind } => Some(("late", behind)),
                    Fate::OutOfOrder { behind } => Some(("out_of_order", behind)),
                }
            }
        }
    }

    /// Everything that has a watermark, or windows: devices, groups, the stream.
    pub(super) fn owners(&self) -> Vec<Owner> {
        let devices = self.marks.members.keys().cloned().map(Owner::Device);
        let groups = self.marks.groups.iter().cloned().map(Owner::Group);
        let whole = self.newest.contains_key(&Owner::Whole).then_some(Owner::Whole);
        devices.chain(groups).chain(whole).collect()
    }

    /// The newest time that an owner has seen.
    pub(super) fn newest_of(&self, owner: &Owner) -> Option<i64> {
        match owner {
            Owner::Device(name) => self.marks.members.get(name)?.newest,
            Owner::Group(_) | Owner::Whole => self.newest.get(owner).copied(),
        }
    }

    pub(super) fn forget(&mut self, device: &str) {
        self.copies.remove(device);
    }
}

impl Oracle {
    pub(super) fn add_to_windows(&mut self, name: &str, record: &Taken<'_>) {
        let state = self.streams.get_mut(name).expect("it was there");
        let is_bare =
            record.reading.values.is_empty() && matches!(state.spec.watermark.strategy, Strategy::Punctuated { .. });
        for window in state.windows.clone() {
            let state = self.streams.get_mut(name).expect("it was there");
            let books = state.books.windows.get_mut(window.name.as_str()).expect("set with the spec");
            books.accepted += 1;
            if is_bare {
                books.no_window += 1;
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
            let watermark = state.marks.of(&state.spec, &owner);
            let outcome = match window.kind {
                WindowKind::Session { gap, max_length } => {
                    let (gap, max_length) = (gap.as_i64(), max_length.map(Span::as_i64));
                    let rules = Rules { spec: &window, gap, max_length, watermark };
                    Some(self.add_to_session(name, &owner, rules, record))
                }
                _ => self.add_to_fixed(name, &owner, &window, watermark, record),
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
        window: &Rc<WindowSpec>,
        watermark: Option<i64>,
        record: &Taken<'_>,
    ) -> Option<Outcome> {
        let passed = |end: i64| watermark.is_some_and(|watermark| watermark >= end - 1);
        let covering = windows_of(window.kind, record.at);
        let first_to_fire = covering.iter().rfind(|(_, end)| !passed(*end)).copied();
        let mut best = None;
        for (start, end) in covering {
            let outcome = self.add_to_one(name, owner, window, (start, end), watermark, record);
            let decides = outcome != Outcome::Taken || passed(end) || Some((start, end)) == first_to_fire;
            best = if decides { best.max(Some(outcome)) } else { best };
        }
        best
    }

    fn add_to_one(
        &mut self,
        name: &str,
        owner: &Owner,
        window: &Rc<WindowSpec>,
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
        let shut = state.fences.stop(window.name.as_str(), owner, start);
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
        self.cells.entry(key).or_insert_with(|| Cell::new(window, start, end)).add(record);
        Outcome::Taken
    }

    fn add_to_session(&mut self, name: &str, owner: &Owner, rules: Rules<'_>, record: &Taken<'_>) -> Outcome {
        let state = self.streams.get_mut(name).expect("it was there");
        let key: Key = (name.to_owned(), rules.spec.name.to_string(), owner.key().to_owned(), 0);
        let (start, end) = match state.sessions.touch(&key, record.at, rules) {
            Found::Expired => return Outcome::Expired,
            Found::Session(cell) => {
                cell.add(record);
                return Outcome::Taken;
            }
            Found::None { start, end } => (start, end),
        };
        if state.fences.stop(rules.spec.name.as_str(), owner, start) {
            return Outcome::Redefined;
        }
        if !self.has_room(name, owner, rules.watermark) {
            return Outcome::NoRoom;
        }
        let state = self.streams.get_mut(name).expect("it was there");
        state.sessions.open(&key, rules.spec, start, end).add(record);
        Outcome::Taken
    }

    /// For one more open window.
    fn has_room(&mut self, name: &str, owner: &Owner, watermark: Option<i64>) -> bool {
        let state = self.streams.get_mut(name).expect("it was there");
        let sessions = |state: &StreamState| {
            let of_owner = |window: &&Rc<WindowSpec>| Owner::of(window.key, owner.key()) == *owner;
            let key = |window: &Rc<WindowSpec>| (name.to_owned(), window.name.to_string(), owner.key().to_owned(), 0);
            let windows = state.windows.iter().filter(of_owner);
            windows
                .map(|window| state.sessions.live_of(&key(window)).filter(|cell| !cell.has_expired(watermark)).count())
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

    /// Every device that fell idle at one moment, of all streams.
    pub(super) fn fall_idle(&mut self, devices: &[(usize, String)]) {
        for (name, devices) in by_stream(devices) {
            self.fall_idle_in(&name, &devices);
        }
    }

    fn fall_idle_in(&mut self, name: &str, devices: &[&str]) {
        if self.streams[name].spec.on_idle == OnIdle::Close {
            for device in devices {
                // Its watermark goes to the end of its newest open window.
                let ends = self.open_of(name, &Owner::Device((*device).to_owned())).map(|cell| cell.end - 1).max();
                let state = self.streams.get_mut(name).expect("it was there");
                state.marks.raise_own(device, ends);
            }
        }
        let state = self.streams.get_mut(name).expect("it was there");
        let spec = Rc::clone(&state.spec);
        state.marks.fall_idle(devices);
        state.marks.settle(&spec, devices);
        state.release_passed_of(devices);
        for device in devices {
            let scope = state.marks.scope_of(&spec, device);
            state.order.release_idle(&spec, &state.marks, &scope);
        }
    }

    /// Windows of an owner that may be open.
    fn open_of(&self, name: &str, owner: &Owner) -> impl Iterator<Item = &Cell> {
        let state = &self.streams[name];
        let watermark = state.marks.of(&state.spec, owner);
        let of_owner = state.windows.iter().filter(|window| Owner::of(window.key, owner.key()) == *owner);
        let keys: Vec<Key> =
            of_owner.map(|window| (name.to_owned(), window.name.to_string(), owner.key().to_owned(), 0)).collect();
        let fixed = keys.clone().into_iter().flat_map(|key| {
            let at = |time: i64| (key.0.clone(), key.1.clone(), key.2.clone(), time);
            self.cells.range(at(i64::MIN)..=at(i64::MAX)).map(|(_, cell)| cell)
        });
        let sessions = keys.into_iter().flat_map(|key| state.sessions.live_of(&key).collect::<Vec<_>>());
        fixed.chain(sessions).filter(move |cell| !cell.undefined && !cell.has_expired(watermark))
    }

    pub(super) fn wake(&mut self, devices: &[(usize, String)]) {
        for (name, devices) in by_stream(devices) {
            self.streams.get_mut(&name).expect("a device of it is known").wake(&devices);
        }
    }

    /// Devices that were silent for `state_ttl`; those that were not idle are now.
    pub(super) fn end_devices(&mut self, gone: &[(usize, String, bool)]) {
        let all: Vec<_> = gone.iter().map(|(line, device, _)| (*line, device.clone())).collect();
        for (name, devices) in by_stream(&all) {
            for device in &devices {
                self.end_owner(&name, &Owner::Device((*device).to_owned()));
            }
            let state = &self.streams[&name];
            let awake: Vec<&str> =
                devices.iter().copied().filter(|device| state.marks.members[*device].active).collect();
            if !awake.is_empty() {
                self.fall_idle_in(&name, &awake);
            }
            let state = self.streams.get_mut(&name).expect("a device of it was known");
            let spec = Rc::clone(&state.spec);
            for device in &devices {
                state.marks.end(&spec, device);
                state.forget(device);
                state.books.expired += 1;
            }
            let left = |group: &String| {
                let in_group = |member: &super::marks::Member| member.there && member.group.as_ref() == Some(group);
                state.marks.members.values().any(in_group)
            };
            let empty: Vec<String> = state.marks.groups.iter().filter(|group| !left(group)).cloned().collect();
            for group in empty {
                self.end_owner(&name, &Owner::Group(group.clone()));
                self.streams.get_mut(&name).expect("it is there").marks.groups.remove(&group);
            }
        }
    }

    /// Finishes what it has open: as if its watermark had got there.
    fn end_owner(&mut self, name: &str, owner: &Owner) {
        let over = self.open_of(name, owner).map(|cell| cell.end - 1 + cell.spec.lateness.as_i64()).max();
        let state = self.streams.get_mut(name).expect("it is there");
        let spec = Rc::clone(&state.spec);
        let seen = state.marks.of(&spec, owner);
        let ordered = state.order.last_of(owner.key());
        match (spec.watermark.scope, owner) {
            (Scope::Device, Owner::Device(device)) => {
                state.marks.raise_own(device, over.max(ordered));
                state.release_passed(device);
            }
            (Scope::Group(_), Owner::Group(group)) => {
                state.marks.raise_shared(group, over.max(ordered));
                state.release_passed(group);
            }
            _ => state.marks.raise_floor(owner.clone(), seen.max(over)),
        }
    }
}

/// Devices by the name of their stream.
fn by_stream(devices: &[(usize, String)]) -> BTreeMap<String, Vec<&str>> {
    let mut streams = BTreeMap::<String, Vec<&str>>::new();
    for (line, device) in devices {
        streams.entry(format!("stream{line}")).or_default().push(device);
    }
    streams
}
