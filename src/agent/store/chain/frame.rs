//! The value in the databases of a chain: a part of one block.
//!
//! ```text
//! magic 4 | crc32 4 | version 1 | flags 1 | lane 1 | 0 | part 2 | parts 2 |
//!             └─ over everything after it    number 8 | whole 4 | len 4 | payload len
//! ```
//!
//! `flags`: bit 0 packed. `whole` is the checksum of all parts put together.
//! Little-endian. A frame says what it is and how long, so that it is found in the
//! raw bytes of a database and is never taken for another.

use crate::model::limits::PAGE_BYTES_MAX;

use super::super::packing::ZSTD;

/// Bytes before the payload.
const HEADER_BYTES: usize = 32;
/// Payload of one frame: what the database keeps in its own file (`PAGE_BYTES_MAX`).
const PAYLOAD_BYTES_MAX: usize = PAGE_BYTES_MAX - HEADER_BYTES;
/// Bytes of the longest frame.
pub(super) const FRAME_BYTES_MAX: usize = PAGE_BYTES_MAX;
pub(super) const MAGIC: [u8; 4] = *b"tgB\x01";
const VERSION: u8 = 1;
const FLAG_PACKED: u8 = 1;

/// What a frame says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) packed: bool,
    pub(super) lane: u8,
    pub(super) part: u16,
    pub(super) parts: u16,
    pub(super) number: u64,
    pub(super) whole: u32,
}

/// A block as frames, packed where that makes it shorter. `None`: larger than a
/// chain can take.
pub(super) fn frames(lane: u8, number: u64, block: &[u8]) -> Option<Vec<Vec<u8>>> {
    let shorter = (ZSTD.pack)(block);
    let packed = shorter.len() < block.len();
    let stored = if packed { &shorter[..] } else { block };
    let parts = u16::try_from(stored.len().div_ceil(PAYLOAD_BYTES_MAX).max(1)).ok()?;
    let whole = crc32fast::hash(stored);
    let frame = |part: u16| {
        let from = usize::from(part) * PAYLOAD_BYTES_MAX;
        let payload = &stored[from..stored.len().min(from + PAYLOAD_BYTES_MAX)];
        Header { packed, lane, part, parts, number, whole }.frame(payload)
    };
    Some((0..parts).map(frame).collect())
}

/// The block behind its parts put together; `None` when it is not what was appended.
pub(super) fn unpack(header: Header, stored: Vec<u8>) -> Option<Vec<u8>> {
    if crc32fast::hash(&stored) != header.whole {
        return None;
    }
    if header.packed { (ZSTD.unpack)(&stored) } else { Some(stored) }
}

impl Header {
    fn frame(self, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
        frame.extend_from_slice(&MAGIC);
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&[VERSION, if self.packed { FLAG_PACKED } else { 0 }, self.lane, 0]);
        frame.extend_from_slice(&self.part.to_le_bytes());
        frame.extend_from_slice(&self.parts.to_le_bytes());
        frame.extend_from_slice(&self.number.to_le_bytes());
        frame.extend_from_slice(&self.whole.to_le_bytes());
        frame.extend_from_slice(&u32::try_from(payload.len()).expect("at most PAYLOAD_BYTES_MAX").to_le_bytes());
        frame.extend_from_slice(payload);
        let crc = crc32fast::hash(&frame[8..]);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        frame
    }

    /// Reads a frame at the start of `bytes`, whatever follows it.
    pub(super) fn read_prefix(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        let ([version, flags, lane, zero], fields) = rest.split_first_chunk::<4>()?;
        let (part, fields) = fields.split_first_chunk::<2>()?;
        let (parts, fields) = fields.split_first_chunk::<2>()?;
        let (number, fields) = fields.split_first_chunk::<8>()?;
        let (whole, fields) = fields.split_first_chunk::<4>()?;
        let (len, payload) = fields.split_first_chunk::<4>()?;
        if *version != VERSION || flags & !FLAG_PACKED != 0 || *zero != 0 {
            return None;
        }
        let len = usize::try_from(u32::from_le_bytes(*len)).ok().filter(|len| *len <= PAYLOAD_BYTES_MAX)?;
        let payload = payload.get(..len)?;
        if crc32fast::hash(&rest[..HEADER_BYTES - 8 + len]) != u32::from_le_bytes(*crc) {
            return None;
        }
        let header = Header {
            packed: flags & FLAG_PACKED != 0,
            lane: *lane,
            part: u16::from_le_bytes(*part),
            parts: u16::from_le_bytes(*parts),
            number: u64::from_le_bytes(*number),
            whole: u32::from_le_bytes(*whole),
        };
        (header.part < header.parts).then_some((header, payload))
    }
}

/// Bytes that a frame with this payload takes.
pub(super) fn frame_len(payload: &[u8]) -> usize {
    HEADER_BYTES + payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn blocks_of_every_size_come_back() {
        for block in [vec![], vec![7], vec![7; 100_000], noise(32 * 1024), noise(PAYLOAD_BYTES_MAX), noise(300_000)] {
            let frames = frames(3, 99, &block).unwrap();
            assert!(frames.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
            let mut stored = Vec::new();
            for (part, frame) in frames.iter().enumerate() {
                let (header, payload) =
                    Header::read_prefix(&[&frame[..], b"after"].concat()).map(|(h, p)| (h, p.to_vec())).unwrap();
                assert_eq!((header.lane, header.number, usize::from(header.part)), (3, 99, part));
                assert_eq!(usize::from(header.parts), frames.len());
                assert_eq!(frame_len(&payload), frame.len());
                stored.extend(payload);
            }
            let (header, _) = Header::read_prefix(&frames[0]).unwrap();
            assert_eq!(unpack(header, stored), Some(block));
        }
    }

    #[test]
    fn any_damage_is_noticed() {
        let frame = &frames(3, 99, b"some bytes").unwrap()[0];
        for at in 0..frame.len() {
            assert_eq!(Header::read_prefix(&frame[..at]), None, "cut at {at}");
            for bit in 0..8 {
                let mut flipped = frame.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(Header::read_prefix(&flipped), None, "bit {bit} of byte {at}");
            }
        }
    }
}
