//! Persisted bytes: the layout of streams, devices and panes; `checkpoint.rs` and
//! `restore.rs` put the parts together, and each part of the engine writes its own
//! numbers. Versioned; every version that was ever released has a fixture in
//! tests/fixtures/state.
//!
//! ```text
//! snapshot: version | meta | redelivery | outbox | n × (definition | section | memory) | n × fences |
//!           n × past | graves | clients?
//! page:     version | age | meta | redelivery changes | outbox log | n × (0 | 1 section in columns | memory)
//!
//! age:        time since what was stored before: while the input was live, and in all
//! meta:       windows that start before this time may lack records
//! past:       other fences | meaning | n × (early | late updates | final | n × tenure), of the last windows
//! definition: stream | scope | n × (window | kind | lateness | late | aggregates)
//! section:    new fields | new states | freed slots | given slots | tombstones | shared watermark | newest |
//!             lateness? | books | copies known (`dedup`) | last values (`carried.rs`) | held readings (`ordered.rs`) |
//!             removed panes |
//!             n × (slot | watermark | newest | flags | group? | floor? | lateness? | ends in? | idle in | n × pane) |
//!             n × (slot | window | 0: gone, 1: goes on, 2: new | quiet in | full in | n × delta)
//! memory:     what the format of the stream remembers between messages (`decode`), behind its length
//! given slot: slot | device, group or stream | name
//! ```
//!
//! In columns: what is between the removed panes and the deltas is as said in `columns.rs`,
//! and smaller by far.
//!
//! A page holds what changed since the one before it and refers to streams,
//! fields and devices by number; a snapshot holds everything, with the definitions
//! that give the numbers their meaning. No persisted value is a [`ProcTime`]: a
//! deadline is stored as the time that is left.
//!
//! [`ProcTime`]: crate::model::time::ProcTime

mod burst;
mod carried;
mod columns;
mod definition;
mod pane;

use crate::model::ids::{DeviceId, Name};
use crate::model::time::{EventTime, Span};

use super::devices::{DeviceTable, SlotKind};
use super::ledger::{RecordsLedger, StreamLedger, WindowLedger};
use super::stream::Stream;
use super::timers::{Clocks, LiveTime};
use super::watermark::Watermark;
use super::watermark::adaptive::Histogram;
use super::wire::{Damaged, Reader, put_i64, put_str, put_time, put_u64};

use burst::{read_bursts, write_bursts};
pub(super) use definition::{Definition, read_definition, read_past, write_definition, write_past};
use pane::{read_pane, write_pane};

/// Version of both layouts.
pub const STATE_VERSION: u8 = 5;
/// Before: definitions that finish, and what streams meant, were not kept.
const VERSION_WITHOUT_PAST: u8 = 4;

/// Checks the version byte.
///
/// # Errors
/// [`Damaged`] for a version that this build does not know.
pub(super) fn open(bytes: &[u8]) -> Result<Reader<'_>, Damaged> {
    let mut reader = Reader::new(bytes);
    if (VERSION_WITHOUT_PAST..=STATE_VERSION).contains(&reader.u8()?) { Ok(reader) } else { Err(Damaged) }
}

/// Whether what `open` takes has it.
pub(super) fn has_past(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|version| *version > VERSION_WITHOUT_PAST)
}

/// Flags of a device.
const IDLE: u8 = 1;
const GROUP: u8 = 2;
const FLOOR: u8 = 4;
const LATENESS: u8 = 8;
const EXPIRES: u8 = 16;

/// Which part of a stream is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// What changed since the last commit.
    Changes,
    /// Everything.
    Whole,
}

/// Takes what has been written so far, if it is much.
type HandOver<'a> = &'a mut dyn FnMut(&mut Vec<u8>);

