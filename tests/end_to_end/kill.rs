//! `kill -9` at any moment loses nothing and doubles nothing.

use std::time::Duration;

use tidegate::fleet::rng::Rng;

use crate::agent::ledger;
use crate::scene::{Scene, assert_exact, fleet};

/// Deaths of the agent.
const KILLS: u64 = 50;
/// Names the moments; change it to look for other ones.
const SEED: u64 = 20_261_130;

#[test]
fn fifty_kills_end_with_exactly_the_panes_of_an_undisturbed_run() {
    let deliveries = fleet(2, 10, 150);
    let panes = 10 * 30;

    let mut undisturbed = Scene::start();
    undisturbed.publish(&deliveries);
    undisturbed.wait_for_panes(panes);
    assert_exact(&undisturbed.cloud, &deliveries);

    let mut scene = Scene::start();
    let mut rng = Rng::new(SEED);
    let mut left = deliveries.as_slice();
    for kill in 0..KILLS {
        // Readings come while it runs, while it dies and while it is dead.
        let share = left.len() as u64 / (KILLS - kill);
        let (now, rest) = left.split_at(usize::try_from(rng.between(0, share * 2)).unwrap().min(left.len()));
        let (alive, dead) = now.split_at(usize::try_from(rng.below(now.len() as u64 + 1)).unwrap());
        left = rest;
        scene.publish(alive);
        // One in five dies during its start, before or while the backlog comes.
        let longest = if rng.chance(5) { 40 } else { 350 };
        scene.cloud.receive_for(Duration::from_millis(rng.below(longest)));
        scene.agent.kill();
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
