//! From stored bytes to a running engine under the configuration of today.
//!
//! A snapshot is read under the definitions that it carries, its pages are
//! applied, and only then the result is fitted to the configuration: streams by
//! name, windows by name, size and offset. What no longer has a definition is
//! emitted as it is, marked `partial`, rather than lost.

use crate::model::ids::FieldIx;
use crate::model::time::{EventTime, Now, ProcTime, Span};

use super::Engine;
use super::broker::Broker;
use super::calculations::Calculations;
use super::decode::Decoder;
use super::emit::{Emit, emit_pane};
use super::fence::Fences;
use super::fields::FieldTable;
use super::groups;
use super::join::Joins;
use super::outbox::Outbox;
use super::outbox::row::PaneKind;
use super::rearm::rearm;
use super::records::shed_held;
use super::redelivery::Redelivery;
use super::snapshot::{self, Definition, Extent};
use super::spec::{PipelineSpec, Scope, Strategy, StreamSpec, WatermarkSpec, WindowKind, WindowSpec};
use super::stream::{Stream, calendars_of, fields_of};
use super::timers::{Clocks, IdleClock};
use super::ttl::fit_tombstones;
use super::watermark::Watermark;
use super::wire::{Damaged, Reader};

impl Engine {
    /// Reads a snapshot. Returns the engine as it was, under the definitions of then.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are not a snapshot of a known version.
    pub(super) fn read_snapshot(spec: &PipelineSpec, bytes: &[u8]) -> Result<Engine, Damaged> {
        let mut reader = snapshot::open(bytes)?;
        let broker = Some(spec.broker.unwrap_or_default());
        let mut engine = Engine::new(PipelineSpec { streams: Vec::new(), joins: Vec::new(), broker, ..spec.clone() });
        engine.partial_before = reader.time()?;
        engine.redelivery = Redelivery::default();
        engine.redelivery.read(&mut reader)?;
        engine.outbox = Outbox::read_all(&mut reader, spec.outbox, spec.uplink)?;
        for _ in 0..reader.u64()? {
            let definition = snapshot::read_definition(&mut reader)?;
            let mut stream = Stream::new(spec_of(definition, spec).ok_or(Damaged)?);
            stream.fields = FieldTable::default();
            snapshot::read_section(&mut reader, &mut stream, Clocks::default(), Extent::Whole)?;
            // Of today's format: it forgets what another one has kept.
            let mut decoder = Decoder::of(&stream.spec, spec);
            decoder.read(&mut reader, Extent::Whole)?;
            engine.decoders.push(decoder);
            engine.streams.push(stream);
        }
        engine.joins = Joins::read_all(&mut reader, &engine.streams)?;
        if !reader.is_empty() {
            for stream in &mut engine.streams {
                stream.fences = Fences::read(&mut reader)?;
            }
        }
        read_broker(engine.broker.as_mut(), &mut reader, ProcTime::default())?;
        if reader.is_empty() { Ok(engine) } else { Err(Damaged) }
    }

    /// Applies a page on top.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are not a page that follows.
    pub(super) fn apply_page(&mut self, bytes: &[u8]) -> Result<(), Damaged> {
        let mut reader = snapshot::open(bytes)?;
        let (live, proc) = (Span::from_millis(reader.u64()?), Span::from_millis(reader.u64()?));
        let written = Clocks { live: self.stored_at.live.plus(live), proc: self.stored_at.proc + proc };
        self.stored_at = written;
        self.partial_before = reader.time()?;
        self.redelivery.read(&mut reader)?;
        self.outbox.apply_changes(&mut reader)?;
        for (stream, decoder) in self.streams.iter_mut().zip(&mut self.decoders) {
            if reader.u8()? == 1 {
                snapshot::read_section(&mut reader, stream, written, Extent::Changes)?;
                decoder.read(&mut reader, Extent::Changes)?;
            }
        }
        self.joins.apply_changes(&mut reader, written.live)?;
        read_broker(self.broker.as_mut(), &mut reader, written.proc)?;
        if reader.is_empty() { Ok(()) } else { Err(Damaged) }
    }

