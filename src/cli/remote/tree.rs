//! What differs between two documents, key by key. Tables in a list are the same one where they
//! have the same `name`, as streams and windows do; others are told by their place.

use std::collections::BTreeMap;

use crate::config::raw::{Node, Value};

use super::document::push_json;

/// Longer values are cut.
const SHOWN: usize = 200;

/// One line for each difference, by path: `+` only in `new`, `-` only in `old`, `~` changed.
pub(super) fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", old, new, &mut lines);
    lines
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    let (before, after) = match (children(old), children(new)) {
        (Some(before), Some(after)) if same_kind(old, new) => (before, after),
        _ if old == new => return,
        _ => return lines.push(format!("~ {path}: {} -> {}", shown(old), shown(new))),
    };
    // One of them has names and the other has not: their places are all that both have.
    let (before, after) = if named(old) == named(new) || is_empty(old) || is_empty(new) {
        (before, after)
    } else {
        (by_place(old), by_place(new))
    };
    let mut keys: Vec<&Key> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let path = key.under(path);
        match (before.get(key), after.get(key)) {
            (Some(old), Some(new)) => compare(&path, old, new, lines),
            (Some(old), None) => lines.push(format!("- {path} = {}", shown(old))),
            (None, Some(new)) => lines.push(format!("+ {path} = {}", shown(new))),
            (None, None) => {}
        }
    }
}

/// A step of a path; places in the order of numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Of(String),
    Named(String),
    At(usize),
}

impl Key {
    fn under(&self, path: &str) -> String {
        match self {
            Key::Of(key) if path.is_empty() => key.clone(),
            Key::Of(key) => format!("{path}.{key}"),
            Key::Named(name) => format!("{path}[{name}]"),
            Key::At(place) => format!("{path}[{place}]"),
        }
    }
}

fn same_kind(a: &Value, b: &Value) -> bool {
    a.kind() == b.kind()
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::List(items) if items.is_empty())
}

fn named(value: &Value) -> bool {
    matches!(value, Value::List(items) if names(items).is_some())
}

/// What is in a table or list; `None` for what has nothing in it.
fn children(value: &Value) -> Option<BTreeMap<Key, &Value>> {
    let Value::List(items) = value else { return Some(by_place(value)).filter(|_| matches!(value, Value::Table(_))) };
    match names(items) {
        Some(names) => Some(names.into_iter().map(Key::Named).zip(items.iter().map(|item| &item.value)).collect()),
        None => Some(by_place(value)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "everything else has nothing in it")]
fn by_place(value: &Value) -> BTreeMap<Key, &Value> {
    match value {
        Value::Table(entries) => entries.iter().map(|entry| (Key::Of(entry.key.clone()), &entry.node.value)).collect(),
        Value::List(items) => items.iter().enumerate().map(|(at, item)| (Key::At(at), &item.value)).collect(),
        _ => BTreeMap::new(),
    }
}

/// The names, where every item has one and no two the same.
fn names(items: &[Node]) -> Option<Vec<String>> {
    let name = |item: &Node| {
        let Value::Table(entries) = &item.value else { return None };
        let entry = entries.iter().find(|entry| entry.key == "name")?;
        if let Value::Text(name) = &entry.node.value { Some(name.clone()) } else { None }
    };
    let names: Vec<String> = items.iter().map(name).collect::<Option<_>>()?;
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    (sorted.len() == names.len()).then_some(names)
}

/// As JSON, on one line.
fn shown(value: &Value) -> String {
    let mut out = String::new();
    // Every tree here was JSON, which has no other numbers.
    let _ = push_json(&mut out, value);
    match out.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &out[..end]),
        None => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw::{Document, Format};

    fn lines(old: &str, new: &str) -> Vec<String> {
        let value = |text: &str| Document::parse(text, Format::Json).expect(text).root().value.clone();
        differences(&value(old), &value(new))
    }

    #[test]
    fn streams_and_windows_are_told_by_name_and_not_by_place() {
        let old = r#"{"version":1,"streams":[{"name":"a","windows":[{"name":"1m","size":"1m"}]},{"name":"b"}]}"#;
        let new = r#"{"version":2,"streams":[{"name":"c"},{"name":"a","windows":[{"name":"1m","size":"60s"}]}]}"#;
        assert_eq!(
            lines(old, new),
            [
                r#"~ streams[a].windows[1m].size: "1m" -> "60s""#,
                r#"- streams[b] = {"name":"b"}"#,
                r#"+ streams[c] = {"name":"c"}"#,
                "~ version: 1 -> 2",
            ]
        );
        assert_eq!(lines(old, old), Vec::<String>::new());
    }

    #[test]
    fn what_has_no_name_is_told_by_its_place() {
        assert_eq!(lines(r#"{"l":[1,2]}"#, r#"{"l":[1,3,4]}"#), ["~ l[1]: 2 -> 3", "+ l[2] = 4"]);
        let named = r#"{"l":[{"name":"a","x":1}]}"#;
        assert_eq!(lines(named, r#"{"l":[{"x":1}]}"#), [r#"- l[0].name = "a""#]);
        let twice = r#"{"l":[{"name":"a"},{"name":"a","x":1}]}"#;
        assert_eq!(lines(twice, r#"{"l":[{"name":"a"},{"name":"a","x":2}]}"#), ["~ l[1].x: 1 -> 2"]);
        assert_eq!(lines(r#"{"l":[]}"#, named), [r#"+ l[a] = {"name":"a","x":1}"#]);
    }

    #[test]
    fn a_value_of_another_kind_is_one_change() {
        assert_eq!(lines(r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#), [r#"~ a: {"b":1} -> [1]"#]);
        assert_eq!(lines(r#"{"a":1}"#, r#"{"a":1.0}"#), ["~ a: 1 -> 1.0"]);
        assert_eq!(lines("null", r#"{"a":1}"#), [r#"~ : null -> {"a":1}"#]);
    }
}
