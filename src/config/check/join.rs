//! `[[joins]]`.
//!
//! Joins refer to streams and windows by name: they are looked at when the streams
//! could be built, and by themselves when not.

use crate::config::problem::{Report, Wrong, nearest};
use crate::config::raw::Value;
use crate::engine::spec::{JoinKind, JoinSpec, KeySpec, Scope, StreamSpec, WindowKind, WindowRef, WindowSpec};
use crate::model::ids::Name;
use crate::model::limits::{JOIN_SIDES_MAX, JOINS_MAX, SPAN_MAX};
use crate::model::time::Span;

use super::table::{Item, Table, unique_names};
use super::{items, keys, name, scalar};

pub(super) const TTL: core::ops::RangeInclusive<Span> = Span::from_secs(1)..=SPAN_MAX;
const EXAMPLE: &str =
    "windows = [\"climate/1m\", \"power/1m\"], or left = \"door\", right = \"motion\", after = \"10s\"";

/// All joins; `None` when one could not be built.
pub(super) fn check_all(
    root: &Table<'_>,
    streams: Option<&[StreamSpec]>,
    report: &mut Report,
) -> Option<Vec<JoinSpec>> {
    let items = match root.get("joins") {
        Some(_) => items(root, "joins", JOINS_MAX, report)?,
        None => Vec::new(),
    };
    let tables: Vec<Table<'_>> = items.iter().filter_map(|item| Table::open_item(item, &keys::JOIN, report)).collect();
    unique_names(&tables, report);
    let joins: Vec<JoinSpec> = tables.iter().filter_map(|table| join(table, streams, report)).collect();
    (joins.len() == items.len()).then_some(joins)
}

/// Whether an interval join names the stream, read from the text: the joins are checked
/// after the streams.
pub(super) fn pairs(root: &Table<'_>, stream: &Table<'_>) -> bool {
    let text = |value: &Value| if let Value::Text(text) = value { Some(text.clone()) } else { None };
    let Some(name) = stream.get("name").and_then(|name| text(name.value)) else { return false };
    let joins = root.get("joins").map(|joins| joins.value);
    let Some(Value::List(joins)) = joins else { return false };
    let sides = joins.iter().filter_map(|join| if let Value::Table(keys) = &join.value { Some(keys) } else { None });
    let mut sides = sides.flatten().filter(|entry| matches!(entry.key.as_str(), "left" | "right"));
    sides.any(|entry| text(&entry.node.value).as_ref() == Some(&name))
}

fn join(table: &Table<'_>, streams: Option<&[StreamSpec]>, report: &mut Report) -> Option<JoinSpec> {
    let join_name = table.parsed("name", "a string", report, name);
    let ttl = table.parsed("ttl", scalar::DURATION, report, |text| scalar::span(text, TTL));
    let is_interval = table.get("left").is_some() || table.get("right").is_some();
    let kind = match (table.get("windows"), is_interval) {
        (Some(windows), false) => {
            has_no_use(table, &["after", "before", "key"], "of a window join, which `windows` makes", report);
            window_join(table, &windows, streams, report)
        }
        (None, true) => {
            has_no_use(table, &["mode"], "of an interval join, which `left` and `right` make", report);
            interval_join(table, streams, report)
        }
        (Some(windows), true) => {
            let wrong = Wrong::new("`windows` makes a window join, `left` and `right` an interval join");
            report.problem(&windows.spot, wrong.hint("remove one of them"));
            None
        }
        (None, false) => {
            report.problem(&table.spot(), Wrong::new("joins nothing").hint(EXAMPLE));
            None
        }
    };
    let (join_name, kind) = (join_name?, kind?);
    if let (Some(ttl), JoinKind::Interval { lower_ms, upper_ms, .. }) = (ttl, &kind) {
        let reach = Span::from_millis(lower_ms.unsigned_abs().max(upper_ms.unsigned_abs()));
        if ttl <= reach {
            let wrong =
                Wrong::new(format!("must be above {}: a record waits so long for its partner", scalar::show(reach)));
            let enough = scalar::show(reach + Span::from_secs(600));
            report.problem(
                &table.spot_of("ttl"),
                wrong.hint(format!("\"{enough}\", or more by what clocks and links differ")),
            );
        }
    }
    check_id(table, &join_name, &kind, streams.unwrap_or_default(), report);
    Some(JoinSpec { name: join_name, ttl: ttl?, kind })
}

fn has_no_use(table: &Table<'_>, keys: &[&str], why: &str, report: &mut Report) {
    for key in keys {
        if let Some(item) = table.get(key) {
            report.problem(&item.spot, Wrong::new(format!("is no setting {why}")).hint("remove it"));
        }
    }
}

