//! `[storage]`: what the flash may be given, and how long commits may wait for it.

use core::ops::RangeInclusive;

use crate::config::problem::{Report, Wrong};
use crate::engine::spec::BudgetSpec;
use crate::model::time::Span;

use super::scalar;
use super::table::Table;

/// Below, every commit would wait; above, no card lives to see it.
pub(super) const WRITE_BUDGET: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// Up to ten minutes: devices' brokers hold what is not acknowledged for so long.
pub(super) const INTERVAL_MAX: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(600);

/// The budget, if there is one. `interval`: the interval without it.
pub(super) fn check(storage: &Table<'_>, interval: Option<Span>, report: &mut Report) -> Option<BudgetSpec> {
    let bytes = |text: &str| scalar::bytes(text, WRITE_BUDGET);
    let per_day = storage.parsed("write_budget", scalar::SIZE, report, bytes);
    let longest = |text: &str| scalar::span(text, INTERVAL_MAX);
    let interval_max = storage.parsed("commit_interval_max", scalar::DURATION, report, longest)?;
    let is_given = storage.get("commit_interval_max").is_some();
    if is_given && !storage.means("write_budget") {
        let wrong = Wrong::new("has no effect: without `write_budget` nothing lengthens the interval");
        report.problem(&storage.spot_of("commit_interval_max"), wrong.hint("add `write_budget`, or remove it"));
    }
    let interval = interval?;
    if is_given && interval_max < interval {
        let wrong = format!("must not be below commit_interval ({})", scalar::show(interval));
        report.problem(&storage.spot_of("commit_interval_max"), Wrong::new(wrong));
    }
    Some(BudgetSpec { per_day: per_day?, interval_max: interval_max.max(interval) })
}

/// While commits wait, so do acknowledgements; who takes a silent peer for a dead one
/// must be more patient than that.
pub(super) fn warn(
    devices: &Table<'_>,
    keep_alive: Option<Span>,
    interval: Span,
    budget: Option<BudgetSpec>,
    report: &mut Report,
) {
    let stall = budget.map_or(interval, |budget| budget.interval_max);
    if let Some(keep_alive) = keep_alive.filter(|keep_alive| *keep_alive <= stall) {
        let wrong = Wrong::new(format!(
            "{} is not above the longest time without an acknowledgement ({}): a broker may take us for dead",
            scalar::show(keep_alive),
            scalar::show(stall)
        ));
        report.warn(&devices.spot_of("keep_alive"), wrong.hint("twice that time, or a shorter interval"));
    }
}
