//! Connections come and go; sessions begin, go on and end.

use crate::model::time::{Now, ProcTime, Span};

use super::packet::{Connect, Farewell, ToClient};
use super::session::{Changes, Presence, Session, SessionNo};
use super::{Broker, Link};

impl Broker {
    pub(super) fn handle_connect(&mut self, now: Now, connection: u32, connect: &Connect) {
        if self.links.contains_key(&connection) {
            return;
        }
        let mut known = self.names.get(connect.client_id.as_str()).copied();
        let mut wait = false;
        if let Some(number) = known {
            let resumes = self.vacate(now, number, connect.clean_start);
            if !resumes {
                wait |= self.is_stored(number);
                self.end_with_will(now, number);
                known = None;
            }
        } else if !self.make_room(now) {
            self.counters.sessions_refused += 1;
            self.ready.push((connection, ToClient::NoRoom));
            return;
        }
        let session_present = known.is_some();
        let number = known.unwrap_or_else(|| self.begin(&connect.client_id));
        wait |= self.open(number, connection, connect, session_present);
        self.links.insert(
            connection,
            Link { session: number, is_v5: connect.is_v5, admitted: !wait, held: 0, held_publishes: 0 },
        );
        let answer = ToClient::ConnAck { session_present };
        if wait {
            self.touched.insert(number);
            self.send(connection, answer, true);
        } else {
            self.ready.push((connection, answer));
        }
        self.repeat_releases(number);
        self.deliver(number);
    }

    /// The connection says goodbye.
    pub(super) fn handle_disconnect(&mut self, now: Now, connection: u32, with_will: bool, expiry_secs: Option<u32>) {
        let Some(link) = self.links.get(&connection) else { return };
        let expiry = expiry_secs.map(|asked| self.bounded_expiry(asked));
        let Some(session) = self.sessions.get_mut(&link.session) else { return };
        if !with_will {
            session.will = None;
        }
        // One that was to end with its connection does.
        if let Some(expiry_secs) = expiry
            && session.is_durable()
        {
            if expiry_secs == 0 && !session.changes.whole {
                self.ended.insert(link.session);
            }
            session.expiry_secs = expiry_secs;
        }
        self.close(now, connection);
    }

    /// The connection is over.
    pub(super) fn close(&mut self, now: Now, connection: u32) {
        let Some(link) = self.links.remove(&connection) else { return };
        let number = link.session;
        self.catch_up.forget_answers(number);
        let Some(session) = self.sessions.get_mut(&number) else { return };
        session.outgoing.handle_gone();
        let until = now.proc + session.expiry();
        session.presence = Presence::Offline { until, will_at: None };
        if !session.is_durable() {
            return self.end_with_will(now, number);
        }
        let delay = session.will.as_ref().map(|will| Span::from_secs(u64::from(will.delay_secs)));
        let will_at = delay.filter(|delay| *delay > Span::ZERO).map(|delay| (now.proc + delay).min(until));
        session.presence = Presence::Offline { until, will_at };
        session.changes.link = true;
        self.dirty.insert(number);
        self.set_due(number, Some(will_at.unwrap_or(until)));
        if delay == Some(Span::ZERO) {
            self.publish_will(now, number);
        }
    }

    /// Sends a client away.
    pub(super) fn expel(&mut self, now: Now, connection: u32, why: Farewell) {
        self.say_farewell(connection, why);
        self.close(now, connection);
    }

    /// Does what is due: delayed wills, sessions whose time is over. Early calls are harmless.
    pub fn tick(&mut self, now: Now) {
        self.now = now;
        while let Some((at, number)) = self.deadlines.first().copied()
            && at <= now.proc
        {
            let Some(session) = self.sessions.get_mut(&number) else {
                self.deadlines.pop_first();
                continue;
            };
            match &mut session.presence {
                Presence::Offline { until, will_at } if *until > now.proc => {
                    *will_at = None;
                    let until = *until;
                    self.set_due(number, Some(until));
                    self.publish_will(now, number);
                }
                Presence::Offline { .. } => {
                    self.counters.sessions_expired += 1;
                    self.end_with_will(now, number);
                }
                Presence::Online { .. } | Presence::Lost => self.set_due(number, None),
            }
        }
    }

