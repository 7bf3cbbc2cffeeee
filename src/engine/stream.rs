//! One stream at work: record → windows → watermark → panes.
//!
//! The rules are those of Flink's `WindowOperator` (see docs/semantics.md and
//! the conformance corpus): a record meets its windows under the watermark as it
//! was before the record; then the watermark moves, and what it passes fires.

use std::collections::BTreeSet;

use crate::model::ids::{DeviceId, FieldIx};
use crate::model::limits::DEVICES_COST_MAX;
use crate::model::record::{Record, RejectReason, TimeSource};
use crate::model::time::{ClockQuality, EventTime, Now, ProcTime, Span};

use super::Canary;
use super::additions::Additions;
use super::backfill::Backfill;
use super::calculations::Calculations;
use super::carry::Carry;
use super::dedup::Dedup;
use super::devices::{self, DeviceTable, SlotKind};
use super::emit::{Emit, emit_late};
use super::fence::Fences;
use super::fields::FieldTable;
use super::groups;
use super::ledger::{RecordsLedger, StreamLedger, WindowLedger};
use super::ordered::Ordered;
use super::outbox::row::LateReason;
use super::retire::Retiring;
use super::samples::Sampling;
use super::scope::Common;
use super::spec::{KeySpec, Scope, Strategy, StreamSpec};
use super::timers::{IdleTimers, LiveTime};
use super::tombstones::Tombstones;
use super::watermark::Watermark;
use super::watermark::adaptive::Histogram;
use super::window::calendar::Calendar;
use super::window::pane::Accumulators;

/// State of one stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) spec: StreamSpec,
    pub(super) fields: FieldTable,
    pub(super) devices: DeviceTable,
    /// Scopes `shared` and `stream`: the one watermark.
    pub(super) shared: Watermark,
    /// Scopes `shared` and `stream`: what the devices have in common.
    pub(super) common: Common,
    /// Scope `shared` with strategy `adaptive`: the highest accepted event time.
    pub(super) newest: Option<EventTime>,
    /// As above: how late records were.
    pub(super) lateness: Option<Box<Histogram>>,
    /// Strategy `punctuated`: the field that is the mark.
    pub(super) marker: Option<FieldIx>,
    /// Each device is in a group, by its label.
    pub(super) has_groups: bool,
    /// Something asks for labels.
    pub(super) has_labels: bool,
    pub(super) calculations: Calculations,
    pub(super) timers: IdleTimers,
    /// The same for `state_ttl`.
    pub(super) expiry: IdleTimers,
    /// What is left of devices that were silent for so long.
    pub(super) tombstones: Tombstones,
    /// Devices with panes that are shown by the clock; see `shows.rs`.
    pub(super) shows: BTreeSet<(ProcTime, u32)>,
    pub(super) backfill: Backfill,
    /// Of the calendar windows, by window.
    pub(super) calendars: Vec<Option<Calendar>>,
    pub(super) ledger: StreamLedger,
    pub(super) windows: Vec<WindowLedger>,
    /// The books of the readings that are passed on.
    pub(super) records: RecordsLedger,
    /// By what copies of a reading are recognised.
    pub(super) dedup: Dedup,
    /// What devices said last.
    pub(super) carry: Carry,
    /// Readings that wait for the watermark.
    pub(super) ordered: Ordered,
    pub(super) open_panes: usize,
    pub(super) spare: Vec<Accumulators>,
    pub(super) changes: Changes,
    pub(super) fences: Fences,
    /// Of the last windows of the spec, which are not of the configuration any more.
    pub(super) retiring: Vec<Retiring>,
    /// Of what is rejected. Not stored: a start samples anew.
    pub(super) sampling: Sampling,
}

/// The fields that have a place from the start, and the one that is the mark.
pub(super) fn fields_of(spec: &StreamSpec) -> (FieldTable, Option<FieldIx>) {
    let mut fields = FieldTable::new(&spec.mapping.fields);
    for (name, _) in &spec.rules.compute {
        fields.intern(name.as_str());
    }
    let marker = match &spec.watermark.strategy {
        Strategy::Punctuated { field } => fields.intern(field.as_str()),
        Strategy::Bounded { .. } | Strategy::Adaptive { .. } | Strategy::Processing { .. } => None,
    };
    (fields, marker)
}

/// What a commit has to write.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Slots of devices that changed, each once, in order of their first change.
    pub devices: Vec<u32>,
    /// What was added to panes.
    pub additions: Additions,
    /// Panes that are gone: device, window, start.
    pub removed: Vec<(u32, u8, EventTime)>,
    /// Fields before this one are committed.
    pub fields_from: usize,
    /// See `fields_from`.
    pub states_from: usize,
    /// A count of the ledger changed.
    pub ledger: bool,
}

