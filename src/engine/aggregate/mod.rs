//! Aggregates: add, merge, finish. One file per kind, one line in the list below.
//!
//! An accumulator sees finite numbers only (the decoder rejects NaN and
//! infinities), in arrival order, which is no particular order. Of a field of type
//! `state` it sees states instead; kinds that are of numbers do not take those in.
//!
//! Most accumulators have a fixed size. Those that grow (sketches, ordered points) say
//! what they hold, and are told how much more they may: an accumulator that may not grow
//! goes on with less, and says that its result is approximate.

mod aggregates;
mod count;
mod distinct;
mod durations;
mod finished;
mod first;
pub mod hash;
mod histogram;
mod increase;
mod last;
mod max;
mod mean;
mod min;
mod points;
pub mod published;
mod quantiles;
mod range;
mod rate;
mod stddev;
mod sum;
mod time_weighted_mean;
mod variance;

use crate::model::ids::StateIx;
use crate::model::time::EventTime;

use super::states::StateTable;
use super::wire::{Damaged, Reader};

use self::published::{Malformed, Published};

pub use aggregates::{Aggregates, Quantile};
pub use finished::{Finish, Finished};
pub use histogram::Bounds;

/// A state of a field, in the table that gives it its text.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Its place.
    pub place: StateIx,
    /// The stream's states.
    pub states: &'a StateTable,
}

/// What an aggregate has to do.
pub trait Aggregate: Default {
    /// Takes one finite value in, with its event time.
    fn add(&mut self, value: f64, at: EventTime);
    /// The same, for kinds that grow: `room` is the number of bytes by which
    /// [`Aggregate::held`] may rise.
    #[inline]
    fn add_within(&mut self, value: f64, at: EventTime, room: usize) {
        let _ = room;
        self.add(value, at);
    }
    /// Takes one state in. Kinds that are of numbers do not.
    fn add_state(&mut self, state: State<'_>, at: EventTime, room: usize) {
        let _ = (state, at, room);
    }
    /// Takes in everything that `other` took in. Associative and
    /// commutative but for rounding.
    fn merge(&mut self, other: &Self);
    /// The result.
    fn finish<'a>(&'a self, finish: &Finish<'a>) -> Finished<'a>;
    /// True when the result is not what the aggregate promises: see the files.
    fn is_approximate(&self) -> bool {
        false
    }
    /// Bytes that it holds beside its fixed size: zero for most kinds. Depends on what was
    /// taken in alone, so that a restart does not change it.
    #[inline]
    fn held(&self) -> usize {
        0
    }
    /// Appends the state for a snapshot.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the state back.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are cut short.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged>;
    /// The form that a receiver can merge; documented in docs/uplink.md. Null for kinds
    /// that depend on the order: two of them cannot be merged without their points.
    fn publish(&self) -> Published {
        Published::Null
    }
    /// Reads that form back.
    ///
    /// # Errors
    /// [`Malformed`] when it is not of this kind.
    fn from_published(_published: &serde_json::Value) -> Result<Self, Malformed> {
        Err(Malformed)
    }
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

            /// Reads what [`Accumulator::publish`] gave.
            ///
            /// # Errors
            /// [`Malformed`] when it is not of this kind.
            pub fn from_published(self, published: &serde_json::Value) -> Result<Accumulator, Malformed> {
                Ok(match self {
                    $(Kind::$variant => Accumulator::$variant($file::$variant::from_published(published)?),)*
                })
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

            /// Takes one finite value in; what it holds may rise by `room` bytes.
            pub fn add_within(&mut self, value: f64, at: EventTime, room: usize) {
                match self { $(Accumulator::$variant(state) => state.add_within(value, at, room),)* }
            }

            /// Takes one state in; what it holds may rise by `room` bytes.
            pub fn add_state(&mut self, state: State<'_>, at: EventTime, room: usize) {
                match self { $(Accumulator::$variant(known) => known.add_state(state, at, room),)* }
            }

            /// The result.
            #[inline]
            pub fn finish<'a>(&'a self, finish: &Finish<'a>) -> Finished<'a> {
                match self { $(Accumulator::$variant(state) => state.finish(finish),)* }
            }

            /// True when the result is not what the aggregate promises.
            pub fn is_approximate(&self) -> bool {
                match self { $(Accumulator::$variant(state) => state.is_approximate(),)* }
            }

            /// Bytes that it holds beside its fixed size.
            pub fn held(&self) -> usize {
                match self { $(Accumulator::$variant(state) => state.held(),)* }
            }

            /// Which kind it is of.
            pub fn kind(&self) -> Kind {
                match self { $(Accumulator::$variant(_) => Kind::$variant,)* }
            }

            /// The form that a receiver can merge; null for kinds that depend on the order.
            pub fn publish(&self) -> Published {
                match self { $(Accumulator::$variant(state) => state.publish(),)* }
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
    Quantiles, quantiles, "quantiles";
    Distinct, distinct, "distinct";
    Histogram, histogram, "histogram";
    TimeWeightedMean, time_weighted_mean, "time_weighted_mean";
    Increase, increase, "increase";
    Rate, rate, "rate";
    Durations, durations, "durations";
}

impl Kind {
    /// The kind of that name.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// True when the result depends on the order of the readings, not only on which they
    /// were: then there is no merging without all points, so neither backfill.
    pub const fn is_order_dependent(self) -> bool {
        match self {
            Kind::TimeWeightedMean | Kind::Increase | Kind::Rate | Kind::Durations => true,
            Kind::Count
            | Kind::Sum
            | Kind::Mean
            | Kind::Min
            | Kind::Max
            | Kind::First
            | Kind::Last
            | Kind::Range
            | Kind::Variance
            | Kind::Stddev
            | Kind::Quantiles
            | Kind::Distinct
            | Kind::Histogram => false,
        }
    }

    /// True when an accumulator holds more the more it takes in.
    pub const fn grows(self) -> bool {
        self.is_order_dependent() || matches!(self, Kind::Quantiles | Kind::Distinct)
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
mod tests;
