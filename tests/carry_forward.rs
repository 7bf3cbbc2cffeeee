//! `carry_forward`: what a device sends is completed with what it said before, whatever is
//! restarted in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::replay::Replay;
use tidegate::engine::status::LedgerStatus;
use tidegate::model::limits::CARRY_BYTES_MAX;

use world::{Restart, START_MS, World, brief, told_alike};

const FIELDS: &str = "fields = { u = \"/u\", i = \"/i\", mode = { pointer = \"/mode\", type = \"state\" } }";
const WINDOW: &str = "[[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\nlateness = \"1h\"";

/// Readings are passed on as they come; `more` goes into the stream.
fn stream(more: &str) -> String {
    let fields = if more.contains("fields =") { "" } else { FIELDS };
    let carry = if more.contains("carry_forward =") { "" } else { "carry_forward = \"1m\"" };
    format!("{fields}\n{carry}\nrecords = \"arrival\"\nidle_timeout = \"off\"\n{more}")
}

fn send(world: &mut World, ts: i64, values: Value) -> Vec<Value> {
    send_from(world, "a", ts, values)
}

fn send_from(world: &mut World, device: &str, ts: i64, mut values: Value) -> Vec<Value> {
    values["ts"] = json!(START_MS + ts);
    world.payload(0, device, &values)
}

/// What counts of each record, as it is passed on.
fn counts(rows: &[Value]) -> Vec<String> {
    let records = rows.iter().filter(|row| row["kind"] == "record" || row["kind"] == "late");
    records.map(|row| row["values"].to_string().replace('"', "")).collect()
}

fn ledger(world: &World) -> LedgerStatus {
    world.status(0).ledger
}

#[test]
fn a_record_lacks_nothing_that_its_device_has_said() {
    let rows = told_alike(&stream(""), |world| {
        let mut rows = send(world, 0, json!({ "u": 230.5, "mode": "on" }));
        rows.extend(send(world, 1_000, json!({ "i": 1.5, "u": null })));
        rows.extend(send(world, 2_000, json!({ "mode": false })));
        rows.extend(send_from(world, "b", 2_000, json!({ "i": 7 })));
        rows.extend(send(world, 3_000, json!({ "u": 231 })));
        rows
    });
    assert_eq!(
        counts(&rows),
        [
            "{mode:on,u:230.5}",
            "{i:1.5,mode:on,u:230.5}",
            "{i:1.5,mode:false,u:230.5}",
            "{i:7}",
            "{i:1.5,mode:false,u:231}",
        ]
    );
}

#[test]
fn windows_see_whole_records() {
    let more = format!("{WINDOW}\naggregates = [\"count\", \"last\", \"time_weighted_mean\", \"durations\"]");
    let rows = told_alike(&stream(&more), |world| {
        send(world, 0, json!({ "u": 10, "mode": "on" }));
        send(world, 5_000, json!({ "i": 1 }));
        send(world, 8_000, json!({ "u": 20 }));
        send(world, 30_000, json!({ "u": 0 }))
    });
    let pane = rows.iter().find(|row| row["kind"] == "pane").unwrap();
    let values = &pane["values"];
    assert_eq!((&values["u"]["count"], &values["i"]["count"], &values["i"]["last"]), (&json!(3), &json!(2), &json!(1)));
    assert_eq!(values["mode"]["count"], 3);
}

#[test]
fn an_older_record_gets_what_held_at_its_time_or_nothing_and_changes_nothing_that_is_newer() {
    let rows = told_alike(&stream(""), |world| {
        let mut rows = send(world, 1_000, json!({ "u": 1, "i": 1 }));
        rows.extend(send(world, 5_000, json!({ "u": 5 })));
        // `u` was said anew since: what held at 3 s is not known. `i` still is.
        rows.extend(send(world, 3_000, json!({ "mode": "x" })));
        rows.extend(send(world, 2_000, json!({ "u": 2, "i": 2 })));
        rows.extend(send(world, 500, json!({ "mode": "w" })));
        rows.extend(send(world, 6_000, json!({ "mode": "y" })));
        rows.extend(send(world, 6_000, json!({ "i": 9 })));
        rows.extend(send(world, 6_000, json!({ "u": 9 })));
        rows
    });
    assert_eq!(
        counts(&rows),
        [
            "{i:1,u:1}",
            "{i:1,u:5}",
            "{i:1,mode:x}",
            "{i:2,u:2}",
            "{mode:w}",
            "{i:2,mode:y,u:5}",
            "{i:9,mode:y,u:5}",
            "{i:9,mode:y,u:9}",
        ]
    );
}

