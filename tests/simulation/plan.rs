//! What the world of one seed is like: its pipeline, its broker, its faults.

use tidegate::engine::aggregate::{Aggregates, Kind};
use tidegate::engine::encode::Encoding;
use tidegate::engine::spec::{
    CommitSpec, FieldsSpec, FormatSpec, JoinKind, JoinSpec, KeySpec, LatePolicy, LateUpdates, OnIdle, PipelineSpec,
    Resume, Scope, StreamSpec, TimeFallback, TimeFormat, TimeSpec, WatermarkSpec, WindowKind, WindowRef, WindowSpec,
};
use tidegate::engine::window::calendar::{CalendarUnit, Zone};
use tidegate::model::ids::Name;
use tidegate::model::rng::Rng;
use tidegate::model::time::{EventTime, Span};
use tidegate::model::topic::{DeviceTemplate, TopicPattern};

/// Times before this are rejected in streams that have a `min_time`: 2000-01-01.
pub(crate) const MIN_TIME_MS: i64 = 946_684_800_000;

/// One seed's parameters. Drawn from a sequence of their own, so that a change
/// of the world's behaviour does not change them.
pub(crate) struct Plan {
    pub spec: PipelineSpec,
    pub start_wall_ms: i64,
    pub actions: u64,
    /// Devices per stream.
    pub devices: u64,
    /// The broker's in-flight window.
    pub window: usize,
    pub ids: PacketIds,
    pub session: SessionLoss,
    pub faults: Faults,
    /// The configuration changes now and then, in ways that change no result.
    pub reconfigures: bool,
    /// The cloud's acknowledgements overtake each other.
    pub acks_out_of_order: bool,
    /// Devices measure at whole multiples of this only: times that coincide, and
    /// sessions that just touch.
    pub grain_ms: i64,
    /// Every second device of a stream with a common minimum is behind by this.
    pub lag_ms: i64,
}

/// How the broker numbers its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketIds {
    /// Upwards from this one, around at 65,535.
    Sequential { first: u16 },
    /// The lowest that is free.
    LowestFree,
}

/// What a reconnect may find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SessionLoss {
    /// The session is always kept.
    Never,
    /// Sometimes it is lost, with all that waited in it.
    MessagesGone,
    /// Sometimes it is lost, and what waited is sent again as if it were new.
    ResentUnmarked,
}

/// Which troubles occur at all.
#[expect(clippy::struct_excessive_bools, reason = "each is drawn on its own")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub torn_connections: bool,
    pub crashes: bool,
    pub failed_writes: bool,
    pub full_disk: bool,
    pub cloud_outages: bool,
}

impl Plan {
    /// The plan that `seed` names.
    pub(crate) fn new(seed: u64) -> Plan {
        let mut rng = Rng::fork(seed, 1);
        let idle_allowed = !rng.chance(3);
        let streams = rng.between(1, 3);
        let mut spec = PipelineSpec {
            gateway: name("gw-1"),
            topic_prefix: "tidegate".to_owned(),
            encoding: if rng.chance(3) { Encoding::Cbor } else { Encoding::Json },
            outbox_bytes_max: if rng.chance(4) {
                as_len(pick(&mut rng, &[400, 900, 2_000, 5_000, 9_000]))
            } else {
                1 << 30
            },
            streams: (0..streams).map(|index| stream(&mut rng, index, idle_allowed)).collect(),
            joins: Vec::new(),
            commit: CommitSpec {
                interval: Span::from_millis(pick(&mut rng, &[1, 20, 200, 1_000])),
                snapshot_interval: Span::from_millis(pick(&mut rng, &[150, 2_000, 60_000])),
            },
        };
        spec.joins = joins(seed, &mut spec.streams);
        let calm = rng.chance(12);
        Plan {
            spec,
            start_wall_ms: 1_700_000_000_000 + as_ms(rng.below(100_000_000)),
            actions: rng.between(150, 700),
            devices: rng.between(1, 6),
            window: as_len(pick(&mut rng, &[1, 2, 5, 20, 20, 100, 1_000])),
            ids: if rng.chance(2) {
                PacketIds::LowestFree
            } else {
                PacketIds::Sequential { first: if rng.chance(2) { 1 } else { 65_500 } }
            },
            session: match rng.below(6) {
                0 => SessionLoss::MessagesGone,
                1 => SessionLoss::ResentUnmarked,
                _ => SessionLoss::Never,
            },
            faults: Faults {
                torn_connections: !calm && !rng.chance(8),
                crashes: !calm && !rng.chance(8),
                failed_writes: !calm && rng.chance(2),
                full_disk: !calm && rng.chance(3),
                cloud_outages: !calm && !rng.chance(4),
            },
            reconfigures: rng.chance(3),
            acks_out_of_order: rng.chance(3),
            grain_ms: as_ms(pick(&mut rng, &[1, 1, 50, 200])),
            lag_ms: as_ms(pick(&mut rng, &[0, 4_000, 20_000])),
        }
    }

