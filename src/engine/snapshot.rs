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
//! section:    new fields | new devices | shared watermark | books |
//!             removed panes | n × (device | watermark | newest | idle | idle in | n × pane)
//! ```
//!
//! A page holds what changed since the one before it and refers to streams,
//! fields and devices by number; a snapshot holds everything, with the definitions
//! that give the numbers their meaning. No persisted value is a [`ProcTime`]: a
//! deadline is stored as the time that is left.
//!
//! [`ProcTime`]: crate::model::time::ProcTime

use crate::model::ids::{DeviceId, Name};
use crate::model::time::{EventTime, Span};

use super::aggregate::Kind;
use super::ledger::{StreamLedger, WindowLedger};
use super::spec::{LatePolicy, Resume, Scope, WindowKind, WindowSpec};
use super::stream::Stream;
use super::timers::LiveTime;
use super::watermark::Watermark;
use super::window::Interval;
use super::window::pane::Pane;
use super::wire::{Damaged, Reader, put_i64, put_str, put_time, put_u64};

/// Version of both layouts.
pub const STATE_VERSION: u8 = 1;

const PANE_FIRED: u8 = 1;
const PANE_UNSEEN: u8 = 2;
const PANE_PARTIAL: u8 = 4;
const PANE_RECEIVE_TIME: u8 = 8;

/// What a stream was when the snapshot was taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definition {
    pub name: Name,
    pub scope: Scope,
    pub windows: Vec<WindowSpec>,
}

/// Checks the version byte.
///
/// # Errors
/// [`Damaged`] for a version that this build does not know.
pub(super) fn open(bytes: &[u8]) -> Result<Reader<'_>, Damaged> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? == STATE_VERSION { Ok(reader) } else { Err(Damaged) }
}

pub(super) fn write_definition(out: &mut Vec<u8>, stream: &Stream) {
    put_str(out, stream.spec.name.as_str());
    out.push(match stream.spec.watermark.scope {
        Scope::Device => 0,
        Scope::Shared => 1,
        Scope::Stream(Resume::CatchUp) => 2,
        Scope::Stream(Resume::Hold) => 3,
    });
    put_u64(out, stream.spec.windows.len() as u64);
    for window in &stream.spec.windows {
        put_str(out, window.name.as_str());
        write_kind(out, window.kind);
        put_u64(out, window.lateness.as_millis());
        put_u64(out, window.aggregates.len() as u64);
        out.extend(window.aggregates.iter().map(|kind| kind.tag()));
    }
}

pub(super) fn read_definition(reader: &mut Reader<'_>) -> Result<Definition, Damaged> {
    let name = Name::new(reader.str()?).ok_or(Damaged)?;
    let scope = match reader.u8()? {
        0 => Scope::Device,
        1 => Scope::Shared,
        2 => Scope::Stream(Resume::CatchUp),
        3 => Scope::Stream(Resume::Hold),
        _ => return Err(Damaged),
    };
    let mut windows = Vec::new();
    for _ in 0..reader.u64()? {
        let name = Name::new(reader.str()?).ok_or(Damaged)?;
        let kind = read_kind(reader)?;
        let lateness = Span::from_millis(reader.u64()?);
        let tags = reader.bytes()?;
        let aggregates = tags.iter().map(|tag| Kind::from_tag(*tag).ok_or(Damaged)).collect::<Result<_, _>>()?;
        windows.push(WindowSpec { name, kind, lateness, late: LatePolicy::SideOutput, aggregates });
    }
    Ok(Definition { name, scope, windows })
}

fn write_kind(out: &mut Vec<u8>, kind: WindowKind) {
    match kind {
        WindowKind::Tumbling { size, offset_ms } => {
            out.push(0);
            put_u64(out, size.as_millis());
            put_i64(out, offset_ms);
        }
        WindowKind::Sliding { size, slide, offset_ms } => {
            out.push(1);
            put_u64(out, size.as_millis());
            put_u64(out, slide.as_millis());
            put_i64(out, offset_ms);
        }
        WindowKind::Session { gap } => {
            out.push(2);
            put_u64(out, gap.as_millis());
        }
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Result<WindowKind, Damaged> {
    let span = |reader: &mut Reader<'_>| match reader.u64()? {
        0 => Err(Damaged),
        millis => Ok(Span::from_millis(millis)),
    };
    Ok(match reader.u8()? {
        0 => WindowKind::Tumbling { size: span(reader)?, offset_ms: reader.i64()? },
        1 => WindowKind::Sliding { size: span(reader)?, slide: span(reader)?, offset_ms: reader.i64()? },
        2 => WindowKind::Session { gap: span(reader)? },
        _ => return Err(Damaged),
    })
}

/// Which part of a stream is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    /// What changed since the last commit.
    Changes,
    /// Everything.
    Whole,
}

