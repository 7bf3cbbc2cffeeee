//! OPC UA `PubSub`: network messages of a publisher with a data set message for each of its two
//! writers, several of each after an outage. 64-bit integers are texts.

use super::super::written::utc;
use super::super::{Meaning, Measured, Message, Reading, Whom};
use super::System;
use crate::model::time::EventTime;

pub(super) struct OpcUa;

fn publisher(device: u32) -> String {
    format!("press {device}")
}

fn topic(device: u32) -> String {
    format!("opcua/json/data/plant/press-{device}/group")
}

fn name(device: u32, writer: u32) -> String {
    format!("{}.{writer}", publisher(device))
}

fn network(device: u32, messages: &str) -> String {
    format!(
        "{{\"MessageId\":\"32235546-05d9-4fd7-97df-ea3ff3408574\",\"MessageType\":\"ua-data\",\
         \"PublisherId\":\"{}\",\"Messages\":[{messages}]}}",
        publisher(device)
    )
}

fn message(writer: u32, one: &Measured, payload: &str) -> String {
    format!(
        "{{\"DataSetWriterId\":{writer},\"SequenceNumber\":{},\"MetaDataVersion\":{{\"MajorVersion\":672338910,\
         \"MinorVersion\":672341762}},\"Timestamp\":\"{}\",\"Status\":0,\"MessageType\":\"ua-keyframe\",\
         \"Payload\":{payload}}}",
        one.number,
        utc(one.at)
    )
}

/// A count beyond what JavaScript holds exactly is not sent: sums of it would not be exact.
fn pieces(one: &Measured) -> u64 {
    (1 << 36) + one.number
}

fn both(device: u32, one: &Measured) -> (String, [Meaning; 2]) {
    let Measured { warmth, share, .. } = *one;
    let first = format!(
        "{{\"Temperature\":{warmth},\"Pieces\":\"{}\",\"Running\":true,\"Motor\":{{\"Load\":{share}}}}}",
        pieces(one)
    );
    let second = format!("{{\"Share\":{share},\"Axes\":[{warmth},2.5],\"Name\":\"left\"}}");
    let text = format!("{},{}", message(1, one, &first), message(2, one, &second));
    let press = Reading::new(name(device, 1), Some(one.at))
        .with("Temperature", warmth)
        .with("Pieces", pieces(one) as f64)
        .with("Motor.Load", share);
    let axes =
        Reading::new(name(device, 2), Some(one.at)).with("Share", share).with("Axes.0", warmth).with("Axes.1", 2.5);
    (text, [press, axes].map(Meaning::Reading))
}

impl System for OpcUa {
    fn name(&self) -> &'static str {
        "opcua-pubsub-json"
    }

    fn has_clock(&self, _: u32) -> bool {
        true
    }

    fn packet_max(&self) -> usize {
        4
    }

    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message> {
        let (mut texts, mut means) = (Vec::new(), Vec::new());
        for one in measured {
            let (text, readings) = both(device, one);
            texts.push(text);
            means.extend(readings);
        }
        vec![Message::new(topic(device), network(device, &texts.join(",")), means)]
    }

    fn presence(&self, device: u32, online: bool) -> Option<Message> {
        let state = if online { 2 } else { 3 };
        let payload = format!(
            "{{\"MessageId\":\"1\",\"MessageType\":\"ua-status\",\"PublisherId\":\"{}\",\"Status\":{state}}}",
            publisher(device)
        );
        let whom = Whom::Below(format!("{}.", publisher(device)));
        Some(Message::presence(format!("opcua/json/status/{}", publisher(device)), payload, whom, online))
    }

    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message {
        let one = Measured { at, number: 0, warmth: 0.0, share: 0.0, chance: which };
        let keep_alive = message(1, &one, "{}");
        match which % 5 {
            0 => Message::refused(topic(device), network(device, &keep_alive), "no_values"),
            1 => {
                // Good and bad in one message.
                let (text, [press, axes]) = both(device, &Measured { warmth: 1.25, ..one });
                let means = vec![press, axes, Meaning::Refused("no_values")];
                Message::new(topic(device), network(device, &format!("{text},{keep_alive}")), means)
            }
            2 => Message::refused(
                topic(device),
                "{\"Messages\":[{\"DataSetWriterId\":1,\"Payload\":{\"A\":1}}]}",
                "bad_device",
            ),
            3 => Message::refused(
                format!("opcua/json/status/{}", publisher(device)),
                "{\"Status\":9}",
                "bad_availability",
            ),
            _ => Message::refused(topic(device), "{\"Messages\":[}", "not_json"),
        }
    }

    fn retained(&self, device: u32) -> Vec<Message> {
        let payload = "{\"DataSetWriterId\":1,\"Payload\":{\"Temperature\":7}}";
        vec![Message::ignored(topic(device), network(device, payload))]
    }
}
