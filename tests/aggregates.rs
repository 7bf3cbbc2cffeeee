//! What every aggregate promises: merging, order of arrival, persistence, accuracy of the
//! sketches, and what panes say about states, durations and approximate results.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::aggregate::{Accumulator, Aggregates, Finish, Finished, Kind, State, published};
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::memory_store;
use tidegate::engine::replay::Replay;
use tidegate::engine::states::StateTable;
use tidegate::engine::step::{Event, Message};
use tidegate::engine::wire::{Damaged, Reader};
use tidegate::model::limits::{GROWTH_COST_MAX, OPEN_COST_MAX, POINTS_MAX};
use tidegate::model::rng::Rng;
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, WallTime};

const TEXTS: [&str; 4] = ["off", "on", "fault", "on "];

/// One reading: a number and one of the states at one time.
type Reading = (i64, f64, usize);

fn wanted() -> Aggregates {
    Aggregates::of(Kind::ALL).with_histogram(&[-10.0, 0.0, 10.0]).with_quantiles(&[0.0, 0.5, 0.9, 1.0])
}

fn states() -> StateTable {
    let mut states = StateTable::default();
    for text in TEXTS {
        assert!(states.intern(text).is_some());
    }
    states
}

fn accumulate(readings: &[Reading], states: &mut StateTable) -> Vec<Accumulator> {
    let mut all: Vec<Accumulator> = wanted().start().collect();
    for (at, value, state) in readings {
        let at = EventTime::from_millis(*at);
        let place = states.intern(TEXTS[*state]).unwrap();
        for accumulator in &mut all {
            if accumulator.kind() == Kind::Durations {
                accumulator.add_state(State { place, states }, at, usize::MAX);
            } else {
                accumulator.add(*value, at);
            }
        }
    }
    all
}

/// Results as numbers by label.
fn results(accumulator: &Accumulator, states: &StateTable) -> Vec<(String, f64)> {
    let wanted = wanted();
    let finish = Finish { until: Some(EventTime::from_millis(2_000)), quantiles: wanted.quantiles(), states };
    match accumulator.finish(&finish) {
        Finished::Absent => Vec::new(),
        Finished::None => vec![("none".to_owned(), 0.0)],
        Finished::Number(value) => vec![(String::new(), value)],
        Finished::Labelled(numbers) => numbers.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect(),
    }
}

/// The same but for the last digits, which depend on the order of additions.
fn assert_same(kind: Kind, left: &[(String, f64)], right: &[(String, f64)]) {
    let rounds = matches!(kind, Kind::Variance | Kind::Stddev);
    let close = |(left, right): (&(String, f64), &(String, f64))| {
        let bound = if rounds { 1e-9 * left.1.abs().max(1e-6) } else { 0.0 };
        left.0 == right.0 && (left.1 - right.1).abs() <= bound
    };
    assert!(left.len() == right.len() && left.iter().zip(right).all(close), "{kind:?}: {left:?} {right:?}");
}

