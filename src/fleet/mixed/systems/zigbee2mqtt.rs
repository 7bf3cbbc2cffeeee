//! `Zigbee2MQTT`: one JSON document per device, whose name may have levels. `last_seen` is in
//! UTC, in local time with its offset, or a count of milliseconds, by device; one in four
//! devices is of a bridge that does not send it.

use super::super::written::{berlin, cut, local, utc};
use super::super::{Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct Zigbee2Mqtt;

fn name(device: u32) -> String {
    match device % 3 {
        0 => format!("floor {}/room/sensor-{device:02}", device % 2),
        1 => format!("hall/sensor-{device:02}"),
        _ => format!("sensor-{device:02}"),
    }
}

fn topic(device: u32) -> String {
    format!("zigbee2mqtt/{}", name(device))
}

fn last_seen(device: u32, at: EventTime) -> (String, Option<EventTime>) {
    let offset = berlin(at);
    match device % 4 {
        0 => (format!("\"last_seen\":\"{}\",", utc(at)), Some(at)),
        1 => (format!("\"last_seen\":\"{}+{:02}:00\",", local(at, offset), offset / 60), Some(cut(at, 1_000))),
        2 => (format!("\"last_seen\":{},", at.as_millis()), Some(at)),
        _ => (String::new(), None),
    }
}

impl System for Zigbee2Mqtt {
    fn name(&self) -> &'static str {
        "zigbee2mqtt"
    }

    fn has_clock(&self, device: u32) -> bool {
        device % 4 != 3
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let message = |one: &Measured| {
            let Measured { warmth, share, number, .. } = *one;
            let (time, at) = last_seen(device, one.at);
            let battery = 100.0 - (number % 50) as f64;
            let payload = format!(
                "{{\"battery\":{battery},\"humidity\":{share},{time}\"linkquality\":94,\"occupancy\":false,\
                 \"power_on_behavior\":null,\"temperature\":{warmth},\"update\":{{\"installed_version\":16,\
                 \"state\":\"idle\"}},\"voltage\":2940}}"
            );
            let reading = Reading::new(name(device), at)
                .with("battery", battery)
                .with("humidity", share)
                .with("linkquality", 94.0)
                .with("temperature", warmth)
                .with("update.installed_version", 16.0)
                .with("voltage", 2_940.0);
            Message::reading(topic(device), payload, reading)
        };
        measured.iter().map(message).collect()
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        let word = if online { "online" } else { "offline" };
        if device == 7 {
            // The coordinator itself: with it, all are on or off.
            return Some(Message::presence(
                "zigbee2mqtt/bridge/state".to_owned(),
                format!("{{\"state\":\"{word}\"}}"),
                Whom::All,
                online,
            ));
        }
        // Of before 1.39, and since.
        let payload = if device.is_multiple_of(2) { word.to_owned() } else { format!("{{\"state\":\"{word}\"}}") };
        Some(Message::presence(format!("{}/availability", topic(device)), payload, Whom::Device(name(device)), online))
    }

    fn noise(&self, device: u32, _: EventTime, which: u64) -> Message {
        let topic = topic(device);
        match which % 6 {
            0 => Message::ignored(format!("{topic}/set"), "{\"state\":\"ON\"}"),
            1 => Message::ignored("zigbee2mqtt/bridge/logging".to_owned(), "{\"level\":\"info\",\"count\":3}"),
            2 => Message::ignored(format!("{topic}/get"), "{\"state\":\"\"}"),
            3 => Message::refused(topic, "ONLINE", "not_json"),
            4 => Message::refused(topic, "{\"click\":\"single\",\"linkquality\":null}", "no_values"),
            _ => {
                Message::refused(topic, "{\"last_seen\":\"2024-03-31T00:30:00Z\",\"temperature\":1e999}", "not_finite")
            }
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(topic(device), "{\"temperature\":7,\"linkquality\":1}")]
    }
}
