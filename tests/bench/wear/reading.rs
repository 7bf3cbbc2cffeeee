//! What one reading costs the flash: 1,000 readings a second of 1,000 devices with
//! three open windows each, 20 outbox records a second, a commit a second.
//!
//! A device reports once a second on average, in random order, a number with two
//! decimals; count, sum, mean, min and max of it are kept. Event times lie anywhere within the bound, so that every one of the
//! 3,000 windows is written to. The clocks of the devices are 50 ms apart: 20 windows
//! are over each second, not 1,000 at once.

use std::fmt::Write as _;

use tidegate::engine::aggregate::{Aggregates, Kind};
use tidegate::engine::spec::{
    CommitSpec, FieldsSpec, FormatSpec, OnIdle, PipelineSpec, StreamSpec, TimeCandidate, TimeFallback, TimeFormat,
    TimeSpec, TimeUnit, WatermarkSpec, WindowKind, WindowSpec,
};
use tidegate::model::ids::Name;
use tidegate::model::rng::Rng;
use tidegate::model::time::Span;
use tidegate::model::topic::{DeviceTemplate, TopicPattern};

use crate::Options;
use crate::gateway::{EPOCH_MS, Gateway};
use crate::loop_device::LoopDevice;
use crate::process::figure;

const DEVICES: u64 = 1_000;
const WINDOW_S: u64 = 50;
/// Between the clocks of two devices.
const APART_MS: u64 = WINDOW_S * 1_000 / DEVICES;
/// Until the store has its size, as fast as it goes. While a file grows, each commit costs
/// the file system's metadata too: some 10 bytes more for each reading, for half an hour.
const WARM_UP_S: u64 = 40 * 60;

pub(crate) fn measure(options: &Options) {
    for (name, online) in [("wear.bytes_per_reading", true), ("wear.bytes_per_reading.outage", false)] {
        let device = match LoopDevice::make() {
            Ok(device) => device,
            Err(why) => return println!("# no {name}: {why}"),
        };
        let mut load = Load::start(&device, online);
        load.run(WARM_UP_S);
        load.gateway.set_pace(options.pace);
        let (before, ours_before) = (device.bytes_written(), load.gateway.storage());
        let queued_before = load.gateway.queued().0;
        load.run(options.seconds);
        let (after, ours) = (device.bytes_written(), load.gateway.storage());
        load.gateway.check();
        let readings = (options.seconds * DEVICES) as f64;
        figure(name, (after - before) as f64 / readings, "B");
        let written = ours.bytes_written - ours_before.bytes_written;
        figure(&format!("{name}.ours"), written as f64 / readings, "B");
        println!(
            "# {} readings/s, {:.1} records/s, {} commits, {} snapshots, {} open windows, factor {:.3}",
            DEVICES,
            (load.gateway.queued().0 - queued_before) as f64 / options.seconds as f64,
            ours.commits - ours_before.commits,
            ours.snapshots - ours_before.snapshots,
            load.gateway.open_windows(),
            (after - before) as f64 / written as f64,
        );
    }
}

struct Load {
    gateway: Gateway,
    random: Rng,
    payload: String,
}

impl Load {
    fn start(device: &LoopDevice, online: bool) -> Load {
        let mut gateway = Gateway::start(device, pipeline());
        gateway.set_online(online);
        Load { gateway, random: Rng::new(11), payload: String::new() }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1_000 {
            let device = self.random.below(DEVICES);
            let ago = self.random.below(2 * WINDOW_S * 1_000);
            let at = EPOCH_MS + i64::try_from(self.gateway.millis() + device * APART_MS).unwrap()
                - i64::try_from(ago).unwrap();
            let value = self.random.below(6_000) as f64 * 0.01;
            self.payload.clear();
            write!(self.payload, "{{\"ts\":{at},\"temperature\":{value:.2}}}").unwrap();
            self.gateway.take(&format!("bench/device-{device:04}"), &self.payload);
            self.gateway.tick();
        }
    }
}

fn pipeline() -> PipelineSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("bench/{device}").unwrap();
    let device = DeviceTemplate::parse("{device}", &topic).unwrap();
    let kind = WindowKind::Tumbling { size: Span::from_secs(WINDOW_S), offset_ms: 0 };
    let kinds = [Kind::Count, Kind::Sum, Kind::Mean, Kind::Min, Kind::Max];
    let window = WindowSpec { aggregates: Aggregates::of(&kinds), ..WindowSpec::new(name("50s"), kind) };
    let field = |text: &str| (name(text), format!("/{text}"));
    let stream = StreamSpec {
        format: FormatSpec::Json(FieldsSpec::Named(vec![field("temperature")])),
        time: TimeSpec::Fields {
            candidates: vec![TimeCandidate { pointer: "/ts".into(), format: TimeFormat::Epoch(TimeUnit::Millis) }],
            missing: TimeFallback::Reject,
            bad: TimeFallback::Reject,
        },
        watermark: WatermarkSpec {
            idle_timeout: Some(Span::from_secs(60)),
            ..WatermarkSpec::bounded(Span::from_secs(2 * WINDOW_S))
        },
        on_idle: OnIdle::Emit,
        windows: vec![window],
        ..StreamSpec::new(name("bench"), topic, device)
    };
    let commit = CommitSpec { interval: Span::from_secs(1), snapshot_interval: Span::from_secs(120), budget: None };
    PipelineSpec { commit, ..PipelineSpec::new(name("gw"), vec![stream]) }
}
