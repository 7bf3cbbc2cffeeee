//! Teltonika trackers: AVL packets of Codec 8, Codec 8 Extended and Codec 16, big endian.
//!
//! ```text
//! 00000000 length   codec n  record … record  n  CRC        as the tracker sends it
//!                   codec n  record … record  n             as bridges pass it on
//!
//! record   time(8, ms) priority(1) longitude(4) latitude(4) altitude(2) angle(2)
//!          satellites(1) speed(2)  event  [generation, Codec 16]  total
//!          count id value(1)…  count id value(2)…  count id value(4)…  count id value(8)…
//!          [Codec 8E: count id length value…]
//!
//! widths   codec     event, id   total, count
//!          08        1           1
//!          8E        2           2
//!          10        2           1
//! ```
//!
//! Layout: the public wiki, "Teltonika Data Sending Protocols". Every AVL record is a
//! record here, in the order of the packet; its IO elements are the tree `io` with
//! decimal ids. What is decided here:
//!
//! - A payload that begins with a codec is a packet without preamble, length and CRC: an
//!   MQTT bridge has stripped them, and the transport has a checksum of its own. One that
//!   begins with zeros has all of them.
//! - IO values of 1, 2 and 4 bytes are unsigned integers, of 8 bytes unsigned too (and may
//!   be beyond `i64`). The width says nothing of the sign: an element that is signed by the
//!   vendor's table (a temperature) is put right by whoever knows the id.
//! - Altitude is in metres and signed, angle in degrees from north, speed in km/h; longitude
//!   and latitude are told in degrees.
//! - Without satellites there is no position: longitude and latitude are null. Speed and
//!   satellites are told as they are; the vendor sends speed 0 then.
//! - The number of records stands twice, and `total` is the sum of the counts. Where they
//!   differ, where something is cut, or where something follows, nothing is told.
//!
//! Not done: the codecs for commands (12, 13, 14, 15) hold no records; the headers of TCP
//! (IMEI) and UDP channels do not occur in MQTT.

use core::fmt::Write as _;

use crate::engine::wire::{Damaged, Reader};
use crate::model::record::RejectReason;

use super::visit::{Outcome, OwnTime, Scalar, Visit};

/// Preamble, length and CRC.
const FRAME_BYTES: usize = 12;

/// The widths in which the codecs differ, in bytes.
#[derive(Clone, Copy)]
struct Codec {
    id: usize,
    count: usize,
    has_generation: bool,
    has_variable: bool,
}

impl Codec {
    fn of(byte: u8) -> Option<Codec> {
        match byte {
            0x08 => Some(Codec { id: 1, count: 1, has_generation: false, has_variable: false }),
            0x8e => Some(Codec { id: 2, count: 2, has_generation: false, has_variable: true }),
            0x10 => Some(Codec { id: 2, count: 1, has_generation: true, has_variable: false }),
            _ => None,
        }
    }
}

/// Tells the records of one packet.
///
/// # Errors
/// `Empty`; `BadChecksum` when the CRC is that of other bytes; `NoValues` for a packet of
/// no records; `NotInFormat` for anything that is no such packet from its first byte to
/// its last.
pub(super) fn tell(payload: &[u8], visit: &mut dyn Visit) -> Outcome {
    if payload.is_empty() {
        return Err(RejectReason::Empty);
    }
    let packet = unframed(payload)?;
    let Some((codec, rest)) = packet.split_first().and_then(|(first, rest)| Some((Codec::of(*first)?, rest))) else {
        return Err(RejectReason::NotInFormat);
    };
    records(codec, rest, visit).map_err(|Damaged| RejectReason::NotInFormat)?;
    if rest.first() == Some(&0) { Err(RejectReason::NoValues) } else { Ok(()) }
}

/// What stands between the length and the CRC, if they are there.
fn unframed(payload: &[u8]) -> Result<&[u8], RejectReason> {
    if payload[0] != 0 {
        return Ok(payload);
    }
    let inner = payload.len().checked_sub(FRAME_BYTES).ok_or(RejectReason::NotInFormat)?;
    let (head, rest) = payload.split_at(8);
    let (packet, crc) = rest.split_at(inner);
    if big_endian(head) != inner as u64 {
        return Err(RejectReason::NotInFormat);
    }
    if big_endian(crc) != u64::from(crc16(packet)) {
        return Err(RejectReason::BadChecksum);
    }
    Ok(packet)
}

fn records(codec: Codec, rest: &[u8], visit: &mut dyn Visit) -> Result<(), Damaged> {
    let mut reader = Reader::new(rest);
    let count = reader.u8()?;
    for _ in 0..count {
        visit.start_record();
        record(codec, &mut reader, visit)?;
    }
    if reader.u8()? == count && reader.is_empty() { Ok(()) } else { Err(Damaged) }
}

