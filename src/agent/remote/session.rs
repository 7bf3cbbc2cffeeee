//! The connection that brings documents and commands, and takes what is said to them: one of its own, so that
//! nothing else of the agent has to be in order for it.
//!
//! A persistent session: commands that were sent while we were away arrive. A message is acknowledged when what it
//! asks for is done and durable, so that a crash in between makes it come again; the id of a request keeps it from
//! being done twice. While the steward is busy with as many as may wait, the socket is not read.

use bytes::Bytes;
use flume::{Receiver, Sender};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::agent::changes::changed;
use crate::agent::clock::{SystemClock, sleep};
use crate::agent::mqtt::backoff::WAIT_MAX;
use crate::agent::mqtt::connection::{Dialer, Link, LinkError, Purpose};
use crate::agent::mqtt::in_flight::InFlight;
use crate::agent::mqtt::keep_alive::{Due, KeepAlive};
use crate::agent::mqtt::packet::{AnswerTo, Arrived, FromBroker, Grant, Outgoing, Properties, ToBroker};
use crate::agent::mqtt::retry::Retry;
use crate::config::boot::BrokerSpec;
use crate::model::time::Span;

use super::reported::Origin;

/// Messages that wait for the steward.
pub(super) const HEARD_LEN: usize = 32;
/// Answers on their way.
const WINDOW: usize = 16;
const ANSWER_MAX: Span = Span::from_secs(30);

/// Something was sent to this gateway.
#[derive(Debug)]
pub(super) struct Heard {
    pub origin: Origin,
    /// What is to be acknowledged, once it is done.
    pub receipt: Option<Receipt>,
    pub what: What,
    pub payload: Bytes,
    /// It was said before this connection was there.
    pub retained: bool,
    /// Where its sender waits for an answer, if it said so.
    pub answer_to: Option<Box<AnswerTo>>,
}

/// A message of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Receipt {
    connection: u32,
    packet: u16,
}

/// What it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    Desired,
    Command(String),
}

/// What the steward says.
#[derive(Debug)]
pub(super) enum Said {
    Answer {
        topic: String,
        payload: Vec<u8>,
        correlation: Option<Bytes>,
    },
    /// The report of now, to be retained.
    Report(Bytes),
    /// What was asked for is done.
    Done(Receipt),
}

/// What a session is made of.
pub(super) struct Session {
    pub origin: Origin,
    /// `<prefix>/<gw>`.
    pub base: String,
    pub clock: SystemClock,
    pub broker: watch::Receiver<BrokerSpec>,
    /// The last report, for each new connection; empty: none yet.
    pub reported: watch::Receiver<Bytes>,
    pub said: Receiver<Said>,
    pub heard: Sender<Heard>,
}

enum End {
    Lost(LinkError),
    Moved,
    Over,
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> End {
        End::Lost(error)
    }
}

impl Session {
    /// Until the steward has nothing more to say. Network trouble never ends it.
    pub(super) async fn run(mut self) {
        let mut connection = 0;
        loop {
            let broker = self.broker.borrow_and_update().clone();
            let mut dialer = Dialer::new(broker.clone(), Purpose::PersistentSession);
            let mut retry = Retry::new(&broker, WAIT_MAX, "no connection for configuration and commands");
            loop {
                connection += 1;
                let mut link = tokio::select! {
                    link = dialer.connect() => link,
                    () = is_over(&self.said) => return,
                    () = changed(&mut self.broker) => break,
                };
                let end = match &mut link {
                    Ok((link, _)) => {
                        retry.handle_up(self.clock.proc());
                        info!(broker = %broker.host, port = broker.port, "configuration and commands can be sent");
                        Connection::new(&mut self, link, &broker, connection).run().await
                    }
                    Err(_) => End::Moved,
                };
                let error = match (link, end) {
                    (Err(error), _) | (Ok(_), End::Lost(error)) => error,
                    (Ok(_), End::Moved) => break,
                    (Ok(_), End::Over) => return,
                };
                let wait = retry.handle_down(self.clock.proc(), &error.to_string());
                tokio::select! {
                    () = sleep(wait) => {}
                    () = is_over(&self.said) => return,
                    () = changed(&mut self.broker) => break,
                }
            }
        }
    }
}

/// While there is no connection, what is said is dropped: whoever waits asks again, with the same id.
async fn is_over(said: &Receiver<Said>) {
    while said.recv_async().await.is_ok() {}
}

struct Connection<'a> {
    session: &'a mut Session,
    link: &'a mut Link,
    number: u32,
    keep_alive: KeepAlive,
    in_flight: InFlight<()>,
}

enum Wake {
    Packet(FromBroker),
    Said(Said),
    Moved,
    Over,
    Timer,
}

