//! Numbers that CBOR has in parts: bignums, decimal fractions and bigfloats (RFC 8949,
//! section 3.4), for the two formats that are CBOR.

use core::fmt::{self, Write as _};

use super::visit::Scalar;

/// Bytes of a bignum that is read exactly: its negation fits 128 bits too.
const BIGNUM_BYTES_MAX: usize = 15;

/// Digits of a number, as JSON has them. Twice 39 digits, two signs and an `e` fit.
pub(super) type Digits = heapless::String<96>;

/// What a tag makes of an array of an exponent and a mantissa.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parts {
    /// `mantissa * 10^exponent`
    Decimal,
    /// `mantissa * 2^exponent`
    Binary,
}

impl Parts {
    /// What `tag` makes of it; `None` for other tags.
    pub(super) fn of_tag(tag: u64) -> Option<Parts> {
        match tag {
            4 => Some(Parts::Decimal),
            5 => Some(Parts::Binary),
            _ => None,
        }
    }
}

/// An integer in the narrowest form that holds it.
pub(super) fn integer(value: i128) -> Scalar<'static> {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => Scalar::Int(value),
        (Err(_), Ok(value)) => Scalar::Uint(value),
        (Err(_), Err(_)) => Scalar::Float(value as f64),
    }
}

/// The shortest digits that read back as `value`, with an exponent: never more than 24.
pub(super) fn shortest(value: f64) -> Digits {
    let mut digits = Digits::new();
    let _ = write!(digits, "{value:e}");
    digits
}

/// `number` in decimal.
pub(super) fn decimal(number: impl fmt::Display) -> Digits {
    let mut digits = Digits::new();
    // An integer of 128 bits fits, and nothing longer is given.
    let _ = write!(digits, "{number}");
    digits
}

/// `mantissa * 10^exponent`, unreduced.
pub(super) fn decimal_fraction(exponent: i128, mantissa: i128) -> Digits {
    let mut digits = decimal(mantissa);
    // No number of this payload says more with an exponent beyond this.
    let exponent = exponent.clamp(i64::MIN.into(), i64::MAX.into());
    let _ = write!(digits, "e{exponent}");
    digits
}

/// `mantissa * 2^exponent`; zero and infinity where a float ends.
pub(super) fn bigfloat(exponent: i128, mantissa: i128) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let exponent = i32::try_from(exponent.clamp(-4_000, 4_000)).expect("clamped");
    // In steps, so that no power of two alone is beyond a float where the product is not.
    let steps = [exponent / 4, exponent / 4, exponent / 4, exponent - exponent / 4 * 3];
    steps.iter().fold(mantissa as f64, |value, step| value * 2_f64.powi(*step))
}

/// The number that the tags of bignums make of `bytes`: exact where it fits, or a float.
/// `None` for other tags, and where there is none.
pub(super) fn bignum(tag: Option<u64>, bytes: &[u8]) -> Option<Result<i128, f64>> {
    let negative = match tag {
        Some(2) => false,
        Some(3) => true,
        Some(_) | None => return None,
    };
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    if bytes.len() <= BIGNUM_BYTES_MAX {
        let value = bytes.iter().fold(0, |value, byte| value << 8 | i128::from(*byte));
        return Some(Ok(if negative { -1 - value } else { value }));
    }
    let value = bytes.iter().fold(0.0, |value, byte| value * 256.0 + f64::from(*byte));
    Some(Err(if negative { -1.0 - value } else { value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_fraction_is_exact_and_a_number_of_json() {
        assert_eq!(decimal_fraction(-2, 2_731), "2731e-2");
        assert_eq!(decimal_fraction(3, -5), "-5e3");
        let longest = decimal_fraction(i128::MIN, i128::MIN);
        assert_eq!(longest, "-170141183460469231731687303715884105728e-9223372036854775808");
        assert!(super::super::number::is_json_number(&longest));
    }

    #[test]
    fn a_bigfloat_reaches_both_ends_of_a_float() {
        for (exponent, mantissa, value) in [
            (-1, 3, 1.5),
            (i128::MIN, 0, 0.0),
            (i128::MAX, 0, 0.0),
            (-1_074, 1, 5e-324),
            (i128::MIN, 1, 0.0),
            (i128::MAX, -1, f64::NEG_INFINITY),
        ] {
            assert_eq!(bigfloat(exponent, mantissa).to_bits(), f64::to_bits(value), "{mantissa} * 2^{exponent}");
        }
    }

    #[test]
    fn a_bignum_is_exact_up_to_120_bits() {
        assert_eq!(bignum(Some(2), &[0, 0, 1, 0]), Some(Ok(256)));
        assert_eq!(bignum(Some(3), &[]), Some(Ok(-1)));
        assert_eq!(bignum(Some(3), &[255; 15]), Some(Ok(-(1 << 120))));
        assert_eq!(bignum(Some(2), &[1; 16]).map(|number| number.is_err()), Some(true));
        assert_eq!(bignum(Some(2), &[255; 1_000]), Some(Err(f64::INFINITY)));
        assert_eq!(bignum(Some(4), &[1]), None);
        assert_eq!(bignum(None, &[1]), None);
    }
}
