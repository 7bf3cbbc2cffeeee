//! `ChirpStack` v4: uplinks as their integration publishes them, each heard by up to three
//! gateways, and reports about the battery.

use super::super::written::{local, utc};
use super::super::{Measured, Message, Reading};
use super::System;
use crate::model::time::EventTime;

pub(super) struct ChirpStack;

fn name(device: u32) -> String {
    format!("a8{device:014x}")
}

fn topic(device: u32, event: &str) -> String {
    format!("application/00000000-0000-4000-8000-00000000000b/device/{}/event/{event}", name(device))
}

fn info(device: u32) -> String {
    format!(
        "\"deviceInfo\":{{\"tenantId\":\"00000000-0000-4000-8000-00000000000a\",\"tenantName\":\"t\",\
         \"applicationName\":\"app\",\"deviceProfileName\":\"profile\",\"deviceName\":\"tank {device}\",\
         \"devEui\":\"{}\",\"deviceClassEnabled\":\"CLASS_A\",\"tags\":{{\"floor\":\"2\"}}}}",
        name(device)
    )
}

/// Whoever heard it, each with numbers of its own.
fn heard(one: &Measured) -> String {
    let gateway = |index: u64| {
        format!(
            "{{\"gatewayId\":\"000000000000000{index}\",\"uplinkId\":{},\"nsTime\":\"{}.287000000+00:00\",\
             \"rssi\":{},\"snr\":7.2,\"channel\":{index},\"location\":{{\"latitude\":60.1,\"longitude\":-110.2}}}}",
            one.chance % 10_000,
            local(one.at, 0),
            -99 + i64::try_from(index).unwrap_or(0)
        )
    };
    (0..=one.chance % 3).map(gateway).collect::<Vec<_>>().join(",")
}

fn uplink(device: u32, one: &Measured) -> Message {
    let Measured { warmth, share, number, .. } = *one;
    let time = utc(one.at).replace('Z', "+00:00");
    let payload = format!(
        "{{\"deduplicationId\":\"11111111-2222-4333-8444-000000000001\",\"time\":\"{time}\",{},\
         \"devAddr\":\"00aa0001\",\"adr\":true,\"dr\":3,\"fCnt\":{number},\"fPort\":2,\"confirmed\":false,\
         \"data\":\"DOIAAAAMzAE=\",\"object\":{{\"temperature\":{warmth},\"level\":{{\"share\":{share}}},\
         \"eventType\":\"REPORT\",\"alarm\":false}},\"rxInfo\":[{}],\"txInfo\":{{\"frequency\":868100000,\
         \"modulation\":{{\"lora\":{{\"bandwidth\":125000,\"spreadingFactor\":7}}}}}},\"regionConfigId\":\"eu868\"}}",
        info(device),
        heard(one)
    );
    let reading = Reading::new(name(device), Some(one.at))
        .with("fCnt", number as f64)
        .with("object.temperature", warmth)
        .with("object.level.share", share);
    Message::reading(topic(device, "up"), payload, reading)
}

fn report(device: u32, one: &Measured) -> Message {
    let payload = format!(
        "{{\"deduplicationId\":\"11111111-2222-4333-8444-000000000002\",\"time\":\"{}\",{},\"margin\":17,\
         \"externalPowerSource\":false,\"batteryLevelUnavailable\":false,\"batteryLevel\":{}}}",
        utc(one.at),
        info(device),
        one.share
    );
    let reading = Reading::new(name(device), Some(one.at)).with("margin", 17.0).with("batteryLevel", one.share);
    Message::reading(topic(device, "status"), payload, reading)
}

impl System for ChirpStack {
    fn name(&self) -> &'static str {
        "chirpstack-v4"
    }

    fn has_clock(&self, _: u32) -> bool {
        true
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let mut messages = Vec::new();
        for one in measured {
            messages.push(uplink(device, one));
            if one.number.is_multiple_of(20) {
                messages.push(report(device, one));
            }
        }
        messages
    }

    fn presence(&self, _: u32, _: bool) -> Option<Message> {
        None
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let up = topic(device, "up");
        match which % 4 {
            0 => Message::refused(up, "{\"time\":\"yesterday\",\"object\":{\"temperature\":1}}", "bad_time"),
            1 => Message::refused(up, format!("{{\"time\":\"{}\",\"object\":null}}", utc(at)), "no_values"),
            2 => Message::refused(up, "{\"time\":\"1999-12-31T23:59:59Z\",\"fCnt\":3}", "before_min_time"),
            _ => Message::refused(up, vec![0x08, 0x96, 0x01], "not_json"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        vec![Message::ignored(topic(device, "up"), "{\"fCnt\":7}")]
    }
}
