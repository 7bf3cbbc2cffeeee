//! What `distinct` counts values by: the same bits on every machine and every gateway,
//! so that sketches can be merged. Part of the published form: never change it.
//!
//! Numbers: their IEEE 754 bits, -0.0 as 0.0. Text: 64-bit FNV-1a of the UTF-8 bytes.
//! Both are then mixed by the finaliser of `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).

/// Of a finite number.
#[inline]
pub fn of_number(value: f64) -> u64 {
    // Adding zero turns -0.0 into 0.0 and leaves the rest.
    mix((value + 0.0).to_bits())
}

/// Of a text.
pub fn of_text(text: &str) -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
}

#[inline]
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_hashes_never_change() {
        assert_eq!(of_number(0.0), 0xe220_a839_7b1d_cdaf, "the first output of SplitMix64 seeded with 0");
        assert_eq!(of_number(-0.0), of_number(0.0));
        assert_eq!(of_text(""), mix(0xcbf2_9ce4_8422_2325));
        assert_ne!(of_text("on"), of_text("off"));
    }
}
