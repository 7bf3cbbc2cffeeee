//! Which windows: the keys that are there say which kind it is.

use crate::config::check::scalar;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong};
use crate::engine::spec::WindowKind;
use crate::engine::window::calendar::{CalendarUnit, Zone};
use crate::model::limits::{SLIDES_MAX, WINDOW_SIZE_MAX};
use crate::model::time::Span;

/// The kind of the window `table`.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<WindowKind> {
    if table.get("gap").is_some() {
        refuse(table, &["size", "slide", "offset", "calendar"], "session windows, which `gap` makes", report);
        refuse_zone(table, "session windows, which `gap` makes", "instead of `gap`", report);
        return session(table, report);
    }
    if table.get("calendar").is_some() {
        refuse(table, &["size", "slide", "max_length"], "windows of the calendar", report);
        return calendar(table, report);
    }
    refuse_zone(table, "windows of a fixed size: it goes with `calendar`", "instead of `size`", report);
    refuse(table, &["max_length"], "windows of a fixed size: it goes with `gap`", report);
    let offset_ms = table.parsed("offset", scalar::DURATION, report, scalar::signed_millis);
    if table.get("size").is_none() {
        // Something that was meant for one of them was reported.
        if !["size", "gap", "calendar"].iter().any(|key| table.means(key)) {
            let wrong = Wrong::new("is missing");
            let hint = "size = \"1m\", or gap = \"5m\" for session windows, or calendar = \"day\"";
            report.problem(&table.spot_of("size"), wrong.hint(hint));
        }
        return None;
    }
    let size = span(table, "size", report);
    if table.get("slide").is_none() {
        let (size, offset_ms) = (size?, offset_ms?);
        check_offset(table, "size", size, offset_ms, report);
        return Some(WindowKind::Tumbling { size, offset_ms });
    }
    let (slide, size, offset_ms) = (span(table, "slide", report)?, size?, offset_ms?);
    check_offset(table, "slide", slide, offset_ms, report);
    let covering = size.as_millis().div_ceil(slide.as_millis());
    if covering > SLIDES_MAX {
        let wrong = Wrong::new(format!("puts each record into {covering} windows; at most {SLIDES_MAX}"));
        report.problem(&table.spot_of("slide"), wrong.hint("a longer slide, or a smaller size"));
    }
    Some(WindowKind::Sliding { size, slide, offset_ms })
}

fn span(table: &Table<'_>, key: &str, report: &mut Report) -> Option<Span> {
    table.parsed(key, scalar::DURATION, report, |text| scalar::span(text, Span::MILLI..=WINDOW_SIZE_MAX))
}

/// Keys that say nothing about windows of this kind.
fn refuse(table: &Table<'_>, keys: &[&str], what: &str, report: &mut Report) {
    for key in keys.iter().filter(|key| table.get(key).is_some()) {
        let wrong = Wrong::new(format!("has no meaning for {what}"));
        report.problem(&table.spot_of(key), wrong.hint("remove it, or what makes them such windows"));
    }
}

/// A zone without `calendar`: whoever wrote it wants days, or the like, of that zone.
fn refuse_zone(table: &Table<'_>, what: &str, instead: &str, report: &mut Report) {
    if table.get("zone").is_some() {
        let wrong = Wrong::new(format!("has no meaning for {what}"));
        report.problem(&table.spot_of("zone"), wrong.hint(format!("calendar = \"day\" {instead}, or remove it")));
    }
}

fn session(table: &Table<'_>, report: &mut Report) -> Option<WindowKind> {
    let gap = span(table, "gap", report);
    let max_length = match table.get("max_length") {
        Some(_) => Some(span(table, "max_length", report)?),
        None => None,
    };
    let gap = gap?;
    if max_length.is_some_and(|max| max < gap) {
        let wrong =
            Wrong::new(format!("must not be below `gap` ({}): a single record would be longer", scalar::show(gap)));
        report.problem(&table.spot_of("max_length"), wrong);
    }
    Some(WindowKind::Session { gap, max_length })
}

fn calendar(table: &Table<'_>, report: &mut Report) -> Option<WindowKind> {
    let units = CalendarUnit::ALL.map(|unit| (unit.as_str(), unit));
    let unit = table.choice("calendar", &units, report);
    let zone = match table.get("zone") {
        Some(_) => table.parsed("zone", "a time zone", report, scalar::zone),
        None => Zone::find("UTC"),
    };
    let offset = table.parsed("offset", scalar::DURATION, report, |text| {
        let from_start = |_| Wrong::new("must be a duration from the start of the unit, not negative");
        scalar::signed_millis(text).and_then(|millis| u64::try_from(millis).map_err(from_start))
    });
    let (unit, offset) = (unit?, Span::from_millis(offset?));
    if offset >= unit.offset_max() {
        let wrong = format!("must be less than one {} ({})", unit.as_str(), scalar::show(unit.offset_max()));
        report.problem(&table.spot_of("offset"), Wrong::new(wrong));
    }
    Some(WindowKind::Calendar { unit, zone: zone?, offset })
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
