//! Teltonika trackers: by device, packets of Codec 8 with their frame, or the JSON form. A
//! tracker that was offline sends several records in a packet.

use super::super::{Meaning, Measured, Message, Reading};
use super::System;
use crate::model::time::EventTime;

pub(super) struct Teltonika;

fn name(device: u32) -> String {
    format!("3520930800{device:05}")
}

fn topic(device: u32) -> String {
    format!("{}/data", name(device))
}

/// What one record says, in the units of the wire.
struct Fix {
    longitude: i32,
    latitude: i32,
    altitude: i16,
    angle: u16,
    /// None of them: there is no position.
    satellites: u8,
    speed: u16,
    millivolts: u16,
    odometer: u32,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, and signs as the wire has them")]
fn fix(one: &Measured) -> Fix {
    Fix {
        longitude: (one.warmth * 1e7) as i32,
        latitude: (one.share / 2.0 * 1e7) as i32,
        altitude: (one.warmth * 4.0) as i16,
        angle: (one.number % 360) as u16,
        satellites: (one.chance % 10) as u8,
        speed: (one.share * 2.0) as u16,
        millivolts: 12_000 + (one.number % 800) as u16,
        odometer: 1_234_567 + (one.number as u32) * 250,
    }
}

fn record(one: &Measured, out: &mut Vec<u8>) {
    let fix = fix(one);
    out.extend(one.at.as_millis().to_be_bytes());
    out.push(0);
    out.extend(fix.longitude.to_be_bytes());
    out.extend(fix.latitude.to_be_bytes());
    out.extend(fix.altitude.to_be_bytes());
    out.extend(fix.angle.to_be_bytes());
    out.push(fix.satellites);
    out.extend(fix.speed.to_be_bytes());
    // Event and number of elements; one of a byte, one of two, one of four, none of eight.
    out.extend([239, 3, 1, 239, 1, 1, 66]);
    out.extend(fix.millivolts.to_be_bytes());
    out.extend([1, 16]);
    out.extend(fix.odometer.to_be_bytes());
    out.push(0);
}

fn packet(measured: &[Measured]) -> Vec<u8> {
    let count = u8::try_from(measured.len()).expect("a packet holds few");
    let mut body = vec![0x08, count];
    for one in measured {
        record(one, &mut body);
    }
    body.push(count);
    let length = u32::try_from(body.len()).expect("a packet is small");
    [&[0; 4], &length.to_be_bytes()[..], &body, &u32::from(crc(&body)).to_be_bytes()].concat()
}

/// The checksum of the frame, from the table of its half bytes.
fn crc(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 16] = [
        0x0000, 0xcc01, 0xd801, 0x1400, 0xf001, 0x3c00, 0x2800, 0xe401, 0xa001, 0x6c00, 0x7800, 0xb401, 0x5000, 0x9c01,
        0x8801, 0x4400,
    ];
    let step = |crc: u16, half: u8| crc >> 4 ^ TABLE[usize::from((crc ^ u16::from(half)) & 15)];
    bytes.iter().fold(0, |crc, byte| step(step(crc, byte & 15), byte >> 4))
}

fn of_packet(device: u32, one: &Measured) -> Meaning {
    let fix = fix(one);
    let mut reading = Reading::new(name(device), Some(one.at)).with("priority", 0.0);
    if fix.satellites > 0 {
        reading = reading.with("longitude", one.warmth).with("latitude", one.share / 2.0);
    }
    let reading = reading
        .with("altitude", fix.altitude.into())
        .with("angle", fix.angle.into())
        .with("satellites", fix.satellites.into())
        .with("speed", fix.speed.into())
        .with("event", 239.0)
        .with("io.239", 1.0)
        .with("io.66", fix.millivolts.into())
        .with("io.16", fix.odometer.into());
    Meaning::Reading(reading)
}

fn json(device: u32, one: &Measured) -> Message {
    let fix = fix(one);
    let payload = format!(
        "{{\"state\":{{\"reported\":{{\"ts\":{},\"pr\":0,\"latlng\":\"{:.6},{:.6}\",\"alt\":{},\"ang\":{},\"sat\":{},\
         \"sp\":{},\"evt\":239,\"239\":1,\"66\":{},\"16\":\"{}\"}}}}}}",
        one.at.as_millis(),
        one.share / 2.0,
        one.warmth,
        fix.altitude,
        fix.angle,
        fix.satellites,
        fix.speed,
        fix.millivolts,
        fix.odometer
    );
    let reading = Reading::new(name(device), Some(one.at))
        .with("state.reported.pr", 0.0)
        .with("state.reported.alt", fix.altitude.into())
        .with("state.reported.ang", fix.angle.into())
        .with("state.reported.sat", fix.satellites.into())
        .with("state.reported.sp", fix.speed.into())
        .with("state.reported.evt", 239.0)
        .with("state.reported.239", 1.0)
        .with("state.reported.66", fix.millivolts.into())
        .with("state.reported.16", fix.odometer.into());
    Message::reading(topic(device), payload, reading)
}

impl System for Teltonika {
    fn name(&self) -> &'static str {
        "teltonika"
    }

    fn has_clock(&self, _: u32) -> bool {
        true
    }

    fn packet_max(&self) -> usize {
        6
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        if device % 2 == 1 {
            return measured.iter().map(|one| json(device, one)).collect();
        }
        let means = measured.iter().map(|one| of_packet(device, one)).collect();
        vec![Message::new(topic(device), packet(measured), means)]
    }

    fn presence(&self, _: u32, _: bool) -> Option<Message> {
        None
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let one = Measured { at, number: 0, warmth: 10.5, share: 50.0, chance: 9 };
        let mut packet = packet(&[one]);
        match which % 5 {
            0 => {
                packet[20] ^= 1;
                Message::refused(topic(device), packet, "bad_checksum")
            }
            1 => {
                packet.truncate(30);
                Message::refused(topic(device), packet, "not_in_format")
            }
            2 => Message::refused(topic(device), "{\"state\":{\"reported\":{}}}", "no_values"),
            3 => Message::refused(topic(device), "{\"state\":{\"reported\":{\"ts\":17", "not_json"),
            _ => Message::refused(topic(device), "", "empty"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(topic(device), "{\"state\":{\"reported\":{\"sp\":7}}}")]
    }
}
