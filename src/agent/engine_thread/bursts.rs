//! Messages from the inbox into the engine, and the room they took back to the senders.

use crate::agent::inbox::{Burst, ClientBurst};
use crate::engine::step::{DeliveryTag, Event, Message};
use crate::model::limits::{COMMIT_MESSAGES_MAX, INBOX_BYTES_MAX};
use crate::model::time::Now;

use super::{Engine, EngineThread};

impl<E: Engine> EngineThread<E> {
    pub(super) fn handle_burst(&mut self, now: Now, burst: Burst) -> usize {
        let mut ackable = 0;
        for arrival in &burst.messages {
            let tag = arrival.packet.map(|packet| DeliveryTag { connection: burst.connection, packet });
            ackable += u64::from(tag.is_some());
            let message = Message {
                topic: &arrival.topic,
                payload: &arrival.payload,
                retain: arrival.retain,
                dup: arrival.dup,
                tag,
            };
            self.engine.handle(now, Event::Message(message));
        }
        self.liveness.handle_arrivals(now.proc, ackable);
        let taken = burst.messages.len();
        self.held_room += self.inbox.free(burst);
        self.give_room_back();
        taken
    }

    pub(super) fn handle_client_burst(&mut self, now: Now, burst: ClientBurst) -> usize {
        let connection = burst.connection;
        let before = self.engine.unacknowledged();
        for packet in burst.packets.as_slice() {
            self.engine.handle(now, Event::Client { connection, event: packet.event() });
            if self.engine.tell_early(&mut |effect| self.routes.perform(effect)) {
                self.routes.ring();
            }
        }
        let ackable = self.engine.unacknowledged().saturating_sub(before);
        self.liveness.handle_client_arrivals(now.proc, ackable as u64);
        let taken = burst.packets.as_slice().len();
        self.held_room += self.inbox.free_client(burst);
        // Bursts of clients are small and many: each of these locks what the senders lock, too.
        if self.held_room >= INBOX_BYTES_MAX / 8 {
            self.give_room_back();
        }
        taken
    }

    /// While the store takes nothing, what is taken in stays unacknowledged, and
    /// the inbox stays full: the bound of both together is what a broker can make
    /// us hold, and below what is remembered of redeliveries.
    pub(super) fn give_room_back(&mut self) {
        if self.held_room > 0 && self.engine.unacknowledged() < COMMIT_MESSAGES_MAX {
            self.inbox.give_back(core::mem::take(&mut self.held_room));
        }
    }
}
