//! Configuration: what is accepted, and that everything else is refused with all
//! of its problems, each with path, place and hint.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;

use tidegate::config::boot::{BrokerSpec, ClientCert, Config, TlsSpec};
use tidegate::config::check::{Checked, Refused, check, check_for_replay, keys};
use tidegate::config::problem::Problem;
use tidegate::engine::aggregate::Kind;
use tidegate::engine::spec::{
    FieldsSpec, FormatSpec, LatePolicy, OnIdle, Scope, TimeFallback, TimeFormat, TimeSpec, WindowKind,
};
use tidegate::model::time::{EventTime, Span};

const MINIMAL: &str = r#"
[gateway]
id = "gw-1"
[devices]
broker = "mqtt://127.0.0.1"
[uplink]
broker = "mqtt://cloud.example"
[storage]
path = "/var/lib/tidegate"
[[streams]]
name = "climate"
topic = "devices/{device}/climate"
time = { field = "/ts", unit = "ms" }
[[streams.windows]]
name = "1m"
size = "1m"
"#;

const FULL: &str = r#"
[gateway]
id = "gw-1"
topic_prefix = "site/tide"

[devices]
broker = "mqtt://10.0.0.5:1884"
client_id = "here"
username = "x"
password_file = "/etc/tidegate/password"
keep_alive = "30s"

[uplink]
broker = "mqtts://cloud.example"
client_id = "there"
ca_file = "/etc/tidegate/ca.pem"
cert_file = "/etc/tidegate/cert.pem"
key_file = "/etc/tidegate/key.pem"

[storage]
path = "/var/lib/tidegate"
commit_interval = "500ms"
snapshot_interval = "60s"
outbox_max_bytes = "64KiB"

[control]
socket = "/run/tidegate/control.sock"

[[streams]]
name = "climate"
topic = "devices/{site}/{unit}/climate"
device = "{site}-{unit}"
format = "json"
fields = { temperature = "/temperature", humidity = "/a~1b/0" }
time = { field = "/ts", format = "rfc3339", missing = "receive", bad = "receive" }
disorder = "0s"
idle_timeout = "off"
scope = "shared"
on_idle = "hold"
max_future = "off"
min_time = "off"
devices_max = 7

[[streams.windows]]
name = "15m"
size = "15m"
offset = "-5m"
lateness = "10m"
late = "drop"
aggregates = ["max", "count"]

[[streams.windows]]
name = "day"
size = "1d"
offset = "6h"

[[streams]]
name = "boiler"
topic = "boiler/state"
device = "boiler"
fields = "all"
time = { source = "receive" }
min_time = 2020-01-01T00:00:00Z

[[streams.windows]]
name = "10s"
size = "10s"
"#;

fn accepted(text: &str) -> Checked<Config> {
    check(text, "t.toml").unwrap_or_else(|refused| panic!("{refused}"))
}

fn refused(text: &str) -> Refused {
    match check(text, "t.toml") {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(refused) => refused,
    }
}

#[test]
fn a_minimal_file_has_the_documented_defaults() {
    let Checked { config, hash, warnings } = accepted(MINIMAL);
    assert_eq!(warnings, []);
    assert_eq!(config.hash, hash);
    let pipeline = &config.pipeline;
    assert_eq!((pipeline.gateway.as_str(), pipeline.topic_prefix.as_str()), ("gw-1", "tidegate"));
    assert_eq!(pipeline.outbox_bytes_max, 8 << 20);
    assert_eq!(pipeline.commit.interval, Span::from_secs(1));
    assert_eq!(pipeline.commit.snapshot_interval, Span::from_secs(120));
    let broker = |host: &str, client_id: &str| BrokerSpec {
        host: host.into(),
        port: 1883,
        tls: None,
        client_id: client_id.into(),
        username: None,
        password_file: None,
        keep_alive: Span::from_secs(60),
    };
    assert_eq!(config.devices, broker("127.0.0.1", "tidegate-gw-1"));
    assert_eq!(config.uplink, broker("cloud.example", "tidegate-gw-1-uplink"));
    assert_eq!((config.storage.path, config.control), (PathBuf::from("/var/lib/tidegate"), None));
    let [stream] = pipeline.streams.as_slice() else { panic!("one stream") };
    assert_eq!(stream.format, FormatSpec::Json(FieldsSpec::All));
    assert_eq!(
        stream.time,
        TimeSpec::Field {
            pointer: "/ts".into(),
            format: TimeFormat::EpochMillis,
            missing: TimeFallback::Reject,
            bad: TimeFallback::Reject,
        }
    );
    assert_eq!((stream.watermark.disorder, stream.watermark.scope), (Span::from_secs(5), Scope::Device));
    assert_eq!(stream.watermark.idle_timeout, Some(Span::from_secs(60)));
    assert_eq!((stream.on_idle, stream.max_future), (OnIdle::Emit, Some(Span::from_secs(300))));
    assert_eq!((stream.min_time, stream.devices_max), (Some(EventTime::from_millis(946_684_800_000)), 10_000));
    let [window] = stream.windows.as_slice() else { panic!("one window") };
    assert_eq!(window.kind, WindowKind::Tumbling { size: Span::from_secs(60), offset_ms: 0 });
    assert_eq!((window.lateness, window.late), (Span::ZERO, LatePolicy::SideOutput));
    assert_eq!(window.aggregates, Kind::ALL);
}

