//! Batches from the outbox to the cloud's broker, answers back.
//!
//! A clean session: the outbox is the only truth. What was not acknowledged on
//! this connection is published again on the next, because the engine hears
//! `UplinkDown`; packet ids are given out here, so the map from packet id to
//! batch is exact and dies with the connection. So does the channel of batches:
//! one of an older connection has nowhere to go.
//!
//! * **Window**: at most `UPLINK_WINDOW` batches are unacknowledged, or what the broker
//!   takes at a time (MQTT 5, receive maximum); the engine hands out no more, and the channel
//!   has room for exactly those.
//! * **Refused**: a reason code in the answer, or a batch above the broker's packet limit, goes
//!   to the engine. With MQTT 3.1.1 a broker can only close the connection; the engine hears
//!   that too.
//! * **Stuck peer**: connected, but the oldest publish unacknowledged for 30 s:
//!   the connection is given up, whatever else the broker answers: pings, or publishes that
//!   we do not know.
//! * **Status**: retained on `<prefix>/<gw>/status`; the last will says
//!   `offline` when we vanish, the engine thread's last document when we stop.

use flume::Receiver;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::agent::changes::changed;
use crate::agent::clock::{SystemClock, sleep};
use crate::agent::inbox::{Closed, InboxSender, Input, Outbound};
use crate::agent::mqtt::connection::{Dialer, Link, LinkError, Purpose};
use crate::agent::mqtt::in_flight::InFlight;
use crate::agent::mqtt::keep_alive::{Due, KeepAlive};
use crate::agent::mqtt::packet::{ConnAck, FromBroker, Outgoing, ToBroker};
use crate::agent::mqtt::reason::{NO_SUBSCRIBERS, Reason};
use crate::agent::mqtt::retry::Retry;
use crate::config::boot::{BrokerSpec, Protocol};
use crate::engine::step::{Batch, BatchId, Refusal, UplinkTerms};
use crate::model::limits::UPLINK_WINDOW;
use crate::model::time::{ProcTime, Span};

use super::destination::{Destination, StatusAcked};
use super::outgoing;

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
    /// How long a publish may be unacknowledged: [`ACK_MAX`], unless a test is in a hurry.
    pub ack_max: Span,
    /// Told which status was acknowledged, and where.
    pub acked: Option<watch::Sender<StatusAcked>>,
}

/// Why one connection ended.
enum End {
    /// A new one is made after a wait.
    Lost(LinkError),
    /// There is another broker from now on.
    Moved,
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
pub async fn run(spec: UplinkSpec, inbox: InboxSender, clock: SystemClock, stop: watch::Receiver<bool>) {
    let (_stays, destination) = watch::channel(Destination { number: 0, broker: spec.broker.clone() });
    run_towards(spec, destination, inbox, clock, stop).await;
}

/// As [`run`], to whichever broker `destination` names: each time it names another one, the connection to that of
/// before ends.
pub async fn run_towards(
    mut spec: UplinkSpec,
    mut destination: watch::Receiver<Destination>,
    inbox: InboxSender,
    clock: SystemClock,
    mut stop: watch::Receiver<bool>,
) {
    while run_to_one(&mut spec, &mut destination, &inbox, clock, &mut stop).await {}
}

/// True: there is another one.
async fn run_to_one(
    spec: &mut UplinkSpec,
    destination: &mut watch::Receiver<Destination>,
    inbox: &InboxSender,
    clock: SystemClock,
    stop: &mut watch::Receiver<bool>,
) -> bool {
    let Destination { number, broker } = destination.borrow_and_update().clone();
    spec.broker = broker;
    let spec = &*spec;
    let purpose = Purpose::CleanSession { will: Some((spec.status_topic.clone(), spec.will.clone())) };
    let mut dialer = Dialer::new(spec.broker.clone(), purpose);
    let mut retry = Retry::new(&spec.broker, spec.retry_max, "no uplink: results are kept");
    loop {
        let connected = tokio::select! {
            connected = connect(spec, number, destination.clone(), &mut dialer, inbox, clock, &mut retry) => connected,
            _ = stop.wait_for(|stop| *stop) => return false,
            () = changed(destination) => return true,
        };
        let (end, blames_a_batch) = match connected {
            Ok(mut session) => {
                info!(broker = %spec.broker.host, port = spec.broker.port, "uplink connected");
                let end = session.run().await;
                let blames = matches!(&end, End::Lost(error) if error.blames_a_message());
                (end, blames && session.in_flight.holds(|sent| matches!(sent, Sent::Batch(_))))
            }
            Err(end) => (end, false),
        };
        let (reason, wait) = match end {
            End::Lost(error) => {
                let reason = error.to_string();
                let wait = retry.handle_down(clock.proc(), &reason);
                (reason, Some(wait))
            }
            End::Moved => ("going over to another broker".to_owned(), None),
            End::Stopped | End::Closed => return false,
        };
        if inbox.send(Input::UplinkDown { reason, blames_a_batch }).await.is_err() {
            return false;
        }
        let Some(wait) = wait else { return true };
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return false,
            () = changed(destination) => return true,
        }
    }
}