fn record(codec: Codec, reader: &mut Reader<'_>, visit: &mut dyn Visit) -> Result<(), Damaged> {
    // Not checked for sense: beyond the years of an i64 no rule for times takes it anyway.
    let at = i64::try_from(uint(reader, 8)?).unwrap_or(i64::MAX);
    visit.own_time(OwnTime::Millis(at));
    visit.member("priority", int(reader, 1)?);
    let (longitude, latitude) = (degrees(reader)?, degrees(reader)?);
    let altitude = i16::from_be_bytes(array(reader)?);
    let angle = int(reader, 2)?;
    let satellites = reader.u8()?;
    let position = |degrees| if satellites == 0 { Scalar::Null } else { Scalar::Float(degrees) };
    visit.member("longitude", position(longitude));
    visit.member("latitude", position(latitude));
    visit.member("altitude", Scalar::Int(altitude.into()));
    visit.member("angle", angle);
    visit.member("satellites", Scalar::Int(satellites.into()));
    visit.member("speed", int(reader, 2)?);
    visit.member("event", int(reader, codec.id)?);
    if codec.has_generation {
        visit.member("generation", int(reader, 1)?);
    }
    let told = visit.enter("io");
    elements(codec, reader, told.then_some(&mut *visit))?;
    if told {
        visit.leave();
    }
    Ok(())
}

fn elements(codec: Codec, reader: &mut Reader<'_>, mut visit: Option<&mut dyn Visit>) -> Result<(), Damaged> {
    let total = uint(reader, codec.count)?;
    let mut seen = 0;
    for width in [1, 2, 4, 8] {
        let count = uint(reader, codec.count)?;
        for _ in 0..count {
            let id = uint(reader, codec.id)?;
            let value = if width == 8 { Scalar::Uint(uint(reader, width)?) } else { int(reader, width)? };
            element(&mut visit, id, value);
        }
        seen += count;
    }
    if codec.has_variable {
        let count = uint(reader, codec.count)?;
        for _ in 0..count {
            let id = uint(reader, codec.id)?;
            let length = u16::from_be_bytes(array(reader)?);
            reader.take(length.into())?;
            element(&mut visit, id, Scalar::Opaque);
        }
        seen += count;
    }
    if seen == total { Ok(()) } else { Err(Damaged) }
}

fn element(visit: &mut Option<&mut dyn Visit>, id: u64, value: Scalar<'_>) {
    if let Some(visit) = visit {
        let mut key = heapless::String::<5>::new();
        write!(key, "{id}").expect("an id has at most 16 bits, and those five digits");
        visit.member(&key, value);
    }
}

/// Degrees, sent as tens of millionths in two's complement.
fn degrees(reader: &mut Reader<'_>) -> Result<f64, Damaged> {
    Ok(f64::from(i32::from_be_bytes(array(reader)?)) / 1e7)
}

fn int(reader: &mut Reader<'_>, width: usize) -> Result<Scalar<'static>, Damaged> {
    i64::try_from(uint(reader, width)?).map(Scalar::Int).map_err(|_| Damaged)
}

fn uint(reader: &mut Reader<'_>, width: usize) -> Result<u64, Damaged> {
    Ok(big_endian(reader.take(width)?))
}

fn array<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N], Damaged> {
    reader.take(N)?.try_into().map_err(|_| Damaged)
}