#[test]
fn a_value_is_carried_as_far_as_it_was_said_and_not_a_millisecond_further() {
    let rows = told_alike(&stream("carry_forward = \"10s\""), |world| {
        let mut rows = send(world, 0, json!({ "u": 1, "i": 1 }));
        rows.extend(send(world, 10_000, json!({ "i": 2 })));
        rows.extend(send(world, 10_001, json!({ "mode": "on" })));
        rows.extend(send(world, 3_600_000, json!({ "i": 3 })));
        rows
    });
    assert_eq!(counts(&rows), ["{i:1,u:1}", "{i:2,u:1}", "{i:2,mode:on}", "{i:3}"]);
}

#[test]
fn records_of_one_payload_complete_each_other() {
    let rows = told_alike(&stream(""), |world| {
        let ts = START_MS;
        world.payload(0, "a", &json!([{ "ts": ts, "u": 1 }, { "ts": ts, "i": 2 }, { "ts": ts + 1, "mode": "on" }]))
    });
    assert_eq!(counts(&rows), ["{u:1}", "{i:2,u:1}", "{i:2,mode:on,u:1}"]);
}

#[test]
fn what_is_out_of_range_or_no_number_is_as_if_it_had_not_been_said() {
    let fields = "fields = { t = { pointer = \"/t\", max = 80 }, h = \"/h\" }";
    let rows = told_alike(&stream(fields), |world| {
        let mut rows = send(world, 0, json!({ "t": 20, "h": 50 }));
        rows.extend(send(world, 1_000, json!({ "t": 85, "h": 51 })));
        rows.extend(send(world, 2_000, json!({ "t": "x", "h": 52 })));
        rows.extend(send(world, 3_000, json!({ "t": 85 })));
        rows.extend(send(world, 4_000, json!({ "h": null })));
        let ledger = ledger(world);
        assert_eq!((ledger.accepted, ledger.rejected, ledger.fields_left_out), (3, 2, 2));
        rows
    });
    assert_eq!(counts(&rows), ["{h:50,t:20}", "{h:51,t:20}", "{h:52,t:20}"]);
}

#[test]
fn filter_and_computed_fields_see_whole_records_and_what_is_passed_over_was_said_all_the_same() {
    for scope in ["device", "stream", "shared"] {
        passes_over_and_remembers(scope);
    }
}

fn passes_over_and_remembers(scope: &str) {
    let more = "compute = { p = \"u * i / 10\" }\nfilter = \"mode == 'on'\"";
    let more = format!("{more}\nscope = \"{scope}\"\n{WINDOW}");
    let rows = told_alike(&stream(&more), |world| {
        // No answer yet: what is said counts for later, and the device is known.
        let mut rows = send(world, 0, json!({ "u": 2300 }));
        assert_eq!((ledger(world).rejected_by["expression"], world.status(0).devices), (1, 1));
        rows.extend(send(world, 1_000, json!({ "i": 2, "mode": "off" })));
        rows.extend(send(world, 2_000, json!({ "mode": "on" })));
        rows.extend(send(world, 3_000, json!({ "i": 3 })));
        rows.extend(send(world, 4_000, json!({ "mode": "off" })));
        rows.extend(send(world, 5_000, json!({ "u": 2310 })));
        rows.extend(send(world, 6_000, json!({ "mode": "on" })));
        // Of two devices one is passed over only: nobody waits for it.
        rows.extend(send_from(world, "b", 6_000, json!({ "mode": "off" })));
        rows.extend(send(world, 20_000, json!({ "i": 4 })));
        assert!(brief(&rows).contains(&"live pane a 0 on_time".to_owned()), "{scope}");
        let ledger = ledger(world);
        assert_eq!((ledger.accepted, ledger.filtered, ledger.rejected), (4, 4, 1));
        rows
    });
    assert_eq!(
        counts(&rows),
        [
            "{i:2,mode:on,p:460,u:2300}",
            "{i:3,mode:on,p:690,u:2300}",
            "{i:3,mode:on,p:693,u:2310}",
            "{i:4,mode:on,p:924,u:2310}",
        ]
    );
}