async fn connect<'a>(
    spec: &'a UplinkSpec,
    number: u32,
    destination: watch::Receiver<Destination>,
    dialer: &mut Dialer,
    inbox: &'a InboxSender,
    clock: SystemClock,
    retry: &mut Retry,
) -> Result<Session<'a>, End> {
    let (link, ConnAck { terms: broker, .. }) = dialer.connect().await?;
    if broker.no_qos1 {
        let reason = "the broker takes messages at QoS 0 only: it would acknowledge nothing";
        return Err(LinkError::Broken(reason.into()).into());
    }
    let now = clock.proc();
    retry.handle_up(now);
    let (outbound_in, outbound) = flume::bounded(OUTBOUND_LEN);
    let terms = outgoing::terms(&broker, outgoing::data_topic_bytes(spec.status_topic.len()));
    let said = (spec.broker.protocol == Protocol::V5).then_some(terms);
    let notice = dialer.notice();
    inbox.send(Input::UplinkUp { outbound: outbound_in, terms: said, notice: notice.clone() }).await?;
    let wanted = broker.keep_alive_secs.filter(|secs| *secs > 0).map(|secs| Span::from_secs(secs.into()));
    let keep_alive = KeepAlive::new(now, wanted.unwrap_or(spec.broker.keep_alive).min(spec.broker.keep_alive));
    let room = broker.receive_max.map_or(OUTBOUND_LEN, |max| OUTBOUND_LEN.min(max.into()));
    let in_flight = InFlight::new(room, spec.ack_max);
    Ok(Session {
        spec,
        inbox,
        clock,
        link,
        outbound,
        keep_alive,
        in_flight,
        terms,
        retain: !broker.no_retain,
        closing: false,
        told: notice.clone(),
        notice,
        status_told: false,
        number,
        destination,
    })
}

/// One connection.
struct Session<'a> {
    spec: &'a UplinkSpec,
    inbox: &'a InboxSender,
    clock: SystemClock,
    link: Link,
    outbound: Receiver<Outbound>,
    keep_alive: KeepAlive,
    in_flight: InFlight<Sent>,
    terms: UplinkTerms,
    /// Whether the broker keeps the status.
    retain: bool,
    /// The last document is on its way: nothing more comes from the engine thread.
    closing: bool,
    /// What is wrong with the connection itself; empty: nothing.
    notice: String,
    /// What the health says of it.
    told: String,
    /// The log knows that the status is not taken.
    status_told: bool,
    /// How many brokers there were before this one.
    number: u32,
    destination: watch::Receiver<Destination>,
}

/// What a packet id stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Batch(BatchId),
    /// Of this configuration.
    Status(u32),
    Last,
}

