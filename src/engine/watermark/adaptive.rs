//! The `adaptive` bound: how late records of one device have been, and the bound
//! that a given part of them kept.
//!
//! A histogram with logarithmic buckets, four to a doubling (the layout of Gil
//! Tene's `HdrHistogram`, with two significant bits): lateness up to 8 ms is exact, a
//! longer one is overstated by at most a quarter, up to more than a year. Its size is
//! fixed: some 300 bytes. It ages: at [`SAMPLES_MAX`] records it is halved, so that a
//! record counts for half after that many more, and a device that became better or
//! worse has a new bound within a few thousand records.

use crate::engine::wire::{Damaged, Reader, put_u64};
use crate::model::time::Span;

/// Records before the histogram is believed. With fewer the bound is the ceiling.
pub const SAMPLES_MIN: u16 = 100;
/// Records at which all counts are halved. Above 1,000, so that one record in a
/// thousand still shows.
pub const SAMPLES_MAX: u16 = 2_048;

/// Bits kept of a lateness below its highest one.
const SUB_BITS: u32 = 2;
/// Longer than [`SPAN_MAX`](crate::model::limits::SPAN_MAX), the longest ceiling.
const OCTAVES: usize = 35;
const BUCKETS: usize = (OCTAVES + 1) << SUB_BITS;

/// Quantile and range of the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// In parts of 10,000, 1 ..= 10,000.
    pub quantile: u32,
    /// The bound is never below.
    pub floor: Span,
    /// The bound is never above; and this until enough was measured.
    pub ceiling: Span,
}

/// How late the records of one device (or stream) were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: [u16; BUCKETS],
    total: u16,
    /// No bucket from here on holds anything.
    past: u8,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; BUCKETS], total: 0, past: 0 }
    }
}

impl Histogram {
    /// A record came this much after a newer one; zero: it was the newest.
    pub fn add(&mut self, lateness: Span) {
        let bucket = bucket_of(lateness);
        self.counts[usize::from(bucket)] += 1;
        self.past = self.past.max(bucket + 1);
        self.total += 1;
        if self.total == SAMPLES_MAX {
            self.age();
        }
    }

    /// The bound that is in force.
    pub fn bound(&self, target: Target) -> Span {
        if self.total < SAMPLES_MIN {
            return target.ceiling;
        }
        // Records that may be later than the bound.
        let kept = (u64::from(self.total) * u64::from(target.quantile)).div_ceil(10_000);
        let mut left = u64::from(self.total) - kept.min(u64::from(self.total));
        for bucket in (0..self.past).rev() {
            let count = u64::from(self.counts[usize::from(bucket)]);
            if count > left {
                return upper_edge(bucket).clamp(target.floor, target.ceiling);
            }
            left -= count;
        }
        target.floor
    }

    /// Halves the number of records beyond every edge, so that each quantile stays
    /// where it is but for half a record.
    fn age(&mut self) {
        let (mut beyond, mut halved) = (0, 0);
        let mut past = 0;
        for bucket in (0..self.past).rev() {
            let count = &mut self.counts[usize::from(bucket)];
            beyond += *count;
            *count = beyond / 2 - halved;
            halved = beyond / 2;
            if *count > 0 && past == 0 {
                past = bucket + 1;
            }
        }
        self.total = halved;
        self.past = past;
    }

    pub(in crate::engine) fn write(&self, out: &mut Vec<u8>) {
        let used = self.counts.iter().filter(|count| **count > 0).count();
        put_u64(out, used as u64);
        for (bucket, count) in (0_u8..).zip(&self.counts) {
            if *count > 0 {
                out.push(bucket);
                put_u64(out, u64::from(*count));
            }
        }
    }

    /// Reads what [`Histogram::write`] wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are no histogram.
    pub(in crate::engine) fn read(reader: &mut Reader<'_>) -> Result<Histogram, Damaged> {
        let mut histogram = Histogram::default();
        for _ in 0..reader.u64()? {
            let (bucket, count): (u8, u16) = (reader.u8()?, reader.uint()?);
            let place = histogram.counts.get_mut(usize::from(bucket)).ok_or(Damaged)?;
            let total = histogram.total.checked_add(count).filter(|total| *total < SAMPLES_MAX).ok_or(Damaged)?;
            if *place > 0 {
                return Err(Damaged);
            }
            *place = count;
            histogram.total = total;
            histogram.past = histogram.past.max(bucket + 1);
        }
        Ok(histogram)
    }
}

fn bucket_of(lateness: Span) -> u8 {
    let millis = lateness.as_millis();
    let octave = millis.checked_ilog2().unwrap_or(0).saturating_sub(SUB_BITS);
    // Below 2^SUB_BITS a bucket is a millisecond.
    let within = millis >> octave;
    let bucket = (u64::from(octave) << SUB_BITS) + within;
    u8::try_from(bucket.min(BUCKETS as u64 - 1)).expect("BUCKETS fits a byte")
}

