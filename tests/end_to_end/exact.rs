//! Disorder within the bound gives exact windows.

use crate::agent::{Config, ledger};
use crate::broker::Broker;
use crate::scene::{Scene, Setting, assert_exact, fleet};

#[test]
fn disorder_within_the_bound_gives_the_exact_windows_once_each() {
    let deliveries = fleet(1, 20, 60);
    let mut scene = Scene::start();
    scene.publish(&deliveries);
    scene.wait_for_panes(20 * 12);
    scene.wait_for_received(deliveries.len());

    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    for (id, pane) in scene.cloud.receiver.panes() {
        assert_eq!((pane["rev"].as_u64(), pane["pane"].as_str()), (Some(0), Some("on_time")), "{id}");
    }
    let status = scene.agent.status().expect("the agent answers");
    for (name, expected) in
        [("received", deliveries.len() as u64), ("accepted", deliveries.len() as u64), ("redelivered", 0)]
    {
        assert_eq!(ledger(&status, name), expected, "{name} in {status}");
    }
}

#[test]
fn the_compact_encoding_brings_the_same_windows() {
    let deliveries = fleet(13, 5, 30);
    let mut scene = Scene::with_config(Config { encoding: "cbor", ..Config::default() });
    scene.publish(&deliveries);
    scene.wait_for_panes(5 * 6);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}

#[test]
fn mqtt_5_and_compression_bring_the_same_windows_over_a_restart_of_the_cloud_s_broker() {
    let deliveries = fleet(14, 5, 60);
    let uplink = "protocol = \"5\"\ncompression = \"zstd\"";
    let mut scene = Scene::with_config(Config { encoding: "cbor", uplink, ..Config::default() });
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    scene.wait_for_received(before.len());
    scene.cloud_broker.restart();
    scene.publish(after);
    scene.wait_for_panes(5 * 12);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    assert!(scene.cloud.packed > 0, "none was compressed");
    assert!(scene.cloud_broker.connects_of_five("tidegate-gw-1-uplink") > 0, "{}", scene.cloud_broker.log());
}

/// The broker says in its CONNACK how large a packet may be and how many at a time.
#[test]
fn a_cloud_that_takes_little_at_a_time_gets_the_same_windows() {
    let deliveries = fleet(15, 5, 60);
    let cloud = Broker::start(&["max_packet_size 2000", "max_inflight_messages 1", "max_queued_messages 100000"]);
    let config = Config { uplink: "protocol = \"5\"", ..Config::default() };
    let mut scene = Scene::set(Setting { cloud, config, ..Setting::plain() });
    scene.publish(&deliveries);
    scene.wait_for_panes(5 * 12);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    assert_eq!(scene.cloud.receiver.counts().repeats, 0, "no connection was lost over a packet");
}
