//! A card that is full, fails, becomes read-only or takes its time, at random moments.
//!
//! The agent never dies of it, acknowledges nothing that is not durable, says so, goes on
//! with what can go on, and with the rest when the trouble is over. Half of the troubles
//! end with a power cut: what was acknowledged meanwhile has to be on the card.

use std::fs::{self, File};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};
use tempfile::TempDir;
use tidegate::fleet::Delivery;
use tidegate::model::rng::Rng;

use crate::card::{Health, Kept};
use crate::mounted::{Volume, is_possible};
use crate::power::{plan, power_cut};
use crate::scale::rounds;
use crate::scene::{Scene, seed, wait_until};
use crate::stage::{assert_nothing_lost, assert_same, fleet, held, scene, undisturbed};

const SEED: u64 = 20_261_203;
const DEVICES: u32 = 5;
/// Published in a round at most: before a trouble, during it and at its end.
const PARTS: usize = 12;

/// A gateway, its card, and what is still to be published.
struct Ordeal<'a> {
    // Dropped in this order: the agent, its card, the directory.
    scene: Scene,
    volume: Volume,
    _dir: TempDir,
    rng: Rng,
    parts: Vec<&'a [Delivery]>,
}

impl<'a> Ordeal<'a> {
    fn new(deliveries: &'a [Delivery], rounds: u64) -> Ordeal<'a> {
        let dir = tempfile::tempdir().unwrap();
        let volume = Volume::new(&dir.path().join("state"));
        let scene = scene(Some(dir.path()));
        let count = PARTS * usize::try_from(rounds).unwrap() + 1;
        let border = |part: usize| deliveries.len() * part / count;
        let parts = (0..count).rev().map(|part| &deliveries[border(part)..border(part + 1)]).collect();
        Ordeal { scene, volume, _dir: dir, rng: Rng::new(seed(SEED)), parts }
    }

    fn publish_part(&mut self) {
        let part = self.parts.pop().expect("there is enough for every round");
        self.scene.publish(part);
        self.scene.cloud.receive_for(Duration::from_millis(self.rng.below(100)));
    }

    /// The whole storage status.
    fn failure(&self) -> Option<String> {
        let status = self.scene.agent.status()?;
        status["engine"]["storage"]["failure"].as_str().map(str::to_owned)
    }

    /// Until the agent says that it cannot store, which it says of its health too.
    fn wait_for_failure(&mut self) -> String {
        wait_until("the agent says that it cannot store", || self.failure().is_some());
        assert!(self.scene.agent.is_running());
        let status = self.scene.agent.status().expect("it answers");
        assert_eq!(status["health"]["state"], "degraded", "{status}");
        status["engine"]["storage"]["failure"].to_string()
    }

    /// Something else takes all space but `but`, and takes it again when the agent gives some
    /// of its own back, while readings come. Whether the agent says that it cannot store: it
    /// may have had what it needs.
    fn fill_until_failure(&mut self, but: u64) -> bool {
        for _ in 0..PARTS - 4 {
            fill(&self.volume, but);
            self.publish_part();
            let failed = self.failure().is_some();
            if failed || !self.scene.agent.is_running() {
                return failed;
            }
        }
        false
    }

    fn wait_until_well(&mut self) {
        wait_until("the agent stores again", || {
            self.scene.agent.status().is_some_and(|status| status["engine"]["storage"]["failure"].is_null())
        });
    }

    /// The power goes in the middle of it; the card is as good as new afterwards.
    fn cut(&mut self) {
        let kept = Kept::any(&mut self.rng);
        plan(&self.volume, &self.scene, u64::MAX, kept, self.rng.next_u64());
        self.publish_part();
        power_cut(&mut self.scene, &mut self.volume);
    }

    fn finish(mut self, deliveries: &[Delivery]) {
        while !self.parts.is_empty() {
            self.publish_part();
        }
        assert_nothing_lost(&mut self.scene, deliveries);
        assert_same(&self.scene, &undisturbed(deliveries));
    }
}

/// Takes all space but this much.
fn fill(volume: &Volume, but: u64) {
    let ballast = File::options().create(true).append(true).open(volume.dir.join("ballast")).unwrap();
    let space = rustix::fs::statvfs(&volume.dir).unwrap();
    let mut take = (space.f_bavail * space.f_frsize).saturating_sub(but);
    let mut at = ballast.metadata().unwrap().len();
    // The file system needs some of it to remember the rest.
    while take >= 4_096 {
        if fallocate(&ballast, FallocateFlags::empty(), at, take).is_ok() {
            at += take;
            let space = rustix::fs::statvfs(&volume.dir).unwrap();
            take = (space.f_bavail * space.f_frsize).saturating_sub(but).min(take);
        } else {
            take /= 2;
        }
    }
    // It is there after a power cut.
    ballast.sync_all().unwrap();
}

fn free(volume: &Volume) {
    fs::remove_file(volume.dir.join("ballast")).unwrap();
}

#[test]
fn a_full_disk_at_any_moment_costs_nothing_that_was_acknowledged() {
    if !is_possible() {
        return;
    }
    let rounds = rounds(4, 60);
    let deliveries = fleet(4, DEVICES, 30 * rounds);
    let mut ordeal = Ordeal::new(&deliveries, rounds);
    let mut failures = 0;
    for _ in 0..rounds {
        ordeal.publish_part();
        let but = [0, 4 * 1024, 1024 * 1024, 3 * 1024 * 1024][usize::try_from(ordeal.rng.below(4)).unwrap()];
        if ordeal.fill_until_failure(but) {
            ordeal.wait_for_failure();
            failures += 1;
        }
        assert!(ordeal.scene.agent.is_running());
        if ordeal.rng.chance(2) {
            ordeal.cut();
            free(&ordeal.volume);
            ordeal.scene.agent.start();
        } else {
            free(&ordeal.volume);
        }
        ordeal.wait_until_well();
    }
    ordeal.finish(&deliveries);
    assert!(failures > 0, "some of it was more than the agent has kept for itself");
    println!("figure torture.disk_full {rounds} ({failures} with acknowledgements withheld)");
}

#[test]
fn what_is_durable_reaches_the_cloud_while_the_disk_is_full() {
    if !is_possible() {
        return;
    }
    let deliveries = fleet(5, DEVICES, 120);
    let mut ordeal = Ordeal::new(&deliveries, 1);
    ordeal.scene.cloud_broker.stop();
    for _ in 0..4 {
        ordeal.publish_part();
    }
    let backlog = || ordeal.scene.agent.status().map_or(0, |status| held(&status));
    wait_until("results wait", || backlog() > 20);
    assert!(ordeal.fill_until_failure(0), "there is no space at all");
    ordeal.scene.cloud_broker.restart();
    ordeal.scene.cloud.wait_until("durable results", |cloud| cloud.receiver.records() > 20);
    assert!(ordeal.failure().is_some(), "the disk is still full");
    free(&ordeal.volume);
    ordeal.wait_until_well();
    ordeal.finish(&deliveries);
}

#[test]
fn an_agent_that_is_started_on_a_full_disk_says_so_and_starts_when_there_is_space() {
    if !is_possible() {
        return;
    }
    let deliveries = fleet(6, DEVICES, 60);
    let mut ordeal = Ordeal::new(&deliveries, 1);
    ordeal.publish_part();
    ordeal.scene.agent.kill();
    fill(&ordeal.volume, 0);
    ordeal.scene.agent.start();
    // With its state there it may start, and wait for space; it may as well leave that to systemd.
    let failed = ordeal.fill_until_failure(0);
    assert!(failed || !ordeal.scene.agent.is_running(), "there is no space at all");
    if !ordeal.scene.agent.is_running() {
        assert!(ordeal.scene.agent.log().contains("no space left"), "{}", ordeal.scene.agent.log());
    }
    free(&ordeal.volume);
    ordeal.scene.agent.restart_if_ended();
    ordeal.wait_until_well();
    ordeal.finish(&deliveries);
}

#[test]
fn a_card_that_refuses_writes_costs_nothing_that_was_acknowledged() {
    if !is_possible() {
        return;
    }
    let rounds = rounds(3, 60);
    let deliveries = fleet(7, DEVICES, 30 * rounds);
    let mut ordeal = Ordeal::new(&deliveries, rounds);
    for _ in 0..rounds {
        ordeal.publish_part();
        ordeal.volume.card().set_health(Health::WritesFail);
        ordeal.publish_part();
        ordeal.wait_for_failure();
        // The kernel may have given the file system up for good: a new start is a cut here.
        if ordeal.rng.chance(2) {
            ordeal.volume.card().set_health(Health::Good);
        }
        ordeal.cut();
        ordeal.scene.agent.start();
        ordeal.wait_until_well();
    }
    ordeal.finish(&deliveries);
    println!("figure torture.io_errors {rounds}");
}

#[test]
fn a_file_system_that_became_read_only_costs_nothing_that_was_acknowledged() {
    if !is_possible() {
        return;
    }
    let rounds = rounds(2, 30);
    let deliveries = fleet(8, DEVICES, 40 * rounds);
    let mut ordeal = Ordeal::new(&deliveries, rounds);
    for _ in 0..rounds {
        ordeal.publish_part();
        ordeal.volume.find_error();
        ordeal.publish_part();
        ordeal.wait_for_failure();
        ordeal.cut();
        ordeal.volume.remount("ro");
        ordeal.scene.agent.start();
        ordeal.publish_part();
        wait_until("it says so", || ordeal.failure().is_some() || !ordeal.scene.agent.is_running());
        ordeal.volume.remount("rw");
        ordeal.scene.agent.restart_if_ended();
        ordeal.wait_until_well();
    }
    ordeal.finish(&deliveries);
    println!("figure torture.read_only {rounds}");
}

#[test]
fn a_card_that_takes_its_time_costs_nothing_but_time() {
    if !is_possible() {
        return;
    }
    let rounds = rounds(2, 20);
    let deliveries = fleet(9, DEVICES, 30 * rounds);
    let mut ordeal = Ordeal::new(&deliveries, rounds);
    for _ in 0..rounds {
        ordeal.publish_part();
        ordeal.volume.card().set_health(Health::SlowFlush(Duration::from_millis(1_500)));
        ordeal.publish_part();
        wait_until("it is durable in the end", || {
            let status = ordeal.scene.agent.status();
            status.is_some_and(|status| status["engine"]["storage"]["unacknowledged"] == 0)
        });
        assert!(ordeal.failure().is_none(), "slow is not broken");
        if ordeal.rng.chance(2) {
            ordeal.cut();
            ordeal.scene.agent.start();
        }
        ordeal.volume.card().set_health(Health::Good);
    }
    ordeal.finish(&deliveries);
}
