//! Looking at a store that may be damaged: it shows what a start would find, and not a
//! byte there changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::agent::store::OpenError;
use tidegate::agent::store::look::{Rehearsal, is_in_use, look};
use tidegate::engine::store::Store;

use crate::damage::{in_memory, write_some};
use crate::on_disk::load;
use crate::random::Random;

/// Every file with its content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn damage(pages: &Path, random: &mut Random) {
    let file = pages.join("db");
    let mut bytes = fs::read(&file).unwrap();
    match random.below(5) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            let from = random.below(bytes.len());
            bytes[from..].fill(0);
        }
        2 => (0..30).for_each(|_| {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }),
        3 => bytes.fill(0x5a),
        _ => fs::write(pages.join("conf"), "no settings").unwrap(),
    }
    fs::write(&file, bytes).unwrap();
}

#[test]
fn a_look_finds_what_a_start_would_find_and_changes_nothing() {
    let mut damaged = 0;
    for seed in 0..60 {
        let dir = in_memory();
        let mut random = Random(seed);
        write_some(dir.path(), &mut random);
        damage(&dir.path().join("pages"), &mut random);
        let before = files(dir.path());

        let (seen, _) = look(dir.path()).unwrap();
        let mut rehearsal = Rehearsal::open(dir.path()).unwrap();
        let would = rehearsal.damage();
        assert_eq!(rehearsal.load().unwrap().snapshot, seen.snapshot, "seed {seed}");
        rehearsal.snapshot(b"of the copy").unwrap();
        drop(rehearsal);
        assert!(files(dir.path()) == before, "seed {seed}: changed by looking");

        let (_store, found) = load(dir.path());
        assert_eq!((&seen.snapshot, &seen.pages), (&found.snapshot, &found.pages), "seed {seed}");
        assert_eq!(seen.epoch_floor, found.epoch_floor, "seed {seed}");
        // Where a damaged database is put aside, the time is in its name.
        let kept = |texts: &[String]| texts.iter().filter(|text| text.contains("is kept as")).count();
        let rest = |texts: &[String]| -> Vec<String> {
            texts.iter().filter(|text| !text.contains("is kept as")).cloned().collect()
        };
        assert_eq!((rest(&seen.damage), kept(&seen.damage)), (rest(&found.damage), 0), "seed {seed}");
        assert_eq!((rest(&would), kept(&would)), (rest(&found.damage), kept(&found.damage)), "seed {seed}");
        assert!(would.iter().all(|text| !text.contains("tidegate-look")), "seed {seed}: {would:?}");
        damaged += u32::from(!found.damage.is_empty());
    }
    assert!(damaged > 20, "{damaged} of 60 were really damaged");
}

#[test]
fn a_store_is_in_use_while_somebody_has_it_and_looking_keeps_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!is_in_use(dir.path()).unwrap(), "no lock, and none is made");
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    let (store, _) = load(dir.path());
    assert!(is_in_use(dir.path()).unwrap());
    drop(store);
    let (_loaded, _chain) = look(dir.path()).unwrap();
    assert!(!is_in_use(dir.path()).unwrap());
    let (_store, _) = load(dir.path());
}

#[test]
fn what_is_no_directory_is_said_and_what_is_no_file_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(look(&dir.path().join("missing")), Err(OpenError::Unusable { .. })));
    write_some(dir.path(), &mut Random(1));
    std::os::unix::net::UnixListener::bind(dir.path().join("pages/socket")).unwrap();
    fs::create_dir(dir.path().join("pages/blobs/more")).unwrap();
    let (seen, _) = look(dir.path()).unwrap();
    assert!(seen.snapshot.is_some() && seen.damage.is_empty(), "{:?}", seen.damage);
}
