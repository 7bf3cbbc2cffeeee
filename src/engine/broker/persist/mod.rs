//! The broker as persisted bytes: what of it has changed, or all of it. Both are read alike.
//!
//! ```text
//! page, snapshot: 0 changes | 1 all
//!                 n × (number | message)            what new entries of queues need
//!                 n × number                        sessions that are over
//!                 n × session                       session.rs
//!                 n × (1 message | 0 topic)         retained, cleared
//! ```
//!
//! A message that many wait for stands there once. Deadlines are stored as what is left.

mod message;
mod session;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::wire::{Damaged, Reader, put_str, put_u64};
use crate::model::time::{Now, ProcTime};

use super::Broker;
use super::messages::{Expiry, MessageNo};
use super::outgoing::Entry;
use super::packet::Message;
use super::retained::Retained;
use super::session::{Changes, Presence, Session, SessionNo};
use message::{read_message, write_message};

/// Which part of a session is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Changes,
    Whole,
}

impl Broker {
    /// True when a commit would write nothing, and nobody waits for one.
    pub fn is_committed(&self) -> bool {
        self.dirty.is_empty()
            && self.ended.is_empty()
            && self.retained.changed.is_empty()
            && self.waiting.is_empty()
            && self.touched.is_empty()
    }

    /// Appends what has changed since the last commit. Changes nothing: after a failed commit
    /// it is written again, with whatever came since.
    pub fn write_changes(&self, now: Now, out: &mut Vec<u8>) {
        out.push(0);
        let sessions: Vec<_> = self.dirty.iter().filter_map(|number| self.sessions.get_key_value(number)).collect();
        self.write_messages(now, out, &sessions, |entry| entry.held, &mut |_| ());
        put_u64(out, self.ended.len() as u64);
        self.ended.iter().for_each(|number| put_u64(out, number.0));
        put_u64(out, sessions.len() as u64);
        for (number, session) in sessions {
            let extent = if session.changes.whole { Extent::Whole } else { Extent::Changes };
            session::write(out, *number, session, extent, now.proc);
        }
        put_u64(out, self.retained.changed.len() as u64);
        for topic in &self.retained.changed {
            if let Some(kept) = self.retained.get(topic) {
                write_retained(out, kept, now.proc);
            } else {
                out.push(0);
                put_str(out, topic);
            }
        }
    }

    /// Appends everything, for a snapshot. `hand_over` is offered what is there after each
    /// session and each message.
    pub fn write_all(&self, now: Now, out: &mut Vec<u8>, hand_over: &mut dyn FnMut(&mut Vec<u8>)) {
        out.push(1);
        let sessions: Vec<_> = self.sessions.iter().filter(|(_, session)| session.is_durable()).collect();
        self.write_messages(now, out, &sessions, |_| true, hand_over);
        put_u64(out, 0);
        put_u64(out, sessions.len() as u64);
        for (number, session) in sessions {
            session::write(out, *number, session, Extent::Whole, now.proc);
            hand_over(out);
        }
        put_u64(out, self.retained.len() as u64);
        for kept in self.retained.iter() {
            write_retained(out, kept, now.proc);
            hand_over(out);
        }
    }

    fn write_messages(
        &self,
        now: Now,
        out: &mut Vec<u8>,
        sessions: &[(&SessionNo, &Session)],
        is_written: impl Fn(&Entry) -> bool,
        hand_over: &mut dyn FnMut(&mut Vec<u8>),
    ) {
        let entries = sessions.iter().flat_map(|(_, session)| session.outgoing.iter());
        let needed: BTreeSet<_> = entries.filter(|entry| is_written(entry)).map(|entry| entry.message).collect();
        let kept: Vec<_> = needed.iter().filter_map(|number| Some((number, self.messages.get(*number)?))).collect();
        put_u64(out, kept.len() as u64);
        for (number, kept) in kept {
            put_u64(out, number.0);
            write_message(out, &kept.message, kept.expiry, now.proc);
            hand_over(out);
        }
    }

    /// What was written is durable.
    pub(super) fn forget_changes(&mut self) {
        for number in core::mem::take(&mut self.dirty) {
            if let Some(session) = self.sessions.get_mut(&number) {
                session.changes = Changes::default();
            }
        }
        self.ended.clear();
        self.retained.mark_committed();
    }

    /// Reads what [`Broker::write_changes`] or [`Broker::write_all`] wrote. `written`: when,
    /// on a clock that counts from the snapshot.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are something else, or do not follow what was read before.
    pub fn read(&mut self, reader: &mut Reader<'_>, written: ProcTime) -> Result<(), Damaged> {
        match reader.u8()? {
            0 => {}
            1 => *self = Broker::new(self.limits),
            _ => return Err(Damaged),
        }
        let mut numbers = Vec::new();
        for _ in 0..reader.u64()? {
            let number = MessageNo(reader.u64()?);
            let (message, expiry) = read_message(reader, written)?;
            self.messages.put(number, Arc::new(message), expiry);
            numbers.push(number);
        }
        for _ in 0..reader.u64()? {
            let number = SessionNo(reader.u64()?);
            if !self.sessions.contains_key(&number) {
                return Err(Damaged);
            }
            self.forget(number);
        }
        for _ in 0..reader.u64()? {
            self.read_session(reader, written)?;
        }
        for _ in 0..reader.u64()? {
            match reader.u8()? {
                0 => self.retained.remove(reader.str()?),
                1 => {
                    let (message, expiry) = read_message(reader, written)?;
                    self.retained.put(Retained { message: Arc::new(message), expiry, is_stored: true });
                }
                _ => return Err(Damaged),
            }
        }
        for number in numbers {
            self.messages.drop_unused(number);
        }
        self.forget_changes();
        for session in self.sessions.values_mut() {
            session.outgoing.mark_committed();
        }
        Ok(())
    }

    /// All has been read; time goes on from `written` at `now`. Nobody is connected: sessions
    /// whose client was have their whole expiry from now on, the others what was left.
    pub fn after_restore(&mut self, now: Now, written: ProcTime) {
        self.now = now;
        self.messages.shift(written, now);
        self.retained.shift(written, now);
        let numbers: Vec<_> = self.sessions.keys().copied().collect();
        for number in numbers {
            let Some(session) = self.sessions.get_mut(&number) else { continue };
            let (was_online, until) = match session.presence {
                Presence::Offline { until, .. } => (false, now.proc + until.since(written)),
                Presence::Lost | Presence::Online { .. } => (true, now.proc + session.expiry()),
            };
            if session.outgoing.handle_lost() || was_online {
                session.changes.link = true;
                self.dirty.insert(number);
            }
            session.presence = Presence::Offline { until, will_at: None };
            self.set_due(number, Some(until));
        }
    }
}

fn write_retained(out: &mut Vec<u8>, kept: &Retained, now: ProcTime) {
    out.push(1);
    write_message(out, &kept.message, kept.expiry, now);
}