#[test]
fn a_copy_is_told_by_what_was_sent() {
    let rows = told_alike(&stream("dedup = { by = \"time_and_values\", horizon = 8 }\ndevices_max = 10"), |world| {
        let mut rows = send(world, 2_000, json!({ "i": 1 }));
        rows.extend(send(world, 1_000, json!({ "u": 1 })));
        // It would be whole now: but it is the same.
        rows.extend(send(world, 2_000, json!({ "i": 1 })));
        // As whole as another, and not the same.
        rows.extend(send(world, 2_000, json!({ "u": 1, "i": 1 })));
        assert_eq!((ledger(world).accepted, ledger(world).duplicate), (3, 1));
        rows
    });
    assert_eq!(counts(&rows), ["{i:1}", "{u:1}", "{i:1,u:1}"]);
}

#[test]
fn a_sequence_number_is_that_of_one_record() {
    let more = "fields = { u = \"/u\", i = \"/i\", n = \"/n\" }\ndedup = { sequence = \"n\", horizon = 64 }";
    let rows = told_alike(&stream(more), |world| {
        let mut rows = send(world, 0, json!({ "u": 1, "n": 1 }));
        rows.extend(send(world, 1_000, json!({ "i": 1 })));
        rows.extend(send(world, 2_000, json!({ "n": 2 })));
        rows.extend(send(world, 3_000, json!({ "i": 2, "n": 3 })));
        assert_eq!((ledger(world).accepted, ledger(world).duplicate, ledger(world).sequence_missing), (4, 0, 1));
        rows
    });
    assert_eq!(counts(&rows), ["{n:1,u:1}", "{i:1,u:1}", "{n:2}", "{i:2,n:3,u:1}"]);
}

#[test]
fn a_mark_is_that_of_one_record() {
    let more = format!(
        "fields = {{ u = \"/u\", i = \"/i\", m = \"/m\" }}\nwatermark = \"punctuated\"\nmarker = \"m\"\n{WINDOW}"
    );
    let rows = told_alike(&stream(&more), |world| {
        let mut rows = send(world, 0, json!({ "u": 1, "i": 1, "m": 1 }));
        rows.extend(send(world, 20_000, json!({ "u": 2 })));
        rows.extend(send(world, 21_000, json!({ "m": 1 })));
        rows
    });
    assert_eq!(counts(&rows), ["{i:1,u:1}", "{i:1,u:2}", "{}"]);
    let panes: Vec<_> = brief(&rows).into_iter().filter(|row| row.contains("pane")).collect();
    assert_eq!(panes, ["live pane a 0 on_time"], "fired by the mark alone, which is no record of windows");
}

#[test]
fn what_is_computed_is_not_remembered_and_what_it_stands_for_is() {
    let rows = told_alike(&stream("fields = \"all\"\ncompute = { u = \"u / 10\", w = \"u - i\" }"), |world| {
        let mut rows = send(world, 0, json!({ "u": 2300 }));
        rows.extend(send(world, 1_000, json!({ "i": 1 })));
        rows.extend(send(world, 2_000, json!({ "i": 2 })));
        rows
    });
    assert_eq!(counts(&rows), ["{u:230}", "{i:1,u:230,w:2299}", "{i:2,u:230,w:2298}"]);
}

