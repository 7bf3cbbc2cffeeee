//! What devices said last (`carry.rs`), in columns, in blocks of devices so that a snapshot
//! can be handed over in pieces.
//!
//! ```text
//! 0: the stream carries nothing | 1, blocks until n is 0
//! block: n | newest of all | n × slots between | n × fields | n × newest behind that of all |
//!        fields | behind the device's newest | kinds | values
//! ```
//!
//! A kind is the number of decimal places, or that it is a float, or a state. A page has the
//! fields that were said since the last commit; it goes by what is known under the page
//! before it, so a page that says 0 ends all that was known.

use crate::engine::carry::{Carry, Datum, Held};
use crate::engine::devices::SlotKind;
use crate::engine::stream::Stream;
use crate::engine::wire::{Damaged, Reader, put_f64, put_i64, put_time, put_u64};
use crate::model::ids::{FieldIx, StateIx};
use crate::model::limits::FIELDS_MAX;
use crate::model::time::EventTime;

use super::columns::{FLOAT, before, decimal, difference, put_slots, read_slots, read_value};
use super::{Extent, HandOver};

/// Devices in a block.
const BLOCK_LEN: usize = 256;
/// Above every number of decimal places.
const STATE: u8 = 254;

/// `hand_over` is offered what is there after each block.
pub(super) fn write(out: &mut Vec<u8>, stream: &Stream, extent: Extent, hand_over: HandOver<'_>) {
    if stream.spec.carry_forward.is_none() {
        return out.push(0);
    }
    out.push(1);
    let carry = &stream.carry;
    let slots: Vec<u32> = match extent {
        Extent::Changes => carry.changed_slots(),
        Extent::Whole => carry.slots().collect(),
    };
    let mut held = Vec::new();
    for block in slots.chunks(BLOCK_LEN) {
        held.clear();
        let mut lens = Vec::with_capacity(block.len());
        for slot in block {
            let before = held.len();
            match extent {
                Extent::Changes => held.extend(carry.changed_of(*slot)),
                Extent::Whole => held.extend(carry.held(*slot)),
            }
            lens.push(held.len() - before);
        }
        write_block(out, block, &lens, &held);
        hand_over(out);
    }
    put_u64(out, 0);
}

/// `lens`: how many of `held` are of each of the slots.
fn write_block(out: &mut Vec<u8>, slots: &[u32], lens: &[usize], held: &[Held]) {
    let mut rest = held;
    let of_device = |len: &usize| {
        let (own, others) = rest.split_at(*len);
        rest = others;
        own
    };
    let devices: Vec<&[Held]> = lens.iter().map(of_device).collect();
    let newest = |held: &[Held]| held.iter().map(|held| held.at).max();
    let reference = newest(held);
    put_u64(out, slots.len() as u64);
    put_time(out, reference);
    put_slots(out, slots.iter().copied());
    for len in lens {
        put_u64(out, *len as u64);
    }
    for device in &devices {
        put_behind(out, reference, newest(device));
    }
    for held in held {
        put_u64(out, u64::from(held.field.0));
    }
    for device in &devices {
        let newest = newest(device);
        for held in *device {
            put_behind(out, newest, Some(held.at));
        }
    }
    for held in held {
        out.push(match held.datum {
            Datum::Number(value) => decimal(value).0,
            Datum::State(_) => STATE,
        });
    }
    for held in held {
        match held.datum {
            Datum::State(state) => put_u64(out, u64::from(state.0)),
            Datum::Number(value) => match decimal(value) {
                (FLOAT, _, value) => put_f64(out, value),
                (_, digits, _) => put_i64(out, digits),
            },
        }
    }
}

fn put_behind(out: &mut Vec<u8>, newest: Option<EventTime>, at: Option<EventTime>) {
    put_u64(out, difference(newest, at).cast_unsigned());
}

/// Applies what [`write`] wrote.
pub(super) fn read(reader: &mut Reader<'_>, stream: &mut Stream) -> Result<(), Damaged> {
    match reader.u8()? {
        0 => {
            stream.carry = Carry::default();
            return Ok(());
        }
        1 => {}
        _ => return Err(Damaged),
    }
    loop {
        let count = reader.u64()?;
        if count == 0 {
            return Ok(());
        }
        read_block(reader, stream, count)?;
    }
}

fn read_block(reader: &mut Reader<'_>, stream: &mut Stream, count: u64) -> Result<(), Damaged> {
    let reference = reader.time()?;
    let slots = read_slots(reader, count, stream)?;
    let is_device = |slot: &u32| stream.devices.get(*slot).kind == SlotKind::Device;
    if !slots.iter().all(is_device) {
        return Err(Damaged);
    }
    let lens: Vec<usize> = slots.iter().map(|_| reader.uint()).collect::<Result<_, _>>()?;
    if lens.iter().any(|len| *len > FIELDS_MAX) {
        return Err(Damaged);
    }
    let behind = |reader: &mut Reader<'_>, newest: Option<EventTime>| -> Result<EventTime, Damaged> {
        Ok(before(newest, reader.u64()?.cast_signed()))
    };
    let newest: Vec<EventTime> = slots.iter().map(|_| behind(reader, reference)).collect::<Result<_, _>>()?;
    // Whose each value is, as a place among the slots.
    let whose: Vec<usize> =
        lens.iter().enumerate().flat_map(|(device, len)| core::iter::repeat_n(device, *len)).collect();
    let fields: Vec<FieldIx> = whose.iter().map(|_| read_field(reader, stream)).collect::<Result<_, _>>()?;
    let times: Vec<EventTime> =
        whose.iter().map(|device| behind(reader, Some(newest[*device]))).collect::<Result<_, _>>()?;
    let kinds = reader.take(whose.len())?;
    for (place, device) in whose.iter().enumerate() {
        let datum = match kinds[place] {
            STATE => Datum::State(read_state(reader, stream)?),
            places => Datum::Number(read_value(reader, places)?),
        };
        stream.carry.restore(slots[*device], Held { field: fields[place], datum, at: times[place] });
    }
    Ok(())
}

