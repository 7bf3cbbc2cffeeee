//! Topics of a stream, and what is made of them: device ids, labels, groups.

use std::collections::BTreeMap;

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::{DevicePatterns, LabelSpec, TopicSpec};
use crate::model::ids::DeviceId;
use crate::model::limits::{DEVICE_ID_BYTES, LABEL_MAP_MAX, LABELS_MAX, TOPICS_MAX};
use crate::model::template::{PayloadText, Template, Words};
use crate::model::topic::{TopicError, TopicPattern};

use super::keys;
use super::table::{Item, Table};

/// What was read.
pub(super) struct Topics {
    pub(super) readings: Vec<TopicSpec>,
    pub(super) ignore: Vec<TopicPattern>,
    pub(super) labels: Vec<LabelSpec>,
    /// What templates take from the payload.
    pub(super) texts: Vec<PayloadText>,
}

/// A label as it is written.
struct Label<'t> {
    spec: LabelSpec,
    from: Item<'t>,
    template: String,
}

/// The topics of `table`. `field`: how single values are called, for formats that have one.
pub(super) fn check(table: &Table<'_>, field: Option<&Item<'_>>, report: &mut Report) -> Option<Topics> {
    let patterns = patterns(table, "topic", report);
    let ignore = if table.has("ignore") { patterns_of(table, "ignore", report) } else { Some(Vec::new()) };
    let labels = labels(table, report);
    let patterns = patterns?;
    let labels = labels?;
    let names: Vec<String> = labels.iter().map(|label| label.spec.name.clone()).collect();
    let mut words = Words { labels: &names, texts: Vec::new() };
    let prefix = prefix(table, &patterns, report);
    let mut topics = Vec::new();
    for (item, pattern) in &patterns {
        // What a label is made of are no labels.
        let mut plain = Words { labels: &[], texts: core::mem::take(&mut words.texts) };
        let device = device(table, item, pattern, &mut plain, report);
        let labels: Option<Vec<Template>> =
            labels.iter().map(|label| template(&label.from, &label.template, pattern, &mut plain, report)).collect();
        words.texts = plain.texts;
        let group = optional(table.get("group").as_ref(), pattern, &mut words, report);
        let field = optional(field, pattern, &mut Words::default(), report);
        let prefix = prefix.as_ref().and_then(|text| Template::parse(text, pattern).ok());
        topics.push(TopicSpec {
            group: group.ok()?,
            labels: labels?,
            field: field.ok()?,
            prefix,
            ..TopicSpec::new(pattern.clone(), device?)
        });
    }
    let labels = labels.into_iter().map(|label| label.spec).collect();
    Some(Topics { readings: topics, ignore: ignore?, labels, texts: words.texts })
}

/// The text of `prefix`, which fits at least one of the topics: where one does not capture
/// what it names, names have none.
fn prefix(table: &Table<'_>, patterns: &[(Item<'_>, TopicPattern)], report: &mut Report) -> Option<String> {
    let item = table.get("prefix")?;
    item.parsed("a string", report, |text| {
        let mut read =
            patterns.iter().map(|(_, pattern)| Template::parse(text, pattern).map_err(|error| wrong(&error, pattern)));
        match (read.clone().find_map(Result::ok), read.next()) {
            (None, Some(Err(wrong))) => Err(wrong),
            _ => Ok(text.to_owned()),
        }
    })
}

/// A topic, or several; with the place of each.
fn patterns<'t>(table: &Table<'t>, key: &str, report: &mut Report) -> Option<Vec<(Item<'t>, TopicPattern)>> {
    let item = table.required(key, report)?;
    let items = item.one_or_more(1..=TOPICS_MAX, report)?;
    let count = items.len();
    let found: Vec<_> =
        items.into_iter().filter_map(|item| pattern(&item, report).map(|pattern| (item, pattern))).collect();
    (found.len() == count).then_some(found)
}

/// The same without their places.
fn patterns_of(table: &Table<'_>, key: &str, report: &mut Report) -> Option<Vec<TopicPattern>> {
    Some(patterns(table, key, report)?.into_iter().map(|(_, pattern)| pattern).collect())
}

/// One topic.
pub(super) fn pattern(item: &Item<'_>, report: &mut Report) -> Option<TopicPattern> {
    item.parsed("a string", report, |text| {
        TopicPattern::parse(text).map_err(|error| {
            let wrong = Wrong::new(error.to_string());
            if text.contains('#') { wrong.hint("for several levels: `{device...}`") } else { wrong }
        })
    })
}

fn wrong(error: &TopicError, topic: &TopicPattern) -> Wrong {
    let wrong = Wrong::new(error.to_string());
    match topic.capture_names() {
        [] => wrong.hint("a fixed name, `{/pointer}` of the payload, or capture a level of the topic: `{device}`"),
        [first, ..] => wrong.hint(format!("\"{{{first}}}\", or `{{/pointer}}` of the payload")),
    }
}

fn parse(text: &str, pattern: &TopicPattern, words: &mut Words<'_>) -> Result<Template, Wrong> {
    Template::parse_with(text, pattern, words).map_err(|error| wrong(&error, pattern))
}