#[test]
fn what_comes_from_the_future_is_whole_and_not_remembered() {
    let rows = told_alike(&stream("max_future = \"5s\""), |world| {
        let mut rows = send(world, 0, json!({ "u": 1 }));
        rows.extend(send(world, 5_001, json!({ "i": 9 })));
        rows.extend(send(world, 5_000, json!({ "mode": "on" })));
        rows
    });
    assert_eq!(brief(&rows), ["live record a 0", "late late a 5001 future", "live record a 5000"]);
    assert_eq!(counts(&rows), ["{u:1}", "{i:9,u:1}", "{mode:on,u:1}"]);
}

#[test]
fn what_is_known_of_a_device_goes_with_its_state() {
    let more = stream("carry_forward = \"1d\"\nstate_ttl = \"20s\"\nfilter = \"i > 0\"");
    let mut world = World::new(&more, Restart::FromSnapshot);
    send(&mut world, 0, json!({ "u": 1, "i": 1 }));
    // Passed over, and heard all the same: the silence begins anew.
    world.payload(15_000, "a", &json!({ "ts": START_MS + 15_000, "i": 0 }));
    world.tick(30_000);
    let row = world.payload(30_000, "a", &json!({ "ts": START_MS + 30_000, "i": 2 }));
    assert_eq!(counts(&row), ["{i:2,u:1}"]);
    world.tick(50_001);
    assert_eq!((world.status(50_001).devices, ledger(&world).expired), (0, 1));
    let row = world.payload(60_000, "a", &json!({ "ts": START_MS + 60_000, "i": 3 }));
    assert_eq!(counts(&row), ["{i:3}"]);
}

#[test]
fn another_configuration_keeps_what_still_has_its_meaning() {
    let with = |fields: &str, carry: &str| stream(&format!("fields = {{ {fields} }}\ncarry_forward = \"{carry}\""));
    for restart in [Restart::FromPages, Restart::FromSnapshot] {
        let mut world = World::new(&with("u = \"/u\", i = \"/i\", m = \"/m\"", "1m"), restart);
        send(&mut world, 0, json!({ "u": 1, "i": 2, "m": 3 }));
        let mode = "mode = { pointer = \"/m\", type = \"state\" }";
        world.start_again(0, Some(&with(&format!("{mode}, i = \"/i\", x = \"/x\", u = \"/u\""), "1m")));
        assert_eq!(counts(&send(&mut world, 1_000, json!({ "x": 9 }))), ["{i:2,u:1,x:9}"], "other places, and no `m`");
        let state = "m = { pointer = \"/m\", type = \"state\" }";
        world.start_again(0, Some(&with(&format!("u = \"/u\", {state}"), "1m")));
        assert_eq!(counts(&send(&mut world, 2_000, json!({ "m": "on" }))), ["{m:on,u:1}"]);
        world.start_again(0, Some(&with("u = \"/u\", m = \"/m\", i = \"/i\"", "1m")));
        assert_eq!(
            counts(&send(&mut world, 3_000, json!({ "i": 4 }))),
            ["{i:4}"],
            "`m` means something else: a new stream"
        );
        world.start_again(0, Some(&with("u = \"/u\", m = \"/m\"", "off")));
        assert_eq!(counts(&send(&mut world, 4_000, json!({ "m": 5 }))), ["{m:5}"]);
        world.start_again(0, Some(&with("u = \"/u\", m = \"/m\"", "1m")));
        assert_eq!(counts(&send(&mut world, 5_000, json!({ "m": 6 }))), ["{m:6}"], "begins anew");
    }
}

