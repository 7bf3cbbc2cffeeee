//! TOML to the neutral tree.

use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Entry, Node, Place, SyntaxError, Value};

/// Parses `text`; reports every syntax error, not only the first.
pub(super) fn parse(text: &str) -> Result<Node, Vec<SyntaxError>> {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let error = |error: &toml::de::Error| SyntaxError {
            place: error.span().map(|span| lines.place(&span)),
            message: error.message().trim().replace('\n', "; "),
        };
        return Err(errors.iter().map(error).collect());
    }
    Ok(Node { place: None, value: Value::Table(entries(table.get_ref(), &lines)) })
}

fn entries(table: &DeTable<'_>, lines: &Lines<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            place: Some(lines.place(&key.span())),
            node: node(value, lines),
        })
        .collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}

fn node(value: &Spanned<DeValue<'_>>, lines: &Lines<'_>) -> Node {
    let place = Some(lines.place(&value.span()));
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Value::Integer(integer),
            Err(_) => Value::Float(integer.as_str().parse().unwrap_or(f64::INFINITY)),
        },
        DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(bool) => Value::Bool(*bool),
        DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(|item| node(item, lines)).collect()),
        DeValue::Table(table) => Value::Table(entries(table, lines)),
    };
    Node { place, value }
}

/// Where the lines of a text begin.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Lines<'t> {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Lines { text, starts: core::iter::once(0).chain(after_breaks).collect() }
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let at = span.start.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[line - 1];
        // Count what precedes `at`; a span in the middle of a character cannot
        // happen, but would be no reason to panic either.
        let column = self.text[start..].char_indices().take_while(|(offset, _)| start + offset < at).count() + 1;
        Place { line, column }
    }
}
