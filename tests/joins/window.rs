//! Window joins.

use serde_json::json;
use tidegate::engine::step::Event;
use tidegate::model::time::ProcTime;

use super::world::{START_MS, WINDOWS, World, brief, parse, pipeline, stream};

#[test]
fn one_row_is_made_when_the_watermarks_of_all_sides_have_passed_the_window() {
    let mut world = World::new(pipeline(WINDOWS));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "b/d", 2_000, 10.0);
    world.reading(0, "a/d", 3_000, 2.0);
    assert_eq!(world.reading(1, "a/d", 10_000, 4.0).len(), 0, "b may still have records of the window");
    let rows = world.reading(2, "b/d", 10_000, 20.0);
    assert_eq!(
        rows,
        [json!({
            "lane": "live", "kind": "join", "id": format!("gw/join/j/d/{START_MS}"), "rev": 0, "seq": 2,
            "join": "j", "key": "d", "start_ms": START_MS, "end_ms": START_MS + 10_000,
            "pane": "on_time", "watermark_ms": START_MS + 9_999, "count": 3,
            "values": {"a": {"v": {"count": 2, "sum": 3}}, "b": {"v": {"count": 1, "sum": 10}}},
            "missing": [], "time_source": "device", "time_quality": "synced", "partial": false
        })]
    );
    assert_eq!(world.books()["ledger"]["joined"], 1);
    assert_eq!(world.books()["kept"], 0, "without lateness the state goes with the row");
}

#[test]
fn other_keys_do_not_matter() {
    let mut world = World::new(pipeline(WINDOWS));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "b/e", 1_000, 10.0);
    world.reading(0, "a/d", 10_000, 1.0);
    world.reading(0, "b/e", 50_000, 10.0);
    assert_eq!(world.rows.len(), 0);
    world.reading(0, "b/d", 2_000, 10.0);
    assert_eq!(brief(&world.reading(0, "b/d", 10_000, 10.0)), [json!([0, "on_time", 0, 1, 10, []])]);
}

#[test]
fn a_side_whose_watermark_has_passed_without_a_pane_is_missing() {
    for (mode, expected, count) in
        [("outer", vec![json!([0, "on_time", 0, 1, null, ["b"]])], "missing"), ("inner", vec![], "unmatched")]
    {
        let mut world = World::new(pipeline(&format!("{WINDOWS}\nmode = \"{mode}\"")));
        world.reading(0, "a/d", 1_000, 1.0);
        world.reading(0, "a/d", 10_000, 2.0);
        assert_eq!(world.reading(0, "b/d", 9_999, 3.0).len(), 0);
        // It has passed [00,10) of the key, in which it has one record.
        let mut rows = world.reading(0, "b/d", 30_000, 3.0);
        assert_eq!(brief(&rows), [json!([0, "on_time", 0, 1, 3, []])]);
        // a [10,20): b had nothing there, and has passed it already.
        rows = world.reading(0, "a/d", 20_000, 4.0);
        let expected: Vec<_> = expected
            .into_iter()
            .map(|mut row| {
                (row[0], row[3]) = (json!(10_000), json!(2));
                row
            })
            .collect();
        assert_eq!(brief(&rows), expected, "{mode}");
        assert_eq!(world.books()["ledger"][count], 1, "{mode}");
    }
}

#[test]
fn a_watermark_that_rises_without_a_pane_completes_what_waited_for_it() {
    let mut world = World::new(pipeline(&format!("{WINDOWS}\nmode = \"outer\"")));
    world.reading(0, "b/d", 1_000, 1.0);
    for window in 1..=3_i64 {
        world.reading(0, "a/d", 10_000 * window, 1.0);
    }
    world.reading(0, "a/d", 40_000, 1.0);
    assert_eq!(world.rows.len(), 0);
    let rows = world.reading(0, "b/d", 35_000, 1.0);
    assert_eq!(
        brief(&rows),
        [
            json!([0, "on_time", 0, null, 1, ["a"]]),
            json!([10_000, "on_time", 0, 1, null, ["b"]]),
            json!([20_000, "on_time", 0, 1, null, ["b"]]),
        ]
    );
    assert_eq!(brief(&world.reading(0, "b/d", 40_000, 1.0)), [json!([30_000, "on_time", 0, 1, 1, []])]);
}

