//! What devices really send: whose a record is, at what time, with which values, and what is
//! said of everything else. `Fnn` are the cases of the field notes on timestamps, payloads,
//! values and poison messages; each story is told without a restart and with one after every
//! message.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::Engine;
use tidegate::engine::status::StreamStatus;
use tidegate::engine::step::{DeliveryTag, Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

use world::{Restart, START_MS, World, told_alike};

/// Device and values of the records that were passed on.
fn values(rows: &[Value]) -> Vec<(&str, &Value)> {
    rows.iter().map(|row| (row["key"].as_str().unwrap(), &row["values"])).collect()
}

fn at(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["event_ms"].as_i64().unwrap() - START_MS).collect()
}

fn rejected(world: &World) -> BTreeMap<&'static str, u64> {
    world.status(0).ledger.rejected_by
}

/// The status of each stream after these messages, in order of the configuration.
fn told(streams: &str, messages: &[(&str, &[u8])]) -> Vec<StreamStatus> {
    let text = format!("gateway.id = 'gw'\n{streams}");
    let config = check_for_replay(&text, "t.toml").unwrap_or_else(|refused| panic!("{refused}")).config;
    let mut engine = Engine::new(config);
    let wall = WallTime::from_millis(START_MS);
    let now = Now { proc: ProcTime::from_millis(0), wall, quality: ClockQuality::Synced };
    for (topic, payload) in messages {
        let message = Message { topic, payload, retain: false, dup: false, tag: None };
        engine.handle(now, Event::Message(message));
        assert!(engine.balances());
    }
    engine.status(now).streams
}

// --- identity ---------------------------------------------------------------

