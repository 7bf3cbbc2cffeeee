//! The session as a format of the engine: topics in, topics out.
//!
//! Everything but data may tell nothing. Commands and the states of hosts are none of a
//! stream's business; births and deaths say who is there, which is told as the topic on which
//! the edge node or the device would publish its data: the engine makes the device's id of it,
//! as of the readings.
//!
//! Alias and name are in the state of the stream. A snapshot holds the whole session, a page
//! the edge nodes that were born or have died since the one before, and where each is in its
//! sequence.

use crate::engine::decode::visit::{Outcome, Visit};
use crate::engine::decode::{Aftermath, Format, Presence, Telling};
use crate::engine::snapshot::Extent;
use crate::model::limits::SPARKPLUG_EDGES_MAX;
use crate::model::record::RejectReason;

use super::command::rebirth_topic;
use super::saved::Changed;
use super::session::{Heard, Session};
use super::topic::{Message, Topic};

/// Changed edge nodes that are noted by name. Beyond it all of them are written.
const CHANGED_MAX: usize = 2 * SPARKPLUG_EDGES_MAX;

/// First byte of what is saved as changes: of some edge nodes, or all there is.
const SOME: u8 = 0;
const ALL: u8 = 1;

/// One stream of Sparkplug messages.
#[derive(Debug)]
pub(in crate::engine::decode) struct SparkplugB {
    session: Session,
    /// Whose births are not durable as they are.
    changed: Changed,
    /// `changed` was full.
    all_changed: bool,
    aftermath: Option<Aftermath>,
}

impl SparkplugB {
    /// `room`: bytes that the session may take.
    pub(in crate::engine::decode) fn new(room: usize) -> SparkplugB {
        SparkplugB { session: Session::new(room), changed: Changed::new(), all_changed: false, aftermath: None }
    }

    fn note_change(&mut self, group: &str, edge: &str) {
        if self.changed.len() >= CHANGED_MAX {
            self.changed.clear();
            self.all_changed = true;
        }
        if !self.all_changed {
            self.changed.insert((group.into(), edge.into()));
        }
    }
}

impl Format for SparkplugB {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        self.aftermath = None;
        let Some(topic) = Topic::parse(telling.topic) else { return Err(RejectReason::NotInFormat) };
        let Topic::Edge { group, edge, message, .. } = topic else {
            visit.nothing();
            return Ok(());
        };
        if message != Message::Data {
            visit.nothing();
        }
        let heard = self.session.hear(&topic, telling.payload, visit);
        if heard.changed {
            self.note_change(group, edge);
        }
        self.aftermath = aftermath(group, edge, &heard);
        heard.outcome
    }

    fn take_aftermath(&mut self) -> Option<Aftermath> {
        self.aftermath.take()
    }

    fn save(&self, extent: Extent, out: &mut Vec<u8>) {
        match extent {
            Extent::Whole => self.session.save(out),
            Extent::Changes if self.all_changed => {
                out.push(ALL);
                self.session.save(out);
            }
            Extent::Changes => {
                out.push(SOME);
                self.session.save_changes(&self.changed, out);
            }
        }
    }

    fn load(&mut self, extent: Extent, saved: &[u8]) {
        let forgotten = Session::new(self.session.room());
        let session = core::mem::replace(&mut self.session, forgotten);
        let loaded = match (extent, saved.split_first()) {
            (Extent::Whole, _) => session.load_whole(saved),
            (Extent::Changes, Some((&ALL, saved))) => session.load_whole(saved),
            (Extent::Changes, Some((&SOME, saved))) => session.load_changes(saved),
            // Written while the stream had another format.
            (Extent::Changes, _) => None,
        };
        if let Some(loaded) = loaded {
            self.session = loaded;
        }
    }

    fn mark_committed(&mut self) {
        self.changed.clear();
        self.all_changed = false;
    }
}

/// `None` where nothing follows, as after most data: then nothing is allocated.
fn aftermath(group: &str, edge: &str, heard: &Heard) -> Option<Aftermath> {
    let counts = [heard.left_out, heard.historical, heard.not_kept];
    if heard.availability.is_empty() && heard.rebirth.is_none() && counts == [0; 3] {
        return None;
    }
    let presence = heard.availability.iter().map(|change| {
        let topic = match &change.device {
            None => format!("spBv1.0/{group}/NDATA/{edge}"),
            Some(device) => format!("spBv1.0/{group}/DDATA/{edge}/{device}"),
        };
        Presence { topic, online: change.online }
    });
    let [left_out, historical, not_kept] = counts;
    let rebirth = heard.rebirth.map(|_| rebirth_topic(group, edge));
    Some(Aftermath { presence: presence.collect(), rebirth, left_out, historical, not_kept })
}
