//! `[[streams]]`.

use crate::config::preset;
use crate::config::problem::{Report, Spot, Wrong};
use crate::engine::decode::sparkplug::coverage::hears_all;
use crate::engine::spec::{
    FieldsSpec, FormatSpec, KeySpec, Scope, Strategy, StreamSpec, TimeSpec, TopicSpec, WatermarkSpec, WindowSpec,
};
use crate::model::limits::{DEVICES_MAX, SPAN_MAX, STREAMS_MAX};
use crate::model::time::Span;

use super::dedup::{self, Around};
use super::table::{Table, unique_names};
use super::topics::Topics;
use super::{
    availability, fields, format, items, join, keys, mapping, meaning, name, records, rules, scalar, time, topics,
    watermark, window,
};

/// All streams; `None` when one could not be built.
pub(super) fn check_all(root: &Table<'_>, report: &mut Report) -> Option<Vec<StreamSpec>> {
    let items = match root.get("streams") {
        Some(_) => items(root, "streams", STREAMS_MAX, report)?,
        None => Vec::new(),
    };
    if items.is_empty() {
        let wrong = Wrong::new("there is none: nothing will be subscribed to");
        report.warn(&root.spot_of("streams"), wrong.hint("add [[streams]]"));
    }
    let tables: Vec<Table<'_>> =
        items.iter().filter_map(|item| Table::open_item(item, &keys::STREAM, report)).collect();
    unique_names(&tables, report);
    let mut streams: Vec<StreamSpec> = Vec::new();
    for table in &tables {
        let Some(stream) = stream(table, join::pairs(root, table), report) else { continue };
        if let Some(other) = streams.iter().find(|other| share_topics(other, &stream)) {
            let wrong = Wrong::new(format!("some of these topics belong to the stream \"{}\" too", other.name));
            report.warn(&table.spot_of("topic"), wrong);
        }
        warn_of_parts(table, &stream, &streams, report);
        streams.push(stream);
    }
    if streams.len() == tables.len() {
        dedup::check_total(&streams, &tables, report);
    }
    (streams.len() == items.len()).then_some(streams)
}

/// The numbers of Sparkplug go over an edge node and all its devices.
fn warn_of_parts(table: &Table<'_>, stream: &StreamSpec, earlier: &[StreamSpec], report: &mut Report) {
    if stream.format == FormatSpec::SparkplugB && !hears_all(stream, earlier) {
        let wrong = Wrong::new("this stream takes a part of what edge nodes send: births that it misses go unnoticed");
        report
            .warn(&table.spot_of("topic"), wrong.hint("\"spBv1.0/{group}/+/{device...}\", and nothing ignored of it"));
    }
}

/// `is_paired`: an interval join reads its records.
fn stream(table: &Table<'_>, is_paired: bool, report: &mut Report) -> Option<StreamSpec> {
    let stream_name = table.parsed("name", "a string", report, name);
    if table.get("preset").is_some_and(|item| !preset::is_known(item.value)) {
        // Which is reported, and what it would have said is not known to be missing.
        return None;
    }
    let (format, field) = format::check(table, report).unzip();
    let topics = topics::check(table, field.as_ref().and_then(Option::as_ref), report);
    let availability = availability::check_all(table, report);
    let fields = fields::check(table, report);
    let time = time::check(table, report);
    if let (Some(format), Some(TimeSpec::Own { .. })) = (&format, &time)
        && !format.has_time()
    {
        let spot = table.get("time").map_or_else(|| table.spot_of("time"), |item| item.spot);
        let spot = Spot { path: format!("{}.source", spot.path), ..spot };
        let wrong = Wrong::new("cannot be \"payload\": this format gives no time of its own");
        report.problem(&spot, wrong.hint("the field that holds it: { field = \"/ts\", unit = \"ms\" }"));
    }
    let watermark = watermark::check(table, fields.as_ref(), report);
    check_marker(table, fields.as_ref(), watermark.as_ref(), report);
    let on_idle = watermark::on_idle(table, watermark.as_ref(), report);
    let max_future = table.parsed("max_future", watermark::OFF, report, |text| scalar::or_off(text, any_span));
    let min_time = table
        .parsed("min_time", "a moment in RFC 3339, or \"off\"", report, |text| scalar::or_off(text, scalar::moment));
    let devices_max = table.integer("devices_max", 1..=DEVICES_MAX, report);
    watermark::check_devices_max(table, watermark.as_ref(), devices_max, report);
    let state_ttl = table.parsed("state_ttl", watermark::OFF, report, |text| {
        scalar::or_off(text, |text| scalar::span(text, Span::MILLI..=SPAN_MAX))
    });
    let carry_forward = table.parsed("carry_forward", watermark::OFF, report, |text| {
        scalar::or_off(text, |text| scalar::span(text, Span::MILLI..=SPAN_MAX))
    });
    let around = Around { fields: fields.as_ref(), time: time.as_ref(), devices_max };
    let dedup = dedup::check(table, &around, report);
    let records = records::check(table, is_paired, report);
    let windows = window::check_all(table, watermark.as_ref(), report);
    check_group(table, watermark.as_ref(), windows.as_deref(), report);
    let rules = rules::check(table, fields.as_ref(), topics.as_ref(), report);
    let texts = topics.as_ref().map(|topics| topics.texts.clone());
    let mapping = mapping::check(table, fields, time, texts, matches!(format, Some(FormatSpec::Csv(_))), report);
    let Topics { readings: topics, ignore, labels, .. } = topics?;
    let first = topics.first()?.clone();
    let stream = StreamSpec {
        meaning: meaning::of(table),
        topics,
        ignore,
        labels,
        availability: availability?,
        format: format?,
        mapping: mapping?,
        rules: rules?,
        watermark: watermark?,
        on_idle: on_idle?,
        max_future: max_future?,
        min_time: min_time?,
        devices_max: devices_max?,
        state_ttl: state_ttl?,
        dedup,
        carry_forward: carry_forward?,
        records: records?,
        windows: windows?,
        ..StreamSpec::new(stream_name?, first.pattern, first.device)
    };
    check_state_ttl(table, &stream, report);
    check_carry_forward(table, &stream, report);
    Some(stream)
}

