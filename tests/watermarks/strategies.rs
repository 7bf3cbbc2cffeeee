//! What a record, or the clock, says about those that are still to come.

use serde_json::json;
use tidegate::model::time::ClockQuality;

use crate::trace::{START_MS, Trace};

#[test]
fn a_monotonic_watermark_waits_for_nothing() {
    Trace::new("watermark = \"monotonic\"\nidle_timeout = \"off\"", "")
        .reading(0, "a", 9_999)
        .reading(1, "a", 9_999)
        .reading(2, "a", 10_000)
        .reading(3, "a", 9_999)
        .gives(&["2: on_time a [0,10000) rev 0 count 2 sum 2 W 9999", "3: late a 9999 by 0"]);
}

const ADAPTIVE: &str =
    "watermark = \"adaptive\"\nfloor = \"1s\"\nceiling = \"20s\"\nidle_timeout = \"off\"\nmax_future = \"off\"";

#[test]
fn the_adaptive_bound_is_the_ceiling_until_enough_was_measured_and_then_follows_the_device() {
    let in_order: Vec<i64> = (0..99).map(|number| number * 100).collect();
    Trace::new(ADAPTIVE, "")
        .readings(0, "a", &in_order)
        .look(10, "a")
        .reading(20, "a", 9_900)
        .look(30, "a")
        .reading(40, "a", 11_000)
        // Four late ones: more than one in a hundred.
        .readings(50, "a", &[7_000, 7_000, 7_000, 7_000])
        .look(60, "a")
        .reading(70, "a", 14_094)
        .look(80, "a")
        .reading(90, "a", 14_097)
        .look(100, "a")
        // Another device is judged by itself.
        .reading(110, "b", 9_000)
        .look(120, "b")
        .gives(&[
            "10: a W -10201 active bound 20000",
            "30: a W 8899 active bound 1000",
            "40: on_time a [0,10000) rev 0 count 100 sum 100 W 9999",
            "50: late a 7000 by 2999",
            "50: late a 7000 by 2999",
            "50: late a 7000 by 2999",
            "50: late a 7000 by 2999",
            "60: a W 9999 active bound 4095",
            "80: a W 9999 active bound 4095",
            "100: a W 10001 active bound 4095",
            "120: b W -11001 active bound 20000",
        ]);
}

#[test]
fn in_scope_shared_the_stream_is_measured_as_one_device() {
    let mut trace = Trace::new(&format!("{ADAPTIVE}\nscope = \"shared\""), "");
    for number in 0..60 {
        // b is always three seconds behind a.
        let at = i64::try_from(number).unwrap() * 50;
        trace = trace.reading(number, "a", 5_000 + at).reading(number, "b", 2_000 + at);
    }
    trace.look(100, "b").reading(110, "a", 13_070).reading(120, "a", 13_071).gives(&[
        "100: b W none active bound 3071",
        "120: on_time a [0,10000) rev 0 count 60 sum 60 W 9999",
        "120: on_time b [0,10000) rev 0 count 60 sum 60 W 9999",
    ]);
}

#[test]
fn in_scope_stream_each_device_has_its_own_bound_and_the_slowest_decides() {
    let in_order: Vec<i64> = (0..100).map(|number| number * 100).collect();
    Trace::new(&format!("{ADAPTIVE}\nscope = \"stream\""), "")
        .readings(0, "b", &[9_000])
        .readings(0, "a", &in_order)
        .look(1, "a")
        .look(1, "b")
        .reading(2, "a", 40_000)
        .readings(3, "b", &[29_000, 30_000])
        .gives(&[
            "1: a W 8899 active bound 1000",
            "1: b W -11001 active bound 20000",
            "3: on_time b [0,10000) rev 0 count 1 sum 1 W 9999",
            "3: on_time a [0,10000) rev 0 count 100 sum 100 W 9999",
        ]);
}

