//! Hostile inputs for the formats that read bytes: what a good payload becomes when it is
//! cut, flipped, stretched or told with counts that lie; and a megabyte of nothing.
//!
//! The same inputs on every run. 2,000 of chance, or 1,000,000 with `TIDEGATE_FUZZ=full`.
//! For tests only, and so all of it stands where the tests of other files stand.

#[cfg(test)]
pub(super) use tests::{each, survives};

#[cfg(test)]
mod tests {
    use crate::engine::decode::visit::{Outcome, OwnTime, Scalar, Visit};
    use crate::model::record::RejectReason;
    use crate::model::rng::Rng;

    /// Calls `check` with every input that is made of `seeds`.
    pub(in crate::engine::decode) fn each(seeds: &[&[u8]], mut check: impl FnMut(&[u8])) {
        for seed in seeds {
            (0..=seed.len()).for_each(|cut| check(&seed[..cut]));
            for bit in 0..seed.len() * 8 {
                let mut flipped = seed.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                check(&flipped);
            }
            check(&seed.iter().copied().cycle().take(1 << 20).collect::<Vec<u8>>());
        }
        for byte in [0x00, 0x01, 0x08, 0x12, 0x80, 0xff] {
            check(&vec![byte; 1 << 20]);
        }
        let mut rng = Rng::new(0x7164_6761_7465);
        check(&(0..1 << 20).map(|_| rng.next_u64().to_le_bytes()[0]).collect::<Vec<u8>>());
        let inputs = match std::env::var("TIDEGATE_FUZZ") {
            Ok(word) if word == "full" => 1_000_000,
            Ok(word) => panic!("TIDEGATE_FUZZ is {word:?}; the only word is \"full\""),
            Err(_) => 2_000,
        };
        for _ in 0..inputs {
            let mut bytes = pick(&mut rng, seeds).to_vec();
            (0..rng.between(1, 6)).for_each(|_| mutate(&mut rng, &mut bytes, seeds));
            check(&bytes);
        }
    }

    /// Calls `format` with every such input and sees to it that it tells a tree, to those
    /// who want all of it as to those who want a part.
    pub(in crate::engine::decode) fn survives(
        seeds: &[&[u8]],
        mut format: impl FnMut(&[u8], &mut dyn Visit) -> Outcome,
    ) {
        let mut wants = Rng::new(1);
        each(seeds, |bytes| {
            for picky in [false, true] {
                let mut listener = Listener { depth: 0, wants: picky.then(|| Rng::fork(wants.next_u64(), 0)) };
                let outcome = format(bytes, &mut listener);
                assert!(outcome.is_err() || listener.depth == 0, "as many leaves as enters");
            }
        });
    }

    fn pick<'s>(rng: &mut Rng, seeds: &[&'s [u8]]) -> &'s [u8] {
        seeds[usize::try_from(rng.below(seeds.len() as u64)).expect("a few seeds")]
    }

    fn place(rng: &mut Rng, below: usize) -> usize {
        usize::try_from(rng.below(below as u64)).expect("small")
    }

    fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, seeds: &[&[u8]]) {
        let random = rng.next_u64().to_le_bytes()[0];
        let at = place(rng, bytes.len() + 1);
        match (rng.below(7), bytes.get_mut(at)) {
            (0, Some(byte)) => *byte = random,
            (1, Some(byte)) => *byte = [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff][usize::from(random % 6)],
            (2, Some(byte)) => *byte = byte.wrapping_add(if random & 1 == 0 { 1 } else { 0xff }),
            (3, Some(_)) => drop(bytes.remove(at)),
            (4, _) => bytes.insert(at, random),
            (5, _) => bytes.truncate(at),
            (_, _) => {
                let other = pick(rng, seeds);
                let from = place(rng, other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }

    struct Listener {
        depth: u32,
        /// Nothing: it wants all.
        wants: Option<Rng>,
    }

    impl Visit for Listener {
        fn start_record(&mut self) {
            assert_eq!(self.depth, 0, "a record begins at the top");
        }

        fn enter(&mut self, key: &str) -> bool {
            assert!(key.len() < 1 << 20);
            let wanted = self.wants.as_mut().is_none_or(|rng| !rng.chance(2));
            self.depth += u32::from(wanted);
            wanted
        }

        fn leave(&mut self) {
            self.depth = self.depth.checked_sub(1).expect("as many leaves as enters");
        }

        fn scalar(&mut self, _: Scalar<'_>) {
            assert!(self.depth > 0, "a value has a place");
        }

        fn reject_record(&mut self, _: RejectReason) {}

        fn own_time(&mut self, _: OwnTime<'_>) {}
    }
}
