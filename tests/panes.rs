//! When windows are emitted, and what becomes of records that come too late: early and
//! final panes, updates that are gathered, deltas, the identity of sessions. Exact
//! promises; every world is also run with a new process after every input, which has to
//! change nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate::config::check::check_for_replay;
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::MemorySlots;
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Effect, Event, Message};
use tidegate::fleet::receiver::Receiver;
use tidegate::model::rng::Rng;
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

const START_MS: i64 = 1_773_480_000_000;
const RESTARTS: [bool; 2] = [false, true];

/// The watermark follows the newest record at once.
const PROMPT: &str = "disorder = \"0s\"\n";
/// And nobody is ever idle.
const ALWAYS: &str = "disorder = \"0s\"\nidle_timeout = \"off\"";

type TestDriver = Driver<Ring<MemorySlots>>;

struct World {
    spec: PipelineSpec,
    driver: TestDriver,
    /// A new process after every input.
    restarts: bool,
    receiver: Receiver,
}

fn pipeline(stream: &str, window: &str) -> PipelineSpec {
    let text = format!(
        r#"
[gateway]
id = "gw"
[[streams]]
name = "s"
topic = "d/{{device}}"
fields = {{ v = "/v" }}
time = {{ field = "/ts", unit = "ms" }}
max_future = "off"
{stream}
[[streams.windows]]
name = "w"
aggregates = ["count", "sum", "min", "max", "first", "variance", "quantiles", "distinct"]
{window}
"#
    );
    check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}")).config
}

impl World {
    fn new(restarts: bool, stream: &str, window: &str) -> World {
        let spec = pipeline(stream, window);
        let driver = start(&spec, MemorySlots::new(0), now(0));
        World { spec, driver, restarts, receiver: Receiver::new() }
    }

    /// What an input brings to the cloud.
    fn event(&mut self, at: u64, event: Event<'_>) -> Vec<Value> {
        self.driver.handle(now(at), event);
        let rows = self.deliver(at);
        if self.restarts {
            self.driver.stop(now(at), &mut |_| ());
            let empty = start(&self.spec, MemorySlots::new(0), now(at));
            let down = std::mem::replace(&mut self.driver, empty);
            self.driver = start(&self.spec, down.into_store().into_slots(), now(at));
        }
        rows
    }

    fn deliver(&mut self, at: u64) -> Vec<Value> {
        let mut rows = Vec::new();
        self.driver.stop(now(at), &mut |_| ());
        loop {
            let mut batches = Vec::new();
            self.driver.advance(now(at), &mut |effect| {
                if let Effect::Publish(batch) = effect {
                    batches.push(batch);
                }
            });
            if batches.is_empty() {
                break;
            }
            for batch in batches {
                let applied = self.receiver.handle_message(&batch.payload).unwrap();
                rows.extend(applied.into_iter().map(|applied| applied.record));
                self.driver.handle(now(at), Event::UplinkAcked(batch.id));
            }
        }
        assert!(self.driver.engine().balances(), "the ledger balances after every input");
        rows
    }

    fn tick(&mut self, at: u64) -> Vec<Value> {
        self.event(at, Event::Tick)
    }

    fn reading(&mut self, at: u64, ts: i64, v: f64) -> Vec<Value> {
        let payload = json!({ "ts": START_MS + ts, "v": v }).to_string();
        let message = Message { topic: "d/a", payload: payload.as_bytes(), retain: false, dup: false, tag: None };
        self.event(at, Event::Message(message))
    }

    fn deadline(&self) -> Option<u64> {
        self.driver.engine().next_deadline().map(ProcTime::as_millis)
    }

    fn books(&self) -> Value {
        serde_json::to_value(&self.driver.status(now(0)).streams[0].windows[0]).unwrap()
    }
}

fn start(spec: &PipelineSpec, slots: MemorySlots, now: Now) -> TestDriver {
    let mut driver = Driver::start(spec.clone(), Ring::new(slots, Packing::NONE), now).unwrap();
    driver.handle(now, Event::InputLive(true));
    driver.handle(now, Event::UplinkUp);
    driver
}

fn now(at: u64) -> Now {
    let wall = WallTime::from_millis(START_MS + i64::try_from(at).unwrap());
    Now { proc: ProcTime::from_millis(at), wall, quality: ClockQuality::Synced }
}

/// Pane kind, revision, count.
fn panes(rows: &[Value]) -> Vec<(&str, u64, u64)> {
    let pane = |row: &'_ Value| (row["rev"].as_u64().unwrap_or(0), row["count"].as_u64().unwrap());
    rows.iter().map(|row| (row["pane"].as_str().unwrap_or("delta"), pane(row).0, pane(row).1)).collect()
}