fn with_lateness(mode: &str) -> World {
    let plain = "disorder = \"0s\"\nidle_timeout = \"off\"";
    let text = format!(
        "{}{}\n[[joins]]\nname = \"j\"\n{WINDOWS}\nmode = \"{mode}\"\n",
        stream("a", plain, "lateness = \"10s\""),
        stream("b", plain, "lateness = \"30s\"")
    );
    World::new(parse(&text))
}

#[test]
fn a_late_pane_of_a_side_makes_the_next_revision_until_no_side_can_have_one() {
    let mut world = with_lateness("inner");
    for topic in ["a/d", "b/d"] {
        world.reading(0, topic, 1_000, 1.0);
    }
    for topic in ["a/d", "b/d"] {
        world.reading(0, topic, 10_000, 1.0);
    }
    assert_eq!(brief(&world.rows), [json!([0, "on_time", 0, 1, 1, []])]);
    let rows = world.reading(0, "a/d", 2_000, 5.0);
    assert_eq!(brief(&rows), [json!([0, "late", 1, 6, 1, []])]);
    assert_eq!(rows[0]["lane"], "update");
    world.reading(0, "a/d", 25_000, 1.0);
    assert_eq!(world.reading(0, "a/d", 3_000, 1.0).len(), 0, "expired there");
    assert_eq!(brief(&world.reading(0, "b/d", 3_000, 7.0)), [json!([0, "late", 2, 6, 8, []])]);
    world.reading(0, "b/d", 39_998, 1.0);
    assert_eq!(world.books()["ledger"]["joined"], 2, "[10,20) has both sides too");
    assert_eq!(world.books()["ledger"]["revisions"], 2);
    assert_eq!(brief(&world.reading(0, "b/d", 4_000, 1.0)), [json!([0, "late", 3, 6, 9, []])]);
    let kept = world.books()["kept"].as_u64().unwrap();
    world.reading(0, "b/d", 40_000, 1.0);
    assert_eq!(world.books()["kept"].as_u64().unwrap(), kept, "one expired, one new");
}

#[test]
fn an_inner_join_still_matches_when_the_missing_side_comes_late() {
    let mut world = with_lateness("inner");
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "a/d", 10_000, 1.0);
    world.reading(0, "b/d", 10_000, 1.0);
    assert_eq!(world.rows.len(), 0);
    assert_eq!(brief(&world.reading(0, "b/d", 2_000, 3.0)), [json!([0, "late", 0, 1, 3, []])]);
    let books = world.books();
    assert_eq!((&books["ledger"]["joined"], &books["ledger"]["unmatched"]), (&json!(1), &json!(0)));
}

#[test]
fn an_outer_join_is_corrected_when_the_missing_side_comes_late() {
    let mut world = with_lateness("outer");
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "a/d", 10_000, 1.0);
    let rows = world.reading(0, "b/d", 10_000, 1.0);
    assert_eq!(brief(&rows), [json!([0, "on_time", 0, 1, null, ["b"]])]);
    assert_eq!(brief(&world.reading(0, "b/d", 2_000, 3.0)), [json!([0, "late", 1, 1, 3, []])]);
    assert_eq!(world.books()["ledger"]["missing"], 1, "by its first row");
}

