//! The watermarks of one stream: strategies, scopes, groups, who is there.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::engine::spec::{AllIdle, KeySpec, Resume, Scope, Strategy, StreamSpec};

use super::lateness::Lateness;

/// Whose windows, fences and floors something is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Owner {
    Device(String),
    Group(String),
    Whole,
}

impl Owner {
    /// As in ids.
    pub(crate) fn key(&self) -> &str {
        match self {
            Owner::Device(name) | Owner::Group(name) => name,
            Owner::Whole => "*",
        }
    }

    /// What windows with `spec`'s key call `name`.
    pub(crate) fn of(key: KeySpec, name: &str) -> Owner {
        match key {
            KeySpec::Device => Owner::Device(name.to_owned()),
            KeySpec::Group => Owner::Group(name.to_owned()),
            KeySpec::Stream => Owner::Whole,
        }
    }
}

/// One device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// It has not been given up after `state_ttl`.
    pub there: bool,
    pub active: bool,
    /// Among those that decide about the watermark that it shares.
    counts: bool,
    pub own: Option<i64>,
    pub newest: Option<i64>,
    pub group: Option<String>,
    lateness: Lateness,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub members: BTreeMap<String, Member>,
    /// Groups that there are.
    pub groups: BTreeSet<String>,
    /// By group label; of the stream by the empty text.
    shared: BTreeMap<String, i64>,
    /// What an owner has seen of watermarks that were not, or are no longer, its own.
    pub floors: BTreeMap<Owner, i64>,
    /// Scope `shared`.
    newest: Option<i64>,
    lateness: Lateness,
}

impl Marks {
    /// The watermark under which windows are.
    pub(crate) fn of(&self, spec: &StreamSpec, owner: &Owner) -> Option<i64> {
        let shared = match (spec.watermark.scope, owner) {
            (Scope::Device, Owner::Device(name)) => return self.members.get(name)?.own,
            (Scope::Device, _) => return None,
            (Scope::Shared | Scope::Stream(_), _) => self.shared.get(""),
            (Scope::Group(_), Owner::Device(name)) => {
                let group =
                    self.members.get(name).filter(|member| member.there).and_then(|member| member.group.as_ref());
                group.and_then(|group| self.shared.get(group))
            }
            (Scope::Group(_), Owner::Group(label)) => self.shared.get(label),
            (Scope::Group(_), Owner::Whole) => None,
        };
        shared.max(self.floors.get(owner)).copied()
    }

    /// Whose order and watermark a device has part in: its own, that of its group or of all.
    pub(crate) fn scope_of(&self, spec: &StreamSpec, device: &str) -> String {
        match spec.watermark.scope {
            Scope::Device => device.to_owned(),
            Scope::Shared | Scope::Stream(_) => String::new(),
            Scope::Group(_) => self.members.get(device).and_then(|member| member.group.clone()).unwrap_or_default(),
        }
    }

    /// The watermark of such a scope.
    pub(crate) fn of_scope(&self, spec: &StreamSpec, scope: &str) -> Option<i64> {
        match spec.watermark.scope {
            Scope::Device => self.members.get(scope)?.own,
            Scope::Shared | Scope::Stream(_) | Scope::Group(_) => self.shared.get(scope).copied(),
        }
    }

    /// Somebody in the scope is active.
    pub(crate) fn is_anybody_active(&self, spec: &StreamSpec, scope: &str) -> bool {
        let in_scope = |name: &String| self.scope_of(spec, name) == scope;
        self.members.iter().any(|(name, member)| member.there && member.active && in_scope(name))
    }

    pub(crate) fn known(&self) -> usize {
        self.members.values().filter(|member| member.there).count()
    }

    pub(crate) fn is_known(&self, device: &str) -> bool {
        self.members.get(device).is_some_and(|member| member.there)
    }

    pub(crate) fn raise_floor(&mut self, owner: Owner, to: Option<i64>) {
        if let Some(to) = to {
            let floor = self.floors.entry(owner).or_insert(to);
            *floor = to.max(*floor);
        }
    }

    pub(crate) fn raise_own(&mut self, device: &str, to: Option<i64>) {
        if let Some(member) = self.members.get_mut(device) {
            member.own = member.own.max(to);
        }
    }

    pub(crate) fn raise_shared(&mut self, scope: &str, to: Option<i64>) {
        if let Some(to) = to {
            let before = self.shared.entry(scope.to_owned()).or_insert(to);
            *before = to.max(*before);
        }
    }

    /// A device is known from here on, and in that group.
    pub(crate) fn admit(&mut self, spec: &StreamSpec, device: &str, group: Option<&str>) {
        let member = self.members.entry(device.to_owned()).or_default();
        if !member.there {
            (member.there, member.active, member.counts, member.group) = (true, false, false, None);
        }
        let Some(group) = group.filter(|group| member.group.as_deref() != Some(*group)) else { return };
        let old = member.group.clone();
        let owner = Owner::Device(device.to_owned());
        let seen = self.of(spec, &owner);
        self.raise_floor(owner, seen);
        let member = self.members.get_mut(device).expect("it was just let in");
        (member.group, member.counts) = (Some(group.to_owned()), false);
        if matches!(spec.watermark.scope, Scope::Group(_)) {
            // The old group goes on without it; the new one moves with its record.
            if let Some(old) = old {
                self.judge(spec, &old);
                self.combine(spec, &old);
            }
            self.rejoin(spec, device);
        }
    }

