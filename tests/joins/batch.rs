//! A batch join over all records, to compare with; and the engine taken down and
//! restored after every one of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;
use tidegate::engine::encode::record_json;
use tidegate::engine::step::{Event, Message};

use super::world::{START_MS, WINDOWS, World, pairs, parse, stream};

/// Topic, device, event time in ms, value.
type Reading = (bool, bool, i64, i32);

const DISORDER_MS: i64 = 3_000;

/// Readings that are never late: each device of each stream is at most the disorder
/// behind its own newest.
fn readings() -> impl Strategy<Value = Vec<Reading>> {
    let step = (any::<bool>(), any::<bool>(), 0..9_000_i64, 0..DISORDER_MS, 1..100_i32);
    prop::collection::vec(step, 1..80).prop_map(|steps| {
        let mut newest: BTreeMap<(bool, bool), i64> = BTreeMap::new();
        let reading = |(right, device, forward, back, value): (bool, bool, i64, i64, i32)| {
            let newest = newest.entry((right, device)).or_insert(0);
            let at = *newest + forward - back;
            *newest = at.max(*newest);
            (right, device, at, value)
        };
        steps.into_iter().map(reading).collect()
    })
}

fn spec(join: &str) -> tidegate::engine::spec::PipelineSpec {
    let plain = "disorder = \"3s\"\nidle_timeout = \"off\"";
    parse(&format!("{}{}\n[[joins]]\nname = \"j\"\n{join}\n", stream("a", plain, ""), stream("b", plain, "")))
}

#[derive(Clone, Copy)]
enum Life {
    One,
    Restarts,
    Crashes,
}

fn run(join: &str, life: Life, readings: &[Reading]) -> World {
    let mut world = match life {
        Life::One | Life::Crashes => World::new(spec(join)),
        Life::Restarts => World::restarting(spec(join)),
    };
    for (number, (right, device, at, value)) in readings.iter().enumerate() {
        let topic = format!("{}/{}", if *right { "b" } else { "a" }, if *device { "y" } else { "x" });
        let payload = format!("{{\"ts\":{},\"v\":{value}}}", START_MS + at);
        let message = Message { topic: &topic, payload: payload.as_bytes(), retain: false, dup: false, tag: None };
        // Two seconds apart, so that each has its commit.
        let now = 2_000 * number as u64;
        match life {
            Life::One | Life::Restarts => _ = world.event(now, Event::Message(message)),
            Life::Crashes => _ = world.event_and_crash(now, Event::Message(message)),
        }
    }
    world.finish();
    world
}

type Windows = BTreeSet<(String, i64, Option<i64>, Option<i64>)>;

fn windows_of(rows: &[Value]) -> Windows {
    let sum = |row: &Value, side: &str| row["values"][side]["v"]["sum"].as_i64();
    rows.iter()
        .map(|row| {
            let start = row["start_ms"].as_i64().unwrap() - START_MS;
            (row["key"].as_str().unwrap().to_owned(), start, sum(row, "a"), sum(row, "b"))
        })
        .collect()
}

fn batch_windows(readings: &[Reading], outer: bool) -> Windows {
    let mut sums: BTreeMap<(bool, i64), [Option<i64>; 2]> = BTreeMap::new();
    for (right, device, at, value) in readings {
        let start = at.div_euclid(10_000) * 10_000;
        let sum = &mut sums.entry((*device, start)).or_default()[usize::from(*right)];
        *sum = Some(sum.unwrap_or(0) + i64::from(*value));
    }
    sums.into_iter()
        .filter(|(_, [a, b])| outer || (a.is_some() && b.is_some()))
        .map(|((device, start), [a, b])| (if device { "y" } else { "x" }.to_owned(), start, a, b))
        .collect()
}