#[test]
fn a_full_file_says_what_it_says() {
    let Checked { config, warnings, .. } = accepted(FULL);
    assert_eq!(warnings, []);
    assert_eq!((config.devices.host.as_str(), config.devices.port), ("10.0.0.5", 1884));
    assert_eq!(config.devices.password_file, Some("/etc/tidegate/password".into()));
    assert_eq!(config.uplink.port, 8883);
    let client =
        Some(ClientCert { cert_file: "/etc/tidegate/cert.pem".into(), key_file: "/etc/tidegate/key.pem".into() });
    assert_eq!(config.uplink.tls, Some(TlsSpec { ca_file: "/etc/tidegate/ca.pem".into(), client }));
    assert_eq!(config.control, Some("/run/tidegate/control.sock".into()));
    assert_eq!((config.pipeline.topic_prefix.as_str(), config.pipeline.outbox_bytes_max), ("site/tide", 65_536));
    let [climate, boiler] = config.pipeline.streams.as_slice() else { panic!("two streams") };
    let FormatSpec::Json(FieldsSpec::Named(fields)) = &climate.format else { panic!("named fields") };
    let fields: Vec<_> = fields.iter().map(|(name, pointer)| (name.as_str(), pointer.as_str())).collect();
    assert_eq!(fields, [("humidity", "/a~1b/0"), ("temperature", "/temperature")]);
    assert!(matches!(
        climate.time,
        TimeSpec::Field { format: TimeFormat::Rfc3339, missing: TimeFallback::Receive, bad: TimeFallback::Receive, .. }
    ));
    assert_eq!((climate.watermark.idle_timeout, climate.max_future, climate.min_time), (None, None, None));
    assert_eq!((climate.watermark.scope, climate.on_idle, climate.devices_max), (Scope::Shared, OnIdle::Hold, 7));
    let [quarter, day] = climate.windows.as_slice() else { panic!("two windows") };
    assert_eq!(quarter.kind, WindowKind::Tumbling { size: Span::from_secs(900), offset_ms: -300_000 });
    assert_eq!((quarter.late, quarter.lateness), (LatePolicy::Drop, Span::from_secs(600)));
    assert_eq!(quarter.aggregates, [Kind::Max, Kind::Count]);
    assert_eq!(day.kind, WindowKind::Tumbling { size: Span::from_secs(86_400), offset_ms: 21_600_000 });
    assert_eq!((&boiler.time, boiler.min_time), (&TimeSpec::Receive, Some(EventTime::from_millis(1_577_836_800_000))));
}

/// One change to [`FULL`], and the problems it makes: `(path, part of message or hint)`.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

