//! Receives, for as long as it is asked to, over as many connections as it takes.

use std::time::{Duration, Instant};

use rumqttc::mqttbytes::v4::{Packet, SubscribeReasonCode};

use crate::agent::clock::{self, SystemClock, entropy};
use crate::agent::mqtt::backoff::Backoff;
use crate::model::time::Span;

use super::{ANSWER_WITHIN, ClientError, ClientSpec, Connection, Incoming, Message};

/// The longest wait between two attempts, as for a load generator.
const RETRY_MAX: Span = Span::from_secs(2);

/// A subscription at `QoS` 1 that outlives its connections. Messages are
/// acknowledged by the caller, once their consequences are safe.
#[derive(Debug)]
pub struct Subscriber {
    spec: ClientSpec,
    filters: Vec<String>,
    connection: Option<Connection>,
    /// Counts connections, so that an acknowledgement cannot reach another one.
    number: u32,
    /// Set while the broker has not answered the subscription.
    asked: Option<Asked>,
    clock: SystemClock,
    backoff: Backoff,
    /// There is no attempt before it.
    retry_at: Option<Instant>,
}

/// A subscription that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    until: Instant,
    resumed: bool,
}

/// What [`Subscriber::next`] found.
#[derive(Debug)]
pub enum Received {
    /// A message; acknowledge it with [`Subscriber::ack`].
    Message(Message),
    /// The broker has granted the subscription. True: it kept our session.
    Subscribed(bool),
    /// No connection any more, or none yet; a later call tries again, after a wait that grows
    /// with every attempt.
    Lost(ClientError),
    /// Nothing came in time.
    Nothing,
}

impl Subscriber {
    /// Does not connect yet: [`Subscriber::next`] does.
    pub fn new(spec: ClientSpec, filters: &[&str]) -> Subscriber {
        let filters = filters.iter().map(|&filter| filter.to_owned()).collect();
        let backoff = Backoff::new(&spec.client_id, entropy(), RETRY_MAX);
        let clock = SystemClock::start();
        Subscriber { spec, filters, connection: None, number: 0, asked: None, clock, backoff, retry_at: None }
    }

    /// The next thing that happens within `wait`.
    pub fn next(&mut self, wait: Duration) -> Received {
        match self.try_next(clock::instant() + wait) {
            Ok(received) => received,
            Err(error) => {
                self.connection = None;
                let wait = self.backoff.handle_down(self.clock.proc());
                self.retry_at = Some(clock::instant() + Duration::from_millis(wait.as_millis()));
                Received::Lost(error)
            }
        }
    }

    fn try_next(&mut self, deadline: Instant) -> Result<Received, ClientError> {
        if self.connection.is_none() {
            if !self.may_try(deadline) {
                return Ok(Received::Nothing);
            }
            self.connect()?;
        }
        let Some(connection) = &mut self.connection else { return Ok(Received::Nothing) };
        loop {
            match connection.receive(deadline.saturating_duration_since(clock::instant()))? {
                Some(Incoming::Publish(publish)) => {
                    let tag = (publish.pkid != 0).then_some((self.number, publish.pkid));
                    return Ok(Received::Message(Message {
                        topic: publish.topic,
                        payload: publish.payload,
                        retain: publish.retain,
                        dup: publish.dup,
                        tag,
                    }));
                }
                Some(Incoming::SubAck(codes)) if codes.contains(&SubscribeReasonCode::Failure) => {
                    return Err(ClientError::NotSubscribed(self.filters.join(", ")));
                }
                Some(Incoming::SubAck(_)) => {
                    if let Some(asked) = self.asked.take() {
                        self.backoff.handle_up(self.clock.proc());
                        return Ok(Received::Subscribed(asked.resumed));
                    }
                }
                Some(Incoming::PubAck(_) | Incoming::ConnAck { .. } | Incoming::Other) => {}
                None if self.asked.is_some_and(|asked| clock::instant() >= asked.until) => {
                    return Err(ClientError::Silent);
                }
                None => return Ok(Received::Nothing),
            }
        }
    }

    /// Waits, at most until then, for the time of the next attempt; true: it has come.
    fn may_try(&self, deadline: Instant) -> bool {
        let Some(retry_at) = self.retry_at else { return true };
        let wait = retry_at.min(deadline).saturating_duration_since(clock::instant());
        std::thread::park_timeout(wait);
        clock::instant() >= retry_at
    }

    fn connect(&mut self) -> Result<(), ClientError> {
        let (mut connection, resumed) = Connection::open(&self.spec)?;
        connection.subscribe(&self.filters)?;
        self.connection = Some(connection);
        self.number += 1;
        self.asked = Some(Asked { until: clock::instant() + ANSWER_WITHIN, resumed });
        Ok(())
    }

    /// Acknowledges; without effect when the message's connection is gone: the
    /// broker sends it again.
    pub fn ack(&mut self, message: &Message) {
        let Some((number, packet)) = message.tag else { return };
        if number != self.number {
            return;
        }
        if let Some(connection) = &mut self.connection
            && connection.ack(packet).is_err()
        {
            self.connection = None;
        }
    }

    /// Says goodbye and has the broker drop the session with all that waits in it.
    pub fn forget(self) {
        let spec = ClientSpec { clean: true, ..self.spec.clone() };
        self.close();
        if let Ok((mut connection, _)) = Connection::open(&spec) {
            // A broker that is gone has nothing to forget, or expires it.
            let _ = connection.send(&Packet::Disconnect);
        }
    }

    /// Says goodbye; the broker keeps the session unless it is a clean one.
    pub fn close(mut self) {
        if let Some(connection) = &mut self.connection {
            // The broker notices the end of the connection in any case.
            let _ = connection.send(&Packet::Disconnect);
        }
    }
}