#[test]
fn without_room_what_is_known_stays_right_and_what_is_not_is_counted() {
    let mut world = World::new(&stream("fields = \"all\""), Restart::Never);
    world.audit = false;
    let payload = |ts: i64, value: i64| {
        let values = (0..64).map(|number| (format!("f{number:02}"), json!(value + number)));
        let mut payload: serde_json::Map<String, Value> = values.collect();
        payload.insert("ts".to_owned(), json!(START_MS + ts));
        Value::Object(payload)
    };
    let device_bytes = 16 + 64 * 20;
    let fits = CARRY_BYTES_MAX / device_bytes;
    for device in 0..fits + 2 {
        world.payload(0, &format!("d{device}"), &payload(0, 1));
    }
    let room = (CARRY_BYTES_MAX - fits * device_bytes).saturating_sub(16) / 20;
    assert_eq!(ledger(&world).fields_not_carried, 2 * 64 - room as u64);
    let mut whole = |device: String| {
        let row = world.payload(0, &device, &json!({ "ts": START_MS + 1_000, "f00": 7 }));
        row[0]["values"].as_object().unwrap().len()
    };
    assert_eq!((whole("d0".to_owned()), whole(format!("d{}", fits + 1))), (64, 1));
    world.payload(0, "d0", &payload(2_000, 100));
    let row = world.payload(0, "d0", &json!({ "ts": START_MS + 3_000, "f00": 8 }));
    assert_eq!((&row[0]["values"]["f00"], &row[0]["values"]["f63"]), (&json!(8), &json!(163)));
    let before = ledger(&world).fields_not_carried;
    world.start_again(0, None);
    world.payload(0, "new", &payload(0, 1));
    assert_eq!(ledger(&world).fields_not_carried, before + 64, "as full as before");
}

#[test]
fn a_page_has_the_fields_that_were_said_and_not_all_that_are_known() {
    let more = stream("fields = \"all\"\n[[streams.windows]]\nname = \"1h\"\nsize = \"1h\"");
    let sizes = |more: &str| {
        let mut world = World::new(more, Restart::Never);
        let all: serde_json::Map<String, Value> = (0..60).map(|number| (format!("f{number}"), json!(1.25))).collect();
        send(&mut world, 0, Value::Object(all.clone()));
        world.commit();
        send(&mut world, 1_000, Value::Object(all));
        let whole = world.sizes(0).0;
        world.commit();
        send(&mut world, 2_000, json!({ "f7": 1.25 }));
        (whole, world.sizes(0).0)
    };
    let (carried, plain) = (sizes(&more), sizes(&more.replace("carry_forward = \"1m\"", "")));
    assert!(carried.0 - plain.0 > 60 * 5 && carried.0 - plain.0 < 60 * 6, "{carried:?} and {plain:?} bytes");
    assert!(carried.1 - plain.1 < 1_000, "{carried:?} and {plain:?} bytes");
}

#[test]
fn shelly_gen2_notifications_of_what_has_changed_make_whole_records() {
    let text = r#"
gateway.id = "gw"

[[streams]]
name = "shelly"
preset = "shelly-gen2"
carry_forward = "1h"
"#;
    let config = check_for_replay(text, "shelly.toml").unwrap_or_else(|refused| panic!("{refused}")).config;
    let mut replay = Replay::new(config);
    let mut out = Vec::new();
    let notifications = [
        ("NotifyFullStatus", 0, json!({ "apower": 46.0, "voltage": 230.0, "current": 0.2 })),
        ("NotifyStatus", 10, json!({ "current": 0.5 })),
        ("NotifyStatus", 20, json!({ "apower": 0.0 })),
    ];
    for (method, after, switch) in notifications {
        let arrival_ms = START_MS + after * 1_000;
        let params = json!({ "ts": START_MS / 1_000 + after, "switch:0": switch });
        let payload = json!({ "src": "plug-a", "dst": "plug-a/events", "method": method, "params": params });
        let line = json!({ "arrival_ms": arrival_ms, "topic": "plug-a/events/rpc", "payload": payload });
        replay.handle_line(&line.to_string(), &mut out).unwrap();
    }
    let out = String::from_utf8(out).unwrap();
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let value = |row: &Value, name: &str| row["values"][format!("params.switch:0.{name}")].as_f64().unwrap();
    let values: Vec<_> = rows.iter().map(|row| ["apower", "voltage", "current"].map(|name| value(row, name))).collect();
    assert_eq!(values, [[46.0, 230.0, 0.2], [46.0, 230.0, 0.5], [0.0, 230.0, 0.5]]);
}