#[rustfmt::skip]
const WRONG: &[Case] = &[
    // --- the document
    ("[control]", "[contrl]", &[("contrl", "did you mean `control`?")]),
    ("[gateway]\nid = \"gw-1\"", "gateway = 7\n[x]\nid = \"gw-1\"", &[("gateway", "must be a table, not an integer"), ("x", "known: gateway")]),
    ("id = \"gw-1\"\n", "", &[("gateway.id", "is missing")]),
    ("id = \"gw-1\"", "id = \"\"", &[("gateway.id", "is empty")]),
    ("id = \"gw-1\"", "id = true", &[("gateway.id", "must be a string, not a bool")]),
    ("id = \"gw-1\"", "id = \"a\\nb\"", &[("gateway.id", "without control characters")]),
    ("\"site/tide\"", "\"site/#\"", &[("gateway.topic_prefix", "no wildcards")]),
    ("\"site/tide\"", "\"/tide\"", &[("gateway.topic_prefix", "no empty level")]),
    // --- brokers
    ("\"mqtt://10.0.0.5:1884\"", "\"10.0.0.5\"", &[("devices.broker", "\"mqtt://10.0.0.5\"")]),
    ("\"mqtt://10.0.0.5:1884\"", "\"mqtt://u:p@10.0.0.5\"", &[("devices.broker", "password_file")]),
    ("\"mqtt://10.0.0.5:1884\"", "\"mqtt://10.0.0.5:0\"", &[("devices.broker", "1 to 65535")]),
    ("\"mqtt://10.0.0.5:1884\"", "\"amqp://10.0.0.5\"", &[("devices.broker", "`amqp` is not supported")]),
    ("broker = \"mqtt://10.0.0.5:1884\"\n", "", &[("devices.broker", "is missing")]),
    ("username = \"x\"\n", "", &[("devices.password_file", "add `username`")]),
    ("keep_alive = \"30s\"", "keep_alive = \"1s\"", &[("devices.keep_alive", "must be from 5s to 18h")]),
    ("keep_alive = \"30s\"", "keep-alive = \"30s\"", &[("devices.keep-alive", "did you mean `keep_alive`?")]),
    ("keep_alive = \"30s\"", "password = \"secret\"", &[("devices.password", "did you mean `password_file`?")]),
    ("keep_alive = \"30s\"", "ca_file = \"/ca\"", &[("devices.ca_file", "without TLS")]),
    ("ca_file = \"/etc/tidegate/ca.pem\"\n", "", &[("uplink.ca_file", "whom to trust")]),
    ("key_file = \"/etc/tidegate/key.pem\"\n", "", &[("uplink.cert_file", "add `key_file`")]),
    ("broker = \"mqtts://cloud.example\"\nclient_id = \"there\"", "broker = \"mqtts://10.0.0.5:1884\"\nclient_id = \"here\"", &[("uplink.client_id", "each connection would end the other")]),
    // --- storage, control
    ("commit_interval = \"500ms\"", "commit_interval = 500", &[("storage.commit_interval", "\"500s\" or \"500ms\"")]),
    ("commit_interval = \"500ms\"", "commit_interval = \"0s\"", &[("storage.commit_interval", "from 10ms to 1m")]),
    ("snapshot_interval = \"60s\"", "snapshot_interval = \"400ms\"", &[("storage.snapshot_interval", "commit_interval (500ms)")]),
    ("\"64KiB\"", "\"64KB\"", &[("storage.outbox_max_bytes", "\"64KiB\"")]),
    ("\"64KiB\"", "\"1KiB\"", &[("storage.outbox_max_bytes", "from 64KiB to 64MiB")]),
    ("\"64KiB\"", "65536", &[("storage.outbox_max_bytes", "\"65536B\"")]),
    ("path = \"/var/lib/tidegate\"\n", "", &[("storage.path", "is missing")]),
    ("/run/tidegate/control.sock", "/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789", &[("control.socket", "107 bytes")]),
    // --- streams
    ("name = \"boiler\"", "name = \"climate\"", &[("streams[1].name", "streams[0] has the same name")]),
    ("topic = \"boiler/state\"", "topic = \"boiler/#\"", &[("streams[1].topic", "`{device...}`")]),
    ("device = \"boiler\"\n", "", &[("streams[1].device", "captures no `{device}`")]),
    ("device = \"{site}-{unit}\"\n", "", &[("streams[0].device", "device = \"{site}\"")]),
    ("device = \"{site}-{unit}\"", "device = \"{sit}\"", &[("streams[0].device", "it has: site, unit")]),
    ("format = \"json\"", "format = \"cbor\"", &[("streams[0].format", "must be \"json\"")]),
    ("fields = \"all\"", "fields = \"al\"", &[("streams[1].fields", "\"all\" or a table")]),
    ("fields = \"all\"", "fields = [\"a\"]", &[("streams[1].fields", "not a list")]),
    ("fields = \"all\"", "fields = {}", &[("streams[1].fields", "1 to 64")]),
    ("\"/temperature\"", "\"temperature\"", &[("streams[0].fields.temperature", "\"/temperature\"")]),
    ("\"/temperature\"", "\"$.sensors[0].t\"", &[("streams[0].fields.temperature", "\"/sensors/0/t\"")]),
    ("\"/a~1b/0\"", "\"/a~b\"", &[("streams[0].fields.humidity", "`~0`")]),
    ("time = { source = \"receive\" }\n", "", &[("streams[1].time", "no time is ever made up")]),
    ("time = { source = \"receive\" }", "time = \"receive\"", &[("streams[1].time", "{ source = \"receive\" }")]),
    ("source = \"receive\"", "source = \"recieve\"", &[("streams[1].time.source", "did you mean \"receive\"?")]),
    ("{ source = \"receive\" }", "{ source = \"receive\", unit = \"ms\" }", &[("streams[1].time.unit", "has no effect")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\" }", &[("streams[1].time", "a unit is never guessed")]),
    ("{ source = \"receive\" }", "{ field = \"/ts\", unit = \"us\" }", &[("streams[1].time.unit", "\"s\" or \"ms\"")]),
    ("{ source = \"receive\" }", "{ unit = \"ms\" }", &[("streams[1].time.field", "is missing")]),
    ("format = \"rfc3339\"", "format = \"rfc3339\", unit = \"s\"", &[("streams[0].time.unit", "exclude each other")]),
    ("bad = \"receive\"", "bad = \"now\"", &[("streams[0].time.bad", "\"reject\" or \"receive\"")]),
    ("disorder = \"0s\"", "disorder = \"-1s\"", &[("streams[0].disorder", "must be a duration")]),
    ("disorder = \"0s\"", "disorder = \"400d\"", &[("streams[0].disorder", "366d")]),
    ("disorder = \"0s\"", "disorder = \"1.5s\"", &[("streams[0].disorder", "next smaller unit")]),
    ("disorder = \"0s\"", "sise = \"0s\"", &[("streams[0].sise", "known: name, topic")]),
    ("disorder = \"0s\"", "lateness = \"0s\"", &[("streams[0].lateness", "belongs to [[streams.windows]]")]),
    ("idle_timeout = \"off\"", "idle_timeout = \"0s\"", &[("streams[0].idle_timeout", "from 1ms")]),
    ("idle_timeout = \"off\"", "idle_timeout = false", &[("streams[0].idle_timeout", "or \"off\", not a bool")]),
    ("scope = \"shared\"", "scope = \"group\"", &[("streams[0].scope", "\"device\" or \"shared\"")]),
    ("on_idle = \"hold\"", "on_idle = \"emitt\"", &[("streams[0].on_idle", "did you mean \"emit\"?")]),
    ("2020-01-01T00:00:00Z", "2020-01-01", &[("streams[1].min_time", "with an offset")]),
    ("devices_max = 7", "devices_max = 0", &[("streams[0].devices_max", "from 1 to 100000")]),
    ("devices_max = 7", "devices_max = \"7\"", &[("streams[0].devices_max", "must be an integer")]),
    // --- windows
    ("[[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\n", "", &[("streams[1].windows", "not supported yet")]),
    ("size = \"15m\"", "size = \"0s\"", &[("streams[0].windows[0].size", "from 1ms to 366d")]),
    ("size = \"15m\"", "size = 15", &[("streams[0].windows[0].size", "a number alone has no unit")]),
    ("size = \"15m\"\n", "", &[("streams[0].windows[0].size", "is missing")]),
    ("offset = \"-5m\"", "offset = \"-15m\"", &[("streams[0].windows[0].offset", "\"0s\" has the same borders")]),
    ("offset = \"6h\"", "offset = \"30h\"", &[("streams[0].windows[1].offset", "\"6h\" has the same borders")]),
    ("name = \"day\"", "name = \"15m\"", &[("streams[0].windows[1].name", "streams[0].windows[0] has the same name")]),
    ("late = \"drop\"", "late = \"backfill\"", &[("streams[0].windows[0].late", "\"side_output\" or \"drop\"")]),
    ("[\"max\", \"count\"]", "[]", &[("streams[0].windows[0].aggregates", "is empty")]),
    ("[\"max\", \"count\"]", "\"max\"", &[("streams[0].windows[0].aggregates", "must be a list")]),
    ("[\"max\", \"count\"]", "[\"max\", \"avg\", \"p99\", \"max\", 1]", &[
        ("streams[0].windows[0].aggregates[1]", "did you mean \"mean\"?"),
        ("streams[0].windows[0].aggregates[2]", "known: count, sum"),
        ("streams[0].windows[0].aggregates[3]", "appears twice"),
        ("streams[0].windows[0].aggregates[4]", "must be a string"),
    ]),
];

#[test]
fn every_wrong_value_is_named_with_path_place_and_hint() {
    for (from, to, expected) in WRONG {
        assert!(FULL.contains(from), "{from} stands in the full file");
        let text = FULL.replacen(from, to, 1);
        let problems = refused(&text).problems;
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, expected.iter().map(|(path, _)| *path).collect::<Vec<_>>(), "{to}: {problems:#?}");
        for (problem, (_, part)) in problems.iter().zip(*expected) {
            assert!(problem.to_string().contains(part), "{to}: {problem}");
            let line = problem.line.unwrap_or_else(|| panic!("{to}: no line: {problem}"));
            assert!(line <= text.lines().count() && problem.column.is_some(), "{to}: {problem}");
        }
    }
    let long = "secret".repeat(20);
    for address in
        ["mqtt://u:secret@10.0.0.5", "u:secret@10.0.0.5", "tcp://secret@10.0.0.5", &format!("mqtt://u:{long}@10.0.0.5")]
    {
        let problems = refused(&FULL.replace("mqtt://10.0.0.5", address)).to_string();
        assert!(
            problems.contains("devices.broker = \"***@10.0.0.5:1884\"") && !problems.contains("secret"),
            "{problems}"
        );
    }
    // Messages are sentences in one style; look at them all.
    for (from, to, _) in WRONG {
        println!("{}", refused(&FULL.replacen(from, to, 1)));
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let mut text = FULL.to_owned();
    let mut expected = Vec::new();
    for (from, to, problems) in WRONG {
        // As many changes as fit next to each other, one per key.
        // (`snapshot_interval` and `device` are judged against another key, wrong here.)
        let free = !from.starts_with("snapshot")
            && !from.starts_with("topic")
            && text.contains(from)
            && FULL.matches(from).count() == 1
            && !to.contains('\n')
            && !from.starts_with("[c");
        if free && problems.len() == 1 && !expected.iter().any(|(path, _)| path == &problems[0].0) {
            text = text.replacen(from, to, 1);
            expected.push(problems[0]);
        }
    }
    assert!(expected.len() >= 25, "{}", expected.len());
    let found: Vec<String> = refused(&text).problems.into_iter().map(|problem| problem.path).collect();
    for (path, _) in &expected {
        assert!(found.iter().any(|known| known == path), "{path} is missing in {found:#?}");
    }
}

#[test]
fn a_problem_reads_well() {
    let text = FULL.replace("size = \"15m\"", "size = 15");
    let problem = refused(&text).problems.remove(0);
    assert_eq!((problem.line, problem.value.as_deref()), (Some(46), Some("15")));
    assert_eq!(
        problem.to_string(),
        "t.toml:46:8: streams[0].windows[0].size = 15: must be a duration such as \"500ms\", \"5s\", \"1m\", \"2h\" or \
         \"1d\": a number alone has no unit\n    hint: \"15s\" or \"15ms\", with quotes"
    );
}

#[test]
fn an_empty_file_names_every_section_it_lacks() {
    let paths: Vec<String> = refused("").problems.into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["gateway", "devices", "uplink", "storage"]);
}

