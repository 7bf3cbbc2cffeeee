//! A session as persisted bytes: the parts that its flags name, in this order.
//!
//! ```text
//! number | flags
//! WHOLE         client id                      a new one, or all of it
//! LINK          expiry s | 1 connected | 0 left ms, dup until
//! SUBSCRIPTIONS n × (filter | 0 gone | 1 options, identifier)
//! INBOUND       n × (packet id | there)
//! REMEMBERED    n × (packet id − the one before | fingerprint)
//! REMOVED       n × number of entry
//! RELEASED      n × number of entry
//! ENTRIES       n × (number | message | flags | n × identifier)
//! ```

use std::collections::BTreeSet;

use crate::engine::wire::{Damaged, Reader, put_i64, put_str, put_u64};
use crate::model::time::{ProcTime, Span};

use super::message::{qos_code, read_qos};
use super::{Broker, Entry, Extent, MessageNo, Presence, Session, SessionNo};
use crate::engine::broker::messages::size_of;
use crate::engine::broker::packet::Qos;
use crate::engine::broker::subscriptions::{Options, Subscriber, bytes_of, fits};

const WHOLE: u8 = 1;
const LINK: u8 = 2;
const SUBSCRIPTIONS: u8 = 4;
const INBOUND: u8 = 8;
const REMEMBERED: u8 = 16;
const REMOVED: u8 = 32;
const RELEASED: u8 = 64;
const ENTRIES: u8 = 128;

const NO_LOCAL: u8 = 4;
const RETAIN_AS_PUBLISHED: u8 = 8;
const HAS_ID: u8 = 16;

const ENTRY_RETAIN: u8 = 4;
const ENTRY_RELEASED: u8 = 8;

pub(super) fn write(out: &mut Vec<u8>, number: SessionNo, session: &Session, extent: Extent, now: ProcTime) {
    let whole = extent == Extent::Whole;
    let changes = &session.changes;
    let filters: BTreeSet<&str> = if whole {
        session.subscriptions.keys().map(AsRef::as_ref).collect()
    } else {
        changes.subscriptions.iter().map(AsRef::as_ref).collect()
    };
    let inbound = if whole { &session.inbound } else { &changes.inbound };
    let forgotten = if whole { 0 } else { session.remembered.len() - changes.remembered };
    let (removed, released): (&[u64], &[u64]) = if whole { (&[], &[]) } else { (&changes.removed, &changes.released) };
    // An entry may be gone that was released in the same commit.
    let released: Vec<_> = released.iter().filter(|seq| session.outgoing.position(**seq).is_some()).collect();
    let entries: Vec<_> = session.outgoing.iter().filter(|entry| whole || entry.held).collect();

    put_u64(out, number.0);
    let mut flags = if whole { WHOLE } else { 0 };
    for (there, flag) in [
        (whole || changes.link, LINK),
        (!filters.is_empty(), SUBSCRIPTIONS),
        (!inbound.is_empty(), INBOUND),
        (session.remembered.len() > forgotten, REMEMBERED),
        (!removed.is_empty(), REMOVED),
        (!released.is_empty(), RELEASED),
        (!entries.is_empty(), ENTRIES),
    ] {
        flags |= if there { flag } else { 0 };
    }
    out.push(flags);
    if whole {
        put_str(out, &session.client_id);
    }
    if flags & LINK != 0 {
        write_link(out, session, now);
    }
    if flags & SUBSCRIPTIONS != 0 {
        put_u64(out, filters.len() as u64);
        for filter in filters {
            write_subscription(out, session, filter);
        }
    }
    if flags & INBOUND != 0 {
        put_u64(out, inbound.len() as u64);
        for packet in inbound {
            put_u64(out, u64::from(*packet));
            out.push(u8::from(session.inbound.contains(packet)));
        }
    }
    if flags & REMEMBERED != 0 {
        write_remembered(out, session, forgotten);
    }
    if flags & REMOVED != 0 {
        put_u64(out, removed.len() as u64);
        for seq in removed {
            put_u64(out, *seq);
        }
    }
    if flags & RELEASED != 0 {
        put_u64(out, released.len() as u64);
        for seq in released {
            put_u64(out, *seq);
        }
    }
    if flags & ENTRIES != 0 {
        put_u64(out, entries.len() as u64);
        for entry in entries {
            write_entry(out, entry);
        }
    }
}

