//! `state_ttl`: what ends with a device that is silent for so long, what is left of it,
//! and what happens when it comes back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::{Value, json};
use tidegate::engine::step::Event;

use world::{Restart, START_MS, World, brief, silent_alike, told_alike};

/// Windows of 10 s with lateness 5 s under a disorder of 2 s: 17 s at least.
const TTL: &str = "idle_timeout = \"off\"\nstate_ttl = \"20s\"";
const WINDOW: &str = "[[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\nlateness = \"5s\"";

fn stream(more: &str) -> String {
    format!("{TTL}\n{more}\n{WINDOW}")
}

fn devices(world: &World) -> (usize, usize, u64, u64) {
    let status = world.status(0);
    (status.devices, status.tombstones, status.ledger.expired, status.ledger.tombstones_evicted)
}

#[test]
fn the_windows_of_a_device_that_is_gone_fire_and_its_watermark_stays() {
    let rows = told_alike(&stream(""), |world| {
        let mut rows = world.reading(0, "a", 3_000, 1.0);
        rows.extend(world.reading(0, "a", 14_000, 1.0));
        assert_eq!(brief(&rows), ["live pane a 0 on_time"]);
        rows.extend(world.tick(20_001));
        assert_eq!(devices(world), (0, 1, 1, 0));
        assert_eq!((world.status(0).open_windows, world.status(0).lag_max_ms), (0, None));
        // [10, 20) is over: its watermark is where that has expired.
        rows.extend(world.reading(20_001, "a", 15_000, 1.0));
        rows.extend(world.reading(20_001, "a", 24_999, 1.0));
        assert_eq!(devices(world), (1, 0, 1, 0));
        rows.extend(world.reading(20_001, "a", 40_000, 1.0));
        rows
    });
    assert_eq!(
        brief(&rows),
        ["live pane a 0 on_time", "live pane a 10000 on_time", "late late a 15000 late", "live pane a 20000 on_time",]
    );
    assert_eq!(rows[1]["watermark_ms"], START_MS + 24_999);
    assert_eq!((&rows[1]["rev"], &rows[1]["partial"]), (&json!(0), &json!(false)));
    assert_eq!(rows[3]["count"], 1);
}

#[test]
fn no_id_is_published_twice_with_revision_0_whenever_a_device_comes_and_goes() {
    for scope in ["device", "stream", "shared"] {
        let rows = told_alike(&stream(&format!("scope = \"{scope}\"")), |world| {
            let mut rows = Vec::new();
            for round in 0..4_u64 {
                let now = round * 20_001;
                let shift = i64::try_from(round).unwrap() * 15_000;
                for ts in [1_000, 7_000, 12_000, 9_000, 26_000, 4_000] {
                    rows.extend(world.reading(now, "a", ts + shift, 1.0));
                    rows.extend(world.reading(now, "b", ts + shift + 3_000, 1.0));
                }
                rows.extend(world.tick(now + 20_001));
                assert_eq!(devices(world).0, 0, "all are gone");
            }
            rows
        });
        let mut seen = std::collections::BTreeSet::new();
        for pane in rows.iter().filter(|row| row["kind"] == "pane") {
            assert!(seen.insert((pane["id"].to_string(), pane["rev"].as_u64())), "{scope}: twice {pane}");
        }
        let on_time = rows.iter().filter(|row| row["pane"] == "on_time");
        assert_eq!(on_time.filter_map(|row| row["count"].as_u64()).sum::<u64>(), 17, "{scope}");
    }
}

#[test]
fn only_silence_that_could_be_heard_ends_a_device() {
    let mut world = World::new(&stream(""), Restart::Never);
    world.reading(0, "a", 3_000, 1.0);
    world.event(5_000, Event::InputLive(false));
    for (at, live) in [(100_000, false), (200_000, true), (214_999, true), (215_000, true)] {
        assert_eq!(world.event(at, Event::InputLive(live)).len(), 0);
    }
    assert_eq!((world.deadline(), devices(&world)), (Some(215_001), (1, 0, 0, 0)));
    assert_eq!(brief(&world.tick(215_001)), ["live pane a 0 on_time"]);
    assert_eq!((world.deadline(), devices(&world)), (None, (0, 1, 1, 0)));
}

