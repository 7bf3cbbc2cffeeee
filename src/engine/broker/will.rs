//! Last wills: what a client has others told when it vanishes.

use std::sync::Arc;

use crate::model::time::Now;

use super::Broker;
use super::packet::Message;
use super::session::SessionNo;

impl Broker {
    /// Publishes the will of a session that goes on.
    pub(super) fn publish_will(&mut self, now: Now, number: SessionNo) {
        let will = self.sessions.get_mut(&number).and_then(|session| session.will.take());
        if let Some(will) = will {
            self.announce(now, Some(number), will.message);
        }
    }

    /// Publishes a will of `from`, or of a session that is over. Where that sends another client
    /// away, the will of that one is next.
    pub(super) fn announce(&mut self, now: Now, from: Option<SessionNo>, message: Message) {
        self.announcements.push_back((from, message));
        if core::mem::replace(&mut self.is_announcing, true) {
            return;
        }
        while let Some((from, message)) = self.announcements.pop_front() {
            self.counters.wills_published += 1;
            let message = Arc::new(message);
            if self.find(from, &message.topic) && self.relieve_found(now, &message) {
                self.find(from, &message.topic);
            }
            self.pass_on(now, &message);
            self.wills.push(message);
        }
        self.is_announcing = false;
    }
}