fn read_field(reader: &mut Reader<'_>, stream: &Stream) -> Result<FieldIx, Damaged> {
    let field: u16 = reader.uint()?;
    if usize::from(field) < stream.fields.names().len() { Ok(FieldIx(field)) } else { Err(Damaged) }
}

fn read_state(reader: &mut Reader<'_>, stream: &Stream) -> Result<StateIx, Damaged> {
    let state: u16 = reader.uint()?;
    if usize::from(state) < stream.fields.states().texts().len() { Ok(StateIx(state)) } else { Err(Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::spec::StreamSpec;
    use crate::model::ids::{DeviceId, Name};
    use crate::model::template::Template;
    use crate::model::time::Span;
    use crate::model::topic::TopicPattern;

    fn stream(devices: u32) -> Stream {
        let topic = TopicPattern::parse("d/{device}").expect("valid");
        let device = Template::parse("{device}", &topic).expect("valid");
        let spec = StreamSpec::new(Name::new("s").expect("valid"), topic, device);
        let mut stream = Stream::new(StreamSpec { carry_forward: Some(Span::from_secs(1)), ..spec });
        for field in ["v", "w", "mode"] {
            stream.fields.intern(field);
        }
        stream.fields.intern_state("on");
        for device in 0..devices {
            stream.devices.add(&DeviceId::new(&format!("d{device}")).expect("valid"));
        }
        stream
    }

    fn number(field: u16, value: f64, at: i64) -> Held {
        Held { field: FieldIx(field), datum: Datum::Number(value), at: EventTime::from_millis(at) }
    }

    fn state(at: i64) -> Held {
        Held { field: FieldIx(2), datum: Datum::State(StateIx(0)), at: EventTime::from_millis(at) }
    }

    fn written(stream: &Stream, extent: Extent) -> (Vec<u8>, usize) {
        let (mut out, mut pieces) = (Vec::new(), 0);
        write(&mut out, stream, extent, &mut |_| pieces += 1);
        (out, pieces)
    }

    #[test]
    fn what_is_known_comes_back_to_the_bit_in_pieces_and_takes_no_more_than_was_said() {
        let mut whole = stream(600);
        for slot in (0..600).filter(|slot| slot % 7 != 3) {
            let extremes = [0.1, -0.0, 1.0 / 3.0, f64::MAX, 9_007_199_254_740_991.0];
            whole.carry.restore(slot, number(0, extremes[slot as usize % 5], i64::MIN));
            whole.carry.restore(slot, number(1, f64::MIN_POSITIVE, i64::MAX - i64::from(slot)));
            if slot % 2 == 0 {
                whole.carry.restore(slot, state(i64::from(slot)));
            }
        }
        let (bytes, pieces) = written(&whole, Extent::Whole);
        assert_eq!(pieces, 3);
        assert!(bytes.len() <= whole.carry.cost(), "{} bytes, {} at most", bytes.len(), whole.carry.cost());
        let mut back = stream(600);
        read(&mut Reader::new(&bytes), &mut back).expect("what was written");
        let bits = |stream: &Stream| format!("{:?}", stream.carry);
        assert_eq!(bits(&back), bits(&whole));
        for cut in (0..bytes.len()).step_by(97) {
            assert_eq!(read(&mut Reader::new(&bytes[..cut]), &mut stream(600)), Err(Damaged), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_device_field_or_state_is_damage() {
        let mut whole = stream(1);
        whole.carry.restore(0, state(0));
        let (bytes, _) = written(&whole, Extent::Whole);
        let mut other = stream(1);
        other.devices.free(0);
        assert_eq!(read(&mut Reader::new(&bytes), &mut other), Err(Damaged), "a vacant slot");
        for place in 0..bytes.len() {
            for value in [3, 64, 255] {
                let mut bytes = bytes.clone();
                bytes[place] = value;
                // Never a panic; and what is taken is one of the fields.
                let mut other = stream(1);
                if read(&mut Reader::new(&bytes), &mut other).is_ok() {
                    assert!(other.carry.held(0).all(|held| held.field.0 < 3));
                }
            }
        }
    }

    #[test]
    fn a_stream_that_carries_nothing_takes_one_byte_and_ends_what_was_known() {
        let mut off = stream(1);
        off.spec.carry_forward = None;
        let (bytes, _) = written(&off, Extent::Whole);
        assert_eq!(bytes, [0]);
        let mut on = stream(1);
        on.carry.restore(0, state(0));
        read(&mut Reader::new(&bytes), &mut on).expect("what was written");
        assert_eq!(on.carry.slots().count(), 0);
    }
}
