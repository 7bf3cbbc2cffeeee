//! A document around each key in which the key means something.

use serde_json::{Map, Value, json};
use tidegate::config::check::keys::{self, Key, Section};

use super::from_toml;

const BASE: &str = "
gateway.id = 'g'
devices.broker = 'mqtt://10.0.0.1'
uplink.broker = 'mqtt://cloud.example'
storage.path = '/s'
[[streams]]
name = 'climate'
topic = 'devices/{site}/{metric}/{channel}/{device}/x'
time = { field = '/ts', unit = 'ms' }
windows = [{ name = '1m', size = '1m' }]
[[streams]]
name = 'power'
topic = 'power/{device}'
time = { field = '/ts', unit = 'ms' }
windows = [{ name = '1m', size = '1m' }]
[[streams]]
name = 'door'
topic = 'door/{site}/{device}'
time = { field = '/ts', unit = 'ms' }
group = '{site}'
scope = 'group'
records = 'arrival'
[[streams]]
name = 'motion'
topic = 'motion/{site}/{device}'
time = { field = '/ts', unit = 'ms' }
group = '{site}'
scope = 'group'
records = 'arrival'
";

/// Where the table of a section is in that document, and what is in it beside the key.
const TABLES: &[(&str, &str, &str)] = &[
    ("", "", ""),
    ("gateway", "/gateway", ""),
    ("broker", "/devices", ""),
    ("uplink", "/uplink", ""),
    ("listener", "/listener", ""),
    ("rule", "/listener/rules/0", "user = '*'"),
    ("storage", "/storage", ""),
    ("outbox", "/outbox", ""),
    ("lane", "/outbox/late", ""),
    ("control", "/control", ""),
    ("remote", "/remote", ""),
    ("local", "/local", ""),
    ("stream", "/streams/0", ""),
    ("label", "/streams/0/labels/l", "from = '{device}'"),
    ("availability", "/streams/0/availability/0", "topic = 'devices/{device}/online'"),
    ("raw", "/streams/0/raw", ""),
    ("csv", "/streams/0/csv", ""),
    ("field", "/streams/0/fields/f", "pointer = '/f'"),
    ("time", "/streams/0/time", ""),
    ("dedup", "/streams/0/dedup", "sequence = 'seq'"),
    ("window", "/streams/0/windows/0", ""),
    ("late_updates", "/streams/0/windows/0/late_updates", "every = '5s'"),
    ("join", "/joins/0", "name = 'j'\nwindows = ['climate/1m', 'power/1m']"),
];

