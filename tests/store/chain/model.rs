//! The chains against a trivial model: maps of bytes. A crash takes what the operating
//! system has at that moment (a kill), or what was there after the last sync (a
//! power cut); the blocks that no page names come again, with other bytes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;
use tidegate::agent::store::{ChainReader, DiskChain};
use tidegate::engine::chain::Chain;

use super::{BACKLOG, LATE, in_memory, open, read};
use crate::on_disk::copy;
use crate::random::Random;

const LANES: [u8; 2] = [BACKLOG, LATE];

#[derive(Clone, Copy, Debug)]
enum Op {
    Append {
        lane: usize,
        blocks: usize,
        size: usize,
    },
    /// Sync, and a page that names everything.
    Commit,
    /// Sync, and the power goes before the page.
    Sync,
    Read {
        lane: usize,
    },
    Free {
        lane: usize,
        share: u8,
    },
    Find,
    Restart,
    Kill,
    PowerCut,
}

#[derive(Default)]
struct Lane {
    /// Where its numbers begin, and what is before is freed.
    first: u64,
    next: u64,
    /// Numbers before this are named by a page.
    named: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
    /// Blocks that no page named when a crash came: they may be there, as they were.
    unnamed: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Something was appended since: then they are not.
    appended: bool,
}

struct Run {
    dirs: TempDir,
    live: PathBuf,
    /// A copy of what was there after the last sync.
    synced: PathBuf,
    copies: u32,
    chain: Option<DiskChain>,
    /// Looks at the same files from outside.
    reader: ChainReader,
    lanes: [Lane; 2],
    random: Random,
}

impl Run {
    fn new(seed: u64) -> Run {
        let dirs = in_memory();
        let live = dirs.path().join("0");
        std::fs::create_dir(&live).unwrap();
        let chain = Some(open(&live));
        let lanes = [5, 1 << 40].map(|first| Lane { first, next: first, named: first, ..Lane::default() });
        let (synced, reader) = (live.clone(), ChainReader::new(&live));
        let mut run = Run { synced, dirs, live, copies: 0, chain, reader, lanes, random: Random(seed) };
        run.keep_synced();
        run
    }

    fn chain(&mut self) -> &mut DiskChain {
        self.chain.as_mut().unwrap()
    }

    fn copy(&mut self, from: &std::path::Path) -> PathBuf {
        self.copies += 1;
        let to = self.dirs.path().join(self.copies.to_string());
        copy(from, &to);
        to
    }

    fn keep_synced(&mut self) {
        let live = self.live.clone();
        let before = std::mem::replace(&mut self.synced, PathBuf::new());
        self.synced = self.copy(&live);
        if before != self.live {
            _ = std::fs::remove_dir_all(before);
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Append { lane, blocks, size } => {
                for _ in 0..blocks {
                    let len = self.random.size(size);
                    let block = self.random.bytes(len);
                    let number = self.lanes[lane].next;
                    self.chain().append_block(LANES[lane], number, &block).unwrap();
                    self.lanes[lane].blocks.insert(number, block);
                    self.lanes[lane].next += 1;
                    self.lanes[lane].appended = true;
                }
            }
            Op::Commit => {
                self.chain().sync_blocks().unwrap();
                self.keep_synced();
                self.lanes.iter_mut().for_each(|lane| lane.named = lane.next);
            }
            Op::Sync => {
                self.chain().sync_blocks().unwrap();
                self.keep_synced();
            }
            Op::Read { lane } => self.check(lane),
            Op::Free { lane, share } => {
                let of = &mut self.lanes[lane];
                let first = of.first + (of.named - of.first) * u64::from(share) / 4;
                of.first = first;
                self.chain().free_blocks(LANES[lane], first).unwrap();
            }
            Op::Find => {
                for (lane, id) in LANES.into_iter().enumerate() {
                    let found = self.chain().find_blocks(id).unwrap();
                    let of = &self.lanes[lane];
                    let found: Vec<u64> = found.into_iter().filter(|number| *number >= of.first).collect();
                    let must: Vec<u64> = (of.first..of.next).collect();
                    assert!(found.starts_with(&must), "{found:?} for {must:?}");
                    assert!(found == must || !of.appended, "{found:?} for {must:?}");
                }
            }
            Op::Restart => {
                self.chain = None;
                // Dropping is no sync, but the operating system has everything.
                self.chain = Some(open(&self.live));
                self.crash_forgets();
            }
            Op::Kill => {
                let live = self.live.clone();
                let killed = self.copy(&live);
                self.go_on_with(killed);
            }
            Op::PowerCut => {
                let synced = self.synced.clone();
                let cut = self.copy(&synced);
                self.go_on_with(cut);
            }
        }
    }

