//! Receives, for as long as it is asked to, over as many connections as it takes.

use std::time::Duration;

use rumqttc::mqttbytes::v4::{Packet, SubscribeReasonCode};

use crate::agent::clock;

use super::{ClientError, ClientSpec, Connection, Incoming, Message};

/// Between two attempts to connect.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// A subscription at `QoS` 1 that outlives its connections. Messages are
/// acknowledged by the caller, once their consequences are safe.
#[derive(Debug)]
pub struct Subscriber {
    spec: ClientSpec,
    filters: Vec<String>,
    connection: Option<Connection>,
    /// Counts connections, so that an acknowledgement cannot reach another one.
    number: u32,
}

/// What [`Subscriber::next`] found.
#[derive(Debug)]
pub enum Received {
    /// A message; acknowledge it with [`Subscriber::ack`].
    Message(Message),
    /// Connected and subscribed. True: the broker kept our session.
    Subscribed(bool),
    /// No connection; the next call tries again.
    Lost(ClientError),
    /// Nothing came in time.
    Nothing,
}

impl Subscriber {
    /// Does not connect yet: [`Subscriber::next`] does.
    pub fn new(spec: ClientSpec, filters: &[&str]) -> Subscriber {
        let filters = filters.iter().map(|&filter| filter.to_owned()).collect();
        Subscriber { spec, filters, connection: None, number: 0 }
    }

    /// The next thing that happens within `wait`.
    pub fn next(&mut self, wait: Duration) -> Received {
        match self.try_next(wait) {
            Ok(received) => received,
            Err(error) => {
                self.connection = None;
                Received::Lost(error)
            }
        }
    }

    fn try_next(&mut self, wait: Duration) -> Result<Received, ClientError> {
        let Some(connection) = &mut self.connection else {
            return self.connect(wait);
        };
        let deadline = clock::instant() + wait;
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
                    return Err(ClientError::Refused(format!("no permission to subscribe to {:?}", self.filters)));
                }
                Some(Incoming::SubAck(_) | Incoming::PubAck(_) | Incoming::ConnAck { .. } | Incoming::Other) => {}
                None => return Ok(Received::Nothing),
            }
        }
    }

    /// On failure waits a little, so that a caller in a loop does not spin.
    fn connect(&mut self, wait: Duration) -> Result<Received, ClientError> {
        let opened = Connection::open(&self.spec).and_then(|(mut connection, resumed)| {
            connection.subscribe(&self.filters)?;
            Ok((connection, resumed))
        });
        match opened {
            Ok((connection, resumed)) => {
                self.connection = Some(connection);
                self.number += 1;
                Ok(Received::Subscribed(resumed))
            }
            Err(error) => {
                std::thread::park_timeout(wait.min(RETRY_AFTER));
                Err(error)
            }
        }
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
