//! Numbers in texts: a plain-text payload, a cell of CSV, a string that holds a number.
//!
//! ```text
//! [+-] digits [. digits] [e [+-] digits] [blanks unit]      ".5" too; "5." not: it was cut
//! ```
//!
//! All of the text is the number, or there is none: the digits that something else begins
//! with (a date, an address, half a JSON text) are never taken for a value. Nothing that
//! is not finite is a number, and neither are words such as `inf`. There are no separators
//! of thousands: with a decimal comma `1,234` is a little more than one, and so is `1.234`.
//!
//! A unit is at most 16 characters and begins with a letter, `%`, `‰`, `°`, `℃` or `℉`. More of
//! those may follow; `/`, `·`, `*` and `^` between them; `²` or `³` after a letter, `2` or `3`
//! after `m`, `s` or `^`, and then nothing but an operator. It holds no other digits and no
//! blanks, and does not begin with `x` (`0xFF`); an `e` that touches the digits is an exponent.
//! So `12 m3/h` has a unit and `0T00:00:13`, `12h 30m` and `3f2a` have none. No list of units
//! is kept, so that `12ab` has one too: allow units only where they are known to stand.

use crate::engine::spec::NumberRules;

use super::scan::{Head, Scanner};

/// Longest number that is read. What programs print for a float is shorter by far.
const NUMBER_BYTES_MAX: usize = 64;
/// Longest unit.
const UNIT_CHARS_MAX: usize = 16;

/// The number that `text` is, white space around it aside.
pub(super) fn text_number(text: &str, rules: NumberRules) -> Option<f64> {
    let text = text.trim_ascii();
    let digits = number_len(text.as_bytes(), rules.decimal_comma)?;
    let (number, rest) = text.split_at_checked(digits).filter(|(number, _)| number.len() <= NUMBER_BYTES_MAX)?;
    if !(rest.is_empty() || rules.units && is_unit(rest)) {
        return None;
    }
    let mut buffer = [0; NUMBER_BYTES_MAX];
    let buffer = buffer.get_mut(..number.len())?;
    for (to, from) in buffer.iter_mut().zip(number.bytes()) {
        *to = if from == b',' { b'.' } else { from };
    }
    let value: f64 = core::str::from_utf8(buffer).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Whether `text` is a number of JSON's syntax and nothing else, not even white space.
pub(super) fn is_json_number(text: &str) -> bool {
    matches!(Scanner::new(text).head(), Ok(Head::Number(digits)) if digits.len() == text.len())
}

/// The bytes of the number at the start of `text`. `None` where there is none, or where an
/// exponent was begun and is not there.
fn number_len(text: &[u8], decimal_comma: bool) -> Option<usize> {
    let digits_at = |at: usize| text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign_at = |at: usize| usize::from(matches!(text.get(at), Some(b'+' | b'-')));
    let start = sign_at(0);
    let whole = digits_at(start);
    let mut end = start + whole;
    let point = text.get(end).is_some_and(|byte| *byte == b'.' || decimal_comma && *byte == b',');
    let fraction = if point { digits_at(end + 1) } else { 0 };
    if fraction > 0 {
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let digits = end + 1 + sign_at(end + 1);
        let exponent = digits_at(digits);
        end = digits + exponent;
        return (exponent > 0).then_some(end);
    }
    Some(end)
}

/// Whether `text`, blanks before it aside, is a unit. The blanks that typesetters put there
/// count as such.
fn is_unit(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '\t', '\u{a0}', '\u{202f}']);
    let mut before = None;
    for (index, character) in text.chars().enumerate() {
        let fits = match character {
            'x' | 'X' if before.is_none() => false,
            '2' | '3' => matches!(before, Some('m' | 's' | '^')),
            '²' | '³' => before.is_some_and(is_unit_letter),
            '/' | '·' | '*' | '^' => before.is_some_and(|before| !is_operator(before)),
            letter if is_unit_letter(letter) => {
                before.is_none_or(|before| is_unit_letter(before) || is_operator(before) && before != '^')
            }
            _ => false,
        };
        if !fits || index >= UNIT_CHARS_MAX {
            return false;
        }
        before = Some(character);
    }
    before.is_some_and(|last| !is_operator(last))
}

fn is_unit_letter(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '%' | '‰' | '°' | '℃' | '℉')
}

