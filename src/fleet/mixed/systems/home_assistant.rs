//! Home Assistant's Statestream: the state of one entity per topic, as text, without a time.
//! That an entity is gone is a state too.

use super::super::{Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct HomeAssistant;

/// One entity in three is either on or off.
fn domain(device: u32) -> &'static str {
    if device % 3 == 2 { "binary_sensor" } else { "sensor" }
}

fn name(device: u32) -> String {
    format!("{}.room_{device}", domain(device))
}

fn topic(device: u32) -> String {
    format!("homeassistant/{}/room_{device}/state", domain(device))
}

fn state(device: u32, one: &Measured) -> Message {
    let (text, value) = match device % 3 {
        0 => (one.warmth.to_string(), one.warmth),
        1 => (format!("{:.2}", one.share), one.share),
        _ if one.chance.is_multiple_of(2) => ("on".to_owned(), 1.0),
        _ => ("off".to_owned(), 0.0),
    };
    Message::reading(topic(device), text, Reading::new(name(device), None).with("value", value))
}

impl System for HomeAssistant {
    fn name(&self) -> &'static str {
        "homeassistant-statestream"
    }

    fn has_clock(&self, _: u32) -> bool {
        false
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        measured.iter().map(|one| state(device, one)).collect()
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        // It says when an entity is gone; that it is back, its next state says.
        (!online).then(|| Message::presence(topic(device), "unavailable", Whom::Device(name(device)), false))
    }

    fn noise(&self, device: u32, _: EventTime, which: u64) -> Message {
        match which % 4 {
            0 => Message::refused(topic(device), "unknown", "missing_value"),
            1 => Message::refused(topic(device), "{\"unit\":\"C\"}", "wrong_shape"),
            2 => Message::refused(topic(device), "below_horizon", "no_values"),
            _ => Message::refused(topic(device), [0xff, 0xfe], "not_in_format"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(topic(device), "1")]
    }
}
