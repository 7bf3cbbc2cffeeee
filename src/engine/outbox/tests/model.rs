//! Random appends, acknowledgements, evictions, spills, crashes and reopenings against
//! a list of rows.

use proptest::prelude::*;

use super::*;

/// What may happen.
#[derive(Clone, Debug)]
enum Action {
    Push(LaneKind, usize),
    Commit,
    Snapshot,
    Spill,
    /// Publish so many batches.
    Publish(usize),
    /// The n-th batch under way is acknowledged.
    Ack(usize),
    Down,
    /// The process dies; the pages and the chain are there.
    Crash,
    /// A block of the chain is lost.
    Lose(usize),
    Pass(u64),
}

fn action() -> impl Strategy<Value = Action> {
    let lane = prop::sample::select(LaneKind::ALL.to_vec());
    prop_oneof![
        8 => (lane, 1_usize..200).prop_map(|(lane, len)| Action::Push(lane, len)),
        4 => Just(Action::Commit),
        1 => Just(Action::Snapshot),
        2 => Just(Action::Spill),
        3 => (1_usize..6).prop_map(Action::Publish),
        4 => (0_usize..8).prop_map(Action::Ack),
        1 => Just(Action::Down),
        1 => Just(Action::Crash),
        1 => (0_usize..4).prop_map(Action::Lose),
        1 => (0_u64..20_000).prop_map(Action::Pass),
    ]
}

fn spec() -> impl Strategy<Value = OutboxSpec> {
    let bytes = prop::sample::select(vec![600, 3_000, 1 << 30]);
    let memory = prop::sample::select(vec![400, 2_000, 1 << 30]);
    let age = prop::option::weighted(0.2, (1_u64..30).prop_map(Span::from_secs));
    (bytes, memory, age).prop_map(|(bytes, memory, age)| {
        let mut spec = OutboxSpec { bytes_max: bytes as u64, memory_max: memory.min(bytes), ..OutboxSpec::of(0) };
        spec.lanes[LaneKind::Late as usize].age_max = age;
        spec
    })
}

/// The outbox, what is durable of it, and what should have become of each row.
struct World {
    outbox: Outbox,
    spec: OutboxSpec,
    snapshot: Vec<u8>,
    pages: Vec<Vec<u8>>,
    chain: BTreeMap<(LaneKind, u64), Vec<u8>>,
    under_way: Vec<Batch>,
    at: u64,
    /// Rows made, by lane: the text of each.
    rows: [Vec<String>; LaneKind::ALL.len()],
    /// Of them: what is durable.
    durable: [usize; LaneKind::ALL.len()],
    /// What came at the cloud, by lane: its text, or nothing where a gap stood for it.
    came: [BTreeMap<u64, Option<String>>; LaneKind::ALL.len()],
}

impl World {
    fn new(spec: OutboxSpec) -> World {
        let mut outbox = Outbox::new(spec, UplinkPolicy::default());
        outbox.handle_up();
        let mut world = World {
            outbox,
            spec,
            snapshot: Vec::new(),
            pages: Vec::new(),
            chain: BTreeMap::new(),
            under_way: Vec::new(),
            at: 0,
            rows: Default::default(),
            durable: Default::default(),
            came: Default::default(),
        };
        world.take_snapshot();
        world
    }

    fn act(&mut self, action: &Action) {
        self.outbox.set_now(now(self.at));
        match action {
            Action::Push(lane, len) => {
                let text = format!("{}{}", self.rows[*lane as usize].len(), "x".repeat(*len));
                push(&mut self.outbox, *lane, &text);
                self.rows[*lane as usize].push(text);
            }
            Action::Commit => self.commit(),
            Action::Snapshot => {
                self.make_room(true);
                self.commit();
                self.take_snapshot();
            }
            Action::Spill => self.make_room(true),
            Action::Publish(count) => self.publish(*count),
            Action::Ack(which) => {
                if let Some(batch) = (*which < self.under_way.len()).then(|| self.under_way.remove(*which)) {
                    self.outbox.handle_ack(now(self.at), batch.id);
                }
            }
            Action::Down => {
                self.under_way.clear();
                self.outbox.handle_down();
                self.outbox.handle_up();
            }
            Action::Crash => self.crash(),
            Action::Lose(which) => {
                if let Some(key) = self.chain.keys().nth(*which).copied() {
                    self.chain.remove(&key);
                }
            }
            Action::Pass(millis) => self.at += millis,
        }
        self.check();
        if !matches!(action, Action::Push(..) | Action::Pass(_)) {
            for kind in LaneKind::ALL {
                self.look(kind);
            }
        }
    }

