//! State under another configuration than the one it was made under: after a start, and while
//! the agent runs.
//!
//! ```text
//! stream of the same definition      goes on, untouched
//! other watermark, lateness, fields  goes on, fitted
//! other window                       the old one finishes (`retire.rs`), the new one begins behind it
//! other meaning (`spec::Meaning`)    ends; one with its name begins, and inherits nothing
//! no stream of this name             ends
//! ```
//!
//! What ends emits its open windows marked `partial`: rather that than lose them. Ids that it
//! has used stay shut (`fence.rs`), also where its name comes back later.

mod borders;
mod windows;

use crate::model::ids::FieldIx;
use crate::model::time::Now;

use super::Engine;
use super::calculations::Calculations;
use super::decode::Decoder;
use super::emit::Emit;
use super::groups;
use super::rearm::rearm;
use super::records::shed_held;
use super::retire::end_after;
use super::spec::{PipelineSpec, Scope, Strategy, StreamSpec, WatermarkSpec, WindowSpec};
use super::stream::{Stream, calendars_of, fields_of};
use super::timers::{Clocks, IdleClock};
use super::ttl::fit_tombstones;
use super::watermark::Watermark;

impl Engine {
    /// Fits what was restored to the configuration. Returns true when anything
    /// differs, so that the next pages need a new snapshot to refer to.
    pub(super) fn fit(&mut self, spec: PipelineSpec, now: Now) -> bool {
        let decoders = core::mem::take(&mut self.decoders);
        let stored = core::mem::take(&mut self.streams).into_iter().zip(decoders);
        let stored = stored.map(|(stream, decoder)| Stored { stream, decoder, is_untouched: false });
        let stored = stored.collect();
        let mut changed = self.fit_streams(&spec, stored, now).has_changed;
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
            changed |= self.settle_in(index, stored_at, now);
        }
        self.look_at_joins(now, false);
        changed |= !self.joins.is_committed();
        changed
    }

    /// Puts the streams of `spec` in place, made of those that there were.
    pub(super) fn fit_streams(&mut self, spec: &PipelineSpec, stored: Vec<Stored>, now: Now) -> Fitted {
        let mut fitted = Fitted { has_changed: stored.len() != spec.streams.len(), untouched: Vec::new() };
        let mut streams: Vec<Option<Stream>> = spec.streams.iter().map(|_| None).collect();
        let mut decoders: Vec<Option<Decoder>> = spec.streams.iter().map(|_| None).collect();
        for (place, Stored { stream: old, decoder, is_untouched }) in stored.into_iter().enumerate() {
            let target = spec.streams.iter().position(|stream| stream.name == old.spec.name);
            fitted.has_changed |= target != Some(place);
            let mut out = Emit {
                now,
                outbox: &mut self.outbox,
                uplink_up: self.uplink_up,
                partial_before: None,
                open_cost: &mut self.open_cost,
                device_cost: &mut self.device_cost,
                carry_cost: &mut self.carry_cost,
                // What has no definition any more is in no join.
                taps: None,
                canary: None,
            };
            let Some(target) = target else {
                let left = windows::end(&mut out, old);
                self.graves.dig(&left);
                continue;
            };
            let wanted = &spec.streams[target];
            if is_untouched {
                fitted.untouched.push(target);
                (streams[target], decoders[target]) = (Some(old), Some(decoder));
            } else if wanted.meaning.goes_on_from(&old.spec.meaning) {
                fitted.has_changed |= !same_definition(wanted, &old);
                let (stream, has_changed) = go_on(&mut out, old, wanted);
                fitted.has_changed |= has_changed;
                (streams[target], decoders[target]) = (Some(stream), Some(decoder));
            } else {
                fitted.has_changed = true;
                streams[target] = Some(begin_anew(&mut out, old, wanted));
            }
        }
        fitted.has_changed |= streams.iter().any(Option::is_none);
        let begin = |wanted: &StreamSpec| {
            let mut stream = Stream::new(wanted.clone());
            self.graves.fence(&mut stream);
            stream
        };
        let streams = streams.into_iter().zip(&spec.streams);
        self.streams = streams.map(|(stream, wanted)| stream.unwrap_or_else(|| begin(wanted))).collect();
        let decoders = decoders.into_iter().zip(&spec.streams);
        self.decoders =
            decoders.map(|(decoder, wanted)| decoder.unwrap_or_else(|| Decoder::of(wanted, spec))).collect();
        fitted.has_changed |= self.bound_borders(now, &fitted.untouched);
        fitted
    }

    /// A stream that has just been put in place: its deadlines, what it costs, and what is due.
    pub(super) fn settle_in(&mut self, index: usize, stored_at: Clocks, now: Now) -> bool {
        let cost = rearm(&mut self.streams[index], stored_at, now.proc);
        self.charge(index, cost);
        let (stream, mut out, _) = self.parts(index, now);
        fire_overtaken(&mut out, stream);
        drop_passed_fences(stream);
        let changed = !stream.is_committed();
        self.collect_for_joins(now, index);
        changed
    }

    /// What a stream takes, `open` of it its windows.
    pub(super) fn charge(&mut self, index: usize, open: usize) {
        self.open_cost += open;
        self.device_cost += self.streams[index].device_cost();
        self.carry_cost += self.streams[index].carry.cost();
    }
}

