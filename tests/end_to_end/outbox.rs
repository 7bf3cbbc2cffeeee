//! `tidegate outbox`: what waits for the cloud, seen from outside; of an agent that runs,
//! of one that does not, and of files that are damaged (field case F65: a record that
//! cannot be read blocked sending for good, and users asked for a tool that checks and
//! repairs).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::agent::Config;
use crate::scene::{Scene, fleet, wait_until};

/// Devices and windows of each, and so panes.
const DEVICES: u32 = 10;
const PANES: usize = 10 * 80;
/// Blocks get small in a small outbox: the backlog is several of them.
const SMALL: &str = "[outbox]\nmax_bytes = \"256KiB\"\n";

/// The agent runs, the cloud is away, and every pane waits in lane `backlog`.
fn backlog() -> Scene {
    let mut scene = Scene::with_config(Config { more: SMALL, ..Config::default() });
    wait_until("the uplink is up", || uplink_is_up(&scene) == Some(true));
    scene.cloud_broker.stop();
    wait_until("the uplink is down", || uplink_is_up(&scene) == Some(false));
    let deliveries = fleet(21, DEVICES, 400);
    scene.publish(&deliveries);
    scene.wait_for_received(deliveries.len());
    wait_until("most of it is on disk", || {
        let lane = lane(&overview(&scene.agent.place()), "backlog");
        lane["records"] == PANES && lane["blocks"].as_u64() >= Some(3)
    });
    scene
}

fn uplink_is_up(scene: &Scene) -> Option<bool> {
    scene.agent.status()?["uplink"]["connected"].as_bool()
}

/// `tidegate outbox …`.
fn outbox(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("outbox").args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Arguments that name the configuration.
fn at(place: &Path) -> [&str; 2] {
    ["--config", place.to_str().unwrap()]
}

fn overview(config: &Path) -> Value {
    let found = outbox(&[&["inspect", "--json"][..], &at(config)].concat());
    assert!(found.status.success(), "{}", text(&found.stderr));
    serde_json::from_slice(&found.stdout).unwrap()
}

fn lane(overview: &Value, name: &str) -> Value {
    overview["lanes"].as_array().unwrap().iter().find(|lane| lane["lane"] == name).unwrap().clone()
}

/// The exported lines, whether all was well, and what was said.
fn export(args: &[&str]) -> (Vec<String>, bool, String) {
    let found = outbox(&[&["export"][..], args].concat());
    (text(&found.stdout).lines().map(str::to_owned).collect(), found.status.success(), text(&found.stderr))
}

fn verify(config: &Path) -> (bool, String) {
    let found = outbox(&[&["verify"][..], &at(config)].concat());
    (found.status.success(), text(&found.stdout) + &text(&found.stderr))
}

/// Every file under a directory with its content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    for (path, content) in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, content).unwrap();
    }
}

/// Records by lane, epoch and number.
fn numbered(records: impl Iterator<Item = Value>) -> BTreeMap<(String, u64, u64), Value> {
    let number = |record: &Value, name: &str| record[name].as_u64().unwrap();
    records
        .map(|record| {
            let lane = record["lane"].as_str().unwrap().to_owned();
            ((lane, number(&record, "epoch"), number(&record, "seq")), record)
        })
        .collect()
}

fn parsed(lines: &[String]) -> impl Iterator<Item = Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap())
}

/// Makes one block of the backlog unreadable, in the middle of the oldest database.
fn damage_a_block(state: &Path) {
    let databases = fs::read_dir(state.join("outbox/backlog")).unwrap().map(|entry| entry.unwrap().path());
    let file = databases.min().unwrap().join("db");
    let bytes = fs::read(&file).unwrap();
    let frames: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, bytes)| *bytes == b"tgB\x01").map(|(at, _)| at).collect();
    assert!(frames.len() >= 2, "several blocks in the first database");
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&[0xee; 16], frames[1] as u64 + 200).unwrap();
}

/// The agent and the cloud come back: everything that waited arrives.
fn finish(scene: &mut Scene, panes: usize) {
    scene.cloud_broker.restart();
    scene.agent.start();
    scene.wait_for_panes(panes);
    let config = scene.agent.place();
    wait_until("nothing waits any more", || {
        let overview = overview(&config);
        overview["lanes"].as_array().unwrap().iter().all(|lane| lane["records"] == 0 && lane["gaps_in_all"] == 0)
    });
}

