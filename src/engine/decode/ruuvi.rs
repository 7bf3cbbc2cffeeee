//! Ruuvi Gateway: JSON that carries a Bluetooth advertisement in hexadecimal.
//!
//! ```text
//! {"gw_mac":"…","rssi":-82,"aoa":[],"gwts":"1660123852","ts":"1660123642","data":"0201061BFF9904 05…"}
//!
//! data   length type body  length type body …       AD structures, length without itself
//!        type FF: company 0x0499 little endian, data format, fields big endian
//!
//! 03  tag, old     humidity temperature pressure acceleration×3 battery
//! 05  tag          temperature humidity pressure acceleration×3 power movement sequence(2) mac
//! 06  air          temperature humidity pressure pm2.5 co2 voc nox light(log) – sequence(1) flags mac(3)
//! C5  tag, cut     as 05 without the acceleration
//! E1  air          temperature humidity pressure pm1 pm2.5 pm4 pm10 co2 voc nox light(3) –(3)
//!                  sequence(3) flags –(5) mac
//! ```
//!
//! Layouts: docs.ruuvi.com, "Bluetooth advertisements"; its test vectors are in the tests.
//! One record, whose members are:
//!
//! - `gw_mac`, `rssi`, `ts`, `gwts`, as the gateway wrote them, where they are (and not null). `ts` (when
//!   the gateway heard the tag, in seconds; older firmware sends it as a text) is the
//!   record's own time too. `gwts`, when the gateway sent the message, is no event time.
//! - What the advertisement says, with the unit in the name. A value that the tag marks as
//!   not available is null. `mac` is the tag's address, in format 6 only the lower half of it.
//!
//! Unknown keys are passed over (`aoa`, `coords`, what newer gateways decode themselves).
//! Encrypted advertisements (format 8) have nothing to read.

use core::fmt::Write as _;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::engine::spec::TimeUnit;
use crate::model::record::RejectReason;

use super::visit::{Outcome, OwnTime, Scalar, Visit};

/// Bytes of one advertisement. Bluetooth 5 could carry 1,650; the longest format here has 46.
const ADVERTISEMENT_BYTES_MAX: usize = 512;
/// The manufacturer's number at the Bluetooth SIG.
const COMPANY: u16 = 0x0499;
/// The AD type of what a manufacturer defines.
const MANUFACTURER_SPECIFIC: u8 = 0xff;

/// The keys that count. Borrowed: nothing of the payload is copied.
#[derive(Deserialize)]
struct Message<'p> {
    #[serde(borrow, default)]
    gw_mac: Option<&'p RawValue>,
    #[serde(borrow, default)]
    rssi: Option<&'p RawValue>,
    #[serde(borrow, default)]
    ts: Option<&'p RawValue>,
    #[serde(borrow, default)]
    gwts: Option<&'p RawValue>,
    #[serde(borrow, default)]
    data: Option<&'p RawValue>,
}

/// Tells the record of one advertisement.
///
/// # Errors
/// `Empty`, `NotJson`. `NoValues` for an object without `data`: the gateway's status, on a
/// topic beside those of the tags. `WrongShape` for JSON that is no object or has one of
/// the keys twice, and for an advertisement of another manufacturer or in another format.
/// `NotInFormat` for `data` that is no advertisement, or one that is cut short.
pub(super) fn tell(payload: &[u8], visit: &mut dyn Visit) -> Outcome {
    if payload.is_empty() {
        return Err(RejectReason::Empty);
    }
    let text = core::str::from_utf8(payload).map_err(|_| RejectReason::NotJson)?;
    let message = parse(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    let data = match message.data.map(scalar) {
        Some(Scalar::Text(data)) => unhex(data).ok_or(RejectReason::NotInFormat)?,
        Some(Scalar::Null) | None => return Err(RejectReason::NoValues),
        Some(_) => return Err(RejectReason::WrongShape),
    };
    let sent = manufacturer_data(&data)?;
    let layout = layout(sent)?;

    visit.start_record();
    if let Some(Scalar::Number(digits) | Scalar::Text(digits)) = message.ts.map(scalar)
        && !digits.is_empty()
    {
        visit.own_time(OwnTime::Epoch(digits, TimeUnit::Seconds));
    }
    for (key, value) in [("gw_mac", message.gw_mac), ("rssi", message.rssi), ("ts", message.ts), ("gwts", message.gwts)]
    {
        if let Some(value) = value {
            visit.member(key, scalar(value));
        }
    }
    layout(sent, visit);
    Ok(())
}

fn parse(text: &str) -> Result<Message<'_>, RejectReason> {
    // serde would take an array for the object too, by position.
    if text.trim_ascii_start().starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| if error.is_data() { RejectReason::WrongShape } else { RejectReason::NotJson });
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Err(RejectReason::WrongShape),
        Err(_) => Err(RejectReason::NotJson),
    }
}

