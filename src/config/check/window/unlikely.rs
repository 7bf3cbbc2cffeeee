//! Settings of a window that are allowed, and together do not what they seem to say.

use crate::config::check::scalar::show;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong};
use crate::engine::spec::{LatePolicy, LateUpdates, WindowKind, WindowSpec};
use crate::model::time::Span;

/// Warns of what is probably not meant.
pub(super) fn warn(table: &Table<'_>, window: &WindowSpec, report: &mut Report) {
    if let WindowKind::Sliding { size, slide, .. } = window.kind
        && slide > size
    {
        let wrong = format!("is longer than `size` ({}): readings in between are in no window", show(size));
        report.warn(&table.spot_of("slide"), Wrong::new(wrong).hint("not above `size`"));
    }
    if let (Some(early), Some(length)) = (window.early, length(window.kind))
        && early >= length
    {
        let wrong =
            format!("is not below the length of the window ({}), which is over before it is shown", show(length));
        report.warn(&table.spot_of("early"), Wrong::new(wrong).hint("a part of the length, or remove it"));
    }
    if let LateUpdates::Every(every) = window.late_updates
        && every > window.lateness
        && window.lateness > Span::ZERO
    {
        let wrong = format!(
            "waits longer than `lateness` ({}); an update comes when the window expires",
            show(window.lateness)
        );
        report
            .warn(&table.spot_of("late_updates"), Wrong::new(wrong).hint("a smaller `every`, or a longer `lateness`"));
    }
    if let LatePolicy::Backfill { quiet, max_age } = window.late
        && quiet > max_age
    {
        let wrong = format!("is above `backfill_max_age` ({}), which then decides alone", show(max_age));
        report.warn(
            &table.spot_of("backfill_quiet"),
            Wrong::new(wrong).hint("a smaller one, or a longer `backfill_max_age`"),
        );
    }
}

/// How long a window is at most; none when nothing bounds it.
fn length(kind: WindowKind) -> Option<Span> {
    match kind {
        WindowKind::Tumbling { size, .. } | WindowKind::Sliding { size, .. } => Some(size),
        WindowKind::Session { max_length, .. } => max_length,
        WindowKind::Calendar { unit, .. } => Some(unit.length()),
    }
}
