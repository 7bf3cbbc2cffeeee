//! The ring on a medium in memory; random crashes are in `tests/store`.

use super::slots::SlotId;
use super::*;
use crate::engine::memory_store::MemorySlots;

fn ring(slots: MemorySlots) -> (Ring<MemorySlots>, Loaded) {
    let mut ring = Ring::new(slots, Packing::NONE);
    let loaded = ring.load().unwrap();
    (ring, loaded)
}

fn fresh() -> Ring<MemorySlots> {
    ring(MemorySlots::new(7)).0
}

fn page(index: u16) -> SlotId {
    SlotId { set: Set::A, kind: SlotKind::Page, index }
}

fn failed() -> SlotError {
    SlotError::Failed("injected".into())
}

/// Reopens without losing anything.
fn again(ring: Ring<MemorySlots>) -> (Ring<MemorySlots>, Loaded) {
    let mut slots = ring.into_slots();
    slots.sync().unwrap();
    self::ring(slots.reopen())
}

#[test]
fn a_new_store_is_empty_and_whole() {
    let (ring, loaded) = ring(MemorySlots::new(0));
    assert_eq!(loaded, Loaded::default());
    assert!(!ring.wants_snapshot());
}

#[test]
fn pages_of_every_size_come_back_in_order() {
    let mut ring = fresh();
    let sizes = [0, 1, PAYLOAD_BYTES_MAX - 1, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1, 200_000];
    let pages: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0xa5; *size]).collect();
    for page in &pages {
        ring.commit(page).unwrap();
    }
    let (_, loaded) = again(ring);
    assert_eq!((loaded.snapshot, loaded.damage), (None, vec![]));
    assert_eq!(loaded.pages.len(), pages.len());
    assert!(loaded.pages.iter().zip(&pages).all(|(read, written)| read == written));
}

#[test]
fn a_snapshot_replaces_the_pages_before_it_and_pages_follow_it() {
    let mut ring = fresh();
    for round in 0..5_u8 {
        ring.commit(&[round, 1]).unwrap();
        ring.snapshot(&vec![round; 30_000]).unwrap();
        ring.commit(&[round, 2]).unwrap();
        let (next, loaded) = again(ring);
        ring = next;
        assert_eq!(loaded.snapshot, Some(vec![round; 30_000]));
        assert_eq!(loaded.pages, [[round, 2]]);
        assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    }
}

#[test]
fn a_snapshot_is_wanted_at_three_quarters_and_due_when_no_slot_is_left() {
    let mut ring = fresh();
    for n in 0..PAGE_SLOTS_MAX {
        assert_eq!(ring.wants_snapshot(), n * 4 >= PAGE_SLOTS_MAX * 3, "{n}");
        ring.commit(b"p").unwrap();
    }
    assert!(matches!(ring.commit(b"p"), Err(StoreError::SnapshotDue)));
    ring.snapshot(b"s").unwrap();
    assert!(!ring.wants_snapshot());
    ring.commit(b"p").unwrap();
}

#[test]
fn many_bytes_of_pages_are_worth_a_snapshot_and_the_more_the_larger_it_is() {
    let mut ring = fresh();
    for (snapshot, pages) in [(0, 19), (30_000, 19), (400_000, 33)] {
        if snapshot > 0 {
            ring.snapshot(&vec![1; snapshot]).unwrap();
        }
        for n in 0..pages {
            assert!(!ring.wants_snapshot(), "{n} of {pages}");
            ring.commit(&vec![2; 48_500]).unwrap();
        }
        assert!(ring.wants_snapshot(), "{pages}");
    }
}

#[test]
fn a_page_that_does_not_fit_the_rest_waits_for_a_snapshot() {
    let mut ring = fresh();
    ring.commit(&vec![1; PAYLOAD_BYTES_MAX * 250]).unwrap();
    assert!(matches!(ring.commit(&vec![1; PAYLOAD_BYTES_MAX * 7]), Err(StoreError::SnapshotDue)));
    ring.commit(&vec![1; PAYLOAD_BYTES_MAX * 6]).unwrap();
}

