//! A medium that is full or fails in the middle: what was reported durable is there,
//! what was not is refused or said to be lost, and the next try goes on.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tidegate::agent::store::{DiskChain, Medium};
use tidegate::engine::chain::Chain;
use tidegate::engine::ring::slots::{SlotError, SlotId, Slots};
use tidegate::engine::store::StoreError;

use super::{BACKLOG, LATE, in_memory, links, open, read};
use crate::random::Random;

/// Decides at each operation whether it fails.
#[derive(Clone)]
struct Faults(Arc<Mutex<(Random, usize)>>);

impl Faults {
    /// One operation in `one_in` fails; 0: none.
    fn set(&self, one_in: usize) {
        self.0.lock().unwrap().1 = one_in;
    }

    fn check(&self) -> Result<(), SlotError> {
        let (random, one_in) = &mut *self.0.lock().unwrap();
        if *one_in == 0 || random.below(*one_in) != 0 {
            return Ok(());
        }
        let errors = [SlotError::Full, SlotError::Failed("injected".into()), SlotError::Gone("injected".into())];
        Err(errors[random.below(3)].clone())
    }

    fn below(&self, bound: usize) -> usize {
        self.0.lock().unwrap().0.below(bound)
    }
}

/// A file that values are appended to when they are synced. A sync that fails has
/// written any part of them.
struct Appended {
    file: File,
    waiting: Vec<u8>,
    faults: Faults,
}

impl Slots for Appended {
    fn read(&mut self, _: SlotId, _: &mut Vec<u8>) -> Result<bool, SlotError> {
        unreachable!("chains are read from the file")
    }

    fn write(&mut self, _: SlotId, value: &[u8]) -> Result<(), SlotError> {
        self.faults.check()?;
        self.waiting.extend_from_slice(value);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SlotError> {
        let result = self.faults.check();
        let len = if result.is_ok() { self.waiting.len() } else { self.faults.below(self.waiting.len() + 1) };
        self.file.write_all(&self.waiting[..len]).unwrap();
        self.waiting.clear();
        result
    }
}

fn faulty(dir: &Path, faults: &Faults) -> DiskChain {
    let faults = faults.clone();
    let make = move |place: &Path| {
        fs::create_dir(place).map_err(|error| SlotError::Failed(error.to_string()))?;
        faults.check()?;
        let file = File::create(place.join("db")).unwrap();
        Ok(Box::new(Appended { file, waiting: Vec::new(), faults: faults.clone() }) as Medium)
    };
    DiskChain::with_medium(dir, 0, Box::new(make)).unwrap()
}

#[test]
fn whatever_fails_what_was_reported_durable_is_there() {
    for seed in 0..30 {
        let dir = in_memory();
        let faults = Faults(Arc::new(Mutex::new((Random(seed), 0))));
        let mut random = Random(seed + 1_000);
        let mut chain = faulty(dir.path(), &faults);
        // Of each lane: what was reported durable, and what is appended since.
        let mut durable = [Vec::new(), Vec::new()];
        for _ in 0..40 {
            faults.set([0, 5, 40][random.below(3)]);
            let mut run = durable.clone();
            let mut appended = true;
            for _ in 0..=random.below(11) {
                let lane = random.below(2);
                let size = random.size(60_000);
                let block = random.bytes(size);
                let number = run[lane].len() as u64;
                // Refused once, it is tried again, as the outbox does.
                let mut tries = (0..3).map(|_| chain.append_block([BACKLOG, LATE][lane], number, &block));
                if tries.any(|tried| tried.is_ok()) {
                    run[lane].push(block);
                } else {
                    appended = false;
                    break;
                }
            }
            // A page names them only when this succeeds.
            if chain.sync_blocks().is_ok() && appended {
                durable = run;
            }
            if random.below(8) == 0 {
                drop(chain);
                chain = faulty(dir.path(), &faults);
            }
            faults.set(0);
            for (lane, blocks) in [BACKLOG, LATE].into_iter().zip(&durable) {
                let some = random.below(6);
                for (number, block) in (0..).zip(blocks).skip(some).step_by(1 + some) {
                    assert!(read(&mut chain, lane, number).as_ref() == Some(block), "seed {seed}: {lane}/{number}");
                }
            }
        }
        assert!(durable.iter().map(Vec::len).sum::<usize>() > 20, "seed {seed}: some runs succeed");
    }
}

#[test]
fn a_sync_after_a_failed_append_says_that_earlier_blocks_are_gone() {
    let dir = in_memory();
    let faults = Faults(Arc::new(Mutex::new((Random(1), 0))));
    let mut chain = faulty(dir.path(), &faults);
    chain.append_block(LATE, 1, b"one").unwrap();
    faults.set(1);
    chain.append_block(LATE, 2, b"two").unwrap_err();
    faults.set(0);
    chain.append_block(LATE, 2, b"two").unwrap();
    assert!(matches!(chain.sync_blocks(), Err(StoreError::Failed(_))), "block 1 was in the database that failed");
    chain.append_block(LATE, 1, b"one").unwrap();
    chain.append_block(LATE, 2, b"two").unwrap();
    chain.sync_blocks().unwrap();
    assert_eq!(chain.find_blocks(LATE).unwrap(), [1, 2]);
}

#[test]
fn a_medium_that_does_not_answer_is_asked_again_and_one_that_never_does_is_given_up() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    for (number, block) in [(1, b"one"), (2, b"two")] {
        chain.append_block(LATE, number, block).unwrap();
    }
    chain.sync_blocks().unwrap();
    drop(chain);
    let file = dir.path().join("outbox/late/0000000000000001/db");
    let aside = dir.path().join("aside");
    let mut block = Vec::new();
    let mut chain = open(dir.path());

