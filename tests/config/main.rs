//! Configuration: what is accepted, and that everything else is refused with all
//! of its problems, each with path, place and hint.
#![allow(clippy::unwrap_used, missing_docs)]

mod joins;
mod listener;
mod wrong;

use std::path::PathBuf;

use tidegate::config::boot::{
    BrokerSpec, ClientCert, Config, Credential, LocalSpec, Protocol, ProxySpec, Secret, TlsSpec, Trust,
};
use tidegate::config::check::{Checked, Refused, check, check_for_replay, keys};
use tidegate::config::problem::Problem;
use tidegate::engine::aggregate::Kind;
use tidegate::engine::outbox::LaneKind;
use tidegate::engine::spec::{
    AllIdle, BudgetSpec, FieldsSpec, FormatSpec, GapPolicy, KeySpec, LaneSpec, LatePolicy, LateUpdates, OnIdle,
    OutboxSpec, OverlapPolicy, Resume, Scope, Strategy, TimeCandidate, TimeFallback, TimeFormat, TimeSpec, TimeUnit,
    UplinkPolicy, WatermarkSpec, WindowKind, ZonedRules,
};
use tidegate::engine::window::calendar::{CalendarUnit, Zone};
use tidegate::model::ids::Name;
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
username_file = "/run/tidegate/user"
protocol = "5"
compression = "zstd"
alpn = ["x-amzn-mqtt-ca"]
server_name = "mqtt.example"
proxy = "http://gw%207@proxy.site:3128"
proxy_password_file = "/etc/tidegate/proxy-password"
ca_file = "/etc/tidegate/ca.pem"
cert_file = "/etc/tidegate/cert.pem"
key_file = "/etc/tidegate/key.pem"

[storage]
path = "/var/lib/tidegate"
commit_interval = "500ms"
write_budget = "500MiB"
commit_interval_max = "20s"
snapshot_interval = "60s"
reserve = "64MiB"

[outbox]
max_bytes = "64KiB"
backlog_share = "20%"
messages_per_second = 50
bytes_per_second = "100KiB"
bytes_per_day = "20MiB"
payload_max_bytes = "64KiB"
window = 8
late = { max_bytes = "64KiB", max_age = "7d" }

[control]
socket = "/run/tidegate/control.sock"

[local]
retain = true
qos = 1

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
    assert_eq!(pipeline.outbox, OutboxSpec::default());
    assert_eq!(pipeline.uplink, UplinkPolicy::default());
    assert_eq!(pipeline.commit.interval, Span::from_secs(1));
    assert_eq!(pipeline.commit.snapshot_interval, Span::from_secs(120));
    assert_eq!(pipeline.commit.budget, None);
    let broker = |host: &str, client_id: &str| BrokerSpec {
        host: host.into(),
        port: 1883,
        tls: None,
        protocol: Protocol::V311,
        proxy: None,
        client_id: client_id.into(),
        username: None,
        password: None,
        password_file: None,
        keep_alive: Span::from_secs(60),
    };
    assert_eq!(config.devices, Some(broker("127.0.0.1", "tidegate-gw-1")));
    assert_eq!(config.uplink, Some(broker("cloud.example", "tidegate-gw-1-uplink")));
    assert_eq!((config.listener, &pipeline.broker), (None, &None));
    assert_eq!(config.storage.reserve_bytes, 32 << 20);
    assert_eq!((config.storage.path, config.control), (PathBuf::from("/var/lib/tidegate"), None));
    let [stream] = pipeline.streams.as_slice() else { panic!("one stream") };
    assert_eq!((&stream.format, &stream.mapping.fields), (&FormatSpec::Json, &FieldsSpec::all()));
    assert_eq!(
        stream.mapping.time,
        TimeSpec::Fields {
            candidates: vec![TimeCandidate { pointer: "/ts".into(), format: TimeFormat::Epoch(TimeUnit::Millis) }],
            missing: TimeFallback::Reject,
            bad: TimeFallback::Reject,
        }
    );
    assert_eq!(
        (stream.watermark.strategy.clone(), stream.watermark.scope),
        (Strategy::Bounded { disorder: Span::from_secs(5) }, Scope::Device)
    );
    assert_eq!(stream.watermark.idle_timeout, Some(Span::from_secs(60)));
    assert_eq!((stream.on_idle, stream.max_future), (OnIdle::Emit, Some(Span::from_secs(300))));
    assert_eq!((stream.min_time, stream.devices_max), (Some(EventTime::from_millis(946_684_800_000)), 10_000));
    let [window] = stream.windows.as_slice() else { panic!("one window") };
    assert_eq!(window.kind, WindowKind::Tumbling { size: Span::from_secs(60), offset_ms: 0 });
    assert_eq!((window.lateness, window.late), (Span::ZERO, LatePolicy::SideOutput));
    assert_eq!(window.aggregates.kinds, Kind::ALL[..5], "count, sum, mean, min, max");
}

