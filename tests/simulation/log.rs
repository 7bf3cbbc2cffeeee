//! What happened to the driver, in order; and how much of it survived a crash.
//!
//! The durable state after a crash has to be that after some prefix of the entries:
//! never less than was acknowledged, never half a message. Which prefix, the
//! state says itself by its counters, for each entry raises one; the end state then
//! shows whether it lied. When a silence was noticed is the engine's word here (its
//! own tests hold it to the millisecond); what has to follow from it is not.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::status::{LedgerStatus, Status};

use super::devices::{Item, Message};
use super::oracle::Oracle;
use super::plan::line_of;

/// One message that the driver took in.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    pub message: Rc<Message>,
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
    /// These devices of these streams fell idle, at one moment: by silence, or because
    /// something said that they are off.
    Idle(Vec<(usize, String)>),
    /// Something said that they are there. No counter says so; see [`Log::cut_to`].
    Online(Vec<(usize, String)>),
    /// Silent for `state_ttl`. True: they were not idle until then.
    Gone(Vec<(usize, String, bool)>),
    /// From here on the configuration is this one. No counter says so either, but it is
    /// applied again by the next start if it did not survive.
    Redefine(Rc<PipelineSpec>),
}

/// When it happened, by the wall clock.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub wall_ms: i64,
    pub entry: Entry,
}

/// Of a stream: records received, messages recognised as redelivered, times a device
/// fell idle, devices that ended.
type Counts = [u64; 4];

/// By the numbers in the streams' names. Without an entry: nothing yet.
pub(crate) type Totals = BTreeMap<usize, Counts>;

pub(crate) struct Log {
    start: Rc<PipelineSpec>,
    entries: Vec<Moment>,
    /// Totals before the entry of the same index, and one more at the end.
    totals: Vec<Totals>,
    /// Messages of which an acknowledgement was sent.
    acked: BTreeSet<u64>,
}

impl Log {
    pub(crate) fn new(start: Rc<PipelineSpec>) -> Log {
        Log { start, entries: Vec::new(), totals: vec![Totals::new()], acked: BTreeSet::new() }
    }

    /// A message sent anew in another session is another message to anyone who
    /// cannot see into it.
    pub(crate) fn was_taken(&self, uid: u64, delivery: (u64, Option<u16>)) -> bool {
        takes(&self.entries).any(|take| take.message.uid == uid && take.delivery == delivery)
    }

    pub(crate) fn push(&mut self, wall_ms: i64, entry: Entry) {
        let mut totals = self.totals.last().expect("never empty").clone();
        match &entry {
            Entry::Take(take) => {
                if let Some(line) = take.message.line {
                    let [received, redelivered, ..] = totals.entry(line).or_default();
                    if take.redelivery {
                        *redelivered += 1;
                    } else {
                        *received += units(&take.message.items);
                    }
                }
            }
            Entry::Idle(devices) => devices.iter().for_each(|(line, _)| totals.entry(*line).or_default()[2] += 1),
            Entry::Gone(devices) => {
                for (line, _, was_active) in devices {
                    let counts = totals.entry(*line).or_default();
                    counts[2] += u64::from(*was_active);
                    counts[3] += 1;
                }
            }
            Entry::Online(_) | Entry::Redefine(_) => {}
        }
        self.totals.push(totals);
        self.entries.push(Moment { wall_ms, entry });
    }

    pub(crate) fn note_ack(&mut self, uid: u64) {
        self.acked.insert(uid);
    }

    /// The configuration has changed what is computed.
    pub(crate) fn is_redefined(&self) -> bool {
        self.entries.iter().any(|moment| matches!(moment.entry, Entry::Redefine(_)))
    }

    /// The counters are those of all takes so far.
    pub(crate) fn check_totals(&self, status: &Status) -> Result<(), String> {
        let (found, expected) = (totals_of(status), self.totals.last().expect("never empty"));
        if are_those(&found, expected) {
            return Ok(());
        }
        Err(format!("received and redelivered, idled and ended per stream: {found:?}, handed over: {expected:?}"))
    }

    /// After a restart: drops the entries that did not survive. `is_active`: a device is
    /// known, and not idle.
    pub(crate) fn cut_to(&mut self, status: &Status, is_active: impl Fn(usize, &str) -> bool) -> Result<usize, String> {
        let found = totals_of(status);
        let Some(mut survived) = self.totals.iter().rposition(|totals| are_those(&found, totals)) else {
            return Err(format!("the state after the restart is no prefix of what was taken in: {found:?}"));
        };
        // A signal that a device is there has no counter. If it is lost, the device is idle.
        let first =
            survived - self.entries[..survived].iter().rev().take_while(|moment| has_no_counter(moment)).count();
        let is_lost = |moment: &Moment| match &moment.entry {
            // A stream that is gone was durable when it went.
            Entry::Online(devices) => {
                let mut judged = devices.iter().filter(|(line, _)| found.contains_key(line));
                !judged.all(|(line, device)| is_active(*line, device))
            }
            Entry::Take(_) | Entry::Idle(_) | Entry::Gone(_) | Entry::Redefine(_) => false,
        };
        if let Some(lost) = self.entries[first..survived].iter().position(is_lost) {
            survived = first + lost;
        }
        let lost = self.entries.split_off(survived);
        self.totals.truncate(survived + 1);
        let kept: BTreeSet<u64> = takes(&self.entries).map(|take| take.message.uid).collect();
        let acked = |take: &&Take| self.acked.contains(&take.message.uid) && !kept.contains(&take.message.uid);
        match takes(&lost).filter(|take| take.message.line.is_some()).find(acked) {
            Some(take) => Err(format!("message {} was acknowledged and is lost", take.message.uid)),
            None => Ok(lost.len()),
        }
    }

    /// What the end has to be, when it is `end_wall`.
    pub(crate) fn oracle(&self, end_wall: i64) -> Result<Oracle, String> {
        Oracle::new(&self.start, &self.entries, end_wall)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn has_no_counter(moment: &Moment) -> bool {
    matches!(moment.entry, Entry::Online(_) | Entry::Redefine(_))
}

fn takes(entries: &[Moment]) -> impl Iterator<Item = &Take> {
    entries.iter().filter_map(|moment| match &moment.entry {
        Entry::Take(take) => Some(take),
        Entry::Idle(_) | Entry::Online(_) | Entry::Gone(_) | Entry::Redefine(_) => None,
    })
}

/// Of the streams that there are.
fn totals_of(status: &Status) -> Totals {
    let of = |ledger: &LedgerStatus| [ledger.received, ledger.redelivered, ledger.idled, ledger.expired];
    status.streams.iter().map(|stream| (line_of(&stream.name), of(&stream.ledger))).collect()
}

fn are_those(found: &Totals, totals: &Totals) -> bool {
    found.iter().all(|(line, counts)| totals.get(line).copied().unwrap_or_default() == *counts)
}

/// What a payload adds to `received`.
fn units(items: &[Item]) -> u64 {
    items.len() as u64
}
