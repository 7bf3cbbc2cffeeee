//! Aggregates: add, merge, finish. One file per kind, one line in [`Kind::ALL`].
//!
//! An accumulator sees finite numbers only (the decoder rejects NaN and
//! infinities), in arrival order, which is no particular order.

mod count;
mod first;
mod last;
mod max;
mod mean;
mod min;
mod range;
mod stddev;
mod sum;
mod variance;

use crate::model::time::EventTime;

use super::wire::{Damaged, Reader};

/// What an aggregate has to do.
pub trait Aggregate: Default {
    /// Takes one finite value in, with its event time.
    fn add(&mut self, value: f64, at: EventTime);
    /// Takes in everything that `other` took in. Associative and
    /// commutative but for rounding.
    fn merge(&mut self, other: &Self);
    /// The result; `None` without any value, or when it exceeds a 64-bit float.
    fn finish(&self) -> Option<f64>;
    /// Appends the state for a snapshot.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the state back.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are cut short.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged>;
}

macro_rules! aggregates {
    ($($variant:ident, $file:ident, $word:literal;)*) => {
        /// Kinds of aggregates.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $(#[doc = concat!("`", $word, "`: see `", stringify!($file), ".rs`.")] $variant,)*
        }

        /// The running state of one aggregate over one field of one window.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Accumulator {
            $(#[doc = concat!("State of [`Kind::", stringify!($variant), "`].")] $variant($file::$variant),)*
        }

        impl Kind {
            /// Every kind, in the order of the documentation. Append only: the
            /// place is the persisted tag.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)*];

            /// The word used in configuration and output.
            pub const fn as_str(self) -> &'static str {
                match self { $(Kind::$variant => $word,)* }
            }

            /// An accumulator that has seen nothing.
            pub fn start(self) -> Accumulator {
                match self { $(Kind::$variant => Accumulator::$variant($file::$variant::default()),)* }
            }

            /// Reads an accumulator of this kind.
            ///
            /// # Errors
            /// [`Damaged`] when the bytes are cut short.
            pub fn read(self, reader: &mut Reader<'_>) -> Result<Accumulator, Damaged> {
                Ok(match self { $(Kind::$variant => Accumulator::$variant($file::$variant::read(reader)?),)* })
            }
        }

        impl Accumulator {
            /// Takes one finite value in, with its event time.
            #[inline]
            pub fn add(&mut self, value: f64, at: EventTime) {
                match self { $(Accumulator::$variant(state) => state.add(value, at),)* }
            }

            /// Takes in everything that `other`, of the same kind, took in.
            pub fn merge(&mut self, other: &Accumulator) {
                match (self, other) {
                    $((Accumulator::$variant(state), Accumulator::$variant(other)) => state.merge(other),)*
                    (state, other) => unreachable!("accumulators of one pane share their kind: {state:?}, {other:?}"),
                }
            }

            /// The result, if there is one.
            pub fn finish(&self) -> Option<f64> {
                match self { $(Accumulator::$variant(state) => state.finish(),)* }
            }

            /// Appends the state for a snapshot, without its kind.
            pub fn write(&self, out: &mut Vec<u8>) {
                match self { $(Accumulator::$variant(state) => state.write(out),)* }
            }
        }
    };
}

aggregates! {
    Count, count, "count";
    Sum, sum, "sum";
    Mean, mean, "mean";
    Min, min, "min";
    Max, max, "max";
    First, first, "first";
    Last, last, "last";
    Range, range, "range";
    Variance, variance, "variance";
    Stddev, stddev, "stddev";
}

/// What is computed for every field of a window, in this order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Aggregates {
    /// Not empty in a checked configuration; no kind appears twice.
    pub kinds: Vec<Kind>,
}

impl Aggregates {
    /// These kinds.
    pub fn of(kinds: &[Kind]) -> Aggregates {
        Aggregates { kinds: kinds.to_vec() }
    }

    /// Number of kinds.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Accumulators of one field that have seen nothing.
    pub fn start(&self) -> impl Iterator<Item = Accumulator> {
        self.kinds.iter().map(|kind| kind.start())
    }

    /// Reads the accumulator at `place`.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are cut short.
    pub fn read(&self, place: usize, reader: &mut Reader<'_>) -> Result<Accumulator, Damaged> {
        self.kinds[place].read(reader)
    }
}

impl Kind {
    /// The kind of that name.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// Whether the result depends on the order of the values in time, so that late ones
    /// cannot be merged into what is published.
    pub fn is_order_dependent(self) -> bool {
        false
    }

    /// The persisted tag.
    pub fn tag(self) -> u8 {
        self as u8
    }

    /// The kind of that tag.
    pub fn from_tag(tag: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(tag)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accumulate(kind: Kind, values: &[(f64, i64)]) -> Accumulator {
        let mut accumulator = kind.start();
        for (value, at) in values {
            accumulator.add(*value, EventTime::from_millis(*at));
        }
        accumulator
    }

    #[test]
    fn every_aggregate_gives_the_plain_result_merges_and_survives_persistence() {
        let values = [(2.5, 30), (-1.0, 10), (4.0, 40), (0.25, 20)];
        let expected = [
            ("count", 4.0),
            ("sum", 5.75),
            ("mean", 1.4375),
            ("min", -1.0),
            ("max", 4.0),
            ("first", -1.0),
            ("last", 4.0),
            ("range", 5.0),
            ("variance", 5.015_625),
            ("stddev", 2.239_559_108_396_114_6),
        ];
        assert_eq!(Kind::ALL.len(), expected.len(), "a new kind needs a line here");
        for (word, result) in expected {
            let kind = Kind::parse(word).expect("listed");
            assert_eq!(Kind::from_tag(kind.tag()), Some(kind));
            let whole = accumulate(kind, &values);
            let is_close =
                |found: Option<f64>| found.is_some_and(|found| (found - result).abs() <= result.abs() * 1e-15);
            assert!(is_close(whole.finish()), "{word}: {:?}", whole.finish());

            for split in 0..=values.len() {
                let mut left = accumulate(kind, &values[..split]);
                left.merge(&accumulate(kind, &values[split..]));
                assert!(is_close(left.finish()), "{word} merged at {split}: {:?}", left.finish());
            }

            let mut bytes = Vec::new();
            whole.write(&mut bytes);
            assert_eq!(kind.read(&mut Reader::new(&bytes)), Ok(whole), "{word}");
            assert_eq!(kind.read(&mut Reader::new(&bytes[..bytes.len() - 1])), Err(Damaged), "{word} cut short");
        }
    }

    #[test]
    fn nothing_in_means_no_result_but_for_the_count() {
        for kind in Kind::ALL {
            let expected = (*kind == Kind::Count).then_some(0.0);
            assert_eq!(kind.start().finish(), expected, "{}", kind.as_str());
        }
    }
}
