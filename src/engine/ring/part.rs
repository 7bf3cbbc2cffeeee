//! The value in one slot: a part of a page or of a snapshot.
//!
//! ```text
//! crc32 4 | version 1 | flags 1 | len 2 | first 2 | part 2 | parts 2 | whole 4 |
//!   └─ over everything after it      generation 8 | tried 8 | seq 8 | payload len
//! ```
//!
//! `flags`: bit 0 packed, bit 1 page, bit 2 set B. `first` is the slot of part
//! 0. `whole` is the checksum of all parts put together, so that parts of two
//! attempts at the same seq never make a page. `tried` is the newest generation
//! that had been attempted when the value was written (see `recover.rs` for
//! what it decides). Little-endian.
//!
//! A value tells its slot and its length, so that it can be found in the raw
//! bytes of a database that no longer opens.

use super::slots::{Set, SlotId, SlotKind};
use crate::model::limits::PAGE_BYTES_MAX;

/// Bytes before the payload.
pub(super) const HEADER_BYTES: usize = 42;
/// Payload bytes of one value.
pub(super) const PAYLOAD_BYTES_MAX: usize = PAGE_BYTES_MAX - HEADER_BYTES;
const VERSION: u8 = 1;
const FLAG_PACKED: u8 = 1;
const FLAG_PAGE: u8 = 2;
const FLAG_SET_B: u8 = 4;

/// What a value says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) set: Set,
    pub(super) kind: SlotKind,
    pub(super) packed: bool,
    /// The slot of part 0.
    pub(super) first: u16,
    pub(super) part: u16,
    pub(super) parts: u16,
    pub(super) whole: u32,
    pub(super) generation: u64,
    pub(super) tried: u64,
    pub(super) seq: u64,
}

impl Header {
    /// The header of the `part`-th part of the same whole.
    pub(super) fn sibling(self, part: u16) -> Header {
        Header { part, ..self }
    }

    /// Where the value belongs.
    pub(super) fn slot(self) -> SlotId {
        SlotId { set: self.set, kind: self.kind, index: self.first + self.part }
    }

    /// Fills `value` with this header and `payload`.
    pub(super) fn put(self, payload: &[u8], value: &mut Vec<u8>) {
        let mut flags = if self.packed { FLAG_PACKED } else { 0 };
        if self.kind == SlotKind::Page {
            flags |= FLAG_PAGE;
        }
        if self.set == Set::B {
            flags |= FLAG_SET_B;
        }
        let len = u16::try_from(payload.len()).expect("at most PAYLOAD_BYTES_MAX");
        value.clear();
        value.extend_from_slice(&[0; 4]);
        value.extend_from_slice(&[VERSION, flags]);
        for number in [len, self.first, self.part, self.parts] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        value.extend_from_slice(&self.whole.to_le_bytes());
        for number in [self.generation, self.tried, self.seq] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        value.extend_from_slice(payload);
        let crc = crc32fast::hash(&value[4..]);
        value[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a value; `None` when it is not exactly what `put` made.
    pub(super) fn read(value: &[u8]) -> Option<(Header, &[u8])> {
        let (header, payload) = Header::read_prefix(value)?;
        (HEADER_BYTES + payload.len() == value.len()).then_some((header, payload))
    }

    /// Reads a value at the start of `bytes`, whatever follows it.
    pub(super) fn read_prefix(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (crc, rest) = bytes.split_first_chunk::<4>()?;
        let ([version, flags], rest) = rest.split_first_chunk::<2>()?;
        // Before the checksum: raw bytes are tried at every place.
        if *version != VERSION || flags & !(FLAG_PACKED | FLAG_PAGE | FLAG_SET_B) != 0 {
            return None;
        }
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (first, rest) = rest.split_first_chunk::<2>()?;
        let (part, rest) = rest.split_first_chunk::<2>()?;
        let (parts, rest) = rest.split_first_chunk::<2>()?;
        let (whole, rest) = rest.split_first_chunk::<4>()?;
        let (generation, rest) = rest.split_first_chunk::<8>()?;
        let (tried, rest) = rest.split_first_chunk::<8>()?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        let payload = rest.get(..usize::from(u16::from_le_bytes(*len)))?;
        let header = Header {
            set: if flags & FLAG_SET_B == 0 { Set::A } else { Set::B },
            kind: if flags & FLAG_PAGE == 0 { SlotKind::Snapshot } else { SlotKind::Page },
            packed: flags & FLAG_PACKED != 0,
            first: u16::from_le_bytes(*first),
            part: u16::from_le_bytes(*part),
            parts: u16::from_le_bytes(*parts),
            whole: u32::from_le_bytes(*whole),
            generation: u64::from_le_bytes(*generation),
            tried: u64::from_le_bytes(*tried),
            seq: u64::from_le_bytes(*seq),
        };
        if header.part >= header.parts || header.first.checked_add(header.parts)? > SlotId::INDEX_END {
            return None;
        }
        let checked = bytes.get(4..HEADER_BYTES + payload.len())?;
        (crc32fast::hash(checked) == u32::from_le_bytes(*crc)).then_some((header, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            set: Set::B,
            kind: SlotKind::Page,
            packed: true,
            first: 5,
            generation: 3,
            tried: 4,
            seq: 1 << 40,
            whole: 77,
            part: 1,
            parts: 2,
        }
    }

    #[test]
    fn a_value_reads_back_as_written_and_any_flipped_bit_is_noticed() {
        let mut value = Vec::new();
        header().put(b"payload", &mut value);
        assert_eq!(Header::read(&value), Some((header(), &b"payload"[..])));
        assert_eq!(header().slot(), SlotId { set: Set::B, kind: SlotKind::Page, index: 6 });

        for bit in 0..value.len() * 8 {
            value[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(&value), None, "bit {bit}");
            value[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_value_cut_short_anywhere_is_noticed() {
        let mut value = Vec::new();
        header().put(b"", &mut value);
        assert_eq!(value.len(), HEADER_BYTES);
        for len in 0..value.len() {
            assert_eq!(Header::read(&value[..len]), None);
        }
    }
}