#[test]
fn a_full_file_says_what_it_says() {
    let Checked { config, warnings, .. } = accepted(FULL);
    assert_eq!(warnings, []);
    assert!(!format!("{config:?}").contains("gw 7"), "credentials are not for logs");
    let (devices, uplink) = (config.devices.unwrap(), config.uplink.unwrap());
    assert_eq!((devices.host.as_str(), devices.port), ("10.0.0.5", 1884));
    assert_eq!(devices.password_file, Some("/etc/tidegate/password".into()));
    assert_eq!(uplink.port, 8883);
    let client =
        Some(ClientCert { cert_file: "/etc/tidegate/cert.pem".into(), key_file: "/etc/tidegate/key.pem".into() });
    let trust = Trust::File("/etc/tidegate/ca.pem".into());
    let alpn = vec!["x-amzn-mqtt-ca".to_owned()];
    assert_eq!(uplink.tls, Some(TlsSpec { trust, client, server_name: Some("mqtt.example".into()), alpn }));
    assert_eq!(uplink.protocol, Protocol::V5);
    let user = Secret("gw 7".into());
    let login = Some((user, Credential::File("/etc/tidegate/proxy-password".into())));
    assert_eq!(uplink.proxy, Some(ProxySpec { host: "proxy.site".into(), port: 3128, login }));
    assert_eq!(uplink.username, Some(Credential::File("/run/tidegate/user".into())));
    assert_eq!(config.control, Some("/run/tidegate/control.sock".into()));
    assert_eq!(config.local, Some(LocalSpec { retain: true, acknowledged: true }));
    assert!(config.pipeline.local);
    assert_eq!(config.pipeline.topic_prefix, "site/tide");
    let outbox = config.pipeline.outbox;
    assert_eq!((outbox.bytes_max, outbox.memory_max), (65_536, 65_536));
    let late = LaneSpec { bytes_max: Some(65_536), age_max: Some(Span::from_secs(7 * 86_400)) };
    assert_eq!(outbox.lanes[LaneKind::Late as usize], late);
    assert_eq!(outbox.lanes[LaneKind::Backlog as usize], LaneSpec::default());
    let policy = UplinkPolicy {
        messages_per_second: Some(50),
        bytes_per_second: Some(100 << 10),
        bytes_per_day: Some(20 << 20),
        backlog_share: 20,
        payload_max: 64 << 10,
        window: 8,
        compressed: true,
    };
    assert_eq!(config.pipeline.uplink, policy);
    assert_eq!(config.storage.reserve_bytes, 64 << 20);
    let budget = BudgetSpec { per_day: 500 << 20, interval_max: Span::from_secs(20) };
    assert_eq!(config.pipeline.commit.budget, Some(budget));
    let [climate, boiler] = config.pipeline.streams.as_slice() else { panic!("two streams") };
    let FieldsSpec::Named(fields) = &climate.mapping.fields else { panic!("named fields") };
    let fields: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.pointers[0].as_str())).collect();
    assert_eq!(fields, [("humidity", "/a~1b/0"), ("temperature", "/temperature")]);
    assert_eq!(
        climate.mapping.time,
        TimeSpec::Fields {
            candidates: vec![TimeCandidate { pointer: "/ts".into(), format: TimeFormat::Rfc3339 }],
            missing: TimeFallback::Receive,
            bad: TimeFallback::Receive,
        }
    );
    assert_eq!((climate.watermark.idle_timeout, climate.max_future, climate.min_time), (None, None, None));
    assert_eq!((climate.watermark.scope, climate.on_idle, climate.devices_max), (Scope::Shared, OnIdle::Hold, 7));
    let [quarter, day] = climate.windows.as_slice() else { panic!("two windows") };
    assert_eq!(quarter.kind, WindowKind::Tumbling { size: Span::from_secs(900), offset_ms: -300_000 });
    assert_eq!((quarter.late, quarter.lateness), (LatePolicy::Drop, Span::from_secs(600)));
    assert_eq!(quarter.aggregates.kinds, [Kind::Max, Kind::Count]);
    assert_eq!(day.kind, WindowKind::Tumbling { size: Span::from_secs(86_400), offset_ms: 21_600_000 });
    assert_eq!(
        (&boiler.mapping.time, boiler.min_time),
        (&TimeSpec::Receive, Some(EventTime::from_millis(1_577_836_800_000)))
    );
}

