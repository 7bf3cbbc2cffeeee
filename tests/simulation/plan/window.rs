//! Windows by chance, with aggregates by chance.

use tidegate::engine::aggregate::{Aggregates, Kind};
use tidegate::engine::spec::{KeySpec, LatePolicy, LateUpdates, Scope, StreamSpec, WindowKind, WindowSpec};
use tidegate::engine::window::calendar::{CalendarUnit, Zone};
use tidegate::model::rng::Rng;
use tidegate::model::time::Span;

use super::{as_len, as_ms, name, pick};

/// A window of `stream`, under the name that has that number.
pub(super) fn window(rng: &mut Rng, number: u64, stream: &StreamSpec) -> WindowSpec {
    let kind = kind(rng);
    let aggregates = aggregates(rng);
    WindowSpec {
        key: key(rng, stream),
        lateness: Span::from_millis(pick(rng, &[0, 300, 2_000, 10_000])),
        late: late(rng, kind, &aggregates),
        late_updates: if rng.chance(3) {
            LateUpdates::Every(Span::from_millis(pick(rng, &[1, 200, 5_000])))
        } else {
            LateUpdates::Each
        },
        early: rng.chance(4).then(|| Span::from_millis(pick(rng, &[10, 500, 10_000]))),
        final_pane: rng.chance(4),
        aggregates,
        ..WindowSpec::new(name(&format!("w{number}")), kind)
    }
}

fn kind(rng: &mut Rng) -> WindowKind {
    let size = pick(rng, &[250, 1_000, 5_000, 60_000]);
    let step = if rng.chance(3) { pick(rng, &[size / 2, size / 5, size * 2]) } else { size };
    let offset_ms = if rng.chance(2) { 0 } else { as_ms(rng.below(step)) - as_ms(step / 2) };
    let (size, slide) = (Span::from_millis(size), Span::from_millis(step));
    let gap = Span::from_millis(pick(rng, &[50, 400, 2_000, 10_000]));
    if rng.chance(4) {
        let longest = pick(rng, &[1, 2, 5]) * gap.as_millis() + rng.below(100);
        WindowKind::Session { gap, max_length: rng.chance(3).then(|| Span::from_millis(longest)) }
    } else if slide != size {
        WindowKind::Sliding { size, slide, offset_ms }
    } else if rng.chance(6) {
        calendar(rng)
    } else {
        WindowKind::Tumbling { size, offset_ms }
    }
}

fn calendar(rng: &mut Rng) -> WindowKind {
    let zones = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Asia/Kathmandu"];
    let zone = Zone::find(zones[as_len(rng.below(5))]).expect("in the database");
    let unit = match rng.below(8) {
        0..=3 => CalendarUnit::Hour,
        4 | 5 => CalendarUnit::Day,
        6 => CalendarUnit::Week,
        _ => CalendarUnit::Month,
    };
    let quarters = if rng.chance(2) { 0 } else { rng.below(4) };
    WindowKind::Calendar { unit, zone, offset: Span::from_millis(quarters * 900_000) }
}

/// Not wider than the watermark.
fn key(rng: &mut Rng, stream: &StreamSpec) -> KeySpec {
    let scope = stream.watermark.scope;
    match rng.below(4) {
        0 if scope != Scope::Device && stream.has_groups() => KeySpec::Group,
        1 if matches!(scope, Scope::Stream(_) | Scope::Shared) => KeySpec::Stream,
        _ => KeySpec::Device,
    }
}

/// A few kinds, in any order.
fn aggregates(rng: &mut Rng) -> Aggregates {
    let mut left = Kind::ALL.to_vec();
    let mut kinds = Vec::new();
    for _ in 0..rng.between(1, 6) {
        kinds.push(left.remove(as_len(rng.below(left.len() as u64))));
    }
    let with = Aggregates::of(&kinds).with_histogram(&[-500.0, 0.0, 12.25, 900.0]);
    if rng.chance(2) { with.with_quantiles(&[0.0, 0.25, 0.5, 0.99, 1.0]) } else { with }
}

fn late(rng: &mut Rng, kind: WindowKind, aggregates: &Aggregates) -> LatePolicy {
    let backfill = LatePolicy::Backfill {
        quiet: Span::from_millis(pick(rng, &[20, 500, 3_000])),
        max_age: Span::from_millis(pick(rng, &[100, 5_000, 30_000])),
    };
    let mergeable = !aggregates.kinds.iter().any(|kind| kind.is_order_dependent());
    match rng.below(6) {
        0 => LatePolicy::Drop,
        1..=3 if mergeable && !matches!(kind, WindowKind::Session { .. }) => backfill,
        _ => LatePolicy::SideOutput,
    }
}