/// A value as it is written. Texts with escapes are none of ours, and not read.
fn scalar(raw: &RawValue) -> Scalar<'_> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).map_or(Scalar::Opaque, Scalar::Text),
        Some(b'n') => Scalar::Null,
        Some(b't') => Scalar::Bool(true),
        Some(b'f') => Scalar::Bool(false),
        Some(b'-' | b'0'..=b'9') => Scalar::Number(text),
        Some(_) | None => Scalar::Opaque,
    }
}

fn unhex(text: &str) -> Option<heapless::Vec<u8, ADVERTISEMENT_BYTES_MAX>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    let mut bytes = heapless::Vec::new();
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?).ok()?;
    }
    odd.is_empty().then_some(bytes)
}

/// What follows the company's number in its AD structure.
fn manufacturer_data(mut rest: &[u8]) -> Result<&[u8], RejectReason> {
    while let Some((length, structures)) = rest.split_first() {
        // Bluetooth Core, vol. 3 part C, 11: zeros fill up what is not used.
        if *length == 0 {
            break;
        }
        let (structure, after) = structures.split_at_checked((*length).into()).ok_or(RejectReason::NotInFormat)?;
        if let [MANUFACTURER_SPECIFIC, low, high, sent @ ..] = structure
            && u16::from_le_bytes([*low, *high]) == COMPANY
        {
            return Ok(sent);
        }
        rest = after;
    }
    Err(RejectReason::WrongShape)
}

/// Tells the members of a format whose length has been checked.
type Layout = fn(&[u8], &mut dyn Visit);

fn layout(sent: &[u8]) -> Result<Layout, RejectReason> {
    let (length, layout): (usize, Layout) = match sent.first() {
        Some(0x03) => (14, format_3),
        Some(0x05) => (24, format_5),
        Some(0x06) => (20, format_6),
        Some(0xc5) => (18, format_c5),
        Some(0xe1) => (40, format_e1),
        Some(_) => return Err(RejectReason::WrongShape),
        None => return Err(RejectReason::NotInFormat),
    };
    if sent.len() == length { Ok(layout) } else { Err(RejectReason::NotInFormat) }
}

/// No value is marked as not available; the temperature has a sign bit, and hundredths of their own.
fn format_3(sent: &[u8], visit: &mut dyn Visit) {
    let magnitude = f64::from(u16::from(sent[2] & 0x7f) * 100 + u16::from(sent[3])) / 100.0;
    visit.member("temperature_c", Scalar::Float(if sent[2] & 0x80 == 0 { magnitude } else { -magnitude }));
    visit.member("humidity_pct", Scalar::Float(f64::from(sent[1]) / 2.0));
    visit.member("pressure_pa", Scalar::Int(i64::from(be16(sent, 4)) + 50_000));
    acceleration(&sent[6..12], visit);
    visit.member("battery_mv", Scalar::Int(be16(sent, 12).into()));
}

fn format_5(sent: &[u8], visit: &mut dyn Visit) {
    climate(sent, visit);
    acceleration(&sent[7..13], visit);
    tag(&sent[13..], visit);
}