/// The longest lateness in a bucket.
fn upper_edge(bucket: u8) -> Span {
    let (octave, within) = (bucket >> SUB_BITS, bucket & ((1 << SUB_BITS) - 1));
    if octave == 0 {
        return Span::from_millis(u64::from(within));
    }
    let shift = u32::from(octave) - 1;
    let first = u64::from(within) + (1 << SUB_BITS);
    Span::from_millis(((first + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limits::SPAN_MAX;
    use crate::model::rng::Rng;

    const fn millis(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    fn target(quantile: u32) -> Target {
        Target { quantile, floor: Span::ZERO, ceiling: SPAN_MAX }
    }

    #[test]
    fn buckets_are_exact_up_to_eight_milliseconds_and_a_quarter_wide_beyond() {
        for lateness in 0..8 {
            assert_eq!(upper_edge(bucket_of(millis(lateness))), millis(lateness));
        }
        for (lateness, edge) in [(8, 9), (9, 9), (10, 11), (16, 19), (20, 23), (1_000, 1_023), (1_024, 1_279)] {
            assert_eq!(upper_edge(bucket_of(millis(lateness))), millis(edge), "{lateness}");
        }
        for bucket in 0..bucket_of(SPAN_MAX) {
            assert_eq!(bucket_of(upper_edge(bucket)), bucket);
            assert_eq!(bucket_of(upper_edge(bucket) + Span::MILLI), bucket + 1);
        }
        assert!(usize::from(bucket_of(SPAN_MAX)) < BUCKETS);
        assert_eq!(usize::from(bucket_of(millis(u64::MAX))), BUCKETS - 1);
    }

    #[test]
    fn the_bound_is_the_ceiling_until_enough_was_measured_and_then_the_quantile() {
        let mut histogram = Histogram::default();
        for _ in 0..98 {
            histogram.add(Span::ZERO);
        }
        histogram.add(millis(5));
        assert_eq!(histogram.bound(target(9_900)), SPAN_MAX, "99 records");
        histogram.add(millis(7));
        // 100 records: 98 times 0, 5 and 7.
        for (quantile, bound) in [(10_000, 7), (9_901, 7), (9_900, 5), (9_801, 5), (9_800, 0), (5_001, 0)] {
            assert_eq!(histogram.bound(target(quantile)), millis(bound), "{quantile}");
        }
        let clamped = |floor, ceiling| {
            histogram.bound(Target { quantile: 9_900, floor: millis(floor), ceiling: millis(ceiling) })
        };
        assert_eq!((clamped(6, 10), clamped(0, 4), clamped(2, 8)), (millis(6), millis(4), millis(5)));
    }

    #[test]
    fn it_forgets_by_halves_and_keeps_its_quantiles() {
        let mut histogram = Histogram::default();
        let mut random = Rng::new(7);
        for _ in 1..SAMPLES_MAX {
            histogram.add(millis(random.below(10_000)));
        }
        let before: Vec<_> = [5_000, 9_000, 9_900].map(|quantile| histogram.bound(target(quantile))).to_vec();
        histogram.add(Span::ZERO);
        assert_eq!(histogram.total, SAMPLES_MAX / 2);
        assert_eq!(u64::from(histogram.total), histogram.counts.iter().map(|count| u64::from(*count)).sum::<u64>());
        let after: Vec<_> = [5_000, 9_000, 9_900].map(|quantile| histogram.bound(target(quantile))).to_vec();
        assert_eq!(after, before);
        // A device that became punctual.
        for _ in 0..20 * u32::from(SAMPLES_MAX) {
            histogram.add(Span::ZERO);
        }
        assert_eq!(histogram.bound(target(10_000)), Span::ZERO);
    }

    #[test]
    fn its_bytes_give_it_back_and_no_others_do_harm() {
        let mut histogram = Histogram::default();
        let mut random = Rng::new(11);
        for _ in 0..5_000 {
            let octave = random.below(40);
            histogram.add(millis(random.below(1 << octave)));
        }
        let mut bytes = Vec::new();
        histogram.write(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Histogram::read(&mut reader), Ok(histogram));
        assert!(reader.is_empty());
        for length in 0..bytes.len() {
            assert_eq!(Histogram::read(&mut Reader::new(&bytes[..length])), Err(Damaged), "{length}");
        }
        for bytes in [&[1, 255, 1][..], &[2, 3, 1, 3, 1], &[1, 3, 255, 127]] {
            assert_eq!(Histogram::read(&mut Reader::new(bytes)), Err(Damaged), "{bytes:?}");
        }
    }
}
