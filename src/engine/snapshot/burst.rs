//! Pending deltas of late records.

use super::Extent;
use super::pane::{put_left, read_left, read_pane, write_pane};
use super::read_slot;
use crate::engine::backfill::{Burst, BurstKey};
use crate::engine::stream::Stream;
use crate::engine::window::pane::Pane;
use crate::engine::wire::{Damaged, Reader, put_u64};
use crate::model::time::ProcTime;

const GONE: u8 = 0;
const GOES_ON: u8 = 1;
const NEW: u8 = 2;

pub(super) fn write_bursts(out: &mut Vec<u8>, stream: &Stream, extent: Extent, now: ProcTime) {
    let backfill = &stream.backfill;
    match extent {
        Extent::Changes => {
            put_u64(out, backfill.changed.len() as u64);
            for key in &backfill.changed {
                write_burst(out, stream, *key, backfill.bursts.get(key), extent, now);
            }
        }
        Extent::Whole => {
            put_u64(out, backfill.bursts.len() as u64);
            for (key, burst) in &backfill.bursts {
                write_burst(out, stream, *key, Some(burst), extent, now);
            }
        }
    }
}

fn write_burst(
    out: &mut Vec<u8>,
    stream: &Stream,
    (slot, window): BurstKey,
    burst: Option<&Burst>,
    extent: Extent,
    now: ProcTime,
) {
    put_u64(out, u64::from(slot));
    out.push(window);
    let Some(burst) = burst else { return out.push(GONE) };
    let whole = extent == Extent::Whole || burst.fresh;
    out.push(if whole { NEW } else { GOES_ON });
    put_left(out, burst.quiet_at, now);
    put_left(out, burst.full_at, now);
    let width = stream.spec.windows[usize::from(window)].aggregates.len();
    let shown = |delta: &&Pane| whole || delta.dirty;
    put_u64(out, burst.deltas.iter().filter(shown).count() as u64);
    for delta in burst.deltas.iter().filter(shown) {
        write_pane(out, delta, width, now);
    }
}

pub(super) fn read_bursts(reader: &mut Reader<'_>, stream: &mut Stream, written: ProcTime) -> Result<(), Damaged> {
    for _ in 0..reader.u64()? {
        let (slot, window) = (read_slot(reader, stream)?, reader.u8()?);
        let state = reader.u8()?;
        let bursts = &mut stream.backfill.bursts;
        if state != GOES_ON {
            bursts.remove(&(slot, window));
        }
        if state == GONE {
            continue;
        }
        let (quiet_at, full_at) = (read_left(reader, written)?, read_left(reader, written)?);
        let burst = bursts.entry((slot, window)).or_insert_with(|| Burst::new(quiet_at, full_at));
        (burst.quiet_at, burst.full_at, burst.fresh) = (quiet_at, full_at, false);
        for _ in 0..reader.u64()? {
            let delta = read_pane(reader, &stream.spec.windows, stream.fields.names().len(), written)?;
            if delta.window != window {
                return Err(Damaged);
            }
            match burst.position(delta.start) {
                Ok(index) => burst.deltas[index] = delta,
                Err(index) => burst.deltas.insert(index, delta),
            }
        }
    }
    Ok(())
}
