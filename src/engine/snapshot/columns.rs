//! What changed since the last commit, for a page: devices and additions in columns,
//! so that what is alike stands together and is packed to next to nothing.
//!
//! ```text
//! devices:   n | newest of all | n × slots between | n × flags | newest? | behind? | group? | floor? |
//!            lateness? | (most | less?)? expires in | (most | less?)? idle in | n × windows that are whole | those windows
//! additions: n | n × slots between | n × place of the window | n × flags | field? | at? | scales | values
//! ```
//!
//! A column with a question mark has entries only for those whose flags say so; `at` for
//! those whose window has an aggregate of more than fixed form.

use core::cmp::Ordering;

use crate::engine::additions::Noted;
use crate::engine::aggregate::{Aggregates, Kind};
use crate::engine::devices::{Device, SlotKind};
use crate::engine::stream::Stream;
use crate::engine::timers::{Clocks, LiveTime};
use crate::engine::watermark::Watermark;
use crate::engine::watermark::adaptive::Histogram;
use crate::engine::window::pane::Pane;
use crate::engine::wire::{Damaged, Reader, put_f64, put_i64, put_time, put_u64};
use crate::model::ids::FieldIx;
use crate::model::record::{Record, TimeSource};
use crate::model::time::{EventTime, Span};

use super::pane::{read_pane, write_pane};

const IDLE: u64 = 1;
const GROUP: u64 = 2;
const FLOOR: u64 = 4;
const LATENESS: u64 = 8;
const EXPIRES: u64 = 16;
const NEWEST: u64 = 32;
const WATERMARK: u64 = 64;
const DEADLINE: u64 = 128;

const SETTLES: u8 = 1;
const RECEIVE_TIME: u8 = 2;
/// The fields are not those of the addition before.
const OTHER_FIELDS: u8 = 4;

/// Additions to one window beyond which the window itself is shorter.
const WINDOW_MAX: usize = 12;
/// Decimal places that a value is tried with.
const PLACES_MAX: u8 = 6;
/// In the place of decimal places: the value stands as a float.
pub(super) const FLOAT: u8 = 255;

/// Additions that are written, and the windows that are written whole instead.
struct Changed<'a> {
    additions: Vec<(Noted, usize)>,
    /// Slot and place of the window.
    whole: Vec<(u32, usize)>,
    stream: &'a Stream,
}