#[test]
fn syntax_errors_have_line_and_column() {
    for (text, file, line, column) in [
        ("a = \n", "t.toml", 1, 5),
        ("[gateway]\nid = \"x\"\nid = \"y\"\n", "t.toml", 3, 1),
        ("{\"gateway\":\n {]}", "t.json", 2, 3),
    ] {
        let problem = check(text, file).unwrap_err().problems.remove(0);
        assert_eq!((problem.line, problem.column), (Some(line), Some(column)), "{text}: {problem}");
        assert!(problem.to_string().starts_with(&format!("{file}:{line}:{column}: ")), "{problem}");
    }
    assert!(refused(&"#".repeat(2 << 20)).problems[0].message.contains("more than"));
}

#[test]
fn a_replay_needs_no_brokers_and_no_storage_but_checks_what_is_there() {
    let only = |text: &str| {
        let from = text.find("[[streams]]").unwrap();
        format!("[gateway]\nid = \"gw-1\"\n{}", &text[from..])
    };
    let replay = check_for_replay(&only(FULL), "t.toml").unwrap();
    let full = accepted(FULL).config.pipeline;
    assert_eq!(replay.config.streams, full.streams);
    assert_eq!(replay.config.outbox_bytes_max, 8 << 20);
    assert_eq!(check_for_replay(FULL, "t.toml").unwrap().config, full);
    let wrong = FULL.replace("mqtt://10.0.0.5:1884", "10.0.0.5").replace("path = \"/var/lib/tidegate\"\n", "");
    let refused = check_for_replay(&wrong, "t.toml").unwrap_err();
    let paths: Vec<&str> = refused.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["devices.broker"], "a path is not needed, a broker that stands there is checked");
}

