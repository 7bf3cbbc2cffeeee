//! Windows that may not be opened again, because their ids were used under a
//! definition of before.
//!
//! A window that is opened twice counts its revisions from 0 twice, with other
//! content: a receiver would keep whichever came first, and lose the other. So
//! when a window's size or offset changes under its name, when the name goes away,
//! or when `lateness` grows (what has expired would open again), a fence is set for
//! each device: windows of that name which start at or before it stay shut, and
//! their records go to lane `late` as `redefined`.
//!
//! Fences change at a start only, which is followed by a snapshot: pages know
//! nothing of them, but that those of a slot go when the slot is freed. Not covered: a stream that is taken out and put back.

use std::collections::BTreeMap;

use crate::model::ids::Name;
use crate::model::time::EventTime;

use super::wire::{Damaged, Reader, put_i64, put_str, put_u64};

/// Names with fences in one stream; the oldest goes first.
const NAMES_MAX: usize = 16;

/// The fences of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Fences(Vec<Fence>);

#[derive(Clone, Debug)]
struct Fence {
    window: Name,
    /// By the slot of the device: the last start that is shut.
    until: BTreeMap<u32, EventTime>,
}

impl Fences {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shuts the windows of a device that start at `until` or before.
    pub(super) fn shut(&mut self, window: &Name, slot: u32, until: EventTime) {
        let place = self.0.iter().position(|fence| fence.window == *window).unwrap_or_else(|| {
            if self.0.len() >= NAMES_MAX {
                self.0.remove(0);
            }
            self.0.push(Fence { window: window.clone(), until: BTreeMap::new() });
            self.0.len() - 1
        });
        let known = self.0[place].until.entry(slot).or_insert(until);
        *known = until.max(*known);
    }

    /// True for a window that may not be opened.
    pub(super) fn stops(&self, window: &Name, slot: u32, start: EventTime) -> bool {
        self.0
            .iter()
            .any(|fence| fence.window == *window && fence.until.get(&slot).is_some_and(|until| start <= *until))
    }

    /// The fences of a slot.
    pub(super) fn of(&self, slot: u32) -> impl Iterator<Item = (&Name, EventTime)> {
        self.0.iter().filter_map(move |fence| Some((&fence.window, *fence.until.get(&slot)?)))
    }

    /// The slot is another device's from now on.
    pub(super) fn forget(&mut self, slot: u32) {
        for fence in &mut self.0 {
            fence.until.remove(&slot);
        }
    }

    /// Keeps the fences for which `is_needed` says so.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&Name, u32, EventTime) -> bool) {
        for fence in &mut self.0 {
            let window = &fence.window;
            fence.until.retain(|slot, until| is_needed(window, *slot, *until));
        }
        self.0.retain(|fence| !fence.until.is_empty());
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        for fence in &self.0 {
            put_str(out, fence.window.as_str());
            put_u64(out, fence.until.len() as u64);
            for (slot, until) in &fence.until {
                put_u64(out, u64::from(*slot));
                put_i64(out, until.as_millis());
            }
        }
    }

    /// Reads what [`Fences::write`] wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are no fences.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Fences, Damaged> {
        let mut fences = Fences::default();
        for _ in 0..reader.u64()? {
            let window = Name::new(reader.str()?).ok_or(Damaged)?;
            for _ in 0..reader.u64()? {
                let (slot, until) = (reader.uint()?, EventTime::from_millis(reader.i64()?));
                fences.shut(&window, slot, until);
            }
        }
        Ok(fences)
    }
}
