//! The end state at the cloud against the oracle.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::engine::outbox::LaneKind;
use tidegate::engine::spec::{OnIdle, Resume, Scope};

use super::oracle::{Cell, Key, Oracle, late_form};
use super::process::World;

impl World {
    /// Everything that has to hold once all has arrived.
    pub(crate) fn check_end(&mut self) -> Result<(), String> {
        let oracle = self.log.oracle(&self.plan.spec)?;
        self.count_sessions(&oracle);
        self.check_streams(&oracle)?;
        let evicted = self.check_lanes()?;
        let off = self.check_panes(&oracle)?;
        let panes_evicted: u64 = evicted.iter().filter(|(lane, _)| **lane != "late").map(|(_, count)| count).sum();
        match off.as_slice() {
            [first, ..] if off.len() as u64 > panes_evicted => {
                return Err(format!(
                    "{} windows are wrong, {panes_evicted} panes were evicted; first: {first}",
                    off.len()
                ));
            }
            _ => (),
        }
        let evicted = evicted.get("late").copied().unwrap_or(0);
        let missing = self.check_late(&oracle, evicted)?;
        self.check_deltas(&oracle, evicted - missing)
    }

    fn count_sessions(&mut self, oracle: &Oracle) {
        let grown = |cell: &&Cell| !cell.absorbed.is_empty();
        self.trace.count("sessions that took in others", oracle.cells.values().filter(grown).count() as u64);
        let is_under =
            |scope| self.plan.spec.streams.iter().filter(|stream| stream.watermark.scope == scope).count() as u64;
        let (hold, catch_up) = (is_under(Scope::Stream(Resume::Hold)), is_under(Scope::Stream(Resume::CatchUp)));
        self.trace.count("streams whose watermark waits for all", hold);
        self.trace.count("streams whose watermark waits for those that caught up", catch_up);
    }

    /// For the proof that the checks had something to check.
    pub(crate) fn count_what_was(&mut self) {
        for stream in self.status().streams {
            let ledger = &stream.ledger;
            self.trace.count("redelivered", ledger.redelivered);
            self.trace.count("at QoS 0", ledger.unprotected);
            self.trace.count("retained and ignored", ledger.ignored);
            self.trace.count("from the future", ledger.future);
            for (reason, count) in &ledger.rejected_by {
                self.trace.count(&format!("rejected: {reason}"), *count);
            }
            for window in &stream.windows {
                self.trace.count("on time", window.on_time);
                self.trace.count("late updates", window.late_update);
                self.trace.count("side output", window.side_output);
                self.trace.count("backfilled", window.backfilled);
                self.trace.count("dropped", window.dropped);
            }
        }
        for kind in LaneKind::ALL.into_iter().filter(|kind| *kind != LaneKind::Alarm) {
            let books = self.driver.engine().outbox().ledger(kind);
            self.trace.count(&format!("lane {}", kind.as_str()), books.acked);
            self.trace.count(&format!("lane {}, evicted", kind.as_str()), books.evicted);
        }
        for (kind, count) in self.cloud.kinds.clone() {
            self.trace.count(&format!("panes {kind}"), count);
        }
        self.trace.count("repeated records at the cloud", self.cloud.receiver.counts().repeats);
    }

    /// The books are those of the oracle.
    fn check_streams(&self, oracle: &Oracle) -> Result<(), String> {
        for (stream, books) in self.status().streams.iter().zip(&oracle.books) {
            let ledger = &stream.ledger;
            let found = super::oracle::Books {
                received: ledger.received,
                accepted: ledger.accepted,
                future: ledger.future,
                ignored: ledger.ignored,
                redelivered: ledger.redelivered,
                unprotected: ledger.unprotected,
                rejected: ledger.rejected_by.clone(),
                backfilled: stream.windows.iter().map(|window| window.backfilled).collect(),
                side_output: stream.windows.iter().map(|window| window.side_output).collect(),
                no_window: stream.windows.iter().map(|window| window.no_window).collect(),
                dropped: stream.windows.iter().map(|window| window.dropped).collect(),
            };
            if found != *books {
                return Err(format!("books of {}: {found:?}, should be {books:?}", stream.name));
            }
        }
        Ok(())
    }

