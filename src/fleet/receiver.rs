//! The reference consumer: the uplink contract (DESIGN §6) from the side of the
//! cloud. PURE. Whatever is repeated, late or out of order, the end state is
//! exact:
//!
//! - a pane replaces the one held under its id when its (epoch, rev) is higher, and
//!   so does a `join` with a `rev`;
//! - `delta`, `record`, `late`, `gap`, `alarm` and a `join` without a `rev` count once per
//!   (gw, epoch, lane, seq);
//! - ids named in `replaces` are dropped and stay dead;
//! - `seq` has no holes per (gw, epoch, lane), other than those a gap record
//!   stands for.
//!
//! Deltas stand beside their panes; [`Receiver::merged`] adds them up, each once.
//!
//! Memory grows with the end state; a real consumer has a database here.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use self::seen::Seen;

mod merged;
mod seen;

pub use merged::Merged;

/// The version of the contract that is understood here.
pub const VERSION: u64 = 1;

/// What the cloud knows.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Panes, and rows of window joins: whatever has revisions.
    panes: BTreeMap<String, Pane>,
    dead: BTreeSet<String>,
    others: BTreeMap<OnceKey, Value>,
    /// By id, those among the others that are deltas of it.
    deltas: BTreeMap<String, BTreeSet<OnceKey>>,
    lanes: BTreeMap<LaneKey, Seen>,
    counts: Counts,
}

/// Numbers about what came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were no envelope of this version.
    pub refused: u64,
    /// Records in the others.
    pub records: u64,
    /// Records that had been applied before.
    pub repeats: u64,
    /// Panes that came after a higher (epoch, rev) of their id.
    pub superseded: u64,
    /// Two different records under one identity: the sender broke the contract.
    pub conflicts: u64,
}

/// One gateway's lane in one epoch: the space in which `seq` counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LaneKey {
    /// The gateway.
    pub gw: String,
    /// Its epoch.
    pub epoch: u64,
    /// The lane.
    pub lane: String,
}

/// Numbers of one lane that never came and that no gap record explains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hole {
    /// Where.
    pub lane: LaneKey,
    /// First missing number.
    pub first: u64,
    /// Last missing number.
    pub last: u64,
}

/// What a record did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It changed the state.
    New,
    /// It had been applied before.
    Repeat,
    /// A different record had been applied under the same identity; that one stands.
    Conflict,
    /// A newer revision is held already.
    Superseded,
    /// Its id has been replaced.
    Dead,
}

/// One record and what it did.
#[derive(Clone, PartialEq, Debug)]
pub struct Applied {
    /// The record, with `gw`, `epoch` and `lane` of its envelope.
    pub record: Value,
    /// What it did.
    pub effect: Effect,
}

/// Why a message was refused as a whole; nothing of it was applied.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Not JSON, or not the shape of an envelope.
    #[error("not an uplink envelope: {0}")]
    Malformed(String),
    /// Another version of the contract.
    #[error("contract version {0}, this receiver understands {VERSION}")]
    Version(u64),
}

#[derive(Clone, Debug)]
struct Pane {
    epoch: u64,
    rev: u64,
    record: Value,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct OnceKey {
    kind: Kind,
    lane: LaneKey,
    seq: u64,
}

/// In the order of the end state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Pane,
    Join,
    Delta,
    Record,
    Late,
    Gap,
    Alarm,
}

#[derive(Deserialize)]
struct Envelope {
    v: u64,
    gw: String,
    epoch: u64,
    lane: String,
    records: Vec<Map<String, Value>>,
}

/// The part of a record that decides what happens to it.
#[derive(Deserialize)]
struct Head {
    kind: Kind,
    id: Option<String>,
    rev: Option<u64>,
    seq: u64,
    #[serde(default)]
    replaces: Vec<String>,
    /// Gap records: the numbers they stand for, up to their own where no other is named.
    first_seq: Option<u64>,
    last_seq: Option<u64>,
}

impl Receiver {
    /// Knows nothing yet.
    pub fn new() -> Receiver {
        Receiver::default()
    }

    /// Applies one message of a data topic. All of it or, when it is refused,
    /// nothing; applying it again changes nothing.
    ///
    /// # Errors
    /// [`Refused`] when the payload is no envelope of this version.
    pub fn handle_message(&mut self, payload: &[u8]) -> Result<Vec<Applied>, Refused> {
        let parsed = parse(payload);
        if parsed.is_err() {
            self.counts.refused += 1;
        }
        let (lane, records) = parsed?;
        Ok(records.into_iter().map(|(head, record)| self.apply(&lane, head, record)).collect())
    }

    fn apply(&mut self, lane: &LaneKey, head: Head, record: Value) -> Applied {
        self.counts.records += 1;
        let seen = self.lanes.entry(lane.clone()).or_default();
        seen.insert(head.seq, head.seq);
        if let (Kind::Gap, Some(first)) = (head.kind, head.first_seq) {
            seen.insert(first, head.last_seq.unwrap_or(head.seq));
        }
        let effect = match (head.kind, head.id) {
            (Kind::Pane | Kind::Join, Some(id)) if head.kind == Kind::Pane || head.rev.is_some() => {
                self.drop_replaced(&id, head.replaces);
                let pane = Pane { epoch: lane.epoch, rev: head.rev.unwrap_or(0), record: record.clone() };
                self.upsert(id, pane)
            }
            (kind, id) => {
                let key = OnceKey { kind, lane: lane.clone(), seq: head.seq };
                if let (Kind::Delta, Some(id)) = (kind, id) {
                    self.deltas.entry(id).or_default().insert(key.clone());
                }
                self.once(key, &record)
            }
        };
        match effect {
            Effect::Repeat => self.counts.repeats += 1,
            Effect::Conflict => self.counts.conflicts += 1,
            Effect::Superseded | Effect::Dead => self.counts.superseded += 1,
            Effect::New => {}
        }
        Applied { record, effect }
    }