#[test]
fn what_is_too_large_is_refused_before_anything_is_written() {
    let mut ring = fresh();
    let error = ring.snapshot(&vec![1; STATE_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }));
    assert!(matches!(ring.commit(&vec![0; STATE_BYTES_MAX + 1]), Err(StoreError::TooLarge { .. })));
    assert_eq!(ring.bytes_written(), 0);
    ring.snapshot(&vec![1; STATE_BYTES_MAX]).unwrap();
}

const THREE_SLOTS: usize = PAYLOAD_BYTES_MAX * 5 / 2;

#[test]
fn a_failed_commit_is_repeated_in_the_same_slots() {
    for operation in 1..=4 {
        for error in [failed(), SlotError::Full] {
            let mut ring = fresh();
            ring.commit(b"first").unwrap();
            ring.slots_mut().fail_at(operation, error);
            ring.commit(&vec![1; THREE_SLOTS]).unwrap_err();
            ring.commit(b"second").unwrap();
            ring.commit(&vec![3; THREE_SLOTS]).unwrap();
            let (_, loaded) = again(ring);
            assert_eq!(loaded.pages, [b"first".to_vec(), b"second".to_vec(), vec![3; THREE_SLOTS]]);
            assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
        }
    }
}

#[test]
fn pages_committed_after_a_failed_snapshot_are_not_shadowed_by_it() {
    // Seeds where the failed snapshot reached the medium, and where it did not.
    for seed in 0..32 {
        let (mut ring, _) = ring(MemorySlots::new(seed));
        ring.snapshot(b"base").unwrap();
        ring.commit(b"one").unwrap();
        ring.slots_mut().fail_at(2, failed());
        ring.snapshot(b"base+one").unwrap_err();
        assert!(ring.wants_snapshot());
        ring.commit(b"two").unwrap();
        let (_, loaded) = again(ring);
        assert_eq!(loaded.snapshot.as_deref(), Some(&b"base"[..]), "seed {seed}");
        assert_eq!(loaded.pages, [b"one", b"two"]);
        assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    }
}

#[test]
fn a_failed_page_that_arrived_does_not_outlive_a_newer_snapshot() {
    for seed in 0..32 {
        let (mut ring, _) = ring(MemorySlots::new(seed));
        ring.commit(b"one").unwrap();
        ring.slots_mut().fail_at(2, failed());
        ring.commit(b"two, never reported").unwrap_err();
        ring.snapshot(b"one and two").unwrap();
        let (_, loaded) = again(ring);
        assert_eq!(loaded.snapshot.as_deref(), Some(&b"one and two"[..]), "seed {seed}");
        assert!(loaded.pages.is_empty() && loaded.damage.is_empty());
    }
}

#[test]
fn a_torn_last_page_is_dropped_silently_and_a_hole_is_damage() {
    let mut whole = fresh();
    for n in 0..4_u8 {
        whole.commit(&[n]).unwrap();
    }
    let slots = whole.into_slots();

    let mut torn = slots.clone();
    torn.value_mut(page(3)).unwrap().truncate(9);
    let (mut after, loaded) = ring(torn);
    assert_eq!((loaded.pages.len(), loaded.damage.len()), (3, 0));
    after.commit(b"next").unwrap();
    assert_eq!(again(after).1.pages, [&[0][..], &[1], &[2], b"next"]);

    let mut holed = slots;
    holed.remove(page(1));
    let (mut after, loaded) = ring(holed);
    assert_eq!(loaded.pages, [[0]]);
    assert_eq!(loaded.damage.len(), 1, "{:?}", loaded.damage);
    assert!(after.wants_snapshot());
    assert!(matches!(after.commit(b"x"), Err(StoreError::SnapshotDue)), "pages behind the hole must not come back");
    after.snapshot(b"repaired").unwrap();
    after.commit(b"x").unwrap();
    let (_, loaded) = again(after);
    assert_eq!((loaded.snapshot.as_deref(), loaded.pages.len()), (Some(&b"repaired"[..]), 1));
    assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
}

