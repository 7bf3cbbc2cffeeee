//! A publisher that does not wait for each answer: one of the many connections of a load
//! generator, over the agent's own [`Link`], so with TLS, both versions and every `QoS`.
//!
//! ```text
//! queue ──▶ Flight (at most `window` without an answer) ──▶ broker
//!              ▲ what a lost connection left is sent again, in order
//! ```
//!
//! At `QoS` 1 and 2 nothing is lost as long as the process lives. Without a persistent session
//! the broker may see a message twice; with one, a repeat says so (DUP), and `QoS` 2 is exactly
//! once. At `QoS` 0 a message counts as acknowledged once the system has taken its bytes.
//!
//! Made for one thread: [`Tally`] has no lock, and is shared by all connections of a run.

use std::rc::Rc;

use bytes::Bytes;
use flume::Receiver;
use tokio::sync::Semaphore;

use crate::agent::clock::{SystemClock, entropy, instant, sleep};
use crate::config::boot::BrokerSpec;
use crate::model::time::Span;

use self::flight::Flight;
pub use self::tally::{Latencies, Tally};
use super::backoff::Backoff;
use super::connection::{Dialer, Link, LinkError, Purpose};
use super::keep_alive::{Due, KeepAlive};
use super::packet::{ConnAck, FromBroker, Outgoing, Properties, ToBroker};

mod flight;
mod tally;

/// The longest wait between two attempts.
const RETRY_MAX: Span = Span::from_secs(2);
/// As for the uplink.
const ANSWER_MAX: Span = Span::from_secs(30);
/// Messages of one write.
const WRITE_LEN: usize = 256;

/// What is promised for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assurance {
    /// `QoS` 0.
    AtMostOnce,
    /// `QoS` 1.
    AtLeastOnce,
    /// `QoS` 2.
    ExactlyOnce,
}

/// How to publish.
#[derive(Clone, Debug)]
pub struct PipelineSpec {
    /// Where, and as whom.
    pub broker: BrokerSpec,
    /// What is promised.
    pub assurance: Assurance,
    /// Messages without an answer; at least 1. A broker may allow fewer.
    pub window: u16,
    /// The broker keeps the session while there is no connection.
    pub persistent: bool,
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Full topic.
    pub topic: String,
    /// Any bytes.
    pub payload: Bytes,
}

/// One connection, made again as often as it takes.
pub struct Pipeline {
    spec: PipelineSpec,
    queue: Receiver<Parcel>,
    tally: Rc<Tally>,
    clock: SystemClock,
    flight: Flight,
    /// Nothing more comes.
    over: bool,
}

/// What woke a session.
enum Wake {
    Packet(FromBroker),
    Parcel(Parcel),
    Over,
    Timer,
}

impl Pipeline {
    /// Of what comes through `queue`.
    pub fn new(spec: PipelineSpec, queue: Receiver<Parcel>, tally: Rc<Tally>, clock: SystemClock) -> Pipeline {
        let flight = Flight::new(spec.assurance, spec.window);
        Pipeline { spec, queue, tally, clock, flight, over: false }
    }

    /// Until the queue is closed and everything answered, or until the broker says no in a way
    /// that only a person can change. `dials`: so many may connect at a
    /// time; a thousand at once are too many for the queue of a listening socket.
    pub async fn run(mut self, dials: Rc<Semaphore>) {
        let mut backoff = Backoff::new(&self.spec.broker.client_id, entropy(), RETRY_MAX);
        let mut fresh = self.spec.persistent;
        loop {
            let end = match self.connect(&mut fresh, &dials).await {
                Ok((mut link, connack)) => {
                    backoff.handle_up(self.clock.proc());
                    self.tally.handle_up();
                    let end = self.session(&mut link, &connack).await;
                    self.tally.handle_down(end.is_err());
                    end
                }
                Err(problem) => {
                    if problem.turns_away() {
                        self.tally.handle_turned_away();
                    }
                    Err(problem)
                }
            };
            match end {
                Ok(()) => return,
                Err(problem) if problem.is_permanent() => return self.tally.handle_permanent(problem),
                Err(problem) => self.tally.handle_problem(problem),
            }
            sleep(backoff.handle_down(self.clock.proc())).await;
        }
    }

    /// `fresh`: first of all, the broker forgets the session of an earlier run: a packet id
    /// that it still holds from there would make it take a new message for an old one.
    async fn connect(&self, fresh: &mut bool, dials: &Semaphore) -> Result<(Link, ConnAck), LinkError> {
        // Closed by nobody.
        let _permit = dials.acquire().await;
        let clean = || Dialer::new(self.spec.broker.clone(), Purpose::CleanSession { will: None });
        if *fresh {
            let (mut link, _) = clean().connect().await?;
            link.send([ToBroker::Disconnect]).await?;
            *fresh = false;
        }
        let mut dialer = if self.spec.persistent {
            Dialer::new(self.spec.broker.clone(), Purpose::PersistentSession)
        } else {
            clean()
        };
        dialer.connect().await
    }

