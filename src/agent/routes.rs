//! Where effects go: the present connections, as the engine thread sees them.
//!
//! Nothing here waits. An acknowledgement of an older connection and a batch
//! without a connection have nowhere to go and are dropped, which is right: the
//! broker delivers the message again, the engine publishes the batch again. A
//! queue that is full although it has room for everything the protocol allows
//! means that the connection is out of order: it is given up, and the task that
//! serves it starts a new one.

use std::sync::Arc;

use flume::{Sender, TrySendError};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tracing::warn;

use crate::engine::broker::packet::{Message, Qos};
use crate::engine::step::{Batch, Command, DeliveryTag, Effect, LocalRecord};

use super::inbox::Outbound;
use super::mqtt::listener::exchange::Exchange;
use super::mqtt::listener::outbox::{ClientOutbox, NotTaken, ToSocket};
use super::replays::Replays;

/// The present connections.
#[derive(Default)]
pub struct Routes {
    devices: Option<Devices>,
    uplink: Option<Sender<Outbound>>,
    local: Option<Sender<LocalRecord>>,
    /// Connections of the listener.
    clients: HashMap<u32, ClientOutbox, FixedState>,
    /// By which they are handed what they are told.
    exchange: Option<Arc<Exchange>>,
    own: Own,
    /// Replays that are not durable yet.
    pub(super) replays: Replays,
    acks: u64,
    local_dropped: u64,
    commands_dropped: u64,
    clients_dropped: u64,
}

/// What the agent publishes to the listener's clients.
#[derive(Default)]
struct Own {
    /// Where there is a listener: whether results there are retained.
    retain: Option<bool>,
    /// There is no device broker.
    alone: bool,
    waiting: Vec<Message>,
}

/// The connection to the device broker.
struct Devices {
    connection: u32,
    acks: Sender<u16>,
    commands: Sender<Command>,
}

impl Routes {
    /// Results and commands go to the listener's clients, too; `alone`: to nobody else.
    pub fn set_listener(&mut self, retain: bool, alone: bool) {
        self.own = Own { retain: Some(retain), alone, waiting: Vec::new() };
    }

    /// A connection of the listener.
    pub fn add_client(&mut self, connection: u32, outbox: ClientOutbox) {
        self.exchange.get_or_insert_with(|| outbox.exchange());
        self.clients.insert(connection, outbox);
    }

    /// It is over.
    pub fn remove_client(&mut self, connection: u32) {
        self.clients.remove(&connection);
    }

    /// All of them are over.
    pub fn clear_clients(&mut self) {
        self.clients.clear();
    }

    /// Lets the listener's clients have what they were told since the last call.
    pub fn ring(&self) {
        if let Some(exchange) = &self.exchange {
            exchange.ring();
        }
    }

    /// What the listener's clients are to be told by the agent itself, since the last call.
    pub fn take_own(&mut self) -> Vec<Message> {
        core::mem::take(&mut self.own.waiting)
    }

