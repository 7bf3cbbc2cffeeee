//! From the engine thread to one connection of the listener: bounded, and never waited for.
//!
//! What cannot be taken because the client reads too slowly is dropped where the protocol
//! allows it (`QoS` 0), and else the connection ends: its session keeps the rest for its next
//! one. Bytes are counted per connection and over all of them, so that many slow readers cannot
//! exhaust memory together.
//!
//! A commit answers many connections at once. Each wake-up across threads is a system call, so
//! the engine thread notes whom it has something for and rings once: the [`Bell`] wakes them on
//! the network thread, where that costs nothing.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::engine::broker::packet::{Delivery, Qos, ToClient};

/// Bytes of deliveries that wait for one connection, beside the first.
const CONNECTION_BYTES_MAX: usize = 512 * 1024;
/// Bytes that each connection may have waiting, however much waits for others.
const CONNECTION_BYTES_MIN: usize = 16 * 1024;
/// Deliveries, acknowledgements and answers that wait for one connection, beside its windows.
const SPARE_LEN: usize = 1_024;
/// Room of a queue that is kept while it is empty.
const KEPT_LEN: usize = 64;

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

/// Wakes connections for which there is something.
#[derive(Debug, Default)]
pub struct Bell {
    waiting: Mutex<Vec<Arc<Queue>>>,
    rung: Notify,
}

/// The engine thread's end. Dropped, it ends the connection.
#[derive(Debug)]
pub struct ClientOutbox {
    queue: Arc<Queue>,
    bell: Arc<Bell>,
}

/// The connection's end.
#[derive(Debug)]
pub struct Outgoing(Arc<Queue>);

/// What waits for one connection.
#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    len_max: usize,
    all: Arc<Held>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<ToSocket>,
    bytes: usize,
    /// The connection is woken already, or about to be.
    is_noted: bool,
    /// The engine thread has given it up.
    is_over: bool,
    /// Nobody takes anything any more.
    is_gone: bool,
    /// Of the connection.
    waker: Option<Waker>,
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

impl Bell {
    /// Wakes all connections that were noted: after a round of the engine thread.
    pub fn ring(&self) {
        if !self.waiting().is_empty() {
            self.rung.notify_one();
        }
    }

    /// On the network thread, for ever: passes the rings on.
    pub async fn pass_on(&self) {
        let mut noted = Vec::new();
        loop {
            self.rung.notified().await;
            core::mem::swap(&mut noted, &mut *self.waiting());
            noted.drain(..).for_each(|queue| queue.wake());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends; `windows`: messages that may be in flight both ways together.
pub fn outbox(windows: usize, all: &Arc<Held>, bell: &Arc<Bell>) -> (ClientOutbox, Outgoing) {
    let queue = Arc::new(Queue { state: Mutex::default(), len_max: windows + SPARE_LEN, all: Arc::clone(all) });
    (ClientOutbox { queue: Arc::clone(&queue), bell: Arc::clone(bell) }, Outgoing(queue))
}

impl ToSocket {
    fn bytes(&self) -> usize {
        match self {
            ToSocket::Tell(ToClient::Publish(Delivery { message, .. })) => message.bytes(),
            ToSocket::Ack(_) | ToSocket::Tell(_) => 0,
        }
    }

    fn not_taken(&self) -> NotTaken {
        match self {
            ToSocket::Tell(ToClient::Publish(Delivery { qos: Qos::AtMostOnce, .. })) => NotTaken::Dropped,
            ToSocket::Ack(_) | ToSocket::Tell(_) => NotTaken::Over,
        }
    }
}

impl ClientOutbox {
    /// Hands something over. It is seen after the next [`Bell::ring`].
    ///
    /// # Errors
    /// [`NotTaken`]: there is no room, or nobody to take it.
    pub fn send(&self, what: ToSocket) -> Result<(), NotTaken> {
        let bytes = what.bytes();
        let queue = &*self.queue;
        let mut state = queue.state();
        if state.is_gone {
            return Err(NotTaken::Over);
        }
        // One is always taken, of whatever size. And a few are, or those who read would be cut off
        // when the room of all is full of what waits for those who do not.
        let own = state.bytes + bytes;
        let is_heavy = bytes > 0
            && state.bytes > 0
            && (own > CONNECTION_BYTES_MAX
                || (own > CONNECTION_BYTES_MIN && queue.all.bytes() + bytes > queue.all.max));
        if is_heavy || state.waiting.len() >= queue.len_max {
            return Err(what.not_taken());
        }
        state.bytes += bytes;
        queue.all.bytes.fetch_add(bytes, Ordering::Relaxed);
        state.waiting.push_back(what);
        if !core::mem::replace(&mut state.is_noted, true) {
            drop(state);
            self.bell.waiting().push(Arc::clone(&self.queue));
        }
        Ok(())
    }

    /// The bell of its connection, and of all others.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }
}

impl Drop for ClientOutbox {
    fn drop(&mut self) {
        self.queue.state().is_over = true;
        self.queue.wake();
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let waker = self.state().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn take(&self, state: &mut State) -> Option<ToSocket> {
        let what = state.waiting.pop_front()?;
        let bytes = what.bytes();
        state.bytes -= bytes;
        self.all.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if state.waiting.is_empty() && state.waiting.capacity() > KEPT_LEN {
            state.waiting = VecDeque::new();
        }
        Some(what)
    }
}

impl Outgoing {
    /// The next; `None`: the engine thread has given the connection up.
    pub async fn recv(&self) -> Option<ToSocket> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`Outgoing::recv`].
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Option<ToSocket>> {
        let mut state = self.0.state();
        if let Some(what) = self.0.take(&mut state) {
            return Poll::Ready(Some(what));
        }
        if state.is_over {
            return Poll::Ready(None);
        }
        state.is_noted = false;
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// The next, when it is there.
    pub fn recv_ready(&self) -> Option<ToSocket> {
        self.0.take(&mut self.0.state())
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_gone = true;
        // What was never sent takes no memory any more.
        while self.0.take(&mut state).is_some() {}
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
        let (sender, receiver) = outbox(10, &all, &Arc::default());
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
        let clients: Vec<_> = (0..3).map(|_| outbox(10, &all, &Arc::default())).collect();
        for (sender, _) in &clients {
            assert_eq!(sender.send(delivery(Qos::AtMostOnce, 400)), Ok(()), "each has its first");
            assert_eq!(sender.send(delivery(Qos::AtMostOnce, 700)), Err(NotTaken::Dropped));
        }
    }

    #[test]
    fn a_queue_that_is_full_ends_the_connection_but_for_what_may_be_dropped() {
        let all = Held::new(1_000);
        let (sender, _receiver) = outbox(0, &all, &Arc::default());
        (0..SPARE_LEN).for_each(|_| assert_eq!(sender.send(ToSocket::Ack(1)), Ok(())));
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 1)), Err(NotTaken::Dropped));
        assert_eq!(sender.send(ToSocket::Ack(1)), Err(NotTaken::Over));
        assert_eq!(all.bytes(), 0);
    }
}