    /// Another order of windows and fields, and perhaps a field that nobody sends.
    pub(crate) fn reorder(&mut self, rng: &mut Rng) {
        for stream in &mut self.spec.streams {
            if rng.chance(2) {
                stream.windows.reverse();
            }
            let FormatSpec::Json(FieldsSpec::Named(fields)) = &mut stream.format else { continue };
            fields.retain(|(name, _)| name.as_str() != "x");
            if rng.chance(2) {
                fields.reverse();
            }
            if rng.chance(2) {
                let place = as_len(rng.below(3));
                fields.insert(place, (name("x"), "/x".to_owned()));
            }
        }
    }

    /// Evictions may happen.
    pub(crate) fn small_outbox(&self) -> bool {
        self.spec.outbox_bytes_max < 1 << 20
    }

    /// Time alone changes nothing that is persisted: a deadline is what was left of it at
    /// the last commit.
    pub(crate) fn has_deadlines(&self) -> bool {
        let by_clock = |window: &WindowSpec| {
            window.early.is_some() || window.late.is_backfill() || window.late_updates != LateUpdates::Each
        };
        let of = |stream: &StreamSpec| stream.watermark.idle_timeout.is_some() || stream.windows.iter().any(by_clock);
        !self.spec.joins.is_empty() || self.spec.streams.iter().any(of)
    }
}

fn stream(rng: &mut Rng, index: u64, idle_allowed: bool) -> StreamSpec {
    let topic = TopicPattern::parse(&format!("s{index}/{{device}}")).expect("a valid pattern");
    let named = || vec![(name("v"), "/v".to_owned()), (name("a"), "/a".to_owned())];
    let windows = rng.between(1, 3);
    let idle = pick(rng, &[0, 400, 3_000]);
    let idle_timeout = (idle_allowed && idle > 0).then(|| Span::from_millis(idle));
    let device = DeviceTemplate::parse("{device}", &topic).expect("a valid template");
    let mut spec = StreamSpec {
        format: FormatSpec::Json(if rng.chance(3) { FieldsSpec::All } else { FieldsSpec::Named(named()) }),
        time: time(rng),
        watermark: WatermarkSpec {
            idle_timeout,
            ..WatermarkSpec::bounded(Span::from_millis(pick(rng, &[0, 50, 500, 3_000])))
        },
        on_idle: if rng.chance(3) { OnIdle::Hold } else { OnIdle::Emit },
        max_future: (!rng.chance(5)).then(|| Span::from_millis(pick(rng, &[0, 2_000, 300_000]))),
        min_time: (!rng.chance(3)).then(|| EventTime::from_millis(MIN_TIME_MS)),
        devices_max: if rng.chance(6) { 2 } else { 100 },
        ..StreamSpec::new(name(&format!("stream{index}")), topic, device)
    };
    spec.watermark.scope = scope(rng);
    spec.windows = (0..windows).map(|window| self::window(rng, window)).collect();
    spec
}

/// Joins of the first two streams; their first windows are made alike.
fn joins(seed: u64, streams: &mut [StreamSpec]) -> Vec<JoinSpec> {
    let mut rng = Rng::fork(seed, 7);
    let [first, second, ..] = streams else { return Vec::new() };
    if rng.chance(2) {
        return Vec::new();
    }
    let ttl = Span::from_millis(pick(&mut rng, &[1_000, 10_000, 3_600_000]));
    let upper_ms = as_ms(pick(&mut rng, &[0, 100, 2_000]));
    let (left, right) = (first.name.clone(), second.name.clone());
    let lower_ms = upper_ms - as_ms(pick(&mut rng, &[0, 50, 4_000]));
    let interval = JoinKind::Interval { left, right, lower_ms, upper_ms, key: KeySpec::Device };
    let mut joins = vec![JoinSpec { name: name("pairs"), ttl, kind: interval }];
    if !matches!(first.windows[0].kind, WindowKind::Session { .. }) {
        second.windows[0].kind = first.windows[0].kind;
        let side =
            |stream: &StreamSpec| WindowRef { stream: stream.name.clone(), window: stream.windows[0].name.clone() };
        let kind = JoinKind::Window { sides: vec![side(first), side(second)], outer: rng.chance(2) };
        joins.push(JoinSpec { name: name("rows"), ttl, kind });
    }
    joins
}

