//! The engine's promises, one test each: event time, idleness, the future guard,
//! bounds, lanes. What Flink defines is in tests/conformance.rs.
//!
//! A world is a configuration and a clock that the test moves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::Engine;
use tidegate::engine::encode::record_json;
use tidegate::engine::step::{DeliveryTag, Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

/// The wall clock at the start; event times in tests count from here.
const START_MS: i64 = 1_773_480_000_000;

struct World {
    engine: Engine,
    quality: ClockQuality,
    /// Look at the books after every input; costs as much as there are open windows.
    audit: bool,
}

impl World {
    /// Windows of 10 s, disorder 2 s, idle after 5 s; `more` goes into the stream.
    fn new(more: &str) -> World {
        World::with_window(more, "lateness = \"10s\"")
    }

    fn with_window(stream: &str, window: &str) -> World {
        let window = if window.contains("gap") { window.to_owned() } else { format!("size = \"10s\"\n{window}") };
        let fields = if stream.contains("fields =") { "" } else { "fields = { v = \"/v\" }" };
        let text = format!(
            r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
topic = "d/{{device}}"
{fields}
time = {{ field = "/ts", unit = "ms" }}
disorder = "2s"
idle_timeout = "5s"
{stream}
[[streams.windows]]
name = "10s"
{window}
"#
        );
        let checked = check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}"));
        let mut world = World { engine: Engine::new(checked.config), quality: ClockQuality::Synced, audit: true };
        world.event(0, Event::UplinkUp);
        world.event(0, Event::InputLive(true));
        world
    }

    fn now(&self, at: u64) -> Now {
        let wall = WallTime::from_millis(START_MS + i64::try_from(at).unwrap());
        Now { proc: ProcTime::from_millis(at), wall, quality: self.quality }
    }

    fn event(&mut self, at: u64, event: Event<'_>) -> Vec<Value> {
        let now = self.now(at);
        self.engine.handle(now, event);
        let mut rows = Vec::new();
        self.engine.take_rows(&mut |lane, seq, row| {
            let mut value: Value = serde_json::from_slice(&record_json("gw", seq, row)).unwrap();
            value["lane"] = lane.as_str().into();
            rows.push(value);
        });
        assert!(!self.audit || self.engine.balances(), "the ledger balances after every input");
        rows
    }

    fn tick(&mut self, at: u64) -> Vec<Value> {
        self.event(at, Event::Tick)
    }

    /// A reading of `device` with event time `ts` after the start.
    fn reading(&mut self, at: u64, device: &str, ts: i64, v: f64) -> Vec<Value> {
        self.payload(at, device, &json!({ "ts": START_MS + ts, "v": v }).to_string())
    }

    fn payload(&mut self, at: u64, device: &str, payload: &str) -> Vec<Value> {
        self.message(at, device, payload, false)
    }

    fn message(&mut self, at: u64, device: &str, payload: &str, retain: bool) -> Vec<Value> {
        let topic = format!("d/{device}");
        let message = Message { topic: &topic, payload: payload.as_bytes(), retain, dup: false, tag: None };
        self.event(at, Event::Message(message))
    }

    fn ledger(&self) -> Value {
        serde_json::to_value(&self.engine.status(self.now(0)).streams[0].ledger).unwrap()
    }
}

#[test]
fn a_silent_device_is_shown_one_millisecond_after_its_timeout_and_only_once() {
    let mut world = World::new("");
    assert_eq!(world.reading(1_000, "a", 1_000, 1.5).len(), 0);
    assert_eq!(world.engine.next_deadline(), Some(ProcTime::from_millis(6_001)));
    assert_eq!(world.tick(6_000).len(), 0);
    let shown = world.tick(6_001);
    assert_eq!(shown.len(), 1);
    assert_eq!((&shown[0]["pane"], &shown[0]["rev"], &shown[0]["count"]), (&json!("idle"), &json!(0), &json!(1)));
    assert_eq!(shown[0]["watermark_ms"], json!(START_MS - 1_001), "the watermark stays");
    assert_eq!(world.tick(60_000).len(), 0, "nothing new, nothing said");
}