/// Ids of joins are `gw/join/NAME/…`, those of panes `gw/STREAM/WINDOW/…`.
fn check_id(table: &Table<'_>, join: &Name, kind: &JoinKind, streams: &[StreamSpec], report: &mut Report) {
    let same = |stream: &&StreamSpec| {
        stream.name.as_str() == "join" && stream.windows.iter().any(|window| window.name == *join)
    };
    if matches!(kind, JoinKind::Window { .. }) && streams.iter().any(|stream| same(&stream)) {
        let wrong = "its rows would have the ids of the window of that name in the stream \"join\"";
        report.problem(&table.spot_of("name"), Wrong::new(wrong).hint("another name for one of them"));
    }
}

fn window_join(
    table: &Table<'_>,
    windows: &Item<'_>,
    streams: Option<&[StreamSpec]>,
    report: &mut Report,
) -> Option<JoinKind> {
    let outer = match table.get("mode") {
        Some(_) => table.choice("mode", &[("inner", false), ("outer", true)], report),
        None => Some(false),
    };
    let items = windows.list(report)?;
    if !(2..=JOIN_SIDES_MAX).contains(&items.len()) {
        let wrong = Wrong::new(format!("has {} items, 2 to {JOIN_SIDES_MAX} are allowed", items.len()));
        report.problem(&windows.spot, wrong.hint("[\"climate/1m\", \"power/1m\"]"));
    }
    let streams = streams?;
    let mut sides: Vec<(&StreamSpec, &WindowSpec)> = Vec::new();
    for item in &items {
        let Some((stream, window)) = item.parsed("a string", report, |text| find_window(text, streams)) else {
            continue;
        };
        if let Some(wrong) = misfit(&sides, stream, window) {
            report.problem(&item.spot, wrong);
        }
        sides.push((stream, window));
    }
    if sides.len() != items.len() {
        return None;
    }
    let reference = |(stream, window): (&StreamSpec, &WindowSpec)| WindowRef {
        stream: stream.name.clone(),
        window: window.name.clone(),
    };
    Some(JoinKind::Window { sides: sides.into_iter().map(reference).collect(), outer: outer? })
}

/// `stream/window`; both names may have slashes of their own.
fn find_window<'s>(text: &str, streams: &'s [StreamSpec]) -> Result<(&'s StreamSpec, &'s WindowSpec), Wrong> {
    let all = || streams.iter().flat_map(|stream| stream.windows.iter().map(move |window| (stream, window)));
    let path = |(stream, window): &(&StreamSpec, &WindowSpec)| format!("{}/{}", stream.name, window.name);
    let mut found = all().filter(|window| path(window) == text);
    match (found.next(), found.next()) {
        (Some(window), None) => Ok(window),
        (Some(_), Some(_)) => {
            Err(Wrong::new("could be two windows").hint("rename a stream or a window that has a slash in its name"))
        }
        (None, _) => {
            let known: Vec<String> = all().map(|window| path(&window)).collect();
            let wrong = Wrong::new("is no window of a stream, written `stream/window`");
            Err(match nearest(text, known.iter().map(String::as_str)) {
                Some(near) => wrong.hint(format!("did you mean \"{near}\"?")),
                None => wrong.hint(format!("known: {}", known.join(", "))),
            })
        }
    }
}

/// Why a window cannot stand beside those before it.
fn misfit(before: &[(&StreamSpec, &WindowSpec)], stream: &StreamSpec, window: &WindowSpec) -> Option<Wrong> {
    if let Some((_, other)) = before.iter().find(|(other, _)| other.name == stream.name) {
        return Some(if other.name == window.name {
            Wrong::new("appears twice")
        } else {
            let wrong = Wrong::new(format!("the stream \"{}\" has a side already", stream.name));
            wrong.hint("what one stream computes belongs into one window")
        });
    }
    if let WindowKind::Session { .. } = window.kind {
        let wrong = Wrong::new("is a session: sessions of two streams never have the same bounds");
        return Some(wrong.hint("a window with a `size`"));
    }
    let (first_stream, first) = before.first()?;
    let differs = difference(first, window)?;
    let wrong = format!(
        "has another `{differs}` than \"{}/{}\": no window of one is a window of the other",
        first_stream.name, first.name
    );
    Some(Wrong::new(wrong).hint("the same borders and the same key on every side"))
}