fn check_marker(
    table: &Table<'_>,
    fields: Option<&FieldsSpec>,
    watermark: Option<&WatermarkSpec>,
    report: &mut Report,
) {
    if let (Some(fields), Some(Strategy::Punctuated { field })) =
        (fields, watermark.map(|watermark| &watermark.strategy))
        && fields.is_state(field.as_str())
    {
        let wrong = Wrong::new(format!("must be a number; `{field}` is a state"));
        report.problem(&table.spot_of("marker"), wrong.hint("another field with the same pointer"));
    }
}

/// With one field there is nothing that a record could lack.
fn check_carry_forward(table: &Table<'_>, stream: &StreamSpec, report: &mut Report) {
    if let (Some(_), FieldsSpec::Named(named)) = (stream.carry_forward, &stream.mapping.fields)
        && named.len() == 1
    {
        let wrong = Wrong::new("completes nothing: the stream has but one field");
        report.warn(&table.spot_of("carry_forward"), wrong);
    }
}

/// A device that comes back after `state_ttl` must find its old windows behind it.
fn check_state_ttl(table: &Table<'_>, stream: &StreamSpec, report: &mut Report) {
    let Some(ttl) = stream.state_ttl else { return };
    let least = stream.shortest_ttl();
    if ttl < least {
        let wrong =
            Wrong::new("must be at least what the longest window takes: its size, its lateness and the disorder");
        report.problem(&table.spot_of("state_ttl"), wrong.hint(format!("\"{}\" or more", scalar::show(least))));
    }
    if let Some(timeout) = stream.watermark.idle_timeout.filter(|timeout| ttl < *timeout) {
        let wrong = Wrong::new(format!("must not be below `idle_timeout` ({})", scalar::show(timeout)));
        report.problem(&table.spot_of("state_ttl"), wrong);
    }
}

fn any_span(text: &str) -> Result<Span, Wrong> {
    scalar::span(text, Span::ZERO..=SPAN_MAX)
}

/// A label is needed where somebody asks for it, and there only.
fn check_group(
    table: &Table<'_>,
    watermark: Option<&WatermarkSpec>,
    windows: Option<&[WindowSpec]>,
    report: &mut Report,
) {
    let scope = watermark.map(|watermark| matches!(watermark.scope, Scope::Group(_)));
    let key = windows.map(|windows| windows.iter().any(|window| window.key == KeySpec::Group));
    let wanted_by = match (scope, key) {
        (Some(true), _) => Some("scope = \"group\""),
        (_, Some(true)) => Some("key = \"group\""),
        _ => None,
    };
    match (table.get("group"), wanted_by) {
        (None, Some(wanted_by)) => {
            let wrong = Wrong::new(format!("is missing: {wanted_by} needs a label"));
            report.problem(&table.spot_of("group"), wrong.hint("group = \"{site}\", with `{site}` in the topic"));
        }
        (Some(item), None) if scope.is_some() && key.is_some() => {
            let wrong = Wrong::new("is used by no window and no watermark");
            report.warn(&item.spot, wrong.hint("scope = \"group\", or key = \"group\" for a window"));
        }
        (None, None) | (Some(_), _) => {}
    }
}

/// Whether a topic can belong to both.
fn share_topics(a: &StreamSpec, b: &StreamSpec) -> bool {
    let filter = |topic: &TopicSpec| topic.pattern.filter().to_owned();
    let (a, b): (Vec<_>, Vec<_>) = (a.topics.iter().map(filter).collect(), b.topics.iter().map(filter).collect());
    a.iter().any(|a| b.iter().any(|b| overlap(a, b)))
}

/// Whether a topic can match both MQTT filters.
fn overlap(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.split('/'), b.split('/'));
    loop {
        match (a.next(), b.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(x), Some(y)) if x == y || x == "+" || y == "+" => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_overlap_when_one_topic_fits_both() {
        for (a, b, expected) in [
            ("a/+/c", "a/b/+", true),
            ("a/+", "a/+/#", true),
            ("a/+/#", "a/b/c/d", true),
            ("a/b", "a/c", false),
            ("a", "a/b", false),
            ("+/x", "+/y", false),
        ] {
            assert_eq!((overlap(a, b), overlap(b, a)), (expected, expected), "{a} {b}");
        }
    }
}
