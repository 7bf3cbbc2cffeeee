//! Everything at once: kills, torn wires, lost acknowledgements, brokers that
//! stop, freeze and come back, in an order that a seed names.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use tidegate::model::rng::Rng;

use crate::agent::ledger;
use crate::broker::Broker;
use crate::scene::{DEVICES_CONFIG, Scene, assert_exact, fleet, seed};

/// As the kernel numbers it.
const SIGTERM: i32 = 15;

/// Things that happen.
const EVENTS: u64 = 60;
/// Names their order; `E2E_SEED` names another one.
const SEED: u64 = 11;

/// What has to be put right again.
#[derive(Default)]
struct Trouble {
    agent_dead: bool,
    cloud_stopped: bool,
    cloud_frozen: bool,
}

#[test]
fn whatever_happens_in_whatever_order_the_cloud_ends_with_the_exact_windows() {
    let deliveries = fleet(12, 10, 150);
    let persistent = [DEVICES_CONFIG, &["persistence true", "persistence_location {dir}/"]].concat();
    let mut scene = Scene::with_devices_broker(Broker::start(&persistent));
    let mut rng = Rng::new(seed(SEED));
    let mut trouble = Trouble::default();
    for part in deliveries.chunks(deliveries.len() / usize::try_from(EVENTS).unwrap() + 1) {
        happen(&mut scene, &mut trouble, &mut rng);
        scene.publish(part);
        scene.cloud.receive_for(Duration::from_millis(rng.below(250)));
    }
    for wire in [&scene.wire, &scene.uplink_wire] {
        wire.set_deaf(false);
        wire.cut();
    }
    if trouble.cloud_stopped {
        scene.cloud_broker.restart();
    }
    scene.cloud_broker.resume();
    if trouble.agent_dead {
        scene.agent.start();
    }
    scene.wait_for_panes(10 * 30);
    scene.wait_for_received(deliveries.len());

    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    let status = scene.agent.status().expect("the agent answers");
    assert_eq!(ledger(&status, "received"), deliveries.len() as u64, "each reading counts once: {status}");
}

/// The cloud's broker is only ever stopped, never killed: what it has
/// acknowledged is then its own to keep.
fn happen(scene: &mut Scene, trouble: &mut Trouble, rng: &mut Rng) {
    match rng.below(12) {
        0..=2 if trouble.agent_dead => {
            scene.agent.start();
            trouble.agent_dead = false;
        }
        0..=2 => {
            scene.agent.kill();
            trouble.agent_dead = true;
        }
        9 => scene.devices_mut().restart(),
        10 if !trouble.agent_dead => {
            let (status, took) = scene.agent.terminate();
            // It may have been so young that it did not catch signals yet: like a kill then.
            let ended = status.success() || status.signal() == Some(SIGTERM);
            assert!(ended && took < Duration::from_secs(10), "{status} after {took:?}");
            trouble.agent_dead = true;
        }
        3 => scene.wire.cut(),
        4 => scene.uplink_wire.cut(),
        // A wire that was deaf has lost part of what was said: it is no use any more.
        5 => {
            scene.wire.set_deaf(rng.chance(2));
            scene.wire.cut();
        }
        6 => {
            scene.uplink_wire.set_deaf(rng.chance(2));
            scene.uplink_wire.cut();
        }
        7 if trouble.cloud_stopped => {
            scene.cloud_broker.restart();
            trouble.cloud_stopped = false;
        }
        7 if !trouble.cloud_frozen => {
            scene.cloud_broker.stop();
            trouble.cloud_stopped = true;
        }
        8 if trouble.cloud_frozen => {
            scene.cloud_broker.resume();
            trouble.cloud_frozen = false;
        }
        8 if !trouble.cloud_stopped => {
            scene.cloud_broker.pause();
            trouble.cloud_frozen = true;
        }
        // Somebody tidies up: everything works for a while.
        _ => {
            for wire in [&scene.wire, &scene.uplink_wire] {
                wire.set_deaf(false);
                wire.cut();
            }
        }
    }
}
