//! `quantiles`: a `DDSketch` (C. Masson, J. E. Rim, H. K. Lee, "`DDSketch`: a fast and
//! fully-mergeable quantile sketch with relative-error guarantees", PVLDB 12, 2019).
//!
//! A quantile q of n values is the one at place `floor(q * (n - 1))` in their order. What
//! is reported differs from it by at most 1/129 of it (0.78 %), and lies between the
//! smallest and the largest value, which are kept exactly. Values nearer to zero than
//! 2.3e-308 count as zero.
//!
//! The mapping is the paper's linear one: 64 buckets of equal width between two powers of
//! two. The bucket is the exponent and the first six bits of the mantissa, so no
//! logarithm is taken and every machine finds the same one. A bucket `[a, b)` stands for
//! its harmonic middle `2ab / (a + b)`, whose relative distance from both ends is
//! `(b - a) / (b + a) <= 1/129`.
//!
//! Bounded: `QUANTILE_BUCKETS_MAX` buckets for each sign. Beyond it those nearest to zero
//! are one: only values that are smaller than 2^-32 of the largest can lose accuracy,
//! and the result is marked approximate. What is kept does not depend on the order of
//! arrival or of merging.
//!
//! Published: `buckets` are pairs of key and count, by rising key. Key 0 is zero; the key
//! of a positive value is the first 18 bits of its IEEE 754 form plus one; that of a
//! negative value is minus that of its magnitude.

use serde_json::Value;

use super::published::{self, Malformed, Published};
use super::{Aggregate, Finish, Finished};
use crate::engine::wire::{Damaged, Reader, put_f64, put_i64, put_u64};
use crate::model::limits::QUANTILE_BUCKETS_MAX;
use crate::model::time::EventTime;

/// Bits of a float below its exponent and the first six of its mantissa.
const BELOW: u32 = 46;
/// What a bucket takes.
const BUCKET_BYTES: usize = 16;

/// The sketch; nothing is allocated before the first value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles {
    sketch: Option<Box<Sketch>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Sketch {
    min: f64,
    max: f64,
    count: u64,
    /// By key, none empty.
    buckets: Vec<Bucket>,
    /// Values went into another bucket than their own.
    moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    key: i32,
    count: u64,
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch { min: f64::INFINITY, max: f64::NEG_INFINITY, count: 0, buckets: Vec::new(), moved: false }
    }
}

/// The bucket of a value. Order of keys is order of values.
#[inline]
fn key_of(value: f64) -> i32 {
    let magnitude = value.abs();
    if magnitude < f64::MIN_POSITIVE {
        return 0;
    }
    let key = i32::try_from(magnitude.to_bits() >> BELOW).expect("17 bits without the sign") + 1;
    if value < 0.0 { -key } else { key }
}

/// What a bucket stands for.
fn value_of(key: i32) -> f64 {
    let Some(bucket) = u64::from(key.unsigned_abs()).checked_sub(1) else { return 0.0 };
    let low = f64::from_bits(bucket << BELOW);
    // A 64th of the power of two below.
    let width = f64::from_bits(bucket >> 6 << 52) / 64.0;
    // 2ab / (a + b), without leaving the range.
    let middle = low + width * (low / (low + width / 2.0) / 2.0);
    if key < 0 { -middle } else { middle }
}