#[test]
fn a_freed_place_is_given_to_another_device_and_nothing_of_the_old_one_is_in_it() {
    let more = format!("{}\ndevices_max = 2\ndedup = {{ by = \"time_and_values\" }}", stream("")).replace(WINDOW, "");
    let rows = told_alike(&format!("{more}\n{WINDOW}"), |world| {
        let mut rows = world.reading(0, "a", 30_000, 1.0);
        rows.extend(world.reading(0, "b", 30_000, 1.0));
        rows.extend(world.reading(0, "c", 30_000, 1.0));
        assert_eq!(world.status(0).ledger.rejected, 1, "there is no room for a third");
        rows.extend(world.tick(20_001));
        // Other devices, with old times and the same reading.
        rows.extend(world.reading(20_001, "c", 1_000, 1.0));
        rows.extend(world.reading(20_001, "d", 1_000, 1.0));
        rows.extend(world.reading(20_001, "c", 30_000, 1.0));
        assert_eq!(world.status(0).ledger.rejected, 1);
        assert_eq!(devices(world), (2, 2, 2, 0));
        // What was known of copies is forgotten, and its watermark is not.
        rows.extend(world.tick(40_002));
        rows.extend(world.reading(40_002, "a", 30_000, 1.0));
        assert_eq!(world.status(0).ledger.duplicate, 0);
        rows
    });
    assert_eq!(
        brief(&rows),
        [
            "live pane a 30000 on_time",
            "live pane b 30000 on_time",
            "live pane c 0 on_time",
            "live pane c 30000 on_time",
            "live pane d 0 on_time",
            "late late a 30000 late",
        ]
    );
}

#[test]
fn tombstones_are_bounded_and_the_oldest_ends_its_guarantee() {
    told_alike(&stream("devices_max = 2"), |world| {
        for pair in 0..5_u64 {
            for device in [2 * pair, 2 * pair + 1] {
                world.reading(pair * 20_001, &format!("d{device}"), 30_000, 1.0);
            }
            world.tick((pair + 1) * 20_001);
        }
        assert_eq!(devices(world), (0, 8, 10, 2), "four for each device that there may be");
        // The first has begun anew, the last has not.
        let rows = world.reading(200_000, "d0", 30_000, 1.0);
        assert_eq!(rows.len(), 0);
        let rows = world.reading(200_000, "d9", 30_000, 1.0);
        assert_eq!(brief(&rows), ["late late d9 30000 late"]);
        assert_eq!(devices(world), (2, 7, 10, 2));
        rows
    });
}

#[test]
fn a_device_that_is_gone_is_waited_for_by_nobody() {
    let more =
        stream("scope = \"stream\"\nresume = \"hold\"").replace("idle_timeout = \"off\"\n", "idle_timeout = \"15s\"\n");
    let rows = silent_alike(&more, |world| {
        let mut rows = world.reading(0, "slow", 1_000, 1.0);
        rows.extend(world.reading(10_000, "fast", 50_000, 1.0));
        assert_eq!(rows.len(), 0, "the slow one is waited for");
        rows.extend(world.tick(15_001));
        assert_eq!(brief(&rows), ["live pane slow 0 idle", "live pane slow 0 on_time"]);
        rows.extend(world.reading(16_000, "fast", 55_000, 1.0));
        rows.extend(world.tick(20_001));
        assert_eq!(devices(world), (1, 1, 1, 0));
        // It comes back behind the common watermark, which never moves back.
        rows.extend(world.reading(20_001, "slow", 2_000, 1.0));
        rows.extend(world.reading(20_001, "fast", 70_000, 1.0));
        assert_eq!(world.status(0).lag_max_ms, Some(0));
        rows
    });
    let brief = brief(&rows);
    assert_eq!(brief[2..], ["late late slow 2000 late"], "and `hold` waits for it again");
}

#[test]
fn a_group_ends_with_the_last_of_its_devices() {
    let more = format!(
        "topic = \"d/{{group}}/{{device}}\"\ngroup = \"{{group}}\"\nscope = \"group\"\n{TTL}\n\
         [[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\nkey = \"group\""
    );
    let rows = told_alike(&more, |world| {
        let mut rows = world.reading(0, "x/a", 1_000, 1.0);
        rows.extend(world.reading(0, "x/b", 2_000, 1.0));
        assert_eq!((world.status(0).groups, world.status(0).devices), (1, 2));
        rows.extend(world.tick(20_001));
        assert_eq!((world.status(0).groups, world.status(0).devices, world.status(0).tombstones), (0, 0, 3));
        rows.extend(world.reading(20_001, "x/a", 3_000, 1.0));
        rows.extend(world.reading(20_001, "x/a", 15_000, 1.0));
        rows
    });
    assert_eq!(brief(&rows), ["live pane x 0 idle", "live pane x 0 on_time", "late late a 3000 late"]);
    assert_eq!(rows[1]["count"], 2);
}

