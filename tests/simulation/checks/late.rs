//! What is published record by record, and what late records add to results.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate::engine::aggregate::{Aggregates, Finish, Finished};
use tidegate::engine::states::StateTable;

use super::panes::{are_results, key_of};
use crate::oracle::{Cell, Key, Oracle, Rows, late_form, reading_form};
use crate::process::World;

impl World {
    /// Each late record is there once; of those and the deltas `evicted` are not. Returns
    /// the number of late records that are missing.
    pub(super) fn check_late(&self, oracle: &Oracle, evicted: u64) -> Result<u64, String> {
        let (missing, first) = missing("a late record", &oracle.late, self.cloud.receiver.late().map(late_form))?;
        if missing == evicted || (missing < evicted && !oracle.deltas.is_empty()) {
            return Ok(missing);
        }
        Err(format!("{missing} late records are missing, {evicted} were evicted; first: {first:?}"))
    }

    /// Each reading that is passed on is there once, and nothing else.
    pub(super) fn check_readings(&self, oracle: &Oracle, evicted: u64) -> Result<(), String> {
        let found = self.cloud.receiver.end_state().filter(|record| record["kind"] == "record").map(reading_form);
        let (missing, first) = missing("a reading", &oracle.readings, found)?;
        if missing <= evicted {
            return Ok(());
        }
        Err(format!("{missing} readings are missing, {evicted} rows were evicted; first: {first:?}"))
    }

    /// The deltas of each window are together what came for it too late; but for what
    /// `evicted` of them held.
    pub(super) fn check_deltas(&self, oracle: &Oracle, evicted: u64) -> Result<(), String> {
        let mut found: BTreeMap<Key, (u64, i64, bool)> = BTreeMap::new();
        for record in self.cloud.receiver.deltas() {
            let key = key_of(record["id"].as_str().unwrap_or_default(), record);
            let (count, end, receive) = found.entry(key).or_default();
            *count += record["count"].as_u64().unwrap_or(0);
            *end = record["end_ms"].as_i64().unwrap_or(i64::MIN);
            *receive |= record["time_source"] == "receive";
        }
        let mut off = 0;
        for (key, cell) in &oracle.deltas {
            match found.remove(key) {
                Some(merged) if merged == (cell.count, cell.end, cell.receive_time) => {}
                Some((count, ..)) if count > cell.count => {
                    return Err(format!("{key:?}: deltas of {count} records, {} came", cell.count));
                }
                Some(_) | None if off < evicted => off += 1,
                merged => return Err(format!("{key:?}: {merged:?} came, should be {cell:?}; {evicted} evicted")),
            }
        }
        found.first_key_value().map_or(Ok(()), |(key, cell)| Err(format!("{key:?} should have no delta: {cell:?}")))
    }

    /// The law of backfill: what stands of a window and its deltas are together all of its
    /// records, as if none had been late.
    pub(super) fn check_merged(&mut self, oracle: &Oracle) -> Result<(), String> {
        let mut ids: BTreeMap<Key, String> = BTreeMap::new();
        let panes = self.cloud.receiver.panes().filter(|(_, record)| record["kind"] == "pane");
        let deltas = self.cloud.receiver.deltas().filter_map(|record| Some((record["id"].as_str()?, record)));
        for (id, record) in panes.chain(deltas) {
            ids.insert(key_of(id, record), id.to_owned());
        }
        let mut merged_ones = 0;
        for (key, delta) in &oracle.deltas {
            let pane = oracle.cells.get(key);
            let all = pane.map_or_else(|| delta.clone(), |cell| delta.with(cell));
            let Some(id) = ids.get(key) else { continue };
            let merged = self.cloud.receiver.merged(id).map_err(|error| format!("{key:?}: {error}"))?;
            if merged.count != all.count || !are_results(&results_of(&merged.accumulators, &all), &all, None) {
                return Err(format!("{key:?} with its deltas is {merged:?}, should be {all:?}"));
            }
            merged_ones += u64::from(pane.is_some());
        }
        self.trace.count("results with deltas", merged_ones);
        Ok(())
    }
}

/// Which rows of `expected` are not there: how many, and the first.
pub(super) fn missing(
    what: &str,
    expected: &Rows,
    found: impl Iterator<Item = String>,
) -> Result<(u64, Option<String>), String> {
    let mut left = expected.clone();
    for form in found {
        match left.get_mut(&form) {
            Some(count) if *count > 0 => *count -= 1,
            Some(_) | None => return Err(format!("{what} too much: {form}")),
        }
    }
    let first = left.iter().find(|(_, count)| **count > 0).map(|(row, _)| row.clone());
    Ok((left.values().sum(), first))
}

type Accumulators = BTreeMap<String, BTreeMap<String, tidegate::engine::aggregate::Accumulator>>;

/// The results of accumulators, as they would be in a pane.
fn results_of(accumulators: &Accumulators, cell: &Cell) -> Value {
    let states = StateTable::default();
    let aggregates: &Aggregates = &cell.spec.aggregates;
    let finish = Finish { until: None, quantiles: aggregates.quantiles(), states: &states };
    let mut fields = Map::new();
    for (field, results) in accumulators {
        let of_states = cell
            .fields
            .get(field.as_str())
            .and_then(|readings| readings.first())
            .is_some_and(|(_, datum)| matches!(datum, crate::devices::Datum::State(_)));
        let results = results.iter().filter_map(|(word, accumulator)| {
            let value = match accumulator.finish(&finish) {
                Finished::Absent => return None,
                // An accumulator without any value is null, and nothing says of what it has none.
                Finished::None if of_states => return None,
                Finished::None => Value::Null,
                Finished::Number(value) => json!(value),
                Finished::Labelled(values) => {
                    values.into_iter().map(|(label, value)| (label.to_owned(), json!(value))).collect()
                }
            };
            Some((word.clone(), value))
        });
        fields.insert(field.clone(), Value::Object(results.collect()));
    }
    Value::Object(fields)
}
