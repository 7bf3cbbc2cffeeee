//! Shelly, first generation: one value per topic, without a time. Relays say `on` and `off`;
//! one device in four also sends its `info`, a whole JSON document.

use super::super::{Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct ShellyGen1;

fn name(device: u32) -> String {
    format!("shellyem3-AABBCC{device:06X}")
}

fn topic(device: u32, metric: &str) -> String {
    format!("shellies/{}/{metric}", name(device))
}

fn value(device: u32, metric: &str, payload: String, value: f64) -> Message {
    let reading = Reading::new(name(device), None).with(&metric.replace('/', "."), value);
    Message::reading(topic(device, metric), payload, reading)
}

impl System for ShellyGen1 {
    fn name(&self) -> &'static str {
        "shelly-gen1"
    }

    fn has_clock(&self, _: u32) -> bool {
        false
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let mut messages = Vec::new();
        for one in measured {
            let Measured { warmth, share, number, .. } = *one;
            let on = one.chance.is_multiple_of(2);
            messages.push(value(device, "emeter/0/power", format!("{warmth:.2}"), warmth));
            messages.push(value(device, "relay/0", if on { "on" } else { "off" }.to_owned(), f64::from(u8::from(on))));
            messages.push(value(device, "emeter/1/total", format!("{:.1}", number as f64 / 2.0), number as f64 / 2.0));
            if device.is_multiple_of(4) && number.is_multiple_of(5) {
                let payload = format!(
                    "{{\"wifi_sta\":{{\"connected\":true,\"ssid\":\"net\",\"rssi\":-77}},\"time\":\"\",\"unixtime\":0,\
                     \"tmp\":{{\"value\":{warmth},\"is_valid\":true}},\"bat\":{{\"value\":{share}}},\"uptime\":{number}}}"
                );
                let reading = Reading::new(name(device), None)
                    .with("info.wifi_sta.rssi", -77.0)
                    .with("info.unixtime", 0.0)
                    .with("info.tmp.value", warmth)
                    .with("info.bat.value", share)
                    .with("info.uptime", number as f64);
                messages.push(Message::reading(topic(device, "info"), payload, reading));
            }
        }
        messages
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        Some(Message::presence(topic(device, "online"), online.to_string(), Whom::Device(name(device)), online))
    }

    fn noise(&self, device: u32, _: EventTime, which: u64) -> Message {
        match which % 6 {
            0 => Message::ignored(topic(device, "relay/0/command"), "on"),
            1 => Message::ignored(topic(device, "command"), "announce"),
            2 => Message::ignored(topic(device, "announce"), "{\"id\":\"shellyem3\",\"new_fw\":false}"),
            3 => Message::refused(topic(device, "emeter/0/power"), "nan", "missing_value"),
            4 => Message::refused(topic(device, "emeter/0/power"), "{\"power\":", "not_json"),
            _ => Message::refused(topic(device, "input_event/0"), "[1]", "wrong_shape"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(topic(device, "relay/0"), "on")]
    }
}