/// At most eight bytes as an integer.
fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// CRC-16/ARC (the vendor calls it IBM): polynomial 0x8005 reflected, nothing at the start
/// and nothing at the end.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use crate::engine::decode::hostile;
    use crate::engine::decode::visit::spy::told;

    use super::*;

    const ONE: &[u8] = include_bytes!("../../../tests/fixtures/payloads/teltonika/001.payload");
    const THREE: &[u8] = include_bytes!("../../../tests/fixtures/payloads/teltonika/002.payload");
    const NO_FIX: &[u8] = include_bytes!("../../../tests/fixtures/payloads/teltonika/004.payload");

    fn read(payload: &[u8]) -> String {
        told(|visit| tell(payload, visit))
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let hex: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        hex.chunks(2).map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    /// The frame that a tracker puts around `packet`.
    fn framed(packet: &[u8]) -> Vec<u8> {
        let length = u32::try_from(packet.len()).unwrap().to_be_bytes();
        [&[0; 4], &length[..], packet, &u32::from(crc16(packet)).to_be_bytes()].concat()
    }

    /// One record of Codec 8E: an element of each width and one of three bytes.
    fn extended() -> Vec<u8> {
        bytes(
            "8e01 0000016b412cee00 01 fe17b800 1df38aa0 ff9c 010e 09 003f 0181 0005
             0001 0001 01  0001 0002 ffff  0001 018e 80000000  0001 000b ffffffffffffffff
             0001 0101 0003 010203  01",
        )
    }

    #[test]
    fn one_record_has_its_position_and_its_elements() {
        assert_eq!(
            read(ONE),
            "record @1713970366000ms priority=0 longitude=10.5 latitude=50.25 altitude=120 angle=270 satellites=9 \
             speed=63 event=239 io.239=1 io.240=1 io.21=4 io.200=0 io.66=13800 io.67=4100 io.16=1234567"
        );
    }

    #[test]
    fn f29_three_buffered_records_are_three_and_without_satellites_there_is_no_position() {
        let text = read(THREE);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("record @1713970366000ms ") && lines[0].contains(" satellites=9 speed=40 "));
        assert!(lines[1].starts_with("record @1713970396000ms ") && lines[1].contains(" satellites=8 speed=42 "));
        assert!(lines[2].starts_with("record @1713970426000ms ") && lines[2].contains(" satellites=0 speed=0 "));
        assert!(lines[2].contains(" longitude=null latitude=null "));
        assert!(lines.iter().all(|line| line.ends_with("io.66=13700")));
    }

    #[test]
    fn f112_a_clock_that_is_years_behind_is_told_as_it_is() {
        assert_eq!(
            read(NO_FIX),
            "record @1420070423000ms priority=0 longitude=null latitude=null altitude=0 angle=0 satellites=0 speed=0 \
             event=0 io.239=0 io.67=3300"
        );
    }

    #[test]
    fn the_frame_of_the_public_wiki_is_read() {
        let wiki = bytes(
            "000000000000003608010000016B40D8EA30010000000000000000000000000000000105021503010101425E0F01F10000601A014E0000000000000000010000C7CF",
        );
        assert_eq!(
            read(&wiki),
            "record @1560161086000ms priority=1 longitude=null latitude=null altitude=0 angle=0 satellites=0 speed=0 \
             event=1 io.21=3 io.1=1 io.66=24079 io.241=24602 io.78=0"
        );
    }

    #[test]
    fn codec_8_extended_has_wide_ids_and_elements_of_any_length() {
        let expected = "record @1560166592000ms priority=1 longitude=-3.2 latitude=50.25 altitude=-100 angle=270 \
                        satellites=9 speed=63 event=385 io.1=1 io.2=65535 io.398=2147483648 \
                        io.11=18446744073709551615 io.257=opaque";
        assert_eq!(read(&extended()), expected);
        assert_eq!(read(&framed(&extended())), expected);
    }

    #[test]
    fn codec_16_says_how_a_record_came_about() {
        let packet = bytes(
            "1001 0000016b412cee00 00 00000000 00000000 0000 0000 00 0000 000b 05 02
             01 0001 02  01 0003 0007  00 00  01",
        );
        assert!(read(&packet).ends_with(" event=11 generation=5 io.1=2 io.3=7"), "{}", read(&packet));
    }

    #[test]
    fn a_bridge_may_have_stripped_the_frame() {
        assert_eq!(read(&THREE[8..THREE.len() - 4]), read(THREE));
    }

    #[test]
    fn a_wrong_checksum_is_said_so() {
        let mut wrong = ONE.to_vec();
        wrong[20] ^= 1;
        assert_eq!(read(&wrong), "rejected: bad_checksum");
        let mut wrong = ONE.to_vec();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(read(&wrong), "rejected: bad_checksum");
    }

    #[test]
    fn cut_payloads_and_longer_ones_are_not_in_the_format() {
        for whole in [ONE.to_vec(), THREE.to_vec(), extended()] {
            assert_eq!(read(&[]), "rejected: empty");
            for cut in 1..whole.len() {
                assert_eq!(read(&whole[..cut]), "rejected: not_in_format", "cut at {cut}");
            }
            assert_eq!(read(&[&whole[..], &[0]].concat()), "rejected: not_in_format");
        }
        assert_eq!(read(b"{\"state\":{}}"), "rejected: not_in_format");
        assert_eq!(read(&framed(&bytes("0c01050000000161"))), "rejected: not_in_format", "a command's answer");
        assert_eq!(read(&framed(&bytes("080000"))), "rejected: no_values");
    }

    #[test]
    fn counts_that_differ_are_not_in_the_format() {
        let packet = &THREE[8..THREE.len() - 4];
        for (at, value) in [(1, 2), (packet.len() - 1, 2), (27, 3)] {
            let mut lying = packet.to_vec();
            assert_ne!(lying[at], value);
            lying[at] = value;
            assert_eq!(read(&framed(&lying)), "rejected: not_in_format", "byte {at}");
        }
    }

    #[test]
    fn no_input_makes_it_fall_over() {
        let stripped = &THREE[8..THREE.len() - 4];
        hostile::survives(&[ONE, THREE, NO_FIX, stripped, &extended()], tell);
    }
}
