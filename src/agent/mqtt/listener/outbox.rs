//! From the engine thread to one connection of the listener: bounded, and never waited for.
//!
//! What cannot be taken because the client reads too slowly is dropped where the protocol
//! allows it (`QoS` 0), and else the connection ends: its session keeps the rest for its next
//! one. Bytes are counted per connection and over all of them, so that many slow readers cannot
//! exhaust memory together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flume::{Receiver, Sender, TrySendError};

use crate::engine::broker::packet::{Delivery, Qos, ToClient};

/// Bytes of deliveries that wait for one connection, beside the first.
const CONNECTION_BYTES_MAX: usize = 512 * 1024;
/// Deliveries, acknowledgements and answers that wait for one connection, beside its windows.
const SPARE_LEN: usize = 1_024;

/// What a connection is given to send.
#[derive(Debug)]
pub enum ToSocket {
    /// The acknowledgement of a message: PUBACK or PUBREC.
    Ack(u16),
    /// Anything else.
    Tell(ToClient),
}

/// Why something was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// A message at `QoS` 0 for a client that reads too slowly.
    Dropped,
    /// The connection is gone, or has to go.
    Over,
}

/// Bytes that wait for all connections.
#[derive(Debug)]
pub struct Held {
    bytes: AtomicUsize,
    max: usize,
}

/// The engine thread's end.
#[derive(Debug, Clone)]
pub struct ClientOutbox {
    queue: Sender<ToSocket>,
    own: Arc<AtomicUsize>,
    all: Arc<Held>,
}

/// The connection's end.
#[derive(Debug)]
pub struct Outgoing {
    queue: Receiver<ToSocket>,
    own: Arc<AtomicUsize>,
    all: Arc<Held>,
}

impl Held {
    /// At most so many bytes.
    pub fn new(max: usize) -> Arc<Held> {
        Arc::new(Held { bytes: AtomicUsize::new(0), max })
    }

    /// Bytes that wait now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Both ends; `windows`: messages that may be in flight both ways together.
pub fn outbox(windows: usize, all: &Arc<Held>) -> (ClientOutbox, Outgoing) {
    let (sender, receiver) = flume::bounded(windows + SPARE_LEN);
    let own = Arc::new(AtomicUsize::new(0));
    let outbox = ClientOutbox { queue: sender, own: Arc::clone(&own), all: Arc::clone(all) };
    (outbox, Outgoing { queue: receiver, own, all: Arc::clone(all) })
}

impl ToSocket {
    fn bytes(&self) -> usize {
        match self {
            ToSocket::Tell(ToClient::Publish(Delivery { message, .. })) => message.topic.len() + message.payload.len(),
            ToSocket::Ack(_) | ToSocket::Tell(_) => 0,
        }
    }

    fn may_be_dropped(&self) -> bool {
        matches!(self, ToSocket::Tell(ToClient::Publish(Delivery { qos: Qos::AtMostOnce, .. })))
    }
}

impl ClientOutbox {
    /// Hands something over.
    ///
    /// # Errors
    /// [`NotTaken`]: there is no room, or nobody to take it.
    pub fn send(&self, what: ToSocket) -> Result<(), NotTaken> {
        let bytes = what.bytes();
        if bytes > 0 {
            let own = self.own.load(Ordering::Relaxed);
            let all = self.all.bytes();
            // One is always taken, of whatever size.
            let is_full = own > 0 && (own + bytes > CONNECTION_BYTES_MAX || all + bytes > self.all.max);
            if is_full {
                return Err(if what.may_be_dropped() { NotTaken::Dropped } else { NotTaken::Over });
            }
            self.own.fetch_add(bytes, Ordering::Relaxed);
            self.all.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        match self.queue.try_send(what) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(what)) => {
                self.give_back(bytes);
                Err(if what.may_be_dropped() { NotTaken::Dropped } else { NotTaken::Over })
            }
            Err(TrySendError::Disconnected(_)) => {
                self.give_back(bytes);
                Err(NotTaken::Over)
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Outgoing {
    /// The next; `None`: the engine thread has given the connection up.
    pub async fn recv(&self) -> Option<ToSocket> {
        let what = self.queue.recv_async().await.ok()?;
        self.take_off(&what);
        Some(what)
    }

    /// The next, when it is there.
    pub fn recv_ready(&self) -> Option<ToSocket> {
        let what = self.queue.try_recv().ok()?;
        self.take_off(&what);
        Some(what)
    }

    fn take_off(&self, what: &ToSocket) {
        let bytes = what.bytes();
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // What was never sent takes no memory any more.
        while self.recv_ready().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::broker::packet::Message;

    use super::*;

    fn delivery(qos: Qos, bytes: usize) -> ToSocket {
        let message = Message {
            topic: "t".into(),
            payload: vec![0; bytes].into(),
            qos,
            retain: false,
            expiry_secs: None,
            properties: None,
        };
        let packet = (qos != Qos::AtMostOnce).then_some(1);
        ToSocket::Tell(ToClient::Publish(Delivery {
            message: Arc::new(message),
            qos,
            retain: false,
            dup: false,
            packet,
            subscriptions: Vec::new(),
            expiry_secs: None,
        }))
    }

    #[test]
    fn a_slow_client_loses_messages_at_qos_0_and_its_connection_at_qos_1() {
        let all = Held::new(10 * CONNECTION_BYTES_MAX);
        let (sender, receiver) = outbox(10, &all);
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 2 * CONNECTION_BYTES_MAX)), Ok(()), "one of any size");
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 1)), Err(NotTaken::Dropped));
        assert_eq!(sender.send(delivery(Qos::AtLeastOnce, 1)), Err(NotTaken::Over));
        assert_eq!(sender.send(ToSocket::Ack(1)), Ok(()), "acknowledgements take no room");
        assert!(receiver.recv_ready().is_some());
        assert_eq!(all.bytes(), 0);
        assert_eq!(sender.send(delivery(Qos::AtLeastOnce, 1)), Ok(()));
        drop(receiver);
        assert_eq!(all.bytes(), 0, "what was not sent is gone");
        assert_eq!(sender.send(ToSocket::Ack(1)), Err(NotTaken::Over));
    }

    #[test]
    fn many_slow_clients_share_one_bound() {
        let all = Held::new(1_000);
        let clients: Vec<_> = (0..3).map(|_| outbox(10, &all)).collect();
        for (sender, _) in &clients {
            assert_eq!(sender.send(delivery(Qos::AtMostOnce, 400)), Ok(()), "each has its first");
            assert_eq!(sender.send(delivery(Qos::AtMostOnce, 700)), Err(NotTaken::Dropped));
        }
    }

    #[test]
    fn a_queue_that_is_full_ends_the_connection_but_for_what_may_be_dropped() {
        let all = Held::new(1_000);
        let (sender, _receiver) = outbox(0, &all);
        (0..SPARE_LEN).for_each(|_| assert_eq!(sender.send(ToSocket::Ack(1)), Ok(())));
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 1)), Err(NotTaken::Dropped));
        assert_eq!(sender.send(ToSocket::Ack(1)), Err(NotTaken::Over));
        assert_eq!(all.bytes(), 0);
    }
}
