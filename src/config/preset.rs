//! Presets: what is usually written for a kind of device, as data. A stream that names one
//! has its keys, as far as it does not write them itself.
//!
//! A table of the stream is laid over the table of the preset key by key; anything else takes
//! the place of what the preset has. `time` is replaced whole when it says where the time
//! is (`field` or `source`).

use super::problem::{Report, Spot, Wrong, nearest};
use super::raw::{Document, Entry, Format, Node, Value, write};

/// A preset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// As `preset` names it.
    pub name: &'static str,
    /// The keys of a stream, as TOML.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        [$(Preset { name: $name, text: include_str!(concat!("presets/", $name, ".toml")) }),*]
    };
}

/// All of them.
pub static ALL: [Preset; 11] = presets![
    "tasmota",
    "zigbee2mqtt",
    "shelly-gen1",
    "shelly-gen2",
    "esphome",
    "homeassistant-statestream",
    "chirpstack-v4",
    "ttn-v3",
    "ruuvi",
    "teltonika",
    "opcua-pubsub-json",
];

impl Preset {
    /// What its first lines say about it.
    pub fn about(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("# "));
        lines.collect::<Vec<_>>().join(" ")
    }

    fn entries(self) -> Vec<Entry> {
        let document = Document::parse(self.text, Format::Toml).expect("presets are tested");
        match without_places(document.root().clone()).value {
            Value::Table(entries) => entries,
            Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_) => {
                unreachable!("a TOML document is a table")
            }
        }
    }
}

/// Whether it names a preset.
pub(super) fn is_known(name: &Value) -> bool {
    matches!(name, Value::Text(name) if ALL.iter().any(|preset| preset.name == name))
}

/// Writes the presets of all streams out.
pub(super) fn expand(document: &mut Document, report: &mut Report) {
    let Value::Table(root) = &mut document.root_mut().value else { return };
    let Some(streams) = root.iter_mut().find(|entry| entry.key == "streams") else { return };
    let Value::List(streams) = &mut streams.node.value else { return };
    for (index, stream) in streams.iter_mut().enumerate() {
        let Value::Table(entries) = &mut stream.value else { continue };
        let Some(item) = entries.iter().find(|entry| entry.key == "preset") else { continue };
        let Value::Text(name) = &item.node.value else {
            let spot = Spot { path: format!("streams[{index}].preset"), place: item.node.place, value: None };
            report.problem(&spot, Wrong::new(format!("must be a preset's name, not {}", item.node.value.kind())));
            continue;
        };
        if let Some(preset) = ALL.iter().find(|preset| preset.name == name) {
            lay_under(entries, preset.entries());
            continue;
        }
        let names = || ALL.iter().map(|preset| preset.name);
        let wrong = Wrong::new("is no preset that is known");
        let spot = Spot {
            path: format!("streams[{index}].preset"),
            place: item.node.place,
            value: Some(item.node.value.to_string()),
        };
        report.problem(
            &spot,
            match nearest(name, names()) {
                Some(near) => wrong.hint(format!("did you mean \"{near}\"?")),
                None => wrong.hint(format!("known: {}", names().collect::<Vec<_>>().join(", "))),
            },
        );
    }
}

/// The streams of a document with their presets written out, as TOML. `None` when it is no
/// document.
pub fn shown(text: &str, file: &str) -> Option<String> {
    let mut document = Document::parse(text, Format::of(file)).ok()?;
    expand(&mut document, &mut Report::new(file));
    let Value::Table(root) = &document.root().value else { return None };
    let streams = root.iter().find(|entry| entry.key == "streams");
    let Some(Value::List(streams)) = streams.map(|entry| &entry.node.value) else { return Some(String::new()) };
    let tables = streams.iter().filter_map(|stream| match &stream.value {
        Value::Table(entries) => Some(format!("[[streams]]\n{}", write::table(entries))),
        Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_) => None,
    });
    Some(tables.collect::<Vec<_>>().join("\n"))
}

/// Adds what is missing.
fn lay_under(entries: &mut Vec<Entry>, preset: Vec<Entry>) {
    let names_fields = entries.iter().any(|entry| entry.key == "fields" && matches!(entry.node.value, Value::Table(_)));
    for below in preset {
        // Where the fields are named there is no question which of all count.
        if names_fields && matches!(below.key.as_str(), "fields_at" | "fields_except" | "prefix") {
            continue;
        }
        let Some(above) = entries.iter_mut().find(|entry| entry.key == below.key) else {
            entries.push(below);
            continue;
        };
        let (Value::Table(mine), Value::Table(theirs)) = (&mut above.node.value, below.node.value) else { continue };
        let says_where = mine.iter().any(|entry| entry.key == "field" || entry.key == "source");
        if !(above.key == "time" && says_where) && above.key != "fields" {
            lay_under(mine, theirs);
        }
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key));
}

/// Problems point into the file that a person wrote.
fn without_places(node: Node) -> Node {
    let value = match node.value {
        Value::List(nodes) => Value::List(nodes.into_iter().map(without_places).collect()),
        Value::Table(entries) => Value::Table(
            entries
                .into_iter()
                .map(|entry| Entry { key: entry.key, place: None, node: without_places(entry.node) })
                .collect(),
        ),
        scalar @ (Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null) => scalar,
    };
    Node { place: None, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check::check_for_replay;

    fn config(streams: &str) -> String {
        format!("gateway.id = 'g'\n{streams}")
    }

    #[test]
    fn every_preset_is_a_complete_stream_and_says_what_it_is_for() {
        for preset in ALL {
            let text = config(&format!("[[streams]]\nname = 's'\npreset = '{}'\n", preset.name));
            let checked =
                check_for_replay(&text, "t.toml").unwrap_or_else(|refused| panic!("{}: {refused}", preset.name));
            assert_eq!(checked.warnings, [], "{}", preset.name);
            assert!(preset.about().len() > 40, "{}", preset.name);
        }
    }

    #[test]
    fn what_is_shown_is_what_is_meant_without_the_preset() {
        for preset in ALL {
            let text = config(&format!("[[streams]]\nname = 's'\npreset = '{}'\n", preset.name));
            let shown = shown(&text, "t.toml").expect("a document");
            let without = shown.lines().filter(|line| !line.starts_with("preset")).collect::<Vec<_>>().join("\n");
            let meant = |text: &str| check_for_replay(text, "t.toml").expect("valid").config;
            assert_eq!(meant(&config(&without)), meant(&text), "{shown}");
        }
    }

    #[test]
    fn keys_of_the_stream_come_before_those_of_the_preset() {
        let stream = |keys: &str| {
            let text = config(&format!("[[streams]]\nname = 's'\npreset = 'tasmota'\n{keys}"));
            shown(&text, "t.toml").expect("a document")
        };
        let zoned = stream("time.zone = 'Europe/Berlin'\n");
        assert!(zoned.contains("zone = \"Europe/Berlin\"") && zoned.contains("\"/Time\""), "{zoned}");
        let received = stream("time = { source = 'receive' }\n");
        assert!(received.contains("time = { source = \"receive\" }"), "{received}");
        let named = stream("fields = { t = '/t' }\n").replace("tasmota", "shelly-gen2");
        assert!(check_for_replay(&config(&named), "t.toml").is_ok(), "which of all count is no question then");
        let topic = stream("topic = 'home/{device}/SENSOR'\n");
        assert!(topic.contains("topic = \"home/{device}/SENSOR\""), "{topic}");
    }
}