    // What can be opened and gives an error for every read.
    fs::rename(&file, &aside).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(matches!(chain.read_block(LATE, 1, &mut block), Err(StoreError::Failed(_))));
    fs::remove_dir(&file).unwrap();
    assert!(matches!(chain.read_block(LATE, 1, &mut block), Err(StoreError::Failed(_))), "not there at all");
    fs::rename(&aside, &file).unwrap();
    assert!(chain.read_block(LATE, 1, &mut block).unwrap() && block == b"one", "it was only away");

    drop(chain);
    let mut chain = open(dir.path());
    fs::remove_file(&file).unwrap();
    for number in [1, 2] {
        let answers: Vec<_> = (0..3).map(|_| chain.read_block(LATE, number, &mut block)).collect();
        assert!(matches!(answers[..], [Err(_), Err(_), Ok(false)]), "{answers:?}");
    }
    chain.free_blocks(LATE, 3).unwrap();
    chain.append_block(LATE, 3, b"three").unwrap();
    chain.sync_blocks().unwrap();
    assert!(chain.read_block(LATE, 3, &mut block).unwrap() && block == b"three");
}

#[test]
fn what_is_no_directory_or_no_file_in_the_place_of_a_chain_keeps_nobody_from_starting() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    chain.append_block(LATE, 1, b"one").unwrap();
    chain.sync_blocks().unwrap();
    drop(chain);
    let file = dir.path().join("outbox/late/0000000000000001/db");
    fs::remove_file(&file).unwrap();
    // To open a pipe is to wait for whoever writes to it.
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let mut block = Vec::new();
    let mut chain = open(dir.path());
    let answers: Vec<_> = (0..3).map(|_| chain.read_block(LATE, 1, &mut block)).collect();
    assert!(matches!(answers[..], [Err(_), Err(_), Ok(false)]), "{answers:?}");
    drop(chain);

    fs::remove_dir_all(dir.path().join("outbox/late")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("outbox/late")).unwrap();
    fs::write(dir.path().join("outbox/backlog"), "no directory").unwrap();
    let mut chain = open(dir.path());
    chain.append_block(LATE, 1, b"anew").unwrap();
    chain.sync_blocks().unwrap();
    assert!(chain.read_block(LATE, 1, &mut block).unwrap() && block == b"anew");
}

#[test]
fn a_chain_removed_under_a_running_agent_is_begun_anew() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    chain.append_block(LATE, 1, b"one").unwrap();
    chain.sync_blocks().unwrap();
    fs::remove_dir_all(dir.path().join("outbox")).unwrap();
    let mut tries = (0..3).map(|_| chain.append_block(LATE, 2, b"two").and_then(|_| chain.sync_blocks()));
    assert!(tries.any(|tried| tried.is_ok()), "it goes on by itself");
    assert_eq!(read(&mut chain, LATE, 2).unwrap(), b"two");
}

#[test]
fn one_database_that_cannot_be_read_does_not_hide_the_others() {
    let dir = in_memory();
    for number in 0..3 {
        let mut chain = open(dir.path());
        chain.append_block(LATE, number, b"some").unwrap();
        chain.sync_blocks().unwrap();
    }
    let links = links(dir.path(), "late");
    fs::remove_file(links[1].join("db")).unwrap();
    assert_eq!(open(dir.path()).find_blocks(LATE).unwrap(), [0, 2]);
    for link in [&links[0], &links[2]] {
        fs::remove_file(link.join("db")).unwrap();
    }
    assert!(matches!(open(dir.path()).find_blocks(LATE), Err(StoreError::Failed(_))));
}