impl<'a> Changed<'a> {
    fn of(stream: &'a Stream) -> Changed<'a> {
        let mut changed = Changed { additions: Vec::new(), whole: Vec::new(), stream };
        let noted = stream.changes.additions.by_window();
        for group in
            noted.chunk_by(|one, other| (one.slot, one.window, one.start) == (other.slot, other.window, other.start))
        {
            let first = group[0];
            let device = stream.devices.get(first.slot);
            // Gone, and perhaps opened again: then it is written whole, or not at all.
            let Ok(place) = device.pane_position(first.window, first.start) else { continue };
            if device.panes[place].dirty {
                continue;
            }
            if group.len() > WINDOW_MAX {
                changed.whole.push((first.slot, place));
            } else {
                changed.additions.extend(group.iter().map(|noted| (*noted, place)));
            }
        }
        changed
    }

    fn is_whole(&self, slot: u32, place: usize, pane: &Pane) -> bool {
        pane.dirty || pane.noted && self.whole.binary_search(&(slot, place)).is_ok()
    }
}

/// Appends all that changed of devices and their windows.
pub(super) fn write(out: &mut Vec<u8>, stream: &Stream, clocks: Clocks) {
    let changed = Changed::of(stream);
    let known = |slot: &u32| stream.devices.get(*slot).kind != SlotKind::Vacant;
    let mut slots: Vec<u32> = stream.changes.devices.iter().copied().filter(known).collect();
    slots.sort_unstable();
    write_devices(out, &slots, &changed, clocks);
    write_additions(out, &changed);
}

fn write_devices(out: &mut Vec<u8>, slots: &[u32], changed: &Changed<'_>, clocks: Clocks) {
    let devices = || slots.iter().map(|slot| changed.stream.devices.get(*slot));
    put_u64(out, slots.len() as u64);
    let reference = devices().filter_map(Device::newest).max();
    put_time(out, reference);
    put_slots(out, slots.iter().copied());
    for device in devices() {
        put_u64(out, flags(device));
    }
    for newest in devices().filter_map(Device::newest) {
        put_u64(out, difference(reference, Some(newest)).cast_unsigned());
    }
    for device in devices().filter(|device| device.watermark.time().is_some()) {
        put_i64(out, difference(device.newest(), device.watermark.time()));
    }
    devices().filter_map(|device| device.group).for_each(|group| put_u64(out, u64::from(group)));
    for device in devices().filter(|device| device.floor > Watermark::NONE) {
        put_time(out, device.floor.time());
    }
    devices().filter_map(|device| device.lateness.as_ref()).for_each(|histogram| histogram.write(out));
    put_deadlines(out, devices().map(|device| device.expires_at), clocks.live);
    put_deadlines(out, devices().map(|device| device.idle_at), clocks.live);
    let whole = |slot: u32| {
        let panes = changed.stream.devices.get(slot).panes.iter().enumerate();
        panes.filter(move |(place, pane)| changed.is_whole(slot, *place, pane)).map(|(_, pane)| pane)
    };
    for slot in slots {
        put_u64(out, whole(*slot).count() as u64);
    }
    for pane in slots.iter().flat_map(|slot| whole(*slot)) {
        let width = changed.stream.spec.windows[usize::from(pane.window)].aggregates.len();
        write_pane(out, pane, width, clocks.proc);
    }
}

fn flags(device: &Device) -> u64 {
    let flag = |set: bool, bit: u64| if set { bit } else { 0 };
    flag(device.idle, IDLE)
        | flag(device.group.is_some(), GROUP)
        | flag(device.floor > Watermark::NONE, FLOOR)
        | flag(device.lateness.is_some(), LATENESS)
        | flag(device.expires_at != LiveTime::NEVER, EXPIRES)
        | flag(device.newest().is_some(), NEWEST)
        | flag(device.watermark.time().is_some(), WATERMARK)
        | flag(device.idle_at != LiveTime::NEVER, DEADLINE)
}

fn write_additions(out: &mut Vec<u8>, changed: &Changed<'_>) {
    let Changed { additions, stream, .. } = changed;
    let values = |noted: &Noted| stream.changes.additions.values(noted).iter();
    put_u64(out, additions.len() as u64);
    put_slots(out, additions.iter().map(|(noted, _)| noted.slot));
    for (_, place) in additions {
        put_u64(out, *place as u64);
    }
    let mut fields: Vec<FieldIx> = Vec::new();
    let mut others: Vec<Noted> = Vec::new();
    for (noted, _) in additions {
        let same = values(noted).map(|(field, _)| *field).eq(fields.iter().copied());
        if !same {
            fields.clear();
            fields.extend(values(noted).map(|(field, _)| *field));
            others.push(*noted);
        }
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.push(flag(noted.settles, SETTLES) | flag(noted.receive_time, RECEIVE_TIME) | flag(!same, OTHER_FIELDS));
    }
    for noted in &others {
        put_u64(out, values(noted).len() as u64);
        values(noted).for_each(|(field, _)| put_u64(out, u64::from(field.0)));
    }
    for (noted, _) in additions {
        if needs_time(&stream.spec.windows[usize::from(noted.window)].aggregates) {
            put_i64(out, difference(Some(noted.at), Some(noted.start)));
        }
    }
    let all = || additions.iter().flat_map(|(noted, _)| values(noted)).map(|(_, value)| decimal(*value));
    all().for_each(|(places, ..)| out.push(places));
    for (places, digits, value) in all() {
        if places == FLOAT { put_f64(out, value) } else { put_i64(out, digits) }
    }
}

/// Whether adding takes more of a record than its values.
fn needs_time(aggregates: &Aggregates) -> bool {
    aggregates.kinds.iter().any(|kind| matches!(kind, Kind::First | Kind::Last))
}

/// A value as a whole number and its decimal places, if that gives the very same float.
pub(super) fn decimal(value: f64) -> (u8, i64, f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let mut scale = 1.0;
    for places in 0..=PLACES_MAX {
        let digits = (value * scale).round();
        if digits.abs() >= EXACT {
            break;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        let digits = digits as i64;
        if (digits as f64 / scale).total_cmp(&value) == Ordering::Equal {
            return (places, digits, value);
        }
        scale *= 10.0;
    }
    (FLOAT, 0, value)
}

/// What is left of each that there is, as less than of the last one: what all of them have
/// since they heard of their device.
fn put_deadlines(out: &mut Vec<u8>, deadlines: impl Iterator<Item = LiveTime> + Clone, now: LiveTime) {
    let left = deadlines.filter(|at| *at != LiveTime::NEVER).map(|at| at.remaining(now).as_millis());
    let Some(most) = left.clone().max() else { return };
    put_u64(out, most);
    left.for_each(|left| put_u64(out, most - left));
}

pub(super) fn put_slots(out: &mut Vec<u8>, slots: impl Iterator<Item = u32>) {
    let mut last = 0;
    for slot in slots {
        put_u64(out, u64::from(slot - last));
        last = slot;
    }
}

/// Wraps around, and so does what undoes it.
pub(super) fn difference(from: Option<EventTime>, time: Option<EventTime>) -> i64 {
    let millis = |time: Option<EventTime>| time.map_or(0, EventTime::as_millis);
    millis(from).wrapping_sub(millis(time))
}

pub(super) fn before(from: Option<EventTime>, difference: i64) -> EventTime {
    EventTime::from_millis(from.map_or(0, EventTime::as_millis).wrapping_sub(difference))
}

/// Applies what [`write`] wrote.
pub(super) fn read(reader: &mut Reader<'_>, stream: &mut Stream, written: Clocks) -> Result<(), Damaged> {
    read_devices(reader, stream, written)?;
    read_additions(reader, stream)
}

fn read_devices(reader: &mut Reader<'_>, stream: &mut Stream, written: Clocks) -> Result<(), Damaged> {
    let count = reader.u64()?;
    let reference = reader.time()?;
    let slots = read_slots(reader, count, stream)?;
    let flags: Vec<u64> = slots.iter().map(|_| reader.u64()).collect::<Result<_, _>>()?;
    let with = |flag: u64| slots.iter().zip(&flags).filter(move |(_, flags)| *flags & flag != 0).map(|(slot, _)| *slot);
    for (slot, flags) in slots.iter().zip(&flags) {
        let device = stream.devices.get_mut(*slot);
        device.idle = flags & IDLE != 0;
        device.set_newest(None);
        device.watermark = Watermark::NONE;
        device.group = None;
        device.floor = Watermark::NONE;
        device.lateness = None;
        device.expires_at = LiveTime::NEVER;
        device.idle_at = LiveTime::NEVER;
    }
    for slot in with(NEWEST) {
        let newest = before(reference, reader.u64()?.cast_signed());
        stream.devices.get_mut(slot).set_newest(Some(newest));
    }
    for slot in with(WATERMARK) {
        let behind = reader.i64()?;
        let device = stream.devices.get_mut(slot);
        device.watermark = Watermark::restore(Some(before(device.newest(), behind)));
    }
    for slot in with(GROUP) {
        let group = super::read_slot(reader, stream)?;
        if stream.devices.get(group).kind != SlotKind::Group {
            return Err(Damaged);
        }
        stream.devices.get_mut(slot).group = Some(group);
    }
    for slot in with(FLOOR) {
        stream.devices.get_mut(slot).floor = Watermark::restore(reader.time()?);
    }
    for slot in with(LATENESS) {
        stream.devices.get_mut(slot).lateness = Some(Box::new(Histogram::read(reader)?));
    }
    let deadlines = read_deadlines(reader, with(EXPIRES).count(), written.live)?;
    for (slot, at) in with(EXPIRES).zip(deadlines) {
        stream.devices.get_mut(slot).expires_at = at;
    }
    let deadlines = read_deadlines(reader, with(DEADLINE).count(), written.live)?;
    for (slot, at) in with(DEADLINE).zip(deadlines) {
        stream.devices.get_mut(slot).idle_at = at;
    }
    let whole: Vec<u64> = slots.iter().map(|_| reader.u64()).collect::<Result<_, _>>()?;
    for (slot, count) in slots.iter().zip(whole) {
        for _ in 0..count {
            let pane = read_pane(reader, &stream.spec.windows, stream.fields.names().len(), written.proc)?;
            stream.devices.get_mut(*slot).put_pane(pane);
        }
    }
    Ok(())
}

fn read_additions(reader: &mut Reader<'_>, stream: &mut Stream) -> Result<(), Damaged> {
    let count = reader.u64()?;
    let slots = read_slots(reader, count, stream)?;
    let places: Vec<usize> = slots.iter().map(|_| reader.uint()).collect::<Result<_, _>>()?;
    let flags: Vec<u8> = slots.iter().map(|_| reader.u8()).collect::<Result<_, _>>()?;
    let mut lists: Vec<Vec<FieldIx>> = Vec::new();
    for _ in flags.iter().filter(|flags| *flags & OTHER_FIELDS != 0) {
        lists.push(read_fields(reader, stream.fields.names().len())?);
    }
    let mut times = Vec::with_capacity(slots.len());
    for (slot, place) in slots.iter().zip(&places) {
        let pane = stream.devices.get(*slot).panes.get(*place).ok_or(Damaged)?;
        let is_written = needs_time(&stream.spec.windows[usize::from(pane.window)].aggregates);
        let behind = if is_written { reader.i64()? } else { 0 };
        times.push(EventTime::from_millis(pane.start.as_millis().wrapping_add(behind)));
    }
    // Which of them is that of each addition; 0: none, it has no values.
    let mut list_of = Vec::with_capacity(slots.len());
    let mut total = 0_usize;
    for flags in &flags {
        let last = list_of.last().copied().unwrap_or(0);
        list_of.push(last + usize::from(flags & OTHER_FIELDS != 0));
        total += fields_at(&lists, &list_of).len();
    }
    let mut scales = reader.take(total)?.iter();
    let mut values = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        values.clear();
        for field in fields_at(&lists, &list_of[..=index]) {
            values.push((*field, read_value(reader, *scales.next().ok_or(Damaged)?)?));
        }
        let source = if flags[index] & RECEIVE_TIME == 0 { TimeSource::Device } else { TimeSource::Receive };
        let record = Record { source, ..Record::new("", times[index], &values) };
        let pane = stream.devices.get_mut(*slot).panes.get_mut(places[index]).ok_or(Damaged)?;
        let aggregates = &stream.spec.windows[usize::from(pane.window)].aggregates;
        if aggregates.grow() {
            return Err(Damaged);
        }
        pane.add(&record, aggregates);
        pane.unsettled += u64::from(flags[index] & SETTLES != 0);
    }
    Ok(())
}

/// The fields of the last of them.
fn fields_at<'l>(lists: &'l [Vec<FieldIx>], list_of: &[usize]) -> &'l [FieldIx] {
    list_of.last().and_then(|list| list.checked_sub(1)).map_or(&[], |list| &lists[list])
}

