//! `sum`: compensated addition.
//!
//! Neumaier's variant of Kahan summation (A. Neumaier, "Rundungsfehleranalyse
//! einiger Verfahren zur Summation endlicher Summen", ZAMM 54, 1974): what each
//! addition rounds away is collected and added at the end. The error is at most
//! 2ε·|sum| plus a term in ε²·n·Σ|x|, with ε = 2⁻⁵³. While every partial sum is
//! exactly representable, the result does not depend on the order at all.

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64, put_u64};
use crate::model::time::EventTime;
use serde_json::Value;

/// Compensated sum. Empty is told from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    rounded: f64,
    rounded_away: f64,
    count: u64,
}

impl Sum {
    #[inline]
    pub(super) fn take(&mut self, value: f64) {
        let sum = self.rounded + value;
        self.rounded_away +=
            if self.rounded.abs() >= value.abs() { (self.rounded - sum) + value } else { (value - sum) + self.rounded };
        self.rounded = sum;
    }

    /// Values taken in.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The sum; not finite beyond the range of a 64-bit float.
    pub(super) fn total(&self) -> f64 {
        self.rounded + self.rounded_away
    }
}

impl Aggregate for Sum {
    #[inline]
    fn add(&mut self, value: f64, _at: EventTime) {
        self.take(value);
        self.count += 1;
    }

    fn merge(&mut self, other: &Sum) {
        self.take(other.rounded);
        self.rounded_away += other.rounded_away;
        self.count = self.count.saturating_add(other.count);
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        if self.count == 0 { Finished::Absent } else { Finished::number(self.total()) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.count);
        put_f64(out, self.rounded);
        put_f64(out, self.rounded_away);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Sum, Damaged> {
        Ok(Sum { count: reader.u64()?, rounded: reader.f64()?, rounded_away: reader.f64()? })
    }

    fn publish(&self) -> Published {
        if self.count == 0 {
            return Published::Null;
        }
        let parts = [self.rounded, self.rounded_away].map(Published::float);
        Published::List(parts.into_iter().chain([Published::count(self.count)]).collect())
    }

    fn from_published(published: &Value) -> Result<Sum, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Sum::default()) };
        let [rounded, rounded_away, count] = published::array(published)?;
        Ok(Sum {
            rounded: published::float(rounded)?,
            rounded_away: published::float(rounded_away)?,
            count: published::count(count)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
        let mut sum = Sum::default();
        for value in values {
            sum.add(value, EventTime::MIN);
        }
        sum.total()
    }

    #[test]
    fn small_values_survive_beside_large_ones() {
        assert_eq!(sum([1e16, 1.0, 1.0, -1e16]).to_bits(), 2.0_f64.to_bits(), "plain addition gives 0 or 4");
        assert_eq!(
            sum((0..1_000_000).map(|_| 0.1)).to_bits(),
            100_000.0_f64.to_bits(),
            "plain addition is off by 1e-6"
        );
    }

    #[test]
    fn beyond_the_range_there_is_no_number_rather_than_a_wrong_one() {
        assert!(!sum([f64::MAX, f64::MAX]).is_finite());
    }
}
