//! A regular expression for the quantities from one to another, because JSON Schema has no
//! other way to bound a text.
//!
//! ```text
//! 5s to 18h ─▶ ^0*(?:(?:[5-9][0-9]{3}|[1-9][0-9]{4,6}|…)ms|…|(?:[1-9]|1[0-8])h)$
//! ```

use core::fmt::Write as _;

/// What finds whole numbers with one of `units` that are worth `min` to `max`.
pub(super) fn pattern(min: u64, max: u64, units: &[(&str, u64)]) -> String {
    let numbers = |(unit, worth): &(&str, u64)| {
        let (low, high) = (min.div_ceil(*worth), max / worth);
        (low <= high).then(|| format!("(?:{}){unit}", between(low, high)))
    };
    let parts: Vec<String> = units.iter().filter_map(numbers).collect();
    format!("^0*(?:{})$", parts.join("|"))
}

/// Whole numbers without leading zeros.
fn between(low: u64, high: u64) -> String {
    let mut parts = Vec::new();
    let (mut low, high_digits) = (low, digits(high));
    while digits(low) < high_digits {
        let from = digits(low);
        if low == first(from).max(1) {
            // All numbers of so many digits, and of more up to those of which not all are meant.
            let is_full = high == last(high_digits);
            let to = if is_full { high_digits } else { high_digits - 1 };
            parts.push(format!("[1-9]{}", any(from - 1, to - 1)));
            if is_full {
                return parts.join("|");
            }
            low = first(high_digits);
        } else {
            same_length("", &low.to_string(), &last(from).to_string(), &mut parts);
            low = first(from + 1);
        }
    }
    same_length("", &low.to_string(), &high.to_string(), &mut parts);
    parts.join("|")
}

/// Numbers of as many digits: where the bounds begin to differ, a part for the lowest first
/// digit, one for those between, one for the highest.
fn same_length(head: &str, low: &str, high: &str, parts: &mut Vec<String>) {
    let (from, to) = (low.as_bytes()[0], high.as_bytes()[0]);
    let rest = low.len() - 1;
    if from == to && rest > 0 {
        same_length(&format!("{head}{}", char::from(from)), &low[1..], &high[1..], parts);
        return;
    }
    let is_from_whole = low[1..].bytes().all(|digit| digit == b'0');
    let is_to_whole = high[1..].bytes().all(|digit| digit == b'9');
    if !is_from_whole {
        same_length(&format!("{head}{}", char::from(from)), &low[1..], &"9".repeat(rest), parts);
    }
    let (first, last) = (from + u8::from(!is_from_whole), to - u8::from(!is_to_whole));
    if first <= last {
        let mut part = head.to_owned();
        let (first, last) = (char::from(first), char::from(last));
        let written = if first == last { write!(part, "{first}") } else { write!(part, "[{first}-{last}]") };
        written.expect("memory does not fail");
        part.push_str(&any(rest, rest));
        parts.push(part);
    }
    if !is_to_whole {
        same_length(&format!("{head}{}", char::from(to)), &"0".repeat(rest), &high[1..], parts);
    }
}

/// From `from` to `to` digits, any of them.
fn any(from: usize, to: usize) -> String {
    match (from, to) {
        (0, 0) => String::new(),
        (1, 1) => "[0-9]".to_owned(),
        (from, to) if from == to => format!("[0-9]{{{from}}}"),
        (from, to) => format!("[0-9]{{{from},{to}}}"),
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The lowest number of so many digits.
fn first(digits: usize) -> u64 {
    if digits == 1 { 0 } else { (1..digits).fold(1, |number: u64, _| number.saturating_mul(10)) }
}

/// The highest.
fn last(digits: usize) -> u64 {
    (0..digits).fold(0, |number: u64, _| number.saturating_mul(10).saturating_add(9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `between` writes is digits, classes of them, counts and alternatives: this reads it.
    fn finds(pattern: &str, number: &str) -> bool {
        pattern.split('|').any(|part| whole(part.as_bytes(), number.as_bytes()))
    }

    fn whole(part: &[u8], number: &[u8]) -> bool {
        let Some((&head, mut rest)) = part.split_first() else { return number.is_empty() };
        let (from, to) = if head == b'[' {
            let bounds = (rest[0], rest[2]);
            rest = &rest[4..];
            bounds
        } else {
            (head, head)
        };
        let (mut fewest, mut most) = (1, 1);
        if rest.first() == Some(&b'{') {
            let end = rest.iter().position(|byte| *byte == b'}').expect("a brace");
            let counts = core::str::from_utf8(&rest[1..end]).expect("ASCII");
            let (low, high) = counts.split_once(',').unwrap_or((counts, counts));
            (fewest, most) = (low.parse().expect("a count"), high.parse().expect("a count"));
            rest = &rest[end + 1..];
        }
        let fitting = number.iter().take_while(|digit| (from..=to).contains(digit)).count();
        (fewest..=most.min(fitting)).any(|count| whole(rest, &number[count..]))
    }

    #[test]
    fn exactly_the_numbers_between_are_found() {
        for low in (0..130).chain([990, 999, 1_000, 1_001]) {
            for high in (low..130).chain([998, 999, 1_000, 1_001, 1_234, 9_999, 10_000]).filter(|high| *high >= low) {
                let pattern = between(low, high);
                for number in (0..140).chain(985..1_010).chain([1_233, 1_234, 1_235, 9_998, 9_999, 10_000, 10_001]) {
                    let expected = (low..=high).contains(&number);
                    assert_eq!(finds(&pattern, &number.to_string()), expected, "{low} to {high}, {number}: {pattern}");
                }
            }
        }
    }

    #[test]
    fn a_unit_in_which_nothing_fits_is_none() {
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
        assert_eq!(pattern(1, 999, &units), "^0*(?:(?:[1-9][0-9]{0,2})ms)$");
        assert_eq!(pattern(1_000, 60_000, &units[1..]), "^0*(?:(?:[1-9]|[1-5][0-9]|60)s|(?:1)m)$");
    }
}
