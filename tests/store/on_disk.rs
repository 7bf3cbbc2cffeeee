//! The store on sled: reopening, the lock, the witness.

use std::path::Path;

use tempfile::TempDir;
use tidegate::agent::store::{OpenError, SledStore, open};
use tidegate::engine::ring::STATE_BYTES_MAX;
use tidegate::engine::store::{Loaded, Store, StoreError};

use crate::model::Model;
use crate::random::Random;

pub(crate) fn load(dir: &Path) -> (SledStore, Loaded) {
    let mut store = open(dir).unwrap();
    let loaded = store.load().unwrap();
    (store, loaded)
}

pub(crate) fn quarantined(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("quarantine")).map_or(0, Iterator::count)
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn it_reopens_after_every_kind_of_operation() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path().join("not/yet/there");
    let (store, loaded) = load(&dir);
    assert_eq!(loaded, Loaded::default());
    drop(store);

    let (mut store, loaded) = load(&dir);
    assert_eq!(loaded, Loaded::default(), "opened twice and never written");
    store.commit(b"one").unwrap();
    drop(store);

    let (mut store, loaded) = load(&dir);
    assert_eq!(loaded, Loaded { pages: vec![b"one".to_vec()], ..Loaded::default() });
    store.snapshot(b"state one").unwrap();
    drop(store);

    let (mut store, loaded) = load(&dir);
    assert_eq!(loaded, Loaded { snapshot: Some(b"state one".to_vec()), ..Loaded::default() });
    store.commit(b"two").unwrap();
    store.witness(7).unwrap();
    drop(store);

    let (_store, loaded) = load(&dir);
    let pages = vec![b"two".to_vec()];
    assert_eq!(loaded, Loaded { snapshot: Some(b"state one".to_vec()), pages, epoch_floor: 7, ..Loaded::default() });
    assert_eq!(quarantined(&dir), 0);
}

#[test]
fn the_state_is_handed_over_once() {
    let dir = TempDir::new().unwrap();
    let (mut store, _) = load(dir.path());
    assert!(matches!(store.load(), Err(StoreError::Failed(_))));
}

#[test]
fn random_operations_and_reopenings_keep_everything() {
    for seed in 0..6 {
        let dir = TempDir::new().unwrap();
        let mut random = Random(seed);
        let mut model = Model::default();
        for life in 0..5 {
            let (mut store, loaded) = load(dir.path());
            model.check(&loaded, &format!("seed {seed}, life {life}"));
            for _ in 0..random.below(25) {
                let size = random.size(200_000);
                let bytes = random.bytes(size);
                if random.below(7) == 0 {
                    model.snapshot(&mut store, bytes).unwrap();
                    store.witness(life).unwrap();
                } else if let Err(error) = model.commit(&mut store, bytes) {
                    assert!(matches!(error, StoreError::SnapshotDue), "{error}");
                    model.snapshot(&mut store, b"due".to_vec()).unwrap();
                }
            }
        }
    }
}

/// The largest state: every name of the ring is in sled's list, which must not
/// become a file of its own.
#[test]
fn a_ring_with_every_slot_used_creates_no_blob() {
    let dir = TempDir::new().unwrap();
    let (mut store, _) = load(dir.path());
    let mut random = Random(1);
    // Does not pack: 48 KB per slot, 1,400 snapshot and 256 page slots a set.
    let noise: Vec<u8> = (0..STATE_BYTES_MAX / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    for set in 0..2 {
        store.snapshot(&noise).unwrap();
        while store.commit(&noise[..3_000_000]).is_ok() {}
        while store.commit(&[set]).is_ok() {}
    }
    drop(store);
    assert_eq!(std::fs::read_dir(dir.path().join("pages/blobs")).unwrap().count(), 0);
    let (_store, loaded) = load(dir.path());
    assert_eq!(loaded.snapshot.unwrap().len(), noise.len());
    assert_eq!(loaded.damage, [""; 0]);
}

#[test]
fn a_second_user_of_the_directory_is_told_so_and_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let (mut store, _) = load(dir.path());
    store.commit(b"one").unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked(_)));
    assert_eq!(error.to_string(), format!("another tidegate is running on {}", dir.path().display()));
    store.commit(b"two").unwrap();
    drop(store);
    assert_eq!(load(dir.path()).1.pages, [b"one", b"two"]);
    assert_eq!(quarantined(dir.path()), 0);
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_and_not_damage() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert!(matches!(open(&file), Err(OpenError::Unusable { .. })));
}

#[test]
fn a_silent_fallback_is_found_out_until_a_snapshot_answers_it() {
    let dir = TempDir::new().unwrap();
    let live = dir.path().join("live");
    let (mut store, _) = load(&live);
    store.snapshot(b"old").unwrap();
    store.witness(1).unwrap();
    drop(store);
    copy(&live.join("pages"), &dir.path().join("older"));

    let (mut store, _) = load(&live);
    store.commit(b"page").unwrap();
    store.witness(2).unwrap();
    drop(store);
    std::fs::remove_dir_all(live.join("pages")).unwrap();
    copy(&dir.path().join("older"), &live.join("pages"));

    for _ in 0..2 {
        let (mut store, loaded) = load(&live);
        assert_eq!((loaded.snapshot.as_deref(), loaded.epoch_floor), (Some(&b"old"[..]), 2));
        assert_eq!(loaded.damage.len(), 1, "{:?}", loaded.damage);
        assert!(store.wants_snapshot());
        assert!(matches!(store.commit(b"x"), Err(StoreError::SnapshotDue)));
    }
    let (mut store, _) = load(&live);
    store.snapshot(b"new").unwrap();
    store.witness(3).unwrap();
    drop(store);
    let (_store, loaded) = load(&live);
    assert_eq!(loaded, Loaded { snapshot: Some(b"new".to_vec()), epoch_floor: 3, ..Loaded::default() });
}

