//! Which windows of before go on, which finish, and which end.

use crate::engine::emit::{Emit, emit_pane};
use crate::engine::outbox::row::PaneKind;
use crate::engine::records::shed_held;
use crate::engine::retire::{RETIRING_MAX, Retiring, Tenure, common_start, is_same};
use crate::engine::spec::{StreamSpec, WindowKind, WindowSpec};
use crate::engine::stream::Stream;
use crate::engine::watermark::Watermark;
use crate::model::ids::Name;
use crate::model::time::{EventTime, Span};

/// Emits all that a stream holds, and gives back what is left of it.
pub(super) fn end(out: &mut Emit<'_>, mut old: Stream) -> Stream {
    drain(out, &mut old, |_| true);
    shed_held(out, &mut old, None);
    old
}

/// Where the windows of before are: those of the configuration at their places, and nothing else.
pub(super) fn of_today(old: &Stream, wanted: &StreamSpec) -> Vec<Option<usize>> {
    let place = |(window, stored): (usize, &WindowSpec)| {
        let target = wanted.windows.iter().position(|today| is_same(stored, today));
        target.filter(|_| window < old.defined())
    };
    old.spec.windows.iter().enumerate().map(place).collect()
}

/// Where the windows of before are: those that are defined still, and behind them those that
/// finish. `None`: it ends now.
pub(super) fn retire(old: &mut Stream, wanted: &StreamSpec) -> Vec<Option<usize>> {
    extend_tenures(old, wanted);
    let mut places = of_today(old, wanted);
    let defined = old.defined();
    let mut fresh = Vec::new();
    for window in (0..defined).filter(|window| places[*window].is_none()) {
        let retiring = tenures(old, window, wanted);
        fresh.push((window, retiring));
    }
    let mut kept: Vec<(usize, Retiring)> = (defined..).zip(core::mem::take(&mut old.retiring)).collect();
    kept.extend(fresh.into_iter().filter(|(_, retiring)| !retiring.is_over()));
    let too_many = kept.len().saturating_sub(RETIRING_MAX);
    drop(kept.drain(..too_many));
    for (place, (window, retiring)) in (wanted.windows.len()..).zip(kept) {
        places[window] = Some(place);
        old.retiring.push(retiring);
    }
    places
}

/// A window that comes back while one of its name finishes begins behind that one.
fn extend_tenures(old: &mut Stream, wanted: &StreamSpec) {
    let defined = old.defined();
    for index in 0..old.retiring.len() {
        let stored = old.spec.windows[defined + index].clone();
        let is_last = !old.spec.windows[defined + index + 1..].iter().any(|other| other.name == stored.name);
        let was_gone = !old.spec.windows[..defined].iter().any(|other| other.name == stored.name);
        let heir = wanted.windows.iter().find(|today| today.name == stored.name);
        if let Some(heir) = heir.filter(|_| is_last && was_gone) {
            let newest = |slot: u32| old.devices.get(slot).newest();
            let mut retiring = core::mem::take(&mut old.retiring[index]);
            retiring.extend(|slot, until| {
                let from = newest(slot).map_or(until, |newest| until.max(newest + Span::MILLI));
                common_start(from, stored.kind, heir.kind)
            });
            old.retiring[index] = retiring;
        }
    }
}

/// What an old definition has yet to finish, and the fences in front of the next one.
fn tenures(old: &mut Stream, window: usize, wanted: &StreamSpec) -> Retiring {
    let stored = old.spec.windows[window].clone();
    let heir = wanted.windows.iter().find(|today| today.name == stored.name);
    let mut retiring = Retiring::default();
    for slot in old.devices.occupied().collect::<Vec<_>>() {
        let device = old.devices.get(slot);
        if !stored.key.is_of(device.kind) {
            continue;
        }
        let before = old.border(&stored.name, slot);
        let Some(newest) = device.newest() else { continue };
        if let Some(before) = before.filter(|before| newest < *before) {
            // It has begun nothing here: the one before it goes on to where the next begins. So
            // changes in a row do not push the border away.
            if let Some(heir) = heir {
                hand_on(old, &stored.name, slot, before, heir.kind);
            }
            continue;
        }
        let from = before.unwrap_or(EventTime::MIN).max(newest + Span::MILLI);
        let until = common_start(from, stored.kind, heir.map_or(stored.kind, |heir| heir.kind));
        // That of the definition before it, if there was one, and where lateness grew since.
        let after = old.fences.last_shut(&stored.name, slot, &old.devices);
        retiring.set(slot, Tenure { until, after });
        old.fences.shut(&stored.name, slot, until - Span::MILLI);
    }
    retiring
}

/// Has the definition that ends at `before` end where one of this kind begins.
fn hand_on(old: &mut Stream, name: &Name, slot: u32, before: EventTime, later: WindowKind) {
    let defined = old.defined();
    let ends_there = |index: &usize| {
        old.spec.windows[defined + index].name == *name && old.retiring[*index].until(slot) == Some(before)
    };
    let Some(last) = (0..old.retiring.len()).rev().find(ends_there) else { return };
    let until = common_start(before, old.spec.windows[defined + last].kind, later);
    old.retiring[last].end_at(slot, until);
    old.fences.shut(name, slot, until - Span::MILLI);
}

/// Shuts the windows that would be opened a second time under the id of the first: those that
/// have expired, where they may open again now, or where results without their accumulators
/// were published.
pub(super) fn set_fences(old: &mut Stream, wanted: &StreamSpec) {
    for stored in old.spec.windows.clone().iter().take(old.defined()) {
        let Some(today) = wanted.windows.iter().find(|today| is_same(stored, today)) else { continue };
        if today.lateness <= stored.lateness && !backfills_anew(stored, today) {
            continue;
        }
        for slot in old.devices.occupied().collect::<Vec<_>>() {
            if let Some(until) = last_expired(old.watermark_of(slot), stored) {
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

/// Emits the panes of the windows that end, marked `partial`, and their deltas.
pub(super) fn drain(out: &mut Emit<'_>, old: &mut Stream, ends: impl Fn(usize) -> bool) {
    let occupied: Vec<u32> = old.devices.occupied().collect();
    for slot in occupied {
        let name = old.devices.id(slot);
        let watermark = old.watermark_of(slot);
        let mut panes = core::mem::take(&mut old.devices.get_mut(slot).panes);
        panes.retain_mut(|pane| {
            let ends = ends(usize::from(pane.window));
            // Of those that have fired, what waits to be shown together.
            if ends && (!pane.fired || pane.unseen) {
                pane.partial = true;
                let kind = if pane.fired { PaneKind::Late } else { PaneKind::OnTime };
                let books = &mut old.windows[usize::from(pane.window)];
                books.open -= pane.unsettled;
                books.on_time += pane.unsettled;
                pane.unsettled = 0;
                emit_pane(out, &old.spec, &old.fields, name.as_str(), pane, kind, watermark);
            }
            !ends
        });
        old.devices.get_mut(slot).panes = panes;
    }
    let keys: Vec<_> = old.backfill.bursts.keys().copied().collect();
    for key in keys {
        if ends(usize::from(key.1)) {
            old.emit_burst(out, key);
        }
    }
}