#[test]
fn a_group_that_all_have_left_ends_when_nothing_comes_for_it() {
    let more = format!(
        "topic = \"d/{{group}}/{{device}}\"\ngroup = \"{{group}}\"\nscope = \"group\"\n{TTL}\n\
         [[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\nkey = \"group\""
    );
    let rows = silent_alike(&more, |world| {
        let mut rows = world.reading(0, "x/a", 1_000, 1.0);
        rows.extend(world.reading(5_000, "y/a", 6_000, 1.0));
        rows.extend(world.tick(20_000));
        assert_eq!((world.status(0).groups, world.status(0).devices), (2, 1));
        rows.extend(world.reading(20_001, "y/a", 12_000, 1.0));
        assert_eq!((world.status(0).groups, world.status(0).devices, world.status(0).tombstones), (1, 1, 1));
        rows
    });
    assert_eq!(brief(&rows), ["live pane x 0 idle", "live pane x 0 on_time", "live pane y 0 on_time"]);
}

#[test]
fn with_the_last_of_all_devices_ordered_output_lets_everything_go() {
    let more = format!("{TTL}\nscope = \"stream\"\nrecords = \"ordered\"\non_idle = \"hold\"");
    let rows = told_alike(&more, |world| {
        let mut rows = world.reading(0, "a", 3_000, 1.0);
        rows.extend(world.reading(0, "a", 2_000, 1.0));
        assert_eq!(rows.len(), 0);
        rows.extend(world.tick(20_001));
        assert_eq!((world.status(0).records.unwrap().early, world.status(0).records.unwrap().open), (2, 0));
        rows
    });
    assert_eq!(brief(&rows), ["live record a 2000 early", "live record a 3000 early"]);
}

#[test]
fn what_ordered_output_holds_goes_out_in_order() {
    let rows = told_alike(&format!("{TTL}\nrecords = \"ordered\"\non_idle = \"hold\""), |world| {
        let mut rows = world.reading(0, "a", 3_000, 1.0);
        rows.extend(world.reading(0, "a", 2_000, 1.0));
        rows.extend(world.tick(20_001));
        rows.extend(world.reading(20_001, "a", 2_500, 1.0));
        rows.extend(world.reading(20_001, "a", 6_000, 1.0));
        assert_eq!(world.status(0).records.unwrap().on_time, 2);
        rows
    });
    assert_eq!(brief(&rows), ["live record a 2000", "live record a 3000", "late late a 2500 late"]);
}

#[test]
fn another_configuration_moves_no_watermark_of_the_dead_back() {
    for restart in [Restart::FromPages, Restart::FromSnapshot] {
        let mut world = World::new(&stream(""), restart);
        world.reading(0, "a", 14_000, 1.0);
        world.tick(20_001);
        // Windows of before may be open longer now, and ids are the same.
        let longer = stream("").replace("lateness = \"5s\"", "lateness = \"9s\"").replace("20s", "21s");
        world.start_again(20_001, Some(&longer));
        assert_eq!(devices(&world), (0, 1, 1, 0));
        world.start_again(20_001, Some(&longer.replace("21s\"", "21s\"\nscope = \"shared\"")));
        let rows: Vec<Value> = world.reading(20_001, "a", 19_000, 1.0);
        assert_eq!(brief(&rows), ["late late a 19000 late"]);
        let rows = world.reading(20_001, "b", 19_000, 1.0);
        assert_eq!(brief(&rows), [""; 0], "another device is another device");
        // Without a time to live, nobody ends.
        world.start_again(20_001, Some(&longer.replace("21s", "off")));
        world.tick(900_000);
        assert_eq!(devices(&world), (2, 0, 1, 0));
        // With one again, everybody has all of it.
        world.start_again(900_000, Some(&longer));
        assert_eq!(world.deadline(), Some(921_001));
        world.tick(921_001);
        assert_eq!(devices(&world), (0, 2, 3, 0));
    }
}