#[test]
fn a_database_that_vanished_is_a_fallback_too() {
    let dir = TempDir::new().unwrap();
    let (mut store, _) = load(dir.path());
    store.snapshot(b"state").unwrap();
    store.witness(5).unwrap();
    drop(store);
    std::fs::remove_dir_all(dir.path().join("pages")).unwrap();
    let (_store, loaded) = load(dir.path());
    assert_eq!((loaded.snapshot, loaded.epoch_floor, loaded.damage.len()), (None, 5, 1));
}

#[test]
fn a_database_removed_under_a_running_agent_is_no_success_and_is_written_anew() {
    for remove_all in [false, true] {
        let parent = TempDir::new().unwrap();
        let dir = parent.path().join("state");
        let (mut store, _) = load(&dir);
        store.snapshot(b"old").unwrap();
        store.commit(b"one").unwrap();
        // Somebody tidied up, or another medium is mounted there now.
        std::fs::remove_dir_all(if remove_all { dir.clone() } else { dir.join("pages") }).unwrap();
        assert!(matches!(store.commit(b"two"), Err(StoreError::Failed(_))), "there is no directory");
        std::fs::create_dir_all(dir.join("pages")).unwrap();
        assert!(matches!(store.commit(b"two"), Err(StoreError::Failed(_))), "the file has no name any more");
        assert!(matches!(store.commit(b"two"), Err(StoreError::SnapshotDue)), "what it rests on is gone");
        store.snapshot(b"old, one, two").unwrap();
        store.commit(b"three").unwrap();
        drop(store);
        let (_store, loaded) = load(&dir);
        assert_eq!((loaded.snapshot.as_deref(), loaded.pages.len()), (Some(&b"old, one, two"[..]), 1));
        assert_eq!(loaded.damage, [""; 0]);
    }
}

#[test]
fn whatever_lies_where_a_file_is_expected_does_not_keep_it_from_starting() {
    for name in ["witness", "witness.new", "lock", "quarantine"] {
        let dir = TempDir::new().unwrap();
        let (mut store, _) = load(dir.path());
        store.snapshot(b"state").unwrap();
        store.witness(5).unwrap();
        drop(store);
        let place = dir.path().join(name);
        _ = std::fs::remove_file(&place);
        let pipe = std::process::Command::new("mkfifo").arg(dir.path().join("pages/snap.0")).status();
        assert!(pipe.unwrap().success());
        if name == "quarantine" {
            std::fs::write(&place, "a file").unwrap();
            std::fs::write(dir.path().join("pages/db"), "damaged").unwrap();
        } else {
            std::fs::create_dir_all(place.join("not empty")).unwrap();
        }
        let (mut store, loaded) = load(dir.path());
        assert_eq!(loaded.snapshot.is_some(), name != "quarantine", "{name}");
        assert_eq!(loaded.epoch_floor == 5, name != "witness", "{name}");
        store.snapshot(b"new").unwrap();
        store.witness(6).unwrap();
        drop(store);
        let (_store, loaded) = load(dir.path());
        assert_eq!((loaded.snapshot.as_deref(), loaded.epoch_floor), (Some(&b"new"[..]), 6), "{name}");
    }
}

#[test]
fn a_repair_that_the_power_cut_short_is_finished_or_begun_again() {
    let dir = TempDir::new().unwrap();
    let (pages, fresh) = (dir.path().join("pages"), dir.path().join("pages.new"));
    let (mut store, _) = load(dir.path());
    store.snapshot(b"state").unwrap();
    store.commit(b"page").unwrap();
    store.witness(5).unwrap();
    drop(store);
    // The damaged one has been put aside, the new one is not in its place yet.
    std::fs::rename(&pages, &fresh).unwrap();
    let (store, loaded) = load(dir.path());
    assert_eq!((loaded.snapshot.as_deref(), loaded.pages.len()), (Some(&b"state"[..]), 1));
    assert_eq!(loaded.damage, [""; 0]);
    drop(store);
    // The new one was being written when the power went.
    std::fs::create_dir(&fresh).unwrap();
    std::fs::write(fresh.join("db"), "half").unwrap();
    let (_store, loaded) = load(dir.path());
    assert_eq!((loaded.snapshot.as_deref(), loaded.pages.len()), (Some(&b"state"[..]), 1));
    assert!(!fresh.exists());
}

#[test]
fn a_damaged_witness_is_reported_and_the_state_is_kept() {
    let dir = TempDir::new().unwrap();
    let (mut store, _) = load(dir.path());
    store.snapshot(b"state").unwrap();
    store.witness(5).unwrap();
    drop(store);
    std::fs::write(dir.path().join("witness"), [0xff; 40]).unwrap();
    let (_store, loaded) = load(dir.path());
    assert_eq!((loaded.snapshot.as_deref(), loaded.damage.len()), (Some(&b"state"[..]), 1));
    assert_eq!(quarantined(dir.path()), 0);
}