fn text(item: &Item<'_>, pattern: &TopicPattern, words: &mut Words<'_>, report: &mut Report) -> Option<Template> {
    match item.value {
        Value::Text(text) if !text.is_empty() => template(item, text, pattern, words, report),
        Value::Text(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Bool(_)
        | Value::Null
        | Value::List(_)
        | Value::Table(_) => item.parsed("a string", report, |_| Err(Wrong::new("is empty"))),
    }
}

/// The template of a key that may be absent.
///
/// # Errors
/// It is there and wrong, which was reported.
fn optional(
    item: Option<&Item<'_>>,
    pattern: &TopicPattern,
    words: &mut Words<'_>,
    report: &mut Report,
) -> Result<Option<Template>, Reported> {
    item.map(|item| text(item, pattern, words, report).ok_or(Reported)).transpose()
}

fn template(
    item: &Item<'_>,
    text: &str,
    pattern: &TopicPattern,
    words: &mut Words<'_>,
    report: &mut Report,
) -> Option<Template> {
    match parse(text, pattern, words) {
        Ok(template) => Some(template),
        Err(wrong) => {
            report.problem(&item.spot, wrong);
            None
        }
    }
}

fn device(
    table: &Table<'_>,
    topic: &Item<'_>,
    pattern: &TopicPattern,
    words: &mut Words<'_>,
    report: &mut Report,
) -> Option<Template> {
    if let Some(item) = table.get("device") {
        return text(&item, pattern, words, report);
    }
    if pattern.capture_names().iter().any(|name| name == "device") {
        return Template::parse("{device}", pattern).ok();
    }
    let wrong = Wrong::new("is missing: the topic captures no `{device}`");
    let spot = if table.get("topic").is_some_and(|whole| whole.spot.path == topic.spot.path) {
        table.spot_of("device")
    } else {
        topic.spot.clone()
    };
    report.problem(
        &spot,
        match pattern.capture_names() {
            [] => wrong.hint("write `{device}` for a level of the topic, or give a fixed name"),
            [first, ..] => wrong.hint(format!("device = \"{{{first}}}\"")),
        },
    );
    None
}

/// `labels`: a text each, or a table.
fn labels<'t>(table: &Table<'t>, report: &mut Report) -> Option<Vec<Label<'t>>> {
    let Some(item) = table.get("labels") else { return Some(Vec::new()) };
    let Value::Table(entries) = item.value else {
        let wrong = Wrong::new(format!("must be a table, not {}", item.value.kind()));
        report.problem(&item.spot, wrong.hint("{ site = \"north\", room = \"{room}\", model = \"{/model}\" }"));
        return None;
    };
    if entries.len() > LABELS_MAX {
        report.problem(&item.spot, Wrong::new(format!("has {} labels, at most {LABELS_MAX}", entries.len())));
        return None;
    }
    let mut labels = Vec::new();
    for entry in entries {
        let label = Item::new(&entry.node, format!("{}.{}", item.spot.path, entry.key));
        if !entry.key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') || entry.key.is_empty() {
            report.problem(&label.spot, Wrong::new("a label's name has letters, digits and `_` only"));
            continue;
        }
        labels.extend(label_of(&entry.key, label, report));
    }
    (labels.len() == entries.len()).then_some(labels)
}

fn label_of<'t>(name: &str, item: Item<'t>, report: &mut Report) -> Option<Label<'t>> {
    if !matches!(item.value, Value::Table(_)) {
        let template = item.parsed("a text, or a table with `from`", report, |text| Ok(text.to_owned()))?;
        let spec = LabelSpec { name: name.to_owned(), map: BTreeMap::new(), default: None };
        return Some(Label { spec, from: item, template });
    }
    let table = Table::open_item(&item, &keys::LABEL, report)?;
    let from = table.required("from", report);
    let template = from.as_ref().and_then(|from| from.parsed("a text", report, |text| Ok(text.to_owned())));
    let label_text = |text: &str| match DeviceId::new(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(Wrong::new(format!("a label has 1 to {DEVICE_ID_BYTES} printable bytes"))),
    };
    let default = match table.get("default") {
        Some(item) => Some(item.parsed("a text", report, label_text)?),
        None => None,
    };
    let mut map = BTreeMap::new();
    if let Some(item) = table.get("map") {
        let Value::Table(entries) = item.value else {
            report.problem(&item.spot, Wrong::new(format!("must be a table, not {}", item.value.kind())));
            return None;
        };
        if entries.is_empty() || entries.len() > LABEL_MAP_MAX {
            report.problem(&item.spot, Wrong::new(format!("has {} entries, 1 to {LABEL_MAP_MAX}", entries.len())));
            return None;
        }
        for entry in entries {
            let value = Item::new(&entry.node, format!("{}.{}", item.spot.path, entry.key));
            map.insert(entry.key.clone(), value.parsed("a text", report, label_text)?);
        }
    }
    Some(Label { spec: LabelSpec { name: name.to_owned(), map, default }, from: from?, template: template? })
}

/// A problem that is in the report.
pub(super) struct Reported;

/// `allow` or `deny`.
///
/// # Errors
/// It is there and wrong, which was reported.
pub(super) fn devices(table: &Table<'_>, key: &str, report: &mut Report) -> Result<Option<DevicePatterns>, Reported> {
    let Some(item) = table.get(key) else { return Ok(None) };
    let items = item.one_or_more(1..=LABEL_MAP_MAX, report).ok_or(Reported)?;
    let patterns: Option<Vec<String>> = items
        .iter()
        .map(|item| item.parsed("a device id, or a pattern with `*`", report, |text| Ok(text.to_owned())))
        .collect();
    Ok(Some(DevicePatterns(patterns.ok_or(Reported)?)))
}
