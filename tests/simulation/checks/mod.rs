//! The end state at the cloud against the oracle.

mod counts;
mod joins;
mod late;
mod panes;

use std::collections::BTreeMap;

use tidegate::engine::outbox::LaneKind;

use super::process::World;

impl World {
    /// Everything that has to hold once all has arrived.
    pub(crate) fn check_end(&mut self) -> Result<(), String> {
        let oracle = self.log.oracle(self.wall_ms())?;
        self.count_cells(&oracle);
        self.check_streams(&oracle)?;
        let evicted = self.check_lanes()?;
        let off = self.check_panes(&oracle)?;
        let others_evicted: u64 = evicted.iter().filter(|(lane, _)| **lane != "late").map(|(_, count)| count).sum();
        match off.as_slice() {
            [first, ..] if off.len() as u64 > others_evicted => {
                return Err(format!(
                    "{} windows are wrong, {others_evicted} rows were evicted; first: {first}",
                    off.len()
                ));
            }
            _ => (),
        }
        self.check_readings(&oracle, others_evicted)?;
        self.check_joins(&oracle, others_evicted)?;
        let late_evicted = evicted.get("late").copied().unwrap_or(0);
        let missing = self.check_late(&oracle, late_evicted)?;
        self.check_deltas(&oracle, late_evicted - missing)?;
        if others_evicted + late_evicted == 0 { self.check_merged(&oracle) } else { Ok(()) }
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
}