#[test]
fn an_idle_pane_leaves_the_window_open_for_the_backlog_of_the_device() {
    let mut world = World::new("");
    world.reading(1_000, "a", 1_000, 1.0);
    assert_eq!(world.tick(6_001).len(), 1);
    assert_eq!(world.reading(60_000, "a", 2_000, 2.0).len(), 0, "still on time");
    let fired = world.reading(60_001, "a", 12_000, 3.0);
    assert_eq!((&fired[0]["pane"], &fired[0]["rev"], &fired[0]["count"]), (&json!("on_time"), &json!(1), &json!(2)));
}

#[test]
fn a_device_that_was_idle_when_its_next_message_came_was_shown_before_it() {
    let mut world = World::new("");
    world.reading(0, "a", 1_000, 1.0);
    let shown = world.reading(9_000, "a", 2_000, 2.0);
    assert_eq!((&shown[0]["pane"], &shown[0]["count"]), (&json!("idle"), &json!(1)));
}

#[test]
fn silence_that_we_could_not_hear_makes_nobody_idle() {
    // F13: a source that is held back is not silent.
    let mut world = World::new("");
    world.reading(0, "a", 1_000, 1.0);
    world.event(2_000, Event::InputLive(false));
    assert_eq!(world.engine.next_deadline(), None);
    assert_eq!(world.tick(100_000).len(), 0);
    world.event(100_000, Event::InputLive(true));
    assert_eq!(world.tick(103_000).len(), 0);
    assert_eq!(world.tick(103_001).len(), 1, "exactly what was left of the timeout");
}

#[test]
fn on_idle_hold_says_nothing_until_the_watermark_does() {
    let mut world = World::new("on_idle = \"hold\"");
    world.reading(0, "a", 1_000, 1.0);
    assert_eq!(world.tick(100_000).len(), 0);
}

#[test]
fn one_device_with_a_fast_clock_makes_nobody_else_late() {
    // F10: one row a day ahead made ten of ten honest rows late.
    let mut world = World::new("max_future = \"off\"");
    world.reading(0, "wild", 86_400_000, 1.0);
    for number in 0..10 {
        assert_eq!(world.reading(number, "honest", 1_000, 1.0).len(), 0);
    }
    let fired = world.reading(20, "honest", 12_000, 1.0);
    assert_eq!((&fired[0]["key"], &fired[0]["count"]), (&json!("honest"), &json!(10)));
}

#[test]
fn a_reading_from_the_future_is_quarantined_and_moves_no_watermark() {
    // F01: after future-dated messages all correct ones were dropped.
    let mut world = World::new("max_future = \"5m\"");
    let out = world.reading(0, "a", 300_001, 1.0);
    assert_eq!((&out[0]["lane"], &out[0]["reason"]), (&json!("late"), &json!("future")));
    assert_eq!(out[0]["lag_ms"], json!(300_001));
    assert_eq!(world.reading(0, "a", 300_000, 1.0).len(), 0, "the bound itself is allowed");
    assert_eq!(world.ledger()["future"], 1);

    let mut unsynced = World::new("max_future = \"5m\"");
    unsynced.quality = ClockQuality::Unsynced;
    assert_eq!(unsynced.reading(0, "a", 999_999, 1.0).len(), 0, "no guard by a clock that is not trusted");
}

#[test]
fn a_late_reading_revises_its_result_and_a_later_one_is_sent_on_raw() {
    // F04, F05, F11: an update, or raw with reason and lag; always in exactly one place.
    let mut world = World::new("");
    world.reading(0, "a", 5_000, 1.0);
    assert_eq!(world.reading(0, "a", 12_000, 1.0)[0]["rev"], 0);
    let update = &world.reading(0, "a", 6_000, 2.0)[0];
    assert_eq!(
        (&update["lane"], &update["pane"], &update["rev"], &update["count"]),
        (&json!("update"), &json!("late"), &json!(1), &json!(2))
    );
    assert_eq!(world.reading(0, "a", 22_000, 1.0).len(), 1);
    let raw = &world.reading(0, "a", 7_000, 9.0)[0];
    assert_eq!((&raw["lane"], &raw["kind"], &raw["reason"]), (&json!("late"), &json!("late"), &json!("late")));
    assert_eq!((&raw["lag_ms"], &raw["values"]), (&json!(12_999), &json!({ "v": 9 })));
}

