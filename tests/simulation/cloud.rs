//! The cloud: a broker that takes batches in order, acknowledges them late or
//! never, and the reference receiver behind it. Checks each record as it comes.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Batch, BatchId};
use tidegate::fleet::receiver::{Effect, Receiver};
use tidegate::model::rng::Rng;

use super::plan::{Plan, as_len};
use super::promises::Promises;

/// Where a sequence number counts: epoch and lane.
type Lane = (u64, String);

pub(crate) struct Cloud {
    pub receiver: Receiver,
    connected: bool,
    /// Published and not arrived.
    wire: VecDeque<Batch>,
    /// Acknowledgements on their way back.
    acks: VecDeque<BatchId>,
    acks_out_of_order: bool,
    /// Bytes of each batch since the oldest that is not acknowledged, and whether
    /// it is: its rows are held as long as older ones are.
    held: BTreeMap<BatchId, (usize, bool)>,
    /// Every record ever, as it last came.
    records: BTreeMap<(Lane, u64), Value>,
    /// Records that came, and that no gap stood for at first.
    came: BTreeMap<Lane, u64>,
    /// The first number that has not come.
    next_seq: BTreeMap<Lane, u64>,
    /// By lane, stream and key.
    watermarks: BTreeMap<(String, String, String), i64>,
    /// By lane and id.
    revisions: BTreeMap<(String, String), u64>,
    promises: Promises,
    /// Panes by kind, each once.
    pub kinds: BTreeMap<String, u64>,
    /// Numbers that gap records stand for.
    gaps: BTreeMap<Lane, BTreeMap<u64, u64>>,
}

impl Cloud {
    pub(crate) fn new(plan: &Plan) -> Cloud {
        let mut cloud = Cloud {
            receiver: Receiver::new(),
            connected: false,
            wire: VecDeque::new(),
            acks: VecDeque::new(),
            acks_out_of_order: plan.acks_out_of_order,
            held: BTreeMap::new(),
            records: BTreeMap::new(),
            came: BTreeMap::new(),
            next_seq: BTreeMap::new(),
            watermarks: BTreeMap::new(),
            revisions: BTreeMap::new(),
            promises: Promises::default(),
            kinds: BTreeMap::new(),
            gaps: BTreeMap::new(),
        };
        cloud.follow(&plan.spec);
        cloud
    }

    /// The configuration is this one from now on.
    pub(crate) fn follow(&mut self, spec: &PipelineSpec) {
        self.promises.follow(spec);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    pub(crate) fn connect(&mut self) {
        self.connected = true;
    }

    /// Bytes on their way, as JSON: an upper bound of what the agent holds for them.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.values().map(|(bytes, _)| bytes).sum()
    }

    pub(crate) fn handle_publish(&mut self, batch: Batch) -> Result<(), String> {
        if !self.connected {
            return Err("published without a connection".to_owned());
        }
        self.held.insert(batch.id, (batch.payload.len(), false));
        self.wire.push_back(batch);
        Ok(())
    }