#[test]
fn an_open_window_that_changed_is_shown_once_within_the_time_of_early() {
    for restarts in RESTARTS {
        let mut world = World::new(restarts, ALWAYS, "size = \"60s\"\nearly = \"30s\"");
        assert_eq!(world.reading(1_000, 0, 1.0).len(), 0);
        assert_eq!(world.deadline(), Some(31_000), "from the first change on");
        assert_eq!(world.reading(20_000, 1, 1.0).len(), 0);
        assert_eq!(world.deadline(), Some(31_000));
        assert_eq!(world.tick(30_999).len(), 0);
        let shown = world.tick(31_000);
        assert_eq!(panes(&shown), [("early", 0, 2)]);
        assert_eq!((&shown[0]["lane"], world.books()["open"].as_u64()), (&json!("live"), Some(2)), "still open");
        assert_eq!(world.deadline(), None, "nothing new, nothing to say");
        assert_eq!(world.tick(100_000).len(), 0);
        assert_eq!(world.reading(100_000, 2, 1.0).len(), 0);
        assert_eq!(panes(&world.reading(110_000, 60_000, 1.0)), [("on_time", 1, 3)]);
        assert_eq!(panes(&world.tick(200_000)), [("early", 0, 1)], "the next window; the first was seen as it fired");
    }
}

#[test]
fn an_idle_pane_is_a_look_too_and_early_ones_come_while_the_input_is_not_live() {
    for restarts in RESTARTS {
        let mut world =
            World::new(restarts, &format!("{PROMPT}idle_timeout = \"10s\""), "size = \"60s\"\nearly = \"30s\"");
        world.reading(0, 0, 1.0);
        assert_eq!(panes(&world.tick(10_001)), [("idle", 0, 1)]);
        assert_eq!(world.tick(40_000).len(), 0, "seen");
        world.reading(40_000, 1, 1.0);
        world.event(40_001, Event::InputLive(false));
        if !restarts {
            assert_eq!(panes(&world.tick(70_000)), [("early", 1, 2)], "the clock of early panes does not stand still");
        }
    }
}

#[test]
fn deadlines_that_are_past_are_worked_off_in_their_order() {
    let mut world = World::new(false, &format!("{PROMPT}idle_timeout = \"40s\""), "size = \"1h\"\nearly = \"30s\"");
    world.reading(0, 0, 1.0);
    assert_eq!(panes(&world.tick(100_000)), [("early", 0, 1)], "then the device fell idle, with nothing unseen");
}

#[test]
fn updates_are_gathered_and_come_before_the_window_expires() {
    let window = "size = \"10s\"\nlateness = \"60s\"\nlate_updates = { every = \"5s\" }";
    for restarts in RESTARTS {
        let mut world = World::new(restarts, ALWAYS, window);
        world.reading(0, 1_000, 1.0);
        assert_eq!(panes(&world.reading(0, 20_000, 1.0)), [("on_time", 0, 1)]);
        for number in 0..10 {
            assert_eq!(world.reading(1_000 + number, 2_000, 1.0).len(), 0);
        }
        assert_eq!((world.deadline(), world.books()["late_update"].as_u64()), (Some(6_000), Some(10)));
        let update = world.tick(6_000);
        assert_eq!(panes(&update), [("late", 1, 11)]);
        assert_eq!(update[0]["lane"], "update");
        assert_eq!(world.reading(7_000, 3_000, 1.0).len(), 0);
        let fired = world.reading(8_000, 70_001, 1.0);
        assert_eq!(
            panes(&fired),
            [("on_time", 0, 1), ("late", 2, 12)],
            "the watermark lets it expire; what is new goes first"
        );
        assert_eq!(world.deadline(), None);
    }
}

#[test]
fn a_final_pane_is_the_last_revision_and_takes_a_pending_update_with_it() {
    let window = "size = \"10s\"\nlateness = \"20s\"\nfinal = true\nlate_updates = { every = \"5s\" }";
    for restarts in RESTARTS {
        let mut world = World::new(restarts, ALWAYS, window);
        world.reading(0, 1_000, 1.0);
        assert_eq!(panes(&world.reading(0, 11_000, 1.0)), [("on_time", 0, 1)]);
        assert_eq!(world.reading(0, 2_000, 1.0).len(), 0);
        let last = world.reading(0, 31_000, 1.0);
        assert_eq!(panes(&last), [("on_time", 0, 1), ("final", 1, 2)]);
        assert_eq!(last[0]["lane"], "live");
        assert_eq!(last[1]["lane"], "update");
        assert_eq!(world.deadline(), None);
    }
}

