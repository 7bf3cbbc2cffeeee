//! The JSON Schema (2020-12) of the configuration, made of the list of keys: what
//! `tidegate schema` prints, and docs/schema holds.
//!
//! ```text
//! file ────▶ every table                        [`file`]
//! desired ─▶ version, trial, some of its tables [`desired`]
//! ```
//!
//! It refuses nothing that the checker takes. It takes more than that: what two keys together
//! mean, and what is written in texts such as expressions, only the checker knows. A file for a
//! replay needs neither brokers nor storage, so these are not required here either.

mod describe;
mod digits;

use std::collections::BTreeMap;

use super::check::keys::{self, Case, Form, Key, Need, Section, Shape};
use super::check::scalar::{DURATION_UNITS, SIZE_UNITS, show, show_size};
use super::raw::{Document, Entry, Format, Node, Value, pretty};
use crate::model::time::Span;

/// The schema of a configuration file, in TOML or JSON.
pub fn file() -> String {
    document("tidegate: configuration", "A configuration file, in TOML or JSON.", &keys::ROOT)
}

/// The schema of the document that is sent over MQTT.
pub fn desired() -> String {
    let about = "A configuration sent over MQTT. A table that is here takes the place of that of the gateway's file \
                 as a whole; one that is not leaves it as it is.";
    document("tidegate: desired configuration", about, &keys::DESIRED)
}

fn document(title: &str, about: &str, root: &Section) -> String {
    let mut schema = Schema::default();
    let mut entries = vec![
        entry("$schema", text("https://json-schema.org/draft/2020-12/schema")),
        entry("title", text(title)),
        entry("description", text(about)),
    ];
    entries.extend(schema.section(root));
    let definitions = schema.definitions.into_iter().map(|(name, value)| entry(&name, value)).collect();
    entries.push(entry("$defs", Value::Table(definitions)));
    pretty::json(&Value::Table(entries))
}

/// What has been referred to.
#[derive(Default)]
struct Schema {
    /// By name; null while it is being made.
    definitions: BTreeMap<String, Value>,
}

impl Schema {
    fn section(&mut self, section: &Section) -> Vec<Entry> {
        let properties = section.keys.iter().map(|key| entry(key.name, self.property(key))).collect();
        let mut entries = vec![entry("type", text("object")), entry("properties", Value::Table(properties))];
        let required = section.keys.iter().filter(|key| key.need == Need::Required).map(|key| key.name);
        entries.extend(texts("required", required));
        entries.push(entry("additionalProperties", Value::Bool(false)));
        entries
    }

    fn property(&mut self, key: &Key) -> Value {
        let mut entries = vec![entry("description", text(&describe::key(key)))];
        entries.extend(self.shape(&key.shape));
        if let Need::Default(default) = key.need {
            entries.push(entry("default", typed(&key.shape, default).unwrap_or_else(|| text(default))));
        }
        entries.push(entry("examples", list(vec![example(key)])));
        Value::Table(entries)
    }

    fn shape(&mut self, shape: &Shape) -> Vec<Entry> {
        match *shape {
            Shape::Bool => vec![kind("boolean")],
            Shape::Integer { min, max, .. } => {
                let mut entries = vec![kind("integer"), entry("minimum", count(min))];
                entries.extend(below("maximum", max));
                entries
            }
            Shape::Number { min, max, above } => number(min, max, above),
            Shape::Text(form) => characters(form),
            Shape::Words(words) => texts("enum", words.iter().copied()).into_iter().collect(),
            Shape::Known(words) => texts("enum", words().into_iter()).into_iter().collect(),
            Shape::Duration { min_ms, max_ms } => {
                let [min, max] = [min_ms, max_ms].map(|millis| show(Span::from_millis(millis)));
                self.refer(&format!("duration-{min}-{max}"), |_| quantity(min_ms, max_ms, &DURATION_UNITS))
            }
            Shape::Offset => self.refer("offset", |_| {
                let units = DURATION_UNITS.map(|(unit, _)| unit).join("|");
                vec![kind("string"), entry("pattern", text(&format!("^-?[0-9]+(?:{units})$")))]
            }),
            Shape::Size { min, max } => {
                let name = format!("size-{}-{}", show_size(min), show_size(max));
                self.refer(&name, |_| quantity(min, max, &SIZE_UNITS))
            }
            Shape::AnyOf(shapes) => {
                let shapes = shapes.iter().map(|shape| Value::Table(self.shape(shape))).collect();
                vec![entry("anyOf", list(shapes))]
            }
            Shape::List { item, min, max, unique } => {
                let mut entries = vec![kind("array"), entry("items", Value::Table(self.shape(item)))];
                entries.extend(above("minItems", min).into_iter().chain(below("maxItems", max)));
                entries.extend(unique.then(|| entry("uniqueItems", Value::Bool(true))));
                entries
            }
            Shape::OneOrMore { item, min, max } => {
                let several = self.shape(&Shape::List { item, min, max, unique: false });
                vec![entry("anyOf", list(vec![Value::Table(self.shape(item)), Value::Table(several)]))]
            }
            Shape::Map { name, value, min, max } => {
                let mut entries = vec![kind("object")];
                let names = characters(name);
                // Every name is a text.
                entries.extend((names.len() > 1).then(|| entry("propertyNames", Value::Table(names))));
                entries.push(entry("additionalProperties", Value::Table(self.shape(value))));
                entries.extend(above("minProperties", min).into_iter().chain(below("maxProperties", max)));
                entries
            }
            Shape::Table(section) => {
                let mut entries = self.part(section);
                entries.extend(cases(section));
                entries
            }
            Shape::Part(section) => self.part(section),
        }
    }

