//! Databases are begun, are freed, are found again, and stay small.

use tidegate::engine::chain::Chain;

use super::{BACKLOG, LATE, disk_bytes, in_memory, links, noise, open, read};
use crate::random::Random;

const LINK_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[test]
fn two_lanes_fill_databases_are_read_in_order_and_leave_nothing() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    let mut random = Random(1);
    let mut blocks = Vec::new();
    for run in 0..24 {
        for _ in 0..20 {
            let block = noise(&mut random, 24_000);
            for (lane, start) in [(BACKLOG, 1_000), (LATE, 7)] {
                let taken = chain.append_block(lane, start + blocks.len() as u64, &block).unwrap();
                assert!((24_000..30_000).contains(&taken), "{taken}");
            }
            blocks.push(block);
        }
        chain.sync_blocks().unwrap();
        assert!(chain.open_databases() <= 2, "run {run}");
    }
    for (lane, name) in [(BACKLOG, "backlog"), (LATE, "late")] {
        let links = links(dir.path(), name);
        assert!(links.len() >= 3, "{}", links.len());
        for link in &links {
            assert!(disk_bytes(link) <= LINK_BYTES_MAX, "{lane}: {}", disk_bytes(link));
        }
    }
    let told = chain.chain_bytes();
    let real = disk_bytes(&dir.path().join("outbox"));
    assert!(told.abs_diff(real) < real / 20, "told {told} of {real}");

    for (lane, start) in [(LATE, 7), (BACKLOG, 1_000)] {
        for (at, block) in blocks.iter().enumerate() {
            let number = start + at as u64;
            assert!(read(&mut chain, lane, number).as_ref() == Some(block), "lane {lane}, block {number}");
            chain.free_blocks(lane, number + 1).unwrap();
        }
    }
    assert_eq!((chain.databases(), chain.open_databases(), chain.chain_bytes()), (0, 0, 0));
    assert!(disk_bytes(&dir.path().join("outbox")) < 100_000);
}

#[test]
fn small_blocks_fill_a_database_too() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    let mut random = Random(2);
    for number in 0..6_000 {
        let block = noise(&mut random, 60);
        chain.append_block(LATE, number, &block).unwrap();
        if number % 500 == 0 {
            chain.sync_blocks().unwrap();
        }
    }
    chain.sync_blocks().unwrap();
    let links = links(dir.path(), "late");
    assert!(links.len() >= 2);
    for link in &links {
        assert!(disk_bytes(link) <= LINK_BYTES_MAX, "{}", disk_bytes(link));
    }
}

#[test]
fn a_block_of_any_size_comes_back_also_after_a_restart() {
    let dir = in_memory();
    let mut random = Random(3);
    let blocks = [0, 1, 48 * 1024, 256 * 1024, 700_000, 32 * 1024].map(|size| noise(&mut random, size));
    let mut chain = open(dir.path());
    for (number, block) in (5..).zip(&blocks) {
        chain.append_block(LATE, number, block).unwrap();
        assert_eq!(read(&mut chain, LATE, number).as_ref(), Some(block), "read before it is asked to be durable");
    }
    chain.sync_blocks().unwrap();
    drop(chain);
    let mut chain = open(dir.path());
    for (number, block) in (5..).zip(&blocks) {
        assert!(read(&mut chain, LATE, number).as_ref() == Some(block), "block {number}");
    }
    assert_eq!(read(&mut chain, LATE, 4), None);
    assert_eq!(read(&mut chain, LATE, 11), None);
    assert_eq!(chain.find_blocks(LATE).unwrap(), [5, 6, 7, 8, 9, 10]);
    assert_eq!(chain.find_blocks(BACKLOG).unwrap(), [0; 0]);
}

#[test]
fn a_start_with_a_hundred_databases_opens_none_and_freeing_takes_whole_ones() {
    let dir = in_memory();
    for number in 0..100 {
        let mut chain = open(dir.path());
        chain.append_block(BACKLOG, number, &[7; 100]).unwrap();
        chain.sync_blocks().unwrap();
    }
    // Opening one for writing would take sled's lock, and reading the file its bytes.
    for link in links(dir.path(), "backlog") {
        std::fs::rename(link.join("db"), link.join("away")).unwrap();
    }
    let mut chain = open(dir.path());
    assert_eq!((chain.databases(), chain.open_databases()), (100, 0));
    chain.free_blocks(BACKLOG, 60).unwrap();
    assert_eq!((chain.databases(), chain.open_databases()), (40, 0));
    for link in links(dir.path(), "backlog") {
        std::fs::rename(link.join("away"), link.join("db")).unwrap();
    }
    assert_eq!(chain.find_blocks(BACKLOG).unwrap(), (60..100).collect::<Vec<_>>());
    chain.free_blocks(BACKLOG, 99).unwrap();
    assert_eq!((chain.databases(), chain.open_databases()), (1, 0));
    chain.free_blocks(BACKLOG, 100).unwrap();
    assert_eq!((chain.databases(), chain.open_databases()), (0, 0));
}

#[test]
fn half_removed_databases_are_removed_by_the_next_start() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    chain.append_block(LATE, 1, b"one").unwrap();
    chain.sync_blocks().unwrap();
    drop(chain);
    let lane = dir.path().join("outbox/late");
    std::fs::rename(lane.join("0000000000000001"), lane.join("0000000000000001.0.freed")).unwrap();
    std::fs::remove_file(lane.join("0000000000000001.0.freed/conf")).unwrap();
    std::fs::write(lane.join("a stray file"), "x").unwrap();
    let mut chain = open(dir.path());
    assert_eq!((chain.databases(), read(&mut chain, LATE, 1)), (0, None));
    assert_eq!(std::fs::read_dir(&lane).unwrap().count(), 0);
    chain.append_block(LATE, 1, b"again").unwrap();
    chain.sync_blocks().unwrap();
    assert_eq!(read(&mut chain, LATE, 1).unwrap(), b"again");
}

#[test]
fn a_lane_that_is_not_there_is_an_error_and_no_panic() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    assert!(chain.append_block(5, 1, b"x").is_err());
    assert!(chain.read_block(255, 1, &mut Vec::new()).is_err());
    assert!(chain.free_blocks(5, 1).is_err());
    assert!(chain.find_blocks(5).is_err());
}

#[test]
fn every_lane_at_once_fills_one_database_each_and_three_are_open() {
    let dir = in_memory();
    let mut chain = open(dir.path());
    let mut random = Random(4);
    let mut blocks = Vec::new();
    for number in 0..12 {
        for lane in 0..5 {
            let block = noise(&mut random, 9_000);
            chain.append_block(lane, number, &block).unwrap();
            assert!(chain.open_databases() <= 3);
            blocks.push((lane, number, block));
        }
        chain.sync_blocks().unwrap();
    }
    assert_eq!(chain.databases(), 5);
    for restarted in [false, true] {
        if restarted {
            drop(chain);
            chain = open(dir.path());
        }
        for (lane, number, block) in &blocks {
            assert!(read(&mut chain, *lane, *number).as_ref() == Some(block), "{restarted}: {lane}/{number}");
        }
    }
}