/// What woke the session.
enum Wake {
    Packet(FromBroker),
    Outbound(Outbound),
    /// The engine thread gave this connection up.
    Abandoned,
    /// There is another broker.
    Moved,
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
                // No DISCONNECT: the last will says there that we are gone.
                Ok(Wake::Moved) => Err(End::Moved),
                Ok(Wake::Timer) => self.handle_timers().await,
                Err(error) => Err(End::Lost(error)),
            };
            match turn {
                Ok(()) => {}
                Err(End::Lost(error)) => return self.hear_out(error).await,
                Err(end) => return end,
            }
        }
    }

    /// What the broker sent before the end still counts: answers to batches, and a DISCONNECT
    /// that says why writing does not work any more.
    async fn hear_out(&mut self, error: LinkError) -> End {
        if !matches!(error, LinkError::Closed) {
            return End::Lost(error);
        }
        match self.link.read_ready() {
            Ok(Some(packet)) => match self.handle_packets(packet).await {
                Ok(()) => End::Lost(error),
                Err(end) => end,
            },
            Ok(None) | Err(LinkError::Broken(_)) => End::Lost(error),
            Err(reason) => End::Lost(reason),
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
            () = changed(&mut self.destination), if !self.closing => Ok(Wake::Moved),
            () = sleep(wait) => Ok(Wake::Timer),
        }
    }

    async fn handle_packets(&mut self, first: FromBroker) -> Result<(), End> {
        self.keep_alive.handle_received(self.clock.proc());
        let mut next = Some(first);
        while let Some(packet) = next {
            if let FromBroker::PubAck { packet, reason } = packet {
                self.handle_answer(packet, &reason).await?;
            }
            next = self.link.read_ready()?;
        }
        Ok(())
    }

    async fn handle_answer(&mut self, packet: u16, reason: &Reason) -> Result<(), End> {
        match self.in_flight.answer(packet) {
            Some(Sent::Batch(id)) => {
                let refusal = reason.refusal();
                let answer = refusal.map_or(Input::UplinkAcked(id), |refusal| Input::UplinkRefused(id, refusal));
                self.inbox.send(answer).await?;
                self.tell(reason, refusal).await
            }
            Some(Sent::Last) => {
                self.link.send([ToBroker::Disconnect]).await?;
                Err(End::Stopped)
            }
            Some(Sent::Status(configuration)) => {
                if let Some(acked) = self.spec.acked.as_ref().filter(|_| !reason.is_refusal()) {
                    acked.send_replace(StatusAcked { configuration, destination: self.number });
                }
                if reason.is_refusal() && !std::mem::replace(&mut self.status_told, true) {
                    warn!(topic = %self.spec.status_topic, %reason, "the cloud's broker does not take the status");
                }
                Ok(())
            }
            None => {
                debug!(packet, "acknowledgement of nothing");
                Ok(())
            }
        }
    }

    /// Connected, and yet results do not get there: whoever looks at the health sees it.
    async fn tell(&mut self, reason: &Reason, refusal: Option<Refusal>) -> Result<(), End> {
        let now = match refusal {
            None if reason.code == NO_SUBSCRIBERS => {
                "the broker takes batches that nobody has subscribed to: they may be gone".to_owned()
            }
            None => self.notice.clone(),
            // It is looked for and put aside, which is told there.
            Some(Refusal::Poison) => return Ok(()),
            Some(Refusal::NotNow) => format!("the broker does not take batches now: {reason}"),
        };
        if now == self.told {
            return Ok(());
        }
        if !now.is_empty() {
            warn!(code = reason.code, "{now}");
        }
        self.told.clone_from(&now);
        Ok(self.inbox.send(Input::UplinkNotice(now)).await?)
    }

    /// Takes what else is waiting with it: one flush for all.
    async fn publish(&mut self, first: Outbound) -> Result<(), End> {
        let now = self.clock.proc();
        let mut packets = Vec::new();
        let mut too_large = Vec::new();
        let mut next = Some(first);
        while let Some(item) = next {
            match self.packet(now, item) {
                Ok(Some(outgoing)) => packets.push(ToBroker::Publish(outgoing)),
                Ok(None) => {}
                Err(batch) => too_large.push(batch.id),
            }
            next = if self.in_flight.has_room() { self.outbound.try_recv().ok() } else { None };
        }
        for id in too_large {
            self.inbox.send(Input::UplinkRefused(id, Refusal::Poison)).await?;
        }
        if !packets.is_empty() {
            self.link.send(packets).await?;
            self.keep_alive.handle_sent(self.clock.proc());
        }
        Ok(())
    }

    /// `None`: the broker takes no status of this size. `Err`: no batch of this size.
    fn packet(&mut self, now: ProcTime, item: Outbound) -> Result<Option<Outgoing>, Batch> {
        let allowed = self.terms.payload_max;
        let (document, sent) = match item {
            Outbound::Batch(batch) if batch.payload.len() > allowed => {
                warn!(
                    bytes = batch.payload.len(),
                    allowed,
                    records = batch.records,
                    "a batch is larger than the broker takes"
                );
                return Err(batch);
            }
            Outbound::Batch(batch) => {
                let packet = self.in_flight.insert(now, Sent::Batch(batch.id));
                return Ok(Some(outgoing::batch(batch, packet)));
            }
            Outbound::Status { document, configuration } => (document, Sent::Status(configuration)),
            Outbound::Last(document) => {
                self.closing = true;
                // Whoever reads it then knows that we are gone, if not why.
                let short = document.len() > allowed;
                (if short { self.spec.will.clone() } else { document }, Sent::Last)
            }
        };
        if document.len() > allowed && matches!(sent, Sent::Status(_)) {
            if !std::mem::replace(&mut self.status_told, true) {
                warn!(bytes = document.len(), allowed, "the status is larger than the broker takes");
            }
            return Ok(None);
        }
        let packet = self.in_flight.insert(now, sent);
        Ok(Some(outgoing::status(&self.spec.status_topic, document, self.retain, packet)))
    }

    async fn handle_timers(&mut self) -> Result<(), End> {
        let now = self.clock.proc();
        if self.in_flight.deadline() <= now {
            return Err(End::Lost(LinkError::Unresponsive));
        }
        match self.keep_alive.poll(now, true) {
            Due::Nothing => Ok(()),
            Due::Ping => Ok(self.link.send([ToBroker::PingReq]).await?),
            Due::Dead => Err(End::Lost(LinkError::Unresponsive)),
        }
    }
}
