//! Commits and crashes.

use super::super::*;
use super::Model;
use super::client::{Client, In};

impl Model {
    /// A page, or a snapshot and no pages before it.
    pub(super) fn commit(&mut self, whole: bool) {
        self.reconcile(&[], true);
        let mut bytes = Vec::new();
        if whole {
            bytes = self.world.whole();
            self.parts.clear();
        } else {
            self.world.broker.write_changes(self.world.now(), &mut bytes);
        }
        self.parts.push((self.world.millis - self.lost_millis, bytes));
        self.committed_at = self.world.millis;
        self.stored = self.restored();
        assert_eq!(self.stored.whole(), self.world.whole(), "read back, it is the same");
        self.world.commit();
        self.durable = self.books.clone();
        for (connection, packet) in core::mem::take(&mut self.acks) {
            let client = &mut self.clients[self.connections[connection as usize]];
            if client.connection == Some(connection) {
                client.inbox.push_back(In::Ack(packet));
            }
        }
    }

    fn restored(&self) -> World {
        let mut broker = Broker::new(self.world.broker.limits);
        for (written, part) in &self.parts {
            let mut reader = Reader::new(part);
            broker.read(&mut reader, ProcTime::from_millis(*written)).expect("what was written");
            assert!(reader.is_empty());
        }
        World { broker, millis: self.world.millis - self.lost_millis }
    }

    /// The agent dies, and starts again with what is durable.
    pub(super) fn crash(&mut self) {
        let written = self.parts.last().map_or(0, |(written, _)| *written);
        self.world.broker = self.restored().broker;
        self.lost_millis = self.world.millis - written;
        self.world.broker.after_restore(self.world.now(), ProcTime::from_millis(written));
        self.books = self.durable.clone();
        self.books.restart(self.world.millis, self.committed_at);
        self.maybe_sent_below = self.books.instances;
        // What a session in memory got of what was durable before; the numbers are free again.
        self.sent.split_off(&self.books.instances);
        self.once.split_off(&self.books.instances);
        self.acks.clear();
        self.clients.iter_mut().for_each(Client::cut);
        // It has no memory of connections either; but their numbers are not used again.
        self.window.clear();
        self.world.pass(0);
        let wills = self.books.pass(self.world.millis);
        self.expect_wills(wills);
    }
}
