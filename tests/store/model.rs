//! The ring against a trivial model, with a crash or a fault at every write.
//!
//! The model is the list of pages ever committed. A snapshot says how many of
//! them it stands for. What load gives must be exactly the pages up to some
//! point at or after the last one reported durable.

use tidegate::engine::memory_store::MemorySlots;
use tidegate::engine::ring::slots::SlotError;
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::store::{Loaded, Store, StoreError};

use crate::random::Random;

/// What the engine would know, and what it may be given after a crash.
#[derive(Clone, Default)]
pub(crate) struct Model {
    /// Pages reported durable, since the beginning.
    durable: Vec<Vec<u8>>,
    /// Pages tried in the next place and not reported: any may have survived.
    tried: Vec<Vec<u8>>,
    /// The last snapshot reported durable, and how many pages it stands for.
    snapshot: Option<(Vec<u8>, usize)>,
    /// Snapshots tried since and not reported.
    snapshots_tried: Vec<(Vec<u8>, usize)>,
}

impl Model {
    pub(crate) fn commit(&mut self, store: &mut impl Store, page: Vec<u8>) -> Result<(), StoreError> {
        let result = store.commit(&page);
        match &result {
            Ok(()) => {
                self.durable.push(page);
                self.tried.clear();
            }
            Err(StoreError::SnapshotDue | StoreError::TooLarge { .. }) => (),
            Err(StoreError::Full | StoreError::Failed(_)) => self.tried.push(page),
        }
        result
    }

    pub(crate) fn snapshot(&mut self, store: &mut impl Store, state: Vec<u8>) -> Result<(), StoreError> {
        let result = store.snapshot(&state);
        let entry = (state, self.durable.len());
        if result.is_ok() {
            self.snapshot = Some(entry);
            self.snapshots_tried.clear();
            self.tried.clear();
        } else {
            self.snapshots_tried.push(entry);
        }
        result
    }

    /// Checks what survived, and goes on from there.
    pub(crate) fn check(&mut self, loaded: &Loaded, at: &str) {
        assert!(loaded.damage.is_empty(), "{at}: a power cut is not damage: {:?}", loaded.damage);
        let covered = match &loaded.snapshot {
            None => {
                assert!(self.snapshot.is_none(), "{at}: the snapshot is gone");
                0
            }
            Some(state) => {
                let mut known = self.snapshot.iter().chain(&self.snapshots_tried);
                known.find(|(bytes, _)| bytes == state).unwrap_or_else(|| panic!("{at}: an unknown snapshot")).1
            }
        };
        let reached = covered + loaded.pages.len();
        assert!(reached >= self.durable.len(), "{at}: {reached} of {} durable pages", self.durable.len());
        assert!(reached <= self.durable.len() + 1, "{at}: more pages than were ever tried");
        for (place, page) in (covered..).zip(&loaded.pages) {
            if let Some(expected) = self.durable.get(place) {
                assert!(page == expected, "{at}: page {place} has wrong bytes");
            } else {
                assert!(self.tried.contains(page), "{at}: page {place} was never tried");
                self.durable.push(page.clone());
                break;
            }
        }
        self.snapshot = loaded.snapshot.clone().map(|state| (state, covered));
        self.snapshots_tried.clear();
        self.tried.clear();
    }
}

fn reopen(ring: Ring<MemorySlots>, model: &mut Model, at: &str) -> Ring<MemorySlots> {
    let mut ring = Ring::new(ring.into_slots().reopen(), Packing::NONE);
    let loaded = ring.load().unwrap();
    model.check(&loaded, at);
    ring
}

/// One random step; errors are the model's business.
fn step(ring: &mut Ring<MemorySlots>, model: &mut Model, random: &mut Random, size_max: usize) {
    if random.below(6) == 0 || ring.wants_snapshot() && random.below(3) == 0 {
        let size = random.size(size_max);
        _ = model.snapshot(ring, random.bytes(size));
    } else {
        let size = random.size(size_max);
        let page = random.bytes(size);
        if let Err(StoreError::SnapshotDue) = model.commit(ring, page.clone()) {
            _ = model.snapshot(ring, random.bytes(100));
            _ = model.commit(ring, page);
        }
    }
}