    /// One epoch, every number there, gaps exactly for what was evicted and did
    /// not come. Returns the records that never came, by lane.
    fn check_lanes(&self) -> Result<BTreeMap<&'static str, u64>, String> {
        let holes = self.cloud.receiver.holes();
        if !holes.is_empty() {
            return Err(format!("holes: {holes:?}"));
        }
        let mut epochs: Vec<u64> = self.cloud.next_seqs().keys().map(|(epoch, _)| *epoch).collect();
        epochs.dedup();
        if epochs.len() > 1 {
            return Err(format!("epochs {epochs:?}, although no state was lost"));
        }
        let came: BTreeMap<&str, u64> =
            self.cloud.next_seqs().iter().map(|((_, lane), next)| (lane.as_str(), *next)).collect();
        let (missing, in_gaps) = (self.cloud.missing(), self.cloud.in_gaps());
        let mut evicted = BTreeMap::new();
        for kind in LaneKind::ALL {
            let lane = kind.as_str();
            let books = self.driver.engine().outbox().ledger(kind);
            let of = |counts: &BTreeMap<String, u64>| counts.get(lane).copied().unwrap_or(0);
            if came.get(lane).copied().unwrap_or(0) != books.queued {
                return Err(format!("lane {lane}: {came:?} came, {} were queued", books.queued));
            }
            if books.acked + books.evicted != books.queued {
                return Err(format!("lane {lane} is not empty: {books:?}"));
            }
            if of(&in_gaps) != books.evicted || of(&missing) > books.evicted {
                let (gaps, missing) = (of(&in_gaps), of(&missing));
                return Err(format!("lane {lane}: {gaps} in gaps, {missing} missing, {} evicted", books.evicted));
            }
            evicted.insert(lane, of(&missing));
        }
        Ok(evicted)
    }

    /// Windows whose highest revision is not what the oracle says.
    fn check_panes(&self, oracle: &Oracle) -> Result<Vec<String>, String> {
        let mut found: BTreeMap<Key, &Value> = BTreeMap::new();
        for (id, record) in self.cloud.receiver.panes() {
            found.insert(key_of(id, record), record);
        }
        let mut off = Vec::new();
        for (key, cell) in &oracle.cells {
            // A window that is open and not shown again on idle may lag behind.
            let settled = cell.fired || self.shows_on_idle(&key.0);
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

    fn shows_on_idle(&self, stream: &str) -> bool {
        let spec = self.plan.spec.streams.iter().find(|spec| spec.name.as_str() == stream);
        spec.is_some_and(|spec| spec.on_idle == OnIdle::Emit && spec.watermark.idle_timeout.is_some())
    }

    /// Each late record is there once; of those and the deltas `evicted` are not. Returns
    /// the number of late records that are missing.
    fn check_late(&self, oracle: &Oracle, evicted: u64) -> Result<u64, String> {
        let mut left = oracle.late.clone();
        for record in self.cloud.receiver.late() {
            let form = late_form(record);
            match left.get_mut(&form) {
                Some(count) if *count > 0 => *count -= 1,
                Some(_) | None => return Err(format!("a late record too much: {form}")),
            }
        }
        let missing: u64 = left.values().sum();
        if missing == evicted || (missing < evicted && !oracle.deltas.is_empty()) {
            return Ok(missing);
        }
        let first = left.iter().find(|(_, count)| **count > 0);
        Err(format!("{missing} late records are missing, {evicted} were evicted; first: {first:?}"))
    }

    /// The deltas of each window are together what came for it too late; but for what
    /// `evicted` of them held.
    fn check_deltas(&self, oracle: &Oracle, evicted: u64) -> Result<(), String> {
        let mut found: BTreeMap<Key, Cell> = BTreeMap::new();
        for record in self.cloud.receiver.deltas() {
            let cell = found.entry(key_of(record["id"].as_str().unwrap_or_default(), record)).or_default();
            cell.count += record["count"].as_u64().unwrap_or(0);
            cell.end = record["end_ms"].as_i64().unwrap_or(i64::MIN);
            cell.receive_time |= record["time_source"] == "receive";
            for name in ["v", "a"] {
                let sum = record["values"][name]["sum"].as_f64();
                cell.fields.entry(name).or_default().extend(sum);
            }
        }
        let sum = |cell: &Cell, name| cell.fields.get(name).map_or(0.0, |values| values.iter().sum::<f64>());
        let same = |a: &Cell, b: &Cell| {
            (a.count, a.end, a.receive_time) == (b.count, b.end, b.receive_time)
                && ["v", "a"].iter().all(|name| (sum(a, name) - sum(b, name)).abs() < 1e-9)
        };
        let mut off = 0;
        for (key, cell) in &oracle.deltas {
            let merged = found.remove(key);
            match merged {
                Some(merged) if same(&merged, cell) => {}
                Some(merged) if merged.count > cell.count => return Err(format!("{key:?}: {merged:?}, came {cell:?}")),
                Some(_) | None if off < evicted => off += 1,
                merged => return Err(format!("{key:?}: {merged:?} came, should be {cell:?}; {evicted} evicted")),
            }
        }
        found.first_key_value().map_or(Ok(()), |(key, cell)| Err(format!("{key:?} should have no delta: {cell:?}")))
    }
}

/// Which window a record is of, by its id.
fn key_of(id: &str, record: &Value) -> Key {
    let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let time = id.rsplit('/').next().and_then(|time| time.parse::<i64>().ok());
    (text("stream"), text("window"), text("key"), time.unwrap_or(i64::MIN))
}

/// The record says exactly what is in the window. Sums are exact: all values are
/// small multiples of a quarter.
fn agrees(record: &Value, cell: &Cell) -> bool {
    let source = if cell.receive_time { "receive" } else { "device" };
    let fields = record["values"].as_object();
    record["count"].as_u64() == Some(cell.count)
        && record["end_ms"].as_i64() == Some(cell.end)
        && record["time_source"] == source
        && record["time_quality"] == "synced"
        && fields.is_some_and(|fields| fields.len() == cell.fields.len())
        && cell.fields.iter().all(|(name, values)| {
            let found = |aggregate: &str| record["values"][name][aggregate].as_f64();
            let sum: f64 = values.iter().sum();
            let count = values.len() as f64;
            let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            found("count") == Some(count)
                && found("sum") == Some(sum)
                && found("mean") == Some(sum / count)
                && found("min") == Some(lowest)
                && found("max") == Some(highest)
        })
}
