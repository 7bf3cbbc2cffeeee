//! What the driver took in, in order; and how much of it survived a crash.
//!
//! The durable state after a crash has to be that after some prefix of the takes:
//! never less than was acknowledged, never half a message. Which prefix, the
//! state says itself by its counters; the end state then shows whether it lied.

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

/// Per stream: records received, messages recognised as redelivered.
pub(crate) type Totals = Vec<(u64, u64)>;

pub(crate) struct Log {
    takes: Vec<Take>,
    /// Totals before the take of the same index, and one more at the end.
    totals: Vec<Totals>,
    /// Messages of which an acknowledgement was sent.
    acked: BTreeSet<u64>,
}

impl Log {
    pub(crate) fn new(streams: usize) -> Log {
        Log { takes: Vec::new(), totals: vec![vec![(0, 0); streams]], acked: BTreeSet::new() }
    }

    /// A message sent anew in another session is another message to anyone who
    /// cannot see into it.
    pub(crate) fn was_taken(&self, uid: u64, delivery: (u64, Option<u16>)) -> bool {
        self.takes.iter().any(|take| take.message.uid == uid && take.delivery == delivery)
    }

    pub(crate) fn push(&mut self, take: Take) {
        let mut totals = self.totals.last().expect("never empty").clone();
        if let Some(stream) = take.message.stream {
            if take.redelivery {
                totals[stream].1 += 1;
            } else {
                totals[stream].0 += units(&take.message.items);
            }
        }
        self.totals.push(totals);
        self.takes.push(take);
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
        Err(format!("received and redelivered per stream: {found:?}, handed over: {expected:?}"))
    }

    /// After a restart: drops the takes that did not survive.
    pub(crate) fn cut_to(&mut self, status: &Status) -> Result<usize, String> {
        let found = totals_of(status);
        let Some(survived) = self.totals.iter().rposition(|totals| *totals == found) else {
            return Err(format!("the state after the restart is no prefix of what was taken in: {found:?}"));
        };
        let lost = self.takes.split_off(survived);
        self.totals.truncate(survived + 1);
        let kept: BTreeSet<u64> = self.takes.iter().map(|take| take.message.uid).collect();
        let acked = |take: &&Take| self.acked.contains(&take.message.uid) && !kept.contains(&take.message.uid);
        match lost.iter().find(acked) {
            Some(take) => Err(format!("message {} was acknowledged and is lost", take.message.uid)),
            None => Ok(lost.len()),
        }
    }

    pub(crate) fn oracle(&self, spec: &PipelineSpec) -> Result<Oracle, String> {
        Oracle::new(spec, &self.takes)
    }

    pub(crate) fn len(&self) -> usize {
        self.takes.len()
    }
}

fn totals_of(status: &Status) -> Totals {
    status.streams.iter().map(|stream| (stream.ledger.received, stream.ledger.redelivered)).collect()
}

/// What a payload adds to `received`.
fn units(items: &[Item]) -> u64 {
    items.len() as u64
}
