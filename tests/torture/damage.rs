//! Files of the real agent's state, with a backlog in it, damaged on purpose.
//!
//! It always starts, never panics, and never gives a wrong window: whatever it publishes
//! afterwards is what an undisturbed run gives, or says that it is `partial`; and what is
//! missing is told, by an alarm under a new epoch or by gap records. The state is a black box here: which
//! files there are is the agent's business.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tidegate::fleet::Delivery;
use tidegate::fleet::oracle::Oracle;
use tidegate::model::rng::Rng;

use crate::agent::{Config, ledger};
use crate::scale::rounds;
use crate::scene::{Scene, Setting, WINDOW, assert_exact, fleet, seed, wait_until};
use crate::stage::{assert_no_panic, config, delivered, held, on_disk, passed_on};

const SEED: u64 = 20_261_204;
const DEVICES: u32 = 30;

/// The state of an agent that was killed while the cloud was away.
struct Killed {
    dir: TempDir,
    epoch: u64,
    deliveries: Vec<Delivery>,
}

impl Killed {
    fn new(seed: u64) -> Killed {
        let deliveries = fleet(seed, DEVICES, 120);
        let dir = tempfile::tempdir().unwrap();
        // Commits after the last snapshot are there to be lost, too.
        let config = Config { snapshot_interval: "2s", ..config() };
        let mut scene = Scene::set(Setting { dir: Some(dir.path()), config, ..Setting::plain() });
        scene.cloud_broker.stop();
        let parts = before(&deliveries).chunks(before(&deliveries).len() / 10 + 1);
        for (index, part) in parts.enumerate() {
            scene.publish(part);
            let snapshots = || scene.agent.status().map_or(0, |status| storage(&status, "snapshots"));
            let known = snapshots();
            match index {
                // sled's table of pages is written at a start.
                4 => {
                    scene.agent.kill();
                    scene.agent.start();
                }
                2 | 6 => wait_until("one more snapshot", || snapshots() > known),
                _ => {}
            }
        }
        scene.wait_for_received(before(&deliveries).len());
        wait_until("everything is durable", || {
            storage(&scene.agent.status().expect("it answers"), "unacknowledged") == 0
        });
        let status = scene.agent.status().expect("it answers");
        assert!(on_disk(&status) > 0, "some of the backlog has left the memory: {status}");
        scene.agent.kill();
        drop(scene);
        Killed { dir, epoch: status["engine"]["epoch"].as_u64().unwrap(), deliveries }
    }
}

fn before(deliveries: &[Delivery]) -> &[Delivery] {
    &deliveries[..deliveries.len() / 2]
}

fn after(deliveries: &[Delivery]) -> &[Delivery] {
    &deliveries[deliveries.len() / 2..]
}

fn storage(status: &Value, name: &str) -> u64 {
    status["engine"]["storage"][name].as_u64().unwrap()
}

/// Damages a copy of the state in a way that each seed names, and starts the agent on it.
fn survives(what: &str, damage: impl Fn(&[PathBuf], &mut Rng) -> String) {
    let first = seed(SEED);
    let killed = Killed::new(first);
    let count = rounds(5, 60);
    let mut told = 0;
    for seed in 0..count {
        let dir = tempfile::tempdir().unwrap();
        copy(&killed.dir.path().join("state"), &dir.path().join("state"));
        let files = files(&dir.path().join("state"));
        let done = damage(&files, &mut Rng::fork(first, seed));
        told += u64::from(is_told(&killed, dir.path(), &format!("{what} {seed}, {done}")));
    }
    println!("figure torture.damage.{} {count} ({told} with a loss that was told)", what.replace(' ', "_"));
}

