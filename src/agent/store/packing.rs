//! zstd level 1 for pages and snapshots, behind the raw length.
//!
//! Level 1 costs a fraction of a millisecond per page and saves about half of
//! the flash writes; higher levels save little more.

use crate::engine::ring::{Packing, STATE_BYTES_MAX};

const LEVEL: i32 = 1;

/// What the agent's store uses.
pub const ZSTD: Packing = Packing { pack, unpack };

fn pack(raw: &[u8]) -> Vec<u8> {
    let mut packed = u32::try_from(raw.len()).expect("at most STATE_BYTES_MAX").to_le_bytes().to_vec();
    // It fails only when memory is short; a result that is not shorter makes
    // the ring store the bytes as they are.
    match zstd::bulk::compress(raw, LEVEL) {
        Ok(body) => packed.extend_from_slice(&body),
        Err(_) => packed.extend_from_slice(raw),
    }
    packed
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
        assert!(pack(&vec![7; 100_000]).len() < 100);
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
