//! Messages of a client at `QoS` 1 and 2: taken in once.

use super::packet::{Farewell, Publish, Qos, ToClient};
use super::session::SessionNo;
use super::{Broker, INBOUND_V311, Link};
use crate::engine::redelivery::fingerprint;
use crate::model::limits::INBOUND_MAX;

/// What a PUBLISH is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// To be taken in.
    New,
    /// Taken in before: to be counted and acknowledged again, nothing else.
    Known,
    /// Of a connection that is over, or has to go because it exceeds its window: neither to be
    /// taken in nor acknowledged. The client sends it again on its next connection.
    Refused,
}

impl Broker {
    /// Before a PUBLISH does anything: whether it was taken in before. If not, it counts as
    /// taken in from here.
    ///
    /// At `QoS` 1, a message is a redelivery when it has DUP and the last message that was taken
    /// in under its packet id has the same topic and payload. That is remembered of the last
    /// [`BrokerLimits::in_flight`] messages of the session. One that ends with its connection
    /// needs it, too: some clients send again whatever is not acknowledged within a second.
    ///
    /// - Acknowledgements go out in the order in which messages came. So a client that misses
    ///   one misses all behind it, and what it sends again are the newest of its messages, as
    ///   many as it has in flight at most. MQTT 5 tells it how many that may be. One of 3.1.1
    ///   that is not told, and has more in flight, is read no further; but what it has sent
    ///   beyond, and was taken in while acknowledgements were on their way to a dead connection,
    ///   may be taken in twice. So may be what a client keeps for later and sends again only
    ///   after that many others.
    /// - Without DUP it is a new message, however alike, and the client has forgotten the one
    ///   before under its packet id. It takes that one's place.
    /// - With DUP and another content it is new, too: the acknowledgement of the one before was
    ///   seen, and the first sending of this one was lost.
    /// - With DUP and the same content after the acknowledgement was seen, a message whose first
    ///   sending was lost cannot be told from a redelivery, and is lost. It takes a client that
    ///   uses a packet id again within its window and says nothing new under it: of values that
    ///   bring their time or a number there are no two alike.
    /// - A redelivery does not count as newer than what it repeats: what follows it was sent
    ///   later, and is sent again later.
    ///
    /// At `QoS` 2, what decides is the packet id alone, until the client releases it: after
    /// that, the same id with DUP is a new message whose first sending was lost.
    ///
    /// [`BrokerLimits::in_flight`]: super::limits::BrokerLimits::in_flight
    pub fn take_publish(&mut self, connection: u32, publish: &Publish<'_>) -> Seen {
        let Some(Link { session: number, is_v5, .. }) = self.links.get(&connection).copied() else {
            return Seen::Refused;
        };
        let Some(session) = self.sessions.get_mut(&number) else { return Seen::Refused };
        let Some(packet) = publish.packet else { return Seen::New };
        match publish.qos {
            Qos::AtMostOnce => return Seen::New,
            Qos::AtLeastOnce => {
                let fingerprint = fingerprint(publish.topic, publish.payload);
                if publish.dup && session.is_remembered(packet, fingerprint) {
                    return Seen::Known;
                }
                session.remember(packet, fingerprint, self.limits.in_flight);
            }
            Qos::ExactlyOnce if session.inbound.contains(&packet) => return Seen::Known,
            Qos::ExactlyOnce => {
                let in_flight = usize::from(self.limits.in_flight);
                let has_room = !is_v5 && self.inbound < INBOUND_MAX;
                let max = if has_room { in_flight.max(INBOUND_V311) } else { in_flight };
                if session.inbound.len() >= max {
                    self.expel(self.now, connection, Farewell::QuotaExceeded);
                    return Seen::Refused;
                }
                session.inbound.insert(packet);
                self.inbound += 1;
                if session.is_durable() {
                    session.changes.inbound.insert(packet);
                }
            }
        }
        if session.is_durable() {
            self.dirty.insert(number);
        }
        Seen::New
    }

    /// PUBCOMP says that the packet id is free, so it waits until that is durable.
    pub(super) fn handle_pubrel(&mut self, connection: u32, number: SessionNo, packet: u16) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        let found = session.inbound.remove(&packet);
        self.inbound -= usize::from(found);
        let durable = session.is_durable();
        if found && durable {
            session.changes.inbound.insert(packet);
            self.dirty.insert(number);
        }
        let wait = durable && session.changes.inbound.contains(&packet);
        self.send(connection, ToClient::PubComp { packet, found }, wait);
    }
}