#[test]
fn times_are_read_from_where_the_configuration_says() {
    let time = |text: &str| {
        let text = MINIMAL.replace("{ field = \"/ts\", unit = \"ms\" }", &format!("{text}\nformat = \"influx\""));
        accepted(&text).config.pipeline.streams.remove(0).mapping.time
    };
    let (missing, bad) = (TimeFallback::Reject, TimeFallback::Reject);
    let fields = |candidates: &[(&str, TimeFormat)], bad| {
        let candidate = |(pointer, format): &(&str, TimeFormat)| TimeCandidate {
            pointer: (*pointer).to_owned(),
            format: format.clone(),
        };
        TimeSpec::Fields { candidates: candidates.iter().map(candidate).collect(), missing, bad }
    };
    let berlin = |gap, overlap| Some(ZonedRules { zone: Zone::find("Europe/Berlin").unwrap(), gap, overlap });
    let (reject, earlier) = (GapPolicy::Reject, OverlapPolicy::Earlier);
    for unit in [TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos] {
        let text = format!("{{ field = \"/ts\", unit = \"{}\" }}", unit.as_str());
        assert_eq!(time(&text), fields(&[("/ts", TimeFormat::Epoch(unit))], bad));
    }
    let iso = TimeFormat::Iso { zone: None, unit: None };
    assert_eq!(time("{ field = \"/t\", format = \"iso\" }"), fields(&[("/t", iso.clone())], bad));
    let zoned = TimeFormat::Iso { zone: berlin(reject, earlier), unit: None };
    assert_eq!(time("{ field = \"/t\", format = \"iso\", zone = \"europe/berlin\" }"), fields(&[("/t", zoned)], bad));
    let pattern = TimeFormat::Pattern {
        pattern: "%d.%m.%Y %H:%M".to_owned(),
        zone: berlin(GapPolicy::Forward, OverlapPolicy::Later),
    };
    assert_eq!(
        time(
            "{ field = \"/t\", format = \"%d.%m.%Y %H:%M\", zone = \"Europe/Berlin\", gap = \"forward\", overlap = \"later\" }"
        ),
        fields(&[("/t", pattern)], bad)
    );
    let offset = TimeFormat::Pattern { pattern: "%FT%T%z".to_owned(), zone: None };
    assert_eq!(time("{ field = \"/t\", format = \"%FT%T%z\" }"), fields(&[("/t", offset)], bad));
    // F108: a field that was renamed, and one beside it.
    assert_eq!(
        time(
            "[{ field = [\"/time\", \"/t\"], format = \"iso\" }, { field = \"/ts\", unit = \"s\", bad = \"receive\" }]"
        ),
        fields(
            &[("/time", iso.clone()), ("/t", iso), ("/ts", TimeFormat::Epoch(TimeUnit::Seconds))],
            TimeFallback::Receive
        )
    );
    assert_eq!(time("{ source = \"receive\" }"), TimeSpec::Receive);
    assert_eq!(time("{ source = \"payload\" }"), TimeSpec::Own { unit: None, missing, bad });
    assert_eq!(
        time("{ source = \"payload\", unit = \"us\" }"),
        TimeSpec::Own { unit: Some(TimeUnit::Micros), missing, bad }
    );
}

#[test]
fn a_problem_reads_well() {
    let text = FULL.replace("size = \"15m\"", "size = 15");
    let problem = refused(&text).problems.remove(0);
    let line = text.lines().position(|line| line == "size = 15").map(|index| index + 1);
    assert_eq!((problem.line, problem.value.as_deref()), (line, Some("15")));
    assert_eq!(
        problem.to_string(),
        format!(
            "t.toml:{}:8: streams[0].windows[0].size = 15: must be a duration such as \"500ms\", \"5s\", \"1m\", \"2h\" \
             or \"1d\": a number alone has no unit\n    hint: \"15s\" or \"15ms\", with quotes",
            line.expect("the line is there")
        )
    );
}

