//! Ordered output, deduplication and the time to live of state, all at once and by
//! chance: what every run has to keep, and that restarts change nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate::engine::step::Event;
use tidegate::model::rng::Rng;

use world::{Restart, START_MS, World};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// Of a device: its number, its time. The value is unique.
    Reading {
        at: u64,
        device: u64,
        seq: u64,
        ts: i64,
        value: u64,
    },
    Tick {
        at: u64,
    },
    Uplink {
        at: u64,
        up: bool,
    },
}

fn plan(seed: u64) -> Vec<Step> {
    let mut random = Rng::new(seed);
    let mut steps: Vec<Step> = Vec::new();
    let (mut at, mut next_seq) = (0, [0_u64; 4]);
    for value in 0..150 {
        // Now and then a silence that ends some of them.
        at += if random.chance(40) { random.between(10_000, 45_000) } else { random.below(600) };
        let copy = (random.chance(4) && !steps.is_empty())
            .then(|| steps[usize::try_from(random.below(steps.len() as u64)).unwrap()].clone());
        steps.push(match (copy, random.below(30)) {
            (Some(Step::Reading { device, seq, ts, value, .. }), _) => Step::Reading { at, device, seq, ts, value },
            (_, 0) => Step::Tick { at },
            (_, 1) => Step::Uplink { at, up: random.chance(2) },
            _ => {
                let device = random.below(4);
                let seq = &mut next_seq[usize::try_from(device).unwrap()];
                *seq += 1 + u64::from(random.chance(10));
                let ts = i64::try_from(at).unwrap() - i64::try_from(random.below(4_000)).unwrap();
                Step::Reading { at, device, seq: *seq, ts, value }
            }
        });
    }
    steps
}

fn run(more: &str, steps: &[Step], restart: Restart) -> (Vec<Value>, String) {
    let mut world = World::new(more, restart);
    let mut rows = Vec::new();
    for step in steps {
        rows.extend(match step {
            Step::Reading { at, device, seq, ts, value } => {
                let payload = json!({ "ts": START_MS + ts, "v": value, "n": seq });
                world.payload(*at, &format!("d{device}"), &payload)
            }
            Step::Tick { at } => world.tick(*at),
            Step::Uplink { at, up: true } => world.event(*at, Event::UplinkUp),
            Step::Uplink { at, up: false } => world.event(*at, Event::UplinkDown),
        });
    }
    rows.extend(world.finish(10_000_000));
    (rows, format!("{:?}", world.status(0)))
}

/// What every run has to keep.
fn check(name: &str, shared: bool, has_dedup: bool, steps: &[Step], rows: &[Value]) {
    let value = |row: &Value| row["values"]["v"].as_u64().unwrap();
    let raw = |row: &&Value| row["kind"] == "record" || (row["kind"] == "late" && row["window"] == "");
    let mut told: Vec<u64> = rows.iter().filter(raw).map(value).collect();
    let mut sent: Vec<u64> = steps
        .iter()
        .filter_map(|step| if let Step::Reading { value, .. } = step { Some(*value) } else { None })
        .collect();
    told.sort_unstable();
    sent.sort_unstable();
    if has_dedup {
        // Those of a device that was forgotten meanwhile may count again, never less than once.
        let once: BTreeSet<u64> = sent.iter().copied().collect();
        assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), once, "{name}: each at least once");
        assert!(told.len() <= sent.len(), "{name}");
    } else {
        assert_eq!(told, sent, "{name}: each exactly once");
    }
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["kind"] == "record") {
        let scope = if shared { String::new() } else { row["key"].to_string() };
        let event = row["event_ms"].as_i64().unwrap();
        let before = last.insert(scope, event);
        assert!(before.is_none_or(|before| before <= event), "{name}: a step back at {row}");
    }
    let mut panes = BTreeSet::new();
    for pane in rows.iter().filter(|row| row["kind"] == "pane") {
        assert!(panes.insert((pane["id"].to_string(), pane["rev"].as_u64())), "{name}: twice {pane}");
    }
}

#[test]
fn nothing_is_lost_doubled_or_out_of_order_and_restarts_change_nothing() {
    let window = "[[streams.windows]]\nname = \"3s\"\nsize = \"3s\"\nlateness = \"2s\"";
    for seed in 0..4 {
        for scope in ["device", "shared", "stream"] {
            for (dedup, what) in [
                ("", false),
                ("dedup = { sequence = \"n\", horizon = 300 }", true),
                ("dedup = { by = \"time_and_values\", horizon = 300 }\n", true),
            ] {
                let room = if seed % 2 == 0 { 5 } else { 1_000 };
                let more = format!(
                    "fields = {{ v = \"/v\", n = \"/n\" }}\nscope = \"{scope}\"\nrecords = \"ordered\"\nordered_max = {room}\n\
                     idle_timeout = \"5s\"\nstate_ttl = \"20s\"\ndevices_max = 50\n{dedup}\n{window}"
                );
                let name = format!("seed {seed}, {scope}, {dedup}");
                let steps = plan(seed);
                let (rows, status) = run(&more, &steps, Restart::Never);
                check(&name, scope != "device", what, &steps, &rows);
                let again = run(&more, &steps, Restart::FromSnapshot);
                let differ = rows.iter().zip(&again.0).position(|(one, other)| one != other);
                if let Some(place) = differ {
                    panic!("{name}: restarted after every step, {} became {}", rows[place], again.0[place]);
                }
                assert_eq!((again.0.len(), again.1), (rows.len(), status), "{name}: restarted after every step");
            }
        }
    }
}
