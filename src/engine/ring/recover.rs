//! What survived: finds the newest state in the two slot sets.
//!
//! A *chain* is a complete snapshot and the pages after it, contiguous by seq,
//! in the page slots of the same set. A store that never took a snapshot has
//! generation 0, in set A, without one. There are at most two chains.
//!
//! **Which one.** The newer generation, unless a later page of the older chain
//! says that it knew of that generation: `tried` in a page is the newest
//! generation attempted before it. Such a snapshot was reported as failed (and
//! reached the medium all the same), and pages committed since are elsewhere.
//!
//! **Torn or damaged.** A page is written only after every page before it is
//! durable, so a page that is not whole is a torn tail (silently dropped: it
//! was never reported durable) if nothing of its set has a later seq, and a
//! hole otherwise. Pages of a newer generation than the chosen one mean that a
//! snapshot which was durable is gone, since pages only follow durable ones.
//! Loss of the very last page by damage looks like a torn tail; that is what
//! the witness file at a clean stop is for.

use super::part::{Header, PAYLOAD_BYTES_MAX};
use super::slots::{Set, SlotId, SlotKind, Slots};
use super::{Packing, SNAPSHOT_SLOTS_MAX};
use crate::engine::store::Loaded;
use crate::model::limits::PAGE_SLOTS_MAX;

/// The state found, and where the ring goes on.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) loaded: Loaded,
    pub(super) active: Set,
    pub(super) generation: u64,
    pub(super) seq: u64,
    pub(super) next_slot: u16,
    /// No value on the medium carries or knows a newer generation.
    pub(super) generation_seen: u64,
}

/// Reads every slot and puts the newest state together.
pub(super) fn recover(slots: &mut impl Slots, packing: Packing) -> Recovered {
    let mut value = Vec::new();
    let survey = Survey::take(slots, &mut value);
    let mut loaded = Loaded::default();
    if survey.unreadable > 0 {
        loaded.damage.push(format!("{} slots of the page ring cannot be read", survey.unreadable));
    }
    let mut chosen = Chain { set: Set::A, generation: 0, seq: 0, parts: 0, tried: 0 };
    for chain in survey.chains() {
        if chain.generation > 0 {
            let mut whole = Whole { slots, packing, value: &mut value };
            loaded.snapshot = whole.read(chain.set, SlotKind::Snapshot, 0, chain.parts);
            if loaded.snapshot.is_none() {
                loaded.damage.push(format!("the snapshot of generation {} does not unpack", chain.generation));
                continue;
            }
        }
        chosen = chain;
        break;
    }
    let mut seq = chosen.seq;
    let mut next_slot = 0;
    while let Some(parts) = survey.page_at(chosen.set, next_slot, chosen.generation, seq + 1) {
        let mut whole = Whole { slots, packing, value: &mut value };
        let Some(page) = whole.read(chosen.set, SlotKind::Page, next_slot, parts) else {
            loaded.damage.push(format!("page {} of generation {} does not unpack", seq + 1, chosen.generation));
            break;
        };
        loaded.pages.push(page);
        seq += 1;
        next_slot += parts;
    }
    survey.note_losses(&chosen, seq, &mut loaded.damage);
    Recovered {
        loaded,
        active: chosen.set,
        generation: chosen.generation,
        seq,
        next_slot,
        generation_seen: survey.generation_seen(),
    }
}

/// A whole snapshot found: where a state may start.
#[derive(Clone, Copy, Debug)]
struct Chain {
    set: Set,
    generation: u64,
    /// The last page that the snapshot contains.
    seq: u64,
    parts: u16,
    /// The newest generation known to the last page (or the snapshot) of it.
    tried: u64,
}

#[derive(Clone, Copy, Debug)]
enum Found {
    Empty,
    Bad,
    Part(Header),
}

/// What every slot says about itself; payloads are read later, for one chain.
#[derive(Debug)]
struct Survey {
    /// Snapshot slots then page slots, per set.
    sets: [[Vec<Found>; 2]; 2],
    unreadable: usize,
}

impl Survey {
    fn take(slots: &mut impl Slots, value: &mut Vec<u8>) -> Survey {
        let mut unreadable = 0;
        let mut list = |set, kind, len: usize| {
            let len = u16::try_from(len).expect("the slot limits fit");
            let look = |slot| match slots.read(slot, value) {
                Ok(false) => Found::Empty,
                Ok(true) => match Header::read(value) {
                    Some((header, _)) if header.slot() == slot => Found::Part(header),
                    Some(_) | None => Found::Bad,
                },
                Err(_) => {
                    unreadable += 1;
                    Found::Bad
                }
            };
            (0..len).map(|index| SlotId { set, kind, index }).map(look).collect()
        };
        let sets = Set::ALL
            .map(|set| [list(set, SlotKind::Snapshot, SNAPSHOT_SLOTS_MAX), list(set, SlotKind::Page, PAGE_SLOTS_MAX)]);
        Survey { sets, unreadable }
    }

    fn list(&self, set: Set, kind: SlotKind) -> &[Found] {
        &self.sets[usize::from(set == Set::B)][usize::from(kind == SlotKind::Page)]
    }

    fn headers(&self, set: Set, kind: SlotKind) -> impl Iterator<Item = &Header> {
        self.list(set, kind).iter().filter_map(|found| match found {
            Found::Part(header) => Some(header),
            Found::Empty | Found::Bad => None,
        })
    }