fn is_operator(character: char) -> bool {
    matches!(character, '/' | '·' | '*' | '^')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: NumberRules = NumberRules { decimal_comma: false, units: false };
    const COMMA: NumberRules = NumberRules { decimal_comma: true, units: false };
    const UNITS: NumberRules = NumberRules { decimal_comma: false, units: true };
    const BOTH: NumberRules = NumberRules { decimal_comma: true, units: true };

    #[test]
    fn plain_numbers_are_read_whole() {
        for (text, value) in [
            ("21.4", 21.4),
            (" \t-12.70\r\n", -12.7),
            ("0", 0.0),
            ("007", 7.0),
            ("+.5", 0.5),
            ("1e3", 1_000.0),
            ("2E-2", 0.02),
            ("1e-999", 0.0),
        ] {
            for rules in [PLAIN, COMMA, UNITS, BOTH] {
                assert_eq!(text_number(text, rules), Some(value), "{text:?}");
            }
        }
    }

    #[test]
    fn f142_a_number_that_is_not_json_is_read() {
        assert_eq!(text_number("+0.4934484E+01", PLAIN), Some(4.934_484));
        assert!(!is_json_number("+0.4934484E+01"));
    }

    #[test]
    fn a_decimal_comma_counts_only_where_it_is_allowed() {
        assert_eq!(text_number("3,41", COMMA), Some(3.41));
        assert_eq!(text_number("3.41", COMMA), Some(3.41));
        assert_eq!(text_number("-,5e1", COMMA), Some(-5.0));
        assert_eq!(text_number("29,87 °C", BOTH), Some(29.87));
        assert_eq!(text_number("3,41", PLAIN), None);
        assert_eq!(text_number("3,41", UNITS), None);
        for thousands in ["1.234,5", "1,234.5", "1,234,567", "1'234", "1 234"] {
            assert_eq!(text_number(thousands, BOTH), None, "{thousands}");
        }
    }

    #[test]
    fn a_unit_counts_only_where_it_is_allowed() {
        for (text, value) in [
            ("29.87 °C", 29.87),
            ("3.402 V", 3.402),
            ("0 uS/cm", 0.0),
            ("0.00 %", 0.0),
            ("12.3V", 12.3),
            ("5\u{202f}µg/m³", 5.0),
            ("12 m3/h", 12.0),
            ("9.81 m/s^2", 9.81),
            ("1.2e3kW·h", 1_200.0),
            ("5 eV", 5.0),
            ("21℃", 21.0),
            ("40%RH", 40.0),
        ] {
            assert_eq!(text_number(text, UNITS), Some(value), "{text}");
            assert_eq!(text_number(text, PLAIN), None, "{text}");
        }
    }

    #[test]
    fn what_begins_with_digits_is_no_number_for_that() {
        for text in [
            "2024-12-11 23:49:23",
            "2024-12-11T23:49:23Z",
            "0T00:00:13",
            "12:30",
            "12h 30m",
            "1.2.3",
            "192.0.2.1",
            "12 34",
            "0x4F2E",
            "0xFF",
            "3f2a",
            "22}",
            "\"tF\":146.2}}",
            "5.",
            "5e",
            "+0.49E+",
            "5eV",
            "5 m/",
            "5 /m",
            "5 m2s",
            "5 m^",
            "5 V!",
            "5 a unit of many words",
            "5 aunitofmanyletters",
            "3-phase",
        ] {
            for rules in [PLAIN, COMMA, UNITS, BOTH] {
                assert_eq!(text_number(text, rules), None, "{text}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_no_number() {
        let long = "1".repeat(1_000_000);
        for text in ["nan", "NaN", "inf", "-inf", "Infinity", "1e400", "-1e400", "", " ", "+", "-", ".", "e5", &long] {
            for rules in [PLAIN, BOTH] {
                assert_eq!(text_number(text, rules), None, "{}", text.len());
            }
        }
        assert_eq!(text_number(&"1".repeat(NUMBER_BYTES_MAX), PLAIN), Some(1.111_111_111_111_111_1e63));
        assert_eq!(text_number(&"1".repeat(NUMBER_BYTES_MAX + 1), PLAIN), None);
    }

    #[test]
    fn a_json_number_is_told_from_its_likes() {
        for text in ["0", "-0", "-12.5e+3", "1e400"] {
            assert!(is_json_number(text), "{text}");
        }
        for text in ["", "+1", "01", "1.", ".5", " 1", "1 ", "1,5", "nan", "[1]", "1 2"] {
            assert!(!is_json_number(text), "{text}");
        }
    }
}