/// What a key needs beside it: section, keys, the table (none: its own), what is added to that,
/// and what is taken away from its own.
type Beside = (&'static str, &'static [&'static str], Option<&'static str>, &'static str, &'static [&'static str]);

const TLS: &str = "broker = 'mqtts://a'\nca_file = 'system'\ncert_file = '/c'\nkey_file = '/k'";
const SERVER: &str = "tls = '0.0.0.0:8883'\ncert_file = '/c'\nkey_file = '/k'\nclient_ca_file = '/ca'";
const INTERVAL: &str = "left = 'door'\nright = 'motion'\nafter = '10s'";

const BESIDE: &[Beside] = &[
    ("broker", &["password_file"], None, "username = 'u'", &[]),
    ("broker", &["ca_file", "server_name", "cert_file", "key_file"], None, TLS, &[]),
    ("uplink", &["alpn"], None, TLS, &[]),
    ("uplink", &["password"], None, "username = 'u'", &[]),
    ("uplink", &["proxy_password_file"], None, "proxy = 'http://u@p:1'", &[]),
    (
        "listener",
        &["tls", "websocket_tls", "cert_file", "key_file", "client_ca_file", "client_cert"],
        None,
        SERVER,
        &[],
    ),
    ("listener", &["anonymous"], None, "password_file = '/p'", &[]),
    ("storage", &["commit_interval_max"], None, "write_budget = '500MiB'", &[]),
    ("stream", &["compute", "filter", "explode", "fields_at", "fields_except"], None, "fields = 'all'", &[]),
    ("stream", &["model"], None, "format = 'milesight'", &[]),
    ("stream", &["raw"], None, "format = 'raw'", &[]),
    ("stream", &["csv"], None, "format = 'csv'", &[]),
    ("stream", &["quantile", "floor", "ceiling"], None, "watermark = 'adaptive'", &[]),
    ("stream", &["marker"], None, "watermark = 'punctuated'", &[]),
    ("stream", &["delay"], None, "watermark = 'processing'", &[]),
    ("stream", &["resume", "max_lag", "all_idle"], None, "scope = 'stream'", &[]),
    ("stream", &["ordered_max"], None, "records = 'ordered'", &[]),
    ("raw", &["field", "words", "json", "missing"], Some("/streams/0"), "format = 'raw'", &[]),
    ("csv", &["columns", "separator"], Some("/streams/0"), "format = 'csv'", &[]),
    ("time", &["source"], None, "", &["field", "unit"]),
    ("time", &["format"], None, "", &["unit"]),
    ("time", &["zone", "gap", "overlap"], None, "format = 'iso'\nzone = 'UTC'", &["unit"]),
    ("dedup", &["by"], None, "", &["sequence"]),
    ("window", &["gap", "max_length"], None, "gap = '5m'", &["size"]),
    ("window", &["key"], Some("/streams/0"), "group = '{site}'\nscope = 'group'", &[]),
    ("window", &["calendar", "zone"], None, "calendar = 'day'", &["size"]),
    ("window", &["late_updates", "final"], None, "lateness = '1h'", &[]),
    ("window", &["backfill_quiet", "backfill_max_age"], None, "late = 'backfill'", &[]),
    ("window", &["quantiles"], None, "aggregates = ['quantiles']", &[]),
    ("window", &["histogram"], None, "aggregates = ['histogram']", &[]),
    ("late_updates", &["every"], Some("/streams/0/windows/0"), "lateness = '1h'", &[]),
    ("join", &["left", "right", "after", "before", "key"], None, INTERVAL, &["windows"]),
];

/// A key, and the document around it.
pub(super) struct Place {
    pub(super) section: &'static Section,
    pub(super) key: &'static Key,
    document: Value,
    table: &'static str,
}

/// Every key of the file.
pub(super) fn all() -> Vec<Place> {
    let keys = |section: &'static Section| section.keys.iter().map(move |key| Place::of(section, key));
    keys::SECTIONS.into_iter().flat_map(keys).collect()
}

impl Place {
    fn of(section: &'static Section, key: &'static Key) -> Place {
        let (_, table, own) = *TABLES.iter().find(|(id, ..)| *id == section.id).unwrap();
        let mut document = from_toml(BASE);
        add(&mut document, table, own);
        for (_, _, other, with, without) in
            BESIDE.iter().filter(|(id, keys, ..)| *id == section.id && keys.contains(&key.name))
        {
            add(&mut document, other.unwrap_or(table), with);
            let own = at(&mut document, table);
            for key in *without {
                own.remove(*key);
            }
        }
        Place { section, key, document, table }
    }

    /// The document with `value` for the key.
    pub(super) fn with(&self, value: Value) -> Value {
        let mut document = self.document.clone();
        at(&mut document, self.table).insert(self.key.name.to_owned(), value);
        document
    }

    /// The document without it.
    pub(super) fn without(&self) -> Value {
        let mut document = self.document.clone();
        at(&mut document, self.table).remove(self.key.name);
        document
    }

    /// As problems name it.
    pub(super) fn path(&self) -> String {
        let step = |step: &str| match step.parse::<usize>() {
            Ok(index) => format!("[{index}]"),
            Err(_) => format!(".{step}"),
        };
        let steps: Vec<String> = self.table.split('/').skip(1).chain([self.key.name]).map(step).collect();
        steps.concat().trim_start_matches('.').to_owned()
    }

    /// What may stand there, of the schema `whole`.
    pub(super) fn schema(&self, whole: &Value) -> Value {
        let properties = if self.section.id.is_empty() {
            &whole["properties"]
        } else {
            &whole["$defs"][self.section.id]["properties"]
        };
        let mut schema = properties[self.key.name].clone();
        assert!(schema.is_object(), "{} is in the schema", self.path());
        schema["$defs"] = whole["$defs"].clone();
        schema
    }

    pub(super) fn example(&self) -> Value {
        from_toml(&format!("x = {}", self.key.example))["x"].take()
    }
}

/// The table at a JSON Pointer, made where it is missing: a number is a place in a list.
fn at<'d>(document: &'d mut Value, pointer: &str) -> &'d mut Map<String, Value> {
    let mut found = document;
    for step in pointer.split('/').skip(1) {
        found = if let Ok(index) = step.parse::<usize>() {
            if found.is_null() {
                *found = json!([{}]);
            }
            &mut found[index]
        } else {
            if !found.is_object() {
                *found = json!({});
            }
            &mut found[step]
        };
    }
    if found.is_null() {
        *found = json!({});
    }
    found.as_object_mut().unwrap()
}

fn add(document: &mut Value, pointer: &str, text: &str) {
    let Value::Object(keys) = from_toml(text) else { unreachable!() };
    at(document, pointer).extend(keys);
}