fn format_c5(sent: &[u8], visit: &mut dyn Visit) {
    climate(sent, visit);
    tag(&sent[7..], visit);
}

fn format_6(sent: &[u8], visit: &mut dyn Visit) {
    climate(sent, visit);
    visit.member("pm2_5_ug_m3", tenths(be16(sent, 7)));
    gases(&sent[9..13], sent[16], visit);
    // 255 steps of equal ratio from 0 to 65,535 lux. Rounded as the vendor says, and so the
    // same with the exponential function of every machine.
    let lux = ((f64::from(sent[13]) * 65_536_f64.ln() / 254.0).exp_m1() * 100.0).round() / 100.0;
    visit.member("luminosity_lux", unless(sent[13] == u8::MAX, Scalar::Float(lux)));
    visit.member("sequence", Scalar::Int(sent[15].into()));
    visit.member("calibrating", Scalar::Bool(sent[16] & 1 == 1));
    mac(&sent[17..], visit);
}

fn format_e1(sent: &[u8], visit: &mut dyn Visit) {
    climate(sent, visit);
    for (at, key) in [(7, "pm1_ug_m3"), (9, "pm2_5_ug_m3"), (11, "pm4_ug_m3"), (13, "pm10_ug_m3")] {
        visit.member(key, tenths(be16(sent, at)));
    }
    gases(&sent[15..19], sent[28], visit);
    let lux = be24(sent, 19);
    visit.member("luminosity_lux", unless(lux == 0xff_ffff, Scalar::Float(f64::from(lux) / 100.0)));
    let sequence = be24(sent, 25);
    visit.member("sequence", unless(sequence == 0xff_ffff, Scalar::Int(sequence.into())));
    visit.member("calibrating", Scalar::Bool(sent[28] & 1 == 1));
    mac(&sent[34..], visit);
}

/// What all but format 3 begin with.
fn climate(sent: &[u8], visit: &mut dyn Visit) {
    let (temperature, humidity, pressure) = (signed16(sent, 1), be16(sent, 3), be16(sent, 5));
    // Division by the steps in a unit: multiplied by 0.005, 24.3 would be 24.3 and a bit.
    let celsius = Scalar::Float(f64::from(temperature) / 200.0);
    visit.member("temperature_c", unless(temperature == i16::MIN, celsius));
    visit.member("humidity_pct", unless(humidity == u16::MAX, Scalar::Float(f64::from(humidity) / 400.0)));
    visit.member("pressure_pa", unless(pressure == u16::MAX, Scalar::Int(i64::from(pressure) + 50_000)));
}

fn acceleration(axes: &[u8], visit: &mut dyn Visit) {
    for (at, key) in [(0, "acceleration_x_g"), (2, "acceleration_y_g"), (4, "acceleration_z_g")] {
        let milli = signed16(axes, at);
        visit.member(key, unless(milli == i16::MIN, Scalar::Float(f64::from(milli) / 1_000.0)));
    }
}

/// The end of formats 5 and C5: power, movement, sequence, address.
fn tag(end: &[u8], visit: &mut dyn Visit) {
    let power = be16(end, 0);
    let (battery, tx) = (i64::from(power >> 5), i64::from(power & 0x1f));
    visit.member("battery_mv", unless(battery == 0x7ff, Scalar::Int(battery + 1_600)));
    visit.member("tx_dbm", unless(tx == 0x1f, Scalar::Int(tx * 2 - 40)));
    visit.member("movement", unless(end[2] == u8::MAX, Scalar::Int(end[2].into())));
    let sequence = be16(end, 3);
    visit.member("sequence", unless(sequence == u16::MAX, Scalar::Int(sequence.into())));
    mac(&end[5..], visit);
}