fn read_deadlines(reader: &mut Reader<'_>, count: usize, now: LiveTime) -> Result<Vec<LiveTime>, Damaged> {
    let most = if count > 0 { reader.u64()? } else { 0 };
    let left = |less: u64| most.checked_sub(less).map(|left| now.plus(Span::from_millis(left))).ok_or(Damaged);
    (0..count).map(|_| left(reader.u64()?)).collect()
}

pub(super) fn read_slots(reader: &mut Reader<'_>, count: u64, stream: &Stream) -> Result<Vec<u32>, Damaged> {
    let mut slots = Vec::new();
    let mut last = 0_u32;
    for _ in 0..count {
        last = last.checked_add(reader.uint()?).ok_or(Damaged)?;
        if last as usize >= stream.devices.len() {
            return Err(Damaged);
        }
        slots.push(last);
    }
    Ok(slots)
}

fn read_fields(reader: &mut Reader<'_>, known: usize) -> Result<Vec<FieldIx>, Damaged> {
    let mut fields = Vec::new();
    for _ in 0..reader.u64()? {
        let field: u16 = reader.uint()?;
        if usize::from(field) >= known {
            return Err(Damaged);
        }
        fields.push(FieldIx(field));
    }
    Ok(fields)
}

pub(super) fn read_value(reader: &mut Reader<'_>, places: u8) -> Result<f64, Damaged> {
    if places == FLOAT {
        return reader.f64();
    }
    if places > PLACES_MAX {
        return Err(Damaged);
    }
    let scale = (0..places).fold(1.0, |scale, _| scale * 10.0);
    Ok(reader.i64()? as f64 / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_to_the_bit_however_it_is_written() {
        let mut all =
            vec![0.0, -0.0, 0.1, -21.53, 1e-7, 1e300, f64::MAX, f64::MIN_POSITIVE, 9_007_199_254_740_993.0, 1.0 / 3.0];
        all.extend((0..10_000).map(|number| f64::from(number) * 0.01 - 20.0));
        for value in all {
            let (places, digits, float) = decimal(value);
            let mut out = Vec::new();
            if places == FLOAT {
                put_f64(&mut out, float);
            } else {
                put_i64(&mut out, digits);
            }
            let back = read_value(&mut Reader::new(&out), places);
            assert_eq!(back.map(f64::to_bits), Ok(value.to_bits()), "{value}");
        }
        assert_eq!(decimal(21.53).1, 2_153);
        assert_eq!(read_value(&mut Reader::new(&[2]), 7), Err(Damaged));
    }
}
