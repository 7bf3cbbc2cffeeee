//! `kill -9` at any moment loses nothing and doubles nothing.

use std::time::Duration;

use tidegate::model::rng::Rng;

use crate::agent::ledger;
use crate::scene::{Scene, assert_exact, fleet, seed, wait_until};

/// Deaths of the agent.
const KILLS: u64 = 50;
/// Names the moments; `E2E_SEED` names other ones.
const SEED: u64 = 20_261_130;
/// Of MQTT 3.1.1.
const PUBACK_BYTES: usize = 4;

#[test]
fn fifty_kills_end_with_exactly_the_panes_of_an_undisturbed_run() {
    let deliveries = fleet(2, 10, 150);
    let panes = 10 * 30;

    let mut undisturbed = Scene::start();
    undisturbed.publish(&deliveries);
    undisturbed.wait_for_panes(panes);
    assert_exact(&undisturbed.cloud, &deliveries);

    let mut scene = Scene::start();
    let mut rng = Rng::new(seed(SEED));
    let mut left = deliveries.as_slice();
    for kill in 0..KILLS {
        // Readings come while it runs, while it dies and while it is dead.
        let share = left.len() as u64 / (KILLS - kill);
        let (now, rest) = left.split_at(usize::try_from(rng.between(0, share * 2)).unwrap().min(left.len()));
        let (alive, dead) = now.split_at(usize::try_from(rng.below(now.len() as u64 + 1)).unwrap());
        left = rest;
        // One in three lives has acknowledgements that get lost on their way.
        let loses_acks = rng.chance(3);
        if loses_acks {
            wait_until("the agent answers", || scene.agent.status().is_some());
            scene.wire.set_deaf(true);
        }
        scene.publish(alive);
        // One in five dies during its start, before or while the backlog comes.
        let longest = if rng.chance(5) { 40 } else { 350 };
        scene.cloud.receive_for(Duration::from_millis(rng.below(longest)));
        scene.agent.kill();
        scene.wire.set_deaf(false);
        scene.publish(dead);
        scene.agent.start();
    }
    scene.publish(left);
    scene.wait_for_panes(panes);
    scene.wait_for_received(deliveries.len());

    assert_exact(&scene.cloud, &deliveries);
    assert_eq!(scene.cloud.results(), undisturbed.cloud.results());
    scene.cloud.assert_contract();
    let status = scene.agent.status().expect("the agent answers");
    assert_eq!(ledger(&status, "received"), deliveries.len() as u64, "each reading counts once: {status}");
    println!(
        "{} messages redelivered by the broker, {} records repeated at the cloud",
        ledger(&status, "redelivered"),
        scene.cloud.receiver.counts().repeats
    );
}

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
        wait_until("every message is acknowledged in the end", || {
            scene.devices.log().matches("Received PUBACK from").count() >= sent
        });
    }
    scene.wait_for_panes(5 * 12);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    let status = scene.agent.status().expect("the agent answers");
    assert_eq!((ledger(&status, "received"), ledger(&status, "redelivered")), (deliveries.len() as u64, repeated));
}