#[test]
fn a_device_is_who_the_payload_says_and_labels_follow_it() {
    let keys = "topic = 'rtl/{host}'\ndevice = '{/model}/{/id}'\nfields = 'all'\nfields_except = ['/id']\n\
                labels.zone = { from = '{/model}', map = { A = 'north' }, default = 'elsewhere' }\n\
                compute = { twice = 't * 2' }\nfilter = 'label.zone == \"north\" || t > 5'";
    let rows = told_alike(keys, |world| {
        let mut rows = world.message(0, "rtl/pi", format!(r#"{{"ts":{START_MS},"model":"A","id":7,"t":1.5}}"#));
        rows.extend(world.message(1, "rtl/pi", format!(r#"{{"ts":{START_MS},"model":"B","id":"x","t":6}}"#)));
        // Passed over by the filter; without a device; without what the filter asks for.
        rows.extend(world.message(2, "rtl/pi", format!(r#"{{"ts":{START_MS},"model":"B","id":1,"t":5}}"#)));
        rows.extend(world.message(3, "rtl/pi", format!(r#"{{"ts":{START_MS},"model":"A","t":5}}"#)));
        rows.extend(world.message(4, "rtl/pi", format!(r#"{{"ts":{START_MS},"model":"B","id":1,"h":5}}"#)));
        let ledger = world.status(0).ledger;
        assert_eq!((ledger.accepted, ledger.filtered), (2, 1));
        assert_eq!(ledger.rejected_by, BTreeMap::from([("bad_device", 1), ("expression", 1)]));
        rows
    });
    let expected = [("A/7", &json!({ "t": 1.5, "twice": 3 })), ("B/x", &json!({ "t": 6, "twice": 12 }))];
    assert_eq!(values(&rows), expected);
}

#[test]
fn devices_that_are_not_wanted_are_kept_out_and_strangers_fill_no_memory() {
    told_alike("allow = ['pump-*', 'fan']\ndeny = 'pump-9*'\ndevices_max = 2", |world| {
        let mut rows = Vec::new();
        for (number, device) in ["pump-1", "pump-91", "fan", "stranger", "pump-2", "pump-1"].iter().enumerate() {
            rows.extend(world.reading(number as u64, device, 0, 1.0));
        }
        assert_eq!(rejected(world), BTreeMap::from([("device_denied", 2), ("too_many_devices", 1)]));
        assert_eq!(world.status(0).devices, 2);
        rows
    });
}

#[test]
fn a_device_of_a_group_is_in_the_one_that_its_label_says() {
    let keys = "group = '{site}'\nlabels.site = { from = '{device}', map = { a = 'n', b = 'n', c = 's' } }\n\
                scope = 'group'\nidle_timeout = 'off'\n[[streams.windows]]\nname = 'w'\nsize = '10s'\nkey = 'group'";
    let rows = told_alike(keys, |world| {
        let mut rows = Vec::new();
        for (number, device) in ["a", "b", "c", "d"].iter().enumerate() {
            rows.extend(world.reading(number as u64, device, 1_000, 1.0));
        }
        assert_eq!(rejected(world), BTreeMap::from([("bad_group", 1)]), "a device without a label");
        for (number, device) in ["a", "b", "c"].iter().enumerate() {
            rows.extend(world.reading(10 + number as u64, device, 13_000, 1.0));
        }
        rows
    });
    assert_eq!(
        rows.iter().map(|row| (&row["key"], &row["count"])).collect::<Vec<_>>(),
        [(&json!("n"), &json!(2)), (&json!("s"), &json!(1))]
    );
}

// --- times ------------------------------------------------------------------

#[test]
fn f23_f26_a_time_that_is_not_there_is_counted_and_never_made_up() {
    told_alike("", |world| {
        let rows = world.message(0, "d/a", r#"{"v":1}"#);
        assert_eq!((rows.len(), rejected(world)), (0, BTreeMap::from([("missing_time", 1)])));
        rows
    });
    let rows = told_alike("time = { field = '/ts', unit = 'ms', missing = 'receive' }", |world| {
        let mut rows = world.message(5, "d/a", r#"{"v":1}"#);
        rows.extend(world.reading(6, "a", 2, 2.0));
        rows
    });
    assert_eq!(at(&rows), [5, 2], "the result carries the time of the event, whichever that is");
    assert_eq!((&rows[0]["time_source"], &rows[1]["time_source"]), (&json!("receive"), &json!("device")));
}

#[test]
fn f24_f101_f102_an_epoch_in_another_unit_lands_nowhere() {
    let keys = "topic = 'd/{device}'\nformat = 'influx'\nfields = 'all'\ntime = { source = 'payload', unit = 'ns' }";
    told_alike(keys, |world| {
        let rows = world.message(0, "d/a", format!("m v=1 {START_MS}"));
        assert_eq!((rows.len(), rejected(world)), (0, BTreeMap::from([("before_min_time", 1)])));
        rows
    });
}

#[test]
fn f24_f102_milliseconds_read_as_seconds_are_a_wrong_unit_and_not_the_far_future() {
    let config = "gateway.id = 'gw'\n[[streams]]\nname = 's'\ntopic = 'd/{device}'\ntime = { field = '/ts', unit = 's' }\n\
                  [[streams]]\nname = 'l'\ntopic = 'l/{device}'\nformat = 'influx'\ntime = { source = 'payload' }\n";
    let mut engine = Engine::new(check_for_replay(config, "t.toml").unwrap().config);
    let wall = WallTime::from_millis(START_MS);
    let now = Now { proc: ProcTime::from_millis(0), wall, quality: ClockQuality::Synced };
    for (topic, payload, hint) in [
        ("d/a", format!("{{\"ts\":{START_MS},\"v\":1}}"), "looks like milliseconds, configured s"),
        ("l/a", format!("m v=1 {START_MS}"), "looks like milliseconds, configured ns"),
    ] {
        let record = engine.trace(now, topic, payload.as_bytes()).readings.unwrap().records.remove(0);
        assert!(record.rejected.is_some() && record.hint == Some(hint), "{record:?}");
    }
}

#[test]
fn f27_f125_what_has_no_time_says_that_its_time_is_ours() {
    let rows =
        told_alike("topic = 'd/{device}'\nformat = 'raw'\nfields = 'all'\ntime = { source = 'receive' }", |world| {
            world.event(0, Event::SessionStarted { resumed: true });
            world.message(3_600_000, "d/a", "21.5")
        });
    assert_eq!((&rows[0]["time_source"], at(&rows)), (&json!("receive"), vec![3_600_000]));
}

#[test]
fn f105_f106_f110_f114_times_that_are_none_and_times_far_from_the_epoch() {
    let keys = "time = { field = '/ts', unit = 'ms', missing = 'receive', bad = 'receive' }\nmax_future = 'off'";
    let rows = told_alike(keys, |world| {
        let mut rows = Vec::new();
        for (number, ts) in
            ["4294967296000", "946684800001", "-498365439", "3000", "0", "null", "12345"].iter().enumerate()
        {
            rows.extend(world.message(number as u64, "d/a", format!("{{\"ts\":{ts},\"v\":1}}")));
        }
        rows
    });
    let from_device = |row: &&Value| row["time_source"] == "device";
    assert_eq!(
        at(&rows.iter().filter(from_device).cloned().collect::<Vec<_>>()),
        [4_294_967_296_000 - START_MS, 946_684_800_001 - START_MS]
    );
    assert_eq!(rows.iter().filter(|row| !from_device(row)).count(), 5, "the value is kept, at the time of receipt");
    let zero = told_alike("time = { field = '/ts', format = 'iso', missing = 'receive' }", |world| {
        world.message(7, "d/a", r#"{"ts":"0001-01-01T00:00:00Z","v":1}"#)
    });
    assert_eq!((at(&zero), &zero[0]["time_source"]), (vec![7], &json!("receive")), "year 1 is no time");
}

#[test]
fn f108_null_and_absent_are_the_same_and_a_renamed_field_has_an_alias() {
    let keys = "fields = { t = ['/temperature', '/temp'] }\n\
                time = [{ field = '/time', format = 'iso' }, { field = '/ts', unit = 'ms' }]";
    let rows = told_alike(keys, |world| {
        let mut rows =
            world.message(0, "d/a", format!(r#"{{"time":null,"ts":{START_MS},"temperature":null,"temp":2}}"#));
        rows.extend(world.message(1, "d/a", format!(r#"{{"ts":{START_MS},"temp":4,"temperature":3}}"#)));
        rows
    });
    assert_eq!(values(&rows), [("a", &json!({ "t": 2 })), ("a", &json!({ "t": 3 }))]);
}

#[test]
fn f112_one_bad_stamp_in_a_message_costs_its_own_record_alone() {
    let keys = "fields = 'all'\nfields_at = '/v'\nexplode = '/reported/*'\ntime = { field = '/ts', unit = 'ms' }";
    let rows = told_alike(keys, |world| {
        let payload = format!(
            r#"{{"reported":{{"bat":{{"v":4187,"ts":64698512377204}},"dev":{{"v":{{"band":20}},"ts":{START_MS}}}}}}}"#
        );
        let mut rows = world.message(0, "d/a", payload);
        let ledger = world.status(0).ledger;
        assert_eq!((ledger.accepted, ledger.future), (1, 1));
        rows.extend(world.message(1, "d/a", format!(r#"{{"reported":{{"x":{{"v":1,"ts":{START_MS}}}}}}}"#)));
        assert_eq!(world.status(0).ledger.accepted, 2, "the watermark has not moved to the year 4020");
        rows
    });
    assert_eq!(rows.iter().map(|row| row["kind"].as_str().unwrap()).collect::<Vec<_>>(), ["late", "record", "record"]);
}

#[test]
fn f115_f138_one_stream_that_cannot_read_its_topic_spoils_no_other_in_any_order() {
    let good = "[[streams]]\nname = 'good'\ntopic = 'a/{device}'\ntime = { field = '/ts', unit = 'ms' }\n";
    let bad = "[[streams]]\nname = 'bad'\ntopic = 'b/{device}'\ntime = { field = '/ts', format = 'rfc3339' }\n";
    let text = format!("{{\"ts\":{START_MS},\"v\":1}}");
    let messages: [(&str, &[u8]); 5] = [
        ("b/x", b"online"),
        ("a/x", text.as_bytes()),
        ("b/x", b"???"),
        ("a/x", text.as_bytes()),
        ("b/x", br#"{"ts":7,"v":1}"#),
    ];
    for (streams, order) in [(format!("{good}{bad}"), [0, 1]), (format!("{bad}{good}"), [1, 0])] {
        let status = told(&streams, &messages);
        let of = |index: usize| &status[order[index]].ledger;
        assert_eq!((of(0).accepted, of(0).rejected, of(1).accepted, of(1).rejected), (2, 0, 0, 3));
    }
}

#[test]
fn f118_f119_the_newest_is_by_the_time_of_the_event_whenever_it_is_sent() {
    let windows = "idle_timeout = 'off'\n[[streams.windows]]\nname = 'w'\nsize = '10s'\naggregates = ['last', 'count']";
    let rows = told_alike(windows, |world| {
        let mut rows = world.reading(0, "a", 5_000, 5.0);
        // Older, and sent again: neither looks fresh.
        rows.extend(world.reading(9, "a", 4_000, 4.0));
        rows.extend(world.reading(8_000, "a", 5_000, 5.0));
        rows.extend(world.reading(8_001, "a", 13_000, 0.0));
        rows
    });
    assert_eq!(rows[0]["values"], json!({ "v": { "count": 3, "last": 5 } }));
}

#[test]
fn f126_f128_a_retained_message_is_state_unless_it_tells_something_newer() {
    let keys = "topic = 'd/{device}'\nformat = 'raw'\nfields = 'all'\ntime = { source = 'receive' }";
    told_alike(keys, |world| {
        let rows = world.retained(18_000_000, "d/a", "21.5");
        assert_eq!((rows.len(), world.status(0).ledger.ignored), (0, 1), "hours old, and read as now");
        rows
    });
    told_alike("", |world| {
        let text = |ts: i64| format!("{{\"ts\":{},\"v\":1}}", START_MS + ts);
        let mut rows = world.message(0, "d/a", text(5));
        rows.extend(world.retained(1, "d/a", text(5)));
        rows.extend(world.retained(2, "d/a", text(6)));
        let ledger = world.status(0).ledger;
        assert_eq!((ledger.accepted, ledger.ignored), (2, 1));
        rows
    });
}

// --- values -----------------------------------------------------------------

#[test]
fn f131_f132_f134_one_numeric_type_and_texts_only_where_they_are_said_to_be_numbers() {
    let rows = told_alike("fields = 'all'", |world| {
        let mut rows = world.message(0, "d/a", format!(r#"{{"ts":{START_MS},"v":5}}"#));
        rows.extend(world.message(1, "d/a", format!(r#"{{"ts":{START_MS},"v":5.5}}"#)));
        rows.extend(world.message(2, "d/a", format!(r#"{{"ts":{START_MS},"v":"5.5"}}"#)));
        assert_eq!(rejected(world), BTreeMap::from([("no_values", 1)]));
        rows
    });
    assert_eq!(values(&rows), [("a", &json!({ "v": 5 })), ("a", &json!({ "v": 5.5 }))]);
    let rows = told_alike("fields = { v = '/v', w = '/w' }\ntext_numbers = 'plain'", |world| {
        let mut rows = world.message(0, "d/a", format!(r#"{{"ts":{START_MS},"v":"5.5","w":"N"}}"#));
        rows.extend(world.message(1, "d/a", format!(r#"{{"ts":{START_MS},"v":6,"w":"7"}}"#)));
        assert_eq!(world.status(0).ledger.fields_left_out, 1, "\"N\" is no number, and counted");
        rows
    });
    assert_eq!(values(&rows), [("a", &json!({ "v": 5.5 })), ("a", &json!({ "v": 6, "w": 7 }))]);
}

#[test]
fn f129_f135_a_missing_value_leaves_the_rest() {
    let keys = "topic = 'd/{device}/{m}'\nformat = 'raw'\nraw = { field = '{m}' }\nfields = 'all'\ntime = { source = 'receive' }";
    told_alike(keys, |world| {
        let mut rows = Vec::new();
        for (number, text) in ["nan", "None", "undefined", "unavailable", "21.5"].iter().enumerate() {
            rows.extend(world.message(number as u64, "d/a/t", text));
        }
        assert_eq!(rejected(world), BTreeMap::from([("missing_value", 4)]));
        assert_eq!(values(&rows), [("a", &json!({ "t": 21.5 }))]);
        rows
    });
}

#[test]
fn a_part_of_the_topic_can_begin_the_names_of_fields() {
    let streams = "[[streams]]\nname = 's'\npreset = 'shelly-gen2'\n";
    let rows = told_alike(
        "topic = ['{device}/events/rpc', '{device}/status/{component...}']\nprefix = '{component}'\n\
                           fields = 'all'\nfields_except = ['/id', '/params/*/id']\ntime = { source = 'receive' }",
        |world| {
            let mut rows = world.message(0, "s/status/switch:0", r#"{"id":0,"apower":100}"#);
            rows.extend(world.message(1, "s/status/switch:1", r#"{"id":1,"apower":0}"#));
            rows.extend(world.message(2, "s/events/rpc", r#"{"params":{"switch:0":{"id":0,"apower":7}}}"#));
            rows
        },
    );
    let names =
        [json!({ "switch:0.apower": 100 }), json!({ "switch:1.apower": 0 }), json!({ "params.switch:0.apower": 7 })];
    assert_eq!(
        values(&rows).into_iter().map(|(_, values)| values).collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>()
    );
    assert_eq!(told(streams, &[("s/status/x", br#"{"apower":1}"#)])[0].ledger.accepted, 1);
    // A JSON value beside plain ones is named by its topic too.
    let rows = told_alike(
        "topic = 'N/{device}/{path...}'\nformat = 'raw'\nraw = { field = '{path}', json = true }\n\
                           fields = 'all'\ntime = { source = 'receive' }",
        |world| {
            let mut rows = world.message(0, "N/p/battery/Soc", r#"{"value":53.2}"#);
            rows.extend(world.message(1, "N/p/battery/Soc", "53.2"));
            rows
        },
    );
    assert_eq!(values(&rows), [("p", &json!({ "battery.Soc.value": 53.2 })), ("p", &json!({ "battery.Soc": 53.2 }))]);
}

#[test]
fn fields_beyond_those_that_a_stream_can_have_are_said_to_be_too_many() {
    let keys = "topic = 'w/{device}/{m}'\nformat = 'raw'\nraw = { field = '{m}' }\nfields = 'all'\ntime = { source = 'receive' }";
    let mut world = World::new(keys, Restart::Never);
    for number in 0..70_u64 {
        world.message(number, &format!("w/a/m{number}"), "1");
    }
    assert_eq!(rejected(&world), BTreeMap::from([("too_many_fields", 6)]));
}

#[test]
fn what_is_rejected_takes_no_place_among_the_fields() {
    let many = (0..63).map(|number| format!(",\"x{number}\":1")).collect::<Vec<_>>().concat();
    let keys = "fields = 'all'\nallow = ['ok', 'late']\ndevices_max = 1";
    told_alike(keys, |world| {
        // A stranger; a record without a time; one device too many.
        world.message(0, "d/stranger", format!("{{\"ts\":{START_MS}{many}}}"));
        world.message(1, "d/ok", format!("{{\"a\":1{many}}}"));
        let mut rows = world.message(2, "d/ok", format!(r#"{{"ts":{START_MS},"temp":20}}"#));
        rows.extend(world.message(3, "d/late", format!("{{\"ts\":{START_MS}{many}}}")));
        rows.extend(world.message(4, "d/ok", format!(r#"{{"ts":{START_MS},"hum":50}}"#)));
        assert_eq!(values(&rows), [("ok", &json!({ "temp": 20 })), ("ok", &json!({ "hum": 50 }))]);
        assert_eq!(
            rejected(world),
            BTreeMap::from([("device_denied", 1), ("missing_time", 1), ("too_many_devices", 1)])
        );
        rows
    });
}

#[test]
fn a_value_outside_its_range_is_left_out_and_scaled_before() {
    let keys = "fields = { t = { pointer = '/t', scale = 0.1, offset = -40, min = -40, max = 60 }, h = '/h' }";
    let rows = told_alike(keys, |world| {
        let mut rows = world.message(0, "d/a", format!(r#"{{"ts":{START_MS},"t":605,"h":50}}"#));
        rows.extend(world.message(1, "d/a", format!(r#"{{"ts":{START_MS},"t":65535,"h":51}}"#)));
        rows.extend(world.message(2, "d/a", format!(r#"{{"ts":{START_MS},"t":65535}}"#)));
        let ledger = world.status(0).ledger;
        assert_eq!((ledger.fields_left_out, ledger.rejected_by), (1, BTreeMap::from([("out_of_range", 1)])));
        rows
    });
    assert_eq!(values(&rows), [("a", &json!({ "h": 50, "t": 20.5 })), ("a", &json!({ "h": 51 }))]);
}

// --- payloads, and what is none -----------------------------------------------

#[test]
fn f30_f145_f147_what_cannot_be_read_is_counted_once_and_nothing_stops() {
    told_alike("", |world| {
        let mut rows = Vec::new();
        for number in 0..3 {
            rows.extend(world.message(number, "d/a", "???"));
            rows.extend(world.message(number, "d/a", r#"{"ts":"soon","v":1}"#));
            rows.extend(world.reading(number, "a", 0, 1.0));
        }
        assert_eq!(rows.len(), 3);
        assert_eq!(rejected(world), BTreeMap::from([("bad_time", 3), ("not_json", 3)]));
        rows
    });
}

#[test]
fn f33_a_wide_topic_has_room_for_status_texts() {
    let keys = "topic = 'z/{device...}'\nignore = ['z/bridge/{rest...}', 'z/{rest...}/set']\nfields = 'all'\n\
                time = { source = 'receive' }\n\
                availability = [{ topic = 'z/{device...}/availability', field = '/state' }]";
    told_alike(keys, |world| {
        let mut rows = world.message(0, "z/attic/lamp", r#"{"t":1}"#);
        rows.extend(world.message(1, "z/attic/lamp/availability", "online"));
        rows.extend(world.message(2, "z/attic/lamp/availability", r#"{"state":"offline"}"#));
        rows.extend(world.message(3, "z/attic/lamp/availability", r#"{"state":"asleep"}"#));
        rows.extend(world.message(4, "z/bridge/devices", "[1, 2]"));
        rows.extend(world.message(5, "z/attic/lamp/set", r#"{"state":"ON"}"#));
        let ledger = world.status(0).ledger;
        assert_eq!((ledger.accepted, ledger.availability, ledger.ignored), (1, 2, 2));
        assert_eq!(ledger.rejected_by, BTreeMap::from([("no_values", 1)]), "no word, and so a payload without numbers");
        rows
    });
}

#[test]
fn what_one_stream_ignores_is_there_for_the_next() {
    let wide = "[[streams]]\nname = 'wide'\npreset = 'esphome'\n";
    let house = "[[streams]]\nname = 'house'\npreset = 'homeassistant-statestream'\n";
    let messages: [(&str, &[u8]); 3] =
        [("homeassistant/sensor/attic/state", b"19.6"), ("cellar/sensor/t/state", b"7"), ("homeassistant/x/y/z", b"1")];
    for streams in [format!("{wide}{house}"), format!("{house}{wide}")] {
        let status = told(&streams, &messages);
        let of = |name: &str| &status.iter().find(|stream| stream.name == name).unwrap().ledger;
        assert_eq!((of("house").accepted, of("wide").accepted), (1, 1));
        assert_eq!((of("house").received, of("wide").received), (1, 1), "what fits no topic is nobody's");
    }
    let alone = told(wide, &messages);
    assert_eq!((alone[0].ledger.accepted, alone[0].ledger.ignored), (1, 1));
}

#[test]
fn f136_f149_a_payload_of_another_shape_invents_no_field() {
    let keys = "topic = 'd/{device}'\nformat = 'raw'\nfields = 'all'\ntime = { source = 'receive' }";
    told_alike(keys, |world| {
        let rows = world.message(0, "d/a", r#"{"tC":22}"#);
        assert_eq!((rows.len(), rejected(world)), (0, BTreeMap::from([("wrong_shape", 1)])));
        rows
    });
    let keys = "topic = 'gw'\ndevice = '{*1}'\nexplode = '/*/*'\nfields = 'all'\nfields_at = '/values'\n\
                time = { field = '/ts', unit = 'ms', missing = 'receive' }";
    let rows = told_alike(keys, |world| world.message(3, "gw", r#"{"Device A":[{"values":{"t":45.1}}]}"#));
    assert_eq!((values(&rows), at(&rows)), (vec![("Device A", &json!({ "t": 45.1 }))], vec![3]));
}

#[test]
fn f141_of_equal_keys_the_last_counts_in_every_format() {
    let json = told_alike("fields = 'all'", |world| {
        world.message(0, "d/a", format!(r#"{{"ts":{START_MS},"v":1,"v":2,"v":3}}"#))
    });
    let keys = "topic = 'd/{device}'\nfields = 'all'\nformat = ";
    let cbor = told_alike(&format!("{keys}'cbor'\ntime = {{ source = 'receive' }}"), |world| {
        world.message(0, "d/a", b"\xa3\x61v\x01\x61v\x02\x61v\x03")
    });
    let line = told_alike(&format!("{keys}'influx'\ntime = {{ source = 'receive' }}"), |world| {
        world.message(0, "d/a", "m v=1,v=2,v=3")
    });
    for rows in [&json, &cbor, &line] {
        assert_eq!(values(rows), [("a", &json!({ "v": 3 }))]);
    }
}

#[test]
fn f144_what_fails_on_the_way_hands_nothing_on() {
    let keys = "fields = { u = '/u', i = '/i' }\ncompute = { r = 'u / i' }\nfilter = 'has(field.r) && r > 1'";
    let rows = told_alike(keys, |world| {
        let mut rows = world.message(0, "d/a", format!(r#"{{"ts":{START_MS},"u":10,"i":2}}"#));
        rows.extend(world.message(1, "d/a", format!(r#"{{"ts":{START_MS},"u":10,"i":0}}"#)));
        rows.extend(world.message(2, "d/a", format!(r#"{{"ts":{START_MS},"u":10}}"#)));
        assert_eq!((world.status(0).ledger.filtered, world.status(0).ledger.accepted), (2, 1));
        rows
    });
    assert_eq!(values(&rows), [("a", &json!({ "i": 2, "r": 5, "u": 10 }))]);
}

// --- availability -------------------------------------------------------------

#[test]
fn a_bridge_that_is_off_turns_its_devices_idle_at_once() {
    let keys = "topic = 'b/{bridge}/{unit}'\ndevice = '{bridge}/{unit}'\nidle_timeout = '1h'\n\
                availability = [{ topic = 'b/{bridge}', below = '{bridge}/', offline = ['off', 'gone'], online = 'on' }]\n\
                [[streams.windows]]\nname = 'w'\nsize = '10s'";
    let rows = told_alike(keys, |world| {
        let text = format!(r#"{{"ts":{START_MS},"v":1}}"#);
        for topic in ["b/x/1", "b/x/2", "b/xy/1"] {
            assert_eq!(world.message(0, topic, &text), Vec::<Value>::new());
        }
        world.message(1, "b/x", "GONE")
    });
    let panes: Vec<_> = rows.iter().map(|row| (row["key"].as_str().unwrap(), row["pane"].as_str().unwrap())).collect();
    assert_eq!(panes, [("x/1", "idle"), ("x/2", "idle")], "of this bridge, and no other");
    let mut world = World::new(keys, Restart::Never);
    world.message(0, "b/x", "off");
    world.message(1, "b/x", "perhaps");
    assert_eq!(rejected(&world), BTreeMap::from([("bad_availability", 1)]));
    assert_eq!(world.status(0).ledger.availability, 1);
}

#[test]
fn a_signal_that_the_broker_sends_again_is_heard_once() {
    let config = "gateway.id = 'gw'\n[[streams]]\nname = 's'\ntopic = 'd/{device}'\ntime = { source = 'receive' }\n\
                  availability = [{ topic = 'lwt/{device}' }]\n";
    let mut engine = Engine::new(check_for_replay(config, "t.toml").unwrap().config);
    let wall = WallTime::from_millis(START_MS);
    let now = Now { proc: ProcTime::from_millis(0), wall, quality: ClockQuality::Synced };
    engine.handle(now, Event::SessionStarted { resumed: true });
    for (packet, payload, dup) in
        [(1, "offline", false), (1, "offline", true), (2, "asleep", false), (2, "asleep", true)]
    {
        let tag = Some(DeliveryTag { connection: 1, packet });
        let message = Message { topic: "lwt/a", payload: payload.as_bytes(), retain: false, dup, tag };
        engine.handle(now, Event::Message(message));
        assert!(engine.balances());
    }
    let ledger = &engine.status(now).streams[0].ledger;
    assert_eq!((ledger.availability, ledger.rejected, ledger.redelivered), (1, 1, 2));
    assert_eq!(engine.uncommitted_messages(), 4, "all are acknowledged");
}

#[test]
fn a_word_that_is_a_reading_is_taken_when_only_its_second_sending_arrives() {
    // One topic for both, as Home Assistant has it.
    let config = "gateway.id = 'gw'\n[[streams]]\nname = 's'\ntopic = 'd/{device}/state'\nformat = 'raw'\n\
                  time = { source = 'receive' }\navailability = [{ topic = 'd/{device}/state', offline = 'gone' }]\n";
    let mut engine = Engine::new(check_for_replay(config, "t.toml").unwrap().config);
    let wall = WallTime::from_millis(START_MS);
    let now = Now { proc: ProcTime::from_millis(0), wall, quality: ClockQuality::Synced };
    engine.handle(now, Event::SessionStarted { resumed: true });
    // Both are marked: of the first sending, a process saw nothing that it could commit.
    for payload in ["21.5", "21.5", "gone", "gone"] {
        let packet = if payload == "gone" { 2 } else { 1 };
        let tag = Some(DeliveryTag { connection: 1, packet });
        let message = Message { topic: "d/a/state", payload: payload.as_bytes(), retain: false, dup: true, tag };
        engine.handle(now, Event::Message(message));
        assert!(engine.balances());
    }
    let ledger = &engine.status(now).streams[0].ledger;
    assert_eq!((ledger.accepted, ledger.availability, ledger.redelivered), (1, 1, 2));
}
