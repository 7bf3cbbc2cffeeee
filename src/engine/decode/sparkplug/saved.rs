//! A session as bytes, for whoever keeps it over a restart.
//!
//! ```text
//! whole:    version(1)  groups  { name  edges { name  edge } }
//! changes:  version(1)  n × (group  name  0: gone, 1: edge)  n × standing
//!
//! edge:     bdSeq?  standing  crowded  births  devices { name  births? }
//! standing: the last sequence number and whether there was a gap
//! ```
//!
//! Changes are the edge nodes whose births changed, and the standings of all that there are
//! then, in order: a byte or two each. So a session that is read back is the one of the last
//! commit to the message. Messages that come again are next in the sequence, and those that
//! were missed meanwhile, maybe a birth with other aliases, show as a gap.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::wire::{Damaged, Reader, put_str, put_u64};
use crate::model::limits::{SPARKPLUG_BYTES_MAX, SPARKPLUG_EDGES_MAX, SPARKPLUG_METRICS_MAX, SPARKPLUG_NAME_BYTES};

use super::births::{Births, Room};
use super::session::{Edge, Groups, Session};

const VERSION: u8 = 1;

/// Edge nodes by group and name.
pub(super) type Changed = BTreeSet<(Box<str>, Box<str>)>;

impl Session {
    /// Appends the session to `out`: equal sessions, equal bytes.
    pub fn save(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_u64(out, self.groups.len() as u64);
        for (group, edges) in &self.groups {
            put_str(out, group);
            put_u64(out, edges.len() as u64);
            for (name, edge) in edges {
                put_str(out, name);
                edge.save(out);
            }
        }
    }

    /// What `save` wrote. Nothing when the bytes are damaged, of another version, or say more
    /// than a session may hold; an empty session is then as good: it asks for births.
    pub fn load(bytes: &[u8]) -> Option<Session> {
        Session::default().load_whole(bytes)
    }

    /// As [`Session::load`], in the room of this one.
    pub(super) fn load_whole(mut self, bytes: &[u8]) -> Option<Session> {
        let mut reader = Reader::new(bytes);
        self.groups = groups(&mut reader).ok()?;
        (reader.is_empty() && self.is_bounded()).then_some(self)
    }

    /// Appends the edge nodes of `changed`, and all standings.
    pub(super) fn save_changes(&self, changed: &Changed, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_u64(out, changed.len() as u64);
        for (group, name) in changed {
            put_str(out, group);
            put_str(out, name);
            let edge = self.groups.get(group).and_then(|edges| edges.get(name));
            out.push(u8::from(edge.is_some()));
            if let Some(edge) = edge {
                edge.save(out);
            }
        }
        self.groups.values().flat_map(BTreeMap::values).for_each(|edge| put_u64(out, edge.standing()));
    }

    /// Applies what `save_changes` wrote to the session as it was before. Nothing when it does
    /// not follow; see [`Session::load`].
    pub(super) fn load_changes(mut self, bytes: &[u8]) -> Option<Session> {
        let mut reader = Reader::new(bytes);
        self.apply(&mut reader).ok()?;
        (reader.is_empty() && self.is_bounded()).then_some(self)
    }

    fn apply(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        if reader.u8()? != VERSION {
            return Err(Damaged);
        }
        for _ in 0..reader.u64()? {
            let (group, name) = (name(reader)?, name(reader)?);
            if truth(reader)? {
                self.groups.entry(group.into()).or_default().insert(name.into(), Edge::load(reader)?);
            } else {
                self.remove(group, name);
            }
        }
        for edge in self.groups.values_mut().flat_map(BTreeMap::values_mut) {
            (edge.seq, edge.gap) = standing(reader)?;
        }
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        self.edges() <= SPARKPLUG_EDGES_MAX && self.bytes() <= self.room
    }
}