    /// Fits what was restored to the configuration. Returns true when anything
    /// differs, so that the next pages need a new snapshot to refer to.
    pub(super) fn fit(&mut self, spec: PipelineSpec, now: Now) -> bool {
        let stored = core::mem::take(&mut self.streams);
        let mut changed = stored.len() != spec.streams.len();
        let mut streams: Vec<Option<Stream>> = spec.streams.iter().map(|_| None).collect();
        let mut decoders: Vec<_> = spec.streams.iter().map(|stream| Decoder::of(stream, &spec)).collect();
        let remembering = core::mem::take(&mut self.decoders);
        for (place, (mut old, decoder)) in stored.into_iter().zip(remembering).enumerate() {
            let target = spec.streams.iter().position(|stream| stream.name == old.spec.name);
            changed |= target != Some(place);
            let wanted = target.map(|target| &spec.streams[target]);
            changed |= wanted.is_none_or(|wanted| !same_definition(wanted, &old.spec));
            let mut out = Emit {
                now,
                outbox: &mut self.outbox,
                uplink_up: false,
                partial_before: None,
                open_cost: &mut self.open_cost,
                device_cost: &mut self.device_cost,
                carry_cost: &mut self.carry_cost,
                // What has no definition any more is in no join.
                taps: None,
                canary: None,
            };
            if let Some(wanted) = wanted {
                set_fences(&mut old, wanted);
            }
            drain_undefined(&mut out, &mut old, wanted);
            changed |= shed_held(&mut out, &mut old, wanted);
            if let (Some(target), Some(wanted)) = (target, wanted) {
                let names = old.fields.names().to_vec();
                let stream = fitted(old, wanted.clone());
                // Pages refer to fields by number, under the snapshot's names.
                changed |= stream.fields.names() != names;
                streams[target] = Some(stream);
                decoders[target] = decoder;
            }
        }
        changed |= streams.iter().any(Option::is_none);
        self.streams = streams
            .into_iter()
            .zip(&spec.streams)
            .map(|(stream, wanted)| stream.unwrap_or_else(|| Stream::new(wanted.clone())))
            .collect();
        self.decoders = decoders;
        if spec.broker.is_none() {
            // Without a listener its clients are forgotten, and for good: the next one begins anew.
            changed |= self.broker.take().is_some_and(|broker| !broker.is_empty());
        }
        if let Some(broker) = &mut self.broker {
            broker.after_restore(now, self.stored_at.proc);
        }
        self.follows_clock = spec.follows_clock();
        self.spec = spec;
        self.outbox.set_now(now);
        self.seen = Some(now);
        // The clocks go on from where they were when the last page was written.
        let restored = Clocks { proc: now.proc, ..self.stored_at };
        let stored_at = core::mem::replace(&mut self.stored_at, restored);
        self.idle_clock = IdleClock::stopped_at(restored.live);
        changed |= self.fit_joins(now);
        for index in 0..self.streams.len() {
            let cost = rearm(&mut self.streams[index], stored_at, now.proc);
            self.open_cost += cost;
            self.device_cost += self.streams[index].device_cost();
            self.carry_cost += self.streams[index].carry.cost();
            // Nobody knows yet whether there is an uplink.
            let (stream, mut out, _) = self.parts(index, now);
            fire_overtaken(&mut out, stream);
            drop_passed_fences(stream);
            changed |= !stream.is_committed();
            self.collect_for_joins(now, index);
        }
        self.look_at_joins(now, false);
        changed |= !self.joins.is_committed();
        changed
    }
}

/// What stands last, where there was a listener.
fn read_broker(broker: Option<&mut Broker>, reader: &mut Reader<'_>, written: ProcTime) -> Result<(), Damaged> {
    match broker.filter(|_| !reader.is_empty()) {
        Some(broker) => broker.read(reader, written),
        None => Ok(()),
    }
}

/// The spec under which stored state is read: the definition of then, and
/// whatever else the stream has today.
fn spec_of(definition: Definition, spec: &PipelineSpec) -> Option<StreamSpec> {
    let today = spec.streams.iter().find(|stream| stream.name == definition.name);
    let mut then = today.cloned().or_else(|| StreamSpec::retired(&definition.name))?;
    then.name = definition.name;
    then.windows = definition.windows;
    then.watermark.scope = definition.scope;
    Some(then)
}

fn same_definition(wanted: &StreamSpec, stored: &StreamSpec) -> bool {
    let windows = |spec: &StreamSpec| {
        spec.windows
            .iter()
            .map(|window| {
                let WindowSpec { name, kind, key, lateness, late, aggregates, .. } = window.clone();
                (name, kind, key, lateness, late, aggregates)
            })
            .collect::<Vec<_>>()
    };
    wanted.watermark.scope == stored.watermark.scope && windows(wanted) == windows(stored)
}

