//! paho-mqtt, the client that scripts use, in both versions.

use std::process::Command;

use crate::broker::needs::{Need, has, python_with_paho};
use crate::server::Server;

/// Subscribes at `QoS` 2 and publishes 100 messages at each `QoS`; exits with 0 when each came
/// once and in order per `QoS`, and the will of a cut connection came last.
const SCRIPT: &str = r#"
import sys, threading
import paho.mqtt.client as mqtt
port, protocol = int(sys.argv[1]), {"311": mqtt.MQTTv311, "5": mqtt.MQTTv5}[sys.argv[2]]
count, done, ready, got = 100, threading.Event(), threading.Event(), {0: [], 1: [], 2: []}
everything = threading.Event()

def client(name):
    # Debian 12 has version 1, which does not ask.
    style = [mqtt.CallbackAPIVersion.VERSION2] if hasattr(mqtt, "CallbackAPIVersion") else []
    return mqtt.Client(*style, client_id=name, protocol=protocol)

def on_message(_client, _userdata, message):
    if message.topic == "wills/mortal":
        done.set()
    else:
        got[int(message.topic[-1])].append(int(message.payload))
        if all(len(numbers) >= count for numbers in got.values()):
            everything.set()

reader = client("reader")
reader.on_connect = lambda c, *rest: c.subscribe([("many/+", 2), ("wills/#", 1)])
reader.on_subscribe = lambda *rest: ready.set()
reader.on_message = on_message
reader.connect("127.0.0.1", port)
reader.loop_start()
assert ready.wait(30), "it subscribes"

device = client("device")
device.connect("127.0.0.1", port)
device.loop_start()
sent = [device.publish(f"many/{qos}", str(n), qos) for n in range(count) for qos in (0, 1, 2)]
for one in sent:
    one.wait_for_publish(30)
    assert one.is_published(), "it is acknowledged"

mortal, connected = client("mortal"), threading.Event()
mortal.will_set("wills/mortal", "gone", 1)
mortal.on_connect = lambda *rest: connected.set()
mortal.connect("127.0.0.1", port)
mortal.loop_start()
assert connected.wait(30), "it connects"
mortal.socket().shutdown(2)
assert done.wait(30), "the will comes"
everything.wait(30)
for qos, numbers in got.items():
    assert numbers == list(range(count)), f"QoS {qos}: {len(numbers)} {numbers[:20]}"
import os
os._exit(0)
"#;

#[test]
fn paho_mqtt_exchanges_messages_and_leaves_its_will_in_both_versions() {
    if !has(&[Need::Paho]) {
        return;
    }
    let python = python_with_paho().expect("it was there a moment ago");
    for version in ["311", "5"] {
        let server = Server::start();
        let output = Command::new(python).args(["-c", SCRIPT, &server.port.to_string(), version]).output().unwrap();
        assert!(output.status.success(), "MQTT {version}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