/// A stream as it was.
#[derive(Debug)]
pub(super) struct Stored {
    pub stream: Stream,
    pub decoder: Decoder,
    /// It is what the configuration says, and at work.
    pub is_untouched: bool,
}

/// What became of them.
#[derive(Debug)]
pub(super) struct Fitted {
    /// Something differs from what was stored.
    pub has_changed: bool,
    /// Places of the streams that are as they were.
    pub untouched: Vec<usize>,
}

/// The stream of this name from now on, which means something else: of the old one it has the
/// books, and the ids that it must not use.
fn begin_anew(out: &mut Emit<'_>, old: Stream, wanted: &StreamSpec) -> Stream {
    let old = windows::end(out, old);
    let mut stream = Stream::new(wanted.clone());
    stream.fences.take_over(&old.fences, &old.devices);
    for (who, newest) in old.everybody() {
        for window in &old.spec.windows {
            stream.fences.shut_for(&window.name, who, newest);
        }
    }
    stream.records = old.records;
    stream.ledger = old.ledger;
    stream
}

/// The stream under today's spec. True: it differs from what a page would refer to.
fn go_on(out: &mut Emit<'_>, mut old: Stream, wanted: &StreamSpec) -> (Stream, bool) {
    windows::set_fences(&mut old, wanted);
    let mut changed = shed_held(out, &mut old, Some(wanted));
    let same_scope =
        core::mem::discriminant(&wanted.watermark.scope) == core::mem::discriminant(&old.spec.watermark.scope);
    let may_retire = same_scope && wanted.has_groups() == old.spec.has_groups();
    let places = if may_retire {
        windows::retire(&mut old, wanted)
    } else {
        let places = windows::of_today(&old, wanted);
        old.retiring.clear();
        places
    };
    windows::drain(out, &mut old, |window| places[window].is_none());
    let names = old.fields.names().to_vec();
    let stream = fitted(old, wanted.clone(), &places);
    // Pages refer to fields by number, under the snapshot's names.
    changed |= stream.fields.names() != names;
    (stream, changed)
}

fn same_definition(wanted: &StreamSpec, stored: &Stream) -> bool {
    let windows = |windows: &[WindowSpec]| {
        windows
            .iter()
            .map(|window| {
                let WindowSpec { name, kind, key, lateness, late, aggregates, .. } = window.clone();
                (name, kind, key, lateness, late, aggregates)
            })
            .collect::<Vec<_>>()
    };
    let defined = stored.spec.windows.get(..stored.defined()).unwrap_or_default();
    wanted.watermark.scope == stored.spec.watermark.scope
        && wanted.meaning == stored.spec.meaning
        && windows(&wanted.windows) == windows(defined)
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

/// The stored stream under today's spec. `places`: where the windows of before are.
fn fitted(mut old: Stream, wanted: StreamSpec, places: &[Option<usize>]) -> Stream {
    let highest = old.devices.slots().map(|(_, _, device)| device.watermark).max().unwrap_or_default();
    for slot in old.all_slots() {
        let seen = old.watermark_of(slot);
        let device = old.devices.get_mut(slot);
        // A watermark never moves back, whatever its scope becomes.
        if wanted.watermark.scope == Scope::Device {
            device.watermark.raise(seen);
        } else if wanted.watermark.scope != old.spec.watermark.scope {
            device.floor.raise(seen);
        }
    }
    match wanted.watermark.scope {
        Scope::Device => old.shared = Watermark::default(),
        Scope::Shared => _ = old.shared.raise(highest),
        // The members decide, from where the watermark stands.
        Scope::Stream(_) | Scope::Group(_) => {}
    }
    forget_lateness(&mut old, &wanted.watermark);
    fit_tombstones(&mut old, &wanted);
    let mut spec = wanted;
    let defined = spec.windows.len();
    let books = core::mem::take(&mut old.windows);
    old.windows = vec![super::ledger::WindowLedger::default(); defined + old.retiring.len()];
    let mut finishing: Vec<Option<WindowSpec>> = vec![None; old.retiring.len()];
    for ((stored, books), place) in old.spec.windows.iter().zip(books).zip(places) {
        let Some(place) = *place else { continue };
        old.windows[place] = books;
        if let Some(finishing) = place.checked_sub(defined).and_then(|place| finishing.get_mut(place)) {
            *finishing = Some(stored.clone());
        }
    }
    spec.windows.extend(finishing.into_iter().flatten());
    old.renumber_windows(places);
    renumber_fields(&mut old, &spec);
    old.dedup.fit(spec.dedup.clone());
    old.calendars = calendars_of(&spec);
    old.has_groups = groups::are_used(&spec);
    old.has_labels = groups::use_labels(&spec);
    old.calculations = Calculations::new(&spec.rules);
    old.spec = spec;
    old.mark_cut();
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
