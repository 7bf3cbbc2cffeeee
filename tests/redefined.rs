//! A configuration that changes, between two lives of the agent or while it runs: whatever it
//! was and is, the receiver ends with every record, and no id is used twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::engine::chain::Chain;
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::{MemoryStore, memory_store};
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Effect, Event, Message};
use tidegate::engine::store::Store;
use tidegate::fleet::receiver::Receiver;
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

const START_MS: i64 = 1_773_480_000_000;

fn pipeline(window: &str) -> PipelineSpec {
    parsed(&text_of(window))
}

fn parsed(text: &str) -> PipelineSpec {
    check_for_replay(text, "test.toml").unwrap_or_else(|refused| panic!("{refused}")).config
}

fn text_of(window: &str) -> String {
    format!(
        r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
topic = "d/{{device}}"
fields = {{ v = "/v" }}
time = {{ field = "/ts", unit = "ms" }}
disorder = "0s"
idle_timeout = "off"
max_future = "off"
[[streams.windows]]
{window}
"#
    )
}

fn now() -> Now {
    Now { proc: ProcTime::from_millis(1), wall: WallTime::from_millis(START_MS), quality: ClockQuality::Synced }
}

/// The agent, and who receives what it sends.
struct Agent<S: Store + Chain> {
    driver: Option<Driver<S>>,
    receiver: Receiver,
}

/// How a configuration takes effect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Restart,
    Running,
    /// The snapshot that follows is not durable before a crash.
    Crash,
}

impl Agent<MemoryStore> {
    fn start(window: &str) -> Agent<MemoryStore> {
        let driver = Driver::start(pipeline(window), memory_store(), now()).unwrap();
        Agent { driver: Some(driver), receiver: Receiver::new() }
    }

    fn driver(&mut self) -> &mut Driver<MemoryStore> {
        self.driver.as_mut().unwrap()
    }

    /// Takes readings at these times in, and delivers everything.
    fn take(&mut self, times: &[i64]) {
        self.take_in(times.iter().map(|ts| ("d/a".to_owned(), *ts)));
    }

    /// The same with one reading of each of so many devices.
    fn take_of(&mut self, devices: usize, ts: i64) {
        self.take_in((0..devices).map(|device| (format!("d/{device}"), ts)));
    }

    fn take_in(&mut self, readings: impl Iterator<Item = (String, i64)>) {
        self.driver().handle(now(), Event::UplinkUp);
        for (topic, ts) in readings {
            let payload = format!("{{\"ts\":{},\"v\":1}}", START_MS + ts);
            let payload = payload.as_bytes();
            let message = Message { topic: &topic, payload, retain: false, dup: false, tag: None };
            self.driver().handle(now(), Event::Message(message));
        }
        let mut effects = Vec::new();
        self.driver().stop(now(), &mut |effect| effects.push(effect));
        self.deliver(effects);
        self.driver().stop(now(), &mut |_| {});
        assert!(self.driver().status(now()).balanced);
    }

    fn deliver(&mut self, mut effects: Vec<Effect>) {
        loop {
            self.driver().advance(now(), &mut |effect| effects.push(effect));
            if effects.is_empty() {
                return;
            }
            for effect in effects.drain(..) {
                if let Effect::Publish(batch) = effect {
                    self.receiver.handle_message(&batch.payload).unwrap();
                    self.driver.as_mut().unwrap().handle(now(), Event::UplinkAcked(batch.id));
                }
            }
        }
    }

    fn change(&mut self, window: &str, how: How) {
        self.change_to(pipeline(window), how);
    }

    fn change_to(&mut self, to: PipelineSpec, how: How) {
        if how != How::Restart {
            let mut effects = Vec::new();
            self.driver().reconfigure(now(), &to, &mut |effect| effects.push(effect)).unwrap();
            assert!(self.driver().status(now()).balanced);
            if how == How::Running {
                return self.deliver(effects);
            }
        }
        let store = self.driver.take().unwrap().into_store();
        self.driver = Some(Driver::start(to, store, now()).unwrap());
    }
}

/// The agent takes readings in under one definition, and then under others.
fn lives(first: (&str, &[i64]), then: &[(&str, &[i64])], how: How) -> Receiver {
    let mut agent = Agent::start(first.0);
    agent.take(first.1);
    for (window, times) in then {
        agent.change(window, how);
        agent.take(times);
    }
    agent.receiver
}

