//! A repair that is killed at any of its steps, again and again, comes to what one that
//! is left alone comes to.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use super::*;
use crate::model::rng::Rng;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_name() != "reserve" {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What a start comes to, without the words.
#[derive(PartialEq, Debug)]
struct Outcome {
    snapshot: Option<Vec<u8>>,
    pages: Vec<Vec<u8>>,
    epoch_floor: u64,
    damaged: bool,
}

fn start(dir: &Path) -> Outcome {
    // A reserve that there is no room for: no file to copy.
    let Loaded { snapshot, pages, epoch_floor, damage } = open_with(dir, u64::MAX).unwrap().load().unwrap();
    Outcome { snapshot, pages, epoch_floor, damaged: !damage.is_empty() }
}

/// Starts on a copy of `dir`, and gives what was on the disk at each step.
fn killed(dir: &Path, images: &Path) -> Vec<PathBuf> {
    let live = images.join("live");
    copy(dir, &live);
    let made = Rc::new(RefCell::new(Vec::new()));
    let (at, places, root) = (live.clone(), Rc::clone(&made), images.to_owned());
    let image = move || {
        let place = root.join(places.borrow().len().to_string());
        copy(&at, &place);
        places.borrow_mut().push(place);
    };
    files::steps::watch(image, || start(&live));
    fs::remove_dir_all(live).unwrap();
    made.take()
}

fn write_some(dir: &Path, random: &mut Rng) {
    let mut store = open_with(dir, u64::MAX).unwrap();
    store.load().unwrap();
    let mut bytes = |max: u64| -> Vec<u8> {
        let len = 1 + random.below(max);
        (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).collect()
    };
    for _ in 0..3 {
        store.snapshot(&bytes(60_000)).unwrap();
        store.witness(1).unwrap();
        for _ in 0..6 {
            store.commit(&bytes(20_000)).unwrap();
        }
    }
    store.witness(1).unwrap();
}

fn damage(file: &Path, random: &mut Rng) {
    let mut bytes = fs::read(file).unwrap();
    let len = bytes.len() as u64;
    let at = usize::try_from(random.below(len)).unwrap();
    match random.below(4) {
        0 => bytes.truncate(at),
        1 => bytes[at..].fill(0),
        2 => bytes[at / 4_096 * 4_096..].iter_mut().take(4_096).for_each(|byte| *byte = 0),
        _ => (0..20).for_each(|_| bytes[usize::try_from(random.below(len)).unwrap()] ^= 1 << random.below(8)),
    }
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_repair_killed_at_any_step_comes_to_the_same() {
    let root = tempfile::TempDir::new_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut repaired = 0;
    for seed in 0..12 {
        let mut random = Rng::new(seed);
        let place = root.path().join(seed.to_string());
        let damaged = place.join("damaged");
        write_some(&damaged, &mut random);
        damage(&damaged.join("pages/db"), &mut random);
        let alone = place.join("alone");
        copy(&damaged, &alone);
        let expected = start(&alone);

        let images = killed(&damaged, &place);
        repaired += u32::from(images.len() > 4);
        for (step, image) in images.iter().enumerate() {
            assert_eq!(start(image), expected, "seed {seed}, killed at step {step} of {}", images.len());
        }
        // Again and again, anywhere.
        let mut dir = damaged;
        for life in 0..6 {
            let images = killed(&dir, &place.join(format!("life {life}")));
            let step = usize::try_from(random.below(images.len() as u64)).unwrap();
            dir = images[step].clone();
        }
        assert_eq!(start(&dir), expected, "seed {seed}, killed again and again");
        fs::remove_dir_all(place).unwrap();
    }
    assert!(repaired >= 6, "the damage was such that there was something to repair: {repaired}");
}
