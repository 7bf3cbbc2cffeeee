//! The file that an operator wrote, as the JSON that gateways take. Only its syntax and its top
//! keys are looked at: the gateway checks the rest, by its own version of the program.

use core::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use ring::signature::Ed25519KeyPair;

use crate::agent::signed::private_key_pem;
use crate::cli::read_text;
use crate::config::check::keys::DESIRED;
use crate::config::raw::{Document, Entry, Format, SyntaxError, Value};

/// Its key.
pub(super) const VERSION: &str = "version";

/// A desired document, but for its version where the file leaves that open.
#[derive(Debug)]
pub(super) struct Desired {
    entries: Vec<Entry>,
}

/// A desired document as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// JSON.
    pub(super) json: String,
    /// As the gateway computes it.
    pub(super) hash: String,
}

impl Desired {
    /// Reads a file: JSON by its name, else TOML.
    ///
    /// # Errors
    /// It cannot be read, or every problem of its syntax and its top keys.
    pub(super) fn read(path: &Path) -> anyhow::Result<Desired> {
        let file = path.display().to_string();
        Desired::parse(&read_text(path)?, &file).map_err(|problems| anyhow!(problems.join("\n")))
    }

    fn parse(text: &str, file: &str) -> Result<Desired, Vec<String>> {
        let document = Document::parse(text, Format::of(file))
            .map_err(|errors| errors.iter().map(|error| syntax_error(file, error)).collect::<Vec<_>>())?;
        let Value::Table(entries) = &document.root().value else {
            return Err(vec![format!("{file}: expected a table, found {}", document.root().value.kind())]);
        };
        let known: Vec<&str> = DESIRED.keys.iter().map(|key| key.name).collect();
        let unknown = entries.iter().filter(|entry| !known.contains(&entry.key.as_str()));
        let mut problems: Vec<String> = unknown
            .map(|entry| {
                let line = entry.place.map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column));
                let known = known.join(", ");
                format!("{file}{line}: {}: unknown key\n    hint: a desired document has {known}", entry.key)
            })
            .collect();
        if let Err(problem) = push_json(&mut String::new(), &document.root().value) {
            problems.push(format!("{file}: {problem}"));
        }
        if problems.is_empty() { Ok(Desired { entries: entries.clone() }) } else { Err(problems) }
    }

    /// Whether the file itself says this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// The JSON, with this version where the file has none.
    pub(super) fn text(&self, version: u64) -> Text {
        let mut entries = self.entries.clone();
        if !self.has(VERSION) {
            let node = crate::config::raw::Node { place: None, value: Value::Integer(version.into()) };
            // First, for whoever reads it; a document's hash does not depend on the order.
            entries.insert(0, Entry { key: VERSION.to_owned(), place: None, node });
        }
        let mut json = String::new();
        push_json(&mut json, &Value::Table(entries)).expect("tried when it was read");
        let hash = hash(&json);
        Text { json, hash }
    }

    /// The document as the gateway reads it, to compare it.
    pub(super) fn value(&self) -> Value {
        let mut json = String::new();
        push_json(&mut json, &Value::Table(self.entries.clone())).expect("tried when it was read");
        Document::parse(&json, Format::Json).map_or(Value::Null, |document| document.root().value.clone())
    }
}

/// As a gateway computes it; empty for what it cannot read, being too long.
pub(super) fn hash(json: &str) -> String {
    Document::parse(json, Format::Json).map_or_else(|_errors| String::new(), |document| document.hash())
}

/// The key that signs, where one is given.
///
/// # Errors
/// It cannot be read, or is none.
pub(super) fn signing_key(path: Option<&PathBuf>) -> anyhow::Result<Option<Ed25519KeyPair>> {
    let Some(path) = path else { return Ok(None) };
    match private_key_pem(&read_text(path)?) {
        Ok(key) => Ok(Some(key)),
        Err(problem) => bail!("{}: {problem}", path.display()),
    }
}

fn syntax_error(file: &str, error: &SyntaxError) -> String {
    let place = error.place.map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column));
    format!("{file}{place}: {}", error.message)
}

/// Appends a tree as JSON. Integers stay integers, however long.
///
/// # Errors
/// A number that JSON has not.
pub(super) fn push_json(out: &mut String, value: &Value) -> Result<(), String> {
    let text = |out: &mut String, text: &str| out.push_str(&serde_json::Value::from(text).to_string());
    match value {
        Value::Text(value) => text(out, value),
        Value::Integer(integer) => write!(out, "{integer}").expect("memory does not fail"),
        Value::Float(float) if float.is_finite() => write!(out, "{float:?}").expect("memory does not fail"),
        Value::Float(float) => return Err(format!("JSON has no {float}")),
        Value::Bool(bool) => write!(out, "{bool}").expect("memory does not fail"),
        Value::Null => out.push_str("null"),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                push_json(out, &item.value)?;
            }
            out.push(']');
        }
        Value::Table(entries) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                text(out, &entry.key);
                out.push(':');
                push_json(out, &entry.node.value)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(toml: &str) -> String {
        Desired::parse(toml, "d.toml").unwrap().text(7).json
    }

    #[test]
    fn toml_becomes_json_that_means_the_same() {
        let toml = "trial = '2m'\n[[streams]]\nname = \"a\\n\\\"b\"\nbig = 0x7fff_ffff_ffff_ffff\nf = 1.0\ng = 1e300\n\
                    day = 2026-03-01\ntrue = true\nempty = []\n[[streams]]\n";
        let expected = r#"{"version":7,"streams":[{"big":9223372036854775807,"day":"2026-03-01","empty":[],"f":1.0,"g":1e300,"name":"a\n\"b","true":true},{}],"trial":"2m"}"#;
        assert_eq!(json(toml), expected);
        // As the gateway reads it, and as it would be in the same file.
        let with_version = Document::parse(&format!("version = 7\n{toml}"), Format::Toml).unwrap().hash();
        assert_eq!(Desired::parse(toml, "d.toml").unwrap().text(7).hash, with_version);
        assert_eq!(Document::parse(expected, Format::Json).unwrap().hash(), with_version);
    }

    #[test]
    fn integers_beyond_64_bits_stay_integers() {
        let tree = Value::List(vec![crate::config::raw::Node { place: None, value: Value::Integer(1 << 70) }]);
        let mut out = String::new();
        push_json(&mut out, &tree).unwrap();
        assert_eq!(out, "[1180591620717411303424]");
    }

    #[test]
    fn a_version_of_the_file_stays() {
        assert_eq!(json("version = 3\n"), r#"{"version":3}"#);
        assert_eq!(Desired::parse(r#"{"version": 3}"#, "d.json").unwrap().text(7).json, r#"{"version":3}"#);
    }

    #[test]
    fn syntax_and_top_keys_are_looked_at_here_and_nothing_else() {
        let problems = |text: &str, file: &str| Desired::parse(text, file).unwrap_err().join("\n");
        let unknown = problems("version = 1\n[gateway]\nid = 'x'\n[stream]\n", "d.toml");
        assert!(
            unknown.contains("d.toml:2:2: gateway: unknown key") && unknown.contains("d.toml:4:2: stream: unknown")
        );
        assert!(unknown.contains("a desired document has version, trial, streams"), "{unknown}");
        assert!(problems("version = \n", "d.toml").contains("d.toml:1:"));
        assert!(problems("[1]", "d.json").contains("expected a table"));
        assert!(problems("[outbox]\nx = inf\n", "d.toml").contains("JSON has no inf"));
        assert!(Desired::parse("streams = 7\n", "d.toml").is_ok(), "that is the gateway's business");
    }
}
