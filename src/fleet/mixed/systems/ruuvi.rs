//! Ruuvi: tags advertise in data format 5, and two gateways hear each of them. Each gateway
//! sends what it heard with its own clock, which may show the next second already; only the
//! sequence number tells that both are one measurement.

use core::fmt::Write as _;

use super::super::written::cut;
use super::super::{Meaning, Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct Ruuvi;

const GATEWAYS: [&str; 2] = ["02:00:00:00:00:AA", "02:00:00:00:00:BB"];

/// What every battery has.
const BATTERY_MV: u16 = 2_975;

/// A gateway writes whole seconds.
const SECOND_MS: i64 = 1_000;

fn name(device: u32) -> String {
    let [_, high, middle, low] = device.to_be_bytes();
    format!("C0:00:00:{high:02X}:{middle:02X}:{low:02X}")
}

/// Thousandths of g on each axis, in eighths of g.
fn acceleration(one: &Measured) -> [i16; 3] {
    [0, 8, 16].map(|bits| (i16::from((one.chance >> bits).to_le_bytes()[0] % 17) - 8) * 125)
}

/// What a tag sends, from the flags to the last byte of its address.
fn advertisement(device: u32, one: &Measured) -> Vec<u8> {
    let mut bytes = vec![0x02, 0x01, 0x06, 0x1b, 0xff, 0x99, 0x04, 0x05];
    bytes.extend(steps(one.warmth * 200.0).to_be_bytes());
    bytes.extend(count(one.share * 400.0).to_be_bytes());
    bytes.extend(count(pressure(one) - 50_000.0).to_be_bytes());
    for axis in acceleration(one) {
        bytes.extend(axis.to_be_bytes());
    }
    // Eleven bits of battery, and five of power: +4 dBm in steps of 2 above -40.
    bytes.extend(((BATTERY_MV - 1_600) << 5 | 0b1_0110).to_be_bytes());
    bytes.push(movements(one));
    bytes.extend(sequence(one).to_be_bytes());
    let [_, high, middle, low] = device.to_be_bytes();
    bytes.extend([0xc0, 0, 0, high, middle, low]);
    bytes
}

#[expect(clippy::cast_possible_truncation, reason = "-40 to 50 degrees in 200ths")]
fn steps(value: f64) -> i16 {
    value as i16
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 65,536")]
fn count(value: f64) -> u16 {
    value as u16
}

fn pressure(one: &Measured) -> f64 {
    101_000.0 + (one.number % 64) as f64
}

fn movements(one: &Measured) -> u8 {
    u8::try_from(one.number % 255).expect("below 255")
}

fn sequence(one: &Measured) -> u16 {
    u16::try_from(one.number % 65_535).expect("below 65,535")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02X}").expect("a string takes everything");
        text
    })
}

fn heard(device: u32, one: &Measured, gateway: usize, at: EventTime, rssi: f64) -> (String, String) {
    let (seconds, mac) = (at.as_millis() / SECOND_MS, GATEWAYS[gateway]);
    // Older gateways write their times as texts.
    let seconds = if gateway == 0 { seconds.to_string() } else { format!("\"{seconds}\"") };
    let data = hex(&advertisement(device, one));
    let payload = format!(
        "{{\"gw_mac\":\"{mac}\",\"rssi\":{rssi},\"aoa\":[],\"gwts\":{seconds},\"ts\":{seconds},\
         \"data\":\"{data}\",\"coords\":\"\"}}"
    );
    (format!("ruuvi/{mac}/{}", name(device)), payload)
}

impl System for Ruuvi {
    fn name(&self) -> &'static str {
        "ruuvi"
    }

    fn has_clock(&self, _: u32) -> bool {
        true
    }

    /// A tag is heard or it is not.
    fn keeps(&self, _: u32) -> bool {
        false
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let mut messages = Vec::new();
        for one in measured {
            let first = usize::from(one.chance & 1 == 1);
            let at = cut(one.at, SECOND_MS);
            let rssi = -60.0 - (one.number % 20) as f64;
            let (topic, payload) = heard(device, one, first, at, rssi);
            let [x, y, z] = acceleration(one).map(|thousandths| f64::from(thousandths) / 1_000.0);
            let reading = Reading::new(name(device), Some(at))
                .with("rssi", rssi)
                .with("temperature_c", one.warmth)
                .with("humidity_pct", one.share)
                .with("pressure_pa", pressure(one))
                .with("acceleration_x_g", x)
                .with("acceleration_y_g", y)
                .with("acceleration_z_g", z)
                .with("battery_mv", BATTERY_MV.into())
                .with("tx_dbm", 4.0)
                .with("movement", f64::from(movements(one)));
            messages.push(Message::reading(topic, payload, reading));
            let ahead = if one.chance & 6 == 0 { SECOND_MS } else { 0 };
            let at = EventTime::from_millis(at.as_millis() + ahead);
            let (topic, payload) = heard(device, one, 1 - first, at, rssi - 7.0);
            messages.push(Message::new(topic, payload, vec![Meaning::Copy(name(device))]));
        }
        messages
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        // What is on or off is a gateway, not a tag.
        let gateway = *GATEWAYS.get(usize::try_from(device).ok()?)?;
        let word = if online { "online" } else { "offline" };
        let payload = format!("{{\"state\": \"{word}\"}}");
        Some(Message::presence(format!("ruuvi/{gateway}/gw_status"), payload, Whom::All, online))
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let seconds = at.as_millis() / SECOND_MS;
        let gateway = GATEWAYS[usize::from(which & 8 == 8)];
        let topic = format!("ruuvi/{gateway}/{}", name(device));
        let message = |data: &str| format!("{{\"gw_mac\":\"{gateway}\",\"ts\":{seconds},\"data\":\"{data}\"}}");
        match which % 5 {
            0 => Message::refused(topic, message("02010603FF4C00"), "wrong_shape"),
            1 => Message::refused(topic, message("0201061BFF99040512FC"), "not_in_format"),
            2 => Message::refused(topic, message("zz"), "not_in_format"),
            3 => Message::ignored(format!("ruuvi/{gateway}/gw_status"), "{\"state\": \"starting\"}"),
            _ => Message::refused(topic, "{\"gw_mac\":", "not_json"),
        }
    }

    fn retained(&self, _: u32) -> Vec<Message> {
        Vec::new()
    }
}
