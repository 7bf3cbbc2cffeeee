//! Both connections torn again and again in the middle of packets: everything
//! that a device published arrives in the cloud.

use std::collections::BTreeMap;
use std::thread;

use tidegate::agent::clock::SystemClock;
use tidegate::agent::engine_thread::{self, Peers, Wiring};
use tidegate::agent::inbox::{Input, inbox};
use tidegate::agent::mqtt::ingest::{self, IngestSpec};
use tidegate::agent::status::Identity;
use tidegate::agent::uplink::mqtt::{self as uplink, ACK_MAX, UplinkSpec};
use tidegate::config::boot::{BrokerSpec, Protocol};
use tidegate::model::time::Span;
use tokio::sync::{oneshot, watch};

use crate::broker::Broker;
use crate::echo::Echo;
use crate::peer::Peer;
use crate::proxy::Proxy;
use crate::task::{RETRY_MAX, broker_spec};

const MESSAGES: u32 = 10_000;

/// Ingest, engine thread and uplink between the two proxies, until `stop`.
fn agent(devices: u16, cloud: u16, protocol: Protocol, stop: oneshot::Receiver<()>) {
    let clock = SystemClock::start();
    let (sender, receiver) = inbox();
    let identity = Identity { gateway: "gw".into(), config_hash: String::new() };
    let wiring = Wiring {
        clock,
        inbox: receiver,
        identity,
        commit_interval: Span::from_secs(1),
        device: None,
        samples: None,
        peers: Peers { devices: true, uplink: true, listener: None },
    };
    let (alive, ended) = oneshot::channel();
    let thread = engine_thread::spawn(Echo::default(), wiring, alive).expect("a thread");
    let ingest_spec =
        IngestSpec { broker: broker_spec(devices, "gw"), filters: vec!["d/#".into()], retry_max: RETRY_MAX };
    let uplink_spec = UplinkSpec {
        acked: None,
        broker: BrokerSpec { protocol, ..broker_spec(cloud, "gw-uplink") },
        status_topic: "t/status".into(),
        will: Vec::new(),
        retry_max: RETRY_MAX,
        ack_max: ACK_MAX,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (stop_in, stopping) = watch::channel(false);
        let tasks = [
            tokio::spawn(ingest::run(ingest_spec, sender.clone(), clock, stopping.clone())),
            tokio::spawn(uplink::run(uplink_spec, sender.clone(), clock, stopping)),
        ];
        stop.await.expect("the test stops the agent");
        stop_in.send_replace(true);
        sender.send(Input::Stop { reason: "test" }).await.expect("the engine runs");
        ended.await.expect_err("dropped at the end");
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    thread.join().expect("no panic");
}

#[test]
fn no_message_is_lost_over_hundreds_of_torn_connections_and_a_broker_restart() {
    torn(Protocol::V311, 4_000);
}

#[test]
fn nor_is_one_with_mqtt_5_to_the_cloud() {
    // With its properties a message is four times as long.
    torn(Protocol::V5, 16_000);
}

/// `uplink_bytes_max`: of one connection to the cloud.
fn torn(protocol: Protocol, uplink_bytes_max: u64) {
    let settings = ["persistence true", "persistence_location {dir}/", "max_queued_messages 0"];
    let (mut devices, cloud) = (Broker::start(&settings), Broker::start(&["max_queued_messages 0"]));
    let (in_proxy, out_proxy) = (Proxy::start(devices.port, 1, 4_000), Proxy::start(cloud.port, 2, uplink_bytes_max));
    // Only a session that exists can keep what comes while it is away.
    Peer::leave_session(devices.port, "gw", "d/#");
    let mut results = Peer::connect(cloud.port, "results");
    results.subscribe("t/out");
    let (stop, stopping) = oneshot::channel();
    let (in_port, out_port) = (in_proxy.port, out_proxy.port);
    let agent = thread::spawn(move || agent(in_port, out_port, protocol, stopping));

    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    let mut receive = |wanted: u32, results: &mut Peer| {
        while u32::try_from(seen.len()).expect("few") < wanted {
            let payload = results.receive().payload;
            *seen.entry(String::from_utf8(payload).expect("UTF-8").parse().expect("a number")).or_default() += 1;
        }
    };
    // Never much more than a broker may send before a connection is torn: it would
    // repeat its first messages for ever and no acknowledgement would reach it.
    for start in (0..MESSAGES).step_by(50) {
        if start == MESSAGES / 2 {
            devices.restart();
        }
        publish(devices.port, start..start + 50);
        receive(start, &mut results);
    }
    in_proxy.calm_down();
    out_proxy.calm_down();
    receive(MESSAGES, &mut results);
    stop.send(()).expect("the agent runs");
    agent.join().expect("no panic");

    let (ins, outs) = (in_proxy.connections(), out_proxy.connections());
    let repeated: u32 = seen.values().map(|times| times - 1).sum();
    println!("{MESSAGES} messages, {ins} ingest and {outs} uplink connections, {repeated} repeated");
    assert!(ins > 50 && outs > 50, "the connections were torn: {ins}, {outs}");
}

/// Waits until the broker has them all.
fn publish(port: u16, numbers: std::ops::Range<u32>) {
    let mut device = Peer::connect(port, "device");
    let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
    device.publish_many("d/1", texts.iter().map(String::as_bytes));
}
