//! From engine state to outbox rows: which lane, which fields, which revision.

use crate::model::ids::FieldIx;
use crate::model::record::{Record, TimeSource};
use crate::model::time::{EventTime, Now, Span};

use super::aggregate::{Accumulator, Finish, Finished};
use super::fields::FieldTable;
use super::outbox::row::{LateReason, LateRow, PaneKind, PaneRow, write_late, write_pane};
use super::outbox::{LaneKind, Outbox};
use super::spec::{StreamSpec, WindowKind, WindowSpec};
use super::watermark::Watermark;
use super::window::pane::Pane;

/// What an emission needs beside the state.
#[derive(Debug)]
pub(super) struct Emit<'a> {
    /// The clocks at this input.
    pub now: Now,
    /// Where it goes.
    pub outbox: &'a mut Outbox,
    /// Without an uplink, panes are backlog from the start.
    pub uplink_up: bool,
    /// Windows that start before this may have lost records.
    pub partial_before: Option<EventTime>,
    /// What all open panes take of a snapshot; see `limits::OPEN_COST_MAX`.
    pub open_cost: &'a mut usize,
    /// What all devices take of it; see `limits::DEVICES_COST_MAX`.
    pub device_cost: &'a mut usize,
    /// See `Canary::RepeatRevisions`.
    pub repeat_revisions: bool,
}

/// Emits a pane under its next revision.
pub(super) fn emit_pane(
    out: &mut Emit<'_>,
    stream: &StreamSpec,
    fields: &FieldTable,
    device: &str,
    pane: &mut Pane,
    kind: PaneKind,
    watermark: Watermark,
) {
    let spec = &stream.windows[usize::from(pane.window)];
    let lane = match kind {
        _ if !out.uplink_up => LaneKind::Backlog,
        PaneKind::OnTime | PaneKind::Idle | PaneKind::Early => LaneKind::Live,
        PaneKind::Late | PaneKind::Final => LaneKind::Update,
    };
    let row = PaneRow {
        stream: stream.name.as_str(),
        window: spec.name.as_str(),
        key: device,
        start: pane.start,
        end: pane.end,
        pane: kind,
        revision: pane.revision,
        watermark: watermark.time(),
        count: pane.count,
        source: if pane.receive_time { TimeSource::Receive } else { TimeSource::Device },
        quality: out.now.quality,
        partial: pane.partial,
    };
    let shown = &*pane;
    let width = spec.aggregates.len();
    let finish = Finish {
        until: holds_until(pane, spec, watermark),
        quantiles: spec.aggregates.quantiles(),
        states: fields.states(),
    };
    let of_field = |field| shown.field(field, width).iter().map(|accumulator| result(accumulator, &finish));
    let results = shown.fields().map(|field| (name_of(fields, field), of_field(field)));
    out.outbox.push(lane, |bytes| {
        write_pane(bytes, &row, &shown.replaces, &spec.aggregates.kinds, shown.present.count_ones(), results);
    });
    if !out.repeat_revisions {
        pane.revision = pane.revision.saturating_add(1);
    }
    pane.unseen = false;
}

/// Emits a record that no window took. `window`: the one that was asked.
pub(super) fn emit_late(
    out: &mut Emit<'_>,
    stream: &StreamSpec,
    window: Option<&WindowSpec>,
    fields: &FieldTable,
    record: &Record<'_>,
    reason: LateReason,
    lag: Span,
) {
    let row = LateRow {
        stream: stream.name.as_str(),
        window: window.map_or("", |window| window.name.as_str()),
        key: record.device,
        event: record.at,
        received: out.now.wall,
        reason,
        lag,
        source: record.source,
        quality: out.now.quality,
    };
    let values = record.values.iter().map(|(field, value)| (name_of(fields, *field), *value));
    let states = record.states.iter().map(|(field, state)| (name_of(fields, *field), fields.states().text(*state)));
    out.outbox.push(LaneKind::Late, |bytes| write_late(bytes, &row, values, states));
}

/// Until when the last value holds: the end of a window that has closed. A session ends
/// with its last reading, and so does what is only a look.
fn holds_until(pane: &Pane, spec: &WindowSpec, watermark: Watermark) -> Option<EventTime> {
    let has_end = match spec.kind {
        WindowKind::Tumbling { .. } | WindowKind::Sliding { .. } => true,
        WindowKind::Session { .. } => false,
    };
    (has_end && watermark.has_passed(pane.end)).then_some(pane.end)
}

#[inline]
fn result<'a>(accumulator: &'a Accumulator, finish: &Finish<'a>) -> (Finished<'a>, bool) {
    (accumulator.finish(finish), accumulator.is_approximate())
}

fn name_of(fields: &FieldTable, field: FieldIx) -> &str {
    fields.name(field).expect("a record's fields come from this table").as_str()
}