impl Edge {
    fn save(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.bd_seq.is_some()));
        if let Some(bd_seq) = self.bd_seq {
            put_u64(out, bd_seq);
        }
        put_u64(out, self.standing());
        put_u64(out, u64::from(self.crowded));
        self.metrics.save(out);
        put_u64(out, self.devices.len() as u64);
        for (device, births) in &self.devices {
            put_str(out, device);
            put_u64(out, u64::from(births.is_some()));
            if let Some(births) = births {
                births.save(out);
            }
        }
    }

    fn load(reader: &mut Reader<'_>) -> Result<Edge, Damaged> {
        let bd_seq = if truth(reader)? { Some(reader.u64()?) } else { None };
        let (seq, gap) = standing(reader)?;
        let crowded = truth(reader)?;
        let room = Room { metrics: SPARKPLUG_METRICS_MAX, bytes: SPARKPLUG_BYTES_MAX };
        let metrics = Births::load(reader, room)?;
        let devices = ordered(reader, |reader| {
            let is_born = truth(reader)?;
            is_born.then(|| Births::load(reader, room)).transpose()
        })?;
        let edge = Edge { bd_seq, seq, gap, metrics, devices, crowded };
        if edge.metrics_kept() <= SPARKPLUG_METRICS_MAX { Ok(edge) } else { Err(Damaged) }
    }

    /// Twice the number plus one, or 0 without; and 1 for a gap.
    fn standing(&self) -> u64 {
        self.seq.map_or(0, |seq| 2 * (u64::from(seq) + 1)) + u64::from(self.gap)
    }
}

fn standing(reader: &mut Reader<'_>) -> Result<(Option<u8>, bool), Damaged> {
    let standing = reader.u64()?;
    let seq = match standing / 2 {
        0 => None,
        number => Some(u8::try_from(number - 1).map_err(|_| Damaged)?),
    };
    Ok((seq, standing % 2 == 1))
}

fn groups(reader: &mut Reader<'_>) -> Result<Groups, Damaged> {
    if reader.u8()? != VERSION {
        return Err(Damaged);
    }
    ordered(reader, |reader| {
        let edges = ordered(reader, Edge::load)?;
        if edges.is_empty() { Err(Damaged) } else { Ok(edges) }
    })
}

/// Named things in the order of their names. Each takes bytes of the input, so that there
/// are never more than that holds.
fn ordered<T>(
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, Damaged>,
) -> Result<BTreeMap<Box<str>, T>, Damaged> {
    let count = reader.u64()?;
    let mut found = BTreeMap::<Box<str>, T>::new();
    for _ in 0..count {
        let name = name(reader)?;
        if found.last_key_value().is_some_and(|(last, _)| **last >= *name) {
            return Err(Damaged);
        }
        let value = read(reader)?;
        found.insert(name.into(), value);
    }
    Ok(found)
}

fn name<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Damaged> {
    let name = reader.str()?;
    if name.is_empty() || name.len() > SPARKPLUG_NAME_BYTES { Err(Damaged) } else { Ok(name) }
}