/// Where a stored window is among the wanted ones.
fn window_target(stored: &StreamSpec, window: usize, wanted: &StreamSpec) -> Option<usize> {
    let old = &stored.windows[window];
    wanted.windows.iter().position(|new| new.name == old.name && new.kind == old.kind && new.key == old.key)
}

/// Shuts the windows that would be opened a second time under the id of the first.
fn set_fences(old: &mut Stream, wanted: &StreamSpec) {
    for (window, stored) in old.spec.windows.iter().enumerate() {
        let target = window_target(&old.spec, window, wanted).map(|target| &wanted.windows[target]);
        for slot in old.devices.occupied().collect::<Vec<_>>() {
            let until = match target {
                // All that has records may have been reported.
                None => old.devices.get(slot).newest(),
                // It may open again, or results without its accumulators were published.
                Some(today) if today.lateness > stored.lateness || backfills_anew(stored, today) => {
                    last_expired(old.watermark_of(slot), stored)
                }
                Some(_) => None,
            };
            if let Some(until) = until {
                old.fences.shut(&stored.name, slot, until);
            }
        }
    }
}

/// Whether deltas could not be added to what was published under `stored`.
fn backfills_anew(stored: &WindowSpec, today: &WindowSpec) -> bool {
    today.late.is_backfill() && (!stored.late.is_backfill() || stored.aggregates != today.aggregates)
}

/// A start at or before which every window has expired, and no later one.
fn last_expired(watermark: Watermark, spec: &WindowSpec) -> Option<EventTime> {
    let reached = watermark.time()? + Span::MILLI - spec.lateness;
    Some(match spec.kind {
        WindowKind::Tumbling { size, .. } | WindowKind::Sliding { size, .. } => reached - size,
        WindowKind::Session { gap, max_length: None } => reached - gap,
        // One that was cut short may have been opened until then.
        WindowKind::Session { max_length: Some(_), .. } => reached - Span::MILLI,
        WindowKind::Calendar { .. } => spec.kind.calendar()?.assign(reached).start - Span::MILLI,
    })
}

/// Where a window ends that starts at `start` at the latest.
fn end_after(start: EventTime, kind: WindowKind) -> EventTime {
    kind.calendar().map_or(start + kind.length(), |calendar| calendar.assign(start).end)
}

/// What is behind a fence goes to lane `late` anyhow once its window has expired; but
/// where deltas are made, the fence goes on keeping them from results that they do not fit.
fn drop_passed_fences(stream: &mut Stream) {
    let mut fences = core::mem::take(&mut stream.fences);
    fences.retain(|window, slot, until| {
        let spec = stream.spec.windows.iter().find(|spec| spec.name == *window);
        spec.is_none_or(|spec| {
            let end = end_after(until, spec.kind);
            spec.late.is_backfill() || !stream.watermark_of(slot).has_expired(end, spec.lateness)
        })
    });
    stream.fences = fences;
}

/// Emits the panes whose window is no longer defined, marked `partial`, and its deltas.
fn drain_undefined(out: &mut Emit<'_>, old: &mut Stream, wanted: Option<&StreamSpec>) {
    let occupied: Vec<u32> = old.devices.occupied().collect();
    for slot in occupied {
        let name = old.devices.id(slot);
        let watermark = old.watermark_of(slot);
        let mut panes = core::mem::take(&mut old.devices.get_mut(slot).panes);
        panes.retain_mut(|pane| {
            let window = usize::from(pane.window);
            let target = wanted.and_then(|wanted| window_target(&old.spec, window, wanted));
            // Of those that have fired, what waits to be shown together.
            if target.is_none() && (!pane.fired || pane.unseen) {
                pane.partial = true;
                let kind = if pane.fired { PaneKind::Late } else { PaneKind::OnTime };
                emit_pane(out, &old.spec, &old.fields, name.as_str(), pane, kind, watermark);
            }
            target.is_some()
        });
        old.devices.get_mut(slot).panes = panes;
    }
    let keys: Vec<_> = old.backfill.bursts.keys().copied().collect();
    for key in keys {
        if wanted.and_then(|wanted| window_target(&old.spec, usize::from(key.1), wanted)).is_none() {
            old.emit_burst(out, key);
        }
    }
}

