//! Disorder within the bound gives exact windows.

use crate::agent::ledger;
use crate::agent::{PLAIN, Way};
use crate::scene::{Scene, assert_exact, fleet};

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
    let mut scene = Scene::with_way(Way { encoding: "cbor", ..PLAIN });
    scene.publish(&deliveries);
    scene.wait_for_panes(5 * 6);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}

#[test]
fn mqtt_5_and_compression_bring_the_same_windows_over_a_restart_of_the_cloud_s_broker() {
    let deliveries = fleet(14, 5, 60);
    let mut scene = Scene::with_way(Way { encoding: "cbor", uplink: "protocol = \"5\"\ncompression = \"zstd\"" });
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    scene.wait_for_received(before.len());
    scene.cloud_broker.restart();
    scene.publish(after);
    scene.wait_for_panes(5 * 12);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    assert!(scene.cloud_broker.log().contains("as tidegate-gw-1-uplink (p5,"), "{}", scene.cloud_broker.log());
}