/// Quarters: all their sums are exact.
fn readings() -> impl Strategy<Value = Vec<Reading>> {
    let value = prop_oneof![(-400..400_i32).prop_map(|quarter| f64::from(quarter) / 4.0), Just(0.0), Just(21.25)];
    prop::collection::vec((0..1_000_i64, value, 0..TEXTS.len()), 0..60)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 200,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_order_of_arrival_does_not_matter_while_sums_are_exact(all in readings(), seed in 0..1_000_u64) {
        let (mut there, mut here) = (StateTable::default(), StateTable::default());
        let plain = accumulate(&all, &mut there);
        let mut shuffled = all.clone();
        let mut rng = Rng::new(seed);
        for index in (1..shuffled.len()).rev() {
            shuffled.swap(index, usize::try_from(rng.below(index as u64 + 1)).unwrap());
        }
        for (left, right) in plain.iter().zip(accumulate(&shuffled, &mut here)) {
            assert_same(left.kind(), &results(left, &there), &results(&right, &here));
            prop_assert!(!left.is_approximate() && !right.is_approximate());
        }
    }

    #[test]
    fn merging_is_commutative_and_associative(a in readings(), b in readings(), c in readings()) {
        let mut states = states();
        let [a, b, c] = [a, b, c].map(|part| accumulate(&part, &mut states));
        for ((a, b), c) in a.iter().zip(&b).zip(&c) {
            let merged = |parts: [&Accumulator; 2]| {
                let mut merged = parts[0].clone();
                merged.merge(parts[1]);
                merged
            };
            let show = |accumulator: &Accumulator| results(accumulator, &states);
            assert_same(a.kind(), &show(&merged([a, b])), &show(&merged([b, a])));
            let left = merged([&merged([a, b]), c]);
            let right = merged([a, &merged([b, c])]);
            assert_same(a.kind(), &show(&left), &show(&right));
        }
    }

    #[test]
    fn a_part_and_its_complement_are_the_whole_also_as_published(all in readings(), split in 0..60_usize) {
        let mut states = states();
        let (pane, delta) = all.split_at(split.min(all.len()));
        let [whole, pane, delta] = [&all, pane, delta].map(|part| accumulate(part, &mut states));
        for ((whole, pane), delta) in whole.iter().zip(pane).zip(delta) {
            let kind = whole.kind();
            let mut merged = pane.clone();
            merged.merge(&delta);
            assert_same(kind, &results(&merged, &states), &results(whole, &states));
            if !kind.is_order_dependent() {
                let [pane, delta] = [pane, delta].map(|part| {
                    let text = serde_json::to_vec(&part.publish()).unwrap();
                    let json: Value = serde_json::from_slice(&text).unwrap();
                    let cbor = serde_cbor::to_vec(&part.publish()).unwrap();
                    assert_eq!(serde_cbor::from_slice::<Value>(&cbor).unwrap(), json, "both encodings say the same");
                    json
                });
                let merged = published::merge(kind, &pane, &delta).unwrap();
                assert_same(kind, &results(&merged, &states), &results(whole, &states));
            }
        }
    }

    #[test]
    fn bytes_come_back_and_every_cut_is_damage(all in readings()) {
        let mut states = states();
        for accumulator in accumulate(&all, &mut states) {
            let mut bytes = Vec::new();
            accumulator.write(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(accumulator.kind().read(&mut reader), Ok(accumulator.clone()));
            prop_assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                prop_assert_eq!(accumulator.kind().read(&mut Reader::new(&bytes[..cut])), Err(Damaged));
            }
        }
    }

    #[test]
    fn random_bytes_are_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in Kind::ALL {
            let Ok(accumulator) = kind.read(&mut Reader::new(&bytes)) else { continue };
            let mut twice = accumulator.clone();
            twice.merge(&accumulator);
            results(&twice, &StateTable::default());
        }
    }
}

fn one(kind: Kind, values: impl IntoIterator<Item = (i64, f64)>) -> Accumulator {
    let mut accumulator = wanted().start().find(|accumulator| accumulator.kind() == kind).unwrap();
    for (at, value) in values {
        accumulator.add(value, EventTime::from_millis(at));
    }
    accumulator
}

#[test]
fn quantiles_are_within_one_percent_of_the_exact_ones() {
    let mut rng = Rng::new(7);
    let mut unit = || (rng.below(1 << 53) as f64 + 0.5) / (1_u64 << 53) as f64;
    let normal = |unit: &mut dyn FnMut() -> f64| (0..12).map(|_| unit()).sum::<f64>() - 6.0;
    let many = 20_000;
    let draws: [(&str, Vec<f64>); 6] = [
        ("uniform", (0..many).map(|_| unit() * 1_000.0).collect()),
        ("normal", (0..many).map(|_| 20.0 + 5.0 * normal(&mut unit)).collect()),
        ("around zero", (0..many).map(|_| normal(&mut unit)).collect()),
        ("heavy tail", (0..many).map(|_| unit().powi(-2)).collect()),
        ("constant", vec![21.3; 500]),
        ("negative", (0..many).map(|_| -unit() * 40.0).collect()),
    ];
    for (name, values) in draws {
        let sketch = one(Kind::Quantiles, values.iter().map(|value| (0, *value)));
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let wanted = Aggregates::of(&[Kind::Quantiles]).with_quantiles(&[0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]);
        let finish = Finish { until: None, quantiles: wanted.quantiles(), states: &StateTable::default() };
        let found = sketch.finish(&finish);
        for quantile in wanted.quantiles() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
            let exact = sorted[(quantile.share * (sorted.len() - 1) as f64) as usize];
            let found = found.labelled(&quantile.label).unwrap();
            assert!(
                (found - exact).abs() <= exact.abs() / 129.0 + 1e-12,
                "{name} {}: {found} for {exact}",
                quantile.label
            );
        }
        assert!(!sketch.is_approximate(), "{name}");
    }
}