#[test]
fn a_session_that_grows_beyond_the_watermark_shows_its_pending_update_as_an_early_look() {
    let window = "gap = \"3s\"\nlateness = \"60s\"\nlate_updates = { every = \"5s\" }";
    for restarts in RESTARTS {
        let mut world = World::new(restarts, ALWAYS, window);
        world.reading(0, 0, 1.0);
        assert_eq!(panes(&world.reading(0, 10_000, 1.0)), [("on_time", 0, 1)]);
        assert_eq!(world.reading(1_000, 2_000, 1.0).len(), 0, "pending until 6,000");
        for ts in [5_000, 7_500] {
            assert_eq!(world.reading(2_000, ts, 1.0).len(), 0, "it grows into the one that is open");
        }
        let shown = world.tick(6_000);
        assert_eq!(panes(&shown), [("early", 1, 5)]);
        assert_eq!(shown[0]["id"], format!("gw/s/w/a/{START_MS}"));
        assert_eq!(panes(&world.reading(7_000, 100_000, 1.0)), [("on_time", 2, 5)]);
    }
}

#[test]
fn a_session_is_named_by_the_record_that_opened_it_and_no_name_is_used_twice() {
    for restarts in RESTARTS {
        let mut world = World::new(restarts, "disorder = \"2s\"\nidle_timeout = \"off\"", "gap = \"3s\"");
        let mut rows = Vec::new();
        for ts in [0, 8_000, 5_000, 2_000, 0, 20_000] {
            rows.extend(world.reading(0, ts, 1.0));
        }
        let named: Vec<_> = rows
            .iter()
            .filter(|row| row["kind"] == "pane")
            .map(|row| {
                let of = |name: &str| row[name].as_i64().unwrap() - START_MS;
                (
                    row["id"].as_str().unwrap().rsplit('/').next().unwrap().parse::<i64>().unwrap() - START_MS,
                    of("start_ms"),
                    of("end_ms"),
                )
            })
            .collect();
        assert_eq!(named, [(0, 0, 3_000), (8_000, 0, 11_000)], "opened at 8 s, it grew back to 0");
        assert_eq!(world.receiver.counts().conflicts, 0);
        assert_eq!(world.receiver.panes().count(), 2);
    }
}

#[test]
fn a_session_is_never_longer_than_its_maximum() {
    for restarts in RESTARTS {
        let mut world = World::new(restarts, ALWAYS, "gap = \"3s\"\nmax_length = \"5s\"");
        let rows: Vec<_> = (0..8).flat_map(|second| world.reading(0, second * 1_000, 1.0)).collect();
        assert_eq!((rows.len(), &rows[0]["count"]), (1, &json!(5)), "0 to 4 s");
        let rows = world.reading(0, 60_000, 1.0);
        assert_eq!((&rows[0]["count"], &rows[0]["start_ms"]), (&json!(3), &json!(START_MS + 5_000)));
        assert_eq!(rows[0]["end_ms"], json!(START_MS + 10_000));
    }
}

const BACKFILL: &str = "size = \"10s\"\nlate = \"backfill\"";

#[test]
fn a_burst_of_late_records_is_one_delta_for_each_window() {
    for restarts in RESTARTS {
        let mut world = World::new(restarts, ALWAYS, BACKFILL);
        world.reading(0, 1_000, 1.0);
        assert_eq!(panes(&world.reading(0, 100_000, 1.0)), [("on_time", 0, 1)]);
        let count: u64 = if restarts { 30 } else { 10_000 };
        for number in 0..count {
            let ts = i64::try_from(number % 3).unwrap() * 10_000 + 5_000;
            assert_eq!(world.reading(1_000 + number / 10, ts, 2.0).len(), 0);
        }
        let last = 1_000 + (count - 1) / 10;
        assert_eq!(world.books()["backfilled"].as_u64(), Some(count));
        assert_eq!(world.tick(last + 4_999).len(), 0, "not quiet yet");
        let deltas = world.tick(last + 5_000);
        assert_eq!(deltas.len(), 3);
        assert_eq!(deltas.iter().map(|delta| delta["count"].as_u64().unwrap()).sum::<u64>(), count);
        assert_eq!((&deltas[0]["kind"], &deltas[0]["lane"]), (&json!("delta"), &json!("late")));
        assert_eq!(deltas[0]["id"], format!("gw/s/w/a/{START_MS}"));
        assert_eq!((deltas[0].get("rev"), world.deadline()), (None, None));
        let merged = world.receiver.merged(&format!("gw/s/w/a/{START_MS}")).unwrap();
        assert_eq!((merged.count, merged.deltas), (count.div_ceil(3) + 1, 1));
        let alone = world.receiver.merged(&format!("gw/s/w/a/{}", START_MS + 20_000)).unwrap();
        assert_eq!(alone.count, count / 3, "a window without any pane");
    }
}

