//! Devices that fall idle, are there again, or end.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tidegate::engine::spec::{OnIdle, Scope};

use super::Oracle;
use super::cell::{Cell, Key};
use super::marks::{Member, Owner};

impl Oracle {
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
        let of_owner = state.numbered_windows().filter(|(_, window)| Owner::of(window.key, owner.key()) == *owner);
        let keys: Vec<Key> = of_owner
            .map(|(number, window)| (name.to_owned(), window.name.to_string(), owner.key().to_owned(), number))
            .collect();
        let names: BTreeSet<&String> = keys.iter().map(|key| &key.1).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let fixed = names.into_iter().flat_map(move |window| {
            let at = |time: i64| (name.to_owned(), window.clone(), owner.key().to_owned(), time);
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
                let in_group = |member: &Member| member.there && member.group.as_ref() == Some(group);
                state.marks.members.values().any(in_group)
            };
            let empty: Vec<String> = state.marks.groups.iter().filter(|group| !left(group)).cloned().collect();
            for group in empty {
                self.end_owner(&name, &Owner::Group(group.clone()));
                self.streams.get_mut(&name).expect("it is there").marks.groups.remove(&group);
            }
            let state = self.streams.get_mut(&name).expect("it is there");
            if state.marks.known() == 0 {
                // Nobody is left who could move a watermark.
                state.order.release_all();
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
