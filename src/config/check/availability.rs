//! `availability` of a stream: topics that say who is there.

use crate::config::problem::{Report, Wrong};
use crate::engine::spec::{AvailabilitySpec, Whom};
use crate::model::limits::TOPICS_MAX;
use crate::model::template::Template;

use super::table::{Item, Table};
use super::{keys, time, topics};

/// All of them.
pub(super) fn check_all(stream: &Table<'_>, report: &mut Report) -> Option<Vec<AvailabilitySpec>> {
    let Some(item) = stream.get("availability") else { return Some(Vec::new()) };
    let items = item.list(report)?;
    if items.len() > TOPICS_MAX {
        report.problem(&item.spot, Wrong::new(format!("has {} entries, at most {TOPICS_MAX}", items.len())));
        return None;
    }
    let rules: Vec<_> = items.iter().filter_map(|item| rule(item, report)).collect();
    (rules.len() == items.len()).then_some(rules)
}

fn rule(item: &Item<'_>, report: &mut Report) -> Option<AvailabilitySpec> {
    let table = Table::open_item(item, &keys::AVAILABILITY, report)?;
    let pattern = table.required("topic", report).and_then(|item| topics::pattern(&item, report));
    let pointer = match table.get("field") {
        Some(item) => Some(item.parsed("a JSON Pointer", report, time::pointer)?),
        None => None,
    };
    let [online, offline] = ["online", "offline"].map(|key| words(&table, key, report));
    let pattern = pattern?;
    let template = |item: &Item<'_>, report: &mut Report| {
        item.parsed("a string", report, |text| {
            Template::parse(text, &pattern).map_err(|error| Wrong::new(error.to_string()))
        })
    };
    let devices = match (table.get("device"), table.get("below")) {
        (Some(item), Some(_)) => {
            report.problem(&item.spot, Wrong::new("`device` and `below` exclude each other"));
            return None;
        }
        (Some(item), None) => Whom::Device(template(&item, report)?),
        (None, Some(item)) => Whom::Below(template(&item, report)?),
        (None, None) if pattern.capture_names().iter().any(|name| name == "device") => {
            Whom::Device(Template::parse("{device}", &pattern).ok()?)
        }
        (None, None) => Whom::All,
    };
    Some(AvailabilitySpec { pattern, devices, pointer, online: online?, offline: offline? })
}

fn words(table: &Table<'_>, key: &str, report: &mut Report) -> Option<Vec<String>> {
    let Some(item) = table.get(key) else { return Some(vec![key.to_owned()]) };
    let items = item.one_or_more(1..=TOPICS_MAX, report)?;
    items.iter().map(|item| item.parsed("a word", report, |text| Ok(text.to_owned()))).collect()
}