fn write_link(out: &mut Vec<u8>, session: &Session, now: ProcTime) {
    put_u64(out, u64::from(session.expiry_secs));
    match session.presence {
        Presence::Online { .. } | Presence::Lost => out.push(1),
        Presence::Offline { until, .. } => {
            out.push(0);
            put_u64(out, until.since(now).as_millis());
        }
    }
    put_u64(out, session.outgoing.dup_until());
}

fn write_remembered(out: &mut Vec<u8>, session: &Session, from: usize) {
    put_u64(out, (session.remembered.len() - from) as u64);
    let mut before = 0;
    for (packet, fingerprint) in session.remembered.range(from..) {
        // Most clients count: one byte.
        put_i64(out, i64::from(*packet) - before);
        out.extend_from_slice(&fingerprint.to_le_bytes());
        before = i64::from(*packet);
    }
}

fn read_remembered(reader: &mut Reader<'_>, session: &mut Session, len_max: u16) -> Result<(), Damaged> {
    let mut packet = 0;
    for _ in 0..reader.u64()? {
        let next = i64::from(packet).checked_add(reader.i64()?);
        packet = next.and_then(|packet| u16::try_from(packet).ok()).ok_or(Damaged)?;
        let bytes = reader.take(4)?.first_chunk().copied().ok_or(Damaged)?;
        session.remember(packet, u32::from_le_bytes(bytes), len_max);
    }
    // It is what was written.
    session.changes.remembered = 0;
    Ok(())
}

fn write_subscription(out: &mut Vec<u8>, session: &Session, filter: &str) {
    put_str(out, filter);
    let Some(options) = session.subscriptions.get(filter) else { return out.push(0) };
    out.push(1);
    let no_local = if options.no_local { NO_LOCAL } else { 0 };
    let as_published = if options.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 };
    let has_id = if options.id.is_some() { HAS_ID } else { 0 };
    out.push(qos_code(options.qos) | no_local | as_published | has_id);
    if let Some(id) = options.id {
        put_u64(out, u64::from(id));
    }
}

fn write_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_u64(out, entry.seq);
    put_u64(out, entry.message.0);
    let retain = if entry.retain { ENTRY_RETAIN } else { 0 };
    let released = if entry.released { ENTRY_RELEASED } else { 0 };
    out.push(qos_code(entry.qos) | retain | released);
    put_u64(out, entry.subscriptions.len() as u64);
    entry.subscriptions.iter().for_each(|id| put_u64(out, u64::from(*id)));
}

fn read_entry(reader: &mut Reader<'_>) -> Result<Entry, Damaged> {
    let (seq, message, flags) = (reader.u64()?, MessageNo(reader.u64()?), reader.u8()?);
    let qos = read_qos(flags & 3)?;
    if qos == Qos::AtMostOnce {
        return Err(Damaged);
    }
    let mut subscriptions = Vec::new();
    for _ in 0..reader.u64()? {
        subscriptions.push(reader.uint()?);
    }
    let (retain, released) = (flags & ENTRY_RETAIN != 0, flags & ENTRY_RELEASED != 0);
    Ok(Entry { seq, message, qos, retain, released, held: false, bytes: 0, subscriptions })
}

