//! Samples of what is rejected: what is taken, what a replay does with it, and that the books
//! balance all the time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use tidegate::config::check::check_for_replay;
use tidegate::engine::driver::Driver;
use tidegate::engine::encode::record_json;
use tidegate::engine::memory_store::{MemorySlots, MemoryStore};
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::samples::{Outcome, Part, Replay, Replayed, Sample, Verdict};
use tidegate::engine::status::StreamStatus;
use tidegate::engine::step::{DeliveryTag, Effect, Event, Message};
use tidegate::model::limits::{SAMPLE_BYTES_MAX, SAMPLES_PENDING_MAX};
use tidegate::model::record::RejectReason;
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

const START_MS: i64 = 1_773_480_000_000;
const DEVICE_TIME: &str = "time = { field = \"/ts\", unit = \"ms\" }";
const RECEIVE_TIME: &str = "time = { source = \"receive\" }";

struct World {
    driver: Driver<MemoryStore>,
    millis: u64,
    packet: u16,
}

fn driver(store: MemoryStore, stream: &str, millis: u64) -> Driver<MemoryStore> {
    let text = format!(
        "[gateway]\nid = \"gw\"\n[[streams]]\nname = \"s\"\ntopic = \"d/{{device}}\"\nfields = {{ v = \"/v\" }}\n\
         {stream}\n[[streams.windows]]\nname = \"w\"\nsize = \"10s\"\nlateness = \"1h\"\n"
    );
    let config = check_for_replay(&text, "test.toml").unwrap_or_else(|refused| panic!("{refused}")).config;
    Driver::start(config, store, now(millis)).unwrap()
}

fn now(millis: u64) -> Now {
    let wall = WallTime::from_millis(START_MS + i64::try_from(millis).unwrap());
    Now { proc: ProcTime::from_millis(millis), wall, quality: ClockQuality::Synced }
}

impl World {
    fn new(stream: &str) -> World {
        World { driver: driver(Ring::new(MemorySlots::new(1), Packing::NONE), stream, 0), millis: 0, packet: 0 }
    }

    /// The configuration is mended and the agent started again.
    fn with(mut self, stream: &str) -> World {
        self.driver.stop(now(self.millis), &mut |_| ());
        let slots = self.driver.into_store().into_slots().reopen();
        let millis = self.millis + 60_000;
        World { driver: driver(Ring::new(slots, Packing::NONE), stream, millis), millis, ..self }
    }

    fn message(&mut self, topic: &str, payload: &[u8]) {
        self.packet = self.packet.wrapping_add(1).max(1);
        let tag = Some(DeliveryTag { connection: 1, packet: self.packet });
        let message = Message { topic, payload, retain: false, dup: false, tag };
        self.driver.handle(now(self.millis), Event::Message(message));
        assert!(self.driver.engine().balances());
    }

    fn samples(&mut self) -> Vec<Sample> {
        assert_eq!(self.driver.take_samples(), [], "none before the commit");
        self.driver.engine_mut().mark_committed(None);
        self.driver.take_samples()
    }

    fn one_sample(&mut self) -> Sample {
        let mut samples = self.samples();
        assert_eq!(samples.len(), 1, "{samples:?}");
        samples.remove(0)
    }

    fn replay(&mut self, sample: &Sample) -> Verdict {
        let replay = Replay {
            id: 7,
            topic: &sample.topic,
            payload: &sample.payload,
            retain: sample.retain,
            received: sample.received,
            part: sample.part,
        };
        self.driver.handle(now(self.millis), Event::Replay(replay));
        assert!(self.driver.engine().balances());
        let mut told = Vec::new();
        self.driver.advance(now(self.millis), &mut |effect| {
            if let Effect::Replayed(replayed) = effect {
                told.push(replayed);
            }
        });
        assert_eq!(told.len(), 1, "at once, and once");
        assert!(self.driver.engine().is_committed(), "not before it is durable");
        let Replayed { id, verdict } = told.remove(0);
        assert_eq!(id, 7);
        verdict
    }

    fn status(&self) -> StreamStatus {
        self.driver.status(now(self.millis)).streams[0].clone()
    }

    fn rows(&self) -> Vec<Value> {
        let rows = self.driver.engine().outbox().rows_since(0).into_iter();
        rows.map(|(_, _, seq, row)| serde_json::from_slice(&record_json("gw", seq, &row)).unwrap()).collect()
    }
}

fn taken(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Taken(outcome) => outcome,
        other @ (Verdict::NoStream | Verdict::OtherRecords) => panic!("{other:?}"),
    }
}

