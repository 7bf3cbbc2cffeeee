//! What an outage costs the flash, and what is left of it afterwards: a million readings
//! that are passed on as they are, a thousand a second, while the cloud is away; then it
//! is back and takes all of them.
//!
//! Logical bytes are those that the records have as published, in JSON.

use std::fmt::Write as _;

use tidegate::engine::spec::{
    FieldsSpec, FormatSpec, PipelineSpec, Records, StreamSpec, TimeCandidate, TimeFallback, TimeFormat, TimeSpec,
    TimeUnit,
};
use tidegate::model::ids::Name;
use tidegate::model::rng::Rng;
use tidegate::model::topic::{DeviceTemplate, TopicPattern};

use crate::Options;
use crate::gateway::{EPOCH_MS, Gateway};
use crate::loop_device::{LoopDevice, bytes_on_disk};
use crate::process::figure;

const RECORDS: u64 = 1_000_000;
const DEVICES: u64 = 1_000;
/// Until all is gone: an hour of the store's time is far more than it takes.
const DRAIN_MS: u64 = 3_600_000;

pub(crate) fn measure(_options: &Options) {
    let device = match LoopDevice::make() {
        Ok(device) => device,
        Err(why) => return println!("# no wear.outbox_ratio, no wear.drained_left_mib: {why}"),
    };
    let mut gateway = Gateway::start(&device, pipeline());
    let (mut random, mut payload) = (Rng::new(5), String::new());
    let before = device.bytes_written();
    for number in 0..RECORDS {
        let at = EPOCH_MS + i64::try_from(gateway.millis()).unwrap();
        let mut draw = |bound: u64| random.below(bound) as f64 * 0.01;
        let (temperature, humidity, pressure) = (draw(6_000), draw(10_000), draw(110_000));
        payload.clear();
        write!(
            payload,
            "{{\"ts\":{at},\"temperature\":{temperature:.2},\"humidity\":{humidity:.2},\"pressure\":{pressure:.2}}}"
        )
        .unwrap();
        gateway.take(&format!("bench/device-{:04}", number * 7 % DEVICES), &payload);
        gateway.tick();
    }
    gateway.stop();
    let filled = device.bytes_written() - before;
    let (queued, evicted) = gateway.queued();
    let (stored, on_disk) = (gateway.outbox_bytes(), bytes_on_disk(&device.path().join("state")) - kept_free(&device));
    assert_eq!((queued, evicted), (RECORDS, 0), "all of it was kept");

    gateway.set_online(true);
    let until = gateway.millis() + DRAIN_MS;
    while gateway.published.0 < RECORDS && gateway.millis() < until {
        gateway.advance();
        gateway.tick();
    }
    assert_eq!(gateway.published.0, RECORDS, "all of it was taken");
    // The last acknowledgements are committed, and the space is given back.
    (0..2_000).for_each(|_| gateway.tick());
    gateway.stop();
    gateway.check();
    let logical = gateway.published.1;
    let drained = device.bytes_written() - before - filled;
    figure("wear.outbox_ratio", filled as f64 / logical as f64, "1");
    figure("wear.outbox_ratio.per_stored_byte", filled as f64 / stored as f64, "1");
    figure("wear.outbox_ratio.drain", drained as f64 / logical as f64, "1");
    // What is kept free for a full disk is there before and after.
    let left = bytes_on_disk(&device.path().join("state")) - kept_free(&device);
    figure("wear.outbox_full_mib", on_disk as f64 / 1_048_576.0, "MiB");
    figure("wear.drained_left_mib", left as f64 / 1_048_576.0, "MiB");
    let outbox = bytes_on_disk(&device.path().join("state/outbox"));
    figure("wear.drained_left_mib.outbox", outbox as f64 / 1_048_576.0, "MiB");
    println!("# {:.1} bytes a record as JSON, {:.1} stored", per_record(logical), per_record(stored));
}

/// The file that gives its space when the disk is full.
fn kept_free(device: &LoopDevice) -> u64 {
    std::fs::metadata(device.path().join("state/reserve")).map_or(0, |found| found.len())
}

fn per_record(bytes: u64) -> f64 {
    bytes as f64 / RECORDS as f64
}

fn pipeline() -> PipelineSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("bench/{device}").unwrap();
    let device = DeviceTemplate::parse("{device}", &topic).unwrap();
    let field = |text: &str| (name(text), format!("/{text}"));
    let fields = ["temperature", "humidity", "pressure"].map(field).to_vec();
    let stream = StreamSpec {
        format: FormatSpec::Json(FieldsSpec::Named(fields)),
        time: TimeSpec::Fields {
            candidates: vec![TimeCandidate { pointer: "/ts".into(), format: TimeFormat::Epoch(TimeUnit::Millis) }],
            missing: TimeFallback::Reject,
            bad: TimeFallback::Reject,
        },
        records: Records::Arrival,
        ..StreamSpec::new(name("bench"), topic, device)
    };
    let mut pipeline = PipelineSpec::new(name("gw"), vec![stream]);
    pipeline.outbox.bytes_max = 1 << 30;
    pipeline
}
