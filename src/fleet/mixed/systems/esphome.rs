//! `ESPHome`: one value per topic, as text, without a time. What cannot be measured is `nan`.

use super::super::{Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct EspHome;

fn name(device: u32) -> String {
    format!("bedroom-env-{device:02}")
}

fn topic(device: u32, domain: &str, object: &str) -> String {
    format!("{}/{domain}/{object}/state", name(device))
}

fn message(device: u32, domain: &str, object: &str, text: String, value: f64) -> Message {
    Message::reading(topic(device, domain, object), text, Reading::new(name(device), None).with(object, value))
}

impl System for EspHome {
    fn name(&self) -> &'static str {
        "esphome"
    }

    fn keys(&self) -> &'static str {
        "deny = \"guest-*\""
    }

    fn has_clock(&self, _: u32) -> bool {
        false
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let mut messages = Vec::new();
        for one in measured {
            let (text, on) = if one.chance.is_multiple_of(2) { ("ON", 1.0) } else { ("OFF", 0.0) };
            messages.push(message(device, "sensor", "temperature", one.warmth.to_string(), one.warmth));
            messages.push(message(device, "sensor", "humidity", format!("{:.3}", one.share), one.share));
            messages.push(message(device, "binary_sensor", "window", text.to_owned(), on));
        }
        messages
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        let word = if online { "online" } else { "offline" };
        Some(Message::presence(format!("{}/status", name(device)), word, Whom::Device(name(device)), online))
    }

    fn noise(&self, device: u32, _: EventTime, which: u64) -> Message {
        let sensor = topic(device, "sensor", "temperature");
        match which % 5 {
            0 => Message::refused(sensor, "nan", "missing_value"),
            1 => Message::refused(topic(device, "text_sensor", "weather"), "rain, then sun", "no_values"),
            2 => Message::refused("guest-1/sensor/temperature/state".to_owned(), "21.5", "device_denied"),
            3 => Message::refused(sensor, "\u{1b}[0;36m[D][sensor:094]", "not_in_format"),
            _ => Message::refused(sensor, "", "empty"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(topic(device, "sensor", "temperature"), "7")]
    }
}
