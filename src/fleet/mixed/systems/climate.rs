//! The devices of the documentation: one topic each, a time in milliseconds, two numbers.
//!
//! ```text
//! devices/device-07/climate   {"ts":1700000000000,"temperature":21.5,"humidity":48}
//! ```

use super::super::{Measured, Message, Reading, Whom};
use super::System;
use crate::fleet::Fleet;
use crate::model::time::EventTime;

pub(super) struct Climate;

fn topic(device: u32) -> String {
    format!("devices/{}/climate", Fleet::device_name(device))
}

impl System for Climate {
    fn name(&self) -> &'static str {
        "tidegate-json"
    }

    fn has_clock(&self, _: u32) -> bool {
        true
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let message = |one: &Measured| {
            let Measured { at, warmth, share, .. } = *one;
            let payload = format!("{{\"ts\":{},\"temperature\":{warmth},\"humidity\":{share}}}", at.as_millis());
            let reading =
                Reading::new(Fleet::device_name(device), Some(at)).with("temperature", warmth).with("humidity", share);
            Message::reading(topic(device), payload, reading)
        };
        measured.iter().map(message).collect()
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        let word = if online { "online" } else { "offline" };
        let name = Fleet::device_name(device);
        Some(Message::presence(format!("devices/{name}/status"), word, Whom::Device(name), online))
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let topic = topic(device);
        match which % 3 {
            0 => Message::refused(topic, format!("{{\"ts\":{},\"temperature\":", at.as_millis()), "not_json"),
            1 => Message::refused(topic, "hello", "not_json"),
            _ => Message::refused(topic, format!("{{\"ts\":{}}}", at.as_millis()), "no_values"),
        }
    }

    fn retained(&self, _: u32) -> Vec<Message> {
        Vec::new()
    }
}