#[test]
fn what_is_allowed_and_probably_not_meant_is_a_warning() {
    let warnings = |text: &str| -> Vec<(String, String)> {
        accepted(text).warnings.into_iter().map(|Problem { path, message, .. }| (path, message)).collect()
    };
    let overlapping = FULL.replace("topic = \"boiler/state\"", "topic = \"devices/+/boiler/+\"");
    let [(path, message)] = warnings(&overlapping).try_into().unwrap();
    assert!(path == "streams[1].topic" && message.contains("\"climate\""), "{path}: {message}");
    let twice = FULL.replace("\"/a~1b/0\"", "\"/temperature\"");
    assert_eq!(warnings(&twice)[0].0, "streams[0].fields.temperature");
    let many = MINIMAL.replace("size = \"1m\"", "size = \"1s\"\nlateness = \"1h\"");
    assert_eq!(warnings(&many)[0].0, "streams[0].windows[0].lateness");
    let none = &MINIMAL[..MINIMAL.find("[[streams]]").unwrap()];
    assert_eq!(warnings(none)[0].0, "streams");
}

#[test]
fn the_same_document_in_json_gives_the_same_configuration_and_hash() {
    let json = r#"{
        "gateway": {"id": "gw-1"}, "devices": {"broker": "mqtt://127.0.0.1"},
        "uplink": {"broker": "mqtt://cloud.example"}, "storage": {"path": "/var/lib/tidegate"},
        "streams": [{"topic": "devices/{device}/climate", "name": "climate", "time": {"unit": "ms", "field": "/ts"},
                     "windows": [{"name": "1m", "size": "1m"}]}]}"#;
    let checked = check(json, "desired.json").unwrap();
    assert_eq!(checked.config, accepted(MINIMAL).config);
    assert_ne!(checked.hash, accepted(FULL).hash);
    let refused = check(&json.replace("\"size\": \"1m\"", "\"size\": null"), "desired.json").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "desired.json: streams[0].windows[0].size = null: must be a duration such as \"500ms\", \"5s\", \"1m\", \"2h\" or \
         \"1d\", not null"
    );
}

