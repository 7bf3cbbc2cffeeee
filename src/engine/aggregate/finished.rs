//! What comes out of an accumulator: nothing, a number, or a few numbers with labels.

use super::Quantile;
use crate::engine::states::StateTable;
use crate::model::time::EventTime;

/// What a result depends on beside what was taken in.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// Until when the last value holds: the end of the window once it has closed; `None`:
    /// until the last reading (sessions, and looks at a window that is still open).
    pub until: Option<EventTime>,
    /// The quantiles that are wanted.
    pub quantiles: &'a [Quantile],
    /// The texts of the stream's states.
    pub states: &'a StateTable,
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub enum Finished<'a> {
    /// Nothing was taken in that the aggregate is of: numbers, or states.
    Absent,
    /// There is none: too few values, or beyond the range of a 64-bit float.
    None,
    /// The usual one. Finite.
    Number(f64),
    /// Several, in a fixed order.
    Labelled(Vec<(&'a str, f64)>),
}

impl Finished<'_> {
    /// A number, if it is one that can be written.
    #[inline]
    pub(super) fn number(value: f64) -> Finished<'static> {
        if value.is_finite() { Finished::Number(value) } else { Finished::None }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Finished::Number(value) => Some(*value),
            Finished::Absent | Finished::None | Finished::Labelled(_) => None,
        }
    }

    /// The number with that label, if there is one.
    pub fn labelled(&self, label: &str) -> Option<f64> {
        match self {
            Finished::Labelled(numbers) => numbers.iter().find(|(known, _)| *known == label).map(|(_, value)| *value),
            Finished::Absent | Finished::None | Finished::Number(_) => None,
        }
    }
}
