//! One connection of the listener: bytes in, packets to the engine thread; what it allows, out.
//!
//! ```text
//! CONNECT ─▶ who is it? ─▶ engine: session ─commit─▶ CONNACK
//! packets ─▶ may it? ─▶ inbox (bounded: full means that the socket is not read)
//! acknowledgements, deliveries ◀─ outbox ◀─commit─ engine
//! ```
//!
//! Nothing here waits for the engine but its own socket: while the inbox is full, or the
//! client's window of unacknowledged messages is, it is not read, and TCP pushes back.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::yield_now;
use tracing::trace;

use crate::agent::clock::sleep;
use crate::agent::inbox::Closed;
use crate::engine::broker::packet::{Delivery, Farewell, Qos, ToClient};
use crate::model::time::{ProcTime, Span};

use super::access::Identity;
use super::end::End;
use super::hand_over::poll_read_into;
use super::outbox::{Outgoing, ToSocket};
use super::output::Output;
use super::packet::FromClient;
use super::proto::{Proto, Read};
use super::reply::{AckReason, Goodbye, Told};
use super::server::{Peer, Server};

/// For the last bytes, and for the client to close its side.
const LINGER: Span = Span::from_millis(500);
/// A half-received packet of this size is not dropped for the memory of all.
pub(super) const SMALL_BYTES: usize = 8 * 1024;

/// One connection that is served.
pub(super) struct Connection<'a, S> {
    pub(super) number: u32,
    pub(super) server: &'a Server,
    pub(super) peer: Peer,
    /// Its client id, once that is known.
    pub(super) client: String,
    pub(super) stream: S,
    pub(super) proto: Proto,
    /// Decoded and not handed over.
    pub(super) read: Vec<Read>,
    /// Encoded and not sent.
    output: Output,
    /// What was written may still wait in layers between, such as TLS.
    is_flushing: bool,
    /// Bytes of a packet that has not arrived whole, as counted in the sum of all.
    half_read: usize,
    timer: Option<Timer>,
    /// When it last had anything to do; read once per wake-up.
    pub(super) now: ProcTime,
    /// The client is not read before this.
    pub(super) paused_until: ProcTime,
    /// Messages that it may send at once, in thousandths.
    pub(super) allowance: i64,
    pub(super) allowed_at: ProcTime,
}

/// What can happen first.
enum Turn {
    Sent(io::Result<usize>),
    Broken(io::Error),
    Told(Option<ToSocket>),
    /// What has come to be sent has to wait until others have sent theirs.
    HeldBack,
    Room(Result<(), Closed>),
    Fed(Result<(), End>),
    Timer,
}

struct Timer {
    at: ProcTime,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whom it wakes already.
    wakes: Option<Waker>,
}