const WAYS: [How; 3] = [How::Restart, How::Running, How::Crash];

/// Records at the end, in panes and raw, with the panes themselves.
fn end_state(receiver: &Receiver) -> (u64, Vec<Value>) {
    assert_eq!(receiver.counts().conflicts, 0, "one identity, two contents");
    let records: Vec<Value> = receiver.end_state().map(|record| serde_json::to_value(record).unwrap()).collect();
    let (panes, others): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record["kind"] == "pane");
    let late = others.iter().filter(|record| record["kind"] == "late").count();
    (panes.iter().map(|pane| pane["count"].as_u64().unwrap()).sum::<u64>() + late as u64, panes)
}

const BEFORE: &str = "name = \"w\"\nsize = \"10s\"\nlateness = \"5s\"\naggregates = [\"count\", \"sum\"]";

#[test]
fn no_change_of_a_window_loses_a_record_or_uses_an_id_twice() {
    let changes = [
        BEFORE,
        "name = \"w\"\nsize = \"10s\"\nlateness = \"5s\"\naggregates = [\"sum\", \"max\", \"count\"]",
        "name = \"w\"\nsize = \"20s\"\nlateness = \"5s\"\naggregates = [\"count\", \"sum\"]",
        "name = \"w\"\nsize = \"5s\"\nlateness = \"1h\"\naggregates = [\"count\", \"sum\"]",
        "name = \"w\"\nsize = \"10s\"\nlateness = \"1h\"\naggregates = [\"count\", \"sum\"]",
        "name = \"w\"\nsize = \"10s\"\nlateness = \"0s\"\naggregates = [\"count\", \"sum\"]",
        "name = \"w\"\nsize = \"10s\"\noffset = \"5s\"\nlateness = \"5s\"\naggregates = [\"count\", \"sum\"]",
        "name = \"w\"\ngap = \"7s\"\nlateness = \"5s\"\naggregates = [\"count\", \"sum\"]",
        "name = \"w\"\ncalendar = \"hour\"\nlateness = \"5s\"\naggregates = [\"count\", \"sum\"]",
    ];
    // An expired window, one that has fired and one that is open; then records
    // for each of them and for later ones.
    let (first, second) = ([1_000, 12_000, 22_000, 31_000, 32_000], [2_000, 13_000, 23_000, 33_000, 36_000, 47_000]);
    for after in changes {
        for (back, how) in [false, true].into_iter().flat_map(|back| WAYS.map(|how| (back, how))) {
            let last = if back { BEFORE } else { after };
            let third = [3_000, 14_000, 34_000, 48_000, 58_000, 1_000_000];
            let receiver = lives((BEFORE, &first), &[(after, &second), (last, &third)], how);
            let (records, panes) = end_state(&receiver);
            // The last one only moves the watermark.
            assert_eq!(records, 16, "{after}, back: {back}, {how:?}: {panes:#?}");
        }
    }
}

#[test]
fn an_open_window_finishes_under_its_own_aggregates_and_the_next_has_the_new_ones() {
    let after = "name = \"w\"\nsize = \"10s\"\naggregates = [\"sum\", \"max\"]";
    for how in WAYS {
        let receiver = lives((BEFORE, &[1_000, 2_000]), &[(after, &[3_000, 11_000, 40_000])], how);
        let (_, panes) = end_state(&receiver);
        let shown = |pane: &Value| (pane["count"].clone(), pane["partial"].clone(), pane["values"]["v"].clone());
        let panes: Vec<_> = panes.iter().map(shown).collect();
        let first = serde_json::json!({ "count": 3, "sum": 3 });
        let second = serde_json::json!({ "sum": 1, "max": 1 });
        assert_eq!(panes, [(3.into(), false.into(), first), (1.into(), false.into(), second)], "{how:?}");
    }
}

/// Start, end, count, partial.
fn shown(pane: &Value) -> (i64, i64, u64, bool) {
    let at = |key: &str| (pane[key].as_i64().unwrap() - START_MS) / 1_000;
    (at("start_ms"), at("end_ms"), pane["count"].as_u64().unwrap(), pane["partial"].as_bool().unwrap())
}

fn panes_of(receiver: &Receiver, window: &str) -> Vec<(i64, i64, u64, bool)> {
    let (_, panes) = end_state(receiver);
    panes.iter().filter(|pane| pane["window"] == window).map(shown).collect()
}