#[test]
fn more_points_than_are_kept_are_exact_in_order_and_marked_when_one_comes_too_late_for_that() {
    let past = i64::try_from(POINTS_MAX).unwrap() * 3;
    let counter = |range: core::ops::Range<i64>| range.map(|at| (at * 1_000, (at % 1_000) as f64));
    let exact = (0..past - 1).map(|at| if at % 1_000 == 999 { 0.0 } else { 1.0 }).sum::<f64>();
    let mut increase = one(Kind::Increase, counter(0..past));
    let number = |accumulator: &Accumulator| results(accumulator, &StateTable::default())[0].1;
    assert_eq!((number(&increase).to_bits(), increase.is_approximate()), (exact.to_bits(), false));
    assert!(increase.held() <= POINTS_MAX * 16);
    increase.add(0.5, EventTime::from_millis((past - 100) * 1_000 + 1));
    assert!(!increase.is_approximate(), "among those that are kept: a reset, 188 up from it");
    increase.add(0.5, EventTime::from_millis(1_500));
    assert_eq!((number(&increase).to_bits(), increase.is_approximate()), ((exact + 188.0).to_bits(), true));
    let mut bytes = Vec::new();
    increase.write(&mut bytes);
    assert_eq!(Kind::Increase.read(&mut Reader::new(&bytes)), Ok(increase));
}

// --- through the engine -------------------------------------------------------

fn replay(more: &str, window: &str, lines: &[Value]) -> Vec<Value> {
    let text = format!(
        r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
topic = "d/{{device}}"
fields = {{ v = "/v", mode = {{ pointer = "/mode", type = "state" }} }}
time = {{ field = "/ts", unit = "ms" }}
disorder = "0s"
idle_timeout = "60s"
max_future = "off"
min_time = "off"
{more}
[[streams.windows]]
name = "w"
{window}
"#
    );
    let checked = check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}"));
    let mut replay = Replay::new(checked.config);
    let mut out = Vec::new();
    for line in lines {
        replay.handle_line(&line.to_string(), &mut out).unwrap();
    }
    let rows = serde_json::Deserializer::from_slice(&out).into_iter::<Value>();
    rows.map(Result::unwrap).collect()
}

fn message(at: i64, payload: &Value) -> Value {
    json!({ "arrival_ms": at, "topic": "d/a", "payload": payload })
}

#[test]
fn a_pane_has_for_each_field_what_it_is_of() {
    let lines = [
        message(0, &json!({ "ts": 1_000, "v": 10, "mode": "on" })),
        message(1, &json!({ "ts": 4_000, "v": 30, "mode": false })),
        message(2, &json!({ "ts": 9_000, "v": 4, "mode": "on" })),
        message(3, &json!({ "ts": 10_000, "v": 4 })),
    ];
    let window = r#"size = "10s"
aggregates = ["count", "mean", "last", "quantiles", "distinct", "histogram", "time_weighted_mean", "increase", "rate", "durations", "variance"]
quantiles = [0.5]
histogram = [4, 20]"#;
    let rows = replay("", window, &lines);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0]["values"]["v"],
        json!({
            "count": 3, "mean": 44.0 / 3.0, "last": 4, "quantiles": {"0.5": 10.062_111_801_242_237},
            "distinct": 3, "histogram": {"le_4": 1, "le_20": 1, "gt_20": 1},
            // 10 for 3 s, 30 for 5 s, 4 until the end of the window, 1 s.
            "time_weighted_mean": 184.0 / 9.0,
            "increase": 24, "rate": 3, "variance": 185.333_333_333_333_34,
        })
    );
    assert_eq!(
        rows[0]["values"]["mode"],
        json!({ "count": 3, "distinct": 2, "durations": {"false": 5_000, "on": 4_000} }),
        "text never poisons a numeric aggregate"
    );
    assert_eq!(rows[0].get("approx"), None);
}

