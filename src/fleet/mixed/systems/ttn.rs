//! The Things Stack v3: the envelope of an uplink, heard by up to two gateways. By device the
//! time is that of the gateway, of the network, or of the envelope; and the decoder gives
//! numbers, or texts with units.

use super::super::written::{local, utc};
use super::super::{Meaning, Measured, Message, Reading};
use super::System;
use crate::model::time::EventTime;

pub(super) struct Ttn;

fn name(device: u32) -> String {
    format!("node-{device}")
}

fn topic(device: u32) -> String {
    format!("v3/app-1@ttn/devices/{}/up", name(device))
}

/// With the nanoseconds that the stack writes; they are cut.
fn nanos(at: EventTime) -> String {
    format!("{}.{:03}207731Z", local(at, 0), at.as_millis().rem_euclid(1_000))
}

/// The envelope around what a decoder made. Each place for a time that is not meant is half
/// a second later than the one that is.
fn envelope(device: u32, one: &Measured, decoded: &str) -> String {
    let later = |places: u64| nanos(EventTime::from_millis(one.at.as_millis() + 500 * i64::from(places > 0)));
    let which = u64::from(device % 3);
    let gateway = |index: u64| {
        let time = if which == 0 { format!("\"time\":\"{}\",", later(index)) } else { String::new() };
        format!(
            "{{\"gateway_ids\":{{\"gateway_id\":\"gw-{index}\"}},{time}\"timestamp\":1010000159,\"rssi\":-42,\
             \"snr\":5.8,\"channel_index\":5,\"received_at\":\"{}\"}}",
            later(1)
        )
    };
    let heard = (0..=one.chance % 2).map(gateway).collect::<Vec<_>>().join(",");
    let network = if which < 2 { format!("\"received_at\":\"{}\",", later(1 - which)) } else { String::new() };
    format!(
        "{{\"end_device_ids\":{{\"device_id\":\"{}\",\"application_ids\":{{\"application_id\":\"app-1\"}},\
         \"dev_eui\":\"0000000000000001\"}},\"correlation_ids\":[\"gs:uplink:01AAA\"],\"received_at\":\"{}\",\
         \"uplink_message\":{{\"f_port\":2,\"f_cnt\":{},\"frm_payload\":\"DUoAAAAAC6sAABA=\",{decoded}\
         \"rx_metadata\":[{heard}],{network}\"settings\":{{\"frequency\":\"867500000\",\"time\":\"{}\"}},\
         \"consumed_airtime\":\"1.482752s\"}}}}",
        name(device),
        later(u64::from(which != 2)),
        one.number,
        later(1)
    )
}

impl System for Ttn {
    fn name(&self) -> &'static str {
        "ttn-v3"
    }

    fn keys(&self) -> &'static str {
        "filter = \"temperature > -100.0\""
    }

    fn has_clock(&self, _: u32) -> bool {
        true
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let message = |one: &Measured| {
            let Measured { warmth, share, .. } = *one;
            let decoded = if device.is_multiple_of(2) {
                format!("\"decoded_payload\":{{\"temperature\":{warmth},\"humidity\":{share},\"relay\":null}},")
            } else {
                format!(
                    "\"decoded_payload\":{{\"temperature\":\"{warmth:.2} °C\",\"humidity\":\"{share:.2} %\",\
                     \"mode\":\"auto\"}},"
                )
            };
            let reading = Reading::new(name(device), Some(one.at)).with("temperature", warmth).with("humidity", share);
            Message::reading(topic(device), envelope(device, one, &decoded), reading)
        };
        measured.iter().map(message).collect()
    }

    fn presence(&self, _: u32, _: bool) -> Option<Message> {
        None
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let one = Measured { at, number: 0, warmth: 0.0, share: 0.0, chance: which };
        let (topic, envelope) = (topic(device), |decoded: &str| envelope(device, &one, decoded));
        match which % 5 {
            0 => Message::refused(topic, envelope(""), "no_values"),
            1 => {
                // What a DS18B20 shows without power.
                let decoded = "\"decoded_payload\":{\"temperature\":-127.5},";
                Message::new(topic, envelope(decoded), vec![Meaning::Filtered])
            }
            2 => Message::refused(topic, envelope("\"decoded_payload\":{\"humidity\":50},"), "expression"),
            3 => Message::refused(topic, format!("{{\"received_at\":\"{}\"", utc(at)), "not_json"),
            _ => Message::refused(topic, "[]", "no_values"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        let payload = "{\"uplink_message\":{\"decoded_payload\":{\"temperature\":7}}}";
        vec![Message::ignored(topic(device), payload)]
    }
}
