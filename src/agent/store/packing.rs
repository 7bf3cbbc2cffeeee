//! zstd level 1 for pages and snapshots, behind the raw length.
//!
//! Level 1 costs a fraction of a millisecond per page and saves about half of
//! the flash writes; higher levels save little more. A page is packed in blocks of 4 KiB:
//! each gets a code of its own, and columns that are small numbers are not coded with those
//! that are noise. That saves a sixteenth of a page of 1,000 readings, more than level 3.

use std::io::{self, Write as _};

use zstd::stream::write::Encoder;

use crate::engine::ring::{Packer, Packing, STATE_BYTES_MAX};

const LEVEL: i32 = 1;
const BLOCK_BYTES: usize = 4 * 1024;
const LENGTH_BYTES: usize = size_of::<u32>();

/// What the agent's store uses.
pub const ZSTD: Packing = Packing { pack, unpack, pieces: Some(|| Box::new(Pieces::new())) };

fn pack(raw: &[u8]) -> Vec<u8> {
    let mut packed = u32::try_from(raw.len()).expect("at most STATE_BYTES_MAX").to_le_bytes().to_vec();
    // It fails only when memory is short; a result that is not shorter makes
    // the ring store the bytes as they are.
    match in_blocks(raw) {
        Ok(body) => packed.extend_from_slice(&body),
        Err(_) => packed.extend_from_slice(raw),
    }
    packed
}

fn in_blocks(raw: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
    encoder.set_pledged_src_size(Some(raw.len() as u64))?;
    for block in raw.chunks(BLOCK_BYTES) {
        encoder.write_all(block)?;
        encoder.flush()?;
    }
    encoder.finish()
}

/// The same form, of what comes in pieces.
struct Pieces {
    /// Behind room for the raw length. `None`: it failed, memory is short.
    encoder: Option<Encoder<'static, Vec<u8>>>,
    raw_len: usize,
}

impl Pieces {
    fn new() -> Pieces {
        Pieces { encoder: Encoder::new(vec![0; LENGTH_BYTES], LEVEL).ok(), raw_len: 0 }
    }
}

impl Packer for Pieces {
    fn push(&mut self, piece: &[u8]) {
        self.raw_len += piece.len();
        if let Some(encoder) = &mut self.encoder
            && encoder.write_all(piece).is_err()
        {
            self.encoder = None;
        }
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        let mut packed = self.encoder?.finish().ok()?;
        packed[..LENGTH_BYTES].copy_from_slice(&u32::try_from(self.raw_len).ok()?.to_le_bytes());
        Some(packed)
    }
}

/// The claimed length bounds the memory, and is itself bounded.
fn unpack(stored: &[u8]) -> Option<Vec<u8>> {
    let (len, body) = stored.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok().filter(|len| *len <= STATE_BYTES_MAX)?;
    let raw = zstd::bulk::decompress(body, len).ok()?;
    (raw.len() == len).then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_repetition_shrinks() {
        for raw in [vec![], vec![1], vec![7; 100_000]] {
            assert_eq!(unpack(&pack(&raw)), Some(raw));
        }
        assert!(pack(&vec![7; 100_000]).len() < 1_000);
    }

    #[test]
    fn pieces_come_back_as_one() {
        let long = vec![7; 300_000];
        let mut pieces = (ZSTD.pieces.expect("in pieces"))();
        for piece in [&b"some"[..], b"", &long, b"more"] {
            pieces.push(piece);
        }
        let packed = pieces.finish().expect("memory is there");
        assert_eq!(unpack(&packed), Some([&b"some"[..], &long, b"more"].concat()));
        assert!(packed.len() < 200);
        let nothing = (ZSTD.pieces.expect("in pieces"))().finish().expect("memory is there");
        assert_eq!(unpack(&nothing), Some(Vec::new()));
    }

    #[test]
    fn a_bomb_and_garbage_are_refused() {
        let bomb = zstd::bulk::compress(&vec![0; STATE_BYTES_MAX + 1], LEVEL).unwrap();
        for claim in [0, 1_000, u32::try_from(STATE_BYTES_MAX).unwrap(), u32::MAX] {
            let mut stored = claim.to_le_bytes().to_vec();
            stored.extend_from_slice(&bomb);
            assert_eq!(unpack(&stored), None, "claims {claim}");
        }
        let whole = pack(&[7; 1_000]);
        for len in 0..whole.len() {
            assert_eq!(unpack(&whole[..len]), None);
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            unpack(&flipped);
        }
    }
}
