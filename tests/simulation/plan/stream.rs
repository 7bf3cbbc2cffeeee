//! Streams by chance, and what is joined of them.

use tidegate::engine::spec::{
    AllIdle, DedupBy, DedupSpec, FieldSpec, FieldsSpec, JoinKind, JoinSpec, KeySpec, MappingSpec, OnIdle, Records,
    Resume, Scope, Strategy, StreamSpec, TimeCandidate, TimeFallback, TimeFormat, TimeSpec, TimeUnit, TopicSpec,
    WatermarkSpec, WindowKind, WindowRef,
};
use tidegate::model::rng::Rng;
use tidegate::model::template::Template;
use tidegate::model::time::{EventTime, Span};
use tidegate::model::topic::TopicPattern;

use super::{MIN_TIME_MS, as_ms, name, pick, window};

pub(super) fn stream(rng: &mut Rng, line: u64, idle_allowed: bool) -> StreamSpec {
    let strategy = strategy(rng);
    let scope = if matches!(strategy, Strategy::Processing { .. }) { Scope::Shared } else { scope(rng) };
    let grouped = matches!(scope, Scope::Group(_)) || rng.chance(5);
    let pattern = if grouped { format!("s{line}/{{site}}/{{device}}") } else { format!("s{line}/{{device}}") };
    let topic = TopicPattern::parse(&pattern).expect("a valid pattern");
    let template = |text: &str| Template::parse(text, &topic).expect("a valid template");
    let (device, group) = (template("{device}"), grouped.then(|| template("{site}")));
    let idle = pick(rng, &[0, 400, 3_000]);
    let shares = matches!(scope, Scope::Stream(_) | Scope::Group(_));
    let dedup = dedup(rng);
    let named = !rng.chance(3);
    let fields = if named { FieldsSpec::Named(fields(&strategy, dedup.as_ref())) } else { FieldsSpec::all() };
    let watermark = WatermarkSpec {
        strategy,
        idle_timeout: (idle_allowed && idle > 0).then(|| Span::from_millis(idle)),
        scope,
        max_lag: (shares && rng.chance(3)).then(|| Span::from_millis(pick(rng, &[0, 1_000, 5_000, 30_000]))),
        all_idle: if shares && rng.chance(3) { AllIdle::Stay } else { AllIdle::Advance },
    };
    let mut spec = StreamSpec {
        topics: vec![TopicSpec { group, ..TopicSpec::new(topic.clone(), device.clone()) }],
        mapping: MappingSpec { fields, time: time(rng), ..MappingSpec::default() },
        watermark,
        on_idle: match rng.below(6) {
            0 | 1 => OnIdle::Hold,
            2 if scope == Scope::Device => OnIdle::Close,
            _ => OnIdle::Emit,
        },
        max_future: (!rng.chance(5)).then(|| Span::from_millis(pick(rng, &[0, 2_000, 300_000]))),
        min_time: (!rng.chance(3)).then(|| EventTime::from_millis(MIN_TIME_MS)),
        devices_max: if rng.chance(6) { 2 } else { 100 },
        records: records(rng),
        dedup,
        carry_forward: carry_forward(rng),
        ..StreamSpec::new(name(&format!("stream{line}")), topic, device)
    };
    if spec.mapping.time == TimeSpec::Receive
        && matches!(&spec.dedup, Some(dedup) if dedup.by == DedupBy::TimeAndValues)
    {
        spec.dedup = None;
    }
    let windows = if spec.records != Records::Off && rng.chance(3) { 0 } else { rng.between(1, 3) };
    spec.windows = (0..windows).map(|number| window::window(rng, number, &spec)).collect();
    if rng.chance(6) {
        let_devices_end(rng, &mut spec);
    }
    spec
}

/// With `state_ttl`: short windows, so that it is short too, and a device that is silent
/// for a while is given up.
fn let_devices_end(rng: &mut Rng, spec: &mut StreamSpec) {
    for window in &mut spec.windows {
        window.kind = match window.kind {
            WindowKind::Session { .. } => WindowKind::Session { gap: Span::from_millis(400), max_length: None },
            WindowKind::Tumbling { .. } | WindowKind::Sliding { .. } | WindowKind::Calendar { .. } => {
                WindowKind::Tumbling { size: Span::from_millis(pick(rng, &[250, 1_000])), offset_ms: 0 }
            }
        };
        window.lateness = window.lateness.min(Span::from_millis(2_000));
    }
    // Tombstones are never evicted then: six devices and three groups.
    spec.devices_max = spec.devices_max.max(3);
    spec.state_ttl = Some(spec.shortest_ttl() + Span::from_millis(rng.between(1, 3_000)));
}

