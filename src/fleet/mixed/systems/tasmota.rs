//! Tasmota: nested JSON whose `Time` is the local time of the device, without a zone.
//!
//! By device: an AM2301, a meter of two phases (a list where others have a number), a bridge
//! whose Zigbee devices have no time, and a sensor that never got the time of day.

use super::super::written::{berlin, cut, local};
use super::super::{Meaning, Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct Tasmota;

fn name(device: u32) -> String {
    format!("tasmota_0A{device:04X}")
}

fn sensor(device: u32) -> String {
    format!("tele/{}/SENSOR", name(device))
}

/// What it shows as `Time`, and what that is worth.
fn time(device: u32, at: EventTime, number: u64) -> (String, Option<EventTime>) {
    match device % 4 {
        3 => (format!("1970-01-01T00:{:02}:{:02}", number / 60 % 60, number % 60), None),
        _ => (local(at, berlin(at)), Some(cut(at, 1_000))),
    }
}

fn state(device: u32, one: &Measured) -> Message {
    let (time, at) = time(device, one.at, one.number);
    let (uptime, signal) = (one.number * 30, -40.0 - f64::from(device));
    let payload = format!(
        "{{\"Time\":\"{time}\",\"Uptime\":\"0T00:00:13\",\"UptimeSec\":{uptime},\"Heap\":27,\"SleepMode\":\"Dynamic\",\
         \"POWER\":\"ON\",\"Wifi\":{{\"AP\":1,\"SSId\":\"net\",\"Mode\":\"11n\",\"RSSI\":100,\"Signal\":{signal}}}}}"
    );
    let reading = Reading::new(name(device), at)
        .with("UptimeSec", uptime as f64)
        .with("Heap", 27.0)
        .with("Wifi.AP", 1.0)
        .with("Wifi.RSSI", 100.0)
        .with("Wifi.Signal", signal);
    Message::reading(format!("tele/{}/STATE", name(device)), payload, reading)
}

fn bridged(device: u32, one: &Measured) -> Message {
    let Measured { warmth, share, .. } = one;
    let child = format!("0x{device:04X}");
    let payload = format!(
        "{{\"ZbReceived\":{{\"{child}\":{{\"Device\":\"{child}\",\"Name\":\"hall\",\"Temperature\":{warmth},\
         \"Humidity\":{share},\"Endpoint\":1,\"LinkQuality\":70}}}}}}"
    );
    let reading = Reading::new(child, None)
        .with("Temperature", *warmth)
        .with("Humidity", *share)
        .with("Endpoint", 1.0)
        .with("LinkQuality", 70.0);
    Message::reading(sensor(device), payload, reading)
}

fn measured(device: u32, one: &Measured) -> Message {
    let Measured { warmth, share, .. } = one;
    let (time, at) = time(device, one.at, one.number);
    let reading = Reading::new(name(device), at);
    if device % 4 == 1 {
        let payload = format!(
            "{{\"Time\":\"{time}\",\"ENERGY\":{{\"TotalStartTime\":\"2023-01-01T00:00:00\",\"Total\":[{share},55.25],\
             \"Voltage\":230,\"Current\":{warmth}}}}}"
        );
        let reading = reading
            .with("ENERGY.Total.0", *share)
            .with("ENERGY.Total.1", 55.25)
            .with("ENERGY.Voltage", 230.0)
            .with("ENERGY.Current", *warmth);
        return Message::reading(sensor(device), payload, reading);
    }
    let payload = format!(
        "{{\"Time\":\"{time}\",\"AM2301\":{{\"Temperature\":{warmth},\"Humidity\":{share}}},\"TempUnit\":\"C\"}}"
    );
    let reading = reading.with("AM2301.Temperature", *warmth).with("AM2301.Humidity", *share);
    Message::reading(sensor(device), payload, reading)
}

impl System for Tasmota {
    fn name(&self) -> &'static str {
        "tasmota"
    }

    fn keys(&self) -> &'static str {
        "time.zone = \"Europe/Berlin\""
    }

    fn has_clock(&self, device: u32) -> bool {
        device % 4 < 2
    }

    fn write(&self, device: u32, measured_: &[Measured]) -> Vec<Message> {
        let mut messages = Vec::new();
        for one in measured_ {
            messages.push(if device % 4 == 2 { bridged(device, one) } else { measured(device, one) });
            if device % 4 != 2 && one.number.is_multiple_of(10) {
                messages.push(state(device, one));
            }
        }
        messages
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        let word = if online { "Online" } else { "Offline" };
        Some(Message::presence(format!("tele/{}/LWT", name(device)), word, Whom::Device(name(device)), online))
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let topic = sensor(device);
        match which % 6 {
            0 => Message::refused(topic, "{\"Time\":\"2024-03-31T01:30:00\",\"AM2301\":{\"Tempera", "not_json"),
            1 => Message::refused(topic, "", "empty"),
            2 => Message::refused(topic, "{\"TempUnit\":\"C\"}", "no_values"),
            3 => Message::refused(format!("tele/{}/LWT", name(device)), "Sleeping", "bad_availability"),
            4 => Message::refused(topic, format!("{{\"Time\":\"{}\"}}", local(at, berlin(at))), "no_values"),
            _ => Message::new(
                topic,
                "{\"ZbReceived\":{\"0xFFFF\":null},\"ZbInfo\":{\"Power\":\"on\"}}",
                vec![Meaning::Refused("no_values")],
            ),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(sensor(device), "{\"AM2301\":{\"Temperature\":7}}")]
    }
}
