//! A tree as JSON for people: what fits on a line is on one.

use super::Value;

/// Columns of a line.
const WIDTH: usize = 110;

/// `value` and a line break. Infinities and what is no number are none of JSON's: null.
pub(in crate::config) fn json(value: &Value) -> String {
    let mut out = String::new();
    push(&mut out, value, 0, 0);
    out.push('\n');
    out
}

/// `used`: columns before it on its line.
fn push(out: &mut String, value: &Value, indent: usize, used: usize) {
    let line = one_line(value);
    if used + line.chars().count() <= WIDTH {
        out.push_str(&line);
        return;
    }
    let indent = indent + 2;
    match value {
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                begin(out, index, indent);
                push(out, &item.value, indent, indent);
            }
            end(out, indent, ']');
        }
        Value::Table(entries) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                begin(out, index, indent);
                let key = quoted(&entry.key);
                out.push_str(&key);
                out.push_str(": ");
                push(out, &entry.node.value, indent, indent + key.chars().count() + 2);
            }
            end(out, indent, '}');
        }
        Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null => out.push_str(&line),
    }
}

fn begin(out: &mut String, index: usize, indent: usize) {
    out.push_str(if index > 0 { ",\n" } else { "\n" });
    out.extend(core::iter::repeat_n(' ', indent));
}

fn end(out: &mut String, indent: usize, bracket: char) {
    out.push('\n');
    out.extend(core::iter::repeat_n(' ', indent - 2));
    out.push(bracket);
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Integer(integer) => integer.to_string(),
        Value::Float(float) if float.is_finite() => format!("{float:?}"),
        Value::Bool(truth) => truth.to_string(),
        Value::Float(_) | Value::Null => "null".to_owned(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item| one_line(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(entries) => {
            let entry = |entry: &super::Entry| format!("{}: {}", quoted(&entry.key), one_line(&entry.node.value));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}
