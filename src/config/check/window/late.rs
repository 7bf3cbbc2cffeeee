//! What happens to records beyond lateness.

use crate::config::check::scalar;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong};
use crate::engine::aggregate::Aggregates;
use crate::engine::spec::{LatePolicy, WindowKind};
use crate::model::limits::SPAN_MAX;
use crate::model::time::Span;

/// The words of `late`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    SideOutput,
    Drop,
    Backfill,
}

/// `late` and its keys. `kind`, `aggregates`: what it has to go with.
pub(super) fn check(
    table: &Table<'_>,
    kind: Option<WindowKind>,
    aggregates: Option<&Aggregates>,
    report: &mut Report,
) -> Option<LatePolicy> {
    let words = [("side_output", Word::SideOutput), ("drop", Word::Drop), ("backfill", Word::Backfill)];
    let word = table.choice("late", &words, report);
    let span = |key: &str, report: &mut Report| {
        table.parsed(key, scalar::DURATION, report, |text| scalar::span(text, Span::MILLI..=SPAN_MAX))
    };
    let quiet = span("backfill_quiet", report);
    let max_age = span("backfill_max_age", report);
    match word? {
        Word::Backfill => {
            check_mergeable(table, kind, aggregates, report);
            Some(LatePolicy::Backfill { quiet: quiet?, max_age: max_age? })
        }
        other @ (Word::SideOutput | Word::Drop) => {
            for key in ["backfill_quiet", "backfill_max_age"] {
                if table.get(key).is_some() {
                    let wrong = Wrong::new("says nothing without late = \"backfill\"");
                    report.problem(&table.spot_of(key), wrong);
                }
            }
            Some(if other == Word::Drop { LatePolicy::Drop } else { LatePolicy::SideOutput })
        }
    }
}

/// Deltas add to results that are published; not all results can be added to.
fn check_mergeable(table: &Table<'_>, kind: Option<WindowKind>, aggregates: Option<&Aggregates>, report: &mut Report) {
    if matches!(kind, Some(WindowKind::Session { .. })) {
        let wrong = Wrong::new("does not go with session windows: a late record may join sessions that are published");
        report.problem(&table.spot_of("late"), wrong.hint("\"side_output\", or a longer `lateness`"));
    }
    let dependent = aggregates.into_iter().flat_map(|aggregates| &aggregates.kinds);
    let dependent: Vec<_> = dependent.filter(|kind| kind.is_order_dependent()).map(|kind| kind.as_str()).collect();
    if !dependent.is_empty() {
        let wrong = format!("does not go with {}: what comes late cannot be added to it", dependent.join(", "));
        let hint = "\"side_output\", or another window definition for these aggregates";
        report.problem(&table.spot_of("late"), Wrong::new(wrong).hint(hint));
    }
}
