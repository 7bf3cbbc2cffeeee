//! Memory on small boxes.

use crate::agent::Config;
use crate::scene::{Scene, fleet, wait_until};

/// What the unit's `MemoryMax` is for the smallest of boards, in KiB.
const MEMORY_MAX_KIB: u64 = 64 * 1024;

/// Neither an outage nor the drain after it, nor a restart with all of it waiting, takes the
/// memory of the box.
#[test]
fn f80_an_outage_of_hours_fits_a_small_box() {
    let mut scene = Scene::with_config(Config::default());
    wait_until("the uplink is up", || connected(&scene) == Some(true));
    scene.cloud_broker.stop();
    wait_until("the uplink is down", || connected(&scene) == Some(false));
    let deliveries = fleet(80, 100, 900);
    scene.publish(&deliveries);
    scene.wait_for_received(deliveries.len());
    let outage = scene.agent.peak_kib();
    assert!(outage < MEMORY_MAX_KIB, "{outage} KiB in the outage");
    scene.agent.kill();
    scene.agent.start();
    wait_until("it answers", || scene.agent.status().is_some());
    let restart = scene.agent.peak_kib();
    assert!(restart < MEMORY_MAX_KIB, "{restart} KiB after the restart");
    scene.cloud_broker.restart();
    wait_until("nothing waits for the cloud", || held(&scene) == Some(0));
    let drain = scene.agent.peak_kib();
    assert!(drain < MEMORY_MAX_KIB, "{drain} KiB after the drain");
    println!("figure memory.outage_peak_mib {:.1} MiB", outage as f64 / 1024.0);
}

fn connected(scene: &Scene) -> Option<bool> {
    scene.agent.status()?["uplink"]["connected"].as_bool()
}

/// Records that wait, in all lanes.
fn held(scene: &Scene) -> Option<u64> {
    let status = scene.agent.status()?;
    let lanes = status["engine"]["outbox"]["lanes"].as_array()?.iter();
    lanes.map(|lane| lane["held"].as_u64()).sum()
}