fn truth(reader: &mut Reader<'_>) -> Result<bool, Damaged> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Damaged),
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::decode::hostile;
    use crate::engine::decode::visit::spy::told;

    use super::super::encoder::{Sent, payload};
    use super::super::session::Rebirth;
    use super::super::topic::Topic;
    use super::*;

    fn hear(session: &mut Session, topic: &str, bytes: &[u8]) -> String {
        told(|visit| session.hear(&Topic::parse(topic).unwrap(), bytes, visit).outcome)
    }

    fn session() -> Session {
        let mut session = Session::default();
        let metrics = [Sent::named("bdSeq").kind(8).long(3), Sent::named("t").alias(1).kind(9).float(1.5)];
        for topic in ["spBv1.0/G/NBIRTH/e", "spBv1.0/G/NBIRTH/f", "spBv1.0/H/NBIRTH/e"] {
            let _ = hear(&mut session, topic, &payload(Some(0), Some(1), &metrics));
        }
        let device = payload(Some(1), Some(1), &[Sent::named("x").alias(7).kind(3).int(5)]);
        let _ = hear(&mut session, "spBv1.0/G/DBIRTH/e/d", &device);
        let _ = hear(&mut session, "spBv1.0/G/DBIRTH/f/d", &device);
        let _ = hear(&mut session, "spBv1.0/G/NBIRTH/f", &payload(None, Some(1), &metrics));
        session
    }

    fn saved(session: &Session) -> Vec<u8> {
        let mut out = Vec::new();
        session.save(&mut out);
        out
    }

    #[test]
    fn a_session_goes_on_after_a_restart() {
        let mut session = Session::load(&saved(&session())).unwrap();
        let device = payload(Some(2), Some(9), &[Sent::alias_only(7).int(u32::MAX)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/DDATA/e/d", &device), "record @9ms x=-1");
        let topic = Topic::parse("spBv1.0/G/DDATA/e/d").unwrap();
        let missed = payload(Some(4), Some(9), &[Sent::alias_only(7).int(1)]);
        let mut rebirth = None;
        let _ = told(|visit| {
            let heard = session.hear(&topic, &missed, visit);
            rebirth = heard.rebirth;
            heard.outcome
        });
        assert_eq!(rebirth, Some(Rebirth::SequenceGap), "what was sent meanwhile is missed");
        assert_eq!(Session::load(&saved(&session)), Some(session));
        assert_eq!(Session::load(&saved(&Session::default())), Some(Session::default()));
    }

    #[test]
    fn what_is_cut_longer_or_of_another_version_is_not_loaded() {
        let whole = saved(&session());
        assert!((0..whole.len()).all(|cut| Session::load(&whole[..cut]).is_none()));
        assert_eq!(Session::load(&[&whole[..], &[0]].concat()), None);
        assert_eq!(Session::load(&[&[VERSION + 1], &whole[1..]].concat()), None);
    }

    #[test]
    fn changes_bring_a_session_of_before_to_where_it_is_now() {
        let before = session();
        let mut now = before.clone();
        let device = payload(Some(2), Some(9), &[Sent::alias_only(7).int(5)]);
        let _ = hear(&mut now, "spBv1.0/G/DDATA/e/d", &device);
        let mut numbers = Vec::new();
        now.save_changes(&Changed::new(), &mut numbers);
        assert_eq!(numbers.len(), 2 + 3, "nothing but the standings of three edge nodes");
        assert_eq!(before.clone().load_changes(&numbers).as_ref(), Some(&now));

        let _ = hear(&mut now, "spBv1.0/H/NDEATH/e", &payload(None, Some(9), &[]));
        let _ = hear(&mut now, "spBv1.0/I/NBIRTH/new", &payload(Some(0), Some(9), &[Sent::named("x").alias(1)]));
        let _ = hear(&mut now, "spBv1.0/G/DDATA/f/d", &payload(Some(200), Some(9), &[]));
        let edges = [("H", "e"), ("I", "new"), ("G", "f")].map(|(group, edge)| (group.into(), edge.into()));
        let mut changes = Vec::new();
        now.save_changes(&Changed::from(edges), &mut changes);
        assert_eq!(before.clone().load_changes(&changes), Some(now));
        assert!((0..changes.len()).all(|cut| before.clone().load_changes(&changes[..cut]).is_none()));
        assert_eq!(before.clone().load_changes(&[&changes[..], &[0]].concat()), None);
        assert_eq!(Session::default().load_changes(&numbers), None, "of another session");
    }

    #[test]
    fn a_session_that_has_less_room_than_before_begins_anew() {
        let bytes = saved(&session());
        let with_room = |room| Session::new(room, true).load_whole(&bytes).map(|session| session.edges());
        assert_eq!((with_room(session().bytes()), with_room(session().bytes() - 1)), (Some(3), None));
    }

    #[test]
    fn no_bytes_make_it_fall_over_and_what_is_loaded_is_within_the_bounds() {
        hostile::each(&[&saved(&session())], |bytes| {
            if let Some(session) = Session::load(bytes) {
                assert!(session.bytes() <= SPARKPLUG_BYTES_MAX && session.edges() <= SPARKPLUG_EDGES_MAX);
                assert_eq!(Session::load(&saved(&session)), Some(session));
            }
            let _ = session().load_changes(bytes);
        });
    }
}
