//! Shelly, second generation: by device, notifications with what has changed and the time as
//! a float of seconds, or whole states of a component without a time.

use super::super::written::cut;
use super::super::{Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct ShellyGen2;

fn name(device: u32) -> String {
    format!("shellyplus1pm-aabbcc{device:06x}")
}

fn rpc(device: u32) -> String {
    format!("{}/events/rpc", name(device))
}

fn status(device: u32) -> String {
    format!("{}/status/switch:0", name(device))
}

/// What has changed: the power each time, the rest now and then.
fn notification(device: u32, one: &Measured) -> Message {
    let Measured { warmth, share, number, .. } = *one;
    let at = cut(one.at, 10);
    let (seconds, hundredths) = (at.as_millis() / 1_000, at.as_millis() % 1_000 / 10);
    let mut reading = Reading::new(name(device), Some(at));
    let mut changed = format!("\"id\":0,\"apower\":{share}");
    reading = reading.with("params.switch:0.apower", share);
    if number.is_multiple_of(3) {
        let energy = format!(",\"aenergy\":{{\"total\":{number},\"by_minute\":[{share},1,2],\"minute_ts\":{seconds}}}");
        changed.push_str(&energy);
        reading = reading
            .with("params.switch:0.aenergy.total", number as f64)
            .with("params.switch:0.aenergy.by_minute.0", share)
            .with("params.switch:0.aenergy.by_minute.1", 1.0)
            .with("params.switch:0.aenergy.by_minute.2", 2.0);
    }
    if number % 4 == 1 {
        let more = format!(",\"output\":true,\"temperature\":{{\"tC\":{warmth}}}");
        changed.push_str(&more);
        reading = reading.with("params.switch:0.temperature.tC", warmth);
    }
    let id = name(device);
    let payload = format!(
        "{{\"src\":\"{id}\",\"dst\":\"{id}/events\",\"method\":\"NotifyStatus\",\
         \"params\":{{\"ts\":{seconds}.{hundredths:02},\"switch:0\":{{{changed}}}}}}}"
    );
    Message::reading(rpc(device), payload, reading)
}

fn whole(device: u32, one: &Measured) -> Message {
    let Measured { warmth, share, number, .. } = *one;
    let minute = one.at.as_millis() / 60_000 * 60;
    let payload = format!(
        "{{\"id\":0, \"source\":\"init\", \"output\":true, \"apower\":{share}, \"voltage\":224.5, \
         \"aenergy\":{{\"total\":{number},\"by_minute\":[1,2,3],\"minute_ts\":{minute}}},\
         \"temperature\":{{\"tC\":{warmth}, \"tF\":null}}}}"
    );
    let reading = Reading::new(name(device), None)
        .with("switch:0.apower", share)
        .with("switch:0.voltage", 224.5)
        .with("switch:0.aenergy.total", number as f64)
        .with("switch:0.aenergy.by_minute.0", 1.0)
        .with("switch:0.aenergy.by_minute.1", 2.0)
        .with("switch:0.aenergy.by_minute.2", 3.0)
        .with("switch:0.temperature.tC", warmth);
    Message::reading(status(device), payload, reading)
}

impl System for ShellyGen2 {
    fn name(&self) -> &'static str {
        "shelly-gen2"
    }

    fn has_clock(&self, device: u32) -> bool {
        device.is_multiple_of(2)
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let write = if self.has_clock(device) { notification } else { whole };
        measured.iter().map(|one| write(device, one)).collect()
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        let topic = format!("{}/online", name(device));
        Some(Message::presence(topic, online.to_string(), Whom::Device(name(device)), online))
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let seconds = at.as_millis() / 1_000;
        match which % 4 {
            0 => Message::refused(rpc(device), "{\"src\":\"x\",\"method\":\"NotifyEvent\",\"params\":{}}", "no_values"),
            1 => Message::refused(rpc(device), format!("{{\"params\":{{\"ts\":{seconds}.5}}}}"), "no_values"),
            2 => Message::refused(format!("{}/online", name(device)), "maybe", "bad_availability"),
            _ => Message::refused(status(device), "true", "wrong_shape"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(status(device), "{\"id\":0,\"apower\":7}")]
    }
}