impl Stream {
    /// A stream that has seen nothing.
    pub(super) fn new(spec: StreamSpec) -> Stream {
        let (fields, marker) = fields_of(&spec);
        Stream {
            fields,
            marker,
            newest: None,
            lateness: None,
            devices: DeviceTable::default(),
            shared: Watermark::default(),
            common: Common::default(),
            has_groups: groups::are_used(&spec),
            has_labels: groups::use_labels(&spec),
            calculations: Calculations::new(&spec.rules),
            timers: IdleTimers::default(),
            expiry: IdleTimers::default(),
            tombstones: Tombstones::default(),
            shows: BTreeSet::new(),
            backfill: Backfill::default(),
            calendars: calendars_of(&spec),
            ledger: StreamLedger::default(),
            windows: vec![WindowLedger::default(); spec.windows.len()],
            records: RecordsLedger::default(),
            dedup: Dedup::new(spec.dedup.clone()),
            carry: Carry::default(),
            ordered: Ordered::default(),
            open_panes: 0,
            spare: Vec::new(),
            changes: Changes::default(),
            fences: Fences::default(),
            retiring: Vec::new(),
            sampling: Sampling::default(),
            spec,
        }
    }

    /// Counts something that is no record.
    pub(super) fn reject(&mut self, reason: RejectReason) {
        self.ledger.reject(reason);
        self.sampling.note(reason);
        self.changes.ledger = true;
    }

    /// Counts a retained message that is state, not an event.
    pub(super) fn ignore(&mut self) {
        self.ledger.received += 1;
        self.ledger.ignored += 1;
        self.changes.ledger = true;
    }

    /// Counts a record that the stream's filter passes over.
    pub(super) fn filter(&mut self) {
        self.ledger.received += 1;
        self.ledger.filtered += 1;
        self.changes.ledger = true;
    }

    /// True for a retained message that tells nothing new: it has no time of its
    /// own, or one that is not newer than the device's newest record.
    pub(super) fn is_stale_state(&self, device: &str, at: EventTime, source: TimeSource) -> bool {
        let newest = || match self.devices.find(device) {
            Some(slot) => self.devices.get(slot).newest(),
            None => self.tombstones.get(SlotKind::Device, device)?.newest,
        };
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
        let Backfill { bursts, changed, .. } = &mut self.backfill;
        for (key, burst) in bursts {
            for delta in &mut burst.deltas {
                delta.partial = true;
                delta.dirty = true;
            }
            changed.insert(*key);
        }
    }

    /// The calendar of a window of that kind.
    pub(super) fn calendar(&self, window: usize) -> &Calendar {
        self.calendars[window].as_ref().expect("made with the spec")
    }

    /// When the clock alone next emits something of this stream, idleness aside.
    #[inline]
    pub(super) fn next_by_clock(&self) -> Option<ProcTime> {
        let show = self.shows.first().map(|(at, _)| *at);
        match (show, self.backfill.earliest()) {
            (Some(show), Some(delta)) => Some(show.min(delta)),
            (show, delta) => show.or(delta),
        }
    }

    /// Takes one record in. `sent`: without what is carried forward and computed.
    pub(super) fn accept(&mut self, out: &mut Emit<'_>, live: LiveTime, record: &Record<'_>, sent: &Record<'_>) {
        if self.marker.is_some() {
            self.accept_marked(out, live, record, sent);
        } else {
            self.take_in(out, live, record, sent, false);
        }
    }