impl Sketch {
    fn add(&mut self, value: f64, room: usize) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.count += 1;
        let key = key_of(value);
        match self.buckets.binary_search_by_key(&key, |bucket| bucket.key) {
            Ok(at) => self.buckets[at].count += 1,
            Err(at) if room >= BUCKET_BYTES || self.buckets.is_empty() => {
                self.buckets.insert(at, Bucket { key, count: 1 });
                self.collapse(key);
            }
            // No room for another: the neighbour takes it.
            Err(at) => {
                let at = at.min(self.buckets.len() - 1);
                self.buckets[at].count += 1;
                self.moved = true;
            }
        }
    }

    /// A bucket was added for `key`: of its sign, those nearest to zero become one when
    /// there are too many.
    fn collapse(&mut self, key: i32) {
        let negative = self.buckets.partition_point(|bucket| bucket.key < 0);
        let positive = self.buckets.partition_point(|bucket| bucket.key <= 0);
        if key < 0 && negative > QUANTILE_BUCKETS_MAX {
            let gone = self.buckets.remove(negative - 1);
            let next = &mut self.buckets[negative - 2].count;
            *next = next.saturating_add(gone.count);
            self.moved = true;
        }
        if key > 0 && self.buckets.len() - positive > QUANTILE_BUCKETS_MAX {
            let gone = self.buckets.remove(positive);
            let next = &mut self.buckets[positive].count;
            *next = next.saturating_add(gone.count);
            self.moved = true;
        }
    }

    fn merge(&mut self, other: &Sketch) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.moved |= other.moved;
        for bucket in &other.buckets {
            match self.buckets.binary_search_by_key(&bucket.key, |known| known.key) {
                Ok(at) => self.buckets[at].count = self.buckets[at].count.saturating_add(bucket.count),
                Err(at) => {
                    self.buckets.insert(at, *bucket);
                    self.collapse(bucket.key);
                }
            }
        }
    }

    /// The value at place `floor(share * (count - 1))`.
    fn quantile(&self, share: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 ..= count")]
        let place = (share * (self.count - 1) as f64) as u64;
        // A bucket stands for its middle; of both ends the value itself is known.
        if place == 0 {
            return self.min;
        }
        if place == self.count - 1 {
            return self.max;
        }
        let mut below = 0_u64;
        for bucket in &self.buckets {
            below = below.saturating_add(bucket.count);
            if below > place {
                return value_of(bucket.key).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

impl Aggregate for Quantiles {
    fn add(&mut self, value: f64, at: EventTime) {
        self.add_within(value, at, usize::MAX);
    }

    fn add_within(&mut self, value: f64, _at: EventTime, room: usize) {
        self.sketch.get_or_insert_default().add(value, room);
    }

    fn merge(&mut self, other: &Quantiles) {
        if let Some(other) = &other.sketch {
            self.sketch.get_or_insert_default().merge(other);
        }
    }

    fn finish<'a>(&'a self, finish: &Finish<'a>) -> Finished<'a> {
        let Some(sketch) = &self.sketch else { return Finished::Absent };
        let wanted = finish.quantiles.iter();
        Finished::Labelled(wanted.map(|quantile| (quantile.label.as_str(), sketch.quantile(quantile.share))).collect())
    }

    fn is_approximate(&self) -> bool {
        self.sketch.as_ref().is_some_and(|sketch| sketch.moved)
    }

    fn held(&self) -> usize {
        self.sketch.as_ref().map_or(0, |sketch| sketch.buckets.len() * BUCKET_BYTES)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Some(sketch) = &self.sketch else { return put_u64(out, 0) };
        put_u64(out, sketch.buckets.len() as u64);
        put_f64(out, sketch.min);
        put_f64(out, sketch.max);
        out.push(u8::from(sketch.moved));
        let mut before = 0;
        for bucket in &sketch.buckets {
            put_i64(out, i64::from(bucket.key - before));
            put_u64(out, bucket.count);
            before = bucket.key;
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Quantiles, Damaged> {
        let buckets = reader.u64()?;
        if buckets == 0 {
            return Ok(Quantiles::default());
        }
        let mut sketch =
            Sketch { min: reader.f64()?, max: reader.f64()?, moved: reader.u8()? != 0, ..Sketch::default() };
        let mut key = 0_i32;
        for number in 0..buckets {
            let step = i32::try_from(reader.i64()?).map_err(|_| Damaged)?;
            key = key.checked_add(step).ok_or(Damaged)?;
            let bucket = Bucket { key, count: reader.u64()? };
            sketch.push(bucket, number > 0 && step <= 0).ok_or(Damaged)?;
        }
        Ok(Quantiles { sketch: Some(Box::new(sketch)) })
    }

    fn publish(&self) -> Published {
        let Some(sketch) = &self.sketch else { return Published::Null };
        let pair = |bucket: &Bucket| {
            Published::List(vec![Published::Number(f64::from(bucket.key)), Published::count(bucket.count)])
        };
        Published::Map(vec![
            ("min", Published::Number(sketch.min)),
            ("max", Published::Number(sketch.max)),
            ("buckets", Published::List(sketch.buckets.iter().map(pair).collect())),
        ])
    }

    fn from_published(published: &Value) -> Result<Quantiles, Malformed> {
        let Some(published) = published::present(published) else { return Ok(Quantiles::default()) };
        let mut sketch = Sketch {
            min: published::number(published::entry(published, "min")?)?,
            max: published::number(published::entry(published, "max")?)?,
            ..Sketch::default()
        };
        for pair in published::list(published::entry(published, "buckets")?)? {
            let [key, count] = published::array(pair)?;
            let key = key.as_i64().and_then(|key| i32::try_from(key).ok()).ok_or(Malformed)?;
            let falls = sketch.buckets.last().is_some_and(|last| key <= last.key);
            sketch.push(Bucket { key, count: published::count(count)? }, falls).ok_or(Malformed)?;
        }
        if sketch.count == 0 {
            return Err(Malformed);
        }
        Ok(Quantiles { sketch: Some(Box::new(sketch)) })
    }
}

/// Keys beyond that of the largest float.
const KEY_MAX: u32 = (2047 << 6) + 1;

impl Sketch {
    fn has_ends(&self) -> bool {
        self.min.is_finite() && self.max.is_finite() && self.min <= self.max
    }

    /// The next bucket of those that are read; `None` when it cannot be one.
    fn push(&mut self, bucket: Bucket, falls: bool) -> Option<()> {
        if falls || bucket.count == 0 || bucket.key.unsigned_abs() >= KEY_MAX || !self.has_ends() {
            return None;
        }
        self.count = self.count.checked_add(bucket.count)?;
        self.buckets.push(bucket);
        let negative = self.buckets.partition_point(|bucket| bucket.key < 0);
        (negative.max(self.buckets.len() - negative) <= QUANTILE_BUCKETS_MAX + 1).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(values: impl IntoIterator<Item = f64>) -> Sketch {
        let mut sketch = Sketch::default();
        for value in values {
            sketch.add(value, usize::MAX);
        }
        sketch
    }

    #[test]
    fn a_bucket_is_within_one_part_in_129_of_both_its_ends() {
        for value in [1.0, 1.015_624_999_999, 1.5, 1.984_375, 1e-300, 3.7e300, f64::MIN_POSITIVE, f64::MAX, 21.3] {
            for value in [value, -value] {
                let shown = value_of(key_of(value));
                assert!((shown - value).abs() <= value.abs() / 129.0 * (1.0 + 1e-12), "{value} became {shown}");
            }
        }
        assert_eq!((key_of(0.0), key_of(-0.0), key_of(1e-310), value_of(0).to_bits()), (0, 0, 0, 0));
        assert!(key_of(-2.0) < key_of(-1.0) && key_of(-1.0) < 0 && key_of(1.0) < key_of(2.0));
    }

    #[test]
    fn constants_and_the_ends_are_exact() {
        let constant = sketch((0..100).map(|_| 21.3));
        assert_eq!([0.0, 0.5, 1.0].map(|share| constant.quantile(share).to_bits()), [21.3_f64.to_bits(); 3]);
        let spread = sketch([5.0, -3.0, 0.0, 8.0]);
        assert_eq!(spread.quantile(0.0).to_bits(), (-3.0_f64).to_bits());
        assert_eq!(spread.quantile(0.4).to_bits(), 0.0_f64.to_bits());
        // Neither is what its bucket stands for.
        let uneven = sketch([-425.99, 21.37, 677.31]);
        assert_eq!(uneven.quantile(0.0).to_bits(), (-425.99_f64).to_bits());
        assert_eq!(uneven.quantile(1.0).to_bits(), 677.31_f64.to_bits());
    }

    #[test]
    fn at_the_bound_those_nearest_to_zero_share_a_bucket_and_the_largest_stay_exact() {
        let powers = |sign: f64| (0..3_000_i32).map(move |power| sign * (f64::from(power) * 0.02).exp2());
        let whole = sketch(powers(1.0).chain(powers(-1.0)));
        assert_eq!(whole.buckets.len(), 2 * QUANTILE_BUCKETS_MAX);
        assert_eq!((whole.count, whole.buckets.iter().map(|bucket| bucket.count).sum::<u64>()), (6_000, 6_000));
        let upper = whole.quantile(0.99);
        let exact = (f64::from(2_939) * 0.02).exp2();
        assert!((upper - exact).abs() <= exact / 129.0, "{upper} for {exact}");
        let mut backwards = powers(-1.0).chain(powers(1.0)).collect::<Vec<_>>();
        backwards.reverse();
        assert_eq!(sketch(backwards), whole, "whatever the order");
    }

    #[test]
    fn without_room_the_neighbour_takes_a_value_and_the_result_says_so() {
        let mut quantiles = Quantiles::default();
        quantiles.add_within(1.0, EventTime::MIN, 0);
        assert!(!quantiles.is_approximate(), "the first value always finds room");
        quantiles.add_within(1.0, EventTime::MIN, 0);
        quantiles.add_within(100.0, EventTime::MIN, BUCKET_BYTES - 1);
        assert_eq!((quantiles.held(), quantiles.is_approximate()), (BUCKET_BYTES, true));
    }
}
