//! zstd for batches: a metered uplink pays for bytes. The magic number at the front of every
//! frame can begin neither JSON nor a CBOR map, so a receiver needs no other sign.

/// Level 3: batches are text that repeats itself, and the processor has time for it.
const LEVEL: i32 = 3;
/// At the front of every zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes of an unpacked payload. Far above any envelope, and small enough for a receiver that
/// is sent a bomb.
const UNPACKED_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// The payload as one zstd frame; as it is when that would not be shorter.
pub fn pack(payload: &[u8]) -> Vec<u8> {
    match zstd::bulk::compress(payload, LEVEL) {
        Ok(packed) if packed.len() < payload.len() => packed,
        // It fails only when memory is short.
        Ok(_) | Err(_) => payload.to_vec(),
    }
}

/// Whether [`pack`] has made it.
pub fn is_packed(payload: &[u8]) -> bool {
    payload.starts_with(&MAGIC)
}

/// What [`pack`] was given; `None` when the frame is damaged or holds too much.
pub fn unpack(payload: &[u8]) -> Option<Vec<u8>> {
    if is_packed(payload) { zstd::bulk::decompress(payload, UNPACKED_BYTES_MAX).ok() } else { Some(payload.to_vec()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_comes_back_and_says_itself_whether_it_is_packed() {
        let envelope = br#"{"v":1,"gw":"g","epoch":1,"lane":"live","records":[]}"#.repeat(100);
        let packed = pack(&envelope);
        assert!(is_packed(&packed) && packed.len() * 10 < envelope.len(), "{}", packed.len());
        assert_eq!(unpack(&packed), Some(envelope));
        for short in [&b"{}"[..], b"\xa0", b""] {
            assert_eq!(pack(short), short, "no shorter: as it is");
            assert_eq!(unpack(short).as_deref(), Some(short));
        }
    }

    #[test]
    fn a_bomb_and_garbage_are_refused() {
        let bomb = pack(&vec![0; UNPACKED_BYTES_MAX + 1]);
        assert_eq!(unpack(&bomb), None);
        let packed = pack(&[7; 1_000]);
        for len in 4..packed.len() {
            assert_eq!(unpack(&packed[..len]), None, "{len}");
        }
        for bit in 0..packed.len() * 8 {
            let mut flipped = packed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            unpack(&flipped);
        }
    }
}