/// `hand_over` is offered what is there after each device.
pub(super) fn write_section(
    out: &mut Vec<u8>,
    stream: &Stream,
    extent: Extent,
    clocks: Clocks,
    hand_over: HandOver<'_>,
) {
    let (fields_from, states_from) = match extent {
        Extent::Changes => (stream.changes.fields_from, stream.changes.states_from),
        Extent::Whole => (0, 0),
    };
    write_names(out, &stream.fields.names()[fields_from..]);
    write_names(out, &stream.fields.states().texts()[states_from..]);
    match extent {
        Extent::Changes => {
            put_u64(out, stream.devices.freed().len() as u64);
            stream.devices.freed().iter().for_each(|slot| put_u64(out, u64::from(*slot)));
            write_given(out, &stream.devices, stream.devices.given().iter().copied(), hand_over);
            stream.tombstones.write_changes(out);
        }
        Extent::Whole => {
            put_u64(out, 0);
            write_given(out, &stream.devices, stream.devices.occupied(), hand_over);
            stream.tombstones.write_all(out);
        }
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
    stream.records.write(out);
    stream.dedup.write(out, extent);
    carried::write(out, stream, extent, hand_over);
    match extent {
        Extent::Changes => {
            stream.ordered.write_changes(out);
            write_removed(out, stream, &stream.changes.removed);
            columns::write(out, stream, clocks);
        }
        Extent::Whole => {
            stream.ordered.write_all(out);
            write_removed(out, stream, &[]);
            write_devices(out, stream, clocks, hand_over);
        }
    }
    write_bursts(out, stream, extent, clocks.proc);
}

fn write_names(out: &mut Vec<u8>, names: &[Name]) {
    put_u64(out, names.len() as u64);
    for name in names {
        put_str(out, name.as_str());
    }
}

fn write_given(
    out: &mut Vec<u8>,
    devices: &DeviceTable,
    slots: impl Iterator<Item = u32> + Clone,
    hand_over: HandOver<'_>,
) {
    put_u64(out, slots.clone().count() as u64);
    for slot in slots {
        put_u64(out, u64::from(slot));
        out.push(match devices.get(slot).kind {
            SlotKind::Device => 0,
            SlotKind::Group => 1,
            SlotKind::Stream => 2,
            SlotKind::Vacant => unreachable!("a vacant slot is not given"),
        });
        put_str(out, devices.name(slot));
        hand_over(out);
    }
}

/// A slot that was given and freed since the last commit is not known to whoever reads
/// the page, and nothing of it is.
fn is_known(stream: &Stream, slot: u32) -> bool {
    stream.devices.get(slot).kind != SlotKind::Vacant || stream.devices.freed().contains(&slot)
}

fn write_removed(out: &mut Vec<u8>, stream: &Stream, removed: &[(u32, u8, EventTime)]) {
    let removed = removed.iter().filter(|(slot, ..)| is_known(stream, *slot));
    put_u64(out, removed.clone().count() as u64);
    for (slot, window, start) in removed {
        put_u64(out, u64::from(*slot));
        out.push(*window);
        put_i64(out, start.as_millis());
    }
}

fn write_devices(out: &mut Vec<u8>, stream: &Stream, clocks: Clocks, hand_over: HandOver<'_>) {
    let slots = stream.devices.occupied();
    put_u64(out, slots.clone().count() as u64);
    for slot in slots {
        let device = stream.devices.get(slot);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        put_u64(out, u64::from(slot));
        put_time(out, device.watermark.time());
        put_time(out, device.newest());
        out.push(
            flag(device.idle, IDLE)
                | flag(device.group.is_some(), GROUP)
                | flag(device.floor > Watermark::NONE, FLOOR)
                | flag(device.lateness.is_some(), LATENESS)
                | flag(device.expires_at != LiveTime::NEVER, EXPIRES),
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
        if device.expires_at != LiveTime::NEVER {
            put_u64(out, device.expires_at.remaining(clocks.live).as_millis());
        }
        // 0: no deadline; else what is left, plus one.
        let left = device.idle_at.remaining(clocks.live).as_millis();
        put_u64(out, if device.idle_at == LiveTime::NEVER { 0 } else { left.saturating_add(1) });
        put_u64(out, device.panes.len() as u64);
        for pane in &device.panes {
            write_pane(out, pane, stream.spec.windows[usize::from(pane.window)].aggregates.len(), clocks.proc);
        }
        hand_over(out);
    }
}

/// Applies a section to a stream that has the definition under which it was written.
/// `written`: how long after the snapshot that was.
pub(super) fn read_section(
    reader: &mut Reader<'_>,
    stream: &mut Stream,
    written: Clocks,
    extent: Extent,
) -> Result<(), Damaged> {
    for _ in 0..reader.u64()? {
        stream.fields.intern(reader.str()?).ok_or(Damaged)?;
    }
    for _ in 0..reader.u64()? {
        stream.fields.intern_state(reader.str()?).ok_or(Damaged)?;
    }
    for _ in 0..reader.u64()? {
        let slot = read_slot(reader, stream)?;
        stream.dedup.forget(slot);
        stream.carry.forget(slot);
        stream.fences.forget(slot);
        stream.retiring.iter_mut().for_each(|retiring| retiring.forget(slot));
        stream.devices.free(slot);
    }
    for _ in 0..reader.u64()? {
        read_given(reader, stream)?;
    }
    stream.tombstones.read(reader)?;
    stream.shared = Watermark::restore(reader.time()?);
    stream.newest = reader.time()?;
    stream.lateness = if reader.u8()? == 0 { None } else { Some(Box::new(Histogram::read(reader)?)) };
    stream.ledger = StreamLedger::read(reader)?;
    for books in &mut stream.windows {
        *books = WindowLedger::read(reader)?;
    }
    stream.records = RecordsLedger::read(reader)?;
    stream.dedup.read(reader, stream.devices.len())?;
    carried::read(reader, stream)?;
    stream.ordered.read(reader)?;
    for _ in 0..reader.u64()? {
        let (slot, window) = (read_slot(reader, stream)?, reader.u8()?);
        let start = EventTime::from_millis(reader.i64()?);
        let device = stream.devices.get_mut(slot);
        if let Ok(index) = device.pane_position(window, start) {
            device.panes.remove(index);
        }
    }
    match extent {
        Extent::Changes => columns::read(reader, stream, written)?,
        Extent::Whole => {
            for _ in 0..reader.u64()? {
                read_device(reader, stream, written)?;
            }
        }
    }
    read_bursts(reader, stream, written.proc)
}

fn read_given(reader: &mut Reader<'_>, stream: &mut Stream) -> Result<(), Damaged> {
    let slot = reader.uint()?;
    let kind = match reader.u8()? {
        0 => SlotKind::Device,
        1 => SlotKind::Group,
        2 => SlotKind::Stream,
        _ => return Err(Damaged),
    };
    let name = DeviceId::new(reader.str()?).ok_or(Damaged)?;
    if stream.devices.restore(slot, kind, name) { Ok(()) } else { Err(Damaged) }
}

fn read_slot(reader: &mut Reader<'_>, stream: &Stream) -> Result<u32, Damaged> {
    let slot: u32 = reader.uint()?;
    if (slot as usize) < stream.devices.len() { Ok(slot) } else { Err(Damaged) }
}

fn read_device(reader: &mut Reader<'_>, stream: &mut Stream, written: Clocks) -> Result<(), Damaged> {
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
    let expires_at = match flags & EXPIRES {
        0 => LiveTime::NEVER,
        _ => written.live.plus(Span::from_millis(reader.u64()?)),
    };
    let idle_at = match reader.u64()? {
        0 => LiveTime::NEVER,
        left => written.live.plus(Span::from_millis(left - 1)),
    };
    let windows = &stream.spec.windows;
    let device = stream.devices.get_mut(slot);
    device.watermark = watermark;
    device.set_newest(newest);
    device.idle = flags & IDLE != 0;
    device.group = group;
    device.floor = Watermark::restore(floor);
    device.lateness = lateness;
    device.idle_at = idle_at;
    device.expires_at = expires_at;
    for _ in 0..reader.u64()? {
        let pane = read_pane(reader, windows, stream.fields.names().len(), written.proc)?;
        device.put_pane(pane);
    }
    Ok(())
}