#[test]
fn deltas_do_not_wait_longer_than_their_age_however_long_the_burst_is() {
    for restarts in RESTARTS {
        let mut world = World::new(restarts, ALWAYS, BACKFILL);
        world.reading(0, 100_000, 1.0);
        for second in 0..=59 {
            assert_eq!(world.reading(1_000 + second * 1_000, 5_000, 2.0).len(), 0);
        }
        assert_eq!(panes(&world.tick(61_000)), [("delta", 0, 60)]);
    }
}

#[test]
fn a_device_that_is_late_everywhere_makes_more_rows_and_no_more_state() {
    let mut world = World::new(false, ALWAYS, BACKFILL);
    world.reading(0, 100_000_000, 1.0);
    let rows: Vec<_> = (0..600).flat_map(|window| world.reading(0, window * 10_000, 1.0)).collect();
    assert_eq!(rows.len(), 512, "twice 256");
    assert_eq!(world.tick(5_000).len(), 88);
}

/// A new process under another definition of the window.
fn redefine(world: &mut World, at: u64, window: &str) -> Vec<Value> {
    world.driver.stop(now(at), &mut |_| ());
    let empty = start(&world.spec, MemorySlots::new(0), now(at));
    let down = std::mem::replace(&mut world.driver, empty);
    world.spec = pipeline(ALWAYS, window);
    world.driver = start(&world.spec, down.into_store().into_slots(), now(at));
    world.deliver(at)
}

#[test]
fn deltas_of_a_window_that_is_defined_anew_come_when_they_are_due() {
    let mut world = World::new(false, ALWAYS, BACKFILL);
    world.reading(0, 100_000, 1.0);
    world.reading(0, 5_000, 1.0);
    let rows = redefine(&mut world, 1, "size = \"20s\"\nlate = \"backfill\"");
    assert!(rows.iter().all(|row| row["kind"] != "delta"), "{rows:?}");
    assert_eq!(panes(&world.tick(10_000)), [("delta", 0, 1)]);
}

#[test]
fn nothing_is_added_to_results_that_were_published_without_accumulators() {
    let mut world = World::new(false, ALWAYS, "size = \"10s\"");
    world.reading(0, 5_000, 1.0);
    world.reading(0, 15_000, 1.0);
    world.reading(0, 25_000, 1.0);
    redefine(&mut world, 1, BACKFILL);
    let raw = world.reading(2, 6_000, 1.0);
    assert_eq!((&raw[0]["kind"], &raw[0]["reason"]), (&json!("late"), &json!("redefined")));
    // The window that was open then publishes its accumulators.
    assert_eq!(panes(&world.reading(3, 31_000, 1.0)), [("on_time", 0, 1)]);
    assert_eq!(world.reading(3, 26_000, 1.0).len(), 0);
    assert_eq!(panes(&world.tick(5_003)), [("delta", 0, 1)]);
    assert_eq!(world.receiver.merged(&format!("gw/s/w/a/{}", START_MS + 20_000)).unwrap().count, 2);
}

