//! The listener as it is meant: its section with all defaults, for `tidegate check --show`.

use crate::config::check::keys::{LISTENER, Need};
use crate::config::raw::{Document, Entry, Format, Node, Value, write};

use super::sockets::{ADDRESS_DEFAULT, are_named};

/// The section as TOML, with what is not written there; `None` when there is no listener, or
/// no document.
pub fn listener(text: &str, file: &str) -> Option<String> {
    let document = Document::parse(text, Format::of(file)).ok()?;
    let Value::Table(root) = &document.root().value else { return None };
    let find = |key: &str| root.iter().find(|entry| entry.key == key);
    let written: &[Entry] = match find("listener").map(|entry| &entry.node.value) {
        Some(Value::Table(entries)) => entries,
        Some(Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_)) => {
            return None;
        }
        None if find("devices").is_none() => &[],
        None => return None,
    };
    let has = |key: &str| written.iter().any(|entry| entry.key == key);
    let entry = |key: &str, text: &str| {
        let value = text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer);
        Entry { key: key.to_owned(), place: None, node: Node { place: None, value } }
    };
    let mut entries = Vec::new();
    for key in LISTENER.keys {
        if let Some(written) = written.iter().find(|entry| entry.key == key.name) {
            entries.push(written.clone());
            continue;
        }
        let text = match (key.name, key.need) {
            (_, Need::Default(text)) => text,
            ("tcp", _) if !are_named(has) => ADDRESS_DEFAULT,
            ("anonymous", _) => {
                if has("password_file") {
                    "never"
                } else {
                    "loopback"
                }
            }
            ("client_cert", _) if has("client_ca_file") => "required",
            (_, Need::Required | Need::ToRun | Need::Optional | Need::Derived(_)) => continue,
        };
        entries.push(entry(key.name, text));
    }
    Some(format!("[listener]\n{}", write::table(&entries)))
}