#[test]
fn a_side_that_never_comes_is_waited_for_exactly_as_long_as_ttl() {
    for (mode, rows, count) in [("outer", 1, "missing"), ("inner", 0, "expired")] {
        let mut world = World::new(pipeline(&format!("{WINDOWS}\nmode = \"{mode}\"\nttl = \"1m\"")));
        world.reading(0, "a/d", 1_000, 1.0);
        world.reading(5_000, "a/d", 10_000, 1.0);
        assert_eq!(world.driver.engine().next_deadline(), Some(ProcTime::from_millis(65_000)));
        // Time in which nothing could be heard does not count.
        world.event(10_000, Event::InputLive(false));
        assert_eq!(world.driver.engine().next_deadline(), None);
        world.event(100_000, Event::InputLive(true));
        assert_eq!(world.tick(154_999).len(), 0);
        let made = world.tick(155_000);
        assert_eq!(made.len(), rows, "{mode}");
        if let Some(row) = made.first() {
            assert_eq!(brief(&made), [json!([0, "timeout", 0, 1, null, ["b"]])]);
            assert_eq!(row["watermark_ms"], json!(null));
        }
        assert_eq!(world.books()["ledger"][count], 1, "{mode}");
        // It comes after all: the id may have been used, so that the window stays shut.
        world.reading(155_001, "b/d", 1_000, 1.0);
        assert_eq!(world.reading(155_002, "b/d", 10_000, 1.0).len(), 0);
        assert_eq!(world.books()["ledger"]["late"], 1);
        world.reading(155_003, "a/d", 20_000, 1.0);
        let next = world.reading(155_004, "b/d", 20_000, 1.0);
        assert_eq!(brief(&next), [json!([10_000, "on_time", 0, 1, 1, []])]);
    }
}

#[test]
fn an_idle_pane_is_known_but_does_not_complete() {
    let idle = "disorder = \"0s\"\nidle_timeout = \"5s\"";
    let plain = "disorder = \"0s\"\nidle_timeout = \"off\"";
    let text = format!(
        "{}{}\n[[joins]]\nname = \"j\"\n{WINDOWS}\nttl = \"1m\"\n",
        stream("a", plain, ""),
        stream("b", idle, "")
    );
    let mut world = World::new(parse(&text));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "a/d", 10_000, 1.0);
    world.reading(0, "b/d", 2_000, 3.0);
    assert_eq!(world.tick(5_001).len(), 0, "b is idle: what it has is known, not final");
    assert_eq!(brief(&world.tick(60_000)), [json!([0, "timeout", 0, 1, 3, []])], "both are there when the time is up");
    assert_eq!(world.books()["ledger"]["joined"], 1);
}

#[test]
fn with_one_watermark_for_a_stream_an_unknown_device_is_not_waited_for() {
    let plain = "disorder = \"0s\"\nidle_timeout = \"off\"";
    let shared = "disorder = \"0s\"\nidle_timeout = \"off\"\nscope = \"shared\"";
    let text = format!(
        "{}{}\n[[joins]]\nname = \"j\"\n{WINDOWS}\nmode = \"outer\"\n",
        stream("a", plain, ""),
        stream("b", shared, "")
    );
    let mut world = World::new(parse(&text));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "a/d", 10_000, 1.0);
    world.reading(0, "a/e", 1_000, 2.0);
    world.reading(0, "a/e", 10_000, 2.0);
    world.reading(0, "b/other", 9_000, 1.0);
    let rows = world.reading(0, "b/other", 10_000, 1.0);
    assert_eq!(brief(&rows), [json!([0, "on_time", 0, 1, null, ["b"]]), json!([0, "on_time", 0, 2, null, ["b"]])]);
}

#[test]
fn without_an_uplink_rows_are_backlog_and_the_end_of_the_input_decides_everything() {
    let mut world = World::new(pipeline(&format!("{WINDOWS}\nmode = \"outer\"")));
    world.event(0, Event::UplinkDown);
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "b/d", 2_000, 2.0);
    world.reading(0, "b/e", 2_000, 4.0);
    let rows = world.finish();
    assert_eq!(brief(&rows), [json!([0, "on_time", 0, 1, 2, []]), json!([0, "on_time", 0, null, 4, ["a"]])]);
    assert_eq!(rows[0]["lane"], "backlog");
}

