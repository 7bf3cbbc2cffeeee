//! The windows' results, field by field.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::engine::spec::{OnIdle, WindowKind};

use crate::oracle::{Cell, Key, Oracle, is_result};
use crate::process::World;

impl World {
    /// Windows whose highest revision is not what the oracle says.
    pub(super) fn check_panes(&self, oracle: &Oracle) -> Result<Vec<String>, String> {
        let mut found: BTreeMap<Key, &Value> = BTreeMap::new();
        for (id, record) in self.cloud.receiver.panes().filter(|(_, record)| record["kind"] == "pane") {
            found.insert(key_of(id, record), record);
        }
        let mut off = Vec::new();
        for (key, cell) in &oracle.cells {
            let settled = self.is_settled_at_the_end(&key.0, cell);
            let with_time = |time: &i64| (key.0.clone(), key.1.clone(), key.2.clone(), *time);
            let standing = cell.absorbed.iter().filter_map(|time| found.remove(&with_time(time))).last();
            // One evicted pane may be the reason of all that is wrong with one session.
            match (found.remove(key), standing) {
                (Some(record), _) if record["count"].as_u64().is_none_or(|count| count > cell.count) => {
                    return Err(format!("more records than there were ({}): {record}", cell.count));
                }
                (_, Some(record)) if settled => off.push(format!("{record} should have been replaced: {cell:?}")),
                (Some(record), _) => {
                    if (settled || record["count"].as_u64() == Some(cell.count)) && !agrees(record, cell) {
                        off.push(format!("{record} should be {cell:?}"));
                    }
                }
                (None, _) if settled => off.push(format!("{key:?} is missing: {cell:?}")),
                (None, _) => (),
            }
        }
        match found.first_key_value() {
            Some((key, record)) => Err(format!("{key:?} should not be: {record}")),
            None => Ok(off),
        }
    }

    /// What is known of it has been shown; a window that is open may lag behind.
    fn is_settled_at_the_end(&self, stream: &str, cell: &Cell) -> bool {
        let spec = self.plan.spec.streams.iter().find(|spec| spec.name.as_str() == stream);
        let shows = spec.is_some_and(|spec| spec.on_idle == OnIdle::Emit && spec.watermark.idle_timeout.is_some());
        cell.fired || cell.undefined || shows || cell.spec.early.is_some()
    }
}

/// Which window a record is of, by its id.
pub(super) fn key_of(id: &str, record: &Value) -> Key {
    let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let time = id.rsplit('/').next().and_then(|time| time.parse::<i64>().ok());
    (text("stream"), text("window"), text("key"), time.unwrap_or(i64::MIN))
}

/// The record says exactly what is in the window. Sums are exact: all values are
/// small multiples of a quarter.
fn agrees(record: &Value, cell: &Cell) -> bool {
    let cut_off = cell.undefined && !cell.fired;
    let partial = record["partial"] == true;
    record["count"].as_u64() == Some(cell.count)
        && record["end_ms"].as_i64() == Some(cell.end)
        && record["time_source"] == source_of(cell)
        && record["time_quality"] == "synced"
        && (partial == cut_off || cell.may_be_partial() && partial)
        && record["approx"].is_null()
        && are_results(&record["values"], cell, until_of(record["watermark_ms"].as_i64(), cell))
}

pub(super) fn source_of(cell: &Cell) -> &'static str {
    if cell.receive_time { "receive" } else { "device" }
}

/// How long the last value holds, as of that watermark.
pub(super) fn until_of(watermark: Option<i64>, cell: &Cell) -> Option<i64> {
    let is_session = matches!(cell.spec.kind, WindowKind::Session { .. });
    let closed = watermark.is_some_and(|watermark| watermark >= cell.end - 1);
    (closed && !is_session).then_some(cell.end)
}

/// The results of every field of a cell.
pub(super) fn are_results(values: &Value, cell: &Cell, until: Option<i64>) -> bool {
    let aggregates = &cell.spec.aggregates;
    let fields = values.as_object();
    fields.is_some_and(|fields| fields.len() == cell.fields.len())
        && cell.fields.iter().all(|(name, readings)| {
            let results = values[*name].as_object();
            let known = |word: &String| aggregates.kinds.iter().any(|kind| kind.as_str() == word);
            results.is_some_and(|results| results.keys().all(known))
                && aggregates.kinds.iter().all(|kind| {
                    let found = results.and_then(|results| results.get(kind.as_str()));
                    is_result(*kind, aggregates, found, readings, until)
                })
        })
}
