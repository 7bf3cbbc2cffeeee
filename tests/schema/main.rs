//! The JSON Schema says what the checker does: it is a schema, takes every configuration that we
//! have, and refuses what is wrong by itself; each key's default, example and bounds are the
//! checker's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test names what it looks for")]

mod context;
mod each;
mod refused;

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};
use tidegate::config::check::{check, check_for_replay};
use tidegate::config::{preset, schema};

/// The schema of the file.
fn file_schema() -> Value {
    serde_json::from_str(&schema::file()).unwrap()
}

fn desired_schema() -> Value {
    serde_json::from_str(&schema::desired()).unwrap()
}

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap_or_else(|error| panic!("{error}"))
}

/// Why `document` is not as `validator` says; empty: it is.
fn refusals(validator: &Validator, document: &Value) -> String {
    let error = |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    validator.iter_errors(document).map(error).collect::<Vec<_>>().join("\n")
}

/// Whether the checker takes it, to run or for a replay. (For the listener alone it looks at a
/// part of the document.)
fn is_taken(document: &Value) -> bool {
    let text = document.to_string();
    check(&text, "t.json").is_ok() || check_for_replay(&text, "t.json").is_ok()
}

/// A TOML document as editors see it: dates are texts.
fn from_toml(text: &str) -> Value {
    fn convert(value: toml::Value) -> Value {
        match value {
            toml::Value::String(text) => json!(text),
            toml::Value::Integer(integer) => json!(integer),
            toml::Value::Float(float) => json!(float),
            toml::Value::Boolean(truth) => json!(truth),
            toml::Value::Datetime(moment) => json!(moment.to_string()),
            toml::Value::Array(items) => items.into_iter().map(convert).collect(),
            toml::Value::Table(table) => {
                Value::Object(table.into_iter().map(|(key, value)| (key, convert(value))).collect())
            }
        }
    }
    convert(toml::Value::Table(text.parse().unwrap_or_else(|error| panic!("{error}:\n{text}"))))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files below `folder` with that ending, in order.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Fenced blocks of a page whose info begins like that.
fn blocks(page: &Path, info: &str) -> Vec<String> {
    let text = read(page);
    let fence = format!("\n```{info}");
    let block = |part: &str| part.split_once('\n').unwrap().1.split("\n```").next().unwrap().to_owned() + "\n";
    text.split(&fence).skip(1).map(block).collect()
}

/// Every configuration that we have, with its place.
fn configurations() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for path in ["tests/fixtures", "docs", "systemd", "tests/listener"].iter().flat_map(|folder| files(folder, "toml"))
    {
        // A list of samples, no configuration.
        if path.ends_with("errata.toml") {
            continue;
        }
        found.push((path.display().to_string(), from_toml(&read(&path))));
    }
    let pages = files("docs", "md").into_iter().chain([root().join("README.md")]);
    for page in pages {
        let head = blocks(&page, "toml head").concat();
        let complete = blocks(&page, "toml complete").into_iter();
        let recipes = blocks(&page, "toml recipe").into_iter().map(|recipe| format!("{head}{recipe}"));
        found.extend(complete.chain(recipes).map(|text| (page.display().to_string(), from_toml(&text))));
    }
    for preset in preset::ALL {
        let mut stream = from_toml(preset.text);
        stream["name"] = json!("s");
        found.push((format!("written out: {}", preset.name), with_stream(&stream)));
        let named = json!({ "name": "s", "preset": preset.name });
        found.push((format!("named: {}", preset.name), with_stream(&named)));
    }
    found
}

fn with_stream(stream: &Value) -> Value {
    json!({ "gateway": { "id": "g" }, "streams": [stream] })
}

#[test]
fn both_are_schemas_of_2020_12() {
    for schema in [file_schema(), desired_schema()] {
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_configuration_that_we_have_is_as_the_schema_says() {
    let validator = validator(&file_schema());
    let all = configurations();
    assert!(all.len() > 80, "they are where they are looked for: {}", all.len());
    for (place, document) in all {
        assert!(is_taken(&document), "{place}: {document}");
        assert_eq!(refusals(&validator, &document), "", "{place}");
    }
}

/// A table of a stream goes on where that of its preset ends, so nothing in it may be required.
#[test]
fn what_a_preset_begins_a_stream_may_go_on_with() {
    let validator = validator(&file_schema());
    for preset in preset::ALL {
        let Value::Object(keys) = from_toml(preset.text) else { unreachable!() };
        for key in keys.iter().filter(|(key, value)| value.is_object() && *key != "fields").map(|(key, _)| key) {
            let document = with_stream(&json!({ "name": "s", "preset": preset.name, key: {} }));
            assert!(is_taken(&document), "{document}");
            assert_eq!(refusals(&validator, &document), "", "{document}");
        }
    }
}

#[test]
fn a_desired_document_has_a_version_and_tables_of_the_file() {
    let validator = validator(&desired_schema());
    let taken = [
        json!({ "version": 1 }),
        json!({ "version": 7, "trial": "10s", "streams": [], "joins": [], "outbox": {}, "uplink": { "broker": "mqtt://a" } }),
        json!({ "version": 7, "trial": "1h", "streams": [{ "name": "s", "preset": "tasmota" }] }),
    ];
    for document in taken {
        assert_eq!(refusals(&validator, &document), "", "{document}");
    }
    let refused = [
        json!({}),
        json!({ "version": 0 }),
        json!({ "version": "1" }),
        json!({ "version": 1.5 }),
        json!({ "version": 1, "trial": "9s" }),
        json!({ "version": 1, "trial": "61m" }),
        json!({ "version": 1, "trial": 60 }),
        json!({ "version": 1, "gateway": { "id": "g" } }),
        json!({ "version": 1, "storage": { "path": "/s" } }),
        json!({ "version": 1, "uplink": {} }),
        json!({ "version": 1, "streams": [{ "name": "s" }] }),
    ];
    for document in refused {
        assert!(!validator.is_valid(&document), "{document}");
    }
}

/// The tables that both schemas have are the same.
#[test]
fn what_is_sent_is_as_what_is_in_the_file() {
    let (file, desired) = (file_schema(), desired_schema());
    for (name, definition) in
        desired["$defs"].as_object().unwrap().iter().filter(|(name, _)| *name != "duration-10s-1h")
    {
        assert_eq!(file["$defs"][name], *definition, "{name}");
    }
    for table in ["streams", "joins", "outbox", "uplink"] {
        for keyword in ["type", "items", "maxItems", "$ref"] {
            let [in_file, sent] = [&file, &desired].map(|schema| &schema["properties"][table][keyword]);
            assert_eq!(in_file, sent, "{table} {keyword}");
        }
    }
}