#[test]
fn a_stream_that_means_something_else_uses_no_id_of_the_dead_again() {
    let scaled = stream("fields = { v = { pointer = \"/v\", scale = 10 } }");
    for restart in [Restart::FromPages, Restart::FromSnapshot] {
        let mut world = World::new(&stream(""), restart);
        world.reading(0, "a", 14_000, 1.0);
        assert_eq!(brief(&world.tick(20_001)), ["live pane a 10000 on_time"]);
        world.start_again(20_001, Some(&scaled));
        assert_eq!(devices(&world), (0, 0, 1, 0), "nobody is known");
        // What it was fenced by comes with a snapshot, too.
        world.start_again(20_001, Some(&scaled));
        let mut rows = world.reading(20_001, "a", 13_000, 1.0);
        assert_eq!(brief(&rows), ["late late a 13000 redefined"]);
        rows = world.reading(20_001, "b", 13_000, 1.0);
        assert_eq!(brief(&rows), [""; 0], "another device is another device");
        rows = world.reading(20_001, "b", 40_000, 1.0);
        assert_eq!(brief(&rows), ["live pane b 10000 on_time"]);
    }
}

#[test]
fn late_records_that_were_gathered_go_out_with_the_device() {
    let more =
        stream("").replace("lateness = \"5s\"", "lateness = \"5s\"\nlate = \"backfill\"\nbackfill_quiet = \"50s\"");
    let rows = told_alike(&more, |world| {
        let mut rows = world.reading(0, "a", 3_000, 1.0);
        rows.extend(world.reading(0, "a", 40_000, 1.0));
        rows.extend(world.reading(0, "a", 4_000, 1.0));
        rows.extend(world.tick(20_001));
        assert_eq!(devices(world), (0, 1, 1, 0));
        // Its place is another's, with nothing in it.
        rows.extend(world.reading(20_001, "b", 3_000, 1.0));
        rows.extend(world.tick(4_000_000));
        rows
    });
    let brief = brief(&rows);
    assert_eq!(brief[..2], ["live pane a 0 on_time", "live pane a 40000 on_time"]);
    assert_eq!(brief[2], "late delta a 0");
    assert_eq!(brief[3..], ["live pane b 0 on_time"]);
    assert_eq!(rows[2]["count"], 1);
}

#[test]
fn another_order_of_windows_is_the_same_configuration_for_the_dead() {
    let short = "[[streams.windows]]\nname = \"1s\"\nsize = \"1s\"";
    for windows in [format!("{short}\n{WINDOW}"), format!("{WINDOW}\n{short}")] {
        let mut world = World::new(&format!("{TTL}\n{WINDOW}\n{short}"), Restart::Never);
        world.reading(0, "a", 14_000, 1.0);
        world.tick(20_001);
        world.start_again(20_001, Some(&format!("{TTL}\n{windows}")));
        // Its windows of 10 s have expired at 24.999.
        assert_eq!(brief(&world.reading(20_001, "a", 26_500, 1.0)), [""; 0], "{windows}");
    }
}

#[test]
fn another_window_does_not_move_the_watermark_of_a_group_back() {
    let group = "topic = \"d/{group}/{device}\"\ngroup = \"{group}\"\nscope = \"group\"\nrecords = \"ordered\"";
    let window = "[[streams.windows]]\nname = \"10s\"\nsize = \"10s\"\nkey = \"group\"";
    let mut world = World::new(&format!("{group}\n{TTL}\n{window}"), Restart::Never);
    world.reading(0, "x/a", 1_000, 1.0);
    world.tick(20_001);
    let more = format!("{group}\n{TTL}\n{window}\n[[streams.windows]]\nname = \"5s\"\nsize = \"5s\"");
    world.start_again(20_001, Some(&more));
    let rows = world.reading(20_001, "x/b", 3_000, 1.0);
    let of_readings: Vec<&Value> = rows.iter().filter(|row| row["window"] == "").collect();
    assert_eq!((of_readings.len(), &rows[0]["reason"]), (1, &json!("late")), "{rows:#?}");
    assert_eq!(rows[0]["lag_ms"], 6_999);
}

#[test]
fn a_device_that_comes_and_ends_between_two_commits_spoils_no_page() {
    let late = "lateness = \"5s\"\nlate = \"backfill\"\nbackfill_quiet = \"50s\"";
    let more = stream("dedup = { by = \"time_and_values\" }").replace("lateness = \"5s\"", late);
    let mut world = World::new(&more, Restart::Never);
    // A window that has fired, another one, and a delta that waits.
    for ts in [1_000, 40_000, 2_000] {
        world.reading(0, "a", ts, 1.0);
    }
    assert_eq!(world.tick(20_001).len(), 2);
    assert_eq!(devices(&world), (0, 1, 1, 0));
    world.restart_from_pages();
    world.start_again(20_001, None);
    assert_eq!(devices(&world), (0, 1, 1, 0));
    assert_eq!(brief(&world.reading(20_001, "a", 39_000, 1.0)), [""; 0], "it is gathered: its window has expired");
}
