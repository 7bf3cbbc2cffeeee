//! From the engine thread to one connection of the listener: bounded, and never waited for.
//!
//! What cannot be taken because the client reads too slowly is dropped where the protocol
//! allows it (`QoS` 0), and else the connection ends: its session keeps the rest for its next
//! one. Bytes are counted per connection and over all of them, so that many slow readers cannot
//! exhaust memory together. At `QoS` 1 and 2 nothing is refused for its bytes: the windows bound
//! how many there are, and the queues of the broker what is in them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::engine::broker::packet::{Delivery, Message, Qos, ToClient};

use super::exchange::{Exchange, Handed, lock};

/// Bytes of deliveries that wait for one connection, beside the first.
const CONNECTION_BYTES_MAX: usize = 512 * 1024;
/// Bytes that each connection may have waiting, however much waits for others: who reads is not
/// to suffer for who does not.
const CONNECTION_BYTES_MIN: usize = 8 * 1024;
/// Bytes of a delivery beside its message.
pub(super) const DELIVERY_BYTES: usize = 128;
/// Acknowledgements and answers that wait for one connection, and deliveries that may not be
/// dropped, beside its windows.
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
    /// The connection has to go.
    Over,
}

/// The engine thread's end. Dropped, it ends the connection, once that has sent what it was
/// handed before.
#[derive(Debug)]
pub struct ClientOutbox {
    connection: u32,
    exchange: Arc<Exchange>,
    queue: Arc<Queue>,
    len_max: usize,
    /// How many were handed over, and for how many more there was room when that was last
    /// looked at: what the other thread writes is read as rarely as can be.
    sent: usize,
    room: usize,
}

/// The connection's end.
#[derive(Debug)]
pub struct Outgoing {
    connection: u32,
    exchange: Arc<Exchange>,
    queue: Arc<Queue>,
}

/// What waits for one connection.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// How many were taken out; wraps.
    taken: AtomicUsize,
    /// Of what was handed over and not taken out.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<ToSocket>,
    /// Nothing more comes.
    is_over: bool,
    /// Of the connection, where it waits.
    waker: Option<Waker>,
}

/// Both ends for a connection; `windows`: messages that may be in flight both ways together.
pub fn outbox(connection: u32, windows: usize, exchange: &Arc<Exchange>) -> (ClientOutbox, Outgoing) {
    let queue = Arc::new(Queue::default());
    exchange.add(connection, Arc::clone(&queue));
    let outgoing = Outgoing { connection, exchange: Arc::clone(exchange), queue: Arc::clone(&queue) };
    let len_max = windows + SPARE_LEN;
    let exchange = Arc::clone(exchange);
    (ClientOutbox { connection, exchange, queue, len_max, sent: 0, room: len_max }, outgoing)
}

impl ToSocket {
    /// What is delivered.
    pub(super) fn message(&self) -> Option<&Arc<Message>> {
        match self {
            ToSocket::Tell(ToClient::Publish(Delivery { message, .. })) => Some(message),
            ToSocket::Ack(_) | ToSocket::Tell(_) => None,
        }
    }

    /// Bytes that it takes of the room of all.
    pub(super) fn bytes(&self) -> usize {
        self.message().map_or(0, |message| DELIVERY_BYTES + message.bytes())
    }

    /// Bytes that it takes of what its connection may have waiting. A subscriber may have all that
    /// is retained at once.
    fn own_bytes(&self) -> usize {
        if self.is_retained() { DELIVERY_BYTES } else { self.bytes() }
    }