    /// The moment of the next [`Broker::tick`] that does something.
    pub fn next_deadline(&self) -> Option<ProcTime> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Another connection has the client id now. True when its session goes on.
    fn vacate(&mut self, now: Now, number: SessionNo, clean_start: bool) -> bool {
        let Some(session) = self.sessions.get_mut(&number) else { return false };
        let resumes = !clean_start && session.is_durable();
        // Nobody is told that a client has vanished that is back.
        let has_delay = session.will.as_ref().is_some_and(|will| will.delay_secs > 0);
        if resumes && has_delay {
            session.will = None;
        }
        if let Some(old) = session.connection() {
            self.counters.taken_over += 1;
            self.say_farewell(old, Farewell::TakenOver);
            self.close(now, old);
        }
        resumes && self.sessions.contains_key(&number)
    }

    fn say_farewell(&mut self, connection: u32, why: Farewell) {
        self.send(connection, ToClient::Disconnect(why), false);
    }

    /// One more session fits, if need be in place of the one that has been alone for longest.
    fn make_room(&mut self, now: Now) -> bool {
        while self.sessions.len() >= self.limits.sessions {
            let alone = |session: &Session| match session.presence {
                Presence::Offline { until, .. } => {
                    Some(session.expiry().as_millis().saturating_sub(until.since(now.proc).as_millis()))
                }
                Presence::Online { .. } | Presence::Lost => None,
            };
            let candidates = self.sessions.iter().filter_map(|(number, session)| Some((alone(session)?, *number)));
            let Some((_, number)) = candidates.max_by_key(|(alone, number)| (*alone, core::cmp::Reverse(*number)))
            else {
                return false;
            };
            self.counters.sessions_evicted += 1;
            self.end_with_will(now, number);
        }
        true
    }

    fn begin(&mut self, client_id: &str) -> SessionNo {
        let number = SessionNo(self.next_session);
        self.next_session += 1;
        self.sessions.insert(number, Session::new(client_id));
        self.names.insert(client_id.into(), number);
        number
    }

    /// Connects a session. True when what is stored about its existence has changed.
    fn open(&mut self, number: SessionNo, connection: u32, connect: &Connect, resumes: bool) -> bool {
        let expiry_secs = self.bounded_expiry(connect.session_expiry_secs);
        let window = usize::from(connect.receive_max.min(self.limits.in_flight).max(1));
        self.set_due(number, None);
        let Some(session) = self.sessions.get_mut(&number) else { return false };
        let was_stored = resumes && session.is_durable();
        session.expiry_secs = expiry_secs;
        session.presence = Presence::Online { connection, window };
        session.will.clone_from(&connect.will);
        if session.is_durable() {
            session.changes.link = true;
            session.changes.whole |= !was_stored;
            self.dirty.insert(number);
            return session.changes.whole;
        }
        if was_stored {
            // From now on it ends with its connection.
            if !session.changes.whole {
                self.ended.insert(number);
            }
            session.changes = Changes::default();
            self.dirty.remove(&number);
        }
        was_stored
    }

    fn bounded_expiry(&self, asked_secs: u32) -> u32 {
        let max = self.limits.session_expiry_max.as_millis() / 1_000;
        asked_secs.min(u32::try_from(max).unwrap_or(u32::MAX))
    }

    pub(super) fn set_due(&mut self, number: SessionNo, due: Option<ProcTime>) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        if let Some(old) = core::mem::replace(&mut session.due, due) {
            self.deadlines.remove(&(old, number));
        }
        if let Some(due) = due {
            self.deadlines.insert((due, number));
        }
    }

    fn is_stored(&self, number: SessionNo) -> bool {
        self.sessions.get(&number).is_some_and(|session| session.is_durable() && !session.changes.whole)
    }

    fn end_with_will(&mut self, now: Now, number: SessionNo) {
        let will = self.sessions.get_mut(&number).and_then(|session| session.will.take());
        if self.is_stored(number) {
            self.ended.insert(number);
        }
        self.forget(number);
        if let Some(will) = will {
            self.announce(now, None, will.message);
        }
    }

    /// Removes all traces of a session from memory.
    pub(super) fn forget(&mut self, number: SessionNo) {
        self.set_due(number, None);
        self.catch_up.forget_answers(number);
        let Some(session) = self.sessions.remove(&number) else { return };
        if let Some(connection) = session.connection() {
            self.links.remove(&connection);
        }
        self.names.remove(&session.client_id);
        self.inbound -= session.inbound.len();
        for filter in session.subscriptions.keys() {
            self.leave(filter, number);
        }
        for entry in session.outgoing.iter() {
            self.messages.release(entry.message, entry.own_bytes());
        }
        self.dirty.remove(&number);
        self.touched.remove(&number);
    }
}