    /// Up to `count` batches arrive.
    pub(crate) fn take_batches(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let Some(batch) = self.wire.pop_front() else { return Ok(()) };
            self.take_in(&batch)?;
            self.acks.push_back(batch.id);
        }
        Ok(())
    }

    /// An acknowledgement arrives at the agent.
    pub(crate) fn next_ack(&mut self, rng: &mut Rng) -> Option<BatchId> {
        let place = if self.acks_out_of_order { rng.below(self.acks.len() as u64) } else { 0 };
        let id = self.acks.remove(as_len(place))?;
        self.held.entry(id).and_modify(|(_, acked)| *acked = true);
        while self.held.first_key_value().is_some_and(|(_, (_, acked))| *acked) {
            self.held.pop_first();
        }
        Some(id)
    }

    /// The connection is gone. A random part of what was on the wire arrived,
    /// and no acknowledgement will.
    pub(crate) fn tear(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.connected = false;
        self.take_batches(as_len(rng.between(0, self.wire.len() as u64)))?;
        self.wire.clear();
        self.acks.clear();
        self.held.clear();
        Ok(())
    }

    /// Records of a lane that never came, by the lanes' names.
    pub(crate) fn missing(&self) -> BTreeMap<String, u64> {
        let mut missing = BTreeMap::new();
        for (lane, next) in &self.next_seq {
            let came = self.came.get(lane).copied().unwrap_or(0);
            *missing.entry(lane.1.clone()).or_default() += next - came;
        }
        missing
    }

    /// Numbers that some gap record stands for, by lane.
    pub(crate) fn in_gaps(&self) -> BTreeMap<String, u64> {
        let sizes = |gaps: &BTreeMap<u64, u64>| -> u64 {
            let mut past = 0;
            gaps.iter()
                .map(|(first, last)| {
                    let first = past.max(*first);
                    past = past.max(last + 1);
                    past.saturating_sub(first)
                })
                .sum()
        };
        let mut found = BTreeMap::new();
        for ((_, lane), gaps) in &self.gaps {
            *found.entry(lane.clone()).or_default() += sizes(gaps);
        }
        found
    }

    /// All numbers up to these have come, by lane.
    pub(crate) fn next_seqs(&self) -> &BTreeMap<Lane, u64> {
        &self.next_seq
    }

    fn take_in(&mut self, batch: &Batch) -> Result<(), String> {
        let applied = self.receiver.handle_message(&batch.payload).map_err(|error| error.to_string())?;
        if applied.len() != batch.records as usize {
            return Err(format!("a batch says {} records and has {}", batch.records, applied.len()));
        }
        for applied in applied {
            if applied.effect == Effect::Conflict {
                return Err(format!("another content under the same revision: {}", applied.record));
            }
            self.check(&applied.record).map_err(|what| format!("{what}: {}", applied.record))?;
        }
        Ok(())
    }

    fn check(&mut self, record: &Value) -> Result<(), String> {
        let number = |name: &str| record[name].as_u64();
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let (Some(epoch), Some(seq)) = (number("epoch"), number("seq")) else { return Err("no numbers".to_owned()) };
        let lane = (epoch, text("lane"));
        let kind = text("kind");
        if kind == "alarm" {
            return Err("an alarm, although nothing was damaged".to_owned());
        }
        let first = number("first_seq").unwrap_or(seq);
        let next = self.next_seq.entry(lane.clone()).or_default();
        if first > *next {
            return Err(format!("out of order: {next} has not come"));
        }
        let is_new = seq >= *next;
        *next = (*next).max(seq + 1);
        if kind == "gap" {
            let last = self.gaps.entry(lane.clone()).or_default().entry(first).or_insert(seq);
            *last = (*last).max(seq);
        }
        if kind != "gap" && !self.records.contains_key(&(lane.clone(), seq)) {
            *self.came.entry(lane.clone()).or_default() += 1;
        }
        let known = self.records.entry((lane, seq)).or_insert_with(|| record.clone());
        if kind == "gap" {
            *known = record.clone();
        } else if known != record {
            return Err(format!("the same number for another record, before it was {known}"));
        }
        *self.kinds.entry("deltas".to_owned()).or_default() += u64::from(is_new && kind == "delta");
        match kind.as_str() {
            "pane" if is_new => self.check_pane(record),
            "join" if is_new => self.check_join(record),
            "record" if is_new => self.promises.check_reading(record),
            _ => Ok(()),
        }
    }

    /// Rows of one window of a join come under rising revisions.
    fn check_join(&mut self, record: &Value) -> Result<(), String> {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let Some(revision) = record["rev"].as_u64() else {
            *self.kinds.entry("that are pairs".to_owned()).or_default() += 1;
            return Ok(());
        };
        if record["partial"] != false {
            return Err("partial, although nothing was lost".to_owned());
        }
        *self.kinds.entry(format!("joined {}", text("pane"))).or_default() += 1;
        match self.revisions.insert((text("lane"), text("id")), revision) {
            Some(before) if revision <= before => Err(format!("revision {before} came before revision {revision}")),
            Some(_) | None => Ok(()),
        }
    }

    /// Results of one device come in order within a lane: what waited comes behind what is new.
    fn check_pane(&mut self, record: &Value) -> Result<(), String> {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        self.promises.check_pane(record)?;
        let watermark = record["watermark_ms"].as_i64().unwrap_or(i64::MIN);
        let highest = self.watermarks.entry((text("lane"), text("stream"), text("key"))).or_insert(i64::MIN);
        if watermark < *highest {
            return Err(format!("the watermark went back from {highest}"));
        }
        *highest = watermark;
        *self.kinds.entry(text("pane")).or_default() += 1;
        *self.kinds.entry("that replace others".to_owned()).or_default() +=
            u64::from(record["replaces"].as_array().is_some_and(|ids| !ids.is_empty()));
        let revision = record["rev"].as_u64().ok_or("no revision")?;
        let mut replaced = record["replaces"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(id) = replaced
            .find(|id| self.revisions.get(&(text("lane"), (*id).to_owned())).is_some_and(|before| *before >= revision))
        {
            return Err(format!("revision {revision} is not higher than that of {id}, which it replaces"));
        }
        match self.revisions.insert((text("lane"), text("id")), revision) {
            Some(before) if revision <= before => Err(format!("revision {before} came before revision {revision}")),
            Some(_) | None => Ok(()),
        }
    }
}