#[test]
fn a_lost_snapshot_falls_back_to_the_one_before_and_says_so() {
    let mut ring = fresh();
    ring.snapshot(b"old").unwrap();
    ring.commit(b"p1").unwrap();
    ring.snapshot(b"new").unwrap();
    ring.commit(b"p2").unwrap();
    let mut slots = ring.into_slots();
    slots.value_mut(SlotId { set: Set::A, kind: SlotKind::Snapshot, index: 0 }).unwrap()[40] ^= 1;
    let (mut ring, loaded) = self::ring(slots);
    assert_eq!((loaded.snapshot.as_deref(), loaded.pages.len()), (Some(&b"old"[..]), 1));
    assert_eq!(loaded.damage.len(), 1, "{:?}", loaded.damage);
    assert!(matches!(ring.commit(b"x"), Err(StoreError::SnapshotDue)));
}

#[test]
fn when_every_value_is_damaged_the_store_is_empty_and_says_so() {
    let mut ring = fresh();
    ring.snapshot(b"one").unwrap();
    ring.snapshot(b"two").unwrap();
    ring.commit(b"p").unwrap();
    let mut slots = ring.into_slots();
    for slot in slots.slots().collect::<Vec<_>>() {
        slots.value_mut(slot).unwrap().clear();
    }
    let (mut ring, loaded) = self::ring(slots);
    assert_eq!((loaded.snapshot, loaded.pages.len(), loaded.damage.len()), (None, 0, 1));
    ring.snapshot(b"again").unwrap();
    assert_eq!(again(ring).1, Loaded { snapshot: Some(b"again".to_vec()), ..Loaded::default() });
}

#[test]
fn after_a_reset_the_first_write_is_a_snapshot_above_the_floor() {
    let mut ring = fresh();
    ring.reset(Mark { generation: 41, seq: 900 });
    assert!(matches!(ring.commit(b"p"), Err(StoreError::SnapshotDue)));
    ring.snapshot(b"s").unwrap();
    assert!(ring.mark() > Mark { generation: 41, seq: u64::MAX });
    ring.commit(b"p").unwrap();
    let (ring, loaded) = again(ring);
    assert_eq!(loaded.pages.len(), 1);
    assert_eq!(ring.mark(), Mark { generation: 42, seq: 901 });
}

#[test]
fn packing_is_undone_and_a_value_that_does_not_unpack_is_damage() {
    // Run lengths of zeros only: enough to shrink and to refuse.
    let halves = Packing {
        pack: |bytes| {
            if bytes.iter().all(|byte| *byte == 0) {
                (bytes.len() as u64).to_le_bytes().to_vec()
            } else {
                bytes.to_vec()
            }
        },
        unpack: |stored| Some(vec![0; usize::try_from(u64::from_le_bytes(stored.try_into().ok()?)).ok()?]),
        pieces: None,
    };
    let mut ring = Ring::new(MemorySlots::new(1), halves);
    ring.snapshot(&vec![0; 100_000]).unwrap();
    ring.commit(&vec![0; 50_000]).unwrap();
    ring.commit(b"not packed").unwrap();
    assert!(ring.bytes_written() < 300);
    let slots = ring.into_slots();

    let mut ring = Ring::new(slots.clone(), halves);
    let loaded = ring.load().unwrap();
    assert_eq!(loaded.snapshot, Some(vec![0; 100_000]));
    assert_eq!(loaded.pages, [vec![0; 50_000], b"not packed".to_vec()]);

    let mut ring = Ring::new(slots, Packing { unpack: |_| None, ..halves });
    let loaded = ring.load().unwrap();
    assert_eq!((loaded.snapshot, loaded.pages.len()), (None, 0));
    assert!(loaded.damage.iter().any(|what| what.contains("does not unpack")), "{:?}", loaded.damage);
}