    /// It is, or was, kept for whoever subscribes: many wait for the same message.
    pub(super) fn is_retained(&self) -> bool {
        match self {
            ToSocket::Tell(ToClient::Publish(Delivery { qos, retain, .. })) => *retain && *qos == Qos::AtMostOnce,
            ToSocket::Ack(_) | ToSocket::Tell(_) => false,
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
    /// Hands something over. It is seen after the next [`Exchange::ring`].
    ///
    /// # Errors
    /// [`NotTaken`]: there is no room.
    pub fn send(&mut self, what: ToSocket) -> Result<(), NotTaken> {
        let (bytes, refused) = (what.own_bytes(), what.not_taken());
        // What may be dropped is counted by its bytes, and everything else by number.
        match refused {
            NotTaken::Dropped if !self.has_room(&what, bytes) => return Err(refused),
            NotTaken::Dropped => {}
            NotTaken::Over if !self.has_place() => return Err(refused),
            NotTaken::Over => {
                self.sent = self.sent.wrapping_add(1);
                self.room -= 1;
            }
        }
        if bytes > 0 {
            self.queue.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.exchange.hold(&what);
        }
        self.exchange.hand(self.connection, Handed::ToSocket(what));
        Ok(())
    }

    fn has_place(&mut self) -> bool {
        if self.room == 0 {
            let waiting = self.sent.wrapping_sub(self.queue.taken.load(Ordering::Relaxed));
            self.room = self.len_max.saturating_sub(waiting);
        }
        self.room > 0
    }

    fn has_room(&self, what: &ToSocket, bytes: usize) -> bool {
        // One may have any size, but for the room of all. A few small ones are always taken.
        let waiting = self.queue.bytes.load(Ordering::Relaxed);
        let own = waiting.saturating_add(bytes);
        own <= CONNECTION_BYTES_MIN || ((waiting == 0 || own <= CONNECTION_BYTES_MAX) && self.exchange.has_room(what))
    }

    /// By which it hands over, and all others.
    pub fn exchange(&self) -> Arc<Exchange> {
        Arc::clone(&self.exchange)
    }
}

impl Drop for ClientOutbox {
    fn drop(&mut self) {
        self.exchange.hand(self.connection, Handed::End);
        self.exchange.ring();
    }
}

impl Queue {
    pub(super) fn put(&self, what: Handed) {
        let mut state = lock(&self.state);
        match what {
            Handed::ToSocket(what) => state.waiting.push_back(what),
            Handed::End => state.is_over = true,
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Outgoing {
    /// The next; `None`: the engine thread has given the connection up.
    pub async fn recv(&self) -> Option<ToSocket> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`Outgoing::recv`].
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Option<ToSocket>> {
        let mut state = lock(&self.queue.state);
        if let Some(what) = self.take(&mut state) {
            return Poll::Ready(Some(what));
        }
        if state.is_over {
            return Poll::Ready(None);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Something waits, and there is little room left for what others wait for.
    pub fn has_what_others_need(&self) -> bool {
        self.exchange.is_crowded() && self.queue.bytes.load(Ordering::Relaxed) > 0
    }

    /// The next has more bytes than this to send.
    pub fn is_next_larger(&self, bytes: usize) -> bool {
        match lock(&self.queue.state).waiting.front() {
            Some(ToSocket::Tell(ToClient::Publish(delivery))) => delivery.message.bytes() > bytes,
            Some(ToSocket::Ack(_) | ToSocket::Tell(_)) | None => false,
        }
    }

    /// The next, when it is there.
    pub fn recv_ready(&self) -> Option<ToSocket> {
        self.take(&mut lock(&self.queue.state))
    }

    fn take(&self, state: &mut State) -> Option<ToSocket> {
        let what = state.waiting.pop_front()?;
        if state.waiting.is_empty() && state.waiting.capacity() > KEPT_LEN {
            state.waiting = VecDeque::new();
        }
        if what.not_taken() == NotTaken::Over {
            self.queue.taken.fetch_add(1, Ordering::Relaxed);
        }
        let bytes = what.own_bytes();
        if bytes > 0 {
            self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.exchange.release(&what);
        }
        Some(what)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.exchange.remove(self.connection);
        // What was never sent takes no memory any more.
        let mut state = lock(&self.queue.state);
        while self.take(&mut state).is_some() {}
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

    fn deal(exchange: &Exchange) {
        exchange.deal_once(&mut Vec::new());
    }

    #[test]
    fn a_slow_client_loses_messages_at_qos_0_beyond_its_bytes() {
        let all = Exchange::new(10 * CONNECTION_BYTES_MAX);
        let (mut sender, receiver) = outbox(1, 10, &all);
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 2 * CONNECTION_BYTES_MAX)), Ok(()), "one of any size");
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 1)), Err(NotTaken::Dropped));
        assert_eq!(sender.send(ToSocket::Ack(1)), Ok(()), "acknowledgements take no room");
        assert_eq!(sender.send(delivery(Qos::AtLeastOnce, 1)), Ok(()), "these end by their number alone");
        deal(&all);
        assert!(
            receiver.is_next_larger(2 * CONNECTION_BYTES_MAX) && !receiver.is_next_larger(3 * CONNECTION_BYTES_MAX)
        );
        assert!(receiver.recv_ready().is_some());
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 1)), Ok(()));
        deal(&all);
        assert_eq!(sender.send(delivery(Qos::AtMostOnce, 1)), Ok(()));
        assert!(!receiver.is_next_larger(0), "an acknowledgement is next");
        drop(receiver);
        deal(&all);
        assert_eq!(all.bytes(), 0, "what was not sent is gone, wherever it was");
    }

    #[test]
    fn a_connection_ends_behind_what_it_was_handed_before() {
        let all = Exchange::new(1_000);
        let (mut sender, receiver) = outbox(1, 10, &all);
        assert_eq!(sender.send(ToSocket::Ack(7)), Ok(()));
        drop(sender);
        deal(&all);
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(receiver.poll_recv(&mut context), Poll::Ready(Some(ToSocket::Ack(7)))));
        assert!(matches!(receiver.poll_recv(&mut context), Poll::Ready(None)));
    }

    #[test]
    fn many_slow_clients_share_one_bound_and_those_who_read_have_room_for_a_few() {
        let all = Exchange::new(95_000);
        let mut clients: Vec<_> = (0..3).map(|number| outbox(number, 200, &all)).collect();
        let sent = clients.iter_mut().map(|(sender, _)| sender.send(delivery(Qos::AtMostOnce, 45_000)));
        assert_eq!(sent.collect::<Vec<_>>(), [Ok(()), Ok(()), Err(NotTaken::Dropped)]);
        assert!(clients[0].1.has_what_others_need() && !clients[2].1.has_what_others_need());
        let (mut fast, receiver) = outbox(9, 200, &all);
        assert_eq!(fast.send(delivery(Qos::AtLeastOnce, 45_000)), Ok(()));
        deal(&all);
        assert!(receiver.recv_ready().is_some() && all.bytes() < 95_000);
        let taken = (0..2_000).take_while(|_| fast.send(delivery(Qos::AtMostOnce, 50)).is_ok()).count();
        assert_eq!(taken, CONNECTION_BYTES_MIN / (DELIVERY_BYTES + 51), "whatever waits for others");
        drop((clients, receiver));
        deal(&all);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn a_large_message_counts_once_however_many_wait_for_it() {
        let all = Exchange::new(100_000);
        let mut clients: Vec<_> = (0..50).map(|number| outbox(number, 10, &all)).collect();
        let ToSocket::Tell(large) = delivery(Qos::AtMostOnce, 60_000) else { panic!("a delivery") };
        for (sender, _) in &mut clients {
            assert_eq!(sender.send(ToSocket::Tell(large.clone())), Ok(()));
        }
        assert!((60_000..70_000).contains(&all.bytes()), "{}", all.bytes());
        assert_eq!(outbox(99, 10, &all).0.send(delivery(Qos::AtMostOnce, 60_000)), Err(NotTaken::Dropped), "another");
        deal(&all);
        let (_, last) = clients.pop().expect("fifty");
        drop(clients);
        assert!(all.bytes() > 60_000, "it waits for one still");
        assert!(last.recv_ready().is_some());
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn what_is_retained_counts_for_all_with_its_bytes_and_once() {
        let retained = |bytes: usize| match delivery(Qos::AtMostOnce, bytes) {
            ToSocket::Tell(ToClient::Publish(it)) => ToSocket::Tell(ToClient::Publish(Delivery { retain: true, ..it })),
            ToSocket::Ack(_) | ToSocket::Tell(_) => panic!("a delivery"),
        };
        let all = Exchange::new(2 * CONNECTION_BYTES_MAX);
        let (mut sender, receiver) = outbox(1, 10, &all);
        // More than a connection may have waiting: all that is retained goes to a new subscriber.
        let taken = (0..10_000).take_while(|_| sender.send(retained(1_000)).is_ok()).count();
        assert!((900..1_000).contains(&taken), "{taken} of 1 KB in 1 MiB");
        assert!(all.bytes() <= 2 * CONNECTION_BYTES_MAX);
        drop((sender, receiver));
        deal(&all);
        assert_eq!(all.bytes(), 0);
        let mut clients: Vec<_> = (0..50).map(|number| outbox(number, 10, &all)).collect();
        let ToSocket::Tell(one) = retained(1_000) else { panic!("a delivery") };
        for (sender, _) in &mut clients {
            assert_eq!(sender.send(ToSocket::Tell(one.clone())), Ok(()));
        }
        assert!(all.bytes() < 50 * 200, "{}", all.bytes());
        drop(clients);
        deal(&all);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn a_queue_that_is_full_ends_the_connection() {
        let all = Exchange::new(1_000);
        let (mut sender, receiver) = outbox(1, 0, &all);
        (0..SPARE_LEN).for_each(|_| assert_eq!(sender.send(ToSocket::Ack(1)), Ok(())));
        assert_eq!(sender.send(ToSocket::Ack(1)), Err(NotTaken::Over));
        assert_eq!(all.bytes(), 0);
        deal(&all);
        assert!(receiver.recv_ready().is_some());
        assert_eq!(sender.send(ToSocket::Ack(1)), Ok(()), "there is room for one again");
        assert_eq!(sender.send(ToSocket::Ack(1)), Err(NotTaken::Over));
    }
}
