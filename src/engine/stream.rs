//! One stream at work: record → windows → watermark → panes.
//!
//! The rules are those of Flink's `WindowOperator` (see docs/semantics.md and
//! the conformance corpus): a record meets its windows under the watermark as it
//! was before the record; then the watermark moves, and what it passes fires.

use std::collections::BTreeSet;

use crate::model::ids::DeviceId;
use crate::model::record::{Record, RejectReason, TimeSource};
use crate::model::time::{ClockQuality, EventTime, Now, Span};

use super::devices::DeviceTable;
use super::emit::{Emit, emit_late};
use super::fence::Fences;
use super::fields::FieldTable;
use super::ledger::{StreamLedger, WindowLedger};
use super::outbox::row::LateReason;
use super::scope::Members;
use super::spec::{OnIdle, Scope, Strategy, StreamSpec};
use super::timers::{IdleTimers, LiveTime};
use super::watermark::Watermark;
use super::window::pane::Accumulators;

/// State of one stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) spec: StreamSpec,
    pub(super) fields: FieldTable,
    pub(super) devices: DeviceTable,
    /// Scopes `shared` and `stream`: the one watermark.
    pub(super) shared: Watermark,
    /// Scope `stream`: the devices that decide about it.
    pub(super) members: Members,
    /// Scopes `shared` and `stream`: devices by the watermark at which a pane of theirs is due.
    pub(super) due: BTreeSet<(EventTime, u32)>,
    pub(super) timers: IdleTimers,
    pub(super) ledger: StreamLedger,
    pub(super) windows: Vec<WindowLedger>,
    pub(super) open_panes: usize,
    pub(super) spare: Vec<Accumulators>,
    pub(super) changes: Changes,
    pub(super) fences: Fences,
}

/// What a commit has to write.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Slots of devices that changed, each once, in order of their first change.
    pub devices: Vec<u32>,
    /// Panes that are gone: device, window, start.
    pub removed: Vec<(u32, u8, EventTime)>,
    /// Fields and devices before these are committed.
    pub fields_from: usize,
    /// See `fields_from`.
    pub devices_from: usize,
    /// A count of the ledger changed.
    pub ledger: bool,
}

impl Stream {
    /// A stream that has seen nothing.
    pub(super) fn new(spec: StreamSpec) -> Stream {
        let super::spec::FormatSpec::Json(fields) = &spec.format;
        Stream {
            fields: FieldTable::new(fields),
            devices: DeviceTable::default(),
            shared: Watermark::default(),
            members: Members::default(),
            due: BTreeSet::new(),
            timers: IdleTimers::default(),
            ledger: StreamLedger::default(),
            windows: vec![WindowLedger::default(); spec.windows.len()],
            open_panes: 0,
            spare: Vec::new(),
            changes: Changes::default(),
            fences: Fences::default(),
            spec,
        }
    }

    /// Counts something that is no record.
    pub(super) fn reject(&mut self, reason: RejectReason) {
        self.ledger.reject(reason);
        self.changes.ledger = true;
    }

    /// Counts a retained message that is state, not an event.
    pub(super) fn ignore(&mut self) {
        self.ledger.received += 1;
        self.ledger.ignored += 1;
        self.changes.ledger = true;
    }

    /// True for a retained message that tells nothing new: it has no time of its
    /// own, or one that is not newer than the device's newest record.
    pub(super) fn is_stale_state(&self, device: &str, at: EventTime, source: TimeSource) -> bool {
        let newest = || self.devices.get(self.devices.find(device)?).newest;
        source == TimeSource::Receive || newest().is_some_and(|newest| at <= newest)
    }

    /// State was lost: windows that are open may lack records.
    pub(super) fn mark_open_as_partial(&mut self) {
        for slot in self.all_slots() {
            let device = self.devices.get_mut(slot);
            for pane in &mut device.panes {
                pane.partial = true;
                pane.dirty = true;
            }
            if !device.panes.is_empty() {
                self.touch(slot);
            }
        }
    }

    /// Takes one record in.
    pub(super) fn accept(&mut self, out: &mut Emit<'_>, live: LiveTime, record: &Record<'_>) {
        self.changes.ledger = true;
        if self.is_from_the_future(out.now, record) {
            self.ledger.received += 1;
            self.ledger.future += 1;
            let ahead = out.now.wall.as_event_time().lag_behind(record.at);
            emit_late(out, &self.spec, None, &self.fields, record, LateReason::Future, ahead);
            return;
        }
        let slot = match self.devices.find_next(record.device) {
            Some(slot) => slot,
            None if self.devices.len() >= self.spec.devices_max => return self.reject(RejectReason::TooManyDevices),
            None => match DeviceId::new(record.device) {
                Some(name) => self.devices.add(&name),
                None => return self.reject(RejectReason::BadDevice),
            },
        };
        self.ledger.received += 1;
        self.ledger.accepted += 1;

        let before = self.watermark_of(slot);
        for window in 0..self.spec.windows.len() {
            self.add_to_window(out, slot, window, record, before);
        }
        let device = self.devices.get_mut(slot);
        device.newest = device.newest.max(Some(record.at));
        let Strategy::Bounded { disorder } = self.spec.watermark.strategy else { return };
        let own_before = device.watermark;
        let was_idle = core::mem::replace(&mut device.idle, false);
        let rises = match self.spec.watermark.scope {
            Scope::Device => device.watermark.observe(record.at, disorder),
            Scope::Shared => self.shared.observe(record.at, disorder),
            Scope::Stream(resume) | Scope::Group(resume) => {
                device.watermark.observe(record.at, disorder);
                let own = device.watermark;
                self.members.handle_record(slot, own_before, own, was_idle, resume, self.shared);
                self.shared.raise(self.members.combined())
            }
        };
        if let Some(timeout) = self.spec.watermark.idle_timeout {
            self.arm_idle(slot, live.plus(timeout + Span::MILLI));
        }
        self.touch(slot);
        if rises {
            self.fire_passed(out, slot);
        }
    }

