//! Rows and pairs of joins.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::engine::join::JoinStatus;
use tidegate::engine::spec::{JoinKind, JoinSpec, StreamSpec, WindowRef};

use super::late::missing;
use super::panes::{are_results, until_of};
use crate::oracle::{Cell, Key, Oracle, Owner, forgets_floors, pair_form, waits_long};
use crate::process::World;

impl World {
    /// Of joins that let go of nothing by the clock or for room: exactly what follows from
    /// the records.
    pub(super) fn check_joins(&mut self, oracle: &Oracle, evicted: u64) -> Result<(), String> {
        self.check_pairs(oracle, evicted)?;
        let joins = self.plan.spec.joins.clone();
        for join in joins.iter().filter(|join| waits_long(join) && !oracle.joins.changed) {
            let JoinKind::Window { sides, outer } = &join.kind else { continue };
            let is_side = |stream: &&StreamSpec| sides.iter().any(|side| side.stream == stream.name);
            if !self.plan.spec.streams.iter().filter(is_side).any(forgets_floors) {
                self.check_rows(oracle, join, sides, *outer, evicted)?;
            }
        }
        Ok(())
    }

    fn check_pairs(&mut self, oracle: &Oracle, evicted: u64) -> Result<(), String> {
        let status = self.status().joins;
        for join in oracle.joins.pairs.iter().filter(|join| join.exact && !oracle.joins.changed) {
            let is_it = |record: &&Value| record["kind"] == "join" && record["join"] == join.name.as_str();
            let found = self.cloud.receiver.end_state().filter(is_it).map(pair_form);
            let (missing, first) = missing("a pair", &join.rows, found)?;
            if missing > evicted {
                return Err(format!("{missing} pairs are missing, {evicted} rows were evicted; first: {first:?}"));
            }
            let books = status.iter().find_map(|status| match status {
                JoinStatus::Interval { name, left, right, .. } if *name == join.name => Some([left, right]),
                JoinStatus::Interval { .. } | JoinStatus::Window { .. } => None,
            });
            let found = books.map(|sides| sides.map(|side| [side.records, side.late]));
            if found != Some(join.books) {
                return Err(format!("books of {}: {found:?}, should be {:?}", join.name, join.books));
            }
            self.trace.count("pairs that were checked", join.rows.values().sum());
        }
        Ok(())
    }

    fn check_rows(
        &mut self,
        oracle: &Oracle,
        join: &JoinSpec,
        sides: &[WindowRef],
        outer: bool,
        evicted: u64,
    ) -> Result<(), String> {
        let mut found: BTreeMap<(String, i64), &Value> = BTreeMap::new();
        for record in self
            .cloud
            .receiver
            .end_state()
            .filter(|record| record["kind"] == "join" && record["join"] == join.name.as_str())
        {
            let key = record["key"].as_str().unwrap_or_default().to_owned();
            found.insert((key, record["start_ms"].as_i64().unwrap_or(i64::MIN)), record);
        }
        // Windows of which a side has something.
        let mut windows: BTreeMap<(String, i64), Vec<Option<&Cell>>> = BTreeMap::new();
        for (place, side) in sides.iter().enumerate() {
            let of_side = |(key, _): &(&Key, &Cell)| key.0 == side.stream.as_str() && key.1 == side.window.as_str();
            for (key, cell) in oracle.cells.iter().filter(of_side) {
                let cells = windows.entry((key.2.clone(), key.3)).or_insert_with(|| vec![None; sides.len()]);
                cells[place] = Some(cell);
            }
        }
        let (mut off, mut checked) = (Vec::new(), 0);
        for ((key, start), cells) in windows {
            let any = cells.iter().flatten().next().expect("one side at least");
            let owner = Owner::of(any.spec.key, &key);
            let watermark = sides.iter().map(|side| oracle.watermark(side.stream.as_str(), &owner)).min().flatten();
            let passed = watermark.is_some_and(|watermark| watermark >= any.end - 1);
            let expected = passed && (outer || cells.iter().all(Option::is_some));
            match found.remove(&(key.clone(), start)) {
                Some(row) if !expected => return Err(format!("there should be no row yet: {row}")),
                Some(row) if !is_row(row, sides, &cells) => off.push(format!("{row} should be {cells:?}")),
                None if expected => off.push(format!("{key} {start} has no row: {cells:?}")),
                Some(_) => checked += 1,
                None => {}
            }
        }
        if let Some((key, row)) = found.first_key_value() {
            return Err(format!("no side has the window {key:?}: {row}"));
        }
        if off.len() as u64 > evicted {
            return Err(format!("{} rows of joins are wrong, {evicted} were evicted; first: {}", off.len(), off[0]));
        }
        self.trace.count("rows of joins that were checked", checked);
        Ok(())
    }
}

fn is_row(row: &Value, sides: &[WindowRef], cells: &[Option<&Cell>]) -> bool {
    let there = || sides.iter().zip(cells).filter_map(|(side, cell)| Some((side.stream.as_str(), (*cell)?)));
    let absent = sides.iter().zip(cells).filter(|(_, cell)| cell.is_none()).map(|(side, _)| side.stream.as_str());
    let missing: Vec<&str> = row["missing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let source = if there().any(|(_, cell)| cell.receive_time) { "receive" } else { "device" };
    let watermark = row["watermark_ms"].as_i64();
    missing == absent.collect::<Vec<_>>()
        && row["count"].as_u64() == Some(there().map(|(_, cell)| cell.count).sum())
        && row["time_source"] == source
        && there().all(|(stream, cell)| are_results(&row["values"][stream], cell, until_of(watermark, cell)))
}