    /// The header of a whole that starts at `first` and has all its parts.
    fn whole_at(&self, set: Set, kind: SlotKind, first: u16) -> Option<&Header> {
        let list = self.list(set, kind).get(usize::from(first)..)?;
        let Some(Found::Part(head)) = list.first() else { return None };
        let parts = list.get(..usize::from(head.parts))?;
        (0..head.parts)
            .zip(parts)
            .all(|(part, found)| matches!(found, Found::Part(header) if *header == head.sibling(part)))
            .then_some(head)
    }

    /// The parts of page `seq`, if it starts at `first` and is whole.
    fn page_at(&self, set: Set, first: u16, generation: u64, seq: u64) -> Option<u16> {
        let head = self.whole_at(set, SlotKind::Page, first)?;
        (head.generation == generation && head.seq == seq).then_some(head.parts)
    }

    /// Every chain, the one to use first.
    fn chains(&self) -> Vec<Chain> {
        let mut chains: Vec<Chain> = Set::ALL.into_iter().filter_map(|set| self.chain(set)).collect();
        if self.page_at(Set::A, 0, 0, 1).is_some() {
            let start = Chain { set: Set::A, generation: 0, seq: 0, parts: 0, tried: 0 };
            chains.push(self.follow(start));
        }
        // Older first; a chain that knew of every other one's generation wins.
        chains.sort_by_key(|chain| chain.generation);
        let newest = chains.last().map_or(0, |chain| chain.generation);
        if let Some(at) = chains.iter().position(|chain| chain.generation < newest && chain.tried >= newest) {
            let known = chains.remove(at);
            chains.push(known);
        }
        chains.reverse();
        chains
    }

    fn chain(&self, set: Set) -> Option<Chain> {
        let head = self.whole_at(set, SlotKind::Snapshot, 0)?;
        let Header { generation, seq, parts, tried, .. } = *head;
        Some(self.follow(Chain { set, generation, seq, parts, tried }))
    }

    /// Finds out what the last page of the chain knew.
    fn follow(&self, mut chain: Chain) -> Chain {
        let (mut seq, mut slot) = (chain.seq, 0);
        while let Some(parts) = self.page_at(chain.set, slot, chain.generation, seq + 1) {
            chain.tried = self.whole_at(chain.set, SlotKind::Page, slot).map_or(chain.tried, |head| head.tried);
            seq += 1;
            slot += parts;
        }
        chain
    }

    /// Says what the medium proves to be missing after page `end` of the chain.
    fn note_losses(&self, chain: &Chain, end: u64, damage: &mut Vec<String>) {
        let generation = chain.generation;
        let pages = || Set::ALL.into_iter().flat_map(|set| self.headers(set, SlotKind::Page));
        if let Some(last) = pages().filter(|page| page.generation == generation).map(|page| page.seq).max()
            && last > end + 1
        {
            damage
                .push(format!("pages {} to {last} of generation {generation} are lost: a hole at the first", end + 1));
        }
        if let Some(newer) = pages().map(|page| page.generation).filter(|newer| *newer > generation).max() {
            damage.push(format!("the snapshot of generation {newer} is lost; generation {generation} is used"));
        }
        if self.goes_on_elsewhere(generation) {
            damage.push(format!("pages after the failed snapshot of generation {generation} are lost"));
        }
        if self.headers(chain.set, SlotKind::Snapshot).any(|part| part.generation > generation) {
            damage.push(format!("generation {generation} is used, but it had been replaced"));
        }
        let used = |set, kind| self.list(set, kind).iter().any(|found| !matches!(found, Found::Empty));
        if generation == 0 && (used(Set::A, SlotKind::Snapshot) || used(Set::B, SlotKind::Page)) {
            damage.push("no snapshot is whole".into());
        }
    }

    /// True when an older generation provably went on after the failed attempt
    /// at this one. A lone page that is not whole proves nothing: a torn tail.
    fn goes_on_elsewhere(&self, generation: u64) -> bool {
        let after = |page: &Header| page.generation < generation && page.tried >= generation;
        Set::ALL.into_iter().any(|set| {
            let mut seqs = self.headers(set, SlotKind::Page).filter(|page| after(page)).map(|page| page.seq);
            let first = seqs.next();
            seqs.any(|seq| Some(seq) != first)
                || (0..).take(PAGE_SLOTS_MAX).any(|slot| self.whole_at(set, SlotKind::Page, slot).is_some_and(after))
        })
    }

    fn generation_seen(&self) -> u64 {
        Set::ALL
            .into_iter()
            .flat_map(|set| self.headers(set, SlotKind::Snapshot).chain(self.headers(set, SlotKind::Page)))
            .map(|header| header.generation.max(header.tried))
            .max()
            .unwrap_or(0)
    }
}

/// Puts the parts of one snapshot or page together.
struct Whole<'a, S> {
    slots: &'a mut S,
    packing: Packing,
    value: &'a mut Vec<u8>,
}

impl<S: Slots> Whole<'_, S> {
    fn read(&mut self, set: Set, kind: SlotKind, first: u16, parts: u16) -> Option<Vec<u8>> {
        let mut stored = Vec::with_capacity(usize::from(parts) * PAYLOAD_BYTES_MAX);
        let mut head = None;
        for index in first..first + parts {
            self.slots.read(SlotId { set, kind, index }, self.value).ok()?;
            let (header, payload) = Header::read(self.value)?;
            stored.extend_from_slice(payload);
            head = Some(header);
        }
        let head = head?;
        if crc32fast::hash(&stored) != head.whole {
            return None;
        }
        if head.packed { (self.packing.unpack)(&stored) } else { Some(stored) }
    }
}
