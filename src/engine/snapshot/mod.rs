//! Persisted bytes: the layout of streams, devices and panes; `checkpoint.rs` and
//! `restore.rs` put the parts together, and each part of the engine writes its own
//! numbers. Versioned; every version that was ever released has a fixture in
//! tests/fixtures/state.
//!
//! ```text
//! snapshot: version | meta | redelivery | outbox | n × (definition | section) | fences?
//! page:     version | meta | redelivery changes | outbox log | n × (0 | 1 section)
//!
//! meta:       windows that start before this time may lack records
//! definition: stream | scope | n × (window | kind | lateness | aggregates)
//! section:    new fields | new states | new slots | shared watermark | newest | lateness? | books |
//!             removed panes | n × (slot | watermark | newest | flags | group? | floor? | lateness? | idle in | n × pane)
//! new slot:   device, group or stream | name
//! ```
//!
//! A page holds what changed since the one before it and refers to streams,
//! fields and devices by number; a snapshot holds everything, with the definitions
//! that give the numbers their meaning. No persisted value is a [`ProcTime`]: a
//! deadline is stored as the time that is left.
//!
//! [`ProcTime`]: crate::model::time::ProcTime

mod definition;
mod pane;

use crate::model::ids::{DeviceId, Name};
use crate::model::time::{EventTime, Span};

use super::devices::SlotKind;
use super::ledger::{StreamLedger, WindowLedger};
use super::stream::Stream;
use super::timers::LiveTime;
use super::watermark::Watermark;
use super::watermark::adaptive::Histogram;
use super::window::pane::Pane;
use super::wire::{Damaged, Reader, put_i64, put_str, put_time, put_u64};

pub(super) use definition::{Definition, read_definition, write_definition};
use pane::{read_pane, write_pane};

/// Version of both layouts.
pub const STATE_VERSION: u8 = 2;

/// Checks the version byte.
///
/// # Errors
/// [`Damaged`] for a version that this build does not know.
pub(super) fn open(bytes: &[u8]) -> Result<Reader<'_>, Damaged> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? == STATE_VERSION { Ok(reader) } else { Err(Damaged) }
}

/// Flags of a device.
const IDLE: u8 = 1;
const GROUP: u8 = 2;
const FLOOR: u8 = 4;
const LATENESS: u8 = 8;

/// Which part of a stream is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    /// What changed since the last commit.
    Changes,
    /// Everything.
    Whole,
}

/// `hand_over` is asked after each device whether it takes what is there.
pub(super) fn write_section(
    out: &mut Vec<u8>,
    stream: &Stream,
    extent: Extent,
    live: LiveTime,
    hand_over: &mut dyn FnMut(&mut Vec<u8>),
) {
    let (fields_from, states_from, devices_from) = match extent {
        Extent::Changes => (stream.changes.fields_from, stream.changes.states_from, stream.changes.devices_from),
        Extent::Whole => (0, 0, 0),
    };
    write_names(out, &stream.fields.names()[fields_from..]);
    write_names(out, &stream.fields.states().texts()[states_from..]);
    put_u64(out, (stream.devices.len() - devices_from) as u64);
    for (_, name, device) in stream.devices.slots().skip(devices_from) {
        out.push(match device.kind {
            SlotKind::Device => 0,
            SlotKind::Group => 1,
            SlotKind::Stream => 2,
        });
        put_str(out, name);
        hand_over(out);
    }
    put_time(out, stream.shared.time());
    put_time(out, stream.newest);
    out.push(u8::from(stream.lateness.is_some()));
    if let Some(histogram) = &stream.lateness {
        histogram.write(out);
    }
    stream.ledger.write(out);
    for books in &stream.windows {
        books.write(out);
    }
    match extent {
        Extent::Changes => {
            write_removed(out, &stream.changes.removed);
            write_devices(out, stream, extent, live, stream.changes.devices.iter().copied(), hand_over);
        }
        Extent::Whole => {
            write_removed(out, &[]);
            write_devices(
                out,
                stream,
                extent,
                live,
                0..u32::try_from(stream.devices.len()).expect("bounded"),
                hand_over,
            );
        }
    }
}

fn write_names(out: &mut Vec<u8>, names: &[Name]) {
    put_u64(out, names.len() as u64);
    for name in names {
        put_str(out, name.as_str());
    }
}

fn write_removed(out: &mut Vec<u8>, removed: &[(u32, u8, EventTime)]) {
    put_u64(out, removed.len() as u64);
    for (slot, window, start) in removed {
        put_u64(out, u64::from(*slot));
        out.push(*window);
        put_i64(out, start.as_millis());
    }
}

