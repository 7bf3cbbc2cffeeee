//! `kill -9` at any moment, under load, in outages and while their backlog drains.

use std::time::Duration;

use tidegate::model::rng::Rng;

use crate::agent::ledger;
use crate::scale::rounds;
use crate::scene::{seed, wait_until};
use crate::stage::{Outages, assert_nothing_lost, assert_same, fleet, on_disk, scene, undisturbed};

/// Names the moments; `E2E_SEED` names other ones.
const SEED: u64 = 20_261_201;
const DEVICES: u32 = 40;
/// So often it is left alone until it has all. Mosquitto 2.0.11 sends more than its window
/// to a session that comes back, and what the agent remembers of unheard acknowledgements
/// has a bound (`limits::REDELIVERY_LEN`).
pub(crate) const CATCH_UP: u64 = 20;

#[test]
fn kills_at_any_moment_end_with_exactly_the_results_of_an_undisturbed_run() {
    let kills = rounds(25, 1_000);
    let deliveries = fleet(2, DEVICES, 2 * kills + 30);
    let undisturbed = undisturbed(&deliveries);

    let mut scene = scene(None);
    let mut rng = Rng::new(seed(SEED));
    let mut outages = Outages::default();
    let mut left = deliveries.as_slice();
    let mut on_disk_max = 0;
    for kill in 0..kills {
        // Readings come while it runs, while it dies and while it is dead.
        let share = left.len() as u64 / (kills - kill);
        let (now, rest) = left.split_at(usize::try_from(rng.between(0, share * 2)).unwrap().min(left.len()));
        let (alive, dead) = now.split_at(usize::try_from(rng.below(now.len() as u64 + 1)).unwrap());
        left = rest;
        outages.next_round(&mut scene, &mut rng);
        if kill % CATCH_UP == CATCH_UP - 1 {
            scene.catch_up(deliveries.len() - left.len() - now.len());
        }
        // One in three lives has acknowledgements that get lost on their way.
        if rng.chance(3) {
            wait_until("the agent answers", || scene.agent.status().is_some());
            scene.wire.set_deaf(true);
        }
        scene.publish(alive);
        // One in five dies during its start, before or while the backlog comes.
        let longest = if rng.chance(5) { 40 } else { 350 };
        scene.cloud.receive_for(Duration::from_millis(rng.below(longest)));
        on_disk_max = on_disk_max.max(scene.agent.status().as_ref().map_or(0, on_disk));
        scene.agent.kill();
        scene.wire.set_deaf(false);
        scene.publish(dead);
        scene.agent.start();
    }
    outages.end(&mut scene);
    scene.publish(left);

    assert_nothing_lost(&mut scene, &deliveries);
    assert_same(&scene, &undisturbed);
    let status = scene.agent.status().expect("the agent answers");
    println!(
        "figure torture.kills {kills} ({} readings, {} redelivered by the broker, {} records repeated at the cloud, up to {on_disk_max} bytes of the outbox on disk)",
        deliveries.len(),
        ledger(&status, "redelivered"),
        scene.cloud.receiver.counts().repeats
    );
}