fn scope(rng: &mut Rng) -> Scope {
    match rng.below(8) {
        0 | 1 => Scope::Shared,
        2 | 3 => Scope::Stream(Resume::Hold),
        4 | 5 => Scope::Stream(Resume::CatchUp),
        _ => Scope::Device,
    }
}

fn time(rng: &mut Rng) -> TimeSpec {
    let fallback = |receive: bool| if receive { TimeFallback::Receive } else { TimeFallback::Reject };
    if rng.chance(8) {
        return TimeSpec::Receive;
    }
    TimeSpec::Field {
        pointer: "/ts".to_owned(),
        format: if rng.chance(3) { TimeFormat::EpochSeconds } else { TimeFormat::EpochMillis },
        missing: fallback(rng.chance(4)),
        bad: fallback(rng.chance(4)),
    }
}

fn window(rng: &mut Rng, index: u64) -> WindowSpec {
    let size = pick(rng, &[250, 1_000, 5_000, 60_000]);
    let step = if rng.chance(3) { pick(rng, &[size / 2, size / 5, size * 2]) } else { size };
    let offset_ms = if rng.chance(2) { 0 } else { as_ms(rng.below(step)) - as_ms(step / 2) };
    let (size, slide) = (Span::from_millis(size), Span::from_millis(step));
    let sliding = slide != size;
    let gap = Span::from_millis(pick(rng, &[50, 400, 2_000, 10_000]));
    let kind = if rng.chance(4) {
        let longest = pick(rng, &[1, 2, 5]) * gap.as_millis() + rng.below(100);
        WindowKind::Session { gap, max_length: rng.chance(3).then(|| Span::from_millis(longest)) }
    } else if sliding {
        WindowKind::Sliding { size, slide, offset_ms }
    } else if rng.chance(12) {
        let zone = Zone::find("UTC").expect("in the database");
        WindowKind::Calendar { unit: CalendarUnit::Hour, zone, offset: Span::ZERO }
    } else {
        WindowKind::Tumbling { size, offset_ms }
    };
    let lateness = Span::from_millis(pick(rng, &[0, 300, 2_000, 10_000]));
    WindowSpec {
        lateness,
        late: late(rng, kind),
        late_updates: if rng.chance(3) {
            LateUpdates::Every(Span::from_millis(pick(rng, &[1, 200, 5_000])))
        } else {
            LateUpdates::Each
        },
        early: rng.chance(4).then(|| Span::from_millis(pick(rng, &[10, 500, 10_000]))),
        final_pane: rng.chance(4),
        aggregates: Aggregates::of(&[Kind::Count, Kind::Sum, Kind::Mean, Kind::Min, Kind::Max]),
        ..WindowSpec::new(name(&format!("w{index}")), kind)
    }
}

fn late(rng: &mut Rng, kind: WindowKind) -> LatePolicy {
    let backfill = LatePolicy::Backfill {
        quiet: Span::from_millis(pick(rng, &[20, 500, 3_000])),
        max_age: Span::from_millis(pick(rng, &[100, 5_000, 30_000])),
    };
    match rng.below(6) {
        0 => LatePolicy::Drop,
        1 | 2 if !matches!(kind, WindowKind::Session { .. }) => backfill,
        _ => LatePolicy::SideOutput,
    }
}

pub(crate) fn pick(rng: &mut Rng, values: &[u64]) -> u64 {
    values[as_len(rng.below(values.len() as u64))]
}

pub(crate) fn as_len(number: u64) -> usize {
    usize::try_from(number).expect("drawn from a small range")
}

pub(crate) fn as_ms(number: u64) -> i64 {
    i64::try_from(number).expect("drawn from a small range")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}