/// Goes on with the state in `dir`. Whether it says that something is lost.
fn is_told(killed: &Killed, dir: &Path, at: &str) -> bool {
    let mut scene = Scene::set(Setting { dir: Some(dir), config: config(), ..Setting::plain() });
    let started = scene.agent.status().expect("it has subscribed");
    let epoch = started["engine"]["epoch"].as_u64().unwrap();
    let received = ledger(&started, "received");
    let rest = after(&killed.deliveries);
    scene.publish(rest);
    let (agent, goal) = (&scene.agent, received + rest.len() as u64);
    scene.cloud.wait_until(&format!("everything is published after {at}"), |_| {
        agent.status().is_some_and(|status| {
            ledger(&status, "received") >= goal && storage(&status, "unacknowledged") == 0 && held(&status) == 0
        })
    });
    let status = scene.agent.status().expect("it answers");
    assert_eq!(status["engine"]["balanced"], true, "{at}: {status}");
    // What is on its way from the broker to the cloud.
    let acked = status["engine"]["outbox"]["lanes"].as_array().unwrap().iter().map(|lane| lane["acked"].as_u64());
    let sent: u64 = acked.map(Option::unwrap).sum();
    scene.cloud.wait_until("the cloud has it", |cloud| {
        let counts = cloud.receiver.counts();
        counts.records - counts.repeats >= sent
    });
    assert_no_panic(&scene);

    let cloud = &scene.cloud.receiver;
    assert_eq!((cloud.counts().conflicts, cloud.counts().refused), (0, 0), "{at}");
    let alarms: Vec<_> = cloud.end_state().filter(|record| record["code"] == "state_damaged").collect();
    let gaps = cloud.end_state().filter(|record| record["kind"] == "gap").count();
    assert_never_wrong(&scene, &killed.deliveries, at);
    if epoch == killed.epoch {
        assert!(alarms.is_empty(), "{at}: {alarms:?}");
        scene.cloud.assert_contract();
        if gaps == 0 {
            assert_exact(&scene.cloud, &killed.deliveries);
            assert_eq!(cloud.readings().count(), killed.deliveries.len(), "{at}: readings that are not told");
        }
        return gaps > 0;
    }
    assert!(epoch > killed.epoch, "{at}");
    assert!(alarms.iter().any(|alarm| alarm["epoch"] == epoch), "{at}: a loss that is not told: {alarms:?}");
    let holes: Vec<_> = cloud.holes().into_iter().filter(|hole| hole.lane.epoch == epoch).collect();
    assert!(holes.is_empty(), "{at}: {holes:?}");
    true
}

/// What does not say `partial` is what all readings give.
fn assert_never_wrong(scene: &Scene, deliveries: &[Delivery], at: &str) {
    let mut oracle = Oracle::new(WINDOW, 0);
    for delivery in deliveries {
        oracle.add(&delivery.device, delivery.event, delivery.value);
    }
    let id = |device: &str, start: i64| format!("gw-1/climate/5s/{device}/{start}");
    let right: BTreeMap<String, _> =
        oracle.windows().iter().map(|(key, totals)| (id(&key.device, key.start.as_millis()), totals)).collect();
    let panes = scene.cloud.receiver.panes();
    for (id, pane) in panes.filter(|(_, pane)| pane["window"] == "5s") {
        let totals = right.get(id).unwrap_or_else(|| panic!("{at}: a window that never was: {pane}"));
        let values = &pane["values"]["temperature"];
        let is_right = pane["count"].as_u64() == Some(totals.count)
            && [("sum", totals.sum), ("min", totals.min), ("max", totals.max), ("mean", totals.mean())]
                .iter()
                .all(|(name, right)| values[*name].as_f64().is_some_and(|value| value.total_cmp(right).is_eq()));
        assert!(is_right || pane["partial"] == true, "{at}: {totals:?} is published as {pane}");
    }
    let all: BTreeSet<String> = deliveries.iter().map(delivered).collect();
    for reading in scene.cloud.receiver.readings() {
        assert!(all.contains(&passed_on(reading)), "{at}: a reading that never was: {reading}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// All that are not empty, in the order of their names.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.metadata().unwrap().len() > 0 {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// A byte of the whole state, all of them alike.
fn somewhere<'a>(files: &'a [PathBuf], rng: &mut Rng) -> (&'a Path, usize) {
    let lens: Vec<u64> = files.iter().map(|file| fs::metadata(file).unwrap().len()).collect();
    let mut at = rng.below(lens.iter().sum());
    for (file, len) in files.iter().zip(lens) {
        if at < len {
            return (file, usize::try_from(at).unwrap());
        }
        at -= len;
    }
    unreachable!("below the sum")
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

fn tell(file: &Path, at: usize) -> String {
    format!("{} at {at}", file.file_name().unwrap().display())
}

#[test]
fn a_file_cut_short() {
    survives("cut short", |files, rng| {
        let (file, at) = somewhere(files, rng);
        change(file, |bytes| bytes.truncate(at));
        tell(file, at)
    });
}

#[test]
fn a_block_of_zeros() {
    survives("zeros", |files, rng| {
        let (file, at) = somewhere(files, rng);
        change(file, |bytes| {
            let end = bytes.len();
            bytes[at / 4_096 * 4_096..end.min((at / 4_096 + 1) * 4_096)].fill(0);
        });
        tell(file, at)
    });
}

#[test]
fn flipped_bits() {
    survives("flipped bits", |files, rng| {
        let flips = (0..rng.between(1, 20)).map(|_| {
            let (file, at) = somewhere(files, rng);
            change(file, |bytes| bytes[at] ^= 1 << rng.below(8));
            tell(file, at)
        });
        flips.collect::<Vec<_>>().join(", ")
    });
}

#[test]
fn a_damaged_table_of_pages() {
    survives("table of pages", |files, rng| {
        let is_table = |file: &&PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with("snap.");
        let tables: Vec<PathBuf> = files.iter().filter(is_table).cloned().collect();
        let (file, at) = somewhere(&tables, rng);
        change(file, |bytes| match rng.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << rng.below(8),
            _ => bytes[at..].fill(0),
        });
        tell(file, at)
    });
}