pub(super) fn write_section(out: &mut Vec<u8>, stream: &Stream, extent: Extent, live: LiveTime) {
    let (fields_from, devices_from) = match extent {
        Extent::Changes => (stream.changes.fields_from, stream.changes.devices_from),
        Extent::Whole => (0, 0),
    };
    let names = &stream.fields.names()[fields_from..];
    put_u64(out, names.len() as u64);
    for name in names {
        put_str(out, name.as_str());
    }
    put_u64(out, (stream.devices.len() - devices_from) as u64);
    for (_, name, _) in stream.devices.slots().skip(devices_from) {
        put_str(out, name.as_str());
    }
    put_time(out, stream.shared.time());
    stream.ledger.write(out);
    for books in &stream.windows {
        books.write(out);
    }
    match extent {
        Extent::Changes => {
            write_removed(out, &stream.changes.removed);
            write_devices(out, stream, extent, live, stream.changes.devices.iter().copied());
        }
        Extent::Whole => {
            write_removed(out, &[]);
            write_devices(out, stream, extent, live, 0..u32::try_from(stream.devices.len()).expect("bounded"));
        }
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
) {
    put_u64(out, slots.len() as u64);
    for slot in slots {
        let device = stream.devices.get(slot);
        put_u64(out, u64::from(slot));
        put_time(out, device.watermark.time());
        put_time(out, device.newest);
        out.push(u8::from(device.idle));
        // 0: no deadline; else what is left, plus one.
        let left = device.idle_at.remaining(live).as_millis();
        put_u64(out, if device.idle_at == LiveTime::NEVER { 0 } else { left.saturating_add(1) });
        let shown = |pane: &&Pane| extent == Extent::Whole || pane.dirty;
        put_u64(out, device.panes.iter().filter(shown).count() as u64);
        for pane in device.panes.iter().filter(shown) {
            write_pane(out, pane, stream.spec.windows[usize::from(pane.window)].aggregates.len());
        }
    }
}

fn write_pane(out: &mut Vec<u8>, pane: &Pane, width: usize) {
    out.push(pane.window);
    put_i64(out, pane.start.as_millis());
    put_u64(out, pane.start.lag_behind(pane.end).as_millis());
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
    put_u64(out, pane.replaces.len() as u64);
    for start in &pane.replaces {
        put_i64(out, start.as_millis());
    }
    put_u64(out, pane.present);
    for field in pane.fields() {
        for accumulator in pane.field(field, width) {
            accumulator.write(out);
        }
    }
}

/// Applies a section to a stream that has the definition under which it was written.
pub(super) fn read_section(reader: &mut Reader<'_>, stream: &mut Stream, live: LiveTime) -> Result<(), Damaged> {
    for _ in 0..reader.u64()? {
        stream.fields.intern(reader.str()?).ok_or(Damaged)?;
    }
    for _ in 0..reader.u64()? {
        let name = DeviceId::new(reader.str()?).ok_or(Damaged)?;
        if stream.devices.find(name.as_str()).is_some() {
            return Err(Damaged);
        }
        stream.devices.add(name);
    }
    stream.shared = Watermark::restore(reader.time()?);
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

fn read_slot(reader: &mut Reader<'_>, stream: &Stream) -> Result<u32, Damaged> {
    let slot: u32 = reader.uint()?;
    if (slot as usize) < stream.devices.len() { Ok(slot) } else { Err(Damaged) }
}

fn read_device(reader: &mut Reader<'_>, stream: &mut Stream, live: LiveTime) -> Result<(), Damaged> {
    let slot = read_slot(reader, stream)?;
    let watermark = Watermark::restore(reader.time()?);
    let newest = reader.time()?;
    let idle = reader.u8()? == 1;
    let idle_at = match reader.u64()? {
        0 => LiveTime::NEVER,
        left => live.plus(Span::from_millis(left - 1)),
    };
    let windows = &stream.spec.windows;
    let device = stream.devices.get_mut(slot);
    device.watermark = watermark;
    device.newest = newest;
    device.idle = idle;
    device.idle_at = idle_at;
    for _ in 0..reader.u64()? {
        let pane = read_pane(reader, windows, stream.fields.names().len())?;
        match device.pane_position(pane.window, pane.start) {
            Ok(index) => device.panes[index] = pane,
            Err(index) => device.panes.insert(index, pane),
        }
    }
    Ok(())
}

fn read_pane(reader: &mut Reader<'_>, windows: &[WindowSpec], fields: usize) -> Result<Pane, Damaged> {
    let window = reader.u8()?;
    let aggregates = &windows.get(usize::from(window)).ok_or(Damaged)?.aggregates;
    let start = EventTime::from_millis(reader.i64()?);
    let end = start + Span::from_millis(reader.u64()?);
    let mut pane = Pane::open(window, Interval { start, end }, false, Vec::new());
    pane.count = reader.u64()?;
    pane.unsettled = reader.u64()?;
    pane.revision = reader.uint()?;
    let flags = reader.u8()?;
    pane.fired = flags & PANE_FIRED != 0;
    pane.unseen = flags & PANE_UNSEEN != 0;
    pane.partial = flags & PANE_PARTIAL != 0;
    pane.receive_time = flags & PANE_RECEIVE_TIME != 0;
    for _ in 0..reader.u64()? {
        pane.replaces.push(EventTime::from_millis(reader.i64()?));
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
        for (place, kind) in aggregates.iter().enumerate() {
            pane.accumulators[first + place] = kind.read(reader)?;
        }
    }
    Ok(pane)
}