impl Broker {
    pub(super) fn read_session(&mut self, reader: &mut Reader<'_>, written: ProcTime) -> Result<(), Damaged> {
        let (number, flags) = (SessionNo(reader.u64()?), reader.u8()?);
        if flags & WHOLE != 0 {
            let client_id = reader.str()?;
            if self.names.contains_key(client_id) || self.sessions.contains_key(&number) || number.0 == u64::MAX {
                return Err(Damaged);
            }
            self.names.insert(client_id.into(), number);
            self.sessions.insert(number, Session::new(client_id));
            self.next_session = self.next_session.max(number.0 + 1);
        }
        let in_flight = self.limits.in_flight;
        let session = self.sessions.get_mut(&number).ok_or(Damaged)?;
        if flags & LINK != 0 {
            session.expiry_secs = reader.uint()?;
            session.presence = match reader.u8()? {
                0 => {
                    let until = written + Span::from_millis(reader.u64()?);
                    Presence::Offline { until, will_at: None }
                }
                1 => Presence::Lost,
                _ => return Err(Damaged),
            };
            if !session.outgoing.set_dup_until(reader.u64()?) {
                return Err(Damaged);
            }
        }
        if flags & SUBSCRIPTIONS != 0 {
            for _ in 0..reader.u64()? {
                let filter = reader.str()?;
                let options = read_subscription(reader)?;
                match options {
                    None => {
                        if session.subscriptions.remove(filter).is_some() {
                            self.filter_bytes -= bytes_of(filter);
                            self.tree.remove(filter, number);
                        }
                    }
                    Some(options) if fits(filter) => {
                        if session.subscriptions.insert(filter.into(), options).is_none() {
                            self.filter_bytes += bytes_of(filter);
                        }
                        self.tree.insert(filter, Subscriber { session: number, options });
                    }
                    Some(_) => return Err(Damaged),
                }
            }
        }
        if flags & INBOUND != 0 {
            for _ in 0..reader.u64()? {
                let packet = reader.uint()?;
                match reader.u8()? {
                    0 => self.inbound -= usize::from(session.inbound.remove(&packet)),
                    1 => self.inbound += usize::from(session.inbound.insert(packet)),
                    _ => return Err(Damaged),
                }
            }
        }
        if flags & REMEMBERED != 0 {
            read_remembered(reader, session, in_flight)?;
        }
        self.read_queue(reader, number, flags)
    }

    fn read_queue(&mut self, reader: &mut Reader<'_>, number: SessionNo, flags: u8) -> Result<(), Damaged> {
        let session = self.sessions.get_mut(&number).ok_or(Damaged)?;
        if flags & REMOVED != 0 {
            for _ in 0..reader.u64()? {
                let at = session.outgoing.position(reader.u64()?).ok_or(Damaged)?;
                if let Some(entry) = session.outgoing.remove(at) {
                    self.messages.release(entry.message, entry.own_bytes());
                }
            }
        }
        if flags & RELEASED != 0 {
            for _ in 0..reader.u64()? {
                let at = session.outgoing.position(reader.u64()?).ok_or(Damaged)?;
                session.outgoing.release(at);
            }
        }
        if flags & ENTRIES != 0 {
            for _ in 0..reader.u64()? {
                let mut entry = read_entry(reader)?;
                let size = self.messages.get(entry.message).map_or(0, |kept| size_of(&kept.message));
                entry.set_bytes(size);
                let is_there = self.messages.hold(entry.message, entry.own_bytes());
                if !is_there || !session.outgoing.push_stored(entry) {
                    return Err(Damaged);
                }
            }
        }
        Ok(())
    }
}

fn read_subscription(reader: &mut Reader<'_>) -> Result<Option<Options>, Damaged> {
    match reader.u8()? {
        0 => return Ok(None),
        1 => {}
        _ => return Err(Damaged),
    }
    let flags = reader.u8()?;
    let id = if flags & HAS_ID == 0 { None } else { Some(reader.uint()?) };
    Ok(Some(Options {
        qos: read_qos(flags & 3)?,
        no_local: flags & NO_LOCAL != 0,
        retain_as_published: flags & RETAIN_AS_PUBLISHED != 0,
        id,
    }))
}
