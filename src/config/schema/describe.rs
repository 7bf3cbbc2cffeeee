//! What a key says, in words: what it is about, its unit and range, and what holds without it.

use super::{DURATION_UNITS, Key, Need, SIZE_UNITS, Shape, Span, show, show_size};

/// The description of `key`.
pub(super) fn key(key: &Key) -> String {
    let mut out = String::new();
    let mut characters = key.about.chars();
    out.extend(characters.next().map(|first| first.to_ascii_uppercase()));
    out.push_str(characters.as_str());
    out.push('.');
    if let Some(unit) = unit(&key.shape, key.about) {
        out.push(' ');
        out.push_str(&unit);
        out.push('.');
    }
    match key.need {
        Need::Required => out.push_str(" Required."),
        Need::ToRun => out.push_str(" Required to run."),
        Need::Optional => out.push_str(" Default: none."),
        Need::Derived(from) => {
            out.push_str(" Default: ");
            out.push_str(from);
            out.push('.');
        }
        // It has a keyword of its own.
        Need::Default(_) => {}
    }
    out
}

/// The unit of `shape`, and its range unless `about` says it.
fn unit(shape: &Shape, about: &str) -> Option<String> {
    let (unit, min, max) = match *shape {
        Shape::Duration { min_ms, max_ms } => {
            let [min, max] = [min_ms, max_ms].map(|millis| show(Span::from_millis(millis)));
            (with("Duration", &DURATION_UNITS), min, max)
        }
        Shape::Offset => return Some(with("Duration", &DURATION_UNITS)),
        Shape::Size { min, max } => (with("Size", &SIZE_UNITS), show_size(min), show_size(max)),
        Shape::Integer { min, max, unit } if !unit.is_empty() => {
            (format!("Unit: {unit}"), min.to_string(), max.to_string())
        }
        Shape::AnyOf(shapes) => return shapes.iter().find_map(|shape| self::unit(shape, about)),
        Shape::Bool
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Text(_)
        | Shape::Words(_)
        | Shape::Known(_)
        | Shape::List { .. }
        | Shape::OneOrMore { .. }
        | Shape::Map { .. }
        | Shape::Table(_)
        | Shape::Part(_) => return None,
    };
    let range = format!("{min} to {max}");
    Some(if about.contains(&range) { unit } else { format!("{unit}, {range}") })
}

fn with(what: &str, units: &[(&str, u64)]) -> String {
    let units: Vec<String> = units.iter().map(|(unit, _)| format!("`{unit}`")).collect();
    format!("{what}: a whole number with {}", units.join(", "))
}
