//! One client of the broker for as long as a command runs: MQTT 3.1.1, a clean session, over the
//! agent's own [`Link`].
//!
//! The first connection is made or the command fails. One that is lost later is made again, with
//! the same subscriptions: what is retained comes again then, so no answer is missed that a
//! gateway keeps there. A document without PUBACK is published again, which changes nothing where
//! it arrived the first time. A command goes with its connection: whoever waits for the answer,
//! which may be lost as well, asks again, with the id by which the gateway knows it.

use std::collections::VecDeque;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;

use crate::agent::clock::{SystemClock, entropy, sleep};
use crate::agent::interrupt::Interrupt;
use crate::agent::mqtt::backoff::Backoff;
use crate::agent::mqtt::connection::{Dialer, Link, LinkError, Purpose};
use crate::agent::mqtt::dial::authority;
use crate::agent::mqtt::keep_alive::{Due, KeepAlive};
use crate::agent::mqtt::packet::{Arrived, FromBroker, Grant, Outgoing, Properties, ToBroker};
use crate::config::boot::BrokerSpec;
use crate::model::time::{ProcTime, Span};

/// Between two looks at the flag of the signals.
const LOOK_AGAIN: Span = Span::from_millis(200);
/// The longest wait between two attempts: a person is waiting.
const RETRY_MAX: Span = Span::from_secs(5);

/// What a session has to tell.
#[derive(Debug)]
pub(super) enum Event {
    /// A message.
    Message(Arrived),
    /// Every subscription is granted, on a new connection or after another one was asked for.
    Granted {
        /// The connection before this one was lost.
        again: bool,
    },
    /// Everything that was to be published is acknowledged.
    Settled,
    /// The time is over.
    Deadline,
    /// Somebody asked the command to end.
    Interrupted,
}

/// See the head of the file.
pub(super) struct Session {
    dialer: Dialer,
    broker: String,
    clock: SystemClock,
    interrupt: Interrupt,
    keep_alive: Span,
    /// `None`: lost.
    connection: Option<Connection>,
    filters: Vec<String>,
    /// Not written yet.
    waiting: VecDeque<Outgoing>,
    /// Written, without PUBACK; in order.
    unacked: VecDeque<Outgoing>,
    /// A connection was lost, and nothing is granted on the next one yet.
    was_lost: bool,
    next_packet: u16,
    backoff: Backoff,
    retry_at: ProcTime,
    /// The last one that was told.
    problem: String,
}

struct Connection {
    link: Link,
    keep_alive: KeepAlive,
    /// SUBSCRIBEs without an answer.
    asked: usize,
}

enum Wake {
    Packet(FromBroker),
    Timer,
}

impl Session {
    /// Connected, and subscribed soon: [`Event::Granted`] says when.
    ///
    /// # Errors
    /// There is no connection, for a reason that is told.
    pub(super) async fn open(spec: BrokerSpec, filters: Vec<String>) -> anyhow::Result<Session> {
        let clock = SystemClock::start();
        let mut session = Session {
            broker: authority(&spec.host, spec.port),
            clock,
            // Until there is a connection, a signal ends the process.
            interrupt: Interrupt::default(),
            keep_alive: spec.keep_alive,
            connection: None,
            filters,
            waiting: VecDeque::new(),
            unacked: VecDeque::new(),
            was_lost: false,
            next_packet: 1,
            backoff: Backoff::new(&spec.client_id, entropy(), RETRY_MAX),
            retry_at: clock.proc(),
            problem: String::new(),
            dialer: Dialer::new(spec, Purpose::CleanSession { will: None }),
        };
        session.connect().await.map_err(|error| anyhow!("{}: {error}", session.broker))?;
        session.interrupt = Interrupt::watch().context("cannot watch for signals")?;
        Ok(session)
    }

    /// Now, on the clock of the deadlines.
    pub(super) fn now(&self) -> ProcTime {
        self.clock.proc()
    }

    /// Asks for one more filter; [`Event::Granted`] follows, and what is published from now on
    /// goes out after it.
    pub(super) async fn subscribe(&mut self, filter: String) {
        self.filters.push(filter.clone());
        let packet = self.packet();
        let Some(connection) = &mut self.connection else { return };
        connection.asked += 1;
        let sent = connection.link.send([ToBroker::Subscribe { packet, filters: vec![filter] }]).await;
        if let Err(error) = sent {
            self.handle_lost(&error);
        }
    }

    /// Publishes at `QoS` 1, as soon as all subscriptions are granted.
    pub(super) fn publish(&mut self, topic: String, payload: String, retain: bool) {
        let packet = Some(self.packet());
        let (payload, properties) = (Bytes::from(payload), Properties::default());
        self.waiting.push_back(Outgoing {
            topic,
            payload,
            retain,
            packet,
            exactly_once: false,
            dup: false,
            properties,
        });
    }

