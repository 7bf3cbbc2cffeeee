//! A seeded source for the tests of this folder.

/// Splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Mostly small, now and then up to `max`.
    pub(crate) fn size(&mut self, max: usize) -> usize {
        let top = [16, 500, 13_000, max][self.below(4)];
        1 + self.below(top.min(max))
    }

    /// Bytes that no other call gives, with runs that a packer can use.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let seed = self.next().to_le_bytes();
        let run = 1 + self.below(40);
        (0..len).map(|at| seed[at % 8] ^ u8::try_from((at / run) % 251).unwrap()).collect()
    }
}
