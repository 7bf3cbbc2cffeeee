//! When all queues together are full: who has to make way.
//!
//! The session whose queue takes the most gives up its oldest messages, until there is room for
//! the next one. Else one client that does not read, or is away, would keep the messages of all
//! others out. What is sent and not acknowledged cannot be given up: a client whose queue
//! consists of nothing else has to go when others need the room, and then its session gives that
//! up, too.
//!
//! Never in the middle of passing a message on: a client that goes may have a will, which is
//! passed on itself.

use crate::model::time::Now;

use super::Broker;
use super::messages::size_of;
use super::outgoing::ENTRY_BYTES;
use super::packet::{Farewell, Message, Qos};
use super::session::SessionNo;

impl Broker {
    /// Makes room for a message in the queues of those that were found. True: they are to be
    /// found again, some may be gone.
    pub(super) fn relieve_found(&mut self, now: Now, message: &Message) -> bool {
        let receivers = self.found.plain.len() + self.found.shared.len();
        let needed = size_of(message) + receivers * ENTRY_BYTES;
        let mut all = self.found.plain.iter().chain(&self.found.shared).map(|found| found.session);
        let only = all.next().filter(|first| all.all(|other| other == *first));
        message.qos > Qos::AtMostOnce && receivers > 0 && self.relieve(now, needed, only)
    }

    /// Makes room for so many bytes more, as far as there can be; `only`: nobody but this session
    /// needs it. False: there was room.
    pub(super) fn relieve(&mut self, now: Now, needed: usize, only: Option<SessionNo>) -> bool {
        let was_full = self.is_full(needed);
        while needed <= self.limits.queue_bytes
            && self.is_full(needed)
            && let Some(greediest) = self.greediest()
            && self.make_way(now, greediest, needed, only == Some(greediest))
        {}
        was_full
    }

    fn is_full(&self, needed: usize) -> bool {
        self.messages.bytes() + needed > self.limits.queue_bytes
    }

    fn greediest(&self) -> Option<SessionNo> {
        let queues = self.sessions.iter().map(|(number, session)| (session.outgoing.bytes(), *number));
        queues.max().filter(|(bytes, _)| *bytes > 0).map(|(_, number)| number)
    }

    /// Down to half of what its queue takes, if need be: then another one may be the greediest.
    /// False: that is no use.
    fn make_way(&mut self, now: Now, number: SessionNo, needed: usize, for_itself: bool) -> bool {
        let half = self.sessions.get(&number).map_or(0, |session| session.outgoing.bytes() / 2);
        while self.is_full(needed)
            && let Some(session) = self.sessions.get(&number)
            && session.outgoing.bytes() > half
        {
            match (session.outgoing.oldest_unsent(), session.connection()) {
                (None, Some(_)) if for_itself => return false,
                (None, Some(connection)) => self.expel(now, connection, Farewell::QuotaExceeded),
                (oldest, _) => {
                    self.counters.dropped_queue_full += 1;
                    self.remove_entry(number, oldest.unwrap_or(0));
                }
            }
        }
        true
    }
}
