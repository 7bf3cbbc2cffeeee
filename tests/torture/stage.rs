//! What is published to an agent under torture, and what has to come of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate::fleet::oracle::Oracle;
use tidegate::fleet::receiver::Merged;
use tidegate::fleet::{Delivery, Fleet, FleetSpec, Stragglers};
use tidegate::model::rng::Rng;
use tidegate::model::time::Span;

use crate::agent::{Config, ledger};
use crate::cloud::{Cloud, WAIT_MAX};
use crate::scale::rounds;
use crate::scene::{Scene, Setting, WINDOW, assert_exact, fleet_spec, wait_until};

/// Beside the window that takes late readings as revisions, one that sends deltas.
pub(crate) const STRICT: &str = r#"
[[streams.windows]]
name = "strict"
size = "5s"
late = "backfill"
backfill_quiet = "100ms"
aggregates = ["count", "sum", "min", "max"]
"#;

const SMALL: &str = "[outbox]\nmax_bytes = \"512KiB\"";
const LARGE: &str = "[outbox]\nmax_bytes = \"64MiB\"";

/// Both windows, and every reading, so that an outage of some seconds fills blocks of the
/// outbox that go to the disk; for small cards.
pub(crate) fn config() -> Config<'static> {
    Config {
        stream: "records = \"arrival\"",
        storage: "reserve = \"8MiB\"",
        // More than any outage makes; small in short runs, because so are its blocks.
        uplink: [SMALL, LARGE][usize::try_from(rounds(0, 1)).unwrap()],
        more: STRICT,
        ..Config::default()
    }
}

/// As [`crate::scene::fleet`], and one reading in 20 is 20 s late.
pub(crate) fn fleet(seed: u64, devices: u32, seconds: u64) -> Vec<Delivery> {
    let stragglers = Some(Stragglers { one_in: 20, delay: Span::from_secs(20) });
    let spec = FleetSpec { stragglers, ..fleet_spec(seed, devices, seconds) };
    Fleet::new(spec).collect()
}

/// A scene with both windows, its configuration and state in `dir` if there is one.
pub(crate) fn scene(dir: Option<&Path>) -> Scene {
    Scene::set(Setting { config: config(), dir, ..Setting::plain() })
}

/// Readings in windows that are over at the end: the others stay open.
fn closed(deliveries: &[Delivery]) -> BTreeMap<String, u64> {
    let mut oracle = Oracle::new(WINDOW, 0);
    for delivery in deliveries {
        oracle.add(&delivery.device, delivery.event, delivery.value);
    }
    let last = deliveries.iter().map(|delivery| delivery.event).max().expect("a fleet has deliveries");
    let id = |device: &str, start: i64| format!("gw-1/climate/strict/{device}/{start}");
    oracle.closed_at(last).map(|(key, totals)| (id(&key.device, key.start.as_millis()), totals.count)).collect()
}

/// Panes of the strict window with their deltas, however many those are.
fn merged(cloud: &Cloud) -> BTreeMap<String, Merged> {
    let strict = cloud.receiver.windows().filter(|id| id.contains("/strict/"));
    let whole = |id: &str| Merged { deltas: 0, ..cloud.receiver.merged(id).expect("accumulators are published") };
    strict.map(|id| (id.to_owned(), whole(id))).collect()
}

/// Readings in those panes and deltas.
fn counted(cloud: &Cloud) -> u64 {
    let panes = cloud.receiver.panes().map(|(_, pane)| pane).filter(|pane| pane["window"] == "strict");
    panes.chain(cloud.receiver.deltas()).map(|record| record["count"].as_u64().unwrap()).sum()
}

/// Publishes all to an agent that nobody disturbs.
pub(crate) fn undisturbed(deliveries: &[Delivery]) -> Scene {
    let mut scene = scene(None);
    let mut published = 0;
    // Not faster than it gets rid of the results.
    for part in deliveries.chunks(1_000) {
        scene.publish(part);
        published += part.len();
        scene.wait_for_received(published);
        wait_until("it is sent", || scene.agent.status().is_some_and(|status| held(&status) < 1_000));
    }
    assert_nothing_lost(&mut scene, deliveries);
    scene
}

