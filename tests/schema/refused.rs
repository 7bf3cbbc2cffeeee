//! Documents with one mistake each, which the schema and the checker refuse both.

use serde_json::{Value, json};

use super::{file_schema, from_toml, is_taken, refusals, validator};

const GOOD: &str = "
gateway.id = 'g'
devices = { broker = 'mqtt://a', keep_alive = '60s' }
uplink = { broker = 'mqtts://b', ca_file = 'system', alpn = ['mqtt'] }
storage.path = '/s'
control.socket = '/c'
local.qos = 1
outbox = { window = 8, late = { max_age = '1d' } }
listener = { tcp = '127.0.0.1:1883', rules = [{ publish = ['a/#'] }] }
[[streams]]
name = 's'
topic = 'd/{device}'
labels = { l = { from = '{device}', map = { a = 'b' } } }
fields = { t = { pointer = '/t', scale = 0.1 }, u = '/u' }
time = { field = '/ts', unit = 'ms' }
dedup = { sequence = 't' }
availability = [{ topic = 'a/{device}', online = ['1'] }]
[[streams.windows]]
name = '1m'
size = '1m'
lateness = '1h'
late_updates = { every = '5s' }
aggregates = ['count', 'quantiles']
quantiles = [0.5]
[[streams]]
name = 'raw'
topic = 'r/{device}'
format = 'raw'
raw = { words = { on = 1 } }
time = { source = 'receive' }
windows = [{ name = '1m', size = '1m' }]
[[streams]]
name = 'csv'
topic = 'c/{device}'
format = 'csv'
csv = { separator = ';' }
time = [{ field = '/a', unit = 's' }, { field = '/b', format = 'iso' }]
[[joins]]
name = 'j'
windows = ['s/1m', 'raw/1m']
";

/// JSON Pointers of all tables in which keys are known.
const TABLES: [&str; 22] = [
    "",
    "/gateway",
    "/devices",
    "/uplink",
    "/storage",
    "/control",
    "/local",
    "/outbox",
    "/outbox/late",
    "/listener",
    "/listener/rules/0",
    "/streams/0",
    "/streams/0/labels/l",
    "/streams/0/fields/t",
    "/streams/0/time",
    "/streams/0/dedup",
    "/streams/0/availability/0",
    "/streams/0/windows/0",
    "/streams/0/windows/0/late_updates",
    "/streams/1/raw",
    "/streams/2/csv",
    "/joins/0",
];

fn assert_refused(document: &Value, what: &str) {
    assert!(!is_taken(document), "the checker takes {what}");
    assert!(!validator(&file_schema()).is_valid(document), "the schema takes {what}");
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut document = from_toml(GOOD);
    let (table, key) = pointer.rsplit_once('/').unwrap();
    let found = document.pointer_mut(table).unwrap_or_else(|| panic!("{table}"));
    match key.parse::<usize>() {
        Ok(index) => found[index] = value,
        Err(_) => found[key] = value,
    }
    document
}

#[test]
fn without_the_mistake_it_is_good() {
    let document = from_toml(GOOD);
    assert!(is_taken(&document));
    assert_eq!(refusals(&validator(&file_schema()), &document), "");
}

#[test]
fn an_unknown_key_is_refused_in_every_table() {
    for table in TABLES {
        assert_refused(&changed(&format!("{table}/unknown"), json!(1)), &format!("{table}/unknown"));
    }
    assert_refused(&changed("/streams/2/time/0/unknown", json!(1)), "one in a list of times");
}

fn assert_all_refused(wrong: &[(&str, Value)]) {
    for (pointer, value) in wrong {
        assert_refused(&changed(pointer, value.clone()), &format!("{pointer} = {value}"));
    }
}

#[test]
fn a_value_of_another_type_is_refused() {
    assert_all_refused(&[
        ("/gateway", json!("g")),
        ("/gateway/id", json!(7)),
        ("/streams", json!({})),
        ("/streams/0", json!("s")),
        ("/streams/0/topic", json!([1])),
        ("/streams/0/fields", json!(["/t"])),
        ("/streams/0/fields/u", json!(1)),
        ("/streams/0/fields/t/scale", json!("0.1")),
        ("/streams/0/labels", json!([])),
        ("/streams/0/windows/0/final", json!("true")),
        ("/streams/0/windows/0/aggregates", json!("count")),
        ("/streams/1/raw/words", json!({ "on": "1" })),
        ("/local/retain", json!(1)),
        ("/local/qos", json!("1")),
        ("/uplink/alpn", json!("mqtt")),
        ("/devices/broker", json!(null)),
    ]);
}

#[test]
fn a_word_that_is_none_of_the_list_is_refused() {
    assert_all_refused(&[
        ("/gateway/encoding", json!("xml")),
        ("/uplink/protocol", json!("3.1")),
        ("/uplink/compression", json!("gzip")),
        ("/streams/0/fields", json!("none")),
        ("/streams/0/fields/t/type", json!("text")),
        ("/streams/0/preset", json!("nest")),
        ("/streams/0/format", json!("xml")),
        ("/streams/0/scope", json!("all")),
        ("/streams/0/watermark", json!("none")),
        ("/streams/0/dedup", json!("on")),
        ("/streams/0/time/unit", json!("min")),
        ("/streams/0/windows/0/late_updates", json!("all")),
        ("/streams/0/windows/0/aggregates/0", json!("avg")),
        ("/joins/0/mode", json!("left")),
        ("/listener/anonymous", json!("always")),
    ]);
}