#[test]
fn a_crash_at_any_write_loses_nothing_that_was_reported_durable() {
    const STEPS: usize = 14;
    for seed in 0..24 {
        let mut crash_at = 1;
        loop {
            let at = format!("seed {seed}, crash at operation {crash_at}");
            let mut random = Random(seed);
            let mut model = Model::default();
            let mut ring = Ring::new(MemorySlots::new(seed * 1_000 + crash_at), Packing::NONE);
            model.check(&ring.load().unwrap(), &at);
            ring.slots_mut().crash_after(crash_at);
            for _ in 0..STEPS {
                step(&mut ring, &mut model, &mut random, 60_000);
            }
            let finished = !ring.slots_mut().crashed();
            // Twice: what was found must be as good to start from as any other.
            ring = reopen(ring, &mut model, &at);
            ring.slots_mut().crash_after(crash_at / 3 + 1);
            for _ in 0..STEPS / 2 {
                step(&mut ring, &mut model, &mut random, 60_000);
            }
            reopen(ring, &mut model, &at);
            if finished {
                break;
            }
            crash_at += 1;
        }
    }
}

#[test]
fn faults_and_crashes_in_any_mixture_lose_nothing_that_was_reported_durable() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut model = Model::default();
        let mut ring = Ring::new(MemorySlots::new(seed), Packing::NONE);
        model.check(&ring.load().unwrap(), "new");
        for life in 0..5 {
            let at = format!("seed {seed}, life {life}");
            for _ in 0..random.below(16) {
                let fault = [SlotError::Full, SlotError::Failed("injected".into())][random.below(2)].clone();
                if random.below(3) == 0 {
                    ring.slots_mut().fail_at(1 + random.below(4) as u64, fault);
                }
                step(&mut ring, &mut model, &mut random, 30_000);
            }
            ring.slots_mut().crash_after(1 + random.below(12) as u64);
            for _ in 0..random.below(6) {
                step(&mut ring, &mut model, &mut random, 30_000);
            }
            ring = reopen(ring, &mut model, &at);
        }
    }
}

#[test]
fn large_pages_and_many_of_them_come_back() {
    for seed in 0..4 {
        let mut random = Random(seed);
        let mut model = Model::default();
        let mut ring = Ring::new(MemorySlots::new(seed), Packing::NONE);
        for _ in 0..300 {
            step(&mut ring, &mut model, &mut random, 200_000);
        }
        reopen(ring, &mut model, &format!("seed {seed}"));
    }
}

#[test]
fn a_damaged_value_never_becomes_wrong_bytes() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut model = Model::default();
        let mut ring = Ring::new(MemorySlots::new(seed), Packing::NONE);
        for _ in 0..20 {
            step(&mut ring, &mut model, &mut random, 30_000);
        }
        let mut slots = ring.into_slots();
        let names: Vec<_> = slots.slots().collect();
        for _ in 0..=random.below(3) {
            let slot = names[random.below(names.len())];
            match (random.below(3), slots.value_mut(slot)) {
                (0, _) | (_, None) => slots.remove(slot),
                (1, Some(value)) => value.truncate(random.below(value.len().max(1))),
                (_, Some(value)) => {
                    let at = random.below(value.len().max(1));
                    value.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8));
                }
            }
        }
        let mut ring = Ring::new(slots, Packing::NONE);
        let loaded = ring.load().unwrap();
        // Whatever is left are pages as committed, in order, without a hole.
        let first = loaded.pages.first().and_then(|first| model.durable.iter().position(|page| page == first));
        if let Some(first) = first {
            assert_eq!(model.durable[first..first + loaded.pages.len()], loaded.pages, "seed {seed}");
        }
        assert!(loaded.pages.is_empty() || first.is_some(), "seed {seed}: a page that never was");
        // And the store goes on: a snapshot, then pages, are all there is.
        ring.snapshot(b"repaired").unwrap();
        ring.commit(b"after").unwrap();
        let mut ring = Ring::new(ring.into_slots().reopen(), Packing::NONE);
        let loaded = ring.load().unwrap();
        assert_eq!(loaded.snapshot.as_deref(), Some(&b"repaired"[..]), "seed {seed}");
        assert_eq!(loaded.pages, [b"after"], "seed {seed}");
        assert!(loaded.damage.is_empty(), "seed {seed}: {:?}", loaded.damage);
    }
}
