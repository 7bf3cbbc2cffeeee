//! A session as bytes, for whoever keeps it over a restart.
//!
//! ```text
//! version(1)  groups  { name  edges { name  bdSeq?  seq?  crowded  births
//!                                     devices { name  births? } } }
//! ```

use std::collections::BTreeMap;

use crate::engine::wire::{Damaged, Reader, put_str, put_u64};
use crate::model::limits::{SPARKPLUG_BYTES_MAX, SPARKPLUG_EDGES_MAX, SPARKPLUG_METRICS_MAX, SPARKPLUG_NAME_BYTES};

use super::births::{Births, Room};
use super::session::{Edge, Session};

const VERSION: u8 = 1;

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
                put_maybe(out, edge.bd_seq);
                put_maybe(out, edge.seq.map(u64::from));
                put_u64(out, u64::from(edge.crowded));
                edge.metrics.save(out);
                put_u64(out, edge.devices.len() as u64);
                for (device, births) in &edge.devices {
                    put_str(out, device);
                    put_u64(out, u64::from(births.is_some()));
                    if let Some(births) = births {
                        births.save(out);
                    }
                }
            }
        }
    }

    /// What `save` wrote. Nothing when the bytes are damaged, of another version, or say more
    /// than a session may hold; an empty session is then as good: it asks for births.
    pub fn load(bytes: &[u8]) -> Option<Session> {
        let mut reader = Reader::new(bytes);
        let session = session(&mut reader).ok()?;
        let bounded = session.edges() <= SPARKPLUG_EDGES_MAX && session.bytes() <= SPARKPLUG_BYTES_MAX;
        (reader.is_empty() && bounded).then_some(session)
    }
}

fn session(reader: &mut Reader<'_>) -> Result<Session, Damaged> {
    if reader.u8()? != VERSION {
        return Err(Damaged);
    }
    let groups = ordered(reader, |reader| {
        let edges = ordered(reader, edge)?;
        if edges.is_empty() { Err(Damaged) } else { Ok(edges) }
    })?;
    Ok(Session { groups })
}

fn edge(reader: &mut Reader<'_>) -> Result<Edge, Damaged> {
    let bd_seq = maybe(reader)?;
    let seq = maybe(reader)?.map(u8::try_from).transpose().map_err(|_| Damaged)?;
    let crowded = truth(reader)?;
    let room = Room { metrics: SPARKPLUG_METRICS_MAX, bytes: SPARKPLUG_BYTES_MAX };
    let metrics = Births::load(reader, room)?;
    let devices = ordered(reader, |reader| {
        let is_born = truth(reader)?;
        is_born.then(|| Births::load(reader, room)).transpose()
    })?;
    let edge = Edge { bd_seq, seq, metrics, devices, crowded };
    if edge.metrics_kept() <= SPARKPLUG_METRICS_MAX { Ok(edge) } else { Err(Damaged) }
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
        let name = reader.str()?;
        let in_order = found.last_key_value().is_none_or(|(last, _)| **last < *name);
        if !in_order || name.is_empty() || name.len() > SPARKPLUG_NAME_BYTES {
            return Err(Damaged);
        }
        let value = read(reader)?;
        found.insert(name.into(), value);
    }
    Ok(found)
}

fn put_maybe(out: &mut Vec<u8>, value: Option<u64>) {
    put_u64(out, u64::from(value.is_some()));
    if let Some(value) = value {
        put_u64(out, value);
    }
}

fn maybe(reader: &mut Reader<'_>) -> Result<Option<u64>, Damaged> {
    if truth(reader)? { reader.u64().map(Some) } else { Ok(None) }
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
    fn no_bytes_make_it_fall_over_and_what_is_loaded_is_within_the_bounds() {
        hostile::each(&[&saved(&session())], |bytes| {
            if let Some(session) = Session::load(bytes) {
                assert!(session.bytes() <= SPARKPLUG_BYTES_MAX && session.edges() <= SPARKPLUG_EDGES_MAX);
                assert_eq!(Session::load(&saved(&session)), Some(session));
            }
        });
    }
}