#[test]
fn a_value_out_of_range_is_refused() {
    assert_all_refused(&[
        ("/devices/keep_alive", json!("4s")),
        ("/devices/keep_alive", json!("19h")),
        ("/storage/reserve", json!("1MiB")),
        ("/storage/commit_interval", json!("1d")),
        ("/outbox/window", json!(0)),
        ("/outbox/window", json!(33)),
        ("/outbox/backlog_share", json!("100%")),
        ("/outbox/messages_per_second", json!(-1)),
        ("/outbox/late/max_age", json!("9s")),
        ("/listener/max_packet", json!("257KiB")),
        ("/listener/max_sessions", json!(50_001)),
        ("/local/qos", json!(2)),
        ("/streams/0/devices_max", json!(100_001)),
        ("/streams/0/dedup/horizon", json!(0)),
        ("/streams/0/idle_timeout", json!("0s")),
        ("/streams/0/windows/0/size", json!("0s")),
        ("/streams/0/windows/0/lateness", json!("367d")),
        ("/streams/0/windows/0/quantiles/0", json!(1.5)),
        ("/joins/0/ttl", json!("999ms")),
    ]);
}

#[test]
fn too_few_items_and_the_same_twice_are_refused() {
    assert_all_refused(&[
        ("/streams/0/topic", json!([])),
        ("/streams/0/windows/0/aggregates", json!(["count", "count"])),
        ("/joins/0/windows", json!(["s/1m"])),
        ("/streams/0/labels/l/map", json!({})),
    ]);
}

#[test]
fn a_quantity_without_its_unit_or_with_another_is_refused() {
    assert_all_refused(&[
        ("/devices/keep_alive", json!(60)),
        ("/devices/keep_alive", json!("60")),
        ("/devices/keep_alive", json!("60 s")),
        ("/devices/keep_alive", json!("1.5m")),
        ("/streams/0/disorder", json!("-5s")),
        ("/streams/0/windows/0/offset", json!("1")),
        ("/outbox/max_bytes", json!("1GB")),
        ("/outbox/max_bytes", json!(1_048_576)),
    ]);
}

#[test]
fn a_text_of_another_form_is_refused() {
    assert_all_refused(&[
        ("/gateway/id", json!("")),
        ("/gateway/id", json!("a\nb")),
        ("/gateway/topic_prefix", json!("a/#")),
        ("/gateway/topic_prefix", json!("$SYS")),
        ("/devices/broker", json!("localhost:1883")),
        ("/devices/broker", json!("mqtt://u:p@a")),
        ("/devices/broker", json!("mqtt://a b")),
        ("/uplink/proxy", json!("https://p:1")),
        ("/listener/tcp", json!("localhost:1883")),
        ("/streams/0/topic", json!("d/#")),
        ("/streams/0/fields/u", json!("u")),
        ("/streams/0/time/field", json!("ts")),
        ("/streams/0/min_time", json!("yesterday")),
        ("/streams/2/csv/separator", json!(", ")),
    ]);
}

#[test]
fn what_has_to_be_there_is() {
    let required = [
        "/gateway",
        "/gateway/id",
        "/devices/broker",
        "/uplink/broker",
        "/control/socket",
        "/streams/0/name",
        "/streams/0/topic",
        "/streams/0/time",
        "/streams/0/time/field",
        "/streams/0/time/unit",
        "/streams/0/dedup/sequence",
        "/streams/0/labels/l/from",
        "/streams/0/fields/t/pointer",
        "/streams/0/availability/0/topic",
        "/streams/0/windows/0/name",
        "/streams/0/windows/0/size",
        "/streams/0/windows/0/late_updates/every",
        "/streams/2/time/1/format",
        "/joins/0/name",
        "/joins/0/windows",
    ];
    for pointer in required {
        let mut document = from_toml(GOOD);
        let (table, key) = pointer.rsplit_once('/').unwrap();
        let removed = document.pointer_mut(table).unwrap().as_object_mut().unwrap().remove(key);
        assert!(removed.is_some(), "{pointer}");
        assert_refused(&document, &format!("a document without {pointer}"));
    }
}

#[test]
fn keys_that_exclude_each_other_are_refused_together() {
    let together = [
        ("/streams/0/windows/0/gap", json!("5m")),
        ("/streams/0/windows/0/calendar", json!("day")),
        ("/streams/0/windows/0/max_length", json!("1h")),
        ("/streams/0/windows/0/zone", json!("UTC")),
        ("/streams/0/dedup/by", json!("time_and_values")),
        ("/joins/0/left", json!("s")),
        ("/joins/0/after", json!("1s")),
    ];
    for (pointer, value) in together {
        assert_refused(&changed(pointer, value), pointer);
    }
}