#[test]
fn where_two_definitions_never_meet_the_last_window_of_the_first_says_that_it_lacks_something() {
    let after = "name = \"w\"\nsize = \"10s\"\noffset = \"5s\"\naggregates = [\"count\"]";
    for how in WAYS {
        let receiver = lives((BEFORE, &[1_000, 32_000]), &[(after, &[34_000, 36_000, 60_000])], how);
        assert_eq!(panes_of(&receiver, "w"), [(0, 10, 1, false), (30, 40, 2, true), (35, 45, 1, false)], "{how:?}");
    }
}

#[test]
fn sliding_windows_that_have_begun_take_all_that_falls_into_them() {
    let window = |size: &str| format!("name = \"w\"\nsize = \"{size}\"\nslide = \"5s\"\naggregates = [\"count\"]");
    for how in WAYS {
        // The border is at 15: [10, 20) is of the old definition, [15, 30) of the new one.
        let receiver = lives((&window("10s"), &[12_000]), &[(&window("15s"), &[17_000, 100_000])], how);
        assert_eq!(panes_of(&receiver, "w"), [(5, 15, 1, false), (10, 20, 2, false), (15, 30, 1, false)], "{how:?}");
        assert_eq!(receiver.late().count(), 0);
    }
}

#[test]
fn a_window_that_is_defined_no_more_finishes_and_one_of_another_name_begins() {
    let before =
        "name = \"w\"\nsize = \"10s\"\nlateness = \"1h\"\nlate_updates = { every = \"5s\" }\naggregates = [\"count\"]";
    let after = "name = \"x\"\nsize = \"20s\"\naggregates = [\"count\"]";
    for how in WAYS {
        // The first window fires with one record, and waits with the second.
        let then: &[i64] = &[3_000, 21_000, 41_000, 4_000_000];
        let receiver = lives((before, &[1_000, 20_000, 2_000]), &[(after, then)], how);
        assert_eq!(panes_of(&receiver, "w"), [(0, 10, 3, false), (20, 30, 2, false)], "nothing is opened: {how:?}");
        assert_eq!(panes_of(&receiver, "x"), [(20, 40, 1, false), (40, 60, 1, false)], "{how:?}");
    }
}

#[test]
fn a_window_that_comes_back_begins_behind_what_it_was() {
    let other = "name = \"x\"\nsize = \"10s\"\naggregates = [\"count\"]";
    let again = "name = \"w\"\nsize = \"20s\"\naggregates = [\"count\"]";
    for how in WAYS {
        let receiver =
            lives((BEFORE, &[1_000, 22_000]), &[(other, &[23_000]), (again, &[24_000, 31_000, 41_000, 900_000])], how);
        // Until 40 it is the first one again, for there the second begins.
        assert_eq!(
            panes_of(&receiver, "w"),
            [(0, 10, 1, false), (20, 30, 3, false), (30, 40, 1, false), (40, 60, 1, false)],
            "{how:?}"
        );
    }
}

#[test]
fn a_stream_that_means_something_else_takes_nothing_over() {
    let before = text_of(BEFORE);
    let otherwise = [
        ("another pointer", before.replace("v = \"/v\"", "v = \"/w\"")),
        ("another scale", before.replace("v = \"/v\"", "v = { pointer = \"/v\", scale = 10 }")),
        ("another unit", before.replace("unit = \"ms\"", "unit = \"s\"")),
        ("another device", before.replace("topic = \"d/{device}\"", "topic = \"d/{device}\"\ndevice = \"{device}\"")),
        ("another time", before.replace("time = { field = \"/ts\"", "time = { field = \"/t\"")),
    ];
    for (what, after) in otherwise {
        for how in WAYS {
            let mut agent = Agent::start(BEFORE);
            agent.take(&[1_000, 12_000, 13_000]);
            agent.change_to(parsed(&after), how);
            agent.take(&[]);
            let panes = panes_of(&agent.receiver, "w");
            assert_eq!(panes, [(0, 10, 1, false), (10, 20, 2, true)], "{what}, {how:?}");
            assert_eq!(agent.driver().status(now()).streams[0].devices, 0, "{what}, {how:?}: nobody is known");
        }
    }
}