#[test]
fn an_empty_file_names_every_section_it_lacks() {
    let paths: Vec<String> = refused("").problems.into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["gateway", "uplink", "storage"]);
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
    assert_eq!(replay.config.outbox, OutboxSpec::default());
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
fn a_keep_alive_below_the_longest_wait_for_an_acknowledgement_is_warned_of() {
    let warnings = |storage: &str| -> Vec<String> {
        let text = FULL
            .replace("commit_interval = \"500ms\"\nwrite_budget = \"500MiB\"\ncommit_interval_max = \"20s\"", storage);
        accepted(&text).warnings.into_iter().map(|Problem { path, message, .. }| format!("{path}: {message}")).collect()
    };
    assert_eq!(warnings("write_budget = \"1GiB\"\ncommit_interval_max = \"29s\""), [""; 0]);
    let [budget] = warnings("write_budget = \"1GiB\"").try_into().unwrap();
    assert!(budget.starts_with("devices.keep_alive: 30s is not above") && budget.contains("(30s)"), "{budget}");
    let [interval] = warnings("commit_interval = \"40s\"").try_into().unwrap();
    assert!(interval.contains("(40s)"), "{interval}");
}

#[test]
fn settings_that_undo_each_other_are_warned_of() {
    let window = |keys: &str| MINIMAL.replace("size = \"1m\"", keys);
    let stream = |keys: &str| MINIMAL.replace("[[streams.windows]]", &format!("{keys}\n[[streams.windows]]"));
    for (text, path, part) in [
        (window("size = \"1m\"\nearly = \"1m\""), "windows[0].early", "not below the length of the window (1m)"),
        (window("calendar = \"hour\"\nearly = \"2h\""), "windows[0].early", "(1h)"),
        (
            window("size = \"1m\"\nlateness = \"5s\"\nlate_updates = { every = \"6s\" }"),
            "windows[0].late_updates",
            "longer than `lateness` (5s)",
        ),
        (
            window("size = \"1m\"\nlate = \"backfill\"\nbackfill_quiet = \"2m\""),
            "windows[0].backfill_quiet",
            "above `backfill_max_age` (1m)",
        ),
        (window("size = \"1m\"\nslide = \"2m\""), "windows[0].slide", "readings in between are in no window"),
        (stream("scope = \"stream\"\nidle_timeout = \"off\""), "idle_timeout", "one device that falls silent"),
        (stream("fields = { t = \"/t\" }\ncarry_forward = \"1h\""), "carry_forward", "but one field"),
    ] {
        let warnings = accepted(&text).warnings;
        assert_eq!(warnings.len(), 1, "{text}: {warnings:#?}");
        assert_eq!(warnings[0].path, format!("streams[0].{path}"));
        assert!(warnings[0].message.contains(part), "{}", warnings[0]);
    }
    for text in [
        window("size = \"1m\"\nearly = \"59s\"\nlateness = \"5s\"\nlate_updates = { every = \"5s\" }"),
        window("size = \"1m\"\nslide = \"1m\"\nlate = \"backfill\"\nbackfill_quiet = \"60s\""),
        window("gap = \"1m\"\nearly = \"1h\""),
        stream("scope = \"stream\"\nidle_timeout = \"off\"\nmax_lag = \"1m\""),
        stream("idle_timeout = \"off\""),
    ] {
        assert_eq!(accepted(&text).warnings, [], "{text}");
    }
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

/// The watermark of the only stream of [`MINIMAL`] with these keys, and its windows' keys.
fn watermark_of(stream: &str, window: &str) -> (WatermarkSpec, OnIdle, KeySpec) {
    let text = MINIMAL.replace("devices/{device}/climate", "devices/{site}/{device}/climate");
    let text = text.replace("time = {", &format!("{stream}\ntime = {{")) + window;
    let Checked { config, warnings, .. } = accepted(&text);
    assert_eq!(warnings, [], "{stream}");
    let stream = &config.pipeline.streams[0];
    (stream.watermark.clone(), stream.on_idle, stream.windows[0].key)
}

#[test]
fn every_strategy_has_its_own_keys_and_defaults() {
    let of = |keys: &str| watermark_of(keys, "").0;
    let secs = Span::from_secs;
    let adaptive = |quantile, floor, ceiling| Strategy::Adaptive { quantile, floor, ceiling };
    for (keys, strategy) in [
        ("", Strategy::Bounded { disorder: secs(5) }),
        ("watermark = \"bounded\"\ndisorder = \"2s\"", Strategy::Bounded { disorder: secs(2) }),
        ("watermark = \"monotonic\"", Strategy::Bounded { disorder: Span::ZERO }),
        ("watermark = \"adaptive\"", adaptive(9_900, Span::ZERO, secs(60))),
        (
            "watermark = \"adaptive\"\nquantile = 1\nfloor = \"1s\"\nceiling = \"1h\"",
            adaptive(10_000, secs(1), secs(3_600)),
        ),
        ("watermark = \"adaptive\"\nquantile = 0.9995", adaptive(9_995, Span::ZERO, secs(60))),
        ("watermark = \"punctuated\"\nmarker = \"end\"", Strategy::Punctuated { field: Name::new("end").unwrap() }),
        ("watermark = \"processing\"\ndelay = \"1s\"", Strategy::Processing { delay: secs(1) }),
    ] {
        assert_eq!(of(keys).strategy, strategy, "{keys}");
    }
    assert_eq!(of("watermark = \"processing\"").scope, Scope::Shared);
    assert_eq!(of("watermark = \"adaptive\"\nscope = \"stream\"").scope, Scope::Stream(Resume::CatchUp));
}

#[test]
fn a_scope_is_as_wide_as_the_widest_key() {
    let (watermark, on_idle, key) = watermark_of(
        "scope = \"group\"\ngroup = \"{site}\"\nresume = \"hold\"\nmax_lag = \"1m\"\nall_idle = \"stay\"",
        "key = \"group\"",
    );
    assert_eq!((watermark.scope, watermark.max_lag), (Scope::Group(Resume::Hold), Some(Span::from_secs(60))));
    assert_eq!((watermark.all_idle, on_idle, key), (AllIdle::Stay, OnIdle::Emit, KeySpec::Group));
    assert_eq!(watermark_of("scope = \"stream\"\nmax_lag = \"off\"", "key = \"stream\"").0.max_lag, None);
    assert_eq!(watermark_of("on_idle = \"close\"", "").1, OnIdle::Close);
    let wider = |scope: &str, key: &str| {
        let stream = format!("scope = \"{scope}\"\ngroup = \"{{device}}\"\ntime = {{");
        let text = MINIMAL.replace("time = {", &stream) + &format!("key = \"{key}\"\n");
        check(&text, "t.toml").err().map(|refused| refused.to_string())
    };
    for (scope, key) in [("device", "group"), ("device", "stream"), ("group", "stream")] {
        let refused = wider(scope, key).unwrap();
        assert!(refused.contains("streams[0].windows[0].key") && refused.contains("is wider"), "{refused}");
    }
    for (scope, key) in
        [("group", "group"), ("stream", "group"), ("shared", "group"), ("stream", "stream"), ("shared", "stream")]
    {
        assert_eq!(wider(scope, key), None, "{scope} {key}");
    }
    let unused = MINIMAL.replace("time = {", "group = \"{device}\"\ntime = {");
    assert_eq!(accepted(&unused).warnings[0].path, "streams[0].group");
}

#[test]
fn every_setting_of_panes_lateness_and_calendars_is_read() {
    let window = |text: &str| {
        let text = FULL.replacen("size = \"1d\"\noffset = \"6h\"", text, 1);
        let checked = check(&text, "t.toml").unwrap_or_else(|refused| panic!("{refused}"));
        checked.config.pipeline.streams[0].windows[1].clone()
    };
    let all = window(
        "calendar = \"week\"\nzone = \"europe/berlin\"\noffset = \"6h\"\nearly = \"30s\"\nlateness = \"1d\"\n\
         late_updates = { every = \"5s\" }\nfinal = true\nlate = \"backfill\"\nbackfill_quiet = \"7s\"",
    );
    let zone = Zone::find("Europe/Berlin").unwrap();
    let kind = WindowKind::Calendar { unit: CalendarUnit::Week, zone, offset: Span::from_secs(21_600) };
    assert_eq!((all.kind, all.early, all.final_pane), (kind, Some(Span::from_secs(30)), true));
    assert_eq!(all.late_updates, LateUpdates::Every(Span::from_secs(5)));
    assert_eq!(all.late, LatePolicy::Backfill { quiet: Span::from_secs(7), max_age: Span::from_secs(60) });
    let session = window("gap = \"5m\"\nmax_length = \"1h\"");
    let max_length = Some(Span::from_secs(3_600));
    assert_eq!(session.kind, WindowKind::Session { gap: Span::from_secs(300), max_length });
    assert_eq!((session.early, session.final_pane, session.late_updates), (None, false, LateUpdates::Each));
}

#[test]
fn a_proxy_that_is_asked_for_a_way_to_itself_is_warned_of() {
    let Checked { warnings, .. } = accepted(&FULL.replace("mqtts://cloud.example", "mqtts://127.0.0.1"));
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert_eq!((warning.path.as_str(), warning.value.as_deref()), ("uplink.proxy", Some("\"***@proxy.site:3128\"")));
    assert!(warning.message.contains("127.0.0.1, which is itself"), "{warning}");
}