#[test]
fn what_waits_is_bounded_and_the_oldest_makes_room() {
    for (mode, count) in [("outer", "missing"), ("inner", "evicted")] {
        let mut world = World::new(pipeline(&format!("{WINDOWS}\nmode = \"{mode}\"\nttl = \"1d\"")));
        // Every window of a waits for a device that b does not have.
        for window in 0..40_000_i64 {
            let topic = "a/d";
            let payload = json!({ "ts": START_MS + 10_000 * window, "v": 1 }).to_string();
            let message = tidegate::engine::step::Message {
                topic,
                payload: payload.as_bytes(),
                retain: false,
                dup: false,
                tag: None,
            };
            let now = world.now();
            world.driver.engine_mut().handle(now, Event::Message(message));
        }
        let books = world.books();
        let (kept, gone) = (books["kept"].as_u64().unwrap(), books["ledger"][count].as_u64().unwrap());
        assert_eq!(kept + gone, 39_999, "{mode}");
        assert!(gone > 0 && kept > 20_000, "{mode}: {kept} kept, {gone} gone");
        assert!(world.driver.engine().balances());
    }
}

/// Two streams whose devices are in groups: the topic's first level behind the stream's name.
fn grouped(scope: &str, key: &str, join: &str) -> World {
    let one = |name: &str| {
        let lines = format!("group = \"{{room}}\"\ndisorder = \"0s\"\nidle_timeout = \"off\"\nscope = \"{scope}\"");
        stream(name, &lines, &format!("key = \"{key}\"")).replace("/{device}", "/{room}/{device}")
    };
    World::new(parse(&format!("{}{}\n[[joins]]\nname = \"j\"\n{join}\n", one("a"), one("b"))))
}

#[test]
fn windows_of_a_group_are_joined_under_the_watermark_of_the_group() {
    let mut world = grouped("group", "group", WINDOWS);
    world.reading(0, "a/hall/x", 1_000, 1.0);
    world.reading(0, "a/hall/y", 2_000, 2.0);
    world.reading(0, "b/hall/z", 3_000, 4.0);
    world.reading(0, "b/hall/z", 10_000, 4.0);
    world.reading(0, "a/hall/x", 10_000, 8.0);
    assert_eq!(world.rows.len(), 0, "y is still in the window");
    let rows = world.reading(0, "a/hall/y", 10_000, 8.0);
    assert_eq!(brief(&rows), [json!([0, "on_time", 0, 3, 4, []])]);
    assert_eq!(rows[0]["key"], "hall");
}

#[test]
fn a_device_is_under_the_watermark_of_the_group_that_it_is_in() {
    let mut world = grouped("group", "device", &format!("{WINDOWS}\nmode = \"outer\""));
    world.reading(0, "a/hall/x", 1_000, 1.0);
    world.reading(0, "a/hall/x", 10_000, 1.0);
    world.reading(0, "b/attic/y", 50_000, 1.0);
    assert_eq!(world.rows.len(), 0, "b does not know x yet");
    // It comes in a group whose watermark has passed that window of x long ago.
    let rows = world.reading(0, "b/attic/x", 60_000, 1.0);
    assert_eq!(brief(&rows), [json!([0, "on_time", 0, 1, null, ["b"]])]);
}

#[test]
fn windows_of_whole_streams_are_joined() {
    let mut world = grouped("stream", "stream", WINDOWS);
    world.reading(0, "a/hall/x", 1_000, 1.0);
    world.reading(0, "b/attic/y", 1_000, 2.0);
    world.reading(0, "a/hall/x", 10_000, 1.0);
    let rows = world.reading(0, "b/attic/y", 10_000, 2.0);
    assert_eq!(brief(&rows), [json!([0, "on_time", 0, 1, 2, []])]);
    assert_eq!(rows[0]["key"], "*");
}

