//! A tree as TOML: each key on a line of its own, whatever is in it within that line.

use core::fmt::Write as _;

use super::{Entry, Value};

/// The keys of a table.
pub(in crate::config) fn table(entries: &[Entry]) -> String {
    let mut out = String::new();
    for entry in entries {
        push_key(&mut out, &entry.key);
        out.push_str(" = ");
        push_value(&mut out, &entry.node.value);
        out.push('\n');
    }
    out
}

fn push_key(out: &mut String, key: &str) {
    if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
        out.push_str(key);
    } else {
        push_text(out, key);
    }
}

fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::Text(text) => push_text(out, text),
        Value::Integer(integer) => write!(out, "{integer}").expect("memory does not fail"),
        // With a point, so that it is read as a float again.
        Value::Float(float) => write!(out, "{float:?}").expect("memory does not fail"),
        Value::Bool(truth) => write!(out, "{truth}").expect("memory does not fail"),
        // TOML has none; nothing that is checked may be null.
        Value::Null => out.push_str("\"\""),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                push_value(out, &item.value);
            }
            out.push(']');
        }
        Value::Table(entries) => {
            out.push_str("{ ");
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                push_key(out, &entry.key);
                out.push_str(" = ");
                push_value(out, &entry.node.value);
            }
            out.push_str(if entries.is_empty() { "}" } else { " }" });
        }
    }
}

/// A basic string.
fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control.is_control() => {
                write!(out, "\\u{:04X}", u32::from(control)).expect("memory does not fail");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