    /// A record of a device that was let in.
    pub(crate) fn record(&mut self, spec: &StreamSpec, device: &str, at: i64, is_mark: bool) {
        let scope = self.scope_of(spec, device);
        let is_shared = spec.watermark.scope == Scope::Shared;
        let member = self.members.get_mut(device).expect("let in");
        let before = member.newest;
        member.newest = before.max(Some(at));
        member.active = true;
        let reached = match &spec.watermark.strategy {
            Strategy::Bounded { disorder } => Some(at - disorder.as_i64() - 1),
            Strategy::Adaptive { quantile, floor, ceiling } => {
                let (newest, lateness) =
                    if is_shared { (self.newest, &mut self.lateness) } else { (before, &mut member.lateness) };
                self.newest = self.newest.max(Some(at));
                lateness.note(newest.map_or(0, |newest| (newest - at).max(0)));
                let bound = lateness.bound(*quantile, floor.as_i64(), ceiling.as_i64());
                newest.max(Some(at)).map(|newest| newest - bound - 1)
            }
            Strategy::Punctuated { .. } => is_mark.then_some(at - 1),
            Strategy::Processing { .. } => None,
        };
        match spec.watermark.scope {
            Scope::Device => member.own = member.own.max(reached),
            Scope::Shared => self.raise_shared("", reached),
            Scope::Stream(_) | Scope::Group(_) => {
                member.own = member.own.max(reached);
                self.rejoin(spec, device);
                self.combine(spec, &scope);
            }
        }
    }

    /// Devices fall idle; see [`Marks::settle`].
    pub(crate) fn fall_idle(&mut self, devices: &[&str]) {
        for device in devices {
            if let Some(member) = self.members.get_mut(*device) {
                (member.active, member.counts) = (false, false);
            }
        }
    }

    /// They are said to be there, or heard to be.
    pub(crate) fn wake(&mut self, spec: &StreamSpec, devices: &[&str]) {
        for device in devices {
            self.members.get_mut(*device).expect("known").active = true;
            if matches!(spec.watermark.scope, Scope::Stream(_) | Scope::Group(_)) {
                self.rejoin(spec, device);
            }
        }
        self.settle(spec, devices);
    }

    /// Nothing is left of a device but where it stood.
    pub(crate) fn end(&mut self, spec: &StreamSpec, device: &str) {
        let scope = self.scope_of(spec, device);
        let member = self.members.get_mut(device).expect("known");
        (member.there, member.active, member.counts) = (false, false, false);
        member.lateness = Lateness::default();
        self.judge(spec, &scope);
    }

    /// What devices share goes on after some of them have changed.
    pub(crate) fn settle(&mut self, spec: &StreamSpec, devices: &[&str]) {
        if !matches!(spec.watermark.scope, Scope::Stream(_) | Scope::Group(_)) {
            return;
        }
        let scopes: BTreeSet<String> = devices.iter().map(|device| self.scope_of(spec, device)).collect();
        for scope in scopes {
            self.judge(spec, &scope);
            self.combine(spec, &scope);
        }
    }

    /// An active device counts from here on, if the rules let it.
    fn rejoin(&mut self, spec: &StreamSpec, device: &str) {
        let scope = self.scope_of(spec, device);
        let combined = self.shared.get(&scope).copied();
        let (Scope::Stream(resume) | Scope::Group(resume)) = spec.watermark.scope else { return };
        let member = self.members.get_mut(device).expect("known");
        member.counts = member.active && (resume == Resume::Hold || member.counts || member.own >= combined);
        self.judge(spec, &scope);
    }

    /// Who is too far behind the leader does not count.
    fn judge(&mut self, spec: &StreamSpec, scope: &str) {
        let (Scope::Stream(resume) | Scope::Group(resume)) = spec.watermark.scope else { return };
        let Some(max_lag) = spec.watermark.max_lag else { return };
        let by_group = matches!(spec.watermark.scope, Scope::Group(_));
        let in_scope = |member: &&mut Member| {
            member.there && member.active && (!by_group || member.group.as_deref() == Some(scope))
        };
        let mut active: Vec<&mut Member> = self.members.values_mut().filter(in_scope).collect();
        let Some(leader) = active.iter().filter_map(|member| member.own).max() else { return };
        for member in &mut active {
            let lags = member.own.is_none_or(|own| own + max_lag.as_i64() < leader);
            member.counts = !lags && (member.counts || resume == Resume::Hold);
        }
    }

    /// The watermark that a scope shares goes to the slowest of those that count; with
    /// none, to the fastest of all, or it stays.
    fn combine(&mut self, spec: &StreamSpec, scope: &str) {
        let by_group = matches!(spec.watermark.scope, Scope::Group(_));
        let in_scope = |member: &&Member| member.there && (!by_group || member.group.as_deref() == Some(scope));
        let members: Vec<&Member> = self.members.values().filter(in_scope).collect();
        let counted = members.iter().filter(|member| member.counts);
        let slowest = counted.map(|member| member.own).min();
        let to = match (slowest, spec.watermark.all_idle) {
            (Some(slowest), _) => slowest,
            (None, AllIdle::Advance) => members.iter().filter_map(|member| member.own).max(),
            (None, AllIdle::Stay) => None,
        };
        self.raise_shared(scope, to);
    }
}
