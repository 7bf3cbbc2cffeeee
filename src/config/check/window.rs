//! `[[streams.windows]]`.

use crate::config::problem::{Report, Wrong};
use crate::engine::spec::{KeySpec, LatePolicy, Scope, WatermarkSpec, WindowKind, WindowSpec};
use crate::model::limits::{OPEN_WINDOWS_MAX, SLIDES_MAX, SPAN_MAX, WINDOW_SIZE_MAX, WINDOWS_MAX};
use crate::model::time::Span;

use super::table::{Table, unique_names};
use super::{aggregates, items, keys, name, scalar};

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
    if items.is_empty() {
        let wrong = "a stream needs at least one window: passing single records on is not supported yet, \
                     so they would be acknowledged and go nowhere";
        let hint = "[[streams.windows]] with name = \"1m\" and size = \"1m\"";
        report.problem(&stream.spot_of("windows"), Wrong::new(wrong).hint(hint));
        return None;
    }
    let tables: Vec<Table<'_>> =
        items.iter().filter_map(|item| Table::open_item(item, &keys::WINDOW, report)).collect();
    unique_names(&tables, report);
    let mut windows = Vec::new();
    for table in &tables {
        let Some(window) = window(table, report) else { continue };
        warn_of_many_open(table, &window, wait, report);
        check_key(table, window.key, watermark, report);
        windows.push(window);
    }
    (windows.len() == items.len()).then_some(windows)
}

fn window(table: &Table<'_>, report: &mut Report) -> Option<WindowSpec> {
    let name = table.parsed("name", "a string", report, name);
    let kind = kind(table, report);
    let lateness = table.parsed("lateness", scalar::DURATION, report, |text| scalar::span(text, Span::ZERO..=SPAN_MAX));
    let late = table.choice("late", &[("side_output", LatePolicy::SideOutput), ("drop", LatePolicy::Drop)], report);
    let keys = [("device", KeySpec::Device), ("group", KeySpec::Group), ("stream", KeySpec::Stream)];
    let key = table.choice("key", &keys, report);
    let aggregates = aggregates::check(table, report);
    Some(WindowSpec {
        key: key?,
        lateness: lateness?,
        late: late?,
        aggregates: aggregates?,
        ..WindowSpec::new(name?, kind?)
    })
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

/// Which keys are there says which kind it is.
fn kind(table: &Table<'_>, report: &mut Report) -> Option<WindowKind> {
    let span = |key: &str, report: &mut Report| {
        table.parsed(key, scalar::DURATION, report, |text| scalar::span(text, Span::MILLI..=WINDOW_SIZE_MAX))
    };
    if table.get("gap").is_some() {
        for key in ["size", "slide", "offset"] {
            if table.get(key).is_some() {
                let wrong = Wrong::new("has no meaning for session windows, which `gap` makes");
                report.problem(&table.spot_of(key), wrong.hint("remove either this or `gap`"));
            }
        }
        return Some(WindowKind::Session { gap: span("gap", report)? });
    }
    let offset_ms = table.parsed("offset", scalar::DURATION, report, scalar::signed_millis);
    if table.get("size").is_none() {
        let wrong = Wrong::new("is missing");
        report.problem(&table.spot_of("size"), wrong.hint("size = \"1m\", or gap = \"5m\" for session windows"));
        return None;
    }
    let size = span("size", report);
    if table.get("slide").is_none() {
        let (size, offset_ms) = (size?, offset_ms?);
        check_offset(table, "size", size, offset_ms, report);
        return Some(WindowKind::Tumbling { size, offset_ms });
    }
    let (slide, size, offset_ms) = (span("slide", report)?, size?, offset_ms?);
    check_offset(table, "slide", slide, offset_ms, report);
    let covering = size.as_millis().div_ceil(slide.as_millis());
    if covering > SLIDES_MAX {
        let wrong = Wrong::new(format!("puts each record into {covering} windows; at most {SLIDES_MAX}"));
        report.problem(&table.spot_of("slide"), wrong.hint("a longer slide, or a smaller size"));
    }
    Some(WindowKind::Sliding { size, slide, offset_ms })
}

fn check_offset(table: &Table<'_>, bound: &str, step: Span, offset_ms: i64, report: &mut Report) {
    if offset_ms.unsigned_abs() < step.as_millis() {
        return;
    }
    let wrong = Wrong::new(format!("must be less than `{bound}` ({})", scalar::show(step)));
    let equal = offset_ms.rem_euclid(step.as_i64());
    report.problem(
        &table.spot_of("offset"),
        wrong.hint(format!("\"{}\" has the same borders", scalar::show(Span::from_millis(equal.unsigned_abs())))),
    );
}

/// A device that reports steadily has this many windows open at once.
fn warn_of_many_open(table: &Table<'_>, window: &WindowSpec, wait: Span, report: &mut Report) {
    let held = window.lateness + wait;
    let open = match window.kind {
        WindowKind::Tumbling { size, .. } => held.as_millis() / size.as_millis() + 2,
        WindowKind::Sliding { size, slide, .. } => (held + size).as_millis() / slide.as_millis() + 2,
        WindowKind::Session { gap } => held.as_millis() / gap.as_millis() + 2,
    };
    if open > OPEN_WINDOWS_MAX as u64 {
        let wrong = Wrong::new(format!(
            "about {open} windows of a device are open at once; beyond {OPEN_WINDOWS_MAX} its records go to lane `late`"
        ));
        report.warn(&table.spot_of("lateness"), wrong.hint("a larger size, or a smaller lateness"));
    }
}