impl<'a> Connection<'a> {
    fn new(session: &'a mut Session, link: &'a mut Link, broker: &BrokerSpec, number: u32) -> Connection<'a> {
        let keep_alive = KeepAlive::new(session.clock.proc(), broker.keep_alive);
        Connection { session, link, number, keep_alive, in_flight: InFlight::new(WINDOW, ANSWER_MAX) }
    }

    async fn run(&mut self) -> End {
        match self.serve().await {
            Ok(never) => never,
            Err(end) => end,
        }
    }

    async fn serve(&mut self) -> Result<End, End> {
        let base = &self.session.base;
        let filters = vec![format!("{base}/config/desired"), format!("{base}/cmd/+")];
        self.send(ToBroker::Subscribe { packet: u16::MAX, filters }).await?;
        let report = self.session.reported.borrow().clone();
        if !report.is_empty() {
            self.report(report).await?;
        }
        loop {
            match self.wake().await? {
                Wake::Packet(packet) => self.handle_packets(packet).await?,
                Wake::Said(Said::Done(Receipt { connection, packet })) if connection == self.number => {
                    self.send(ToBroker::PubAck(packet)).await?;
                }
                // Of an older connection: it comes again.
                Wake::Said(Said::Done(_)) => {}
                Wake::Said(Said::Answer { topic, payload, correlation }) => {
                    self.publish(topic, payload.into(), false, correlation).await?;
                }
                Wake::Said(Said::Report(report)) => self.report(report).await?,
                Wake::Moved => {
                    self.send(ToBroker::Disconnect).await?;
                    return Ok(End::Moved);
                }
                Wake::Over => {
                    self.send(ToBroker::Disconnect).await?;
                    return Ok(End::Over);
                }
                Wake::Timer => self.handle_timers().await?,
            }
        }
    }

    /// Every future in here may be dropped half way: none holds anything.
    async fn wake(&mut self) -> Result<Wake, LinkError> {
        let has_room = self.in_flight.has_room();
        let reads = !self.session.heard.is_full();
        let timer = self.keep_alive.next_deadline().min(self.in_flight.deadline());
        let wait = timer.since(self.session.clock.proc());
        // The steward takes one at a time, and says when it is done: then there is room again.
        tokio::select! {
            biased;
            // Before the broker: what is said of going elsewhere is said here.
            said = self.session.said.recv_async(), if has_room => Ok(said.map_or(Wake::Over, Wake::Said)),
            () = changed(&mut self.session.broker) => Ok(Wake::Moved),
            packet = self.link.read(), if reads => Ok(Wake::Packet(packet?)),
            () = sleep(wait) => Ok(Wake::Timer),
        }
    }

    async fn handle_packets(&mut self, first: FromBroker) -> Result<(), End> {
        self.keep_alive.handle_received(self.session.clock.proc());
        let mut next = Some(first);
        while let Some(packet) = next {
            match packet {
                FromBroker::Publish(message) => self.hear(message),
                FromBroker::PubAck { packet, reason } => {
                    self.in_flight.answer(packet);
                    if reason.is_refusal() {
                        warn!(%reason, "the broker does not take what is said of the configuration");
                    }
                }
                FromBroker::SubAck(grants) => {
                    if grants.contains(&Grant::Refused) {
                        warn!("the broker refuses the subscription to config/desired or cmd/+: check its access rules");
                    }
                }
                FromBroker::PubRel(packet) => self.send(ToBroker::PubComp(packet)).await?,
                FromBroker::ConnAck(_)
                | FromBroker::PubRec { .. }
                | FromBroker::PubComp(_)
                | FromBroker::PingResp
                | FromBroker::Disconnect(_)
                | FromBroker::Other(_) => {}
            }
            next = if self.session.heard.is_full() { None } else { self.link.read_ready()? };
        }
        Ok(())
    }

    fn hear(&mut self, message: Arrived) {
        let Arrived { topic, payload, retain, packet, answer_to, .. } = message;
        let below = topic.strip_prefix(&self.session.base).unwrap_or_default();
        let what = match below.strip_prefix("/cmd/") {
            Some(name) => What::Command(name.to_owned()),
            None if below == "/config/desired" => What::Desired,
            None => return debug!(%topic, "a message that was not asked for"),
        };
        let receipt = packet.map(|packet| Receipt { connection: self.number, packet });
        let heard = Heard { origin: self.session.origin, receipt, what, payload, retained: retain, answer_to };
        if self.session.heard.try_send(heard).is_err() {
            // There was room, or the steward is gone and so are we.
            debug!("not heard: it comes again");
        }
    }

    async fn report(&mut self, report: Bytes) -> Result<(), End> {
        self.publish(format!("{}/config/reported", self.session.base), report, true, None).await
    }

    async fn publish(
        &mut self,
        topic: String,
        payload: Bytes,
        retain: bool,
        correlation: Option<Bytes>,
    ) -> Result<(), End> {
        let packet = Some(self.in_flight.insert(self.session.clock.proc(), ()));
        let properties = Properties { content_type: Some("application/json"), correlation, ..Properties::default() };
        let publish = Outgoing { topic, payload, retain, packet, exactly_once: false, dup: false, properties };
        self.send(ToBroker::Publish(publish)).await
    }

    async fn handle_timers(&mut self) -> Result<(), End> {
        let now = self.session.clock.proc();
        if self.in_flight.deadline() <= now {
            return Err(End::Lost(LinkError::Unresponsive));
        }
        match self.keep_alive.poll(now, !self.session.heard.is_full()) {
            Due::Nothing => Ok(()),
            Due::Ping => self.send(ToBroker::PingReq).await,
            Due::Dead => Err(End::Lost(LinkError::Unresponsive)),
        }
    }

    async fn send(&mut self, packet: ToBroker) -> Result<(), End> {
        self.link.send([packet]).await?;
        self.keep_alive.handle_sent(self.session.clock.proc());
        Ok(())
    }
}
