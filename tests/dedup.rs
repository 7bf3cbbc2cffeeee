//! Readings that come twice count once, whatever is restarted in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::{Value, json};
use tidegate::engine::spec::DedupBy;
use tidegate::engine::status::LedgerStatus;
use tidegate::model::ids::Name;

use world::{Restart, START_MS, World, brief, pipeline, silent_alike, told_alike};

const SEQUENCE: &str = "fields = { v = \"/v\", seq = \"/seq\" }\ndedup = { sequence = \"seq\", horizon = 64 }";
const VALUES: &str =
    "fields = { v = \"/v\", w = \"/w\" }\ndedup = { by = \"time_and_values\", horizon = 8 }\ndevices_max = 10";
const WINDOW: &str = "idle_timeout = \"off\"\n[[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\nlateness = \"1h\"";

fn numbered(world: &mut World, ts: i64, seq: impl Into<Value>) -> Vec<Value> {
    world.payload(0, "a", &json!({ "ts": START_MS + ts, "v": 1, "seq": seq.into() }))
}

fn ledger(world: &World) -> LedgerStatus {
    world.status(0).ledger
}

#[test]
fn a_number_that_was_taken_in_counts_once_and_is_no_value_of_windows() {
    let rows = told_alike(&format!("{SEQUENCE}\nrecords = \"arrival\"\n{WINDOW}"), |world| {
        let mut rows = Vec::new();
        for (ts, seq) in [(1_000, 7), (2_000, 8), (1_000, 7), (2_000, 8), (3_000, 10), (2_500, 9), (2_500, 9)] {
            rows.extend(numbered(world, ts, seq));
        }
        let ledger = ledger(world);
        assert_eq!((ledger.received, ledger.accepted, ledger.duplicate), (7, 4, 3));
        assert_eq!((ledger.sequence_gaps, ledger.sequence_restarts, ledger.sequence_missing), (0, 0, 0));
        rows.extend(numbered(world, 20_000, 11));
        rows
    });
    let brief = brief(&rows);
    assert_eq!(brief.iter().filter(|row| row.starts_with("live record")).count(), 5);
    let pane = rows.iter().find(|row| row["kind"] == "pane").unwrap();
    assert_eq!((pane["count"].as_u64(), &pane["values"]["v"]["count"]), (Some(4), &json!(4)));
    assert_eq!(pane["values"].as_object().unwrap().len(), 1, "no `seq`");
    assert_eq!(rows[0]["values"], json!({ "seq": 7, "v": 1 }), "a reading is passed on as it is");
}

#[test]
fn a_duplicate_moves_no_watermark_and_never_reaches_a_late_lane() {
    let rows = told_alike(&format!("{SEQUENCE}\nrecords = \"ordered\"\nidle_timeout = \"off\""), |world| {
        let mut rows = numbered(world, 1_000, 1);
        rows.extend(numbered(world, 10_000, 2));
        // Late if it counted.
        rows.extend(numbered(world, 1_000, 1));
        // It would move the watermark, if it were not known.
        rows.extend(numbered(world, 10_000, 2));
        rows.extend(numbered(world, 8_500, 3));
        rows
    });
    assert_eq!(brief(&rows), ["live record a 1000"]);
}

#[test]
fn a_second_gateway_whose_clock_is_a_second_ahead_sends_copies() {
    told_alike(&format!("{SEQUENCE}\n{WINDOW}"), |world| {
        for (ts, seq) in [(1_000, 7), (2_000, 7), (31_000, 8), (32_000, 8), (33_000, 8), (61_000, 9), (60_000, 9)] {
            numbered(world, ts, seq);
        }
        let before = ledger(world);
        assert_eq!((before.accepted, before.duplicate, before.sequence_restarts), (3, 4, 0));
        // Beyond the disorder of 2 s it is a device that has started over at this very number.
        numbered(world, 63_001, 9);
        assert_eq!((ledger(world).accepted, ledger(world).sequence_restarts), (4, 1));
        Vec::new()
    });
}

#[test]
fn missing_numbers_are_counted_when_they_leave_the_horizon_and_restarts_as_such() {
    told_alike(&format!("{SEQUENCE}\n{WINDOW}"), |world| {
        for seq in [100, 101, 105, 200] {
            numbered(world, seq * 10, seq);
        }
        assert_eq!(ledger(world).sequence_gaps, 3 + 31, "102 to 104, 106 to 136: those after it may still come");
        // It starts over, with a clock that goes on.
        numbered(world, 3_000, 0);
        numbered(world, 3_010, 1);
        numbered(world, 3_010, 1);
        // A copy from before the restart.
        numbered(world, 2_000, 200);
        let ledger = ledger(world);
        assert_eq!((ledger.accepted, ledger.duplicate, ledger.sequence_restarts), (6, 2, 1));
        assert_eq!(ledger.sequence_gaps, 34 + 63, "what the run before still missed");
        Vec::new()
    });
}

