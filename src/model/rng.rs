//! The one source of chance, for fleets, faults, back-off and tests: splitmix64, so
//! that a seed names a run on every machine and for every version of every library.
//!
//! Algorithm: Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators" (2014), the 64-bit mix of its reference code. Not for secrets.

/// A seeded sequence of numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence that `seed` names.
    pub const fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// A sequence of its own for `part`, which does not move when another part
    /// draws more or fewer numbers.
    #[must_use]
    pub fn fork(seed: u64, part: u64) -> Rng {
        let mut rng = Rng::new(seed ^ part.wrapping_mul(0xA24B_AED4_963E_E407));
        Rng::new(rng.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0 .. bound`; 0 when `bound` is 0. Multiply-shift (Lemire):
    /// the bias is below 2^-32 for the bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of a 128-bit product has 64 bits")
    }

    /// A number in `low ..= high`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True once in `one_in` times on average; never for 0.
    pub fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.below(one_in) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // First outputs for seed 1234567 of the reference implementation.
        let mut rng = Rng::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut rng = Rng::new(7);
        let drawn: Vec<u64> = (0..1_000).map(|_| rng.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(9, 2), 9);
        assert!((0..1_000).all(|_| !rng.chance(0)));
    }

    #[test]
    fn parts_of_one_seed_differ() {
        assert_ne!(Rng::fork(1, 0).next_u64(), Rng::fork(1, 1).next_u64());
        assert_eq!(Rng::fork(1, 1).next_u64(), Rng::fork(1, 1).next_u64());
    }
}
