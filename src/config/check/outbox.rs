//! `[outbox]`: what may be kept while the cloud is away, and how it is sent afterwards.

use crate::config::problem::{Report, Spot, Wrong};
use crate::config::raw::Value;
use crate::engine::outbox::LaneKind;
use crate::engine::spec::{LaneSpec, OutboxSpec, UplinkPolicy};
use crate::model::limits::{
    BATCH_PAYLOAD_BYTES_MAX, OUTBOX_BYTES, OUTBOX_MEMORY_MAX, SPAN_MAX, UPLINK_PAYLOAD_MIN, UPLINK_WINDOW,
};
use crate::model::time::Span;

use super::keys;
use super::scalar;
use super::table::{Item, Table};

/// The shortest age: below it a lane would lose what it has just got.
const AGE_MIN: Span = Span::from_secs(10);
/// The least of a lane.
const LANE_BYTES_MIN: u64 = 64 * 1024;
/// Rates that make sense.
pub(super) const RATE: core::ops::RangeInclusive<usize> = 1..=1_000_000;
/// Bytes per second and per day.
pub(super) const BYTES: core::ops::RangeInclusive<u64> = 1_024..=1 << 40;
/// Of one message.
pub(super) const PAYLOAD: core::ops::RangeInclusive<u64> =
    UPLINK_PAYLOAD_MIN as u64..=8 * BATCH_PAYLOAD_BYTES_MAX as u64;
/// Of one lane.
pub(super) const LANE_BYTES: core::ops::RangeInclusive<u64> = LANE_BYTES_MIN..=*OUTBOX_BYTES.end();
/// How old a record may become.
pub(super) const AGE: core::ops::RangeInclusive<Span> = AGE_MIN..=SPAN_MAX;

/// The section, or its defaults.
pub(super) fn check(root: &Table<'_>, report: &mut Report) -> Option<(OutboxSpec, UplinkPolicy)> {
    let table = match root.get("outbox") {
        Some(item) => Table::open_item(&item, &keys::OUTBOX, report)?,
        None => Table::absent("outbox", &keys::OUTBOX),
    };
    let policy = policy(&table, report);
    let bytes_max = table.parsed("max_bytes", scalar::SIZE, report, |text| scalar::size(text, OUTBOX_BYTES));
    let lanes = LaneKind::ALL.map(|kind| lane(&table, kind, bytes_max, report));
    let bytes_max = bytes_max?;
    let memory_max = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(OUTBOX_MEMORY_MAX);
    let mut specs = [LaneSpec::default(); LaneKind::ALL.len()];
    for (spec, lane) in specs.iter_mut().zip(lanes) {
        *spec = lane?;
    }
    Some((OutboxSpec { bytes_max, memory_max, lanes: specs }, policy?))
}

fn lane(outbox: &Table<'_>, kind: LaneKind, of_all: Option<u64>, report: &mut Report) -> Option<LaneSpec> {
    if kind == LaneKind::Alarm {
        return Some(LaneSpec::default());
    }
    let Some(item) = outbox.get(kind.as_str()) else { return Some(LaneSpec::default()) };
    let table = Table::open_item(&item, &keys::OUTBOX_LANE, report)?;
    let bytes = optional(&table, "max_bytes", report, |item, report| {
        item.parsed(scalar::SIZE, report, |text| scalar::size(text, LANE_BYTES))
    });
    if let (Some(Some(bytes)), Some(all)) = (bytes, of_all)
        && bytes > all
    {
        let wrong = Wrong::new("is more than the whole outbox may hold: it has no effect");
        report.warn(&table.spot_of("max_bytes"), wrong.hint("raise `outbox.max_bytes`, or remove it"));
    }
    let age = optional(&table, "max_age", report, |item, report| {
        item.parsed(scalar::DURATION, report, |text| scalar::span(text, AGE))
    });
    Some(LaneSpec { bytes_max: bytes?, age_max: age? })
}

fn policy(table: &Table<'_>, report: &mut Report) -> Option<UplinkPolicy> {
    let rate = optional(table, "messages_per_second", report, integer);
    let bytes = |key, report: &mut Report| {
        optional(table, key, report, |item, report| item.parsed(scalar::SIZE, report, |text| scalar::size(text, BYTES)))
    };
    let per_second = bytes("bytes_per_second", report);
    let per_day = bytes("bytes_per_day", report);
    let share = table.parsed("backlog_share", "a percentage such as \"50%\"", report, percent);
    let payload = table.parsed("payload_max_bytes", scalar::SIZE, report, |text| scalar::size(text, PAYLOAD));
    let window = table.integer("window", 1..=UPLINK_WINDOW, report);
    Some(UplinkPolicy {
        messages_per_second: rate?,
        bytes_per_second: per_second?,
        bytes_per_day: per_day?,
        backlog_share: share?,
        payload_max: usize::try_from(payload?).ok()?,
        window: window?,
        ..UplinkPolicy::default()
    })
}

/// `Some(None)`: it is not there. `None`: it is, and was reported.
#[expect(clippy::option_option, reason = "one level is 'reported', the other is 'absent'; both end in this file")]
fn optional<T>(
    table: &Table<'_>,
    key: &str,
    report: &mut Report,
    read: impl Fn(&Item<'_>, &mut Report) -> Option<T>,
) -> Option<Option<T>> {
    match table.get(key) {
        Some(item) => read(&item, report).map(Some),
        None => Some(None),
    }
}

fn integer(item: &Item<'_>, report: &mut Report) -> Option<u64> {
    let wrong = |spot: &Spot, report: &mut Report| {
        report.problem(spot, Wrong::new(format!("must be an integer from {} to {}", RATE.start(), RATE.end())));
    };
    let found = match item.value {
        Value::Integer(found) => usize::try_from(*found).ok().filter(|found| RATE.contains(found)),
        Value::Text(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Table(_) => None,
    };
    if found.is_none() {
        wrong(&item.spot, report);
    }
    found.map(|found| found as u64)
}

fn percent(text: &str) -> Result<u8, Wrong> {
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    number.filter(|percent| (1..=99).contains(percent)).ok_or_else(|| {
        let wrong = Wrong::new("must be a percentage from \"1%\" to \"99%\"");
        match text.parse::<u8>() {
            Ok(number) => wrong.hint(format!("\"{number}%\"")),
            Err(_) => wrong,
        }
    })
}