#[test]
fn a_number_that_is_none_takes_its_reading_in_and_is_counted() {
    told_alike(&format!("{SEQUENCE}\n{WINDOW}"), |world| {
        for seq in [json!(1), json!(null), json!(1.5), json!(-1), json!(9_007_199_254_740_992_u64), json!("x")] {
            numbered(world, 1_000, seq);
        }
        let ledger = ledger(world);
        assert_eq!((ledger.accepted, ledger.duplicate, ledger.sequence_missing), (6, 0, 5));
        Vec::new()
    });
}

#[test]
fn a_copy_by_time_and_values_is_known_whatever_the_order_of_its_fields() {
    let send = |world: &mut World, device: &str, payload: &str| {
        world.payload(0, device, &serde_json::from_str(payload).unwrap());
    };
    told_alike(&format!("{VALUES}\n{WINDOW}"), |world| {
        let ts = START_MS;
        send(world, "a", &format!("{{\"ts\":{ts},\"v\":1,\"w\":2}}"));
        send(world, "a", &format!("{{\"w\":2,\"rssi\":-70,\"v\":1.0,\"ts\":{ts}}}"));
        assert_eq!((ledger(world).accepted, ledger(world).duplicate), (1, 1));
        for other in [
            format!("{{\"ts\":{},\"v\":1,\"w\":2}}", ts + 1),
            format!("{{\"ts\":{ts},\"v\":2,\"w\":1}}"),
            format!("{{\"ts\":{ts},\"v\":1}}"),
        ] {
            send(world, "a", &other);
        }
        send(world, "b", &format!("{{\"ts\":{ts},\"v\":1,\"w\":2}}"));
        assert_eq!((ledger(world).accepted, ledger(world).duplicate), (5, 1));
        Vec::new()
    });
}

#[test]
fn the_horizon_is_exact() {
    told_alike(&format!("{VALUES}\n{WINDOW}"), |world| {
        for round in 1..=3_u64 {
            for ts in 0..8 {
                world.reading(0, "a", ts, 1.0);
            }
            assert_eq!((ledger(world).accepted, ledger(world).duplicate), (8, 8 * (round - 1)), "eight are known");
        }
        world.reading(0, "a", 8, 1.0);
        world.reading(0, "a", 0, 1.0);
        assert_eq!((ledger(world).accepted, ledger(world).duplicate), (10, 16), "the first is forgotten");
        Vec::new()
    });
}

#[test]
fn a_device_that_repeats_itself_is_not_silent() {
    let rows = silent_alike(
        &format!("{VALUES}\nidle_timeout = \"5s\"\n[[streams.windows]]\nname = \"10s\"\nsize = \"10s\""),
        |world| {
            let mut rows = world.reading(0, "a", 1_000, 1.0);
            rows.extend(world.reading(4_000, "a", 1_000, 1.0));
            rows.extend(world.tick(9_000));
            assert_eq!(rows.len(), 0);
            rows.extend(world.tick(9_001));
            rows.extend(world.reading(10_000, "a", 1_000, 1.0));
            rows.extend(world.tick(20_000));
            rows
        },
    );
    assert_eq!(brief(&rows), ["live pane a 0 idle"], "shown once: nothing has changed");
}

#[test]
fn pages_hold_what_is_new_and_another_rule_begins_anew() {
    let mut world = World::new(&format!("{VALUES}\n{WINDOW}"), Restart::FromPages);
    let (mut large, _) = (0, 0);
    for ts in 0..8 {
        world.reading(0, "a", ts, 1.0);
        large = large.max(world.sizes(0).0);
    }
    world.start_again(0, Some(&format!("{}\n{WINDOW}", VALUES.replace("horizon = 8", "horizon = 4"))));
    for ts in [7, 4, 3] {
        world.reading(0, "a", ts, 1.0);
    }
    assert_eq!((ledger(&world).accepted, ledger(&world).duplicate), (9, 2), "3 is beyond the new horizon");
    world.start_again(0, Some(&format!("{SEQUENCE}\n{WINDOW}")));
    numbered(&mut world, 7, 7);
    numbered(&mut world, 7, 7);
    assert_eq!((ledger(&world).accepted, ledger(&world).duplicate), (10, 3));
    world.start_again(0, Some(WINDOW));
    world.reading(0, "a", 7, 1.0);
    assert_eq!((ledger(&world).accepted, ledger(&world).duplicate), (11, 3));
}

#[test]
fn the_horizon_that_nobody_asked_for_fits_the_devices() {
    let dedup = |more: &str| pipeline(more).streams[0].dedup.clone().unwrap();
    assert_eq!(dedup("dedup = { by = \"time_and_values\" }\ndevices_max = 1000").horizon, 128);
    assert_eq!(dedup("dedup = { by = \"time_and_values\" }").horizon, 25);
    let spec = dedup("fields = { n = \"/n\" }\ndedup = { sequence = \"n\" }");
    assert_eq!(spec.horizon, 128);
    assert_eq!(spec.by, DedupBy::Sequence { field: Name::new("n").unwrap() });
}