#[test]
fn a_stream_that_goes_on_keeps_what_it_has() {
    let before = text_of(BEFORE);
    let otherwise = [
        ("another topic", before.replace("d/{device}\"", "+/{device}\"")),
        ("a field more", before.replace("v = \"/v\"", "v = \"/v\", w = \"/w\"")),
        ("disorder", before.replace("disorder = \"0s\"", "disorder = \"1s\"")),
        ("what is the default", before.replace("name = \"s\"", "name = \"s\"\nformat = \"json\"")),
    ];
    for (what, after) in otherwise {
        for how in WAYS {
            let mut agent = Agent::start(BEFORE);
            agent.take(&[1_000, 12_000, 13_000]);
            agent.change_to(parsed(&after), how);
            agent.take(&[14_000, 40_000]);
            let panes = panes_of(&agent.receiver, "w");
            assert_eq!(panes, [(0, 10, 1, false), (10, 20, 3, false)], "{what}, {how:?}");
        }
    }
}

#[test]
fn a_hundred_changes_in_a_row_count_each_record_once() {
    let window = |change: i64| format!("name = \"w\"\nsize = \"{}s\"\naggregates = [\"count\"]", 5 + change % 7);
    for how in [How::Restart, How::Running] {
        let mut agent = Agent::start(&window(0));
        let mut taken = 0;
        for change in 1..=100 {
            let times: Vec<i64> = (0..5).map(|step| change * 2_500 + step * 500).collect();
            agent.take(&times);
            taken += times.len() as u64;
            agent.change(&window(change), how);
            agent.take(&[]);
            let status = agent.driver().status(now());
            let books = &status.streams[0].windows[0];
            let (records, _) = end_state(&agent.receiver);
            assert_eq!(records + books.open, taken, "{how:?}, change {change}: {books:?}");
        }
        // However fast they come, windows go on to be windows.
        let late = agent.receiver.late().count();
        assert!(late < 10, "{how:?}: {late} records were in no window");
    }
}

#[test]
fn what_keeps_ids_apart_is_bounded_and_then_coarser() {
    const DEVICES: usize = 50_000;
    const CHANGES: usize = 5;
    let window = |size: usize| format!("name = \"w\"\nsize = \"{size}s\"\naggregates = [\"count\"]");
    let text = |size: usize| text_of(&window(size)).replace("max_future", "devices_max = 60000\nmax_future");
    for how in [How::Restart, How::Running] {
        let mut agent = Agent::start(BEFORE);
        agent.change_to(parsed(&text(600)), how);
        agent.take_of(DEVICES, 1_000);
        for change in 1..=CHANGES {
            agent.change_to(parsed(&text(600 + change)), how);
            agent.take_of(DEVICES, 2_000 + i64::try_from(change).unwrap());
        }
        // Each definition finishes for each device: more borders than there is room for.
        let state = agent.driver().engine().snapshot(now());
        assert!(state.len() < 24 * 1024 * 1024, "{how:?}: {}", state.len());
        // Another meaning: a fence in front of each name, or one in front of all.
        let other = text(600 + CHANGES).replace("v = \"/v\"", "v = { pointer = \"/v\", scale = 10 }");
        agent.change_to(parsed(&other), how);
        agent.take_of(DEVICES, 3_000);
        agent.take_of(DEVICES, 1_000_000_000);
        let (records, panes) = end_state(&agent.receiver);
        assert!(panes.iter().any(|pane| pane["partial"] == true), "{how:?}: no definition was ended as it was");
        // The last of each only moves the watermark.
        assert_eq!(records, u64::try_from(DEVICES * (CHANGES + 2)).unwrap(), "{how:?}");
    }
}

#[test]
fn a_stream_that_comes_back_uses_no_id_again() {
    let before = text_of(BEFORE);
    let (head, _) = before.split_once("[[streams]]").unwrap();
    for how in WAYS {
        let mut agent = Agent::start(BEFORE);
        agent.take(&[1_000, 12_000]);
        agent.change_to(parsed(head), how);
        agent.take(&[]);
        assert_eq!(panes_of(&agent.receiver, "w"), [(0, 10, 1, false), (10, 20, 1, true)], "{how:?}");
        agent.change_to(parsed(&before), how);
        agent.take(&[2_000, 14_000, 23_000, 40_000]);
        let (records, panes) = end_state(&agent.receiver);
        assert_eq!(records, 5, "{how:?}: the last one is open");
        assert_eq!(panes.len(), 3, "{how:?}");
        let late: Vec<&Value> = agent.receiver.late().collect();
        assert!(late.iter().all(|late| late["reason"] == "redefined"), "{how:?}: {late:?}");
    }
}
