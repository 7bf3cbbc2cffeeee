//! A trace of lines exercises all of it, to the millisecond.

use serde_json::{Value, json};
use tidegate::engine::replay::Replay;

use crate::trace::{START_MS, spec};

fn rows(replay: &mut Replay, line: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    replay.handle_line(&line.to_string(), &mut out).unwrap();
    serde_json::Deserializer::from_slice(&out).into_iter::<Value>().map(Result::unwrap).collect()
}

#[test]
fn lines_carry_groups_and_availability() {
    let stream = "watermark = \"monotonic\"\nscope = \"group\"\ngroup = \"{site}\"\nmax_future = \"off\"";
    let mut replay = Replay::new(spec(stream, "key = \"group\""));
    let mut line = |line: Value| rows(&mut replay, &line);
    let reading = |at: i64, device: &str| json!({ "arrival_ms": START_MS + at, "device": device, "group": "hall", "event_ms": START_MS + at, "value": 1 });
    assert_eq!(line(reading(0, "a")).len(), 0);
    assert_eq!(line(reading(1, "b")).len(), 0);
    assert_eq!(line(json!({ "arrival_ms": START_MS + 2, "device": "a", "online": false })).len(), 0);
    let shown = line(json!({ "arrival_ms": START_MS + 3, "stream": "s", "online": false }));
    assert_eq!(shown.len(), 1);
    assert_eq!((&shown[0]["pane"], &shown[0]["key"], &shown[0]["count"]), (&json!("idle"), &json!("hall"), &json!(2)));
    assert_eq!(line(json!({ "arrival_ms": START_MS + 4, "device": "a", "online": true })).len(), 0);
    let wrong = |line: Value| {
        Replay::new(spec(stream, "key = \"group\""))
            .handle_line(&line.to_string(), &mut Vec::new())
            .unwrap_err()
            .to_string()
    };
    assert!(
        wrong(json!({ "arrival_ms": 1, "device": "a", "online": true, "value": 1 })).contains("`online` goes with")
    );
    assert!(wrong(json!({ "arrival_ms": 1, "online": true, "tick": true })).contains("either"));
}

#[test]
fn what_is_due_between_two_lines_happens_at_its_own_time() {
    let mut replay = Replay::new(spec("watermark = \"processing\"\ndelay = \"2s\"\nidle_timeout = \"off\"", ""));
    let mut line = |line: Value| rows(&mut replay, &line);
    let reading = json!({ "arrival_ms": START_MS, "device": "a", "event_ms": START_MS + 1, "value": 1 });
    assert_eq!(line(reading).len(), 0);
    assert_eq!(line(json!({ "arrival_ms": START_MS + 11_999, "tick": true })).len(), 0);
    let fired = line(json!({ "arrival_ms": START_MS + 60_000, "tick": true }));
    assert_eq!(fired[0]["watermark_ms"], START_MS + 9_999, "it was 12.000 then");
}