#[test]
fn running_or_stopped_the_same_records_and_exactly_those_that_the_cloud_then_gets() {
    let mut scene = backlog();
    let config = scene.agent.place();
    let state = config.with_file_name("state");

    let (running, well, said) = export(&at(&config));
    assert!(well && running.len() == PANES, "{} records: {said}", running.len());
    assert!(said.contains(&format!("{PANES} records exported")), "{said}");
    let (well, said) = verify(&config);
    assert!(well && said.contains(&format!("all is well: {PANES} records")), "{said}");
    let first = outbox(&[&["inspect", "--lane", "backlog", "--limit", "20"][..], &at(&config)].concat());
    assert_eq!(text(&first.stdout).lines().collect::<Vec<_>>(), running[..20]);
    let socket = config.with_file_name("control.sock");
    let over_socket = outbox(&["inspect", "--socket", socket.to_str().unwrap()]);
    assert!(text(&over_socket.stdout).contains(&format!("backlog: {PANES} records of 2023-11-14T")));
    let since = parsed(&running).nth(PANES / 2).unwrap()["start_ms"].as_i64().unwrap();
    let (later, ..) = export(&[&["--from", &since.to_string()][..], &at(&config)].concat());
    let is_later = |record: &Value| record["start_ms"].as_i64().unwrap() >= since;
    assert_eq!(later.len(), parsed(&running).filter(is_later).count());

    scene.agent.terminate();
    let before = files(&state);
    assert_eq!(export(&at(&config)).0, running, "by the configuration");
    let place = state.to_str().unwrap();
    assert_eq!(export(&["--dir", place, "--gateway", "gw-1", "--lane", "backlog"]).0, running, "by the directory");
    let (well, said) = verify(&config);
    assert!(well && said.contains("blocks on disk"), "{said}");
    assert_eq!(lane(&overview(&config), "backlog")["records"], PANES);
    let rehearsed = outbox(&[&["repair", "--dry-run"][..], &at(&config)].concat());
    assert!(text(&rehearsed.stdout).starts_with("nothing to repair"), "{}", text(&rehearsed.stdout));
    assert!(files(&state) == before, "to look changes nothing");
    let file = config.with_file_name("export.jsonl");
    let (_, well, _) = export(&[&["--output", file.to_str().unwrap()][..], &at(&config)].concat());
    assert!(well && fs::read_to_string(&file).unwrap().lines().eq(running.iter().map(String::as_str)));

    let known = scene.cloud.log.len();
    finish(&mut scene, PANES);
    let arrived = scene.cloud.log.split_off(known);
    assert_eq!(numbered(arrived.into_iter()), numbered(parsed(&running)), "what was exported is what arrives");
    scene.cloud.log.clear();
    scene.cloud.assert_contract();
    // F55: after a restart nothing is there, or sent, that was acknowledged before.
    scene.agent.terminate();
    assert_eq!(export(&at(&config)).0, [""; 0]);
}

#[test]
fn f65_a_block_that_cannot_be_read_is_found_costs_itself_alone_and_is_repaired() {
    let mut scene = backlog();
    let config = scene.agent.place();
    let state = config.with_file_name("state");
    let (whole, ..) = export(&at(&config));
    scene.agent.terminate();
    damage_a_block(&state);

    let before = files(&state);
    let (well, said) = verify(&config);
    assert!(!well && said.contains("lane backlog, epoch") && said.contains("cannot be read"), "{said}");
    let (rest, well, said) = export(&at(&config));
    assert!(!well && said.contains("not exported: lane backlog"), "{said}");
    let lost = whole.len() - rest.len();
    assert!(lost > 0 && lost < PANES / 2, "{lost} of {}", whole.len());
    assert!(rest.iter().all(|line| whole.contains(line)));
    let rehearsed = outbox(&[&["repair", "--dry-run"][..], &at(&config)].concat());
    let would = text(&rehearsed.stdout);
    assert!(would.contains("given up, with a gap record: lane backlog") && would.contains("nothing was changed"));
    assert!(files(&state) == before, "neither looking nor rehearsing changes anything");

    let repaired = outbox(&[&["repair"][..], &at(&config)].concat());
    let done = text(&repaired.stdout);
    assert!(repaired.status.success() && done.contains("repaired, and durable"), "{done}{}", text(&repaired.stderr));
    let (well, said) = verify(&config);
    assert!(well, "{said}");
    let overview = overview(&config);
    let gap = &lane(&overview, "backlog")["gaps"][0];
    assert_eq!((&gap["reason"], gap["records"].as_u64()), (&Value::from("damaged"), Some(lost as u64)));
    let again = outbox(&[&["repair"][..], &at(&config)].concat());
    assert!(text(&again.stdout).starts_with("nothing to repair"), "once is enough");

    finish(&mut scene, PANES - lost);
    // The gap stands for the numbers that are missing.
    scene.cloud.assert_contract();
    let gaps: u64 = scene.cloud.log.iter().filter(|record| record["kind"] == "gap").map(count).sum();
    assert_eq!(gaps, lost as u64);
}

fn count(record: &Value) -> u64 {
    record["count"].as_u64().unwrap()
}

