//! Counts since 1970, in four units. Exact: no digit goes through `f64`, and what is below
//! a millisecond is rounded, half away from zero, because devices print floats
//! (`…368.6499999`).

use core::fmt::Write as _;

use crate::engine::spec::TimeUnit;

use super::{RawTime, Reading, reading_of};

/// Significant digits that are kept: 36.
const DIGITS_FULL: u128 = 10_u128.pow(35);

/// `raw` as a count of `unit`.
pub(super) fn read(unit: TimeUnit, raw: RawTime<'_>) -> Reading {
    reading_of(match raw {
        RawTime::Number(text) | RawTime::Text(text) => read_decimal(text.trim_ascii(), scale(unit)),
        RawTime::Int(count) => scale_int(i128::from(count), unit),
        RawTime::Uint(count) => scale_int(i128::from(count), unit),
        RawTime::Float(count) => read_float(count, unit),
        RawTime::Null | RawTime::Other => None,
    })
}

/// Whether it is a number, or a string of one that is no date: more digits than a year has.
pub(super) fn is_count(raw: RawTime<'_>) -> bool {
    match raw {
        RawTime::Number(_) | RawTime::Int(_) | RawTime::Uint(_) | RawTime::Float(_) => true,
        RawTime::Text(text) => {
            let text = text.trim_ascii();
            text.len() >= 9 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        }
        RawTime::Null | RawTime::Other => false,
    }
}

/// The power of ten that makes milliseconds of it.
pub(super) fn scale(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Seconds => 3,
        TimeUnit::Millis => 0,
        TimeUnit::Micros => -3,
        TimeUnit::Nanos => -6,
    }
}

fn scale_int(count: i128, unit: TimeUnit) -> Option<i64> {
    signed(count < 0, scale_rounded(count.unsigned_abs(), scale(unit))?)
}

/// A float means the shortest decimal number that is read as this float: what the device
/// printed, or would have. `None` when it is not finite.
fn read_float(count: f64, unit: TimeUnit) -> Option<i64> {
    // 17 digits, point, sign, and an exponent such as e-308.
    let mut text = heapless::String::<32>::new();
    write!(text, "{count:e}").ok()?;
    read_decimal(&text, scale(unit))
}

fn signed(negative: bool, magnitude: u128) -> Option<i64> {
    let value = i128::try_from(magnitude).ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}

/// `text * 10^scale` as an integer, rounded half away from zero; exact, however
/// many digits there are. `None` when it is no decimal number or does not fit.
pub(in crate::engine::decode) fn read_decimal(text: &str, scale: i64) -> Option<i64> {
    let (negative, text) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (mantissa, ""),
    };
    if whole.is_empty() {
        return None;
    }
    // The first 36 significant digits decide; what comes after them can neither
    // change an i64 nor its rounding, because halves round away from zero.
    let mut digits = 0_u128;
    let mut power = exponent.saturating_add(scale);
    for (index, byte) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        let full = digits >= DIGITS_FULL;
        if !full {
            digits = digits * 10 + u128::from(digit);
        }
        match (full, index < whole.len()) {
            (true, true) => power = power.saturating_add(1),
            (false, false) => power = power.saturating_sub(1),
            (true, false) | (false, true) => {}
        }
    }
    signed(negative, scale_rounded(digits, power)?)
}

fn scale_rounded(digits: u128, power: i64) -> Option<u128> {
    if digits == 0 {
        return Some(0);
    }
    let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10_u128.checked_pow(power));
    match (factor, power >= 0) {
        (Some(factor), true) => digits.checked_mul(factor),
        (None, true) => None,
        (Some(factor), false) => {
            let up = digits % factor >= factor.div_ceil(2);
            Some(digits / factor + u128::from(up))
        }
        (None, false) => Some(0),
    }
}

fn read_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse().unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}