/// The law of backfill: the published accumulators of a window, added up, are those of all
/// its records; for sliding windows, in each of them.
#[test]
fn panes_and_deltas_added_up_are_all_records_whatever_comes_when() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (size, slide) = [(10_000, 10_000), (10_000, 5_000), (9_000, 2_000)][usize::try_from(rng.below(3)).unwrap()];
        let lateness = [0, 3_000, 20_000][usize::try_from(rng.below(3)).unwrap()];
        let window = format!(
            "size = \"{size}ms\"\nslide = \"{slide}ms\"\nlateness = \"{lateness}ms\"\nlate = \"backfill\"\n\
             backfill_quiet = \"700ms\"\nbackfill_max_age = \"2s\"\nearly = \"1s\""
        );
        let mut world = World::new(seed % 4 == 0, &format!("{PROMPT}idle_timeout = \"3s\""), &window);
        let mut expected: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
        let (mut at, mut front) = (0, 0_i64);
        for _ in 0..150 {
            at += rng.below(400);
            front += i64::try_from(rng.below(1_500)).unwrap();
            let behind = if rng.chance(3) { i64::try_from(rng.below(60_000)).unwrap() } else { 0 };
            let ts = (front - behind).max(0);
            let v = i32::try_from(rng.below(64)).unwrap();
            world.reading(at, ts, f64::from(v) * 0.25);
            let newest = (START_MS + ts).div_euclid(slide) * slide;
            for start in (0..).map(|back| newest - back * slide).take_while(|start| START_MS + ts < start + size) {
                expected.entry(start).or_default().push(f64::from(v) * 0.25);
            }
        }
        world.tick(at + 10_000);
        let end = now(at + 10_000);
        world.driver.engine_mut().finish(end);
        world.deliver(at + 10_000);
        let ids: Vec<String> = world.receiver.windows().map(str::to_owned).collect();
        assert_eq!(ids.len(), expected.len(), "seed {seed}");
        for (start, values) in &expected {
            let merged = world.receiver.merged(&format!("gw/s/w/a/{start}")).unwrap();
            assert_eq!(merged.count, values.len() as u64, "seed {seed}");
            for (word, accumulator) in &merged.accumulators["v"] {
                let mut whole = accumulator.kind().start();
                for value in values {
                    whole.add(*value, tidegate::model::time::EventTime::from_millis(0));
                }
                match word.as_str() {
                    // Which one was first, tests of aggregates know.
                    "first" => {}
                    "variance" => {
                        let number = |published: Value| published[2].as_f64().unwrap();
                        let (a, b) = (number(accumulator.publish().to_value()), number(whole.publish().to_value()));
                        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "seed {seed}: {a} {b}");
                    }
                    _ => assert_eq!(accumulator.publish(), whole.publish(), "seed {seed}, {word} of {start}"),
                }
            }
        }
    }
}

/// Sessions are what a merge of all records that were taken would give.
#[test]
fn sessions_are_a_naive_merge_of_all_that_was_taken() {
    for seed in 0..60 {
        let mut rng = Rng::new(1_000 + seed);
        let mut world = World::new(seed % 4 == 0, ALWAYS, "gap = \"3s\"\nlateness = \"1h\"");
        let (mut taken, mut front) = (Vec::new(), 0_i64);
        for _ in 0..80 {
            front += i64::try_from(rng.below(4_000)).unwrap();
            let ts = (front - i64::try_from(rng.below(40_000)).unwrap()).max(0);
            world.reading(0, ts, 1.0);
            taken.push(ts);
        }
        world.driver.engine_mut().finish(now(0));
        world.deliver(0);
        taken.sort_unstable();
        let mut naive: Vec<(i64, i64, u64)> = Vec::new();
        for ts in taken {
            match naive.last_mut() {
                Some((_, end, count)) if ts <= *end => (*end, *count) = (ts + 3_000, *count + 1),
                Some(_) | None => naive.push((ts, ts + 3_000, 1)),
            }
        }
        let mut found: Vec<_> = world
            .receiver
            .panes()
            .map(|(_, pane)| {
                let of = |name: &str| pane[name].as_i64().unwrap() - START_MS;
                (of("start_ms"), of("end_ms"), pane["count"].as_u64().unwrap())
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, naive, "seed {seed}");
    }
}

/// In order of event time the rule of the maximum length is a plain cut.
#[test]
fn in_order_a_session_takes_what_comes_before_its_maximum() {
    for seed in 0..40 {
        let mut rng = Rng::new(2_000 + seed);
        let mut world = World::new(seed % 4 == 0, ALWAYS, "gap = \"3s\"\nmax_length = \"8s\"");
        let (mut ts, mut naive) = (0_i64, Vec::<(i64, i64, u64)>::new());
        for _ in 0..80 {
            ts += i64::try_from(rng.below(4_000)).unwrap();
            world.reading(0, ts, 1.0);
            match naive.last_mut() {
                Some((start, end, count)) if ts <= *end && ts < *start + 8_000 => {
                    (*end, *count) = ((ts + 3_000).min(*start + 8_000), *count + 1);
                }
                Some(_) | None => naive.push((ts, ts + 3_000, 1)),
            }
        }
        world.driver.engine_mut().finish(now(0));
        world.deliver(0);
        let mut found: Vec<_> = world
            .receiver
            .panes()
            .map(|(_, pane)| {
                let of = |name: &str| pane[name].as_i64().unwrap() - START_MS;
                (of("start_ms"), of("end_ms"), pane["count"].as_u64().unwrap())
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, naive, "seed {seed}");
    }
}
