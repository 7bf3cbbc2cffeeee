//! Which devices share a watermark, and which of them count.

use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::memory_store;
use tidegate::engine::step::{Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

use crate::trace::{START_MS, Trace, spec};

const GROUP: &str = "watermark = \"monotonic\"\nidle_timeout = \"5s\"\nscope = \"group\"\ngroup = \"{site}\"\non_idle = \"hold\"\nmax_future = \"off\"";

#[test]
fn a_group_waits_for_its_own_slowest_device_only() {
    Trace::new(GROUP, "")
        .reading(0, "x/a", 1_000)
        .reading(1, "x/b", 2_000)
        .reading(2, "y/c", 3_000)
        .reading(3, "y/c", 10_000)
        .reading(4, "x/a", 15_000)
        .reading(5, "x/b", 9_999)
        .reading(6, "x/b", 10_000)
        .gives(&[
            "3: on_time c [0,10000) rev 0 count 1 sum 1 W 9999",
            "6: on_time a [0,10000) rev 0 count 1 sum 1 W 9999",
            "6: on_time b [0,10000) rev 0 count 2 sum 2 W 9999",
        ]);
}

#[test]
fn with_all_idle_a_group_goes_to_its_highest_or_stays() {
    for (all_idle, expected) in
        [("advance", &["5005: on_time b [0,10000) rev 0 count 2 sum 2 W 11999"][..]), ("stay", &[][..])]
    {
        Trace::new(&format!("{GROUP}\nall_idle = \"{all_idle}\""), "")
            .reading(1, "x/b", 1_000)
            .reading(2, "y/c", 1_000)
            .reading(3, "x/a", 12_000)
            .reading(4, "x/b", 1_100)
            .tick(6_000)
            .gives(expected);
    }
}

const LAGGING: &str =
    "watermark = \"monotonic\"\nidle_timeout = \"off\"\nscope = \"stream\"\nmax_lag = \"30s\"\nmax_future = \"off\"";

#[test]
fn a_device_too_far_behind_the_leader_is_left_out_until_it_may_return() {
    for resume in ["hold", "catch_up"] {
        let stream = format!("{LAGGING}\nresume = \"{resume}\"");
        Trace::new(&stream, "")
            .reading(0, "slow", 1_000)
            // 30 s apart: that is allowed, and W is 0.999.
            .reading(1, "fast", 31_000)
            .reading(2, "fast", 31_001)
            // It has caught up, and is waited for again.
            .reading(3, "slow", 31_500)
            .reading(4, "fast", 61_000)
            .reading(5, "slow", 41_000)
            .gives(&[
                "2: on_time slow [0,10000) rev 0 count 1 sum 1 W 31000",
                "5: on_time slow [30000,40000) rev 0 count 1 sum 1 W 40999",
                "5: on_time fast [30000,40000) rev 0 count 2 sum 2 W 40999",
            ]);
    }
}

#[test]
fn within_max_lag_hold_counts_one_that_is_back_and_catch_up_waits_until_it_has_reached_w() {
    for (resume, expected) in [
        ("hold", &["5: on_time fast [100000,110000) rev 0 count 1 sum 1 W 109999"][..]),
        ("catch_up", &["4: on_time fast [100000,110000) rev 0 count 1 sum 1 W 124999"][..]),
    ] {
        let found = Trace::new(&format!("{LAGGING}\nresume = \"{resume}\""), "")
            .reading(0, "slow", 1_000)
            .reading(1, "fast", 100_000)
            .reading(2, "slow", 98_000)
            .reading(4, "fast", 125_000)
            .reading(5, "slow", 110_000)
            .run();
        // The window of before is the slow one's, which has been left out.
        let own = ["1: on_time slow [0,10000) rev 0 count 1 sum 1 W 99999", "2: late slow 98000 by 1999"];
        assert_eq!(found[..2], own, "{resume}: {found:#?}");
        assert_eq!(found[2..3], *expected, "{resume}: {found:#?}");
    }
}

#[test]
fn one_that_has_no_watermark_yet_holds_unless_there_is_a_max_lag() {
    let stream = "watermark = \"punctuated\"\nmarker = \"end\"\nidle_timeout = \"off\"\nscope = \"stream\"\nmax_future = \"off\"";
    let mark = |ts: i64| serde_json::json!({ "ts": START_MS + ts, "v": 1, "end": 1 });
    for (max_lag, expected) in [("off", 0), ("1h", 2)] {
        let found = Trace::new(&format!("{stream}\nmax_lag = \"{max_lag}\""), "")
            .reading(0, "silent", 1_000)
            .reading(1, "a", 1_000)
            .payload(2, "a", &mark(10_000))
            .run();
        assert_eq!(found.len(), expected, "{found:?}");
    }
}

#[test]
fn a_device_that_changes_its_group_leaves_the_old_one_and_takes_its_windows_along() {
    Trace::new(GROUP, "lateness = \"10s\"")
        .reading(0, "x/a", 5_000)
        .reading(1, "x/b", 12_000)
        .reading(2, "y/c", 1_000)
        // a was the slowest of x: without it, x goes on. b's and its own windows are its own.
        .reading(3, "y/a", 5_500)
        .look(4, "a")
        .reading(5, "y/c", 14_000)
        .reading(6, "y/a", 10_000)
        .gives(&[
            "4: a W 5499 active",
            "6: on_time a [0,10000) rev 0 count 2 sum 2 W 9999",
            "6: on_time c [0,10000) rev 0 count 1 sum 1 W 9999",
        ]);
}

#[test]
fn what_the_old_group_had_passed_stays_passed_in_a_slower_one() {
    Trace::new(GROUP, "lateness = \"5s\"")
        .reading(0, "y/c", 1_000)
        .reading(1, "x/a", 5_000)
        .reading(2, "x/a", 13_000)
        // y is at 0.999. For a it was 12.999 already.
        .reading(3, "y/a", 6_000)
        .reading(4, "x/a", 16_000)
        .reading(5, "y/a", 7_000)
        .reading(6, "y/a", 21_000)
        .reading(7, "y/c", 20_000)
        .gives(&[
            "2: on_time a [0,10000) rev 0 count 1 sum 1 W 12999",
            "3: late a [0,10000) rev 1 count 2 sum 2 W 12999",
            "5: late a 7000 by 8999",
            "7: on_time c [0,10000) rev 0 count 1 sum 1 W 19999",
            "7: on_time a [10000,20000) rev 0 count 2 sum 2 W 19999",
        ]);
}

#[test]
fn a_faster_group_fires_what_a_device_brings() {
    Trace::new(GROUP, "")
        .reading(0, "y/c", 30_000)
        .reading(1, "x/a", 5_000)
        .reading(2, "y/a", 29_000)
        .gives(&["2: on_time a [0,10000) rev 0 count 1 sum 1 W 29999", "2: late a 29000 by 999"]);
}

#[test]
fn groups_are_bounded_like_devices_and_a_label_is_needed() {
    let trace = Trace::new(&format!("{GROUP}\ndevices_max = 2"), "")
        .reading(0, "x/a", 1_000)
        .reading(1, "y/a", 1_000)
        .reading(2, "z/a", 1_000)
        .reading(3, "/a", 1_000)
        .reading(4, "x/b", 1_000)
        .reading(5, "x/c", 1_000);
    trace.gives(&[]);
    let mut engine = tidegate::engine::Engine::new(trace.spec.clone());
    for topic in ["d/x/a", "d/y/a", "d/z/a", "d//a", "d/x/b", "d/x/c"] {
        let payload = format!("{{\"ts\":{START_MS},\"v\":1}}");
        engine.handle(now(), Event::Message(message(topic, payload.as_bytes())));
    }
    let stream = &engine.status(now()).streams[0];
    let by = |reason| stream.ledger.rejected_by.get(reason).copied();
    assert_eq!((by("too_many_groups"), by("bad_group"), by("too_many_devices")), (Some(1), Some(1), Some(1)));
    assert_eq!((stream.devices, stream.groups), (2, 2));
}

fn now() -> Now {
    Now { proc: ProcTime::from_millis(1), wall: WallTime::from_millis(START_MS), quality: ClockQuality::Synced }
}

fn message<'m>(topic: &'m str, payload: &'m [u8]) -> Message<'m> {
    Message { topic, payload, retain: false, dup: false, tag: None }
}

/// A watermark never moves back, whatever its scope becomes: a window that has fired
/// and gone does not come a second time.
#[test]
fn no_change_of_scope_opens_a_window_again() {
    let scopes = [
        "scope = \"device\"",
        "scope = \"shared\"",
        "scope = \"stream\"",
        "scope = \"stream\"\nresume = \"hold\"",
        "scope = \"group\"\ngroup = \"{site}\"",
    ];
    for before in scopes {
        for after in scopes {
            let life = |scope: &str, store, readings: &[(&str, i64)]| {
                let stream =
                    format!("watermark = \"monotonic\"\nidle_timeout = \"off\"\nmax_future = \"off\"\n{scope}");
                let mut driver = Driver::start(spec(&stream, ""), store, now()).unwrap();
                let mut rows = Vec::new();
                for (name, ts) in readings {
                    let payload = format!("{{\"ts\":{},\"v\":1}}", START_MS + ts);
                    driver.handle(now(), Event::Message(message(&format!("d/{name}"), payload.as_bytes())));
                }
                driver.engine_mut().take_rows(&mut |_, seq, row| {
                    let row = tidegate::engine::encode::record_json("gw", seq, row);
                    let row: serde_json::Value = serde_json::from_slice(&row).unwrap();
                    if row["kind"] == "pane" {
                        rows.push(row["id"].as_str().unwrap().to_owned());
                    }
                });
                assert!(driver.engine().balances(), "{before} then {after}");
                driver.stop(now(), &mut |_| ());
                (rows, driver.into_store())
            };
            let first =
                [("x/a", 1_000), ("x/b", 2_000), ("y/c", 3_000), ("x/a", 35_000), ("y/c", 12_000), ("x/b", 11_000)];
            let (mut rows, store) = life(before, memory_store(), &first);
            let (more, store) = life(after, store, &[("x/a", 4_000), ("y/c", 4_000), ("x/b", 4_000)]);
            rows.extend(more);
            rows.extend(life(before, store, &[("x/a", 5_000), ("x/b", 90_000), ("y/c", 90_000), ("x/a", 90_000)]).0);
            let all = rows.len();
            rows.sort();
            rows.dedup();
            assert_eq!(rows.len(), all, "{before} then {after}: {rows:#?}");
        }
    }
}