#[test]
fn a_sample_says_what_came_when_and_what_may_be_wrong() {
    let mut world = World::new(DEVICE_TIME);
    world.millis = 1_234;
    let payload = format!(r#"{{"ts":{},"v":1}}"#, START_MS / 1_000);
    world.message("d/a", payload.as_bytes());
    let sample = world.one_sample();
    assert_eq!((sample.stream.as_str(), sample.topic.as_str()), ("s", "d/a"));
    assert_eq!((sample.reason, sample.part), (RejectReason::BeforeMinTime, Part::Whole));
    assert_eq!((sample.received, sample.retain), (now(1_234).wall, false));
    assert_eq!((sample.payload.as_slice(), sample.is_whole), (payload.as_bytes(), true));
    assert_eq!(sample.hint.as_deref(), Some("looks like seconds, configured ms"));
    assert_eq!(world.samples(), [], "once");
    world.message("d/a", format!(r#"{{"ts":{START_MS},"v":1}}"#).as_bytes());
    assert_eq!(world.samples(), [], "what is accepted is nobody's business");
}

#[test]
fn what_is_long_is_cut_and_the_full_length_is_known() {
    let mut world = World::new(RECEIVE_TIME);
    world.message("d/a", &vec![b'x'; 300 * 1024]);
    let sample = world.one_sample();
    assert_eq!((sample.reason, sample.payload_bytes), (RejectReason::TooLarge, 300 * 1024));
    assert_eq!((sample.topic.len() + sample.payload.len(), sample.is_whole), (SAMPLE_BYTES_MAX, false));
    world.message(&format!("d/{}", "y".repeat(30_000)), b"[");
    let sample = world.one_sample();
    assert_eq!((sample.reason, sample.is_whole), (RejectReason::BadDevice, false));
    assert!(sample.topic.len() + sample.payload.len() <= SAMPLE_BYTES_MAX);
}

#[test]
fn a_flood_is_sampled_rarely_and_counted_exactly() {
    const MESSAGES: u64 = 200_000;
    let mut world = World::new(RECEIVE_TIME);
    let mut samples = 0;
    for _ in 0..MESSAGES {
        world.millis += 100;
        world.message("d/a", b"garbage");
        samples += world.samples().len() as u64;
    }
    // 5 h 33 min of it: 4 at once, 6 in the first hours, then one an hour.
    assert_eq!(samples, 14);
    let status = world.status();
    assert_eq!((status.samples.kept, status.samples.dropped), (14, MESSAGES - 14));
    assert_eq!(status.ledger.rejected, MESSAGES);
}

#[test]
fn nobody_who_takes_them_means_no_more_are_made() {
    let mut world = World::new(DEVICE_TIME);
    for n in 0..100 {
        // Four reasons, of which each may be sampled four times at once.
        let payload = ["{", "[]", "{}", "7", "{\"ts\":1,\"v\":1}", "{\"ts\":[]}", ""][n % 7];
        world.message("d/a", payload.as_bytes());
    }
    assert_eq!(world.samples().len(), SAMPLES_PENDING_MAX);
    let status = world.status();
    assert_eq!(status.samples.kept, SAMPLES_PENDING_MAX as u64);
    assert_eq!(status.samples.kept + status.samples.dropped, status.ledger.rejected);
}

#[test]
fn a_mended_configuration_takes_the_sample_in_once_more_and_the_books_say_so() {
    let mut world = World::new(DEVICE_TIME);
    world.message("d/a", format!(r#"{{"ts":{},"v":1}}"#, START_MS / 1_000).as_bytes());
    let sample = world.one_sample();
    let again = taken(world.replay(&sample));
    assert_eq!((again.accepted, again.rejected, again.rest), (0, 1, Some(Part::Whole)));
    assert_eq!((again.reason, again.hint.is_some()), (Some(RejectReason::BeforeMinTime), true));
    assert_eq!(world.samples(), [], "a replay is not sampled");

    let mut world = world.with("time = { field = \"/ts\", unit = \"s\" }");
    let outcome = taken(world.replay(&sample));
    assert_eq!(outcome, Outcome { accepted: 1, ..Outcome::default() });
    let status = world.status();
    assert_eq!((status.ledger.received, status.ledger.rejected, status.ledger.accepted), (3, 2, 1));
    assert_eq!((status.samples.replayed, status.ledger.unprotected), (1, 0));
    assert_eq!(status.windows[0].open, 1);
}

#[test]
fn what_comes_too_late_for_its_window_by_now_is_told() {
    let mut world = World::new(DEVICE_TIME);
    world.message("d/a", br#"{"v":1}"#);
    let sample = world.one_sample();
    world.millis += 2 * 3_600_000;
    world.message("d/a", format!(r#"{{"ts":{},"v":2}}"#, START_MS + 2 * 3_600_000).as_bytes());
    let mut world = world.with("time = { field = \"/ts\", unit = \"ms\", missing = \"receive\" }");
    let outcome = taken(world.replay(&sample));
    assert_eq!((outcome.accepted, outcome.late, outcome.rest), (1, 1, None));
    assert!(world.rows().iter().any(|row| row["kind"] == "late" && row["received_ms"] == START_MS));
}

#[test]
fn f117_a_replay_has_the_receive_time_of_then() {
    let mut world = World::new(DEVICE_TIME);
    world.millis = 3_000;
    world.message("d/a", br#"{"v":1}"#);
    let sample = world.one_sample();
    assert_eq!(sample.reason, RejectReason::MissingTime);
    let mut world = world.with("time = { source = \"receive\" }\nrecords = \"arrival\"");
    assert_eq!(taken(world.replay(&sample)).accepted, 1);
    let row = world.rows().into_iter().find(|row| row["kind"] == "record").unwrap();
    let then = START_MS + 3_000;
    assert_eq!((row["event_ms"].as_i64(), row["received_ms"].as_i64()), (Some(then), Some(then)));
}

#[test]
fn of_a_message_that_was_taken_in_in_part_a_replay_takes_only_the_rest() {
    let mut world = World::new(DEVICE_TIME);
    let payload = format!(r#"[{{"ts":{START_MS},"v":1}},{{"ts":{START_MS},"v":"7"}},{{"v":3}},{{"v":4}}]"#);
    world.message("d/a", payload.as_bytes());
    assert_eq!((world.status().ledger.accepted, world.status().ledger.rejected), (2 - 1, 3));
    let samples = world.samples();
    let found: Vec<_> = samples.iter().map(|sample| (sample.reason, sample.part)).collect();
    let part = |places| Part::Records { of: 4, places };
    assert_eq!(found, [(RejectReason::WrongType, part(0b0010)), (RejectReason::MissingTime, part(0b1100))]);

    let missing = "time = { field = \"/ts\", unit = \"ms\", missing = \"receive\" }";
    let mut world = world.with(missing);
    let outcome = taken(world.replay(&samples[1]));
    assert_eq!((outcome.accepted, outcome.rejected, outcome.rest), (2, 0, None));
    let outcome = taken(world.replay(&samples[0]));
    assert_eq!((outcome.accepted, outcome.rejected, outcome.rest), (0, 1, Some(part(0b0010))));
    assert_eq!(world.status().ledger.accepted, 3, "the first record is not counted again");

    let before = world.status();
    let mut other = samples[0].clone();
    other.payload = br#"[{"v":7}]"#.to_vec();
    assert_eq!(world.replay(&other), Verdict::OtherRecords, "one record where there were four");
    assert_eq!(world.status(), before, "nothing was counted");
}

#[test]
fn what_a_replay_takes_in_only_in_part_keeps_the_rest() {
    let mut world = World::new("time = { field = \"/t\", unit = \"ms\" }");
    let payload = format!(r#"[{{"ts":{START_MS},"v":1}},{{"v":"x"}}]"#);
    world.message("d/a", payload.as_bytes());
    let mut sample = world.one_sample();
    assert_eq!(sample.part, Part::Whole);
    let mut world = world.with(DEVICE_TIME);
    let outcome = taken(world.replay(&sample));
    let rest = Part::Records { of: 2, places: 0b10 };
    assert_eq!((outcome.accepted, outcome.rejected, outcome.rest), (1, 1, Some(rest)));
    sample.part = rest;
    let outcome = taken(world.replay(&sample));
    assert_eq!((outcome.accepted, outcome.rejected, outcome.rest), (0, 1, Some(rest)));
}

#[test]
fn a_topic_of_no_stream_is_told_and_not_counted() {
    let mut world = World::new(RECEIVE_TIME);
    world.message("d/a", b"garbage");
    let mut sample = world.one_sample();
    sample.topic = "elsewhere".to_owned();
    let before = world.status();
    assert_eq!(world.replay(&sample), Verdict::NoStream);
    assert_eq!(world.status(), before);
}
