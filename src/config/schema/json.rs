//! JSON as text: written compactly, then laid out for people, with what fits on a line on one.

use core::fmt::Write as _;

use crate::config::raw::Value;

/// Columns of a line.
const WIDTH: usize = 110;

/// What has been written. Names are empty where there are none: in lists, and at the top.
#[derive(Default)]
pub(super) struct Json(String);

impl Json {
    /// Begins an object or a list.
    pub(super) fn open(&mut self, name: &str, bracket: char) {
        if !self.0.is_empty() && !self.0.ends_with(['{', '[']) {
            self.0.push(',');
        }
        if !name.is_empty() {
            self.quoted(name);
            self.0.push(':');
        }
        // A value alone has none.
        if bracket != ' ' {
            self.0.push(bracket);
        }
    }

    /// Ends it.
    pub(super) fn close(&mut self, bracket: char) {
        self.0.push(bracket);
    }

    /// A number, or `true`, or `false`.
    pub(super) fn raw(&mut self, name: &str, value: &str) {
        self.open(name, ' ');
        self.0.push_str(value);
    }

    /// A whole number.
    pub(super) fn count(&mut self, name: &str, count: usize) {
        self.raw(name, &count.to_string());
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.open(name, ' ');
        self.quoted(text);
    }

    /// A list of texts, where there are any.
    pub(super) fn texts(&mut self, name: &str, texts: &[&str]) {
        if texts.is_empty() {
            return;
        }
        self.open(name, '[');
        for text in texts {
            self.text("", text);
        }
        self.close(']');
    }

    /// Any value of a configuration. Of its floats all are finite.
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        match value {
            Value::Text(text) => self.text(name, text),
            Value::Integer(integer) => self.raw(name, &integer.to_string()),
            Value::Float(float) => self.raw(name, &format!("{float:?}")),
            Value::Bool(truth) => self.raw(name, if *truth { "true" } else { "false" }),
            Value::Null => self.raw(name, "null"),
            Value::List(items) => {
                self.open(name, '[');
                for item in items {
                    self.value("", &item.value);
                }
                self.close(']');
            }
            Value::Table(entries) => {
                self.open(name, '{');
                for entry in entries {
                    self.value(&entry.key, &entry.node.value);
                }
                self.close('}');
            }
        }
    }

    fn quoted(&mut self, text: &str) {
        self.0.push('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => self.0.extend(['\\', character]),
                control if control < ' ' => {
                    write!(self.0, "\\u{:04x}", u32::from(control)).expect("memory does not fail");
                }
                other => self.0.push(other),
            }
        }
        self.0.push('"');
    }

    /// For people.
    pub(super) fn pretty(&self) -> String {
        let mut out = String::new();
        lay_out(&mut out, &self.0, 0, 0);
        out.push('\n');
        out
    }
}

/// One value. `used`: columns before it on its line.
fn lay_out(out: &mut String, value: &str, indent: usize, used: usize) {
    let line = spaced(value);
    if used + line.chars().count() <= WIDTH || !value.starts_with(['{', '[']) {
        out.push_str(&line);
        return;
    }
    let (inner, indent) = (&value[1..value.len() - 1], indent + 2);
    out.push_str(&value[..1]);
    let mut rest = inner;
    while !rest.is_empty() {
        let (part, after) = split(rest, b',');
        out.push('\n');
        out.extend(core::iter::repeat_n(' ', indent));
        let (name, value) = split(part, b':');
        if value.is_empty() {
            lay_out(out, part, indent, indent);
        } else {
            out.push_str(name);
            out.push_str(": ");
            lay_out(out, value, indent, indent + name.chars().count() + 2);
        }
        out.push_str(if after.is_empty() { "" } else { "," });
        rest = after;
    }
    out.push('\n');
    out.extend(core::iter::repeat_n(' ', indent - 2));
    out.push_str(&value[value.len() - 1..]);
}

/// What is before the first `mark` that is in no text and no brackets, and behind it.
fn split(text: &str, mark: u8) -> (&str, &str) {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ if byte == mark && depth == 0 => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

/// On one line.
fn spaced(value: &str) -> String {
    let mut out = String::new();
    let (mut quoted, mut escaped) = (false, false);
    for character in value.chars() {
        if !quoted && character == '}' {
            if out.ends_with("{ ") {
                out.pop();
            } else {
                out.push(' ');
            }
        }
        out.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ',' | ':' | '{' if !quoted => out.push(' '),
            _ => {}
        }
    }
    out
}
