//! What the engine may hold has room in the store: everything at its bound, in the form
//! that takes most bytes, and nothing that a compressor could find.

use std::fmt::Write as _;

use tidegate::agent::store::{ZSTD, open};
use tidegate::engine::aggregate::{Aggregates, Kind};
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::MemorySlots;
use tidegate::engine::ring::Ring;
use tidegate::engine::spec::{PipelineSpec, StreamSpec, WatermarkSpec, WindowKind, WindowSpec};
use tidegate::engine::store::Store;
use tidegate::model::ids::{FieldIx, Name};
use tidegate::model::limits::{BORDERS_COST_MAX, DEVICES_MAX, LISTENER_COST_MAX, OUTBOX_MEMORY_MAX, STATE_COST_MAX};
use tidegate::model::record::Record;
use tidegate::model::template::Template;
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, Span, WallTime};
use tidegate::model::topic::TopicPattern;

use crate::random::Random;

const START_MS: i64 = 1_790_000_000_000;

pub(crate) fn now() -> Now {
    Now { proc: ProcTime::default(), wall: WallTime::from_millis(START_MS), quality: ClockQuality::Synced }
}

pub(crate) fn pipeline() -> PipelineSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("s/{device}").unwrap();
    let device = Template::parse("{device}", &topic).unwrap();
    let kind = WindowKind::Tumbling { size: Span::from_millis(997), offset_ms: 0 };
    let aggregates = Aggregates::of(&[Kind::Sum, Kind::Mean, Kind::Variance, Kind::Stddev]);
    let stream = StreamSpec {
        devices_max: DEVICES_MAX,
        watermark: WatermarkSpec::bounded(Span::from_secs(40_000)),
        carry_forward: Some(Span::from_secs(3_600)),
        windows: vec![WindowSpec { aggregates, ..WindowSpec::new(name("w"), kind) }],
        ..StreamSpec::new(name("s"), topic, device)
    };
    PipelineSpec::new(name("gw"), vec![stream])
}

/// A number whose bits nobody can guess, and whose sum rounds something away.
fn noise(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / 1_234_567.0
}

#[test]
fn everything_at_its_bound_has_room_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::start(pipeline(), open(dir.path()).unwrap(), now()).unwrap();
    let mut random = Random(3);
    let (value, other) = {
        let engine = driver.engine_mut();
        (engine.field(0, "value").unwrap(), engine.field(0, "other").unwrap())
    };
    let take = |driver: &mut Driver<_>, device: &str, millis: i64, random: &mut Random| {
        let at = EventTime::from_millis(START_MS + millis);
        let values: [(FieldIx, f64); 2] = [(value, noise(random)), (other, noise(random))];
        driver.engine_mut().handle_record(now(), 0, &Record::new(device, at, &values));
    };
    // Devices until there is no room, with the longest names, one window each ...
    let mut names = Vec::new();
    while names.len() % 4_096 != 0 || driver.status(now()).streams[0].ledger.rejected == 0 {
        let mut name = String::new();
        (0..8).for_each(|_| write!(name, "{:016x}", random.next()).unwrap());
        take(&mut driver, &name, 0, &mut random);
        take(&mut driver, &name, 1, &mut random);
        names.push(name);
    }
    // ... then windows, and then the outbox fills with what finds no room.
    let mut step = 1;
    while driver.engine().outbox().memory() < OUTBOX_MEMORY_MAX * 9 / 10 {
        for name in &names[..30_000] {
            for again in 0..2 {
                take(&mut driver, name, step * 997 + again, &mut random);
            }
        }
        step += 1;
        assert!(step < 30, "the outbox fills");
    }
    let state = driver.engine().snapshot(now());
    assert!(state.len() <= STATE_COST_MAX);
    // Here there is no listener, and nothing was configured anew.
    let most = STATE_COST_MAX - LISTENER_COST_MAX - BORDERS_COST_MAX;
    assert!(state.len() > most / 2, "nearly: {}", state.len());

    driver.stop(now(), &mut |_| ());
    assert_eq!(driver.storage_status().failure, None);
    // What waited for the uplink is on the chain now.
    let state = driver.engine().snapshot(now());
    assert_eq!(driver.engine().outbox().held(tidegate::engine::outbox::LaneKind::Alarm), 0);
    drop(driver);
    let blobs = std::fs::read_dir(dir.path().join("pages/blobs")).map_or(0, Iterator::count);
    assert_eq!(blobs, 0, "every value is within the database");
    let loaded = open(dir.path()).unwrap().load().unwrap();
    assert_eq!(loaded.damage.len(), 0);
    assert!(loaded.snapshot.unwrap() == state, "byte for byte");
}

#[test]
fn the_largest_state_of_noise_fits_the_slots() {
    let mut random = Random(4);
    let state: Vec<u8> =
        (0..tidegate::engine::ring::STATE_BYTES_MAX / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let mut ring = Ring::new(MemorySlots::new(1), ZSTD);
    ring.snapshot(&state).unwrap();
    assert!(ring.snapshot(&[&state[..], &[1]].concat()).is_err(), "one byte more does not");
}