    /// Takes one record in without its mark. `is_mark`: see `Strategy::Punctuated`.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        out: &mut Emit<'_>,
        live: LiveTime,
        record: &Record<'_>,
        sent: &Record<'_>,
        is_mark: bool,
    ) {
        self.changes.ledger = true;
        if self.is_from_the_future(out.now, record) {
            self.ledger.received += 1;
            self.ledger.future += 1;
            let ahead = out.now.wall.as_event_time().lag_behind(record.at);
            emit_late(out, &self.spec, None, &self.fields, record, LateReason::Future, ahead);
            return;
        }
        let slot = match self.admit(out, record) {
            Ok(slot) => slot,
            Err(reason) => return self.reject(reason),
        };
        if self.is_duplicate(slot, sent) && out.canary != Some(Canary::CountDuplicates) {
            return self.hear_duplicate(out, live, slot);
        }
        self.ledger.received += 1;
        self.ledger.accepted += 1;
        if self.spec.carry_forward.is_some() {
            self.remember(out, slot, sent);
        }

        self.pass_on(out, slot, record);
        self.add_to_windows(out, slot, record);
        let rises = self.advance(slot, record.at, is_mark);
        if let Some(timeout) = self.spec.watermark.idle_timeout {
            self.arm_idle(slot, live.plus(timeout + Span::MILLI));
        }
        self.arm_expiry(slot, live);
        self.touch(slot);
        if rises {
            self.fire_passed(out, slot);
        }
    }

    /// As [`Stream::add_to_windows`]; every value counts.
    #[inline]
    pub(super) fn add_values_to_windows(&mut self, out: &mut Emit<'_>, slot: u32, record: &Record<'_>) {
        let before = self.watermark_of(slot);
        if let Some(taps) = &mut out.taps
            && taps.wants.records
        {
            let group = self.devices.get(slot).group;
            let before = [slot, group.unwrap_or(slot)].map(|slot| self.watermark_of(slot));
            taps.note_record(record, before, &self.fields);
        }
        for window in 0..self.spec.windows.len() {
            if self.marker.is_some() && record.values.is_empty() && record.states.is_empty() {
                // Nothing but a mark: there is nothing to put into a window.
                if window < self.defined() {
                    self.windows[window].accepted += 1;
                    self.windows[window].no_window += 1;
                }
                continue;
            }
            let (slot, before) = match self.spec.windows[window].key {
                KeySpec::Device => (slot, before),
                key @ (KeySpec::Group | KeySpec::Stream) => self.shared_key(key, slot, record.at),
            };
            self.add_to_window(out, slot, window, record, before);
        }
    }

    /// The slot of the record's device, which is in the group that the record says.
    #[inline]
    fn admit(&mut self, out: &mut Emit<'_>, record: &Record<'_>) -> Result<u32, RejectReason> {
        let known = self.devices.find_next(record.device);
        if known.is_none() && self.devices.device_count() >= self.spec.devices_max {
            return Err(RejectReason::TooManyDevices);
        }
        let group = if self.has_groups { Some(self.group_slot(out, record.group)?) } else { None };
        let slot = match known {
            Some(slot) => slot,
            None => self.add_device(out.device_cost, record.device)?,
        };
        if let Some(group) = group
            && self.devices.get(slot).group != Some(group)
        {
            self.move_to_group(out, slot, group);
        }
        Ok(slot)
    }

    /// Charges a new device or group; `None` when there is no room for it.
    pub(super) fn take_room(&self, device_cost: &mut usize, name: &DeviceId) -> Option<()> {
        let cost = *device_cost + devices::cost_of(name.as_str().len(), self.measures_each_device());
        (cost <= DEVICES_COST_MAX).then(|| *device_cost = cost)
    }

    /// What its devices and groups, and what is left of some, take of a snapshot, without their windows.
    pub(super) fn device_cost(&self) -> usize {
        let adaptive = self.measures_each_device();
        let devices: usize =
            self.devices.occupied().map(|slot| devices::cost_of(self.devices.name(slot).len(), adaptive)).sum();
        devices + self.tombstones.len() * devices::TOMBSTONE_COST
    }

    pub(super) fn measures_each_device(&self) -> bool {
        matches!(self.spec.watermark.strategy, Strategy::Adaptive { .. })
    }

    /// The end of a bounded input: every open window fires.
    pub(super) fn finish(&mut self, out: &mut Emit<'_>) {
        self.shared.raise(Watermark::END);
        let occupied: Vec<u32> = self.devices.occupied().collect();
        for slot in occupied {
            let device = self.devices.get_mut(slot);
            device.watermark.raise(Watermark::END);
            device.floor.raise(Watermark::END);
            if self.spec.watermark.scope == Scope::Device {
                self.release_passed(out, slot);
                self.fire_due(out, slot, EventTime::MAX);
            }
            self.touch(slot);
        }
        if self.spec.watermark.scope != Scope::Device {
            self.fire_all(out);
        }
        self.emit_all_deltas(out);
    }

    pub(super) fn all_slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.devices.len()).expect("limits::DEVICES_MAX fits 32 bits")
    }

    /// The guard needs a clock that can be trusted. A receive time may be ahead of now only
    /// where a device without a clock counted forward.
    pub(super) fn is_from_the_future(&self, now: Now, record: &Record<'_>) -> bool {
        let Some(max_future) = self.spec.max_future else { return false };
        now.quality == ClockQuality::Synced && record.at > now.wall.as_event_time() + max_future
    }

    /// The watermark under which the windows of a slot are.
    #[inline]
    pub(super) fn watermark_of(&self, slot: u32) -> Watermark {
        let device = self.devices.get(slot);
        match self.spec.watermark.scope {
            Scope::Device => device.watermark,
            Scope::Shared | Scope::Stream(_) => self.shared.max(device.floor),
            Scope::Group(_) => {
                let common = self.group_of(slot).map(|group| self.devices.get(group).watermark);
                common.unwrap_or_default().max(device.floor)
            }
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
                pane.noted = false;
            }
        }
        self.changes.additions.clear();
        self.ordered.mark_committed();
        self.dedup.mark_committed();
        self.carry.mark_committed();
        self.backfill.mark_committed();
        self.changes.removed.clear();
        self.changes.fields_from = self.fields.names().len();
        self.changes.states_from = self.fields.states().texts().len();
        self.devices.mark_committed();
        self.tombstones.mark_committed();
        self.changes.ledger = false;
    }

    /// True when a commit would write nothing.
    pub(super) fn is_committed(&self) -> bool {
        !self.changes.ledger
            && self.changes.devices.is_empty()
            && self.changes.removed.is_empty()
            && self.ordered.is_committed()
            && self.backfill.changed.is_empty()
    }
}

/// What the calendar windows of a stream go by.
pub(super) fn calendars_of(spec: &StreamSpec) -> Vec<Option<Calendar>> {
    spec.windows.iter().map(|window| window.kind.calendar()).collect()
}