    fn make_room(&mut self, all: bool) {
        while let Some(eviction) = self.outbox.next_eviction() {
            let block = eviction.block.and_then(|number| self.chain.get(&(eviction.lane, number)).cloned());
            self.outbox.evict(eviction, block.as_deref());
        }
        for spill in self.outbox.spills(all) {
            let mut block = Vec::new();
            self.outbox.write_block(spill, &mut block);
            self.outbox.mark_spilled(spill, block_crc(&block), block.len() as u64);
            self.chain.insert((spill.lane, spill.number), block);
        }
    }

    fn commit(&mut self) {
        self.make_room(false);
        let mut page = Vec::new();
        self.outbox.write_changes(&mut page);
        self.pages.push(page);
        self.settled();
    }

    fn take_snapshot(&mut self) {
        self.snapshot.clear();
        self.outbox.write_all(&mut self.snapshot, &mut |_| ());
        self.pages.clear();
        self.settled();
    }

    fn settled(&mut self) {
        self.outbox.mark_committed();
        self.durable = core::array::from_fn(|lane| self.rows[lane].len());
        let firsts = LaneKind::ALL.map(|kind| self.outbox.first_block(kind));
        self.chain.retain(|(lane, number), _| *number >= firsts[*lane as usize]);
    }

    fn publish(&mut self, count: usize) {
        for _ in 0..count {
            match self.outbox.next(now(self.at), ENVELOPE) {
                Next::Batch(batch) => {
                    self.arrive(&batch);
                    self.under_way.push(batch);
                }
                Next::Block { lane, number } => {
                    let block = self.chain.get(&(lane, number)).cloned();
                    self.outbox.take_block(lane, number, block.as_deref());
                }
                Next::Nothing => return,
            }
        }
    }

    fn arrive(&mut self, batch: &Batch) {
        let envelope: serde_json::Value = serde_json::from_slice(&batch.payload).unwrap();
        let lane = batch.lane as usize;
        for record in envelope["records"].as_array().unwrap() {
            let seq = record["seq"].as_u64().unwrap();
            let first = record["first_seq"].as_u64();
            for number in first.unwrap_or(seq)..=seq {
                assert!(number < self.durable[lane] as u64, "only what is durable is published");
                let text = record["text"].as_str().map(str::to_owned);
                let seen = self.came[lane].get(&number).cloned().flatten();
                self.came[lane].insert(number, text.or(seen));
            }
        }
    }

    fn crash(&mut self) {
        let policy = UplinkPolicy::default();
        let mut outbox = Outbox::read_all(&mut Reader::new(&self.snapshot), self.spec, policy).unwrap();
        for page in &self.pages {
            outbox.apply_changes(&mut Reader::new(page)).unwrap();
        }
        if self.outbox.is_committed() {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            self.outbox.write_all(&mut before, &mut |_| ());
            outbox.write_all(&mut after, &mut |_| ());
            assert!(before == after, "all was durable");
        }
        outbox.set_now(now(self.at));
        outbox.handle_up();
        // What was appended and never named is written again, or stays behind for a while.
        self.chain.retain(|(lane, number), _| *number < outbox.lanes[*lane as usize].next_block);
        self.outbox = outbox;
        self.under_way.clear();
        for (rows, durable) in self.rows.iter_mut().zip(self.durable) {
            rows.truncate(durable);
        }
    }

