//! Files damaged on purpose: it always opens, never panics, never gives bytes
//! that were not committed, and says so when it gives less.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::engine::store::{Loaded, Store};

use crate::on_disk::{load, quarantined};
use crate::random::Random;

/// Hundreds of databases, each synced dozens of times: not the disk's business.
pub(crate) fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// What was committed: snapshots, and pages after it.
pub(crate) struct Written {
    snapshots: Vec<Vec<u8>>,
    pages: Vec<Vec<u8>>,
}

pub(crate) fn write_some(dir: &Path, random: &mut Random) -> Written {
    let (mut store, _) = load(dir);
    let mut written = Written { snapshots: Vec::new(), pages: Vec::new() };
    for _ in 0..2 + random.below(2) {
        let size = random.size(40_000);
        let state = random.bytes(size);
        store.snapshot(&state).unwrap();
        store.witness(1).unwrap();
        written.snapshots.push(state);
        for _ in 0..4 + random.below(8) {
            let size = random.size(20_000);
            let page = random.bytes(size);
            store.commit(&page).unwrap();
            written.pages.push(page);
        }
    }
    // Half of them die between two snapshots: the witness knows nothing of the last pages.
    if random.below(2) == 0 {
        store.witness(1).unwrap();
    }
    written
}

/// Whether anything of it is missing; bytes that were never written panic.
fn check(written: &Written, loaded: &Loaded, at: &str) -> bool {
    if let Some(snapshot) = &loaded.snapshot {
        assert!(written.snapshots.contains(snapshot), "{at}: a snapshot that never was");
    }
    if let Some(first) = loaded.pages.first() {
        let first = written.pages.iter().position(|page| page == first).expect("a page that never was");
        assert!(written.pages[first..].starts_with(&loaded.pages), "{at}: pages out of order");
    }
    loaded.snapshot.as_ref() != written.snapshots.last() || loaded.pages.last() != written.pages.last()
}

/// Damages, opens, checks; then goes on with a snapshot and opens again.
fn survives(seeds: u64, damage: impl Fn(&Path, &mut Random)) {
    let mut outcomes = [0; 4];
    for seed in 0..seeds {
        let at = format!("seed {seed}");
        let dir = in_memory();
        let mut random = Random(seed);
        let written = write_some(dir.path(), &mut random);
        damage(&dir.path().join("pages"), &mut random);

        let (mut store, loaded) = load(dir.path());
        let less = check(&written, &loaded, &at);
        assert!(!less || !loaded.damage.is_empty(), "{at}: a silent loss");
        let outcome = match (loaded.damage.is_empty(), less, loaded.snapshot.is_some()) {
            (true, ..) => 0,
            (false, false, _) => 1,
            (false, true, true) => 2,
            (false, true, false) => 3,
        };
        outcomes[outcome] += 1;
        assert!(loaded.damage.is_empty() || loaded.epoch_floor == 1, "{at}: the epoch is known from the witness");
        if !loaded.damage.is_empty() {
            // A crash before the engine acted: the finding stays.
            drop(store);
            let (next, again) = load(dir.path());
            store = next;
            check(&written, &again, &at);
            assert!(!again.damage.is_empty(), "{at}: forgotten");
            assert_eq!(again.snapshot, loaded.snapshot, "{at}: what was saved is safe");
        }
        store.snapshot(b"repaired").unwrap();
        store.witness(2).unwrap();
        store.commit(b"after").unwrap();
        drop(store);
        let (_store, loaded) = load(dir.path());
        let pages = vec![b"after".to_vec()];
        let snapshot = Some(b"repaired".to_vec());
        assert_eq!(loaded, Loaded { snapshot, pages, epoch_floor: 2, damage: vec![] }, "{at}");
        assert!(quarantined(dir.path()) <= 3);
    }
    let [untouched, saved, partly, lost] = outcomes;
    println!("of {seeds}: {untouched} untouched, {saved} saved whole, {partly} in part, {lost} lost");
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

fn snaps(pages: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(pages).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snap.")).collect()
}

#[test]
fn a_database_cut_short() {
    survives(60, |pages, random| {
        change(&pages.join("db"), |bytes| bytes.truncate(random.below(bytes.len())));
    });
}

#[test]
fn a_database_whose_end_became_zeros() {
    survives(60, |pages, random| {
        change(&pages.join("db"), |bytes| {
            let from = random.below(bytes.len());
            bytes[from..].fill(0);
        });
    });
}

#[test]
fn a_block_of_zeros_in_the_database() {
    survives(60, |pages, random| {
        change(&pages.join("db"), |bytes| {
            let from = random.below(bytes.len() / 4_096) * 4_096;
            bytes[from..from + 4_096].fill(0);
        });
    });
}

#[test]
fn flipped_bits_in_the_database() {
    survives(60, |pages, random| {
        change(&pages.join("db"), |bytes| {
            for _ in 0..=random.below(20) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        });
    });
}

#[test]
fn a_database_of_garbage_or_nothing() {
    survives(20, |pages, random| {
        change(&pages.join("db"), |bytes| {
            let len = random.size(100_000) - 1;
            *bytes = random.bytes(len);
        });
    });
}

#[test]
fn a_page_table_snapshot_that_is_gone() {
    survives(10, |pages, _| snaps(pages).iter().for_each(|snap| fs::remove_file(snap).unwrap()));
}

#[test]
fn a_page_table_snapshot_that_is_damaged() {
    survives(30, |pages, random| {
        for snap in snaps(pages) {
            change(&snap, |bytes| {
                let at = random.below(bytes.len());
                if random.below(2) == 0 { bytes.truncate(at) } else { bytes[at] ^= 1 << random.below(8) }
            });
        }
    });
}

#[test]
fn a_page_table_snapshot_half_written_at_a_kill() {
    survives(10, |pages, random| {
        let size = random.size(3_000);
        fs::write(pages.join(format!("snap.{:016X}.generating", random.next())), random.bytes(size)).unwrap();
    });
}

#[test]
fn settings_that_are_damaged_or_gone() {
    survives(20, |pages, random| {
        change(&pages.join("conf"), |bytes| {
            let at = random.below(bytes.len());
            if random.below(2) == 0 { bytes.truncate(at) } else { bytes[at] ^= 1 << random.below(8) }
        });
    });
}