fn batch_pairs(readings: &[Reading], lower: i64, upper: i64) -> Vec<String> {
    let mut pairs = Vec::new();
    for (_, device, left, a) in readings.iter().filter(|reading| !reading.0) {
        for (_, _, right, b) in readings.iter().filter(|reading| reading.0 && reading.1 == *device) {
            if (left + lower..=left + upper).contains(right) {
                pairs.push(format!("[{left},{right},{a},{b}]"));
            }
        }
    }
    pairs.sort();
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_window_join_is_the_batch_join_of_all_records(readings in readings(), outer in any::<bool>()) {
        let join = format!("{WINDOWS}\nttl = \"1d\"\nmode = \"{}\"", if outer { "outer" } else { "inner" });
        let whole = run(&join, Life::One, &readings);
        prop_assert_eq!(windows_of(&whole.rows), batch_windows(&readings, outer));
        let ids: BTreeSet<_> = whole.rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
        prop_assert_eq!(ids.len(), whole.rows.len(), "one row a window");
        prop_assert_eq!(&whole.books()["kept"], 0);
        for life in [Life::Restarts, Life::Crashes] {
            let again = run(&join, life, &readings);
            prop_assert_eq!(&again.rows, &whole.rows);
            prop_assert_eq!(again.books(), whole.books());
        }
    }

    #[test]
    fn an_interval_join_is_the_batch_join_of_all_records(
        readings in readings(),
        bounds in prop::sample::select(vec![(-2_000, 10_000), (0, 0), (-5_000, -1_000), (1_000, 4_000)]),
    ) {
        let (lower, upper) = bounds;
        let join = format!("left = \"a\"\nright = \"b\"\nbefore = \"{}ms\"\nafter = \"{upper}ms\"\nttl = \"1d\"", -lower);
        let whole = run(&join, Life::One, &readings);
        let mut found: Vec<String> = pairs(&whole.rows).iter().map(Value::to_string).collect();
        found.sort();
        prop_assert_eq!(found, batch_pairs(&readings, lower, upper));
        let books = whole.books();
        prop_assert_eq!((&books["left"]["open"], &books["right"]["open"]), (&0.into(), &0.into()));
        prop_assert_eq!((&books["left"]["late"], &books["right"]["late"]), (&0.into(), &0.into()));
        for life in [Life::Restarts, Life::Crashes] {
            let again = run(&join, life, &readings);
            prop_assert_eq!(&again.rows, &whole.rows);
            prop_assert_eq!(again.books(), whole.books());
        }
    }
}

/// Scopes, disorder and idleness of a stream, and the lateness of its windows.
fn streams() -> impl Strategy<Value = [(usize, u64, u64); 2]> {
    let one = || (0..4_usize, 0..3_u64, prop::sample::select(vec![0_u64, 8, 30]));
    (one(), one()).prop_map(|(a, b)| [a, b])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is late, idle or missing: at the end the newest row of a window has the
    /// newest pane of each side, and every window that has a pane has a row.
    #[test]
    fn the_newest_row_of_an_outer_join_has_the_newest_pane_of_every_side(
        settings in streams(),
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0..60_000_i64, 1..100_i32, 0..4_000_u64, any::<bool>()), 1..60),
    ) {
        let mut text = String::new();
        for (name, (scope, disorder, lateness)) in ["a", "b"].into_iter().zip(settings) {
            let scope = ["scope = \"device\"", "scope = \"stream\"", "scope = \"shared\"", "scope = \"group\"\ngroup = \"{room}\""][scope];
            let lines = format!("disorder = \"{}s\"\nidle_timeout = \"5s\"\n{scope}", disorder * 4);
            text += &stream(name, &lines, &format!("lateness = \"{lateness}s\"")).replace("/{device}", "/{room}/{device}");
        }
        let spec = parse(&format!("{text}\n[[joins]]\nname = \"j\"\n{WINDOWS}\nmode = \"outer\"\nttl = \"1d\"\n"));
        let mut worlds = [World::new(spec.clone()), World::restarting(spec)];
        let mut panes: BTreeMap<(String, i64), [Option<i64>; 2]> = BTreeMap::new();
        for (place, world) in worlds.iter_mut().enumerate() {
            let cursor = world.driver.engine().outbox().next_order();
            let mut now = 0;
            for (right, device, at, value, pause, upstairs) in &steps {
                now += pause;
                // Devices move from room to room.
                let room = if *upstairs { "attic" } else { "hall" };
                let topic = format!("{}/{room}/{}", if *right { "b" } else { "a" }, if *device { "y" } else { "x" });
                world.reading(now, &topic, *at, f64::from(*value));
            }
            world.finish();
            if place == 0 {
                for (_, _, seq, row) in world.driver.engine().outbox().rows_since(cursor) {
                    let row: Value = serde_json::from_slice(&record_json("gw", seq, &row)).unwrap();
                    if row["kind"] == "pane" {
                        let start = row["start_ms"].as_i64().unwrap() - START_MS;
                        let sides = panes.entry((row["key"].as_str().unwrap().to_owned(), start)).or_default();
                        sides[usize::from(row["stream"] == "b")] = row["values"]["v"]["sum"].as_i64();
                    }
                }
            }
        }
        let mut newest: BTreeMap<&str, &Value> = BTreeMap::new();
        for row in &worlds[0].rows {
            let held = newest.entry(row["id"].as_str().unwrap()).or_insert(row);
            prop_assert!(core::ptr::eq(*held, row) || held["rev"].as_u64() < row["rev"].as_u64(), "{held} then {row}");
            *held = row;
        }
        let found = windows_of(&newest.into_values().cloned().collect::<Vec<_>>());
        let expected = panes.into_iter().map(|((key, start), [a, b])| (key, start, a, b)).collect::<Windows>();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(&worlds[1].rows, &worlds[0].rows);
        prop_assert_eq!(worlds[1].books(), worlds[0].books());
    }
}

