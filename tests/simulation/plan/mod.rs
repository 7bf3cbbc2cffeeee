//! What the world of one seed is like: its pipeline, its broker, its faults.

mod changes;
mod stream;
mod window;

use tidegate::engine::encode::Encoding;
use tidegate::engine::spec::{
    CommitSpec, LateUpdates, OutboxSpec, PipelineSpec, Records, Scope, Strategy, StreamSpec, UplinkPolicy, WindowSpec,
};
use tidegate::model::ids::Name;
use tidegate::model::rng::Rng;
use tidegate::model::time::Span;

/// Times before this are rejected in streams that have a `min_time`: 2000-01-01.
pub(crate) const MIN_TIME_MS: i64 = 946_684_800_000;

/// One seed's parameters. Drawn from a sequence of their own, so that a change
/// of the world's behaviour does not change them.
#[expect(clippy::struct_excessive_bools, reason = "each is decided on its own")]
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
    /// It changes in ways that do.
    pub redefines: bool,
    /// Something says which devices are there.
    pub signals: bool,
    /// Somebody sets the clock. Not where a watermark follows it: how far it had got when
    /// it was set back depends on when the driver last looked, and no counter says what of
    /// that survived a crash.
    pub sets_clock: bool,
    /// The driver wakes up too late now and then. Not where readings are put in order for
    /// several devices: which of those that fall idle a few milliseconds apart was first
    /// decides what goes early, and is not to be seen afterwards.
    pub wakes_late: bool,
    /// The number that the next new window has.
    pub next_window: u64,
    /// The number that the next new stream has.
    pub next_line: u64,
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
        let start_wall_ms = start(&mut rng);
        let mut spec = PipelineSpec {
            broker: None,
            gateway: name("gw-1"),
            topic_prefix: "tidegate".to_owned(),
            encoding: if rng.chance(3) { Encoding::Cbor } else { Encoding::Json },
            outbox: outbox(&mut rng),
            uplink: UplinkPolicy {
                messages_per_second: rng.chance(4).then(|| pick(&mut rng, &[100, 1_000])),
                bytes_per_second: rng.chance(6).then_some(1 << 20),
                backlog_share: *[1, 20, 50, 99].get(as_len(rng.below(4))).expect("one of four"),
                window: as_len(pick(&mut rng, &[1, 3, 32, 32])),
                ..UplinkPolicy::default()
            },
            streams: (0..streams).map(|line| stream::stream(&mut rng, line, idle_allowed)).collect(),
            joins: Vec::new(),
            commit: CommitSpec {
                interval: Span::from_millis(pick(&mut rng, &[1, 20, 200, 1_000])),
                snapshot_interval: Span::from_millis(pick(&mut rng, &[150, 2_000, 60_000])),
                budget: None,
            },
            local: seed.is_multiple_of(4),
        };
        spec.joins = stream::joins(seed, &mut spec.streams);
        let by_clock = |stream: &StreamSpec| matches!(stream.watermark.strategy, Strategy::Processing { .. });
        let orders_many = |stream: &StreamSpec| {
            matches!(stream.records, Records::Ordered { .. }) && stream.watermark.scope != Scope::Device
        };
        let sets_clock = !spec.streams.iter().any(by_clock);
        let wakes_late = !spec.streams.iter().any(orders_many);
        let calm = rng.chance(12);
        Plan {
            spec,
            start_wall_ms,
            actions: rng.between(100, 400),
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
            redefines: rng.chance(2),
            signals: rng.chance(2),
            sets_clock,
            wakes_late,
            next_window: 10,
            next_line: streams,
            acks_out_of_order: rng.chance(3),
            grain_ms: as_ms(pick(&mut rng, &[1, 1, 50, 200])),
            lag_ms: as_ms(pick(&mut rng, &[0, 4_000, 20_000])),
        }
    }

    /// Evictions may happen.
    pub(crate) fn small_outbox(&self) -> bool {
        self.spec.outbox.bytes_max < 1 << 20
    }

    /// Time alone changes nothing that is persisted: a deadline is what was left of it at
    /// the last commit.
    pub(crate) fn has_deadlines(&self) -> bool {
        let by_clock = |window: &WindowSpec| {
            window.early.is_some() || window.late.is_backfill() || window.late_updates != LateUpdates::Each
        };
        let of = |stream: &StreamSpec| {
            stream.watermark.idle_timeout.is_some()
                || stream.state_ttl.is_some()
                || matches!(stream.watermark.strategy, Strategy::Processing { .. })
                || stream.windows.iter().any(by_clock)
        };
        !self.spec.joins.is_empty() || self.spec.streams.iter().any(of)
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

/// Near a jump of some zone's clock every other time.
fn start(rng: &mut Rng) -> i64 {
    // Berlin and Lord Howe, there and back; New York.
    let jumps = [1_698_541_200, 1_711_846_800, 1_696_087_800, 1_712_415_600, 1_699_164_000];
    if rng.chance(2) {
        return 1_700_000_000_000 + as_ms(rng.below(100_000_000));
    }
    as_ms(pick(rng, &jumps)) * 1_000 - as_ms(rng.below(120_000))
}

/// The number in the name of a stream.
pub(crate) fn line_of(stream: &str) -> usize {
    stream.trim_start_matches("stream").parse().expect("every stream is called so")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

/// Three in four keep everything; of those, most move rows to the chain all the time.
fn outbox(rng: &mut Rng) -> OutboxSpec {
    let memory_max = as_len(pick(rng, &[2_000, 20_000, 1 << 30]));
    if !rng.chance(4) {
        return OutboxSpec { bytes_max: 1 << 30, memory_max, ..OutboxSpec::of(0) };
    }
    let bytes_max = as_len(pick(rng, &[400, 900, 2_000, 5_000, 9_000, 30_000]));
    let mut spec =
        OutboxSpec { bytes_max: bytes_max as u64, memory_max: memory_max.min(bytes_max), ..OutboxSpec::of(0) };
    for lane in &mut spec.lanes[1..] {
        lane.age_max = rng.chance(8).then(|| Span::from_secs(pick(rng, &[10, 60])));
        lane.bytes_max = rng.chance(8).then(|| pick(rng, &[300, 3_000]));
    }
    spec
}