#[test]
fn only_a_mark_moves_a_punctuated_watermark_and_it_is_no_value() {
    let stream = "watermark = \"punctuated\"\nmarker = \"end\"\nidle_timeout = \"off\"";
    let reading = |ts: i64, end: i64| json!({ "ts": START_MS + ts, "v": 2, "end": end });
    let trace = Trace::new(stream, "")
        .payload(0, "a", &reading(9_000, 0))
        .reading(1, "a", 30_000)
        .look(2, "a")
        .payload(3, "a", &reading(10_000, 1))
        .look(4, "a")
        // More of the moment of the mark is still in order.
        .reading(5, "a", 10_000)
        .reading(6, "a", 9_999)
        // Nothing but a mark: no window counts it.
        .payload(7, "a", &json!({ "ts": START_MS + 20_000, "end": -1 }))
        .payload(8, "a", &json!({ "ts": START_MS + 40_000, "end": 1 }));
    trace.gives(&[
        "2: a W none active",
        "3: on_time a [0,10000) rev 0 count 1 sum 2 W 9999",
        "4: a W 9999 active",
        "6: late a 9999 by 0",
        "7: on_time a [10000,20000) rev 0 count 2 sum 3 W 19999",
        "8: on_time a [30000,40000) rev 0 count 1 sum 1 W 39999",
    ]);
}

const PROCESSING: &str = "watermark = \"processing\"\ndelay = \"2s\"\nidle_timeout = \"off\"";

#[test]
fn a_processing_watermark_fires_by_the_clock_to_the_millisecond_and_without_records() {
    Trace::new(PROCESSING, "lateness = \"1s\"")
        .reading(100, "a", 9_000)
        .reading(200, "b", 100)
        .reading(12_500, "a", 9_500)
        .reading(13_000, "a", 9_600)
        .tick(60_000)
        .reading(60_001, "a", 58_000)
        .tick(100_000)
        .gives(&[
            "12000: on_time a [0,10000) rev 0 count 1 sum 1 W 9999",
            "12000: on_time b [0,10000) rev 0 count 1 sum 1 W 9999",
            "12500: late a [0,10000) rev 1 count 2 sum 2 W 10499",
            "13000: late a 9600 by 1399",
            "62000: on_time a [50000,60000) rev 0 count 1 sum 1 W 59999",
        ]);
}

#[test]
fn the_clock_is_followed_while_it_is_trusted_and_never_back() {
    let (synced, unsynced) = (ClockQuality::Synced, ClockQuality::Unsynced);
    Trace::new(PROCESSING, "")
        .reading(0, "a", 1_000)
        .clock(5_000, 0, unsynced)
        .tick(20_000)
        // It was slow: synchronised, it is a minute ahead.
        .clock(30_000, 60_000, synced)
        .reading(30_001, "a", 89_000)
        // And back. The deadline moves along.
        .clock(31_000, 58_000, synced)
        .reading(31_001, "a", 87_000)
        .tick(40_000)
        .gives(&[
            "30000: on_time a [0,10000) rev 0 count 1 sum 1 W 87999",
            "34000: on_time a [80000,90000) rev 0 count 2 sum 2 W 89999",
        ]);
}

#[test]
fn the_bounds_in_force_can_be_read_in_the_status() {
    let text = "[gateway]\nid = \"gw\"\n[[streams]]\nname = \"s\"\ntopic = \"s/{device}\"\ntime = { source = \"receive\" }\n\
                watermark = \"adaptive\"\nfloor = \"1s\"\nceiling = \"20s\"\n[[streams.windows]]\nname = \"w\"\nsize = \"1m\"";
    let spec = tidegate::config::check::check_for_replay(text, "t.toml").unwrap().config;
    let mut replay = tidegate::engine::replay::Replay::new(spec);
    let bounds = |replay: &tidegate::engine::replay::Replay| {
        let stream = replay.status().streams.remove(0);
        (stream.bound_min_ms, stream.bound_max_ms)
    };
    let mut out = Vec::new();
    assert_eq!(bounds(&replay), (None, None), "without devices there is none");
    for number in 1_760_000_000_000_i64..1_760_000_000_101 {
        let line = format!("{{\"arrival_ms\":{number},\"device\":\"a\",\"event_ms\":{number},\"value\":1}}");
        replay.handle_line(&line, &mut out).unwrap();
    }
    assert_eq!(bounds(&replay), (Some(1_000), Some(1_000)), "100 records in order were measured");
    let line = "{\"arrival_ms\":1760000000200,\"device\":\"b\",\"event_ms\":1760000000200,\"value\":1}";
    replay.handle_line(line, &mut out).unwrap();
    assert_eq!(bounds(&replay), (Some(1_000), Some(20_000)), "of the other nothing is known");
}
