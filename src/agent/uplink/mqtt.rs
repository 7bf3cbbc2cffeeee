//! Batches from the outbox to the cloud's broker, acknowledgements back.
//!
//! A clean session: the outbox is the only truth. What was not acknowledged on
//! this connection is published again on the next, because the engine hears
//! `UplinkDown`; packet ids are given out here, so the map from packet id to
//! batch is exact and dies with the connection. So does the channel of batches:
//! one of an older connection has nowhere to go.
//!
//! * **Window**: at most `UPLINK_WINDOW` batches are unacknowledged; the engine
//!   hands out no more, and the channel has room for exactly those.
//! * **Stuck peer**: connected, but the oldest publish unacknowledged for 30 s:
//!   the connection is given up (a broker that answers pings and nothing else).
//! * **Status**: retained on `<prefix>/<gw>/status`; the last will says
//!   `offline` when we vanish, the engine thread's last document when we stop.

use std::collections::BTreeMap;

use bytes::Bytes;
use flume::Receiver;
use rumqttc::{Packet, Publish, QoS};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::agent::clock::{SystemClock, entropy, sleep};
use crate::agent::inbox::{Closed, InboxSender, Input, Outbound};
use crate::agent::mqtt::backoff::Backoff;
use crate::agent::mqtt::connection::{Link, LinkError, Purpose};
use crate::agent::mqtt::keep_alive::{Due, KeepAlive};
use crate::config::boot::BrokerSpec;
use crate::engine::step::BatchId;
use crate::model::limits::UPLINK_WINDOW;
use crate::model::time::{ProcTime, Span};

/// Batches and a few status documents.
const OUTBOUND_LEN: usize = UPLINK_WINDOW + 4;
/// A publish that is not acknowledged for this long ends the connection.
pub const ACK_MAX: Span = Span::from_secs(30);

/// Where to publish.
#[derive(Clone, Debug)]
pub struct UplinkSpec {
    /// The broker.
    pub broker: BrokerSpec,
    /// Topic of the retained status.
    pub status_topic: String,
    /// What the broker publishes there when we vanish.
    pub will: Vec<u8>,
    /// The longest wait between two attempts.
    pub retry_max: Span,
}

/// Why one connection ended.
enum End {
    /// A new one is made after a wait.
    Lost(LinkError),
    /// The last document is acknowledged.
    Stopped,
    /// The engine thread is gone.
    Closed,
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> End {
        End::Lost(error)
    }
}

impl From<Closed> for End {
    fn from(Closed: Closed) -> End {
        End::Closed
    }
}

/// Runs until the last document was delivered, or `stop` turns true while there
/// is no connection, or the engine thread is gone. Network trouble never ends it.
pub async fn run(spec: UplinkSpec, inbox: InboxSender, clock: SystemClock, mut stop: watch::Receiver<bool>) {
    let mut backoff = Backoff::new(&spec.broker.client_id, entropy(), spec.retry_max);
    let mut reported = String::new();
    loop {
        let end = tokio::select! {
            end = connect(&spec, &inbox, clock, &mut backoff) => end,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let end = match end {
            Ok(mut session) => {
                reported.clear();
                info!(broker = %spec.broker.host, port = spec.broker.port, "uplink connected");
                session.run().await
            }
            Err(end) => end,
        };
        let End::Lost(error) = end else { return };
        let reason = error.to_string();
        let wait = backoff.handle_down(clock.proc());
        if reason == reported {
            debug!(broker = %spec.broker.host, %reason, wait_ms = wait.as_millis(), "uplink still unavailable");
        } else {
            warn!(broker = %spec.broker.host, %reason, wait_ms = wait.as_millis(), "no uplink: results are kept");
            reported.clone_from(&reason);
        }
        if inbox.send(Input::UplinkDown { reason }).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn connect<'a>(
    spec: &'a UplinkSpec,
    inbox: &'a InboxSender,
    clock: SystemClock,
    backoff: &mut Backoff,
) -> Result<Session<'a>, End> {
    let purpose = Purpose::CleanSession { will_topic: spec.status_topic.clone(), will: spec.will.clone() };
    let (link, _nothing_to_resume) = Link::connect(&spec.broker, &purpose).await?;
    let now = clock.proc();
    backoff.handle_up(now);
    let (outbound_in, outbound) = flume::bounded(OUTBOUND_LEN);
    inbox.send(Input::UplinkUp { outbound: outbound_in }).await?;
    let keep_alive = KeepAlive::new(now, spec.broker.keep_alive);
    Ok(Session { spec, inbox, clock, link, outbound, keep_alive, in_flight: InFlight::default(), closing: false })
}

/// One connection.
struct Session<'a> {
    spec: &'a UplinkSpec,
    inbox: &'a InboxSender,
    clock: SystemClock,
    link: Link,
    outbound: Receiver<Outbound>,
    keep_alive: KeepAlive,
    in_flight: InFlight,
    /// The last document is on its way: nothing more comes from the engine thread.
    closing: bool,
}

/// What woke the session.
enum Wake {
    Packet(Packet),
    Outbound(Outbound),
    /// The engine thread gave this connection up.
    Abandoned,
    Timer,
}

