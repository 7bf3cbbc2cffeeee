//! `[[streams.windows]]`.

use crate::config::problem::{Report, Wrong};
use crate::engine::spec::{KeySpec, Scope, WatermarkSpec, WindowKind, WindowSpec};
use crate::model::limits::{OPEN_WINDOWS_MAX, WINDOWS_MAX};
use crate::model::time::Span;

use super::table::{Table, unique_names};
use super::{aggregates, items, keys, name};

mod kind;
mod late;
mod panes;
mod unlikely;

/// The windows of `stream`; none that could not be built.
pub(super) fn check_all(
    stream: &Table<'_>,
    watermark: Option<&WatermarkSpec>,
    report: &mut Report,
) -> Option<Vec<WindowSpec>> {
    let wait = watermark.map_or(Span::ZERO, |watermark| watermark.strategy.longest_wait());
    let items = match stream.get("windows") {
        Some(_) => items(stream, "windows", WINDOWS_MAX, report)?,
        None => Vec::new(),
    };
    let tables: Vec<Table<'_>> =
        items.iter().filter_map(|item| Table::open_item(item, &keys::WINDOW, report)).collect();
    unique_names(&tables, report);
    let mut windows = Vec::new();
    for table in &tables {
        let Some(window) = window(table, report) else { continue };
        warn_of_many_open(table, &window, wait, report);
        unlikely::warn(table, &window, report);
        check_key(table, window.key, watermark, report);
        windows.push(window);
    }
    (windows.len() == items.len()).then_some(windows)
}

fn window(table: &Table<'_>, report: &mut Report) -> Option<WindowSpec> {
    let name = table.parsed("name", "a string", report, name);
    let kind = kind::check(table, report);
    let keys = [("device", KeySpec::Device), ("group", KeySpec::Group), ("stream", KeySpec::Stream)];
    let key = table.choice("key", &keys, report);
    let aggregates = aggregates::check(table, report);
    let panes = panes::check(table, report);
    let late = late::check(table, kind, aggregates.as_ref(), report);
    let (panes, aggregates) = (panes?, aggregates?);
    Some(WindowSpec { key: key?, late: late?, aggregates, ..panes.into_spec(name?, kind?) })
}

/// All whose records share a window have to share a watermark.
fn check_key(table: &Table<'_>, key: KeySpec, watermark: Option<&WatermarkSpec>, report: &mut Report) {
    let Some(scope) = watermark.map(|watermark| watermark.scope) else { return };
    let (wide_enough, scopes) = match key {
        KeySpec::Device => (true, ""),
        KeySpec::Group => (scope != Scope::Device, r#""group", "stream" or "shared""#),
        KeySpec::Stream => (matches!(scope, Scope::Stream(_) | Scope::Shared), r#""stream" or "shared""#),
    };
    if !wide_enough {
        let wrong = Wrong::new("is wider than the scope of the watermark, which would close the window too early");
        report.problem(&table.spot_of("key"), wrong.hint(format!("scope {scopes} for the stream")));
    }
}

/// A device that reports steadily has this many windows open at once.
fn warn_of_many_open(table: &Table<'_>, window: &WindowSpec, wait: Span, report: &mut Report) {
    let held = window.lateness + wait;
    let open = match window.kind {
        WindowKind::Tumbling { size, .. } => held.as_millis() / size.as_millis() + 2,
        WindowKind::Sliding { size, slide, .. } => (held + size).as_millis() / slide.as_millis() + 2,
        WindowKind::Session { gap, .. } => held.as_millis() / gap.as_millis() + 2,
        WindowKind::Calendar { unit, .. } => held.as_millis() / unit.length().as_millis() + 2,
    };
    if open > OPEN_WINDOWS_MAX as u64 {
        let wrong = Wrong::new(format!(
            "about {open} windows of a device are open at once; beyond {OPEN_WINDOWS_MAX} its records go to lane `late`"
        ));
        report.warn(&table.spot_of("lateness"), wrong.hint("a larger size, or a smaller lateness"));
    }
}