    fn go_on_with(&mut self, dir: PathBuf) {
        self.chain = None;
        _ = std::fs::remove_dir_all(&self.live);
        self.live = dir;
        self.reader = ChainReader::new(&self.live);
        self.chain = Some(open(&self.live));
        self.crash_forgets();
        self.keep_synced();
    }

    /// What no page names comes again.
    fn crash_forgets(&mut self) {
        for (lane, id) in LANES.into_iter().enumerate() {
            let of = &mut self.lanes[lane];
            for (number, block) in of.blocks.split_off(&of.named) {
                of.unnamed.entry(number).or_default().push(block);
            }
            of.next = of.named;
            of.appended = false;
            for (number, blocks) in of.unnamed.range(of.named..) {
                if let Some(block) = read(self.chain.as_mut().unwrap(), id, *number) {
                    assert!(blocks.contains(&block), "lane {lane}, block {number}");
                }
            }
            self.check(lane);
        }
    }

    fn check(&mut self, lane: usize) {
        let of = &self.lanes[lane];
        let expected: Vec<_> = of.blocks.range(of.first..).map(|(number, block)| (*number, block.clone())).collect();
        assert_eq!(expected.len() as u64, of.next - of.first);
        for (number, block) in expected {
            let found = read(self.chain.as_mut().unwrap(), LANES[lane], number);
            assert!(found.as_ref() == Some(&block), "lane {lane}, block {number}");
            let mut seen = Vec::new();
            let is_there = self.reader.read_block(LANES[lane], number, &mut seen).unwrap();
            assert!(is_there && seen == block, "from outside: lane {lane}, block {number}");
        }
        if self.lanes[lane].appended {
            let next = self.lanes[lane].next;
            assert_eq!(read(self.chain.as_mut().unwrap(), LANES[lane], next), None, "lane {lane}, block {next}");
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    let lane = 0..2_usize;
    prop_oneof![
        6 => (lane.clone(), 1..30_usize, prop_oneof![Just(900_usize), Just(40_000), Just(300_000)])
            .prop_map(|(lane, blocks, size)| Op::Append { lane, blocks, size }),
        4 => Just(Op::Commit),
        1 => Just(Op::Sync),
        2 => lane.clone().prop_map(|lane| Op::Read { lane }),
        2 => (lane, 0..5_u8).prop_map(|(lane, share)| Op::Free { lane, share }),
        1 => Just(Op::Find),
        1 => Just(Op::Restart),
        1 => Just(Op::Kill),
        1 => Just(Op::PowerCut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_block_that_a_page_names_comes_back(seed in any::<u64>(), ops in prop::collection::vec(op(), 1..40)) {
        let mut run = Run::new(seed);
        for op in ops {
            run.step(op);
        }
        // What a crash left behind the last block goes with the next one.
        (0..2).for_each(|lane| run.step(Op::Append { lane, blocks: 1, size: 10 }));
        run.step(Op::Commit);
        run.step(Op::Find);
        (0..2).for_each(|lane| run.check(lane));
        for (lane, id) in LANES.into_iter().enumerate() {
            let next = run.lanes[lane].next;
            run.chain().free_blocks(id, next).unwrap();
        }
        prop_assert_eq!(run.chain().databases(), 0);
    }
}
