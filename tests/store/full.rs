//! A disk that is full, that becomes read-only, that fails: what was reported durable
//! stays, what cannot be written is refused, and it goes on by itself afterwards.

use std::path::Path;

use tidegate::agent::store::{FREE_BYTES_MIN, OpenError, SledStore, open_with};
use tidegate::engine::chain::Chain;
use tidegate::engine::driver::Driver;
use tidegate::engine::store::{Loaded, Store, StoreError};

use crate::mount::Mount;
use crate::random::Random;
use crate::room::{now, pipeline};

const RESERVE: u64 = 16 * 1024 * 1024;
const LATE: u8 = 4;

fn load(dir: &Path) -> (SledStore, Loaded) {
    let mut store = open_with(dir, RESERVE).unwrap();
    let loaded = store.load().unwrap();
    (store, loaded)
}

fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// Both kinds, 96 MiB each.
fn mounts() -> Vec<Mount> {
    [Mount::tmpfs(96), Mount::ext4(96)].into_iter().flatten().collect()
}

#[test]
fn the_outbox_stops_at_the_reserve_and_commits_go_on_behind_it() {
    for mount in mounts() {
        let dir = mount.path().join("state");
        let (mut store, _) = load(&dir);
        let mut random = Random(1);
        let mut blocks = Vec::new();
        let refused = loop {
            let block = noise(&mut random, 32 * 1024);
            match store.append_block(LATE, blocks.len() as u64, &block) {
                Ok(_) => blocks.push(block),
                Err(error) => break error,
            }
            if blocks.len() % 64 == 0 {
                store.sync_blocks().unwrap();
            }
        };
        assert!(matches!(refused, StoreError::Full), "{refused}");
        store.sync_blocks().unwrap();
        assert!(blocks.len() > 1_000, "{}", blocks.len());
        assert!(mount.free_bytes() > RESERVE / 4, "the rest is in the file that keeps it");
        assert_eq!(store.complaint(), None, "what our own outbox takes is no alarm");

        // Pages and snapshots have the reserve for themselves.
        for round in 0..20 {
            store.snapshot(&noise(&mut random, 100_000)).unwrap();
            store.commit(&noise(&mut random, 40_000)).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        drop(store);
        let (mut store, loaded) = load(&dir);
        assert_eq!((loaded.pages.len(), loaded.damage), (1, vec![]));
        let mut found = Vec::new();
        for (number, block) in (0..).zip(&blocks) {
            assert!(store.read_block(LATE, number, &mut found).unwrap() && found == *block, "block {number}");
        }
        // Space comes back in pieces, and then there is room.
        let next = blocks.len() as u64;
        store.free_blocks(LATE, next / 2).unwrap();
        store.append_block(LATE, next, b"again").unwrap();
        store.sync_blocks().unwrap();
        store.free_blocks(LATE, next + 1).unwrap();
        assert_eq!(store.chain_bytes(), 0);
    }
}

#[test]
fn a_program_that_fills_the_disk_does_not_stop_the_commits_for_the_reserve_is_given_back() {
    for mount in mounts() {
        let dir = mount.path().join("state");
        let (mut store, _) = load(&dir);
        store.snapshot(b"state").unwrap();
        assert!(dir.join("reserve").exists());
        let others = mount.fill(0);
        assert!(mount.free_bytes() < FREE_BYTES_MIN);
        assert!(matches!(store.append_block(LATE, 1, &[7; 100]), Err(StoreError::Full)));
        assert!(dir.join("reserve").exists(), "not for the outbox");

        store.commit(b"one").unwrap();
        assert!(!dir.join("reserve").exists());
        assert!(store.complaint().unwrap().contains("nearly full"), "{:?}", store.complaint());
        store.snapshot(b"state one").unwrap();
        store.witness(1).unwrap();
        store.commit(b"two").unwrap();
        assert!(!dir.join("reserve").exists(), "no room yet");

        // It takes that too: now nothing is taken, and nothing that was is lost.
        mount.fill(0);
        assert!(matches!(store.commit(b"three"), Err(StoreError::Full)));
        assert!(matches!(store.snapshot(b"state one two"), Err(StoreError::Full)));
        assert!(matches!(store.witness(1), Err(StoreError::Full) | Ok(())));
        drop(store);
        let error = open_with(&dir, RESERVE).err();
        assert!(error.is_none() || error.unwrap().to_string().contains("no space left"));

        std::fs::remove_file(others).unwrap();
        let (mut store, loaded) = load(&dir);
        assert_eq!(loaded.snapshot.as_deref(), Some(&b"state one"[..]));
        assert_eq!((loaded.pages, loaded.damage), (vec![b"two".to_vec()], vec![]));
        store.commit(b"three").unwrap();
        assert_eq!(store.complaint(), None);
        assert!(dir.join("reserve").exists(), "made again");
    }
}

#[test]
fn an_agent_on_a_full_disk_says_so_and_goes_on() {
    for mount in mounts() {
        let store = open_with(&mount.path().join("state"), RESERVE).unwrap();
        let mut driver = Driver::start(pipeline(), store, now()).unwrap();
        assert_eq!(driver.storage_status().warning, None);
        let others = mount.fill(0);
        driver.stop(now(), &mut |_| ());
        let status = driver.storage_status();
        assert_eq!(status.failure, None);
        assert!(status.warning.unwrap().contains("nearly full"));
        std::fs::remove_file(others).unwrap();
        driver.stop(now(), &mut |_| ());
        assert_eq!(driver.storage_status().warning, None);
    }
}

#[test]
fn the_reserve_is_made_again_in_a_running_agent_when_there_is_room() {
    for mount in mounts() {
        let dir = mount.path().join("state");
        let (mut store, _) = load(&dir);
        let others = mount.fill(0);
        store.commit(b"one").unwrap();
        assert!(store.complaint().is_some());
        std::fs::remove_file(others).unwrap();
        store.snapshot(b"state").unwrap();
        assert_eq!(store.complaint(), None);
        assert!(dir.join("reserve").exists());
        store.append_block(LATE, 1, &[7; 100]).unwrap();
        store.sync_blocks().unwrap();
    }
}

#[test]
fn a_medium_that_becomes_read_only_refuses_everything_and_keeps_what_was_durable() {
    let Some(mount) = Mount::ext4(96) else { return };
    let dir = mount.path().join("state");
    let (mut store, _) = load(&dir);
    store.snapshot(b"state").unwrap();
    store.commit(b"one").unwrap();
    store.append_block(LATE, 1, b"first").unwrap();
    store.sync_blocks().unwrap();
    mount.abort();
    let mut block = Vec::new();
    for _ in 0..3 {
        assert!(matches!(store.commit(b"two"), Err(StoreError::Failed(_))));
        assert!(matches!(store.snapshot(b"state one"), Err(StoreError::Failed(_))));
        assert!(matches!(store.witness(1), Err(StoreError::Failed(_))));
        let appended = store.append_block(LATE, 2, b"second").and_then(|_| store.sync_blocks());
        assert!(matches!(appended, Err(StoreError::Failed(_))), "{appended:?}");
        assert!(matches!(store.free_blocks(LATE, 2), Err(StoreError::Failed(_))));
        assert!(store.read_block(LATE, 1, &mut block).unwrap(), "reading goes on");
        assert_eq!(block, b"first");
    }
    drop(store);
    let error = open_with(&dir, RESERVE).unwrap_err();
    assert!(matches!(error, OpenError::Unusable { .. }), "{error}");

    mount.mount_again();
    let (mut store, loaded) = load(&dir);
    assert_eq!((loaded.snapshot.as_deref(), loaded.damage), (Some(&b"state"[..]), vec![]));
    assert_eq!(loaded.pages, [b"one"]);
    assert!(store.read_block(LATE, 1, &mut block).unwrap() && block == b"first");
    store.append_block(LATE, 2, b"second").unwrap();
    store.sync_blocks().unwrap();
    store.commit(b"two").unwrap();
    assert!(store.read_block(LATE, 2, &mut block).unwrap() && block == b"second");
}
