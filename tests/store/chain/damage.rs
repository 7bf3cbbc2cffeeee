//! Databases damaged on purpose: never another block, never a panic; what cannot be
//! read is said so, and the lane goes on. `TIDEGATE_DAMAGE_RUNS=60` for the long form.

use std::fs;
use std::path::Path;

use tidegate::engine::chain::Chain;

use super::{BACKLOG, in_memory, links, open, read};
use crate::random::Random;

fn runs() -> u64 {
    std::env::var("TIDEGATE_DAMAGE_RUNS").map_or(8, |runs| runs.parse().unwrap())
}

/// Blocks in two databases, one of them damaged; then everything is read, appended
/// to and freed.
fn survives(damage: impl Fn(&Path, &mut Random)) {
    let (mut whole, mut asked) = (0, 0);
    for seed in 0..runs() {
        let dir = in_memory();
        let mut random = Random(seed);
        let mut blocks = Vec::new();
        for _ in 0..2 {
            let mut chain = open(dir.path());
            for _ in 0..60 {
                let size = random.size(60_000);
                let block = random.bytes(size);
                chain.append_block(BACKLOG, blocks.len() as u64, &block).unwrap();
                blocks.push(block);
            }
            chain.sync_blocks().unwrap();
        }
        let links = links(dir.path(), "backlog");
        assert_eq!(links.len(), 2);
        damage(&links[random.below(2)], &mut random);

        let mut chain = open(dir.path());
        let found = chain.find_blocks(BACKLOG).unwrap();
        let mut read_back = Vec::new();
        for (number, block) in (0..).zip(&blocks) {
            asked += 1;
            if let Some(found) = read(&mut chain, BACKLOG, number) {
                assert!(found == *block, "seed {seed}: block {number} is another one");
                read_back.push(number);
                whole += 1;
            }
        }
        assert_eq!(found, read_back, "seed {seed}");
        let next = blocks.len() as u64;
        chain.append_block(BACKLOG, next, b"after").unwrap();
        chain.sync_blocks().unwrap();
        assert_eq!(read(&mut chain, BACKLOG, next).unwrap(), b"after", "seed {seed}");
        chain.free_blocks(BACKLOG, next + 1).unwrap();
        assert_eq!(chain.databases(), 0, "seed {seed}");
    }
    println!("{whole} of {asked} blocks were read");
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_database_cut_short() {
    survives(|link, random| change(&link.join("db"), |bytes| bytes.truncate(random.below(bytes.len()))));
}

#[test]
fn a_database_whose_end_became_zeros() {
    survives(|link, random| {
        change(&link.join("db"), |bytes| {
            let from = random.below(bytes.len());
            bytes[from..].fill(0);
        });
    });
}

#[test]
fn a_page_of_zeros() {
    survives(|link, random| {
        change(&link.join("db"), |bytes| {
            let from = random.below(bytes.len() / 4_096) * 4_096;
            bytes[from..from + 4_096].fill(0);
        });
    });
}

#[test]
fn flipped_bits() {
    survives(|link, random| {
        change(&link.join("db"), |bytes| {
            for _ in 0..=random.below(40) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        });
    });
}

#[test]
fn a_file_of_noise() {
    survives(|link, random| {
        change(&link.join("db"), |bytes| {
            let len = random.size(100_000);
            *bytes = random.bytes(len);
        });
    });
}

#[test]
fn a_file_that_is_empty() {
    survives(|link, _| change(&link.join("db"), Vec::clear));
}

#[test]
fn settings_and_page_tables_of_sled_damaged_or_gone() {
    survives(|link, random| {
        for entry in fs::read_dir(link).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name == "conf" || name.starts_with("snap.") {
                change(&path, |bytes| {
                    let at = random.below(bytes.len());
                    if random.below(2) == 0 { bytes.truncate(at) } else { bytes[at] ^= 1 << random.below(8) }
                });
            }
        }
        fs::write(link.join("snap.00000000000000FF.generating"), [7; 100]).unwrap();
    });
}

#[test]
fn blocks_of_two_databases_that_changed_places_are_not_mistaken() {
    let dir = in_memory();
    for number in 0..2 {
        let mut chain = open(dir.path());
        chain.append_block(BACKLOG, number, &[u8::try_from(number).unwrap(); 50]).unwrap();
        chain.sync_blocks().unwrap();
    }
    let links = links(dir.path(), "backlog");
    let aside = dir.path().join("aside");
    fs::rename(links[0].join("db"), &aside).unwrap();
    fs::rename(links[1].join("db"), links[0].join("db")).unwrap();
    fs::rename(&aside, links[1].join("db")).unwrap();
    let mut chain = open(dir.path());
    assert_eq!(chain.find_blocks(BACKLOG).unwrap(), [0; 0]);
    assert_eq!((read(&mut chain, BACKLOG, 0), read(&mut chain, BACKLOG, 1)), (None, None));
}
