//! What happened to the driver, in order; and how much of it survived a crash.
//!
//! The durable state after a crash has to be that after some prefix of the entries:
//! never less than was acknowledged, never half a message. Which prefix, the
//! state says itself by its counters, for each entry raises one; the end state then
//! shows whether it lied. When a silence was noticed is the engine's word here (its
//! own tests hold it to the millisecond); what has to follow from it is not.

use std::collections::BTreeSet;
use std::rc::Rc;

use tidegate::engine::status::Status;

use super::devices::{Item, Message};
use super::oracle::Oracle;
use tidegate::engine::spec::PipelineSpec;

/// One message that the driver took in.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    pub message: Rc<Message>,
    pub wall_ms: i64,
    /// Under which packet id of which of the broker's sessions.
    pub delivery: (u64, Option<u16>),
    /// It has been taken before under this id, and the broker says so.
    pub redelivery: bool,
}

/// What changed the state.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A message.
    Take(Take),
    /// These devices of these streams fell idle, at one moment.
    Idle(Vec<(usize, String)>),
}

/// Per stream: records received, messages recognised as redelivered, times a device
/// fell idle.
pub(crate) type Totals = Vec<[u64; 3]>;

pub(crate) struct Log {
    entries: Vec<Entry>,
    /// Totals before the entry of the same index, and one more at the end.
    totals: Vec<Totals>,
    /// Messages of which an acknowledgement was sent.
    acked: BTreeSet<u64>,
}

impl Log {
    pub(crate) fn new(streams: usize) -> Log {
        Log { entries: Vec::new(), totals: vec![vec![[0; 3]; streams]], acked: BTreeSet::new() }
    }

    /// A message sent anew in another session is another message to anyone who
    /// cannot see into it.
    pub(crate) fn was_taken(&self, uid: u64, delivery: (u64, Option<u16>)) -> bool {
        takes(&self.entries).any(|take| take.message.uid == uid && take.delivery == delivery)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let mut totals = self.totals.last().expect("never empty").clone();
        match &entry {
            Entry::Take(take) => {
                if let Some(stream) = take.message.stream {
                    let [received, redelivered, _] = &mut totals[stream];
                    if take.redelivery {
                        *redelivered += 1;
                    } else {
                        *received += units(&take.message.items);
                    }
                }
            }
            Entry::Idle(devices) => devices.iter().for_each(|(stream, _)| totals[*stream][2] += 1),
        }
        self.totals.push(totals);
        self.entries.push(entry);
    }

    pub(crate) fn note_ack(&mut self, uid: u64) {
        self.acked.insert(uid);
    }

    /// The counters are those of all takes so far.
    pub(crate) fn check_totals(&self, status: &Status) -> Result<(), String> {
        let expected = self.totals.last().expect("never empty");
        let found = totals_of(status);
        if found == *expected {
            return Ok(());
        }
        Err(format!("received and redelivered and idled per stream: {found:?}, handed over: {expected:?}"))
    }

    /// After a restart: drops the entries that did not survive.
    pub(crate) fn cut_to(&mut self, status: &Status) -> Result<usize, String> {
        let found = totals_of(status);
        let Some(survived) = self.totals.iter().rposition(|totals| *totals == found) else {
            return Err(format!("the state after the restart is no prefix of what was taken in: {found:?}"));
        };
        let lost = self.entries.split_off(survived);
        self.totals.truncate(survived + 1);
        let kept: BTreeSet<u64> = takes(&self.entries).map(|take| take.message.uid).collect();
        let acked = |take: &&Take| self.acked.contains(&take.message.uid) && !kept.contains(&take.message.uid);
        match takes(&lost).find(acked) {
            Some(take) => Err(format!("message {} was acknowledged and is lost", take.message.uid)),
            None => Ok(lost.len()),
        }
    }

    pub(crate) fn oracle(&self, spec: &PipelineSpec) -> Result<Oracle, String> {
        Oracle::new(spec, &self.entries)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn takes(entries: &[Entry]) -> impl Iterator<Item = &Take> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Take(take) => Some(take),
        Entry::Idle(_) => None,
    })
}

fn totals_of(status: &Status) -> Totals {
    status
        .streams
        .iter()
        .map(|stream| [stream.ledger.received, stream.ledger.redelivered, stream.ledger.idled])
        .collect()
}

/// What a payload adds to `received`.
fn units(items: &[Item]) -> u64 {
    items.len() as u64
}
