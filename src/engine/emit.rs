//! From engine state to outbox rows: which lane, which fields, which revision.

use crate::model::ids::FieldIx;
use crate::model::record::{Record, TimeSource};
use crate::model::time::{EventTime, Now, ProcTime, Span};

use super::Canary;
use super::aggregate::{Accumulator, Finish, Finished};
use super::fields::FieldTable;
use super::join::Taps;
use super::outbox::row::{
    LateReason, LateRow, PaneKind, PaneRow, RecordRow, write_accumulators, write_late, write_pane, write_record,
};
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
    /// What is remembered for `carry_forward` takes of it; see `limits::CARRY_BYTES_MAX`.
    pub carry_cost: &'a mut usize,
    /// What joins want to hear of the stream, if any do.
    pub taps: Option<&'a mut Taps>,
    /// A rule that is broken on purpose.
    pub canary: Option<Canary>,
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
        PaneKind::Delta => LaneKind::Late,
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
        opened: pane.opened,
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
    let mergeable = spec.late.is_backfill() || kind == PaneKind::Delta;
    out.outbox.push(lane, |bytes| {
        let begin = bytes.len();
        write_pane(bytes, &row, shown.replaces(), &spec.aggregates.kinds, shown.present.count_ones(), results);
        write_accumulators(bytes, mergeable, shown.fields().map(|field| shown.field(field, width)));
        if let Some(taps) = &mut out.taps {
            taps.note_pane(shown.window, &row, &bytes[begin..]);
        }
    });
    if out.canary != Some(Canary::RepeatRevisions) {
        pane.revision = pane.revision.saturating_add(1);
    }
    pane.unseen = false;
    pane.show_at = ProcTime::NEVER;
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

/// Emits a reading as it is.
pub(super) fn emit_reading(out: &mut Emit<'_>, stream: &StreamSpec, fields: &FieldTable, record: &Record<'_>) {
    let row = reading(out.now, stream, record);
    let values = record.values.iter().map(|(field, value)| (name_of(fields, *field), *value));
    let states = record.states.iter().map(|(field, state)| (name_of(fields, *field), fields.states().text(*state)));
    out.outbox.push(out.lane_of_readings(), |bytes| write_record(bytes, &row, values, states));
}

/// Writes a reading that has to wait, as it will be sent.
pub(super) fn write_reading(
    bytes: &mut Vec<u8>,
    out: &Emit<'_>,
    stream: &StreamSpec,
    fields: &FieldTable,
    record: &Record<'_>,
) {
    let values = record.values.iter().map(|(field, value)| (name_of(fields, *field), *value));
    let states = record.states.iter().map(|(field, state)| (name_of(fields, *field), fields.states().text(*state)));
    write_record(bytes, &reading(out.now, stream, record), values, states);
}

/// Emits what [`write_reading`] wrote.
pub(super) fn emit_stored_reading(out: &mut Emit<'_>, row: &[u8]) {
    out.outbox.push(out.lane_of_readings(), |bytes| bytes.extend_from_slice(row));
}

impl Emit<'_> {
    fn lane_of_readings(&self) -> LaneKind {
        if self.uplink_up { LaneKind::Live } else { LaneKind::Backlog }
    }
}

fn reading<'a>(now: Now, stream: &'a StreamSpec, record: &Record<'a>) -> RecordRow<'a> {
    RecordRow {
        stream: stream.name.as_str(),
        key: record.device,
        event: record.at,
        received: now.wall,
        early: false,
        source: record.source,
        quality: now.quality,
    }
}

/// Until when the last value holds: the end of a window that has closed. A session ends
/// with its last reading, and so does what is only a look.
fn holds_until(pane: &Pane, spec: &WindowSpec, watermark: Watermark) -> Option<EventTime> {
    let has_end = match spec.kind {
        WindowKind::Tumbling { .. } | WindowKind::Sliding { .. } | WindowKind::Calendar { .. } => true,
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