#[test]
fn f65_a_directory_without_readable_pages_gives_what_the_blocks_hold() {
    let mut scene = backlog();
    let config = scene.agent.place();
    let state = config.with_file_name("state");
    let (whole, ..) = export(&at(&config));
    scene.agent.terminate();
    fs::write(state.join("pages/db"), vec![0x5a; 200_000]).unwrap();

    let before = files(&state);
    let found = outbox(&[&["inspect"][..], &at(&config)].concat());
    assert!(text(&found.stdout).contains("! damaged: ") && text(&found.stdout).contains("a start takes them over"));
    let (rest, well, said) = export(&at(&config));
    assert!(!well && said.contains("damaged"), "{said}");
    let kept: Vec<&String> = rest.iter().filter(|line| line.contains("\"lane\":\"backlog\"")).collect();
    assert!(kept.len() > PANES / 2 && kept.iter().all(|line| whole.contains(line)), "{} records", kept.len());
    assert!(!verify(&config).0);
    assert!(files(&state) == before, "to look changes nothing");

    let repaired = outbox(&[&["repair"][..], &at(&config)].concat());
    let done = text(&repaired.stdout);
    assert!(repaired.status.success() && done.contains("that no page named are taken over"), "{done}");
    let (well, said) = verify(&config);
    assert!(well, "{said}");
    let (after, well, _) = export(&at(&config));
    assert!(well && kept.iter().all(|line| after.contains(line)), "what could be read is kept");
    let panes = kept.len();
    finish(&mut scene, panes);
}

#[test]
fn f65_a_repair_that_is_killed_half_way_is_done_by_the_next_one() {
    let mut scene = backlog();
    let config = scene.agent.place();
    let state = config.with_file_name("state");
    scene.agent.terminate();
    damage_a_block(&state);
    let (whole, ..) = export(&at(&config));
    fs::write(state.join("pages/snap.0000000000000000"), "no page table").unwrap();
    let damaged = config.with_file_name("damaged");
    copy(&state, &damaged);
    let mut killed = 0;
    for millis in [0, 1, 3, 6, 10, 15, 25, 40, 80, 160] {
        fs::remove_dir_all(&state).unwrap();
        copy(&damaged, &state);
        let mut repair: Child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["outbox", "repair"])
            .args(at(&config))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Any moment will do.
        std::thread::park_timeout(Duration::from_millis(millis));
        killed += u32::from(repair.try_wait().unwrap().is_none());
        repair.kill().unwrap();
        repair.wait().unwrap();

        let next = outbox(&[&["repair"][..], &at(&config)].concat());
        assert!(next.status.success(), "after {millis} ms: {}", text(&next.stderr));
        let (well, said) = verify(&config);
        assert!(well, "after {millis} ms: {said}");
        let (after, ..) = export(&at(&config));
        assert!(whole.iter().all(|line| after.contains(line)), "after {millis} ms: nothing that was whole is lost");
    }
    assert!(killed > 0, "some were under way");
}

#[test]
fn who_asks_for_what_cannot_be_is_told_why_and_what_to_do() {
    let mut scene = Scene::start();
    let config = scene.agent.place();
    let state = config.with_file_name("state");
    let says = |args: &[&str], words: &[&str]| {
        let found = outbox(args);
        assert!(!found.status.success(), "{args:?}");
        let said = text(&found.stderr);
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
    };
    let (config_path, state_path) = (config.to_str().unwrap(), state.to_str().unwrap());
    wait_until("the agent answers", || scene.agent.status().is_some());
    says(&["repair", "--config", config_path], &["stop the agent first", "another tidegate is running on"]);
    says(&["repair", "--dry-run", "--config", config_path], &["stop the agent first"]);
    says(&["inspect", "--dir", state_path], &["an agent is running on", "--socket"]);
    scene.agent.terminate();
    says(&["inspect", "--socket", "/nowhere/control.sock"], &["no agent answers on /nowhere/control.sock", "--dir"]);
    says(&["verify", "--config", "/nowhere/tidegate.toml"], &["/nowhere/tidegate.toml", "--socket"]);
    says(&["export", "--dir", "/nowhere/state"], &["there is no state in /nowhere/state"]);
    says(&["export", "--config", config_path, "--lane", "fast"], &["alarm, live, update, backlog, late"]);
    says(&["export", "--config", config_path, "--from", "noon"], &["RFC 3339"]);
    says(&["inspect", "--dir", state_path, "--socket", "x"], &["cannot be used with"]);
    says(&["inspect", "--config", config_path, "--gateway", "gw"], &["cannot be used with"]);
    let broken = config.with_file_name("broken.toml");
    fs::write(&broken, "nonsense = 1\n").unwrap();
    says(&["inspect", "--config", broken.to_str().unwrap()], &["tidegate check", "--dir"]);
    says(&["repair", "--config", broken.to_str().unwrap()], &["tidegate check"]);
    let output = state.join("missing/out.jsonl");
    says(&["export", "--config", config_path, "--output", output.to_str().unwrap()], &["cannot write", "missing"]);
    assert!(outbox(&["inspect", "--dir", state_path]).status.success(), "not a word about the rest");
}