    /// Whether the broker has taken everything that was to be published.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.unacked.is_empty()
    }

    /// The next thing that happens until then.
    ///
    /// # Errors
    /// The broker says no, and would again.
    pub(super) async fn next(&mut self, until: ProcTime) -> anyhow::Result<Event> {
        loop {
            if self.interrupt.is_set() {
                return Ok(Event::Interrupted);
            }
            let now = self.now();
            if now >= until {
                return Ok(Event::Deadline);
            }
            if self.connection.is_none() && now >= self.retry_at {
                let interrupt = self.interrupt.clone();
                // Half a connection is none.
                let attempt = tokio::select! {
                    attempt = self.connect() => attempt,
                    () = given_up(interrupt, until.since(now)) => continue,
                };
                match attempt {
                    Ok(()) => {}
                    Err(error) if !error.is_permanent() => self.handle_lost(&error),
                    Err(error) => bail!("{}: {error}", self.broker),
                }
                continue;
            }
            match self.step(now, until).await {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(Trouble::Link(error)) if !error.is_permanent() => self.handle_lost(&error),
                Err(Trouble::Link(error)) => bail!("{}: {error}", self.broker),
                Err(Trouble::NotSubscribed) => bail!(
                    "{}: the broker refused the subscription to {}: its access rules do not allow it",
                    self.broker,
                    self.filters.join(", ")
                ),
            }
        }
    }

    /// Says goodbye.
    pub(super) async fn close(mut self) {
        if let Some(connection) = &mut self.connection {
            // The broker notices the end of the connection in any case.
            let _ = connection.link.send([ToBroker::Disconnect]).await;
        }
    }

    async fn connect(&mut self) -> Result<(), LinkError> {
        let (mut link, _) = self.dialer.connect().await?;
        let (packet, filters) = (self.packet(), self.filters.clone());
        link.send([ToBroker::Subscribe { packet, filters }]).await?;
        let now = self.now();
        self.backoff.handle_up(now);
        self.connection = Some(Connection { link, keep_alive: KeepAlive::new(now, self.keep_alive), asked: 1 });
        self.waiting.retain(|outgoing| outgoing.retain);
        while let Some(outgoing) = self.unacked.pop_back() {
            if outgoing.retain {
                self.waiting.push_front(outgoing);
            }
        }
        Ok(())
    }

    fn handle_lost(&mut self, error: &LinkError) {
        self.connection = None;
        self.was_lost = true;
        let now = self.now();
        self.retry_at = now + self.backoff.handle_down(now);
        let problem = error.to_string();
        if problem != self.problem {
            eprintln!("{}: {problem}; trying again", self.broker);
            self.problem = problem;
        }
    }

    /// Writes what is due, and waits for one packet or one deadline.
    async fn step(&mut self, now: ProcTime, until: ProcTime) -> Result<Option<Event>, Trouble> {
        let Some(connection) = &mut self.connection else {
            sleep(self.retry_at.min(until).since(now).min(LOOK_AGAIN)).await;
            return Ok(None);
        };
        if connection.asked == 0 && !self.waiting.is_empty() {
            let outgoing: Vec<Outgoing> = self.waiting.drain(..).collect();
            self.unacked.extend(outgoing.iter().cloned());
            connection.keep_alive.handle_sent(now);
            connection.link.send(outgoing.into_iter().map(ToBroker::Publish)).await?;
        }
        let wait = connection.keep_alive.next_deadline().min(until).since(now).min(LOOK_AGAIN);
        // Both may be dropped half way: what was read stays in the link.
        let wake = tokio::select! {
            packet = connection.link.read() => Wake::Packet(packet?),
            () = sleep(wait) => Wake::Timer,
        };
        let now = self.clock.proc();
        match wake {
            Wake::Packet(packet) => {
                connection.keep_alive.handle_received(now);
                self.handle_packet(packet).await
            }
            Wake::Timer => match connection.keep_alive.poll(now, true) {
                Due::Nothing => Ok(None),
                Due::Ping => connection.link.send([ToBroker::PingReq]).await.map(|()| None).map_err(Trouble::Link),
                Due::Dead => Err(Trouble::Link(LinkError::Unresponsive)),
            },
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest asks for nothing, at QoS 1")]
    async fn handle_packet(&mut self, packet: FromBroker) -> Result<Option<Event>, Trouble> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        match packet {
            FromBroker::Publish(arrived) => {
                if let Some(packet) = arrived.packet {
                    connection.link.send([ToBroker::PubAck(packet)]).await?;
                }
                Ok(Some(Event::Message(arrived)))
            }
            FromBroker::SubAck(grants) => {
                if grants.contains(&Grant::Refused) {
                    return Err(Trouble::NotSubscribed);
                }
                connection.asked = connection.asked.saturating_sub(1);
                let granted = connection.asked == 0;
                if granted && !self.problem.is_empty() {
                    self.problem.clear();
                    eprintln!("{}: connected again", self.broker);
                }
                Ok(granted.then(|| Event::Granted { again: std::mem::take(&mut self.was_lost) }))
            }
            FromBroker::PubAck { packet, .. } => {
                self.unacked.retain(|outgoing| outgoing.packet != Some(packet));
                Ok(self.is_settled().then_some(Event::Settled))
            }
            _ => Ok(None),
        }
    }

    fn packet(&mut self) -> u16 {
        let packet = self.next_packet;
        // Zero is no packet id.
        self.next_packet = packet.checked_add(1).unwrap_or(1);
        packet
    }
}

/// Somebody has asked the command to end, or the time is over.
async fn given_up(interrupt: Interrupt, left: Span) {
    let asked = async {
        while !interrupt.is_set() {
            sleep(LOOK_AGAIN).await;
        }
    };
    tokio::select! {
        () = asked => {}
        () = sleep(left) => {}
    }
}

/// Why a step failed.
enum Trouble {
    Link(LinkError),
    NotSubscribed,
}

impl From<LinkError> for Trouble {
    fn from(error: LinkError) -> Trouble {
        Trouble::Link(error)
    }
}
