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
//!
//! It is written as text, not built as a tree, which would add 16 KiB to the program.

mod describe;
mod digits;
mod json;

use super::check::keys::{self, Case, Form, Key, Need, Section, Shape};
use super::check::scalar::{DURATION_UNITS, SIZE_UNITS, show, show_size};
use super::raw::{Document, Format, Value};
use crate::model::time::Span;

use json::Json;

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
    let mut schema = Schema { json: Json::default(), met: Vec::new() };
    schema.json.open("", '{');
    schema.json.text("$schema", "https://json-schema.org/draft/2020-12/schema");
    schema.json.text("title", title);
    schema.json.text("description", about);
    schema.section(root);
    schema.json.open("$defs", '{');
    let mut defined = 0;
    while let Some((name, shape)) = schema.met.get(defined).cloned() {
        defined += 1;
        schema.json.open(&name, '{');
        schema.definition(&shape);
        schema.json.close('}');
    }
    schema.json.close('}');
    schema.json.close('}');
    schema.json.pretty()
}

struct Schema {
    json: Json,
    /// What has been referred to, by name, in the order in which it was met.
    met: Vec<(String, Shape)>,
}

/// Each of these writes keywords into the object that is open.
impl Schema {
    fn section(&mut self, section: &Section) {
        self.json.text("type", "object");
        self.json.open("properties", '{');
        for key in section.keys {
            self.property(key);
        }
        self.json.close('}');
        let required = section.keys.iter().filter(|key| key.need == Need::Required).map(|key| key.name);
        self.json.texts("required", &required.collect::<Vec<_>>());
        self.json.raw("additionalProperties", "false");
    }

    fn property(&mut self, key: &Key) {
        self.json.open(key.name, '{');
        self.json.text("description", &describe::key(key));
        self.shape(&key.shape);
        if let Need::Default(text) = key.need {
            self.default("default", &key.shape, text);
        }
        let document = Document::parse(&format!("_ = {}", key.example), Format::Toml).expect("examples are tested");
        if let Value::Table(entries) = &document.root().value {
            self.json.open("examples", '[');
            for entry in entries {
                self.json.value("", &entry.node.value);
            }
            self.json.close(']');
        }
        self.json.close('}');
    }

    fn shape(&mut self, shape: &Shape) {
        match *shape {
            Shape::Bool => self.json.text("type", "boolean"),
            Shape::Integer { min, max, .. } => {
                self.json.text("type", "integer");
                self.json.count("minimum", min);
                self.above_and_below("", 0, "maximum", max);
            }
            Shape::Number { min, max, above } => {
                self.json.text("type", "number");
                let name = if above { "exclusiveMinimum" } else { "minimum" };
                for (name, bound) in [(name, min), ("maximum", max)].into_iter().filter(|(_, bound)| bound.is_finite())
                {
                    self.json.value(name, &Value::Float(bound));
                }
            }
            Shape::Text(form) => self.text(form),
            Shape::Words(words) => self.json.texts("enum", &words.split(' ').collect::<Vec<_>>()),
            Shape::Known(words) => self.json.texts("enum", &words()),
            Shape::Duration { .. } | Shape::Offset | Shape::Size { .. } | Shape::Part(_) => self.refer(shape),
            Shape::Table(section) => {
                self.refer(shape);
                self.cases(section);
            }
            Shape::AnyOf(shapes) => {
                self.json.open("anyOf", '[');
                for shape in shapes {
                    self.object("", shape);
                }
                self.json.close(']');
            }
            Shape::List { item, min, max, unique } => {
                self.json.text("type", "array");
                self.object("items", item);
                self.above_and_below("minItems", min, "maxItems", max);
                if unique {
                    self.json.raw("uniqueItems", "true");
                }
            }
            Shape::OneOrMore { item, min, max } => {
                self.json.open("anyOf", '[');
                self.object("", item);
                self.object("", &Shape::List { item, min, max, unique: false });
                self.json.close(']');
            }
            Shape::Map { name, value, min, max } => {
                self.json.text("type", "object");
                self.object("propertyNames", &Shape::Text(name));
                self.object("additionalProperties", value);
                self.above_and_below("minProperties", min, "maxProperties", max);
            }
        }
    }