fn fields(strategy: &Strategy, dedup: Option<&DedupSpec>) -> Vec<FieldSpec> {
    let mut names = vec!["v", "a", "mode"];
    if matches!(strategy, Strategy::Punctuated { .. }) {
        names.push("m");
    }
    if dedup.is_some_and(|dedup| dedup.by != DedupBy::TimeAndValues) {
        names.push("n");
    }
    let field = |text: &str| match text {
        "mode" => FieldSpec::state(name(text), format!("/{text}")),
        _ => FieldSpec::number(name(text), format!("/{text}")),
    };
    names.into_iter().map(field).collect()
}

fn dedup(rng: &mut Rng) -> Option<DedupSpec> {
    let horizon = usize::try_from(pick(rng, &[4, 32, 128])).expect("small");
    match rng.below(6) {
        0 => Some(DedupSpec { by: DedupBy::TimeAndValues, horizon }),
        1 => Some(DedupSpec { by: DedupBy::Sequence { field: name("n") }, horizon }),
        _ => None,
    }
}

/// Some values are as old as that when the next record comes.
pub(super) fn carry_forward(rng: &mut Rng) -> Option<Span> {
    rng.chance(4).then(|| Span::from_millis(pick(rng, &[1, 300, 5_000, 86_400_000])))
}

fn records(rng: &mut Rng) -> Records {
    let held_max = usize::try_from(pick(rng, &[1, 5, 1_000])).expect("small");
    match rng.below(8) {
        0 => Records::Arrival,
        1 | 2 => Records::Ordered { held_max },
        _ => Records::Off,
    }
}

fn strategy(rng: &mut Rng) -> Strategy {
    let span = |rng: &mut Rng, values: &[u64]| Span::from_millis(pick(rng, values));
    match rng.below(10) {
        0 => Strategy::Bounded { disorder: Span::ZERO },
        1 | 2 => Strategy::Adaptive {
            quantile: u32::try_from(pick(rng, &[6_000, 9_000, 9_900, 10_000])).expect("small"),
            floor: span(rng, &[0, 500]),
            ceiling: span(rng, &[1_000, 8_000]),
        },
        3 => Strategy::Punctuated { field: name("m") },
        4 => Strategy::Processing { delay: span(rng, &[0, 500, 5_000]) },
        _ => Strategy::Bounded { disorder: span(rng, &[50, 500, 3_000]) },
    }
}

fn scope(rng: &mut Rng) -> Scope {
    let resume = if rng.chance(2) { Resume::Hold } else { Resume::CatchUp };
    match rng.below(10) {
        0 | 1 => Scope::Shared,
        2..=4 => Scope::Stream(resume),
        5 | 6 => Scope::Group(resume),
        _ => Scope::Device,
    }
}

fn time(rng: &mut Rng) -> TimeSpec {
    let fallback = |receive: bool| if receive { TimeFallback::Receive } else { TimeFallback::Reject };
    if rng.chance(8) {
        return TimeSpec::Receive;
    }
    let unit = if rng.chance(3) { TimeUnit::Seconds } else { TimeUnit::Millis };
    TimeSpec::Fields {
        candidates: vec![TimeCandidate { pointer: "/ts".to_owned(), format: TimeFormat::Epoch(unit) }],
        missing: fallback(rng.chance(4)),
        bad: fallback(rng.chance(4)),
    }
}

/// Joins of the first two streams; their first windows are made alike.
pub(super) fn joins(seed: u64, streams: &mut [StreamSpec]) -> Vec<JoinSpec> {
    let mut rng = Rng::fork(seed, 7);
    let [first, second, ..] = streams else { return Vec::new() };
    if rng.chance(2) {
        return Vec::new();
    }
    let ttl = Span::from_millis(pick(&mut rng, &[1_000, 10_000, 86_400_000, 86_400_000]));
    let upper_ms = as_ms(pick(&mut rng, &[0, 100, 2_000]));
    let lower_ms = upper_ms - as_ms(pick(&mut rng, &[0, 50, 4_000]));
    let key = if [&*first, &*second].iter().all(|stream| by_groups(stream)) { KeySpec::Group } else { KeySpec::Device };
    let kind = JoinKind::Interval { left: first.name.clone(), right: second.name.clone(), lower_ms, upper_ms, key };
    let mut joins = vec![JoinSpec { name: name("pairs"), ttl, kind }];
    let (Some(one), Some(other)) = (first.windows.first(), second.windows.first_mut()) else { return joins };
    let side = |stream: &StreamSpec| WindowRef { stream: stream.name.clone(), window: stream.windows[0].name.clone() };
    if matches!(one.kind, WindowKind::Session { .. }) || one.key != other.key || second.state_ttl.is_some() {
        return joins;
    }
    other.kind = one.kind;
    let kind = JoinKind::Window { sides: vec![side(first), side(second)], outer: rng.chance(2) };
    joins.push(JoinSpec { name: name("rows"), ttl, kind });
    joins
}

/// A join by group is possible.
fn by_groups(stream: &StreamSpec) -> bool {
    let by_window = stream.windows.iter().any(|window| window.key == KeySpec::Group);
    stream.watermark.scope != Scope::Device && (by_window || matches!(stream.watermark.scope, Scope::Group(_)))
}