    /// One connection; `Ok` when everything is answered and nothing more comes.
    async fn session(&mut self, link: &mut Link, connack: &ConnAck) -> Result<(), LinkError> {
        let terms = connack.terms;
        self.flight.allow(terms.receive_max.unwrap_or(u16::MAX).min(self.spec.window));
        let keep_alive =
            terms.keep_alive_secs.map_or(self.spec.broker.keep_alive, |secs| Span::from_secs(u64::from(secs)));
        let mut keep_alive = KeepAlive::new(self.clock.proc(), keep_alive);
        let again = self.flight.repeat(connack.resumed, self.clock.proc());
        self.tally.handle_repeated(again.len());
        link.send(again).await?;
        loop {
            if self.over && self.flight.is_empty() {
                return link.send([ToBroker::Disconnect]).await;
            }
            match self.wake(link, &keep_alive).await? {
                Wake::Packet(packet) => {
                    keep_alive.handle_received(self.clock.proc());
                    self.handle_packets(link, packet).await?;
                }
                Wake::Parcel(first) => {
                    self.publish(link, first).await?;
                    keep_alive.handle_sent(self.clock.proc());
                }
                Wake::Over => self.over = true,
                Wake::Timer => {
                    let now = self.clock.proc();
                    if self.flight.oldest().is_some_and(|since| now.since(since) >= ANSWER_MAX) {
                        return Err(LinkError::Unresponsive);
                    }
                    match keep_alive.poll(now, true) {
                        Due::Nothing => {}
                        Due::Ping => link.send([ToBroker::PingReq]).await?,
                        Due::Dead => return Err(LinkError::Unresponsive),
                    }
                }
            }
        }
    }

    /// Every future in here may be dropped half way: none holds anything.
    async fn wake(&self, link: &mut Link, keep_alive: &KeepAlive) -> Result<Wake, LinkError> {
        let mut timer = keep_alive.next_deadline();
        if let Some(since) = self.flight.oldest() {
            timer = timer.min(since + ANSWER_MAX);
        }
        let wait = timer.since(self.clock.proc());
        tokio::select! {
            packet = link.read() => Ok(Wake::Packet(packet?)),
            parcel = self.queue.recv_async(), if !self.over && self.flight.has_room() => {
                Ok(parcel.map_or(Wake::Over, Wake::Parcel))
            }
            () = sleep(wait) => Ok(Wake::Timer),
        }
    }

    /// Takes what else has been read with it, and answers once.
    #[expect(clippy::wildcard_enum_match_arm, reason = "what a broker says to a publisher; the rest asks for nothing")]
    async fn handle_packets(&mut self, link: &mut Link, first: FromBroker) -> Result<(), LinkError> {
        let mut replies = Vec::new();
        let mut next = Some(first);
        while let Some(packet) = next {
            match packet {
                FromBroker::PubAck { packet, reason } | FromBroker::PubRec { packet, reason }
                    if reason.is_refusal() =>
                {
                    let was_in_flight = self.flight.handle_done(packet).is_some();
                    if was_in_flight {
                        self.tally.handle_refused(&format!("the broker refused a message: {reason}"));
                    }
                }
                FromBroker::PubRec { packet, .. } => {
                    self.flight.handle_received(packet);
                    // Also for one that is not in flight: the broker waits for it.
                    replies.push(ToBroker::PubRel(packet));
                }
                FromBroker::PubAck { packet, .. } | FromBroker::PubComp(packet) => {
                    if let Some(first_sent) = self.flight.handle_done(packet) {
                        self.tally.handle_acked(instant().saturating_duration_since(first_sent));
                    }
                }
                _ => {}
            }
            next = link.read_ready()?;
        }
        if replies.is_empty() { Ok(()) } else { link.send(replies).await }
    }

    /// Takes what else is waiting with it: one write for all.
    async fn publish(&mut self, link: &mut Link, first: Parcel) -> Result<(), LinkError> {
        let (now, moment) = (self.clock.proc(), instant());
        let mut packets = Vec::new();
        let mut next = Some(first);
        while let Some(parcel) = next {
            self.tally.handle_sent(parcel.payload.len());
            packets.push(if self.spec.assurance == Assurance::AtMostOnce {
                ToBroker::Publish(unanswered(parcel))
            } else {
                self.flight.insert(parcel, now, moment)
            });
            let more = self.flight.has_room() && packets.len() < WRITE_LEN;
            next = if more { self.queue.try_recv().ok() } else { None };
        }
        let written = packets.len();
        link.send(packets).await?;
        if self.spec.assurance == Assurance::AtMostOnce {
            let taken = instant().saturating_duration_since(moment);
            (0..written).for_each(|_| self.tally.handle_acked(taken));
        }
        Ok(())
    }
}

fn unanswered(parcel: Parcel) -> Outgoing {
    let Parcel { topic, payload } = parcel;
    let properties = Properties::default();
    Outgoing { topic, payload, retain: false, packet: None, exactly_once: false, dup: false, properties }
}