    /// A schema of its own.
    fn object(&mut self, name: &str, shape: &Shape) {
        self.json.open(name, '{');
        self.shape(shape);
        self.json.close('}');
    }

    fn text(&mut self, form: &Form) {
        self.json.text("type", "string");
        self.above_and_below("minLength", form.min, "maxLength", form.max);
        if !form.pattern.is_empty() {
            self.json.text("pattern", form.pattern);
        }
    }

    /// Bounds, where there are any.
    fn above_and_below(&mut self, least: &str, min: usize, most: &str, max: usize) {
        if min > 0 {
            self.json.count(least, min);
        }
        if max < usize::MAX {
            self.json.count(most, max);
        }
    }

    /// What stands for an absent key, typed: texts are what is no number and no bool.
    fn default(&mut self, name: &str, shape: &Shape, text: &str) {
        match *shape {
            Shape::Bool | Shape::Integer { .. } | Shape::Number { .. } => self.json.raw(name, text),
            Shape::List { item, .. } => {
                self.json.open(name, '[');
                text.split(", ").for_each(|text| self.default("", item, text));
                self.json.close(']');
            }
            Shape::Text(_)
            | Shape::Words(_)
            | Shape::Known(_)
            | Shape::Duration { .. }
            | Shape::Offset
            | Shape::Size { .. }
            | Shape::AnyOf(_)
            | Shape::OneOrMore { .. }
            | Shape::Map { .. }
            | Shape::Table(_)
            | Shape::Part(_) => self.json.text(name, text),
        }
    }

    /// A reference to the definition of `shape`, which is written once.
    fn refer(&mut self, shape: &Shape) {
        let name = if let Shape::Duration { min_ms, max_ms } = *shape {
            format!("duration-{}-{}", length(min_ms), length(max_ms))
        } else if let Shape::Size { min, max } = *shape {
            format!("size-{}-{}", show_size(min), show_size(max))
        } else if let Shape::Table(section) | Shape::Part(section) = *shape {
            section.id.to_owned()
        } else {
            "offset".to_owned()
        };
        self.json.text("$ref", &format!("#/$defs/{name}"));
        if self.met.iter().all(|(met, _)| *met != name) {
            self.met.push((name, *shape));
        }
    }

    fn definition(&mut self, shape: &Shape) {
        let pattern = if let Shape::Table(section) | Shape::Part(section) = *shape {
            self.json.text("title", section.title);
            self.section(section);
            return;
        } else if let Shape::Duration { min_ms, max_ms } = *shape {
            digits::pattern(min_ms, max_ms, &DURATION_UNITS)
        } else if let Shape::Size { min, max } = *shape {
            digits::pattern(min, max, &SIZE_UNITS)
        } else {
            format!("^-?[0-9]+(?:{})$", DURATION_UNITS.map(|(unit, _)| unit).join("|"))
        };
        self.json.text("type", "string");
        self.json.text("pattern", &pattern);
    }

    /// How the keys of a section go together.
    fn cases(&mut self, section: &Section) {
        if section.cases.is_empty() {
            return;
        }
        self.json.open("anyOf", '[');
        for case in section.cases {
            self.json.open("", '{');
            self.case(section, case);
            self.json.close('}');
        }
        self.json.close(']');
    }

    fn case(&mut self, section: &Section, case: &Case) {
        self.json.texts("required", case.with);
        if case.without.is_empty() && case.whole.is_empty() {
            return;
        }
        self.json.open("properties", '{');
        for key in case.without {
            self.json.raw(key, "false");
        }
        for key in section.keys.iter().filter(|key| case.whole.contains(&key.name)) {
            let Some(part) = part_of(&key.shape) else { continue };
            self.json.open(key.name, '{');
            self.json.open("if", '{');
            self.json.text("type", "object");
            self.json.close('}');
            self.json.open("then", '{');
            self.cases(part);
            self.json.close('}');
            self.json.close('}');
        }
        self.json.close('}');
    }
}

/// The table that a key may be a part of.
fn part_of(shape: &Shape) -> Option<&'static Section> {
    if let Shape::AnyOf(shapes) = *shape {
        return shapes.iter().find_map(part_of);
    }
    if let Shape::Part(section) = *shape { Some(section) } else { None }
}

fn length(millis: u64) -> String {
    show(Span::from_millis(millis))
}
