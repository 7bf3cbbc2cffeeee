//! One stream: who is let in, what is passed on, what comes twice.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;
use tidegate::engine::spec::{KeySpec, Records, Scope, StreamSpec, WindowSpec};
use tidegate::model::record::RejectReason;

use super::carried::Carried;
use super::cell::{Books, Cell, Key, Taken};
use super::copies::Copies;
use super::fences::Fences;
use super::marks::{Marks, Owner};
use super::order::{Fate, Order};
use super::redefine::Old;
use super::sessions::Sessions;
use super::values_of;

#[derive(Default)]
pub(super) struct Open {
    /// Those that may be open still, but for sessions.
    pub fixed: BTreeMap<Owner, Vec<Key>>,
}

pub(super) struct StreamState {
    pub spec: Rc<StreamSpec>,
    pub windows: Vec<Rc<WindowSpec>>,
    /// Definitions of before that finish, oldest first.
    pub old: Vec<Old>,
    /// Definitions so far that had to finish.
    pub numbers: i64,
    pub books: Books,
    pub marks: Marks,
    pub fences: Fences,
    pub order: Order,
    pub sessions: Sessions,
    /// Newest times of groups and of the stream, where they have windows.
    pub newest: BTreeMap<Owner, i64>,
    pub open: Open,
    copies: BTreeMap<String, Copies>,
    pub carried: Carried,
}

impl StreamState {
    pub(super) fn new(spec: &StreamSpec) -> StreamState {
        let mut state = StreamState {
            spec: Rc::new(spec.clone()),
            windows: Vec::new(),
            old: Vec::new(),
            numbers: 0,
            books: Books::default(),
            marks: Marks::default(),
            fences: Fences::default(),
            order: Order::default(),
            sessions: Sessions::default(),
            newest: BTreeMap::new(),
            copies: BTreeMap::new(),
            carried: Carried::default(),
            open: Open::default(),
        };
        state.set_spec(spec);
        state
    }

    pub(super) fn set_spec(&mut self, spec: &StreamSpec) {
        self.spec = Rc::new(spec.clone());
        if spec.carry_forward.is_none() {
            self.carried = Carried::default();
        }
        self.windows = spec.windows.iter().cloned().map(Rc::new).collect();
        for window in &spec.windows {
            self.books.windows.entry(window.name.to_string()).or_default();
        }
    }

    /// Every definition, those of before too.
    pub(super) fn all_windows(&self) -> impl Iterator<Item = &Rc<WindowSpec>> {
        self.numbered_windows().map(|(_, window)| window)
    }

    /// The same, with what stands for it in the keys of its sessions.
    pub(super) fn numbered_windows(&self) -> impl Iterator<Item = (i64, &Rc<WindowSpec>)> {
        self.old.iter().map(|old| (old.number, &old.spec)).chain(self.windows.iter().map(|window| (0, window)))
    }

    pub(super) fn sessions_into(&mut self, cells: &mut BTreeMap<Key, Cell>) -> Result<(), String> {
        core::mem::take(&mut self.sessions).end(cells)
    }

    /// Somebody asks for the groups of devices.
    fn has_groups(&self) -> bool {
        let by_group = |window: &WindowSpec| window.key == KeySpec::Group;
        matches!(self.spec.watermark.scope, Scope::Group(_)) || self.all_windows().any(|window| by_group(window))
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
        let newest = self.marks.members.get(record.device).and_then(|member| member.newest);
        let ahead = newest.zip(record.reading.at).map(|(newest, at)| at - newest);
        let copies = self.copies.entry(record.device.to_owned()).or_default();
        copies.is_copy(&self.spec, record, ahead, &mut self.books)
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

    pub(super) fn release_passed_of(&mut self, devices: &[&str]) {
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
        self.carried.forget(device);
    }
}
