//! One open window.

use crate::engine::spec::WindowSpec;
use crate::engine::window::Interval;
use crate::engine::window::pane::{Accumulators, Pane};
use crate::engine::wire::{Damaged, Reader, put_i64, put_u64};
use crate::model::time::{EventTime, ProcTime, Span};

const PANE_FIRED: u8 = 1;
const PANE_UNSEEN: u8 = 2;
const PANE_PARTIAL: u8 = 4;
const PANE_RECEIVE_TIME: u8 = 8;

pub(super) fn write_pane(out: &mut Vec<u8>, pane: &Pane, width: usize, now: ProcTime) {
    out.push(pane.window);
    put_i64(out, pane.start.as_millis());
    put_u64(out, pane.start.lag_behind(pane.end).as_millis());
    put_u64(out, pane.start.lag_behind(pane.opened).as_millis());
    put_u64(out, pane.count);
    put_u64(out, pane.unsettled);
    put_u64(out, u64::from(pane.revision));
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.push(
        flag(pane.fired, PANE_FIRED)
            | flag(pane.unseen, PANE_UNSEEN)
            | flag(pane.partial, PANE_PARTIAL)
            | flag(pane.receive_time, PANE_RECEIVE_TIME),
    );
    put_left(out, pane.show_at, now);
    put_u64(out, pane.replaces().len() as u64);
    for start in pane.replaces() {
        put_i64(out, start.as_millis());
    }
    put_u64(out, pane.present);
    for field in pane.fields() {
        for accumulator in pane.field(field, width) {
            accumulator.write(out);
        }
    }
}

/// A deadline as what is left of it, plus one; 0: there is none.
pub(super) fn put_left(out: &mut Vec<u8>, at: ProcTime, now: ProcTime) {
    put_u64(out, if at == ProcTime::NEVER { 0 } else { at.since(now).as_millis().saturating_add(1) });
}

/// In time since the snapshot, like `written`; `restore.rs` makes it that of the process.
pub(super) fn read_left(reader: &mut Reader<'_>, written: ProcTime) -> Result<ProcTime, Damaged> {
    Ok(reader.u64()?.checked_sub(1).map_or(ProcTime::NEVER, |left| written + Span::from_millis(left)))
}

/// Reads a pane of one of `windows`, as it was `written` after the snapshot.
pub(super) fn read_pane(
    reader: &mut Reader<'_>,
    windows: &[WindowSpec],
    fields: usize,
    written: ProcTime,
) -> Result<Pane, Damaged> {
    let window = reader.u8()?;
    let aggregates = &windows.get(usize::from(window)).ok_or(Damaged)?.aggregates;
    let start = EventTime::from_millis(reader.i64()?);
    let end = start + Span::from_millis(reader.u64()?);
    let mut pane = Pane::open(window, Interval { start, end }, false, Accumulators::new());
    pane.opened = start + Span::from_millis(reader.u64()?);
    pane.count = reader.u64()?;
    pane.unsettled = reader.u64()?;
    pane.revision = reader.uint()?;
    let flags = reader.u8()?;
    pane.fired = flags & PANE_FIRED != 0;
    pane.unseen = flags & PANE_UNSEEN != 0;
    pane.partial = flags & PANE_PARTIAL != 0;
    pane.receive_time = flags & PANE_RECEIVE_TIME != 0;
    pane.show_at = read_left(reader, written)?;
    for _ in 0..reader.u64()? {
        pane.replace(EventTime::from_millis(reader.i64()?));
    }
    pane.present = reader.u64()?;
    for field in pane.fields() {
        let first = usize::from(field.0) * aggregates.len();
        if usize::from(field.0) >= fields {
            return Err(Damaged);
        }
        if pane.accumulators.len() < first + aggregates.len() {
            pane.grow(first + aggregates.len(), aggregates);
        }
        for place in 0..aggregates.len() {
            pane.accumulators[first + place] = aggregates.read(place, reader)?;
        }
    }
    pane.recount();
    Ok(pane)
}