/// Carbon dioxide, and the two indices whose lowest bits are in the flags.
fn gases(values: &[u8], flags: u8, visit: &mut dyn Visit) {
    let co2 = be16(values, 0);
    visit.member("co2_ppm", unless(co2 == u16::MAX, Scalar::Int(co2.into())));
    for (high, bit, key) in [(values[2], 6, "voc_index"), (values[3], 7, "nox_index")] {
        let index = i64::from(high) << 1 | i64::from(flags >> bit & 1);
        visit.member(key, unless(index == 0x1ff, Scalar::Int(index)));
    }
}

fn mac(address: &[u8], visit: &mut dyn Visit) {
    let mut text = heapless::String::<18>::new();
    for (index, byte) in address.iter().enumerate() {
        let colon = if index == 0 { "" } else { ":" };
        write!(text, "{colon}{byte:02X}").expect("six bytes are seventeen characters");
    }
    let missing = address.iter().all(|byte| *byte == u8::MAX);
    visit.member("mac", unless(missing, Scalar::Text(&text)));
}

fn unless(missing: bool, value: Scalar<'_>) -> Scalar<'_> {
    if missing { Scalar::Null } else { value }
}

fn tenths(value: u16) -> Scalar<'static> {
    unless(value == u16::MAX, Scalar::Float(f64::from(value) / 10.0))
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn signed16(bytes: &[u8], at: usize) -> i16 {
    be16(bytes, at).cast_signed()
}

fn be24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

#[cfg(test)]
mod tests {
    use crate::engine::decode::hostile;
    use crate::engine::decode::visit::spy::told;

    use super::*;

    const STRINGS: &[u8] = include_bytes!("../../../tests/fixtures/payloads/ruuvi/001.payload");
    const NUMBERS: &[u8] = include_bytes!("../../../tests/fixtures/payloads/ruuvi/002.payload");
    const STATUS: &[u8] = include_bytes!("../../../tests/fixtures/payloads/ruuvi/004.payload");

    fn read(payload: &[u8]) -> String {
        told(|visit| tell(payload, visit))
    }

    /// A message whose advertisement has only what the manufacturer sent, in hexadecimal.
    fn message(sent: &str) -> String {
        format!(r#"{{"data":"{:02X}FF9904{sent}"}}"#, sent.len() / 2 + 3)
    }

    fn sent(hex: &str) -> String {
        read(message(hex).as_bytes())
    }

    #[test]
    fn older_gateways_send_their_times_as_texts() {
        assert_eq!(
            read(STRINGS),
            "record @1660123642s gw_mac=\"02:00:00:00:00:AA\" rssi=-82 ts=\"1660123642\" gwts=\"1660123852\" \
             temperature_c=24.3 humidity_pct=53.49 pressure_pa=100044 acceleration_x_g=0.004 acceleration_y_g=-0.004 \
             acceleration_z_g=1.036 battery_mv=2977 tx_dbm=4 movement=66 sequence=205 mac=\"02:00:00:00:00:01\""
        );
    }

    #[test]
    fn newer_gateways_send_numbers_and_what_is_not_available_is_null() {
        assert_eq!(
            read(NUMBERS),
            "record @1729001456s gw_mac=\"02:00:00:00:00:AA\" rssi=-62 ts=1729001456 gwts=1729001456 \
             temperature_c=-18.115 humidity_pct=null pressure_pa=null acceleration_x_g=-1.0 acceleration_y_g=0.0 \
             acceleration_z_g=0.016 battery_mv=1740 tx_dbm=-8 movement=null sequence=null mac=\"02:00:00:00:00:02\""
        );
    }

    #[test]
    fn a_status_has_no_values() {
        assert_eq!(read(STATUS), "rejected: no_values");
        assert_eq!(read(br#"{"gw_mac":"02:00:00:00:00:AA","data":null}"#), "rejected: no_values");
    }

    #[test]
    fn format_5_reads_the_public_test_vectors() {
        assert_eq!(
            sent("0512FC5394C37C0004FFFC040CAC364200CDCBB8334C884F"),
            "record temperature_c=24.3 humidity_pct=53.49 pressure_pa=100044 acceleration_x_g=0.004 \
             acceleration_y_g=-0.004 acceleration_z_g=1.036 battery_mv=2977 tx_dbm=4 movement=66 sequence=205 \
             mac=\"CB:B8:33:4C:88:4F\""
        );
        assert_eq!(
            sent("057FFFFFFEFFFE7FFF7FFF7FFFFFDEFEFFFECBB8334C884F"),
            "record temperature_c=163.835 humidity_pct=163.835 pressure_pa=115534 acceleration_x_g=32.767 \
             acceleration_y_g=32.767 acceleration_z_g=32.767 battery_mv=3646 tx_dbm=20 movement=254 sequence=65534 \
             mac=\"CB:B8:33:4C:88:4F\""
        );
        assert_eq!(
            sent("058001000000008001800180010000000000CBB8334C884F"),
            "record temperature_c=-163.835 humidity_pct=0.0 pressure_pa=50000 acceleration_x_g=-32.767 \
             acceleration_y_g=-32.767 acceleration_z_g=-32.767 battery_mv=1600 tx_dbm=-40 movement=0 sequence=0 \
             mac=\"CB:B8:33:4C:88:4F\""
        );
        assert_eq!(
            sent("058000FFFFFFFF800080008000FFFFFFFFFFFFFFFFFFFFFF"),
            "record temperature_c=null humidity_pct=null pressure_pa=null acceleration_x_g=null acceleration_y_g=null \
             acceleration_z_g=null battery_mv=null tx_dbm=null movement=null sequence=null mac=null"
        );
    }

    #[test]
    fn format_3_reads_the_public_test_vectors() {
        assert_eq!(
            sent("03291A1ECE1EFC18F94202CA0B53"),
            "record temperature_c=26.3 humidity_pct=20.5 pressure_pa=102766 acceleration_x_g=-1.0 \
             acceleration_y_g=-1.726 acceleration_z_g=0.714 battery_mv=2899"
        );
        assert_eq!(
            sent("03FF7F63FFFF7FFF7FFF7FFFFFFF"),
            "record temperature_c=127.99 humidity_pct=127.5 pressure_pa=115535 acceleration_x_g=32.767 \
             acceleration_y_g=32.767 acceleration_z_g=32.767 battery_mv=65535"
        );
        assert_eq!(
            sent("0300FF6300008001800180010000"),
            "record temperature_c=-127.99 humidity_pct=0.0 pressure_pa=50000 acceleration_x_g=-32.767 \
             acceleration_y_g=-32.767 acceleration_z_g=-32.767 battery_mv=0"
        );
    }

    #[test]
    fn format_6_reads_the_public_test_vectors() {
        assert_eq!(
            sent("06170C5668C79E007000C90501D9FFCD004C884F"),
            "record temperature_c=29.5 humidity_pct=55.3 pressure_pa=101102 pm2_5_ug_m3=11.2 co2_ppm=201 voc_index=10 \
             nox_index=2 luminosity_lux=13026.67 sequence=205 calibrating=false mac=\"4C:88:4F\""
        );
        assert_eq!(
            sent("067FFF9C40FFFE27109C40FAFAFEFFFF074C8F4F"),
            "record temperature_c=163.835 humidity_pct=100.0 pressure_pa=115534 pm2_5_ug_m3=1000.0 co2_ppm=40000 \
             voc_index=500 nox_index=500 luminosity_lux=65535.0 sequence=255 calibrating=true mac=\"4C:8F:4F\""
        );
        assert_eq!(
            sent("068000FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"),
            "record temperature_c=null humidity_pct=null pressure_pa=null pm2_5_ug_m3=null co2_ppm=null voc_index=null \
             nox_index=null luminosity_lux=null sequence=255 calibrating=true mac=null"
        );
    }

    #[test]
    fn format_e1_reads_the_public_test_vector() {
        assert_eq!(
            sent("E1170C5668C79E0065007004BD11CA00C90A0213E0ACFFFFFFDECDEE10FFFFFFFFFFCBB8334C884F"),
            "record temperature_c=29.5 humidity_pct=55.3 pressure_pa=101102 pm1_ug_m3=10.1 pm2_5_ug_m3=11.2 \
             pm4_ug_m3=121.3 pm10_ug_m3=455.4 co2_ppm=201 voc_index=20 nox_index=4 luminosity_lux=13027.0 \
             sequence=14601710 calibrating=false mac=\"CB:B8:33:4C:88:4F\""
        );
    }

    #[test]
    fn format_c5_is_format_5_without_acceleration() {
        assert_eq!(
            sent("C512FC5394C37CAC364200CDCBB8334C884F"),
            "record temperature_c=24.3 humidity_pct=53.49 pressure_pa=100044 battery_mv=2977 tx_dbm=4 movement=66 \
             sequence=205 mac=\"CB:B8:33:4C:88:4F\""
        );
    }

    #[test]
    fn what_is_not_of_this_manufacturer_or_in_a_known_format_has_the_wrong_shape() {
        assert_eq!(read(br#"{"data":"0201061AFF4C000215"}"#), "rejected: not_in_format", "cut");
        assert_eq!(read(br#"{"data":"02010603FF4C00"}"#), "rejected: wrong_shape", "Apple");
        assert_eq!(read(br#"{"data":"020106"}"#), "rejected: wrong_shape", "no manufacturer at all");
        assert_eq!(read(br#"{"data":""}"#), "rejected: wrong_shape");
        assert_eq!(sent("08FFFF"), "rejected: wrong_shape", "encrypted");
    }

    #[test]
    fn what_is_no_advertisement_is_not_in_the_format() {
        for data in ["0", "0201", "XX", "1BFF990405", "03FF9904", "04FF990405", "02010"] {
            assert_eq!(read(format!(r#"{{"data":"{data}"}}"#).as_bytes()), "rejected: not_in_format", "{data}");
        }
        let long = "00".repeat(ADVERTISEMENT_BYTES_MAX + 1);
        assert_eq!(read(format!(r#"{{"data":"{long}"}}"#).as_bytes()), "rejected: not_in_format");
    }

    #[test]
    fn what_is_no_object_is_said_so() {
        for (payload, reason) in [
            (&b""[..], "empty"),
            (b"online", "not_json"),
            (b"{\"data\":\"02", "not_json"),
            (b"{\"data\":\"\xff\"}", "not_json"),
            (b"[null,1,2,3,\"020106\"]", "wrong_shape"),
            (b"7", "wrong_shape"),
            (b"{\"data\":7}", "wrong_shape"),
            (b"{\"data\":\"\",\"data\":\"\"}", "wrong_shape"),
        ] {
            assert_eq!(read(payload), format!("rejected: {reason}"), "{}", payload.escape_ascii());
        }
    }

    #[test]
    fn a_time_that_is_none_is_left_to_whoever_reads_it() {
        let at = |ts: &str| {
            read(
                message("C512FC5394C37CAC364200CDCBB8334C884F").replacen('{', &format!("{{\"ts\":{ts},"), 1).as_bytes(),
            )
        };
        assert!(at("1660123642.5").starts_with("record @1660123642.5s ts=1660123642.5 "));
        assert!(at("null").starts_with("record temperature_c="), "null is not there");
        assert!(at("\"\"").starts_with("record ts=\"\" "), "nor is nothing a time");
        assert!(at("[1]").starts_with("record ts=opaque "));
        assert!(at("\"\\u0031\"").starts_with("record ts=opaque "));
    }

    #[test]
    fn no_input_makes_it_fall_over() {
        let air = message("E1170C5668C79E0065007004BD11CA00C90A0213E0ACFFFFFFDECDEE10FFFFFFFFFFCBB8334C884F");
        let deep = [&br#"{"aoa":"#[..], &b"[".repeat(10_000)].concat();
        hostile::survives(&[STRINGS, NUMBERS, STATUS, air.as_bytes()], tell);
        assert_eq!(read(&deep), "rejected: not_json");
    }
}
