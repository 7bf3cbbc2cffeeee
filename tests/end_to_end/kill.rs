//! `kill -9` between an acknowledgement and its arrival doubles nothing. Kills at any
//! moment are in tests/torture.

use crate::agent::ledger;
use crate::scene::{Scene, assert_exact, fleet, wait_until};

/// Of MQTT 3.1.1.
const PUBACK_BYTES: usize = 4;

#[test]
fn a_reading_whose_acknowledgement_was_lost_counts_once_after_a_kill_and_after_a_torn_connection() {
    let deliveries = fleet(10, 5, 60);
    let mut scene = Scene::start();
    let (mut sent, mut repeated) = (0, 0);
    for (round, part) in deliveries.chunks(deliveries.len() / 6).enumerate() {
        // The broker stops at its window of 100: all of it is taken in and nothing is acknowledged.
        let (unheard, heard) = part.split_at(part.len() / 2);
        assert!(unheard.len() < 100);
        scene.wire.set_deaf(true);
        scene.publish(unheard);
        sent += unheard.len();
        repeated += unheard.len() as u64;
        scene.wait_for_received(sent);
        wait_until("all of it is acknowledged, unheard", || scene.wire.lost() >= PUBACK_BYTES * unheard.len());
        if round % 2 == 0 {
            scene.agent.kill();
            scene.wire.set_deaf(false);
            scene.agent.start();
        } else {
            scene.wire.set_deaf(false);
            scene.wire.cut();
        }
        scene.publish(heard);
        sent += heard.len();
        scene.wait_for_received(sent);
        wait_until("every message is acknowledged in the end", || scene.devices().acknowledged() >= sent);
    }
    scene.wait_for_panes(5 * 12);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    let status = scene.agent.status().expect("the agent answers");
    assert_eq!((ledger(&status, "received"), ledger(&status, "redelivered")), (deliveries.len() as u64, repeated));
}
