//! Persisted bytes of every released version can be read, and the layout does
//! not change by accident.
//!
//! The fixtures are what each version writes for the first lines of the replay
//! fixture. After a deliberate change: raise `STATE_VERSION`, keep the old files,
//! and write new ones with `TIDEGATE_WRITE_FIXTURES=1 cargo test --test state`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use tidegate::config::check::check_for_replay;
use tidegate::engine::chain::Chain;
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::{MemoryStore, memory_store};
use tidegate::engine::snapshot::STATE_VERSION;
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::status::Status;
use tidegate::engine::step::{DeliveryTag, Event, Message};
use tidegate::engine::store::{Loaded, Store, StoreError};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

const LINES: usize = 400;
const SNAPSHOT_AFTER: usize = 300;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn pipeline() -> PipelineSpec {
    let path = fixture("replay/climate.toml");
    check_for_replay(&std::fs::read_to_string(path).unwrap(), "climate.toml").unwrap().config
}

/// A store that gives out fixed bytes and takes nothing.
struct Fixed(Loaded);

impl Chain for Fixed {}

impl Store for Fixed {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        Ok(std::mem::take(&mut self.0))
    }
    fn commit(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn snapshot(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn wants_snapshot(&self) -> bool {
        false
    }
    fn bytes_written(&self) -> u64 {
        0
    }
}

fn now(wall_ms: i64) -> Now {
    let proc = u64::try_from(wall_ms - 1_773_479_000_000).unwrap();
    Now { proc: ProcTime::from_millis(proc), wall: WallTime::from_millis(wall_ms), quality: ClockQuality::Synced }
}

/// The snapshot, the page after it, and the books behind both.
fn written() -> (Vec<u8>, Vec<u8>, Status) {
    let (driver, snapshot, at) = run();
    let page = driver.engine().step(at, Vec::new()).writes;
    let status = driver.status(at);
    (snapshot, page, status)
}

/// All of it as a snapshot.
fn whole() -> Vec<u8> {
    let (driver, _, at) = run();
    driver.engine().snapshot(at)
}

/// The engine after all lines, and the snapshot on the way.
fn run() -> (Driver<MemoryStore>, Vec<u8>, Now) {
    let trace = std::fs::read_to_string(fixture("replay/climate.trace.jsonl")).unwrap();
    let mut driver = Driver::start(pipeline(), memory_store(), now(1_773_479_999_000)).unwrap();
    driver.handle(now(1_773_479_999_000), Event::SessionStarted { resumed: true });
    driver.handle(now(1_773_479_999_000), Event::InputLive(true));
    let mut snapshot = Vec::new();
    let mut at = now(1_773_479_999_000);
    for (number, line) in trace.lines().take(LINES).enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        at = now(line["arrival_ms"].as_i64().unwrap());
        let payload = line["payload"].to_string();
        let tag = Some(DeliveryTag { connection: 1, packet: u16::try_from(number + 1).unwrap() });
        let topic = line["topic"].as_str().unwrap();
        let message = Message { topic, payload: payload.as_bytes(), retain: false, dup: false, tag };
        driver.handle(at, Event::Message(message));
        if number + 1 == SNAPSHOT_AFTER {
            snapshot = driver.engine().snapshot(at);
            driver.engine_mut().mark_committed(Some(at));
        }
    }
    (driver, snapshot, at)
}

#[test]
fn the_layout_of_this_version_is_the_one_on_file_and_can_be_read() {
    let (snapshot, page, status) = written();
    let files = ["snapshot", "page"].map(|kind| fixture(&format!("state/v{STATE_VERSION}.{kind}")));
    if std::env::var_os("TIDEGATE_WRITE_FIXTURES").is_some() {
        std::fs::write(&files[0], &snapshot).unwrap();
        std::fs::write(&files[1], &page).unwrap();
    }
    let [on_file_snapshot, on_file_page] = files.map(|file| std::fs::read(file).unwrap());
    assert!(snapshot == on_file_snapshot, "the snapshot's layout changed: a new STATE_VERSION?");
    assert!(page == on_file_page, "the page's layout changed: a new STATE_VERSION?");
    reads(on_file_snapshot, on_file_page, &status);
}

#[test]
fn what_earlier_versions_have_written_can_be_read() {
    let (_, _, status) = written();
    for version in 4..STATE_VERSION {
        let [snapshot, page] =
            ["snapshot", "page"].map(|kind| std::fs::read(fixture(&format!("state/v{version}.{kind}"))).unwrap());
        reads(snapshot, page, &status);
    }
}

fn reads(snapshot: Vec<u8>, page: Vec<u8>, status: &Status) {
    let loaded = Loaded { snapshot: Some(snapshot), pages: vec![page], ..Loaded::default() };
    let at = now(1_773_480_999_000);
    let driver = Driver::start(pipeline(), Fixed(loaded), at).unwrap();
    assert!(driver.engine().balances());
    let restored = driver.status(at);
    assert_eq!(restored.epoch, status.epoch, "read without damage");
    assert_eq!(restored.streams[0].ledger, status.streams[0].ledger);
    assert_eq!(restored.streams[0].windows, status.streams[0].windows);
    // How old rows are goes on from the newest one that is stored.
    let books = |status: &Status| -> Vec<_> {
        status.outbox.lanes.iter().map(|lane| (lane.queued, lane.held, lane.bytes)).collect()
    };
    assert_eq!(books(&restored), books(status));
}

/// A page holds additions, not windows.
#[test]
fn additions_that_are_made_again_are_the_windows_themselves() {
    let (snapshot, page, _) = written();
    let whole = whole();
    let at = now(1_773_480_999_000);
    let restored = |snapshot: Vec<u8>, pages: Vec<Vec<u8>>| {
        let loaded = Loaded { snapshot: Some(snapshot), pages, ..Loaded::default() };
        Driver::start(pipeline(), Fixed(loaded), at).unwrap().engine().snapshot(at)
    };
    assert!(restored(snapshot, vec![page]) == restored(whole, Vec::new()), "to the bit");
}

#[test]
fn state_of_an_unknown_version_is_put_aside_with_an_alarm_and_a_new_epoch() {
    let (mut snapshot, _, status) = written();
    snapshot[0] = STATE_VERSION + 1;
    let loaded = Loaded { snapshot: Some(snapshot), epoch_floor: status.epoch, ..Loaded::default() };
    let driver = Driver::start(pipeline(), Fixed(loaded), now(1_773_480_999_000)).unwrap();
    let restored = driver.status(now(1_773_480_999_000));
    assert!(restored.epoch > status.epoch);
    assert_eq!(restored.outbox.lanes[0].queued, 1, "one alarm");
    assert!(driver.engine().balances());
}

#[test]
fn every_cut_of_a_snapshot_or_page_is_damage_and_never_a_panic() {
    let (snapshot, page, _) = written();
    let at = now(1_773_480_999_000);
    for cut in (0..snapshot.len()).step_by(37) {
        let loaded = Loaded { snapshot: Some(snapshot[..cut].to_vec()), ..Loaded::default() };
        assert!(Driver::start(pipeline(), Fixed(loaded), at).unwrap().engine().balances(), "cut at {cut}");
    }
    for cut in (0..page.len()).step_by(11) {
        let pages = vec![page[..cut].to_vec()];
        let loaded = Loaded { snapshot: Some(snapshot.clone()), pages, ..Loaded::default() };
        assert!(Driver::start(pipeline(), Fixed(loaded), at).unwrap().engine().balances(), "cut at {cut}");
    }
}
