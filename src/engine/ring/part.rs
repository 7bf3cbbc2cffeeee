//! The value in one slot: a part of a page or of a snapshot.
//!
//! ```text
//! crc32 4 | version 1 | flags 1 | generation 8 | tried 8 | seq 8 | whole 4 | part 2 | parts 2 | payload
//!   └─ over everything after it
//! ```
//!
//! `flags`: bit 0 packed, bit 1 page. `whole` is the checksum of all parts put
//! together, so that parts of two attempts at the same seq never make a page.
//! `tried` is the newest generation that had been attempted when the value was
//! written (see `recover.rs` for what it decides). Little-endian.

use super::slots::SlotKind;
use crate::model::limits::PAGE_BYTES_MAX;

/// Bytes before the payload.
const HEADER_BYTES: usize = 38;
/// Payload bytes of one value.
pub(super) const PAYLOAD_BYTES_MAX: usize = PAGE_BYTES_MAX - HEADER_BYTES;
const VERSION: u8 = 1;
const FLAG_PACKED: u8 = 1;
const FLAG_PAGE: u8 = 2;

/// What a value says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: SlotKind,
    pub(super) packed: bool,
    pub(super) generation: u64,
    pub(super) tried: u64,
    pub(super) seq: u64,
    pub(super) whole: u32,
    pub(super) part: u16,
    pub(super) parts: u16,
}

impl Header {
    /// The header of the `part`-th part of the same whole.
    pub(super) fn sibling(self, part: u16) -> Header {
        Header { part, ..self }
    }

    /// Fills `value` with this header and `payload`.
    pub(super) fn put(self, payload: &[u8], value: &mut Vec<u8>) {
        let mut flags = if self.packed { FLAG_PACKED } else { 0 };
        if self.kind == SlotKind::Page {
            flags |= FLAG_PAGE;
        }
        value.clear();
        value.extend_from_slice(&[0; 4]);
        value.extend_from_slice(&[VERSION, flags]);
        value.extend_from_slice(&self.generation.to_le_bytes());
        value.extend_from_slice(&self.tried.to_le_bytes());
        value.extend_from_slice(&self.seq.to_le_bytes());
        value.extend_from_slice(&self.whole.to_le_bytes());
        value.extend_from_slice(&self.part.to_le_bytes());
        value.extend_from_slice(&self.parts.to_le_bytes());
        value.extend_from_slice(payload);
        let crc = crc32fast::hash(&value[4..]);
        value[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a value; `None` when it is not exactly what `put` made.
    pub(super) fn read(value: &[u8]) -> Option<(Header, &[u8])> {
        let (crc, checked) = value.split_first_chunk::<4>()?;
        if crc32fast::hash(checked) != u32::from_le_bytes(*crc) {
            return None;
        }
        let ([version, flags], rest) = checked.split_first_chunk::<2>()?;
        if *version != VERSION || flags & !(FLAG_PACKED | FLAG_PAGE) != 0 {
            return None;
        }
        let (generation, rest) = rest.split_first_chunk::<8>()?;
        let (tried, rest) = rest.split_first_chunk::<8>()?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        let (whole, rest) = rest.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_first_chunk::<2>()?;
        let (parts, payload) = rest.split_first_chunk::<2>()?;
        let header = Header {
            kind: if flags & FLAG_PAGE == 0 { SlotKind::Snapshot } else { SlotKind::Page },
            packed: flags & FLAG_PACKED != 0,
            generation: u64::from_le_bytes(*generation),
            tried: u64::from_le_bytes(*tried),
            seq: u64::from_le_bytes(*seq),
            whole: u32::from_le_bytes(*whole),
            part: u16::from_le_bytes(*part),
            parts: u16::from_le_bytes(*parts),
        };
        (header.part < header.parts).then_some((header, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: SlotKind::Page,
            packed: true,
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