/// The stored stream under today's spec.
fn fitted(mut old: Stream, wanted: StreamSpec) -> Stream {
    let mut books = vec![super::ledger::WindowLedger::default(); wanted.windows.len()];
    let mut places = vec![0_u8; old.spec.windows.len()];
    for (window, place) in places.iter_mut().enumerate() {
        if let Some(target) = window_target(&old.spec, window, &wanted) {
            books[target] = old.windows[window];
            *place = u8::try_from(target).expect("limits::WINDOWS_MAX fits a byte");
        }
    }
    let highest = old.devices.slots().map(|(_, _, device)| device.watermark).max().unwrap_or_default();
    for slot in old.all_slots() {
        let seen = old.watermark_of(slot);
        let device = old.devices.get_mut(slot);
        for pane in &mut device.panes {
            let before = &old.spec.windows[usize::from(pane.window)].aggregates;
            pane.window = places[usize::from(pane.window)];
            pane.rearrange(before, &wanted.windows[usize::from(pane.window)].aggregates);
        }
        device.panes.sort_by_key(|pane| (pane.window, pane.start));
        // A watermark never moves back, whatever its scope becomes.
        if wanted.watermark.scope == Scope::Device {
            device.watermark.raise(seen);
        } else if wanted.watermark.scope != old.spec.watermark.scope {
            device.floor.raise(seen);
        }
    }
    for ((slot, window), mut burst) in core::mem::take(&mut old.backfill.bursts) {
        let before = &old.spec.windows[usize::from(window)].aggregates;
        let window = places[usize::from(window)];
        for delta in &mut burst.deltas {
            delta.window = window;
            delta.rearrange(before, &wanted.windows[usize::from(window)].aggregates);
        }
        old.backfill.bursts.insert((slot, window), burst);
    }
    match wanted.watermark.scope {
        Scope::Device => old.shared = Watermark::default(),
        Scope::Shared => _ = old.shared.raise(highest),
        // The members decide, from where the watermark stands.
        Scope::Stream(_) | Scope::Group(_) => {}
    }
    forget_lateness(&mut old, &wanted.watermark);
    renumber_fields(&mut old, &wanted);
    fit_tombstones(&mut old, &wanted);
    old.dedup.fit(wanted.dedup.clone());
    old.windows = books;
    old.calendars = calendars_of(&wanted);
    old.has_groups = groups::are_used(&wanted);
    old.has_labels = groups::use_labels(&wanted);
    old.calculations = Calculations::new(&wanted.rules);
    old.spec = wanted;
    old
}

/// Drops what was measured and is asked for no more.
fn forget_lateness(old: &mut Stream, wanted: &WatermarkSpec) {
    let adaptive = matches!(wanted.strategy, Strategy::Adaptive { .. });
    let shared = wanted.scope == Scope::Shared;
    if !(adaptive && shared) {
        (old.newest, old.lateness) = (None, None);
    }
    if !adaptive || shared {
        for slot in old.all_slots() {
            old.devices.get_mut(slot).lateness = None;
        }
    }
}

/// Gives the fields the places that the decoder of today expects: configured
/// ones first, in their order. Panes keep fields that are configured no more.
fn renumber_fields(old: &mut Stream, wanted: &StreamSpec) {
    let (mut table, marker) = fields_of(wanted);
    // Full: values of a field without a place are dropped with it; only reached
    // by a configuration that replaces more than `FIELDS_MAX` fields.
    let places: Vec<_> = old.fields.names().iter().map(|name| table.intern(name.as_str())).collect();
    let in_place = (0_u16..).zip(&places).all(|(place, new)| *new == Some(FieldIx(place)));
    if !in_place {
        for slot in old.all_slots() {
            for pane in &mut old.devices.get_mut(slot).panes {
                let aggregates = &wanted.windows[usize::from(pane.window)].aggregates;
                pane.renumber(&places, aggregates);
            }
        }
        for ((_, window), burst) in &mut old.backfill.bursts {
            let aggregates = &wanted.windows[usize::from(*window)].aggregates;
            burst.deltas.iter_mut().for_each(|delta| delta.renumber(&places, aggregates));
        }
    }
    old.carry.fit(wanted, &places, old.fields.names());
    old.fields = table.with_states_of(&old.fields);
    old.marker = marker;
}

/// Fires what a watermark of a wider scope has passed already. Nothing else
/// would: a window fires when a watermark rises, and this one has risen.
fn fire_overtaken(out: &mut Emit<'_>, stream: &mut Stream) {
    for slot in stream.all_slots() {
        stream.raise_common(slot);
    }
    stream.fire_all(out);
}