    fn check(&self) {
        for kind in LaneKind::ALL {
            let ledger = self.outbox.ledger(kind);
            assert_eq!(ledger.queued, self.rows[kind as usize].len() as u64);
            let gone = ledger.acked + ledger.evicted + ledger.dead_lettered;
            assert_eq!(ledger.queued, gone + self.outbox.held_records(kind), "{kind:?}: {ledger:?}");
        }
        let memory: usize = self.outbox.lanes.iter().flat_map(|lane| &lane.parts).map(part::Part::memory).sum();
        assert_eq!(self.outbox.memory(), memory, "bytes are counted right");
        let stored: u64 = self.outbox.lanes.iter().flat_map(|lane| &lane.parts).map(part::Part::stored).sum();
        assert_eq!(self.outbox.bytes(), memory as u64 + stored);
        assert_eq!(self.outbox.faults(), [""; 0]);
    }

    /// Whoever looks sees each row that is held, once, or the gap that stands for it.
    fn look(&self, kind: LaneKind) {
        let (mut position, mut records, mut readable) = (0, 0, 0);
        while let Some(piece) = self.outbox.piece(kind, position) {
            assert!(piece.first() >= position && piece.past() > piece.first(), "onwards");
            position = piece.past();
            records += piece.records();
            let block = piece.block().map(|number| self.chain.get(&(kind, number)));
            let mut seen = Vec::new();
            let read = piece.read(block.flatten().map(Vec::as_slice), &mut |seq, row| match row {
                Row::Alarm(row) => {
                    let made = &self.rows[kind as usize][usize::try_from(seq).unwrap()];
                    assert_eq!(row.text, made);
                    seen.push(seq);
                }
                Row::Gap(row, _) => assert!(row.first_seq <= seq),
                Row::Pane(..) | Row::Late(..) | Row::Join(..) | Row::Pair(_) | Row::Record(..) => {
                    panic!("never pushed: {row:?}")
                }
            });
            assert_eq!(read.is_err(), block == Some(None), "but for what is lost, all can be read");
            if read.is_ok() {
                assert_eq!(seen.len() as u64, piece.records());
                assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                readable += piece.records();
            }
        }
        assert_eq!(records, self.outbox.held_records(kind));
        let overview = &self.outbox.overview().lanes[kind as usize];
        assert!(overview.records == records && readable <= records && position <= overview.past);
        assert_eq!(overview.oldest_ms.is_some(), records > 0, "there is a time where there is a record");
    }

    /// Peace: everything arrives, and every number has come, as its row or in a gap.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            self.commit();
            self.publish(1_000);
            for batch in core::mem::take(&mut self.under_way) {
                self.outbox.handle_ack(now(self.at), batch.id);
            }
            if self.outbox.is_committed() && LaneKind::ALL.iter().all(|kind| self.outbox.held(*kind) == 0) {
                break;
            }
        }
        self.check();
        self.commit();
        assert_eq!(self.outbox.bytes(), 0);
        assert!(self.chain.is_empty(), "the chain is free");
        for (lane, rows) in self.rows.iter().enumerate() {
            for (seq, row) in rows.iter().enumerate() {
                let came =
                    self.came[lane].get(&(seq as u64)).unwrap_or_else(|| panic!("lane {lane}: {seq} never came"));
                assert!(came.as_ref().is_none_or(|text| text == row), "{came:?} instead of {row}");
            }
            let lost = self.came[lane].values().filter(|came| came.is_none()).count() as u64;
            let ledger = self.outbox.ledger(LaneKind::ALL[lane]);
            assert!(lost <= ledger.evicted, "no more gaps than were counted");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn whatever_happens_each_row_comes_or_a_gap_says_that_it_does_not(
        spec in spec(),
        actions in prop::collection::vec(action(), 1..120),
    ) {
        let mut world = World::new(spec);
        for action in &actions {
            world.act(action);
        }
        world.drain();
    }
}
