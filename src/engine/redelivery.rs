//! Recognising a redelivery: a message that the broker sends again because it
//! never saw our acknowledgement, although its consequences are durable.
//!
//! In a resumed session, a message with DUP set whose packet id, topic and
//! payload are those last taken in under that id is a redelivery. Separate
//! messages are never merged, however alike: without DUP nothing is compared.
//! A broker that lost its own memory of our acks resends unmarked; nothing can
//! tell that from a new message.

use std::collections::VecDeque;

use core::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

use crate::model::limits::REDELIVERY_LEN;

use super::wire::{Damaged, Reader, put_u64};

/// What was last taken in under each packet id, the newest `REDELIVERY_LEN` of
/// them. Full: the oldest is forgotten; it was acknowledged long ago.
#[derive(Clone, Debug)]
pub struct Redelivery {
    /// Fingerprint by packet id; 0: none.
    last: Box<[u32]>,
    /// Packet ids in the order in which they were taken in.
    order: VecDeque<u16>,
    uncommitted: Vec<(u16, u32)>,
    forget_before_uncommitted: bool,
}

impl Default for Redelivery {
    fn default() -> Redelivery {
        Redelivery {
            last: vec![0; usize::from(u16::MAX) + 1].into_boxed_slice(),
            order: VecDeque::new(),
            uncommitted: Vec::new(),
            forget_before_uncommitted: false,
        }
    }
}

/// A 32-bit fingerprint of a message, never 0. A false match needs DUP, the same
/// packet id and a chance of 1 in 4 billion.
pub fn fingerprint(topic: &str, payload: &[u8]) -> u32 {
    let mut hasher = FixedState::with_seed(0x6475_7000).build_hasher();
    hasher.write(topic.as_bytes());
    hasher.write_u8(0xff);
    hasher.write(payload);
    let hash = hasher.finish();
    u32::try_from((hash ^ (hash >> 32)) & 0xffff_ffff).expect("masked to 32 bits").max(1)
}

impl Redelivery {
    /// True when this is what was last taken in under `packet`.
    pub fn is_known(&self, packet: u16, fingerprint: u32) -> bool {
        self.last[usize::from(packet)] == fingerprint
    }

    /// Remembers a message that is being taken in.
    pub fn remember(&mut self, packet: u16, fingerprint: u32) {
        self.insert(packet, fingerprint);
        self.uncommitted.push((packet, fingerprint));
    }

    /// The broker has no session: its packet ids start anew.
    pub fn forget_all(&mut self) {
        self.last.fill(0);
        self.order.clear();
        self.uncommitted.clear();
        self.forget_before_uncommitted = true;
    }

    fn insert(&mut self, packet: u16, fingerprint: u32) {
        let known = core::mem::replace(&mut self.last[usize::from(packet)], fingerprint);
        if known != 0
            && let Some(at) = self.position_of(packet)
        {
            self.order.remove(at);
        }
        self.order.push_back(packet);
        if self.order.len() > REDELIVERY_LEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.last[usize::from(oldest)] = 0;
        }
    }

    /// Brokers count packet ids upwards or reuse a few low ones: either way the
    /// one that comes again is the oldest, or among few.
    fn position_of(&self, packet: u16) -> Option<usize> {
        self.order.iter().position(|known| *known == packet)
    }

    /// Appends what changed since the last commit.
    pub(super) fn write_changes(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.forget_before_uncommitted));
        write_entries(out, self.uncommitted.iter().copied());
    }

    /// What changed is durable.
    pub(super) fn mark_committed(&mut self) {
        self.uncommitted.clear();
        self.forget_before_uncommitted = false;
    }

    /// Appends everything.
    pub(super) fn write_all(&self, out: &mut Vec<u8>) {
        out.push(1);
        write_entries(out, self.order.iter().map(|packet| (*packet, self.last[usize::from(*packet)])));
    }

    /// Reads what either of them wrote.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        if reader.u8()? == 1 {
            self.forget_all();
        }
        let count = reader.u64()?;
        let mut packet = 0_u16;
        for _ in 0..count {
            let step: u16 = reader.uint()?;
            packet = packet.wrapping_add(step);
            let mut bytes = [0; 4];
            for byte in &mut bytes {
                *byte = reader.u8()?;
            }
            self.insert(packet, u32::from_le_bytes(bytes));
        }
        self.mark_committed();
        Ok(())
    }

    /// True when nothing would be written.
    pub(super) fn is_committed(&self) -> bool {
        self.uncommitted.is_empty() && !self.forget_before_uncommitted
    }
}

/// Packet ids usually count upwards: the step to the next one is one byte.
fn write_entries(out: &mut Vec<u8>, entries: impl ExactSizeIterator<Item = (u16, u32)>) {
    put_u64(out, entries.len() as u64);
    let mut previous = 0_u16;
    for (packet, fingerprint) in entries {
        put_u64(out, u64::from(packet.wrapping_sub(previous)));
        out.extend_from_slice(&fingerprint.to_le_bytes());
        previous = packet;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_message_under_the_same_id_is_known_and_nothing_else() {
        let mut seen = Redelivery::default();
        let print = fingerprint("t", b"21.5");
        seen.remember(7, print);
        assert!(seen.is_known(7, print));
        assert!(!seen.is_known(8, print));
        assert!(!seen.is_known(7, fingerprint("t", b"21.6")));
        assert_ne!(fingerprint("ta", b"b"), fingerprint("t", b"ab"));
        seen.remember(7, fingerprint("t", b"22"));
        assert!(!seen.is_known(7, print), "the id was used again since");
    }

    #[test]
    fn the_memory_is_bounded_and_survives_persistence() {
        let mut seen = Redelivery::default();
        for packet in 1..=u16::MAX {
            seen.remember(packet, u32::from(packet));
        }
        seen.remember(1, 77);
        assert_eq!(seen.order.len(), REDELIVERY_LEN);
        assert!(!seen.is_known(2, 2), "forgotten");

        let (mut changes, mut all) = (Vec::new(), Vec::new());
        seen.write_all(&mut all);
        seen.write_changes(&mut changes);
        seen.mark_committed();
        assert!(seen.is_committed());
        for bytes in [all, changes] {
            let mut restored = Redelivery::default();
            restored.read(&mut Reader::new(&bytes)).expect("what was written");
            assert_eq!(restored.order, seen.order);
            assert_eq!(restored.last, seen.last);
        }
        seen.forget_all();
        assert!(!seen.is_known(1, 77));
    }
}
