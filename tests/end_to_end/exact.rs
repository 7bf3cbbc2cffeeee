//! Disorder within the bound gives exact windows.

use crate::agent::ledger;
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
    let mut scene = Scene::with_encoding("cbor");
    scene.publish(&deliveries);
    scene.wait_for_panes(5 * 6);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}