    /// Messages at `QoS` 0 for which clients read too slowly, since the last call.
    pub fn take_clients_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.clients_dropped)
    }

    fn tell(&mut self, connection: u32, what: ToSocket) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        match client.send(what) {
            Ok(()) => {}
            Err(NotTaken::Dropped) => self.clients_dropped += 1,
            // The connection sees the end of its queue, and its session keeps the rest.
            Err(NotTaken::Over) => self.remove_client(connection),
        }
    }

    /// True when nobody else is to have it.
    fn publish_own(&mut self, topic: &str, payload: &[u8], retain: bool) -> bool {
        if self.own.retain.is_some() {
            self.own.waiting.push(Message {
                topic: topic.into(),
                payload: payload.into(),
                qos: Qos::AtMostOnce,
                retain,
                expiry_secs: None,
                properties: None,
            });
        }
        self.own.alone
    }

    /// A connection to the device broker and its way back.
    pub fn set_devices(&mut self, connection: u32, acks: Sender<u16>, commands: Sender<Command>) {
        self.devices = Some(Devices { connection, acks, commands });
    }

    /// The device broker is gone, or nothing more will be acknowledged.
    pub fn clear_devices(&mut self) {
        self.devices = None;
    }

    /// An uplink connection.
    pub fn set_uplink(&mut self, outbound: Sender<Outbound>) {
        self.uplink = Some(outbound);
    }

    /// The uplink is gone.
    pub fn clear_uplink(&mut self) {
        self.uplink = None;
    }

    /// A connection for results on the device broker.
    pub fn set_local(&mut self, records: Sender<LocalRecord>) {
        self.local = Some(records);
    }

    /// There is none, or nothing more will be published.
    pub fn clear_local(&mut self) {
        self.local = None;
    }

    /// Results for the device broker that found no connection or no room.
    pub fn local_dropped(&self) -> u64 {
        self.local_dropped
    }

    /// Commands for the device broker that found no connection or no room.
    pub fn commands_dropped(&self) -> u64 {
        self.commands_dropped
    }

    /// Does what the engine allows.
    pub fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Ack(tag) => self.acknowledge(tag),
            Effect::Publish(batch) => self.publish(batch),
            Effect::PublishLocal(record) => self.publish_local(record),
            Effect::Replayed(replayed) => self.replays.handle_replayed(replayed),
            Effect::Command(command) => self.send_command(command),
            Effect::Tell { connection, what } => self.tell(connection, ToSocket::Tell(what)),
        }
    }

    /// Acknowledgements of the present connection since the last call.
    pub fn take_acks(&mut self) -> u64 {
        std::mem::take(&mut self.acks)
    }

    /// Hands a status document to the uplink; false when it could not be taken. `configuration`: how many
    /// there were before the one that it speaks of.
    pub fn send_status(&mut self, document: Vec<u8>, configuration: u32) -> bool {
        let status = Outbound::Status { document, configuration };
        self.uplink.as_ref().is_some_and(|uplink| uplink.try_send(status).is_ok())
    }

    /// Hands over the last document, after which the uplink disconnects.
    pub fn send_last(&mut self, document: Vec<u8>) {
        if let Some(uplink) = self.uplink.take() {
            // Full: the connection drops without DISCONNECT and the last will speaks.
            let _ = uplink.try_send(Outbound::Last(document));
        }
    }

    fn acknowledge(&mut self, tag: DeliveryTag) {
        if tag.is_of_client() {
            self.acks += 1;
            return self.tell(tag.connection, ToSocket::Ack(tag.packet));
        }
        let Some(Devices { connection, acks, .. }) = &self.devices else { return };
        if *connection != tag.connection {
            return;
        }
        self.acks += 1;
        if let Err(TrySendError::Full(packet)) = acks.try_send(tag.packet) {
            warn!(connection, packet, "more acknowledgements than packet ids: giving the connection up");
            self.devices = None;
        }
    }

    /// Full: whoever asked for it asks again.
    fn send_command(&mut self, command: Command) {
        if self.publish_own(&command.topic, &command.payload, false) {
            return;
        }
        if self.devices.as_ref().is_none_or(|devices| devices.commands.try_send(command).is_err()) {
            self.commands_dropped += 1;
        }
    }

    /// Full: whoever listens is slow, and the newest is not worth a connection.
    fn publish_local(&mut self, record: LocalRecord) {
        if self.publish_own(&record.topic, &record.payload, self.own.retain == Some(true)) {
            return;
        }
        if self.local.as_ref().is_none_or(|local| local.try_send(record).is_err()) {
            self.local_dropped += 1;
        }
    }

    fn publish(&mut self, batch: Batch) {
        let Some(uplink) = &self.uplink else { return };
        if let Err(TrySendError::Full(_)) = uplink.try_send(Outbound::Batch(batch)) {
            warn!("more batches than the uplink window: giving the connection up");
            self.uplink = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::step::BatchId;

    use super::*;

    fn ack(connection: u32, packet: u16) -> Effect {
        Effect::Ack(DeliveryTag { connection, packet })
    }

    fn batch(id: u64) -> Effect {
        Effect::Publish(Batch::new(BatchId(id), "", ""))
    }

    #[test]
    fn f36_an_acknowledgement_of_an_older_connection_goes_nowhere() {
        let mut routes = Routes::default();
        routes.perform(ack(1, 7));
        let (acks, received) = flume::bounded(8);
        routes.set_devices(2, acks, flume::bounded(1).0);
        routes.perform(ack(1, 7));
        routes.perform(ack(2, 8));
        assert_eq!(received.drain().collect::<Vec<_>>(), [8]);
        assert_eq!(routes.take_acks(), 1);
        assert_eq!(routes.take_acks(), 0);
    }

    #[test]
    fn a_full_queue_gives_the_connection_up_instead_of_waiting() {
        let mut routes = Routes::default();
        let (outbound, received) = flume::bounded(1);
        routes.set_uplink(outbound);
        routes.perform(batch(1));
        assert!(!routes.send_status(Vec::new(), 0), "a status can wait");
        routes.perform(batch(2));
        assert!(matches!(received.try_recv(), Ok(Outbound::Batch(batch)) if batch.id == BatchId(1)));
        assert!(received.is_disconnected());

        let (acks, received) = flume::bounded(1);
        routes.set_devices(1, acks, flume::bounded(1).0);
        routes.perform(ack(1, 1));
        routes.perform(ack(1, 2));
        assert_eq!(received.recv(), Ok(1));
        assert!(received.is_disconnected());
    }

    #[test]
    fn a_command_without_a_connection_or_room_is_dropped_and_counted() {
        let command = |topic: &str| Effect::Command(Command { topic: topic.to_owned(), payload: Vec::new() });
        let mut routes = Routes::default();
        routes.perform(command("early"));
        let ((acks, _acks), (commands, received)) = (flume::bounded(1), flume::bounded(1));
        routes.set_devices(1, acks, commands);
        routes.perform(command("sent"));
        routes.perform(command("too many"));
        assert_eq!(received.drain().map(|command| command.topic).collect::<Vec<_>>(), ["sent"]);
        assert_eq!(routes.commands_dropped(), 2);
        routes.perform(ack(1, 1));
        assert_eq!(routes.take_acks(), 1, "the connection goes on");
    }
}