#[test]
fn late_drop_counts_what_it_drops() {
    let mut world = World::with_window("", "lateness = \"0s\"\nlate = \"drop\"");
    world.reading(0, "a", 5_000, 1.0);
    world.reading(0, "a", 12_000, 1.0);
    assert_eq!(world.reading(0, "a", 6_000, 1.0).len(), 0);
    assert_eq!(world.engine.status(world.now(0)).streams[0].windows[0].dropped, 1);
}

#[test]
fn a_retained_message_is_state_and_counts_only_with_a_newer_time() {
    // F126: a restart read hours-old retained values as if they were now.
    let mut receive = World::new("");
    receive.message(0, "a", &json!({ "ts": START_MS + 5_000, "v": 1 }).to_string(), true);
    receive.message(0, "a", &json!({ "ts": START_MS + 5_000, "v": 1 }).to_string(), true);
    assert_eq!((&receive.ledger()["accepted"], &receive.ledger()["ignored"]), (&json!(1), &json!(1)));
}

#[test]
fn a_stranger_cannot_exhaust_memory_through_a_wildcard() {
    let mut world = World::new("devices_max = 2");
    for device in ["a", "b", "c", "a"] {
        world.reading(0, device, 1_000, 1.0);
    }
    assert_eq!(world.ledger()["rejected_by"], json!({ "too_many_devices": 1 }));
    assert_eq!(world.ledger()["accepted"], 3);
}

#[test]
fn a_device_whose_clock_runs_wild_meets_the_bound_on_open_windows() {
    let mut world = World::with_window("", "lateness = \"300d\"");
    let mut raw = Vec::new();
    for number in 0..1_030 {
        raw.extend(world.reading(0, "wild", -number * 10_000, 1.0).into_iter().filter(|row| row["kind"] == "late"));
    }
    assert_eq!(raw.len(), 6, "1,024 open windows");
    assert_eq!(raw[0]["reason"], "too_many_windows");
}

#[test]
fn what_cannot_be_used_is_counted_with_its_reason_and_spoils_nothing() {
    // F23, F24, F30: never now() in silence, never 1970, one bad message is one bad message.
    let mut world = World::new("");
    for payload in [
        "",
        "???",
        "[]",
        "7",
        "{\"v\":1}",
        "{\"ts\":1773480000,\"v\":1}",
        "{\"ts\":1773480000000}",
        "{\"ts\":1773480000000,\"v\":\"x\"}",
    ] {
        assert_eq!(world.payload(0, "a", payload).len(), 0);
    }
    world.reading(0, "a", 1_000, 1.0);
    let ledger = world.ledger();
    assert_eq!((&ledger["received"], &ledger["accepted"], &ledger["rejected"]), (&json!(9), &json!(1), &json!(8)));
    let reasons = json!({ "empty": 1, "not_json": 1, "no_values": 2, "wrong_shape": 1, "missing_time": 1, "before_min_time": 1, "wrong_type": 1 });
    assert_eq!(ledger["rejected_by"], reasons);
}

#[test]
fn fields_are_left_out_of_accepted_records_only() {
    let mut world = World::new("max_future = \"5m\"\nfields = { v = \"/v\", w = \"/w\" }");
    let record = |ts: i64| format!("{{\"ts\":{},\"v\":1,\"w\":\"none\"}}", START_MS + ts);
    world.payload(0, "a", &record(1_000));
    world.payload(0, "a", &record(300_001));
    let ledger = world.ledger();
    assert_eq!((&ledger["accepted"], &ledger["future"], &ledger["fields_left_out"]), (&json!(1), &json!(1), &json!(1)));
}

#[test]
fn panes_made_while_the_uplink_is_down_are_backlog() {
    let mut world = World::new("");
    world.event(0, Event::UplinkDown);
    world.reading(0, "a", 5_000, 1.0);
    assert_eq!(world.reading(0, "a", 12_000, 1.0)[0]["lane"], "backlog");
    world.event(0, Event::UplinkUp);
    assert_eq!(world.reading(0, "a", 22_000, 1.0)[0]["lane"], "live");
}

