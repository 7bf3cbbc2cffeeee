//! When a window is emitted.

use crate::config::check::keys;
use crate::config::check::scalar;
use crate::config::check::table::{Item, Table};
use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::{LateUpdates, WindowKind, WindowSpec};
use crate::model::ids::Name;
use crate::model::limits::SPAN_MAX;
use crate::model::time::Span;

/// The settings of this page.
pub(super) struct Panes {
    early: Option<Span>,
    lateness: Span,
    late_updates: LateUpdates,
    final_pane: bool,
}

impl Panes {
    /// A window with them.
    pub(super) fn into_spec(self, name: Name, kind: WindowKind) -> WindowSpec {
        let Panes { lateness, late_updates, early, final_pane } = self;
        WindowSpec { lateness, late_updates, early, final_pane, ..WindowSpec::new(name, kind) }
    }
}

/// `early`, `lateness`, `late_updates` and `final`.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<Panes> {
    let positive = |text: &str| scalar::span(text, Span::MILLI..=SPAN_MAX);
    let early = match table.get("early") {
        Some(_) => table.parsed("early", scalar::DURATION, report, positive).map(Some),
        None => Some(None),
    };
    let lateness = table.parsed("lateness", scalar::DURATION, report, |text| scalar::span(text, Span::ZERO..=SPAN_MAX));
    let late_updates = late_updates(table, report);
    let final_pane = final_pane(table, report);
    let panes = Panes { early: early?, lateness: lateness?, late_updates: late_updates?, final_pane: final_pane? };
    if panes.lateness == Span::ZERO {
        if matches!(panes.late_updates, LateUpdates::Every(_)) {
            let wrong = Wrong::new("says nothing without `lateness`: there are no updates");
            report.problem(&table.spot_of("late_updates"), wrong);
        }
        if panes.final_pane {
            let wrong = Wrong::new("without `lateness` emits every window twice, one after the other");
            report.warn(&table.spot_of("final"), wrong.hint("\"on_time\" is the last pane then"));
        }
    }
    Some(panes)
}

fn late_updates(table: &Table<'_>, report: &mut Report) -> Option<LateUpdates> {
    let what = "\"each\" or a table such as { every = \"5s\" }";
    let Some(item) = table.get("late_updates") else { return Some(LateUpdates::Each) };
    if let Value::Table(_) = item.value {
        let every = Table::open_item(&item, &keys::LATE_UPDATES, report)?;
        let every = every.parsed("every", scalar::DURATION, report, |text| scalar::span(text, Span::MILLI..=SPAN_MAX));
        return Some(LateUpdates::Every(every?));
    }
    item.parsed(what, report, |text| match text {
        "each" => Ok(LateUpdates::Each),
        _ => Err(Wrong::new(format!("must be {what}"))),
    })
}

fn final_pane(table: &Table<'_>, report: &mut Report) -> Option<bool> {
    match table.get("final") {
        None => Some(false),
        Some(Item { value: Value::Bool(wanted), .. }) => Some(*wanted),
        Some(item) => {
            report.problem(&item.spot, Wrong::new("must be true or false"));
            None
        }
    }
}