#[test]
fn what_is_only_a_look_ends_with_the_last_reading_and_so_does_a_session() {
    let lines = [
        message(0, &json!({ "ts": 1_000, "v": 10, "mode": "on" })),
        message(1, &json!({ "ts": 3_000, "v": 20, "mode": "off" })),
        json!({ "arrival_ms": 60_002, "tick": true }),
        message(60_003, &json!({ "ts": 10_000, "v": 0 })),
    ];
    let aggregates = r#"aggregates = ["time_weighted_mean", "durations"]"#;
    let shown = |rows: &[Value]| {
        let show = |row: &Value| (row["pane"].clone(), row["values"]["v"].clone(), row["values"]["mode"].clone());
        rows.iter().map(show).collect::<Vec<_>>()
    };
    let look = (json!("idle"), json!({ "time_weighted_mean": 10 }), json!({ "durations": {"off": 0, "on": 2_000} }));
    let closed = json!({ "time_weighted_mean": 160.0 / 9.0 });
    let closed = (json!("on_time"), closed, json!({ "durations": {"off": 7_000, "on": 2_000} }));
    let rows = replay("", &format!("size = \"10s\"\n{aggregates}"), &lines);
    assert_eq!(shown(&rows), [look.clone(), closed]);
    let rows = replay("", &format!("gap = \"5s\"\n{aggregates}"), &lines);
    assert_eq!(shown(&rows), [look.clone(), (json!("on_time"), look.1, look.2)]);
}

#[test]
fn what_is_no_state_is_left_out_and_late_records_keep_theirs() {
    let lines = [
        message(0, &json!({ "ts": 1_000, "v": 1, "mode": 7 })),
        message(1, &json!({ "ts": 2_000, "v": 1, "mode": 7.5 })),
        message(2, &json!({ "ts": 3_000, "v": 1, "mode": "" })),
        message(3, &json!({ "ts": 4_000, "mode": null })),
        message(4, &json!({ "ts": 40_000, "mode": "on" })),
        message(5, &json!({ "ts": 5_000, "mode": "on" })),
        json!({ "arrival_ms": 6, "device": "b", "event_ms": 1_000, "states": {"mode": "on"} }),
        json!({ "arrival_ms": 7, "device": "b", "event_ms": 40_000, "states": {"mode": "off"}, "value": 1 }),
    ];
    let rows = replay("", "size = \"10s\"\naggregates = [\"count\", \"durations\", \"max\"]", &lines);
    assert_eq!(rows[0]["values"]["v"], json!({ "count": 3, "max": 1 }));
    assert_eq!(rows[0]["values"]["mode"], json!({ "count": 1, "durations": {"7": 9_000} }));
    assert_eq!((&rows[1]["kind"], &rows[1]["values"]), (&json!("late"), &json!({ "mode": "on" })));
    assert_eq!(rows[2]["values"], json!({ "mode": {"count": 1, "durations": {"on": 9_000}} }));
}