#[test]
fn a_message_marked_dup_is_taken_once_in_a_resumed_session_and_twice_in_a_new_one() {
    let payload = json!({ "ts": START_MS, "v": 1 }).to_string();
    let message = |dup| {
        let tag = Some(DeliveryTag { connection: 1, packet: 7 });
        Event::Message(Message { topic: "d/a", payload: payload.as_bytes(), retain: false, dup, tag })
    };
    let mut world = World::new("");
    world.event(0, Event::SessionStarted { resumed: true });
    world.event(0, message(false));
    world.event(0, message(true));
    assert_eq!((&world.ledger()["received"], &world.ledger()["redelivered"]), (&json!(1), &json!(1)));
    world.event(0, message(false));
    assert_eq!(world.ledger()["received"], 2, "alike, but not marked: another message");
    world.event(0, Event::SessionStarted { resumed: false });
    world.event(0, message(true));
    assert_eq!(world.ledger()["received"], 3, "the broker forgot: its ids mean something else");
}

#[test]
fn a_sum_beyond_a_float_is_null_and_does_not_poison_what_follows() {
    let mut world = World::new("");
    world.reading(0, "a", 1_000, 1e308);
    world.reading(0, "a", 2_000, 1e308);
    let fired = &world.reading(0, "a", 12_000, 2.0)[0];
    assert_eq!((&fired["values"]["v"]["sum"], &fired["values"]["v"]["mean"]), (&Value::Null, &Value::Null));
    assert_eq!(fired["values"]["v"]["max"], 1e308);
    assert_eq!(world.reading(0, "a", 22_000, 2.0)[0]["values"]["v"]["sum"], 2);
}

#[test]
fn open_windows_of_all_devices_together_are_bounded() {
    // Ten windows a reading.
    let mut world = World::with_window("devices_max = 100000", "slide = \"1s\"");
    world.audit = false;
    let (mut open, mut raw) = (0, 0);
    while raw == 0 {
        let rows = world.reading(0, &format!("device-{open}"), 1_000, 1.0);
        raw += rows.iter().filter(|row| row["reason"] == "too_many_windows").count();
        open += 1;
        assert!(open < 30_000, "no bound");
    }
    assert!(open > 10_000, "room for {open} only");
    assert_eq!(world.reading(0, "device-0", 1_001, 1.0).len(), 0, "windows that are open go on");
    assert!(world.engine.balances());
}

#[test]
fn a_record_is_in_every_sliding_window_that_covers_it_and_counts_once() {
    let mut world = World::with_window("", "slide = \"5s\"");
    world.reading(0, "a", 7_000, 1.0);
    let fired = world.reading(0, "a", 17_000, 2.0);
    let starts: Vec<_> = fired.iter().map(|row| row["start_ms"].as_i64().unwrap() - START_MS).collect();
    assert_eq!(starts, [0, 5_000]);
    let books = &world.engine.status(world.now(0)).streams[0].windows[0];
    assert_eq!((books.accepted, books.on_time, books.open), (2, 1, 1));
}

#[test]
fn a_session_that_grows_keeps_its_id_and_one_that_bridges_two_names_what_it_replaces() {
    let mut world = World::with_window("", "gap = \"3s\"\nlateness = \"60s\"");
    world.reading(0, "a", 1_000, 1.0);
    world.reading(0, "a", 5_900, 2.0);
    let fired = world.reading(0, "a", 20_000, 3.0);
    let ids: Vec<_> = fired.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((ids.len(), &fired[1]["rev"]), (2, &json!(0)));
    let bridge = &world.reading(0, "a", 3_500, 4.0)[0];
    assert_eq!((&bridge["id"], &bridge["rev"], &bridge["count"]), (&json!(ids[0]), &json!(1), &json!(3)));
    assert_eq!((&bridge["replaces"], &bridge["pane"]), (&json!([ids[1]]), &json!("late")));
    assert_eq!(bridge["end_ms"], json!(START_MS + 8_900));
}

#[test]
fn under_scope_stream_the_slowest_device_that_is_not_idle_decides() {
    let mut world = World::new("scope = \"stream\"\nresume = \"hold\"");
    world.reading(0, "slow", 1_000, 1.0);
    assert_eq!(world.reading(4_000, "fast", 15_000, 1.0).len(), 0, "the slow one holds");
    let shown = world.tick(5_001);
    let of =
        |name: &str| shown.iter().filter(|row| row["key"] == name).map(|row| row["pane"].clone()).collect::<Vec<_>>();
    assert_eq!(of("slow"), ["idle", "on_time"], "silent, so nobody waits, and the watermark passes its window");
}
