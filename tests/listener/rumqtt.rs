//! rumqttc's own event loops, v4 and v5: a client that shares no session code with ours.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::WAIT_MAX;
use crate::server::Server;

/// Messages per quality of service.
const COUNT: u32 = 100;

/// What a client saw: payloads per topic, in order, and acknowledgements.
#[derive(Default)]
struct Seen {
    payloads: BTreeMap<String, Vec<u32>>,
    acknowledged: u32,
    completed: u32,
}

impl Seen {
    fn add(&mut self, topic: &str, payload: &[u8]) {
        let number = str::from_utf8(payload).unwrap().parse().unwrap();
        self.payloads.entry(topic.to_owned()).or_default().push(number);
    }

    fn complete(&self) -> bool {
        let len = |qos: u8| self.payloads.get(&format!("many/{qos}")).map_or(0, Vec::len);
        (0..3).all(|qos| len(qos) >= COUNT as usize) && self.acknowledged >= COUNT && self.completed >= COUNT
    }

    fn check(&self) {
        for (topic, payloads) in &self.payloads {
            assert_eq!(payloads, &(0..COUNT).collect::<Vec<_>>(), "{topic}");
        }
        assert_eq!((self.acknowledged, self.completed), (COUNT, COUNT));
    }
}

#[test]
fn rumqttc_exchanges_messages_in_3_1_1() {
    use rumqttc::{Client, Event, MqttOptions, Packet, QoS};

    let server = Server::start();
    let mut options = MqttOptions::new("rumqttc", "127.0.0.1", server.port);
    options.set_keep_alive(Duration::from_secs(30)).set_inflight(20);
    let (client, mut connection) = Client::new(options, 1_000);
    client.subscribe("many/+", QoS::ExactlyOnce).unwrap();
    let mut seen = Seen::default();
    while !seen.complete() {
        let event = connection.recv_timeout(WAIT_MAX).expect("something comes").expect("the connection holds");
        match event {
            Event::Incoming(Packet::SubAck(_)) => {
                for number in 0..COUNT {
                    for (topic, qos) in
                        [("many/0", QoS::AtMostOnce), ("many/1", QoS::AtLeastOnce), ("many/2", QoS::ExactlyOnce)]
                    {
                        client.publish(topic, qos, false, number.to_string()).unwrap();
                    }
                }
            }
            Event::Incoming(Packet::Publish(publish)) => seen.add(&publish.topic, &publish.payload),
            Event::Incoming(Packet::PubAck(_)) => seen.acknowledged += 1,
            Event::Incoming(Packet::PubComp(_)) => seen.completed += 1,
            Event::Incoming(_) | Event::Outgoing(_) => {}
        }
    }
    seen.check();
}

#[test]
fn rumqttc_exchanges_messages_in_5() {
    use rumqttc::v5::mqttbytes::QoS;
    use rumqttc::v5::mqttbytes::v5::Packet;
    use rumqttc::v5::{Client, Event, MqttOptions};

    let server = Server::start();
    let mut options = MqttOptions::new("rumqttc", "127.0.0.1", server.port);
    options.set_keep_alive(Duration::from_secs(30)).set_outgoing_inflight_upper_limit(20);
    let (client, mut connection) = Client::new(options, 1_000);
    client.subscribe("many/+", QoS::ExactlyOnce).unwrap();
    let mut seen = Seen::default();
    while !seen.complete() {
        let event = connection.recv_timeout(WAIT_MAX).expect("something comes").expect("the connection holds");
        match event {
            Event::Incoming(Packet::SubAck(_)) => {
                for number in 0..COUNT {
                    for (topic, qos) in
                        [("many/0", QoS::AtMostOnce), ("many/1", QoS::AtLeastOnce), ("many/2", QoS::ExactlyOnce)]
                    {
                        client.publish(topic, qos, false, number.to_string()).unwrap();
                    }
                }
            }
            Event::Incoming(Packet::Publish(publish)) => {
                seen.add(str::from_utf8(&publish.topic).unwrap(), &publish.payload);
            }
            Event::Incoming(Packet::PubAck(_)) => seen.acknowledged += 1,
            Event::Incoming(Packet::PubComp(_)) => seen.completed += 1,
            Event::Incoming(_) | Event::Outgoing(_) => {}
        }
    }
    seen.check();
}