    /// Turns devices idle whose deadline has come.
    pub(super) fn handle_idle(&mut self, out: &mut Emit<'_>, live: LiveTime) {
        let mut fell_idle = false;
        while let Some(slot) = self.timers.pop_due(live) {
            let device = self.devices.get_mut(slot);
            device.has_timer = false;
            if device.idle_at > live {
                let at = device.idle_at;
                self.arm_idle(slot, at);
                continue;
            }
            device.idle_at = LiveTime::NEVER;
            device.idle = true;
            let own = device.watermark;
            self.members.handle_idle(slot, own);
            fell_idle = true;
            self.ledger.idled += 1;
            self.changes.ledger = true;
            self.touch(slot);
            if self.spec.on_idle == OnIdle::Emit {
                self.emit_unseen(out, slot);
            }
        }
        // All that fall idle at one moment do so together, and then the rest decides.
        if fell_idle
            && matches!(self.spec.watermark.scope, Scope::Stream(_))
            && self.shared.raise(self.members.combined())
        {
            self.fire_shared(out);
        }
    }

    /// A device that exists before it has sent anything: under scope `stream` the
    /// watermark waits for it until it is idle.
    pub(super) fn register(&mut self, live: LiveTime, name: DeviceId) {
        if self.devices.find(name.as_str()).is_some() || self.devices.len() >= self.spec.devices_max {
            return;
        }
        let slot = self.devices.add(&name);
        self.devices.get_mut(slot).idle = false;
        self.members.add(slot, Watermark::default());
        if let Some(timeout) = self.spec.watermark.idle_timeout {
            self.arm_idle(slot, live.plus(timeout + Span::MILLI));
        }
        self.changes.ledger = true;
        self.touch(slot);
    }

    /// The end of a bounded input: every open window fires.
    pub(super) fn finish(&mut self, out: &mut Emit<'_>) {
        self.shared.raise(Watermark::END);
        for slot in self.all_slots() {
            self.devices.get_mut(slot).watermark.raise(Watermark::END);
            if self.spec.watermark.scope == Scope::Device {
                self.fire_due(out, slot, EventTime::MAX);
            }
            self.touch(slot);
        }
        if self.spec.watermark.scope != Scope::Device {
            self.fire_shared(out);
        }
    }

    pub(super) fn all_slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.devices.len()).expect("limits::DEVICES_MAX fits 32 bits")
    }

    /// The guard needs a clock that can be trusted.
    fn is_from_the_future(&self, now: Now, record: &Record<'_>) -> bool {
        let Some(max_future) = self.spec.max_future else { return false };
        now.quality == ClockQuality::Synced
            && record.source == TimeSource::Device
            && record.at > now.wall.as_event_time() + max_future
    }

    pub(super) fn watermark_of(&self, slot: u32) -> Watermark {
        match self.spec.watermark.scope {
            Scope::Device => self.devices.get(slot).watermark,
            Scope::Shared | Scope::Stream(_) | Scope::Group(_) => self.shared,
        }
    }

    pub(super) fn arm_idle(&mut self, slot: u32, at: LiveTime) {
        let device = self.devices.get_mut(slot);
        device.idle_at = at;
        if !device.has_timer {
            device.has_timer = true;
            self.timers.push(at, slot);
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, slot: u32) {
        let device = self.devices.get_mut(slot);
        if !device.dirty {
            device.dirty = true;
            self.changes.devices.push(slot);
        }
    }

    /// Everything so far is durable.
    pub(super) fn mark_committed(&mut self) {
        for slot in self.changes.devices.drain(..) {
            let device = self.devices.get_mut(slot);
            device.dirty = false;
            for pane in &mut device.panes {
                pane.dirty = false;
            }
        }
        self.changes.removed.clear();
        self.changes.fields_from = self.fields.names().len();
        self.changes.devices_from = self.devices.len();
        self.changes.ledger = false;
    }

    /// True when a commit would write nothing.
    pub(super) fn is_committed(&self) -> bool {
        !self.changes.ledger && self.changes.devices.is_empty() && self.changes.removed.is_empty()
    }
}