pub(super) type Waiting = Pin<Box<dyn Future<Output = Result<(), Closed>> + Send>>;

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(super) fn new(number: u32, server: &'a Server, peer: Peer, stream: S) -> Connection<'a, S> {
        let now = server.clock.proc();
        Connection {
            number,
            server,
            peer,
            client: String::new(),
            stream,
            proto: Proto::new(server.proto_limits, now),
            read: Vec::new(),
            output: Output::default(),
            is_flushing: false,
            half_read: 0,
            timer: None,
            now,
            paused_until: ProcTime::default(),
            allowance: 0,
            allowed_at: now,
        }
    }

    /// Serves a client that was let in, until one of both ends it.
    pub(super) async fn serve(&mut self, who: &Identity, outgoing: &Outgoing, stop: &watch::Receiver<bool>) -> End {
        let mut waiting: Option<Waiting> = None;
        self.now = self.server.clock.proc();
        // What came behind the CONNECT was kept.
        let mut ended = self.feed(&[]).err();
        loop {
            // An acknowledgement has made room for what came already.
            if self.read.is_empty() && ended.is_none() && self.proto.has_held_back() {
                ended = self.feed(&[]).err();
            }
            if waiting.is_none() {
                match self.hand_over(who) {
                    Ok(blocked) => waiting = blocked,
                    Err(end) => ended = Some(end),
                }
            }
            let idle = waiting.is_none() && self.read.is_empty();
            if idle && self.proto.is_closed() {
                // It said goodbye while the inbox was full: by now that is handed over.
                ended.get_or_insert(End::Goodbye);
            }
            if idle && let Some(end) = ended {
                return end;
            }
            if waiting.is_none() && ended.is_none() && self.read.is_empty() && self.proto.has_held_back() {
                // More came at once than one may have taken in at once: others are next.
                yield_now().await;
                continue;
            }
            let turn = self.turn(who, outgoing, &mut waiting, ended.is_some(), stop).await;
            if let Err(end) = turn {
                if let End::Slow | End::SentAway(_) | End::Io(_) | End::Stopping = end {
                    // What it sent before still counts, where it is on its way already.
                    if let Some(waiting) = waiting {
                        let _ = waiting.await;
                    }
                    return end;
                }
                ended.get_or_insert(end);
            }
        }
    }

    /// Waits for the first thing that can be done, and does it.
    async fn turn(
        &mut self,
        who: &Identity,
        outgoing: &Outgoing,
        waiting: &mut Option<Waiting>,
        ended: bool,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), End> {
        let now = self.now;
        self.output.append(self.proto.output());
        self.output.count(now, &self.server.encoded, self.server.limits.memory_bytes);
        let is_wanted = outgoing.has_what_others_need();
        if self.output.is_stuck(now, is_wanted) {
            return Err(End::Slow);
        }
        let is_full = self.output.is_full(0);
        let may_read = waiting.is_none() && !ended && !is_full;
        let reading = may_read && self.proto.wants_read() && self.paused_until <= now;
        let is_held_back = is_held_back(self.server, &mut self.proto, &self.output, outgoing);
        let telling = !is_full && !is_held_back;
        self.arm(now, may_read, is_held_back);
        let mut has_waited = false;
        let turn = poll_fn(|context| {
            if core::mem::replace(&mut has_waited, true) {
                self.now = self.server.clock.proc();
            }
            self.poll_turn(context, outgoing, waiting, telling, reading)
        });
        match turn.await {
            Turn::Sent(sent) => {
                match sent? {
                    0 => return Err(End::Closed),
                    sent => self.output.handle_sent(sent),
                }
                Ok(())
            }
            Turn::Broken(error) => Err(error.into()),
            Turn::Told(Some(what)) => self.send(who, what, outgoing),
            Turn::Told(None) if *stop.borrow() => Err(End::Stopping),
            Turn::Told(None) => Err(End::Slow),
            Turn::HeldBack => Ok(()),
            Turn::Room(room) => {
                *waiting = None;
                Ok(room?)
            }
            Turn::Fed(fed) => {
                fed?;
                self.count_half_read()
            }
            Turn::Timer => {
                self.timer = None;
                self.now = self.server.clock.proc();
                match self.proto.expired(self.now) {
                    Some(fault) if may_read => Err(fault.into()),
                    Some(_) | None => Ok(()),
                }
            }
        }
    }

    /// By hand, and not `select!`: this is half of what a message costs.
    fn poll_turn(
        &mut self,
        context: &mut Context<'_>,
        outgoing: &Outgoing,
        waiting: &mut Option<Waiting>,
        telling: bool,
        reading: bool,
    ) -> Poll<Turn> {
        let Connection { server, stream, proto, read, output, is_flushing, timer, now, .. } = self;
        let mut stream = Pin::new(stream);
        if !output.bytes().is_empty() {
            if let Poll::Ready(sent) = stream.as_mut().poll_write(context, output.bytes()) {
                *is_flushing = true;
                return Poll::Ready(Turn::Sent(sent));
            }
        } else if *is_flushing {
            match stream.as_mut().poll_flush(context) {
                Poll::Ready(Ok(())) => *is_flushing = false,
                Poll::Ready(Err(error)) => return Poll::Ready(Turn::Broken(error)),
                Poll::Pending => {}
            }
        }
        if telling {
            // What has come since this turn began came to others too, who may have encoded it.
            if is_held_back(server, proto, output, outgoing) {
                return Poll::Ready(Turn::HeldBack);
            }
            if let Poll::Ready(what) = outgoing.poll_recv(context) {
                return Poll::Ready(Turn::Told(what));
            }
        }
        if let Some(room) = waiting
            && let Poll::Ready(room) = room.as_mut().poll(context)
        {
            return Poll::Ready(Turn::Room(room));
        }
        if reading && let Poll::Ready(fed) = poll_read_into(context, stream, proto, read, *now) {
            return Poll::Ready(Turn::Fed(fed));
        }
        match timer {
            Some(timer) => timer.poll(context, *now).map(|()| Turn::Timer),
            None => Poll::Pending,
        }
    }

    /// Hands a few bytes to the protocol.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), End> {
        let fed = self.proto.feed(bytes, self.now, &mut self.read);
        self.count_half_read()?;
        Ok(fed?)
    }

    pub(super) fn count_half_read(&mut self) -> Result<(), End> {
        let now_half = self.proto.pending_bytes();
        let sum = &self.server.half_read;
        let before = std::mem::replace(&mut self.half_read, now_half);
        sum.fetch_add(now_half, Ordering::Relaxed);
        let total = sum.fetch_sub(before, Ordering::Relaxed).saturating_sub(before);
        if total > self.server.limits.memory_bytes && now_half > SMALL_BYTES {
            self.proto.goodbye(Goodbye::Broker(Farewell::QuotaExceeded));
            return Err(End::Memory);
        }
        Ok(())
    }

    /// Encodes what the engine allows, and what else is there already.
    fn send(&mut self, who: &Identity, first: ToSocket, outgoing: &Outgoing) -> Result<(), End> {
        let now = self.now;
        let mut next = Some(first);
        while let Some(what) = next {
            match what {
                ToSocket::Ack(packet) => self.proto.ack(packet, AckReason::Success),
                ToSocket::Tell(ToClient::Disconnect(why)) => {
                    self.proto.goodbye(Goodbye::Broker(why));
                    return Err(End::SentAway(why));
                }
                ToSocket::Tell(ToClient::ConnAck { .. } | ToClient::NoRoom) => {}
                ToSocket::Tell(what) => {
                    if let ToClient::SubAck { .. } = what {
                        trace!(client = who.client_id, "subscribed");
                    }
                    if let ToClient::Publish(Delivery { message, .. }) = &what
                        && !self.server.access.may_receive(who, &message.topic)
                    {
                        self.server.note_refused("delivery_not_allowed", who, &self.peer, &message.topic);
                        self.give_up(&what);
                    } else if let Told::TooLarge = self.proto.tell(&what, now) {
                        self.note_too_large(who, &what);
                        self.give_up(&what);
                    }
                }
            }
            let stops = self.output.is_full(self.proto.output().len())
                || is_held_back(self.server, &mut self.proto, &self.output, outgoing);
            next = if stops { None } else { outgoing.recv_ready() };
        }
        Ok(())
    }

    fn note_too_large(&self, who: &Identity, what: &ToClient) {
        if let ToClient::Publish(Delivery { message, .. }) = what {
            self.server.note_refused("delivery_too_large", who, &self.peer, &message.topic);
        }
    }

    /// The client takes no packets of this size, or may not have the message: to the broker, it
    /// has refused it.
    fn give_up(&mut self, what: &ToClient) {
        let ToClient::Publish(delivery) = what else { return };
        let Some(packet) = delivery.packet else { return };
        let refused = true;
        self.read.push(Read::Packet(match delivery.qos {
            Qos::AtMostOnce | Qos::AtLeastOnce => FromClient::PubAck { packet, refused },
            Qos::ExactlyOnce => FromClient::PubRec { packet, refused },
        }));
    }

    /// The timer is set again only when it would ring too late: deadlines mostly move away.
    fn arm(&mut self, now: ProcTime, may_read: bool, is_held_back: bool) {
        let far = now + Span::from_secs(60);
        let mut at = far;
        if may_read {
            at = at.min(self.proto.deadline().unwrap_or(far));
            if self.paused_until > now {
                at = at.min(self.paused_until);
            }
        }
        at = at.min(self.output.deadline(now, is_held_back).unwrap_or(far));
        if self.timer.as_ref().is_none_or(|timer| at < timer.at) {
            self.timer = Some(Timer { at, sleep: Box::pin(sleep(at.since(now))), wakes: None });
        }
    }

    /// The last bytes; then the client's side is waited for, or it would see a reset instead.
    pub(super) async fn close(&mut self) {
        self.output.append(self.proto.output());
        let deadline = sleep(LINGER);
        let ending = async {
            let _ = self.stream.write_all_buf(self.output.rest()).await;
            let _ = self.stream.shutdown().await;
            let mut rest = [0; 512];
            while let Ok(1..) = self.stream.read(&mut rest).await {}
        };
        tokio::select! {
            () = ending => {}
            () = deadline => {}
        }
    }
}

/// What comes next is too large, beside what is encoded for all.
fn is_held_back(server: &Server, proto: &mut Proto, output: &Output, outgoing: &Outgoing) -> bool {
    let max = output.message_max(proto.output().len(), &server.encoded, server.limits.memory_bytes);
    // Mostly there is room for any, and nothing has to be looked up.
    max < server.proto_limits.packet_bytes && outgoing.is_next_larger(max)
}

impl Timer {
    /// Looks at the sleep when it may be over, and once for whoever it has to wake.
    fn poll(&mut self, context: &mut Context<'_>, now: ProcTime) -> Poll<()> {
        let is_set = self.wakes.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if is_set && now < self.at {
            return Poll::Pending;
        }
        self.wakes = Some(context.waker().clone());
        self.sleep.as_mut().poll(context)
    }
}

impl<S> Drop for Connection<'_, S> {
    fn drop(&mut self) {
        self.server.half_read.fetch_sub(self.half_read, Ordering::Relaxed);
        self.output.uncount(&self.server.encoded);
    }
}