#[test]
fn the_reference_lists_every_key_that_the_full_file_uses() {
    let reference = keys::reference();
    for line in FULL.lines().filter_map(|line| line.split_once(" = ")) {
        assert!(reference.contains(&format!("`{}`", line.0)), "{}", line.0);
    }
    println!("{reference}");
}

#[test]
fn damaged_files_are_accepted_or_refused_and_never_panic() {
    let pieces =
        ["[", "]", "{", "}", "\"", "=", "\n", "é", "-", "0", "[[streams]]\n", "off", "\\u0000", "9999999999999999999"];
    let mut state = 7_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % bound as u64).unwrap()
    };
    let (mut good, mut bad) = (0, 0);
    for round in 0..2_000 {
        let mut lines: Vec<String> = FULL.lines().map(str::to_owned).collect();
        for _ in 0..=below(3) {
            let (at, other) = (below(lines.len()), below(lines.len()));
            match below(4) {
                0 => drop(lines.remove(at)),
                1 => lines.swap(at, other),
                2 => lines[at] = lines[other].clone(),
                _ => {
                    let line = &mut lines[at];
                    let places: Vec<usize> = line.char_indices().map(|(place, _)| place).collect();
                    let place = places.get(below(places.len() + 1)).copied().unwrap_or(line.len());
                    line.insert_str(place, pieces[below(pieces.len())]);
                }
            }
        }
        let text = lines.join("\n");
        match check(&text, if round % 16 == 0 { "t.json" } else { "t.toml" }) {
            Ok(_) => good += 1,
            Err(refused) => {
                bad += 1;
                assert!(!refused.to_string().is_empty(), "round {round}");
            }
        }
        let _ = check_for_replay(&text, "t.toml");
    }
    assert!(good > 100 && bad > 100, "both happen: {good} accepted, {bad} refused");
}