#[test]
fn a_watermark_that_follows_the_clock_completes_a_row_at_its_time() {
    let plain = "disorder = \"0s\"\nidle_timeout = \"off\"";
    let clock = "watermark = \"processing\"\ndelay = \"1s\"\nidle_timeout = \"off\"";
    let text = format!(
        "{}{}\n[[joins]]\nname = \"j\"\n{WINDOWS}\nmode = \"outer\"\n",
        stream("a", plain, ""),
        stream("b", clock, "")
    );
    let mut world = World::new(parse(&text));
    world.reading(2_000, "a/d", 1_000, 1.0);
    world.reading(2_000, "a/d", 10_000, 1.0);
    assert_eq!(world.driver.engine().next_deadline(), Some(ProcTime::from_millis(11_000)));
    assert_eq!(world.tick(10_999).len(), 0);
    assert_eq!(brief(&world.tick(11_000)), [json!([0, "on_time", 0, 1, null, ["b"]])]);
}

#[test]
fn a_side_that_is_gone_has_got_as_far_as_its_windows() {
    let plain = "disorder = \"0s\"\nidle_timeout = \"off\"";
    let mortal = format!("{plain}\nstate_ttl = \"30s\"");
    let text = |join: &str| {
        format!("{}{}\n[[joins]]\nname = \"j\"\n{join}\n", stream("a", plain, ""), stream("b", &mortal, ""))
    };
    for restarts in [false, true] {
        let spec = parse(&text(&format!("{WINDOWS}\nmode = \"outer\"\nttl = \"1h\"")));
        let mut world = if restarts { World::restarting(spec) } else { World::new(spec) };
        world.reading(0, "b/d", 1_000, 10.0);
        world.reading(0, "a/d", 2_000, 1.0);
        world.reading(0, "a/d", 10_000, 2.0);
        assert_eq!(world.rows.len(), 0, "b may go on");
        // The silence of b fires its window, and with it the row.
        assert_eq!(brief(&world.tick(30_001)), [json!([0, "on_time", 0, 1, 10, []])], "restarts: {restarts}");
        // What is left of it is known to have passed the window.
        world.reading(30_002, "a/d", 20_000, 3.0);
        assert_eq!(world.rows.len(), 1, "of the window after that nothing is known");
    }
}

#[test]
fn looks_at_a_window_that_is_open_do_not_use_up_the_time_of_the_others() {
    let shown = "disorder = \"0s\"\nidle_timeout = \"off\"";
    let early = "early = \"1s\"";
    let text = format!(
        "{}{}\n[[joins]]\nname = \"j\"\n{WINDOWS}\nmode = \"outer\"\nttl = \"2s\"\n",
        stream("a", shown, early),
        stream("b", shown, early)
    );
    for restarts in [false, true] {
        let mut world = if restarts { World::restarting(parse(&text)) } else { World::new(parse(&text)) };
        for second in 0..10_u16 {
            let (at, ts) = (u64::from(second) * 1_000, i64::from(second) * 1_000);
            world.reading(at, "a/d", ts, 1.0);
            world.reading(at + 1, "b/d", ts, 10.0);
        }
        assert_eq!(world.rows.len(), 0, "the window is open, however long it is beside the ttl");
        world.reading(10_000, "a/d", 10_000, 1.0);
        let rows = world.reading(11_000, "b/d", 10_000, 10.0);
        assert_eq!(brief(&rows), [json!([0, "on_time", 0, 10, 100, []])], "restarts: {restarts}");
        // And when one side has closed its window, the other is waited for as long as ttl says.
        world.reading(20_000, "a/d", 20_000, 1.0);
        world.tick(21_999);
        assert_eq!(world.rows.len(), 1);
        assert_eq!(brief(&world.tick(22_000))[0][1], "timeout");
    }
}