    fn part(&mut self, section: &Section) -> Vec<Entry> {
        self.refer(section.id, |schema| {
            let mut entries = vec![entry("title", text(section.title))];
            entries.extend(schema.section(section));
            entries
        })
    }

    /// A reference to the definition of that name, which is made once.
    fn refer(&mut self, name: &str, make: impl FnOnce(&mut Schema) -> Vec<Entry>) -> Vec<Entry> {
        if !self.definitions.contains_key(name) {
            self.definitions.insert(name.to_owned(), Value::Null);
            let definition = Value::Table(make(self));
            self.definitions.insert(name.to_owned(), definition);
        }
        vec![entry("$ref", text(&format!("#/$defs/{name}")))]
    }
}

/// How the keys of a section go together.
fn cases(section: &Section) -> Option<Entry> {
    let case = |case: &Case| {
        let mut entries: Vec<Entry> = texts("required", case.with.iter().copied()).into_iter().collect();
        let without = case.without.iter().map(|key| entry(key, Value::Bool(false)));
        let whole = case.whole.iter().filter_map(|name| {
            let shape = section.keys.iter().find(|key| key.name == *name)?.shape;
            let is_table = entry("if", Value::Table(vec![kind("object")]));
            let complete = entry("then", Value::Table(cases(part_of(&shape)?).into_iter().collect()));
            Some(entry(name, Value::Table(vec![is_table, complete])))
        });
        let properties: Vec<Entry> = without.chain(whole).collect();
        if !properties.is_empty() {
            entries.push(entry("properties", Value::Table(properties)));
        }
        Value::Table(entries)
    };
    (!section.cases.is_empty()).then(|| entry("anyOf", list(section.cases.iter().map(case).collect())))
}

/// The table that a key may be a part of.
fn part_of(shape: &Shape) -> Option<&'static Section> {
    match *shape {
        Shape::Part(section) => Some(section),
        Shape::AnyOf(shapes) => shapes.iter().find_map(part_of),
        Shape::Bool
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Text(_)
        | Shape::Words(_)
        | Shape::Known(_)
        | Shape::Duration { .. }
        | Shape::Offset
        | Shape::Size { .. }
        | Shape::List { .. }
        | Shape::OneOrMore { .. }
        | Shape::Map { .. }
        | Shape::Table(_) => None,
    }
}

/// The default `text` as the value that it stands for; `None`: it is none of `shape`.
fn typed(shape: &Shape, text: &str) -> Option<Value> {
    let word = |is_one: bool| is_one.then(|| Value::Text(text.to_owned()));
    match *shape {
        Shape::Bool => text.parse().ok().map(Value::Bool),
        Shape::Integer { .. } => text.parse().ok().map(Value::Integer),
        Shape::Number { .. } => text.parse().ok().map(Value::Float),
        Shape::Words(words) => word(words.contains(&text)),
        Shape::Known(words) => word(words().contains(&text)),
        Shape::Text(_) | Shape::Duration { .. } | Shape::Offset | Shape::Size { .. } => word(true),
        Shape::AnyOf(shapes) => shapes.iter().find_map(|shape| typed(shape, text)),
        Shape::List { item, .. } => {
            let items: Option<Vec<Value>> = text.split(", ").map(|text| typed(item, text)).collect();
            items.map(list)
        }
        Shape::OneOrMore { item, .. } => typed(item, text),
        Shape::Map { .. } | Shape::Table(_) | Shape::Part(_) => None,
    }
}

/// The example of a key.
fn example(key: &Key) -> Value {
    let document = Document::parse(&format!("_ = {}", key.example), Format::Toml).expect("examples are tested");
    let Value::Table(entries) = &document.root().value else { unreachable!("a TOML document is a table") };
    entries[0].node.value.clone()
}

fn number(min: f64, max: f64, is_above: bool) -> Vec<Entry> {
    let name = if is_above { "exclusiveMinimum" } else { "minimum" };
    let bounds = [(name, min), ("maximum", max)].into_iter().filter(|(_, bound)| bound.is_finite());
    let bounds = bounds.map(|(name, bound)| entry(name, Value::Float(bound)));
    core::iter::once(kind("number")).chain(bounds).collect()
}

fn characters(form: &Form) -> Vec<Entry> {
    let mut entries = vec![kind("string")];
    entries.extend(above("minLength", form.min).into_iter().chain(below("maxLength", form.max)));
    entries.extend((!form.pattern.is_empty()).then(|| entry("pattern", text(form.pattern))));
    entries
}

fn quantity(min: u64, max: u64, units: &[(&str, u64)]) -> Vec<Entry> {
    vec![kind("string"), entry("pattern", text(&digits::pattern(min, max, units)))]
}

/// A lower bound, where there is one.
fn above(name: &str, min: usize) -> Option<Entry> {
    (min > 0).then(|| entry(name, count(min)))
}

/// An upper bound, where there is one.
fn below(name: &str, max: usize) -> Option<Entry> {
    (max < usize::MAX).then(|| entry(name, count(max)))
}

fn count(count: usize) -> Value {
    Value::Integer(i128::try_from(count).expect("it has more bits"))
}

fn kind(word: &str) -> Entry {
    entry("type", text(word))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A list of texts, where there are any.
fn texts<'t>(name: &str, texts: impl Iterator<Item = &'t str>) -> Option<Entry> {
    let texts: Vec<Value> = texts.map(text).collect();
    (!texts.is_empty()).then(|| entry(name, list(texts)))
}

fn list(values: Vec<Value>) -> Value {
    Value::List(values.into_iter().map(|value| Node { place: None, value }).collect())
}

fn entry(key: &str, value: Value) -> Entry {
    Entry { key: key.to_owned(), place: None, node: Node { place: None, value } }
}