/// Flink's rule, record by record: late below the lower watermark, kept until it is there.
fn flink_pairs(readings: &[Reading], (lower, upper): (i64, i64)) -> (Vec<String>, [u64; 2]) {
    /// Time, value, and the watermark that removes it.
    type Buffer = Vec<(i64, i32, i64)>;
    let mut buffers: BTreeMap<bool, [Buffer; 2]> = BTreeMap::new();
    let mut watermarks: BTreeMap<bool, [Option<i64>; 2]> = BTreeMap::new();
    let (mut pairs, mut late) = (Vec::new(), [0, 0]);
    for (right, device, at, value) in readings {
        let side = usize::from(*right);
        let own = watermarks.entry(*device).or_default();
        let buffer = buffers.entry(*device).or_default();
        if own[0].min(own[1]).is_some_and(|watermark| *at < watermark) {
            late[side] += 1;
        } else {
            for (other, other_value, _) in &buffer[1 - side] {
                let (left, right) = if *right { (*other, *at) } else { (*at, *other) };
                let (a, b) = if side == 1 { (other_value, value) } else { (value, other_value) };
                if (left + lower..=left + upper).contains(&right) {
                    pairs.push(format!("[{left},{right},{a},{b}]"));
                }
            }
            let reach = if *right { -lower } else { upper };
            buffer[side].push((*at, *value, at + reach.max(0)));
        }
        let before = own[0].min(own[1]);
        own[side] = own[side].max(Some(at - 1));
        // Timers fire when the watermark rises.
        if let Some(watermark) = own[0].min(own[1]).filter(|watermark| Some(*watermark) > before) {
            for side in buffer.iter_mut() {
                side.retain(|(.., until)| *until > watermark);
            }
        }
    }
    pairs.sort();
    (pairs, late)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_interval_join_of_records_that_may_be_late_makes_the_pairs_that_flink_makes(
        readings in prop::collection::vec((any::<bool>(), any::<bool>(), 0..30_i64, 1..100_i32), 1..80),
        bounds in prop::sample::select(vec![(-2, 10), (0, 0), (-5, -1), (1, 4), (-20, 20)]),
    ) {
        let join = format!("left = \"a\"\nright = \"b\"\nbefore = \"{}ms\"\nafter = \"{}ms\"", -bounds.0, bounds.1);
        let mut world = World::new(super::world::pipeline(&join));
        for (right, device, at, value) in &readings {
            let topic = format!("{}/{}", if *right { "b" } else { "a" }, if *device { "y" } else { "x" });
            world.reading(0, &topic, *at, f64::from(*value));
        }
        let mut found: Vec<String> = pairs(&world.rows).iter().map(Value::to_string).collect();
        found.sort();
        let (expected, late) = flink_pairs(&readings, bounds);
        prop_assert_eq!(found, expected);
        let books = world.books();
        let counted = ["left", "right"].map(|side| books[side]["late"].as_u64().unwrap());
        prop_assert_eq!(counted, late);
    }
}
