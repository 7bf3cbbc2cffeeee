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

    /// Publishes a will of `from`, or of a session that is over.
    pub(super) fn announce(&mut self, now: Now, from: Option<SessionNo>, message: Message) {
        self.counters.wills_published += 1;
        let message = Arc::new(message);
        self.find(from, &message.topic);
        self.pass_on(now, &message);
        self.wills.push(message);
    }
}