/// Waits until everything is through, and compares it with what has to be.
pub(crate) fn assert_nothing_lost(scene: &mut Scene, deliveries: &[Delivery]) {
    let closed = closed(deliveries);
    let total = closed.values().sum();
    scene.wait_for_received(deliveries.len());
    // As long as more comes, it is not worth counting, and not too late.
    let mut newest = Instant::now();
    loop {
        let before = scene.cloud.receiver.counts().records;
        scene.cloud.receive_for(Duration::from_millis(200));
        let (receiver, now) = (&scene.cloud.receiver, Instant::now());
        if receiver.counts().records > before {
            newest = now;
            continue;
        }
        let status = scene.agent.status().expect("the agent answers");
        let counted = counted(&scene.cloud);
        if held(&status) == 0 && has_all(&scene.cloud, &status) && counted >= total {
            break;
        }
        let holes = receiver.holes();
        assert!(now - newest < WAIT_MAX, "{counted} of {total} readings, missing numbers {holes:?}, after {status}");
    }
    // First what explains the rest.
    let told = scene.cloud.receiver.end_state().filter(|one| one["kind"] == "alarm" || one["kind"] == "gap");
    let told: Vec<_> = told.take(3).collect();
    assert!(told.is_empty(), "nothing was damaged, and there was room: {told:?}");
    assert_books(&scene.agent.status().expect("the agent answers"), deliveries.len());
    scene.cloud.assert_contract();
    assert_exact(&scene.cloud, deliveries);
    let counts: BTreeMap<String, u64> = merged(&scene.cloud).into_iter().map(|(id, all)| (id, all.count)).collect();
    assert_eq!(counts, closed, "panes and deltas");
    let readings: BTreeSet<String> = scene.cloud.receiver.readings().map(passed_on).collect();
    let all: BTreeSet<String> = deliveries.iter().map(delivered).collect();
    assert!(readings == all && scene.cloud.receiver.readings().count() == deliveries.len(), "each reading, once");
    assert_no_panic(scene);
}

/// A reading in short.
pub(crate) fn delivered(delivery: &Delivery) -> String {
    format!("{} {} {:?}", delivery.device, delivery.event.as_millis(), Some(delivery.value))
}

/// The same of one that was passed on.
pub(crate) fn passed_on(record: &Value) -> String {
    let value = record["values"]["temperature"].as_f64();
    format!("{} {} {value:?}", record["key"].as_str().unwrap_or("?"), record["event_ms"])
}

/// The end state is that of an undisturbed run.
pub(crate) fn assert_same(disturbed: &Scene, undisturbed: &Scene) {
    assert_eq!(disturbed.cloud.results(), undisturbed.cloud.results());
    assert_eq!(merged(&disturbed.cloud), merged(&undisturbed.cloud));
}

/// No life of the agent had a bug that it came through by chance.
pub(crate) fn assert_no_panic(scene: &Scene) {
    let log = scene.agent.log();
    let panics: Vec<&str> = log.lines().filter(|line| line.contains("panicked at")).collect();
    assert!(panics.is_empty(), "{panics:?}");
}

/// Records that wait in the outbox.
pub(crate) fn held(status: &Value) -> u64 {
    lanes(status, "held")
}

/// Bytes of the outbox that have left the memory.
pub(crate) fn on_disk(status: &Value) -> u64 {
    let outbox = &status["engine"]["outbox"];
    outbox["bytes"].as_u64().unwrap().saturating_sub(outbox["memory_bytes"].as_u64().unwrap())
}

/// Whether every record that was ever queued is at the cloud: the broker between them has
/// acknowledged some that are still on their way.
pub(crate) fn has_all(cloud: &Cloud, status: &Value) -> bool {
    let numbers: u64 = cloud.receiver.lanes().map(|(_, low, high)| high - low + 1).sum();
    numbers >= lanes(status, "queued")
}

fn lanes(status: &Value, place: &str) -> u64 {
    let lanes = status["engine"]["outbox"]["lanes"].as_array().expect("a status has lanes");
    lanes.iter().map(|lane| lane[place].as_u64().unwrap()).sum()
}

fn assert_books(status: &Value, received: usize) {
    assert_eq!(status["engine"]["balanced"], true, "{status}");
    assert_eq!(ledger(status, "received"), received as u64, "each reading counts once: {status}");
    assert_eq!(ledger(status, "accepted"), received as u64, "and none is refused: {status}");
    assert_eq!(lanes(status, "evicted"), 0, "{status}");
    assert_eq!(lanes(status, "queued"), lanes(status, "acked"), "{status}");
}

/// The cloud comes and goes: an outage lasts for some rounds, so that the outbox is
/// large in some of them, and drains in others.
#[derive(Default)]
pub(crate) struct Outages {
    rounds: u64,
    rounds_left: u64,
}

impl Outages {
    pub(crate) fn next_round(&mut self, scene: &mut Scene, rng: &mut Rng) {
        self.rounds += 1;
        match self.rounds_left {
            // One comes early, so that short runs have one.
            0 if self.rounds == 2 || rng.chance(6) => {
                scene.cloud_broker.stop();
                self.rounds_left = rng.between(2, 12);
            }
            0 => {}
            1 => self.end(scene),
            _ => self.rounds_left -= 1,
        }
    }

    pub(crate) fn end(&mut self, scene: &mut Scene) {
        if self.rounds_left > 0 {
            scene.cloud_broker.restart();
            self.rounds_left = 0;
        }
    }
}
