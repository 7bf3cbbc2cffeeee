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
    /// With a session that has seen nothing.
    pub(in crate::engine::decode) fn new(session: Session) -> SparkplugB {
        SparkplugB { session, changed: Changed::new(), all_changed: false, aftermath: None }
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
        let forgotten = self.session.forgotten();
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

#[cfg(test)]
mod tests {
    use super::super::encoder::{Sent, payload};
    use super::*;
    use crate::engine::decode::visit::spy::told;

    fn format() -> SparkplugB {
        SparkplugB::new(Session::default())
    }

    fn tell(format: &mut SparkplugB, topic: &str, payload: &[u8]) -> (String, Option<Aftermath>) {
        let told = told(|visit| format.tell(Telling { topic, payload, field: "value", prefix: "" }, visit));
        (told, format.take_aftermath())
    }

    fn birth() -> Vec<u8> {
        payload(Some(0), Some(1), &[Sent::named("t").alias(1).kind(9).float(1.0)])
    }

    fn data(seq: u64) -> Vec<u8> {
        payload(Some(seq), Some(2), &[Sent::alias_only(1).float(2.0)])
    }

    fn saved(format: &SparkplugB, extent: Extent) -> Vec<u8> {
        let mut out = Vec::new();
        format.save(extent, &mut out);
        out
    }

    #[test]
    fn who_is_there_is_told_as_the_topics_of_their_data() {
        let mut format = format();
        let (_, aftermath) = tell(&mut format, "spBv1.0/G/NBIRTH/e", &birth());
        let online = |topic: &str| Presence { topic: topic.to_owned(), online: true };
        assert_eq!(aftermath.unwrap().presence, [online("spBv1.0/G/NDATA/e")]);
        let device = payload(Some(1), Some(1), &[]);
        let (told, aftermath) = tell(&mut format, "spBv1.0/G/DBIRTH/e/d", &device);
        assert_eq!((told.as_str(), aftermath.unwrap().presence), ("", vec![online("spBv1.0/G/DDATA/e/d")]));
        assert_eq!(tell(&mut format, "spBv1.0/G/NDATA/e", &data(2)), ("record @2ms t=2.0".to_owned(), None));
        let aftermath = tell(&mut format, "spBv1.0/G/NDATA/e", &data(9)).1.unwrap();
        assert_eq!(aftermath.rebirth.as_deref(), Some("spBv1.0/G/NCMD/e"));
        let aftermath = tell(&mut format, "spBv1.0/G/NDEATH/e", &payload(None, Some(9), &[])).1.unwrap();
        let offline = |topic: &str| Presence { topic: topic.to_owned(), online: false };
        assert_eq!(aftermath.presence, [offline("spBv1.0/G/NDATA/e"), offline("spBv1.0/G/DDATA/e/d")]);
    }

    #[test]
    fn a_topic_that_is_none_of_sparkplugs_is_not_in_the_format() {
        assert_eq!(tell(&mut format(), "devices/a", &birth()), ("rejected: not_in_format".to_owned(), None));
        assert_eq!(tell(&mut format(), "spBv1.0/STATE/host", b"{}"), (String::new(), None));
    }

    #[test]
    fn pages_bring_a_restored_format_to_where_it_was() {
        let mut format = format();
        let mut restored = self::format();
        let mut commit = |format: &mut SparkplugB| {
            let page = saved(format, Extent::Changes);
            format.mark_committed();
            restored.load(Extent::Changes, &page);
            assert_eq!(restored.session, format.session);
            page.len()
        };
        tell(&mut format, "spBv1.0/G/NBIRTH/e", &birth());
        let with_birth = commit(&mut format);
        tell(&mut format, "spBv1.0/G/NDATA/e", &data(1));
        assert!(commit(&mut format) <= 5 && with_birth > 15, "data write no names");
        tell(&mut format, "spBv1.0/G/NDEATH/e", &payload(None, Some(9), &[]));
        commit(&mut format);
        for round in 0..2 * CHANGED_MAX {
            // More changes than are noted by name, of no more edge nodes than there may be.
            let edge = format!("spBv1.0/{round}/NBIRTH/e");
            tell(&mut format, &edge, &birth());
            if round % 4 > 0 {
                tell(&mut format, &edge.replace("NBIRTH", "NDEATH"), &payload(None, Some(9), &[]));
            }
        }
        assert!(format.all_changed);
        commit(&mut format);
        tell(&mut format, "spBv1.0/0/NDATA/e", &data(1));
        assert!(commit(&mut format) < 1_000, "and then by name again");
        let mut whole = self::format();
        whole.load(Extent::Whole, &saved(&format, Extent::Whole));
        assert_eq!(whole.session, format.session);
    }

    #[test]
    fn what_another_format_or_a_larger_room_has_left_is_forgotten() {
        let mut format = format();
        tell(&mut format, "spBv1.0/G/NBIRTH/e", &birth());
        let whole = saved(&format, Extent::Whole);
        let mut small = SparkplugB::new(Session::new(100, true));
        small.load(Extent::Whole, &whole);
        assert_eq!(small.session, Session::new(100, true));
        for (extent, bytes) in [(Extent::Changes, &b""[..]), (Extent::Whole, b""), (Extent::Changes, b"\x07")] {
            let mut restored = self::format();
            restored.load(Extent::Whole, &whole);
            assert_eq!(restored.session, format.session);
            restored.load(extent, bytes);
            assert_eq!(restored.session, Session::default());
        }
    }
}