fn write_devices(
    out: &mut Vec<u8>,
    stream: &Stream,
    extent: Extent,
    live: LiveTime,
    slots: impl ExactSizeIterator<Item = u32>,
    hand_over: &mut dyn FnMut(&mut Vec<u8>),
) {
    put_u64(out, slots.len() as u64);
    for slot in slots {
        let device = stream.devices.get(slot);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        put_u64(out, u64::from(slot));
        put_time(out, device.watermark.time());
        put_time(out, device.newest);
        out.push(
            flag(device.idle, IDLE)
                | flag(device.group.is_some(), GROUP)
                | flag(device.floor > Watermark::NONE, FLOOR)
                | flag(device.lateness.is_some(), LATENESS),
        );
        if let Some(group) = device.group {
            put_u64(out, u64::from(group));
        }
        if device.floor > Watermark::NONE {
            put_time(out, device.floor.time());
        }
        if let Some(histogram) = &device.lateness {
            histogram.write(out);
        }
        // 0: no deadline; else what is left, plus one.
        let left = device.idle_at.remaining(live).as_millis();
        put_u64(out, if device.idle_at == LiveTime::NEVER { 0 } else { left.saturating_add(1) });
        let shown = |pane: &&Pane| extent == Extent::Whole || pane.dirty;
        put_u64(out, device.panes.iter().filter(shown).count() as u64);
        for pane in device.panes.iter().filter(shown) {
            write_pane(out, pane, stream.spec.windows[usize::from(pane.window)].aggregates.len());
        }
        hand_over(out);
    }
}

/// Applies a section to a stream that has the definition under which it was written.
pub(super) fn read_section(reader: &mut Reader<'_>, stream: &mut Stream, live: LiveTime) -> Result<(), Damaged> {
    for _ in 0..reader.u64()? {
        stream.fields.intern(reader.str()?).ok_or(Damaged)?;
    }
    for _ in 0..reader.u64()? {
        stream.fields.intern_state(reader.str()?).ok_or(Damaged)?;
    }
    for _ in 0..reader.u64()? {
        read_new_slot(reader, stream)?;
    }
    stream.shared = Watermark::restore(reader.time()?);
    stream.newest = reader.time()?;
    stream.lateness = if reader.u8()? == 0 { None } else { Some(Box::new(Histogram::read(reader)?)) };
    stream.ledger = StreamLedger::read(reader)?;
    for books in &mut stream.windows {
        *books = WindowLedger::read(reader)?;
    }
    for _ in 0..reader.u64()? {
        let (slot, window) = (read_slot(reader, stream)?, reader.u8()?);
        let start = EventTime::from_millis(reader.i64()?);
        let device = stream.devices.get_mut(slot);
        if let Ok(index) = device.pane_position(window, start) {
            device.panes.remove(index);
        }
    }
    for _ in 0..reader.u64()? {
        read_device(reader, stream, live)?;
    }
    Ok(())
}

fn read_new_slot(reader: &mut Reader<'_>, stream: &mut Stream) -> Result<(), Damaged> {
    let kind = reader.u8()?;
    let name = DeviceId::new(reader.str()?).ok_or(Damaged)?;
    let devices = &mut stream.devices;
    match kind {
        0 if devices.find(name.as_str()).is_none() => devices.add(&name),
        1 if devices.find_group(name.as_str()).is_none() => devices.add_group(name),
        2 if devices.whole().is_none() => devices.add_whole(),
        _ => return Err(Damaged),
    };
    Ok(())
}

fn read_slot(reader: &mut Reader<'_>, stream: &Stream) -> Result<u32, Damaged> {
    let slot: u32 = reader.uint()?;
    if (slot as usize) < stream.devices.len() { Ok(slot) } else { Err(Damaged) }
}

fn read_device(reader: &mut Reader<'_>, stream: &mut Stream, live: LiveTime) -> Result<(), Damaged> {
    let slot = read_slot(reader, stream)?;
    let watermark = Watermark::restore(reader.time()?);
    let newest = reader.time()?;
    let flags = reader.u8()?;
    let group = if flags & GROUP == 0 { None } else { Some(read_slot(reader, stream)?) };
    if group.is_some_and(|group| stream.devices.get(group).kind != SlotKind::Group) {
        return Err(Damaged);
    }
    let floor = if flags & FLOOR == 0 { None } else { reader.time()? };
    let lateness = if flags & LATENESS == 0 { None } else { Some(Box::new(Histogram::read(reader)?)) };
    let idle_at = match reader.u64()? {
        0 => LiveTime::NEVER,
        left => live.plus(Span::from_millis(left - 1)),
    };
    let windows = &stream.spec.windows;
    let device = stream.devices.get_mut(slot);
    device.watermark = watermark;
    device.newest = newest;
    device.idle = flags & IDLE != 0;
    device.group = group;
    device.floor = Watermark::restore(floor);
    device.lateness = lateness;
    device.idle_at = idle_at;
    for _ in 0..reader.u64()? {
        let pane = read_pane(reader, windows, stream.fields.names().len())?;
        match device.pane_position(pane.window, pane.start) {
            Ok(index) => device.panes[index] = pane,
            Err(index) => device.insert_pane(index, pane),
        }
    }
    Ok(())
}
