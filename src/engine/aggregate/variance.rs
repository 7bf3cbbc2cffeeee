//! `variance`: of the sample, divided by n - 1, as Flink's `VARIANCE`; none for a
//! single value.
//!
//! Welford's update (B. P. Welford, "Note on a method for calculating corrected sums
//! of squares and products", Technometrics 4, 1962) and the pairwise merge of Chan,
//! Golub and `LeVeque` (1979): no difference of large sums is ever taken. The relative
//! error is of the order n·ε·κ with ε = 2⁻⁵³ and κ² = 1 + mean²/variance. The order of
//! arrival shows in the last digits only.

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64, put_u64};
use crate::model::time::EventTime;
use serde_json::Value;

/// Number, mean, and sum of the squared distances from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variance {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Variance {
    /// What `made` makes of it.
    pub(super) fn finish_as(&self, made: impl Fn(f64) -> f64) -> Finished<'static> {
        match self.count {
            0 => Finished::Absent,
            1 => Finished::None,
            count => Finished::number(made(self.squares / (count - 1) as f64)),
        }
    }
}

impl Aggregate for Variance {
    #[inline]
    fn add(&mut self, value: f64, _at: EventTime) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn merge(&mut self, other: &Variance) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.squares += other.squares + apart * apart * mine * theirs / (mine + theirs);
        self.mean += apart * theirs / (mine + theirs);
        self.count = self.count.saturating_add(other.count);
    }

    fn finish<'a>(&'a self, _finish: &Finish<'a>) -> Finished<'a> {
        self.finish_as(|variance| variance)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.count);
        put_f64(out, self.mean);
        put_f64(out, self.squares);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Variance, Damaged> {
        Ok(Variance { count: reader.u64()?, mean: reader.f64()?, squares: reader.f64()? })
    }

    fn publish(&self) -> Published {
        if self.count == 0 {
            return Published::Null;
        }
        let parts = [self.mean, self.squares].map(Published::float);
        Published::List([Published::count(self.count)].into_iter().chain(parts).collect())
    }

    fn from_published(published: &Value) -> Result<Variance, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Variance::default()) };
        let [count, mean, squares] = published::array(published)?;
        Ok(Variance {
            count: published::count(count)?,
            mean: published::float(mean)?,
            squares: published::float(squares)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_offset_does_not_swallow_small_differences() {
        let mut state = Variance::default();
        for number in 0..1_000_i32 {
            state.add(1e9 + f64::from(number % 2), EventTime::MIN);
        }
        let Finished::Number(variance) = state.finish_as(|variance| variance) else { panic!("many values") };
        assert!((variance - 0.250_250_250_250_25).abs() < 1e-9, "{variance}; the difference of sums gives nonsense");
    }

    #[test]
    fn a_single_value_has_none() {
        let mut state = Variance::default();
        state.add(5.0, EventTime::MIN);
        assert_eq!(state.finish_as(|variance| variance), Finished::None);
    }
}