impl Session<'_> {
    async fn run(&mut self) -> End {
        loop {
            let turn = match self.wake().await {
                Ok(Wake::Packet(packet)) => self.handle_packets(packet).await,
                Ok(Wake::Outbound(first)) => self.publish(first).await,
                // No DISCONNECT: it would cancel the last will.
                Ok(Wake::Abandoned) => Err(End::Lost(LinkError::Broken("given up by the engine thread".into()))),
                Ok(Wake::Timer) => self.handle_timers().await,
                Err(error) => Err(End::Lost(error)),
            };
            if let Err(end) = turn {
                return end;
            }
        }
    }

    /// Every future in here may be dropped half way: none holds anything.
    async fn wake(&mut self) -> Result<Wake, LinkError> {
        let timer = self.keep_alive.next_deadline().min(self.in_flight.deadline());
        let wait = timer.since(self.clock.proc());
        tokio::select! {
            packet = self.link.read() => Ok(Wake::Packet(packet?)),
            item = self.outbound.recv_async(), if self.in_flight.has_room() && !self.closing => {
                Ok(item.map_or(Wake::Abandoned, Wake::Outbound))
            }
            () = sleep(wait) => Ok(Wake::Timer),
        }
    }

    async fn handle_packets(&mut self, first: Packet) -> Result<(), End> {
        self.keep_alive.handle_received(self.clock.proc());
        let mut next = Some(first);
        while let Some(packet) = next {
            if let Packet::PubAck(ack) = packet {
                match self.in_flight.acknowledge(ack.pkid) {
                    Some(Sent::Batch(id)) => self.inbox.send(Input::UplinkAcked(id)).await?,
                    Some(Sent::Last) => {
                        self.link.send([Packet::Disconnect]).await?;
                        return Err(End::Stopped);
                    }
                    Some(Sent::Status) => {}
                    None => debug!(packet = ack.pkid, "acknowledgement of nothing"),
                }
            }
            next = self.link.read_ready()?;
        }
        Ok(())
    }

    /// Takes what else is waiting with it: one flush for all.
    async fn publish(&mut self, first: Outbound) -> Result<(), End> {
        let now = self.clock.proc();
        let mut packets = Vec::new();
        let mut next = Some(first);
        while let Some(item) = next {
            packets.push(self.packet(now, item));
            next = if self.in_flight.has_room() { self.outbound.try_recv().ok() } else { None };
        }
        self.link.send(packets).await?;
        self.keep_alive.handle_sent(self.clock.proc());
        Ok(())
    }

    fn packet(&mut self, now: ProcTime, item: Outbound) -> Packet {
        let (topic, payload, retain, sent) = match item {
            Outbound::Batch(batch) => (batch.topic, batch.payload, false, Sent::Batch(batch.id)),
            Outbound::Status(document) => (self.spec.status_topic.clone(), document, true, Sent::Status),
            Outbound::Last(document) => {
                self.closing = true;
                (self.spec.status_topic.clone(), document, true, Sent::Last)
            }
        };
        let mut publish = Publish::from_bytes(topic, QoS::AtLeastOnce, Bytes::from(payload));
        publish.retain = retain;
        publish.pkid = self.in_flight.insert(now, sent);
        Packet::Publish(publish)
    }

    async fn handle_timers(&mut self) -> Result<(), End> {
        let now = self.clock.proc();
        if self.in_flight.deadline() <= now {
            return Err(End::Lost(LinkError::Unresponsive));
        }
        match self.keep_alive.poll(now, true) {
            Due::Nothing => Ok(()),
            Due::Ping => Ok(self.link.send([Packet::PingReq]).await?),
            Due::Dead => Err(End::Lost(LinkError::Unresponsive)),
        }
    }
}

/// What a packet id stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Batch(BatchId),
    Status,
    Last,
}

/// Published and not acknowledged, by packet id. Ids go round all 65,535, so a
/// late acknowledgement cannot meet a new publish.
#[derive(Debug, Default)]
struct InFlight {
    sent: BTreeMap<u16, (ProcTime, Sent)>,
    last: u16,
}

impl InFlight {
    fn has_room(&self) -> bool {
        self.sent.len() < OUTBOUND_LEN
    }

    /// Only when there is room.
    fn insert(&mut self, now: ProcTime, sent: Sent) -> u16 {
        assert!(self.has_room(), "the caller looks first");
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.sent.contains_key(&self.last) {
                self.sent.insert(self.last, (now, sent));
                return self.last;
            }
        }
    }

    fn acknowledge(&mut self, packet: u16) -> Option<Sent> {
        self.sent.remove(&packet).map(|(_, sent)| sent)
    }

    /// When the oldest has waited too long; the end of time when there is none.
    fn deadline(&self) -> ProcTime {
        let oldest = self.sent.values().map(|(since, _)| *since).min();
        oldest.map_or(ProcTime::from_millis(u64::MAX), |since| since + ACK_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_ids_go_round_without_touching_what_is_in_flight() {
        let mut in_flight = InFlight::default();
        let now = ProcTime::from_millis(5);
        let first = in_flight.insert(now, Sent::Batch(BatchId(0)));
        assert_eq!(first, 1);
        for round in 1..=2 * u64::from(u16::MAX) {
            let id = in_flight.insert(now, Sent::Batch(BatchId(round)));
            assert_ne!(id, 0, "not a packet id");
            assert_ne!(id, first, "still in flight");
            assert_eq!(in_flight.acknowledge(id), Some(Sent::Batch(BatchId(round))));
        }
        assert_eq!(in_flight.acknowledge(first), Some(Sent::Batch(BatchId(0))));
        assert_eq!(in_flight.acknowledge(first), None, "acknowledged once");
    }

    #[test]
    fn the_oldest_publish_decides_when_the_peer_is_given_up() {
        let mut in_flight = InFlight::default();
        assert_eq!(in_flight.deadline(), ProcTime::from_millis(u64::MAX));
        let first = in_flight.insert(ProcTime::from_millis(1_000), Sent::Status);
        in_flight.insert(ProcTime::from_millis(3_000), Sent::Status);
        assert_eq!(in_flight.deadline(), ProcTime::from_millis(31_000));
        in_flight.acknowledge(first);
        assert_eq!(in_flight.deadline(), ProcTime::from_millis(33_000));
    }
}
