//! Publishes at `QoS` 1 until the broker has acknowledged, over as many
//! connections as it takes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v4::{Packet, Publish};

use crate::agent::clock;

use super::{ClientError, ClientSpec, Connection, Incoming, PUBLISH_WINDOW};

/// Between two attempts to connect.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// At least once, in order. What a torn connection left without PUBACK is sent
/// again, so a broker may see it twice.
#[derive(Debug)]
pub struct Publisher {
    spec: ClientSpec,
    connection: Option<Connection>,
    unacked: VecDeque<Publish>,
    next_packet: u16,
}

impl Publisher {
    /// Does not connect yet: the first publish does.
    pub fn new(spec: ClientSpec) -> Publisher {
        Publisher { spec, connection: None, unacked: VecDeque::new(), next_packet: 1 }
    }

    /// Sends, and waits only while the window is full. The message counts as
    /// accepted when a later [`Publisher::flush`] returns.
    ///
    /// # Errors
    /// The last reason for which the window did not open within `wait`; the
    /// message was not taken then.
    pub fn publish(&mut self, topic: &str, payload: &[u8], wait: Duration) -> Result<(), ClientError> {
        self.send(Publish::from_bytes(topic, QoS::AtLeastOnce, Bytes::copy_from_slice(payload)), wait)
    }

    /// As [`Publisher::publish`]; the broker remembers it for later subscribers.
    ///
    /// # Errors
    /// As for [`Publisher::publish`].
    pub fn publish_retained(&mut self, topic: &str, payload: &[u8], wait: Duration) -> Result<(), ClientError> {
        let mut publish = Publish::from_bytes(topic, QoS::AtLeastOnce, Bytes::copy_from_slice(payload));
        publish.retain = true;
        self.send(publish, wait)
    }

    fn send(&mut self, mut publish: Publish, wait: Duration) -> Result<(), ClientError> {
        self.drain_below(PUBLISH_WINDOW, wait)?;
        publish.pkid = self.next_packet;
        // Zero is no packet id.
        self.next_packet = self.next_packet.checked_add(1).unwrap_or(1);
        self.unacked.push_back(publish.clone());
        if let Some(connection) = &mut self.connection
            && connection.send(&Packet::Publish(publish)).is_err()
        {
            self.connection = None;
        }
        Ok(())
    }

    /// Returns when everything is acknowledged.
    ///
    /// # Errors
    /// The last reason for which it was not within `wait`.
    pub fn flush(&mut self, wait: Duration) -> Result<(), ClientError> {
        self.drain_below(1, wait)
    }

    /// Waits until fewer than `len` messages are unacknowledged, connected.
    fn drain_below(&mut self, len: usize, wait: Duration) -> Result<(), ClientError> {
        let deadline = clock::instant() + wait;
        loop {
            match self.take_acks(len, deadline) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.connection = None;
                    if clock::instant() >= deadline {
                        return Err(error);
                    }
                    std::thread::park_timeout(RETRY_AFTER);
                }
            }
        }
    }

    fn take_acks(&mut self, len: usize, deadline: Instant) -> Result<(), ClientError> {
        if self.connection.is_none() {
            let (mut connection, _) = Connection::open(&self.spec)?;
            for publish in &self.unacked {
                // In a session that goes on, the broker may have it.
                let publish = Publish { dup: !self.spec.clean, ..publish.clone() };
                connection.send(&Packet::Publish(publish))?;
            }
            self.connection = Some(connection);
        }
        let Some(connection) = &mut self.connection else { return Err(ClientError::Closed) };
        while self.unacked.len() >= len {
            match connection.receive(deadline.saturating_duration_since(clock::instant()))? {
                Some(Incoming::PubAck(packet)) => self.unacked.retain(|publish| publish.pkid != packet),
                Some(Incoming::Publish(_) | Incoming::SubAck(_) | Incoming::ConnAck { .. } | Incoming::Other) => {}
                None => return Err(ClientError::Silent),
            }
        }
        Ok(())
    }

    /// Says goodbye.
    pub fn close(mut self) {
        if let Some(connection) = &mut self.connection {
            // The broker notices the end of the connection in any case.
            let _ = connection.send(&Packet::Disconnect);
        }
    }
}
