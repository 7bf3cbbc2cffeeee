//! A configuration that changes between two lives of the agent: whatever it was
//! and is, the receiver ends with every record, and no id is used twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::engine::chain::Chain;
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::memory_store;
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Effect, Event, Message};
use tidegate::engine::store::Store;
use tidegate::fleet::receiver::Receiver;
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

const START_MS: i64 = 1_773_480_000_000;

fn pipeline(window: &str) -> PipelineSpec {
    let text = format!(
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
    );
    check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}")).config
}

fn now() -> Now {
    Now { proc: ProcTime::from_millis(1), wall: WallTime::from_millis(START_MS), quality: ClockQuality::Synced }
}

/// One life of the agent: takes readings at these times in, delivers everything, stops.
fn live<S: Store + Chain>(store: S, window: &str, times: &[i64], receiver: &mut Receiver) -> S {
    let mut driver = Driver::start(pipeline(window), store, now()).unwrap();
    driver.handle(now(), Event::UplinkUp);
    for ts in times {
        let payload = format!("{{\"ts\":{},\"v\":1}}", START_MS + ts);
        let message = Message { topic: "d/a", payload: payload.as_bytes(), retain: false, dup: false, tag: None };
        driver.handle(now(), Event::Message(message));
    }
    let mut effects = Vec::new();
    driver.stop(now(), &mut |effect| effects.push(effect));
    loop {
        driver.advance(now(), &mut |effect| effects.push(effect));
        if effects.is_empty() {
            break;
        }
        for effect in effects.drain(..) {
            if let Effect::Publish(batch) = effect {
                receiver.handle_message(&batch.payload).unwrap();
                driver.handle(now(), Event::UplinkAcked(batch.id));
            }
        }
    }
    driver.stop(now(), &mut |_| {});
    assert!(driver.status(now()).balanced);
    driver.into_store()
}

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
        "name = \"x\"\nsize = \"10s\"\nlateness = \"5s\"\naggregates = [\"count\", \"sum\"]",
    ];
    // An expired window, one that has fired and one that is open; then records
    // for each of them and for later ones.
    let (first, second) = ([1_000, 12_000, 22_000, 31_000, 32_000], [2_000, 13_000, 23_000, 33_000, 36_000, 47_000]);
    for after in changes {
        for back in [false, true] {
            let mut receiver = Receiver::new();
            let store = live(memory_store(), BEFORE, &first, &mut receiver);
            let store = live(store, after, &second, &mut receiver);
            let last = if back { BEFORE } else { after };
            live(store, last, &[3_000, 14_000, 34_000, 48_000, 58_000, 1_000_000], &mut receiver);
            let (records, panes) = end_state(&receiver);
            // The last one only moves the watermark.
            assert_eq!(records, 16, "{after}, back: {back}: {panes:#?}");
        }
    }
}

#[test]
fn an_open_window_keeps_what_it_has_under_other_aggregates() {
    let mut receiver = Receiver::new();
    let store = live(memory_store(), BEFORE, &[1_000, 2_000], &mut receiver);
    let after = "name = \"w\"\nsize = \"10s\"\naggregates = [\"sum\", \"max\"]";
    live(store, after, &[3_000, 20_000], &mut receiver);
    let (_, panes) = end_state(&receiver);
    assert_eq!((&panes[0]["count"], &panes[0]["rev"], &panes[0]["partial"]), (&3.into(), &0.into(), &true.into()));
    assert_eq!(panes[0]["values"]["v"], serde_json::json!({ "sum": 3, "max": 1 }));
}

#[test]
fn a_record_that_only_later_sliding_windows_take_says_why() {
    let mut receiver = Receiver::new();
    let window = |size: &str| format!("name = \"w\"\nsize = \"{size}\"\nslide = \"5s\"\naggregates = [\"count\"]");
    let store = live(memory_store(), &window("10s"), &[12_000], &mut receiver);
    // In [5, 20) and [10, 25), which stay shut, and in [15, 30).
    live(store, &window("15s"), &[17_000], &mut receiver);
    let late: Vec<&Value> = receiver.late().collect();
    assert_eq!(late.len(), 1);
    assert_eq!((&late[0]["event_ms"], &late[0]["reason"]), (&(START_MS + 17_000).into(), &"redefined".into()));
}

#[test]
fn an_update_that_waits_is_sent_when_its_window_goes() {
    let mut receiver = Receiver::new();
    let before =
        "name = \"w\"\nsize = \"10s\"\nlateness = \"1h\"\nlate_updates = { every = \"5s\" }\naggregates = [\"count\"]";
    // The window fires with one record, and waits with the second.
    let store = live(memory_store(), before, &[1_000, 20_000, 2_000], &mut receiver);
    live(store, "name = \"x\"\nsize = \"1h\"\naggregates = [\"count\"]", &[], &mut receiver);
    let (_, panes) = end_state(&receiver);
    let first = panes.iter().find(|pane| pane["start_ms"] == START_MS).unwrap();
    assert_eq!((&first["count"], &first["rev"], &first["partial"]), (&2.into(), &1.into(), &true.into()));
}