/// A driver whose state goes through a store at every line.
#[test]
fn a_restart_at_every_line_changes_nothing() {
    let text = |aggregates: &str| {
        format!(
            r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
topic = "d/{{device}}"
fields = {{ v = "/v", mode = {{ pointer = "/mode", type = "state" }} }}
time = {{ field = "/ts", unit = "ms" }}
disorder = "2s"
[[streams.windows]]
name = "w"
size = "10s"
lateness = "5s"
{aggregates}
[[streams.windows]]
name = "session"
gap = "1s"
{aggregates}
"#
        )
    };
    let all: Vec<String> = Kind::ALL.iter().map(|kind| format!("{:?}", kind.as_str())).collect();
    let text = text(&format!("aggregates = [{}]\nhistogram = [0, 5]", all.join(", ")));
    let pipeline = || check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}")).config;
    let run = |restart_every: usize| {
        let at = |number: usize| {
            let proc = number as u64 * 100;
            let wall = WallTime::from_millis(1_773_480_000_000 + i64::try_from(proc).unwrap());
            Now { proc: ProcTime::from_millis(proc), wall, quality: ClockQuality::Synced }
        };
        let mut driver = Driver::start(pipeline(), memory_store(), at(0)).unwrap();
        driver.handle(at(0), Event::InputLive(true));
        let mut rng = Rng::new(3);
        let mut out = Vec::new();
        for number in 1..400 {
            let now = at(number);
            let ts = now.wall.as_millis() - i64::try_from(rng.below(4_000)).unwrap();
            let mode = TEXTS[usize::try_from(rng.below(4)).unwrap()];
            let payload = json!({ "ts": ts, "v": rng.below(40) as f64 / 4.0, "mode": mode }).to_string();
            let topic = if rng.chance(2) { "d/a" } else { "d/b" };
            let message = Message { topic, payload: payload.as_bytes(), retain: false, dup: false, tag: None };
            driver.handle(now, Event::Message(message));
            driver.engine_mut().take_rows(&mut |lane, seq, row| {
                out.push((lane.as_str(), tidegate::engine::encode::record_json("gw", seq, row)));
            });
            if number % restart_every == 0 {
                driver.stop(now, &mut |_| {});
                driver = Driver::start(pipeline(), driver.into_store(), now).unwrap();
                driver.handle(now, Event::InputLive(true));
            }
        }
        out
    };
    let undisturbed = run(usize::MAX);
    assert!(undisturbed.len() > 10, "{}", undisturbed.len());
    assert_eq!(run(1), undisturbed);
    assert_eq!(run(7), undisturbed);
}

#[test]
fn sketches_and_points_never_take_the_room_of_windows() {
    // 130 devices with 3,000 points each for two aggregates: 12.5 MB, where 11 MiB are allowed.
    const { assert!(130 * 3_000 * 2 * 16 > GROWTH_COST_MAX && GROWTH_COST_MAX < OPEN_COST_MAX) };
    let mut lines = Vec::new();
    for number in 0..3_000_i64 {
        for device in 0..130 {
            let at = number * 1_000;
            let device = format!("d{device}");
            lines.push(json!({ "arrival_ms": at, "device": device, "event_ms": at, "values": {"v": number} }));
        }
    }
    lines.push(json!({ "arrival_ms": 3_000_000, "device": "d0", "event_ms": 500, "values": {"v": 0} }));
    lines.push(json!({ "arrival_ms": 3_000_000, "device": "new", "event_ms": 500, "values": {"v": 0} }));
    for device in ["d0", "d129", "new"] {
        lines.push(json!({ "arrival_ms": 3_000_000, "device": device, "event_ms": 7_200_000, "values": {"v": 0} }));
    }
    let rows = replay("", "size = \"1h\"\naggregates = [\"increase\", \"rate\", \"count\"]", &lines);
    assert_eq!(rows.len(), 3, "{rows:?}");
    let of = |device: &str| rows.iter().find(|row| row["key"] == device && row["start_ms"] == 0).unwrap();
    assert_eq!(of("d129")["values"]["v"], json!({ "increase": 2_999, "rate": 1, "count": 3_000 }));
    assert_eq!(of("d129").get("approx"), None, "in order they are exact with fewer points too");
    assert_eq!(of("new")["values"]["v"]["count"], json!(1), "a new window has room");
    assert_eq!(of("d0")["values"]["v"]["increase"], json!(2_999));
    assert_eq!(of("d0")["approx"], json!({ "v": ["increase", "rate"] }));
}