    /// Replaced ids stay dead, also when their panes come afterwards.
    fn drop_replaced(&mut self, by: &str, replaces: Vec<String>) {
        for id in replaces {
            if id != by {
                self.panes.remove(&id);
                self.dead.insert(id);
            }
        }
    }

    fn upsert(&mut self, id: String, pane: Pane) -> Effect {
        if self.dead.contains(&id) {
            return Effect::Dead;
        }
        if let Some(held) = self.panes.get(&id) {
            match (pane.epoch, pane.rev).cmp(&(held.epoch, held.rev)) {
                core::cmp::Ordering::Less => return Effect::Superseded,
                core::cmp::Ordering::Equal => {
                    return if held.record == pane.record { Effect::Repeat } else { Effect::Conflict };
                }
                core::cmp::Ordering::Greater => {}
            }
        }
        self.panes.insert(id, pane);
        Effect::New
    }

    fn once(&mut self, key: OnceKey, record: &Value) -> Effect {
        if let Some(held) = self.others.get(&key) {
            return if held == record { Effect::Repeat } else { Effect::Conflict };
        }
        self.others.insert(key, record.clone());
        Effect::New
    }

    /// The panes that stand, by id.
    pub fn panes(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.panes.iter().map(|(id, pane)| (id.as_str(), &pane.record)).filter(|(_, record)| record["kind"] == "pane")
    }

    /// The rows of window joins that stand, by id.
    pub fn joined(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.panes.iter().map(|(id, pane)| (id.as_str(), &pane.record)).filter(|(_, record)| record["kind"] == "join")
    }

    /// The late records, in the order of (gw, epoch, lane, seq).
    pub fn late(&self) -> impl Iterator<Item = &Value> {
        self.others.iter().filter(|(key, _)| key.kind == Kind::Late).map(|(_, record)| record)
    }

    /// The readings that were passed on as they are, in the order of (gw, epoch, lane, seq).
    pub fn readings(&self) -> impl Iterator<Item = &Value> {
        self.others.iter().filter(|(key, _)| key.kind == Kind::Record).map(|(_, record)| record)
    }

    /// The end state: panes and windows of joins by id, then pairs, deltas, readings,
    /// late records, gaps and alarms.
    pub fn end_state(&self) -> impl Iterator<Item = &Value> {
        self.panes.values().map(|pane| &pane.record).chain(self.others.values())
    }

    /// Records of the end state.
    pub fn records(&self) -> usize {
        self.panes.len() + self.others.len()
    }

    /// Numbers that are missing between those that came. A receiver that joined
    /// late does not call what came before it a hole.
    pub fn holes(&self) -> Vec<Hole> {
        let holes = |(lane, seen): (&LaneKey, &Seen)| {
            let lane = lane.clone();
            seen.holes().map(move |(first, last)| Hole { lane: lane.clone(), first, last }).collect::<Vec<_>>()
        };
        self.lanes.iter().flat_map(holes).collect()
    }

    /// The lowest and the highest number of each lane.
    pub fn lanes(&self) -> impl Iterator<Item = (&LaneKey, u64, u64)> {
        self.lanes.iter().filter_map(|(lane, seen)| seen.bounds().map(|(low, high)| (lane, low, high)))
    }

    /// Numbers about what came in.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn parse(payload: &[u8]) -> Result<(LaneKey, Vec<(Head, Value)>), Refused> {
    let envelope = read_envelope(payload).map_err(Refused::Malformed)?;
    if envelope.v != VERSION {
        return Err(Refused::Version(envelope.v));
    }
    let lane = LaneKey { gw: envelope.gw, epoch: envelope.epoch, lane: envelope.lane };
    let mut records = Vec::with_capacity(envelope.records.len());
    for mut record in envelope.records {
        let head = Head::deserialize(&record).map_err(|error| Refused::Malformed(error.to_string()))?;
        if head.kind == Kind::Pane && (head.id.is_none() || head.rev.is_none()) {
            return Err(Refused::Malformed("a pane without `id` or `rev`".into()));
        }
        record.insert("gw".into(), lane.gw.clone().into());
        record.insert("epoch".into(), lane.epoch.into());
        record.insert("lane".into(), lane.lane.clone().into());
        records.push((head, Value::Object(record)));
    }
    Ok((lane, records))
}

/// Both encodings: a CBOR map begins with 0xa0 to 0xbf, JSON with `{`.
fn read_envelope(payload: &[u8]) -> Result<Envelope, String> {
    match payload.first() {
        Some(0xa0..=0xbf) => serde_cbor::from_slice(payload).map_err(|error| error.to_string()),
        Some(_) | None => serde_json::from_slice(payload).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests;