/// The key of the configuration in which two windows differ so that they cannot be
/// joined.
fn difference(a: &WindowSpec, b: &WindowSpec) -> Option<&'static str> {
    if a.key != b.key {
        return Some("key");
    }
    if a.kind == b.kind {
        return None;
    }
    let differences = match (a.kind, b.kind) {
        (
            WindowKind::Calendar { unit, zone, offset },
            WindowKind::Calendar { unit: other_unit, zone: other_zone, offset: other_offset },
        ) => [("calendar", unit != other_unit), ("zone", zone != other_zone), ("offset", offset != other_offset)],
        (WindowKind::Calendar { .. }, _) | (_, WindowKind::Calendar { .. }) => [("calendar", true); 3],
        (a, b) => {
            // A session was reported where it stands.
            let ((size, slide, offset), (other_size, other_slide, other_offset)) = (borders(a)?, borders(b)?);
            [("size", size != other_size), ("slide", slide != other_slide), ("offset", offset != other_offset)]
        }
    };
    differences.into_iter().find_map(|(key, differs)| differs.then_some(key))
}

fn borders(kind: WindowKind) -> Option<(Span, Option<Span>, i64)> {
    match kind {
        WindowKind::Tumbling { size, offset_ms } => Some((size, None, offset_ms)),
        WindowKind::Sliding { size, slide, offset_ms } => Some((size, Some(slide), offset_ms)),
        WindowKind::Session { .. } | WindowKind::Calendar { .. } => None,
    }
}

fn interval_join(table: &Table<'_>, streams: Option<&[StreamSpec]>, report: &mut Report) -> Option<JoinKind> {
    let bound = |key: &str, report: &mut Report| match table.get(key) {
        Some(item) => item.parsed(scalar::DURATION, report, scalar::signed_millis),
        None => Some(0),
    };
    let (after, before) = (bound("after", report), bound("before", report));
    if !table.means("after") && !table.means("before") {
        let wrong = Wrong::new("is missing, as is `before`: only records of the same millisecond would be pairs");
        report.problem(&table.spot_of("after"), wrong.hint("after = \"10s\": up to 10 s later than the left one"));
    }
    if let (Some(after), Some(before)) = (after, before)
        && after < before.saturating_neg()
    {
        let wrong = Wrong::new("the interval ends before it begins: from -`before` to `after`");
        report.problem(&table.spot_of("after"), wrong.hint("before = \"-2s\" with after = \"10s\": 2 to 10 s later"));
    }
    let key = match table.get("key") {
        Some(_) => table.choice("key", &[("device", KeySpec::Device), ("group", KeySpec::Group)], report),
        None => Some(KeySpec::Device),
    };
    let left = side(table, "left", streams, key, report);
    let right = side(table, "right", streams, key, report);
    let (left, right) = (left?, right?);
    if left == right {
        let wrong = Wrong::new("is `left` as well: every record would be its own partner");
        report.problem(&table.spot_of("right"), wrong.hint("two streams, each with the topics and fields of one side"));
    }
    Some(JoinKind::Interval { left, right, lower_ms: before?.saturating_neg(), upper_ms: after?, key: key? })
}

fn side(
    table: &Table<'_>,
    side: &str,
    streams: Option<&[StreamSpec]>,
    key: Option<KeySpec>,
    report: &mut Report,
) -> Option<Name> {
    let Some(item) = table.get(side) else {
        report.problem(&table.spot_of(side), Wrong::new("is missing").hint(EXAMPLE));
        return None;
    };
    let Some(streams) = streams else {
        // The streams have problems of their own; the word is not judged without them.
        if !matches!(item.value, Value::Text(_)) {
            item.parsed("a string", report, name);
        }
        return None;
    };
    let stream = item.parsed("a string", report, |text| {
        let known = || streams.iter().map(|stream| stream.name.as_str());
        let wrong = || Wrong::new("is no stream");
        streams.iter().find(|stream| stream.name.as_str() == text).ok_or_else(|| match nearest(text, known()) {
            Some(near) => wrong().hint(format!("did you mean \"{near}\"?")),
            None => wrong().hint(format!("known: {}", known().collect::<Vec<_>>().join(", "))),
        })
    })?;
    if key == Some(KeySpec::Group) {
        let by_window = stream.windows.iter().any(|window| window.key == KeySpec::Group);
        if stream.topics.iter().any(|topic| topic.group.is_none()) {
            let wrong = Wrong::new("has no `group`, which key = \"group\" needs");
            report.problem(&item.spot, wrong.hint("a `group` for that stream, or key = \"device\""));
        } else if stream.watermark.scope == Scope::Device {
            let wrong = Wrong::new("has a watermark for each device, and a group has several");
            report.problem(&item.spot, wrong.hint("scope = \"group\" for that stream, or key = \"device\""));
        } else if !by_window && !matches!(stream.watermark.scope, Scope::Group(_)) {
            let wrong = Wrong::new("makes no use of its `group`, neither for its scope nor for a window");
            report.problem(&item.spot, wrong.hint("scope = \"group\" for that stream, or key = \"device\""));
        }
    }
    Some(stream.name.clone())
}
