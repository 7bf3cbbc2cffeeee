//! How a float is written: a whole number without a fraction, so that `23` is not
//! `23.0` in JSON and takes two bytes in CBOR.

use serde::{Serialize, Serializer};

/// Whole numbers up to 2^53 are exact as floats.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A finite number to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let negative_zero = self.0 == 0.0 && self.0.is_sign_negative();
        if self.0.fract() == 0.0 && self.0.abs() < WHOLE_MAX && !negative_zero {
            #[expect(clippy::cast_possible_truncation, reason = "whole, and within the range of i64")]
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}
