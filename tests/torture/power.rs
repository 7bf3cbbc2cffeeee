//! Power cuts: an atomic image of the card while the agent works, mounted again.
//!
//! The gateway is cut off at one instant: at that of the image, both wires fall deaf, so
//! that nothing the dying agent does after it is heard. The brokers are other machines and
//! live on. Everything acknowledged to either of them before that instant has to be in the
//! image, or the end state is not that of an undisturbed run.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::model::rng::Rng;

use crate::card::Kept;
use crate::mounted::{Volume, is_possible};
use crate::scale::rounds;
use crate::scene::{Scene, seed, wait_until};
use crate::stage::{Outages, assert_nothing_lost, assert_same, fleet, on_disk, scene, undisturbed};

/// Names the moments; `E2E_SEED` names other ones.
const SEED: u64 = 20_261_202;
const DEVICES: u32 = 40;
/// Writes and flushes in a life of the agent here, more or less. A cut that is not reached
/// comes between two commits.
const REQUESTS: u64 = 80;

#[test]
fn power_cuts_at_any_instant_lose_nothing_that_was_acknowledged() {
    if !is_possible() {
        return;
    }
    let cuts = rounds(8, 200);
    let deliveries = fleet(3, DEVICES, 6 * cuts + 60);
    let undisturbed = undisturbed(&deliveries);

    let dir = tempfile::tempdir().unwrap();
    let mut volume = Volume::new(&dir.path().join("state"));
    // Ended before the volume is unmounted: dropped in the opposite order.
    let mut scene = scene(Some(dir.path()));
    let epoch = scene.agent.status().expect("it has subscribed")["engine"]["epoch"].clone();
    let mut rng = Rng::new(seed(SEED));
    let mut outages = Outages::default();
    let mut left = deliveries.as_slice();
    let mut on_disk_max = 0;
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    for cut in 0..cuts {
        let share = left.len() as u64 / (cuts - cut);
        let (now, rest) = left.split_at(usize::try_from(rng.between(0, share * 2)).unwrap().min(left.len()));
        left = rest;
        outages.next_round(&mut scene, &mut rng);
        let kept = Kept::any(&mut rng);
        // One in four falls into the start.
        let latest = if rng.chance(4) { 15 } else { REQUESTS };
        plan(&volume, &scene, rng.below(latest), kept, cut);
        if cut > 0 {
            scene.agent.start();
            wait_until("the agent starts again", || scene.agent.status().is_some());
            let status = scene.agent.status().expect("it has just answered");
            on_disk_max = on_disk_max.max(on_disk(&status));
            assert_eq!(status["engine"]["epoch"], epoch, "before cut {cut}: a cut is no damage: {status}");
        }
        let mut parts = now.chunks(now.len() / 12 + 1);
        while !volume.card().is_cut() {
            let Some(part) = parts.next() else { break };
            scene.publish(part);
            scene.cloud.receive_for(Duration::from_millis(rng.below(60)));
            // The kernel writes of its own accord, too.
            if rng.chance(8) {
                volume.sync();
            }
        }
        let planned = volume.card().is_cut();
        power_cut(&mut scene, &mut volume);
        // The rest is published while the gateway is off.
        parts.for_each(|part| scene.publish(part));
        let moment = if planned { "writing" } else { "not writing" };
        *outcomes.entry(format!("{moment}, kept {kept:?}")).or_default() += 1;
    }
    scene.agent.start();
    outages.end(&mut scene);
    scene.publish(left);

    assert_nothing_lost(&mut scene, &deliveries);
    assert_same(&scene, &undisturbed);
    println!("figure torture.power_cuts {cuts} ({outcomes:?}, up to {on_disk_max} bytes of the outbox on disk)");
}

/// A cut after so many more writes and flushes.
pub(crate) fn plan(volume: &Volume, scene: &Scene, requests: u64, kept: Kept, seed: u64) {
    let wires = [scene.wire.clone(), scene.uplink_wire.clone()];
    volume.card().plan_cut(requests, kept, Rng::fork(SEED, seed), move || {
        for wire in &wires {
            wire.set_deaf(true);
        }
    });
}

/// Now at the latest. The gateway is off afterwards, its card mounted again.
pub(crate) fn power_cut(scene: &mut Scene, volume: &mut Volume) {
    let image = volume.card().cut();
    scene.agent.kill();
    for wire in [&scene.wire, &scene.uplink_wire] {
        // What the agent said after the cut is still on the wire: it goes with it.
        wire.cut();
        wire.set_deaf(false);
    }
    volume.replace(image);
}
