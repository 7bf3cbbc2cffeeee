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

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tracing::{debug, trace};

use crate::agent::clock::sleep;
use crate::agent::inbox::{ClientBurst, Closed, Input};
use crate::engine::broker::packet::{Farewell, Qos, ToClient};
use crate::model::time::{ProcTime, Span};

use super::access::Identity;
use super::fault::Fault;
use super::outbox::{Outgoing, ToSocket};
use super::packet::{ClientPublish, FromClient};
use super::proto::{Proto, Read};
use super::reply::{AckReason, Goodbye, Told};
use super::server::{Peer, Server};

/// Bytes read at a time, into one buffer for all connections.
const READ_BYTES: usize = 32 * 1024;
/// Bytes of encoded output beyond which nothing more is encoded.
const OUTPUT_BYTES: usize = 64 * 1024;
/// For a client to take what it is sent. Else it is gone.
const WRITE_MAX: Span = Span::from_secs(10);
/// For the last bytes, and for the client to close its side.
const LINGER: Span = Span::from_millis(500);
/// A half-received packet of this size is not dropped for the memory of all.
const SMALL_BYTES: usize = 8 * 1024;

/// "Unspecified error", which is all that both versions have in common: whether it is the topic
/// or the rules that are wrong is in our log and not for strangers.
const SUBSCRIPTION_REFUSED: u8 = 0x80;

thread_local! {
    static SCRATCH: std::cell::RefCell<Box<[u8]>> = std::cell::RefCell::new(vec![0; READ_BYTES].into());
}

/// Why a connection ends, for its counter and the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("the client said goodbye")]
    Goodbye,
    #[error("the client closed the connection")]
    Closed,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("sent away: {0:?}")]
    SentAway(Farewell),
    #[error("{0}")]
    Refused(&'static str),
    #[error("it does not read what it is sent")]
    Slow,
    #[error("its half-sent packet takes memory that others need")]
    Memory,
    #[error("the agent stops")]
    Stopping,
}

impl From<Closed> for End {
    fn from(_: Closed) -> End {
        End::Stopping
    }
}

impl End {
    /// The name of its counter; `None`: nothing was wrong.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            End::Goodbye | End::Closed | End::Stopping | End::Io(_) => None,
            End::Fault(fault) => Some(fault.name()),
            End::SentAway(Farewell::TakenOver) => Some("taken_over"),
            End::SentAway(_) => Some("sent_away"),
            End::Refused(why) => Some(why),
            End::Slow => Some("too_slow"),
            End::Memory => Some("memory"),
        }
    }
}

/// One connection that is served.
pub(super) struct Connection<'a, S> {
    pub(super) number: u32,
    pub(super) server: &'a Server,
    pub(super) peer: Peer,
    pub(super) reader: ReadHalf<S>,
    pub(super) writer: WriteHalf<S>,
    pub(super) proto: Proto,
    /// Decoded and not handed over.
    pub(super) read: Vec<Read>,
    /// Encoded and not sent.
    out: BytesMut,
    /// Bytes of a packet that has not arrived whole, as counted in the sum of all.
    half_read: usize,
    timer: Option<(ProcTime, Timer)>,
    /// Since when the output waits.
    writing_since: Option<ProcTime>,
    /// The client is not read before this.
    paused_until: ProcTime,
    /// Messages that it may send at once, in thousandths.
    allowance: i64,
    allowed_at: ProcTime,
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;
type Waiting = Pin<Box<dyn Future<Output = Result<(), Closed>> + Send>>;

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(super) fn new(number: u32, server: &'a Server, peer: Peer, stream: S) -> Connection<'a, S> {
        let now = server.clock.proc();
        let (reader, writer) = tokio::io::split(stream);
        Connection {
            number,
            server,
            peer,
            reader,
            writer,
            proto: Proto::new(server.proto_limits, now),
            read: Vec::new(),
            out: BytesMut::new(),
            half_read: 0,
            timer: None,
            writing_since: None,
            paused_until: ProcTime::default(),
            allowance: 0,
            allowed_at: now,
        }
    }

    /// Serves a client that was let in, until one of both ends it.
    pub(super) async fn serve(&mut self, who: &Identity, outgoing: &Outgoing, stop: &mut watch::Receiver<bool>) -> End {
        let mut waiting: Option<Waiting> = None;
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
            if idle && let Some(end) = ended {
                debug!(%end, "a client's connection ends");
                return end;
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
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), End> {
        let now = self.server.clock.proc();
        let stopping = *stop.borrow() || stop.has_changed().is_err();
        let output = self.collect();
        if output == 0 {
            self.writing_since = None;
        } else if now.since(*self.writing_since.get_or_insert(now)) >= WRITE_MAX {
            return Err(End::Slow);
        }
        let may_read = waiting.is_none() && !ended && !stopping && output < OUTPUT_BYTES;
        let reading = may_read && self.proto.wants_read() && self.paused_until <= now;
        self.arm(now, may_read);
        let Connection { reader, writer, proto, read, out, timer, server, .. } = self;
        let (_, timer) = timer.as_mut().expect("it was armed");
        tokio::select! {
            biased;
            sent = writer.write_buf(out), if output > 0 => {
                if sent? == 0 {
                    return Err(End::Closed);
                }
                self.writing_since = None;
                Ok(())
            }
            what = outgoing.recv(), if output < OUTPUT_BYTES => match what {
                Some(what) => self.send(who, what, outgoing),
                None if stopping => Err(End::Stopping),
                None => Err(End::Slow),
            },
            room = async { waiting.as_mut().expect("guarded").await }, if waiting.is_some() => {
                *waiting = None;
                Ok(room?)
            }
            fed = read_into(reader, proto, read, server), if reading => {
                fed?;
                self.count_half_read()
            }
            () = timer => {
                self.timer = None;
                match self.proto.expired(self.server.clock.proc()) {
                    Some(fault) if may_read => Err(fault.into()),
                    Some(_) | None => Ok(()),
                }
            }
            _ = stop.wait_for(|stop| *stop), if !stopping => Ok(()),
        }
    }

    /// What the protocol has to say joins what waits to be sent. Returns its bytes.
    fn collect(&mut self) -> usize {
        let fresh = self.proto.output();
        if self.out.is_empty() {
            std::mem::swap(&mut self.out, fresh);
        } else if !fresh.is_empty() {
            self.out.extend_from_slice(fresh);
            fresh.clear();
        }
        self.out.len()
    }

    /// Hands a few bytes to the protocol.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), End> {
        let fed = self.proto.feed(bytes, self.server.clock.proc(), &mut self.read);
        self.count_half_read()?;
        Ok(fed?)
    }

    fn count_half_read(&mut self) -> Result<(), End> {
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

    /// Sends what was read to the engine thread. `Some`: it is full, and this waits for room.
    fn hand_over(&mut self, who: &Identity) -> Result<Option<Waiting>, End> {
        if self.read.is_empty() {
            return Ok(None);
        }
        let mut packets = Vec::with_capacity(self.read.len());
        let mut goodbye = false;
        let mut messages = 0;
        for read in self.read.drain(..) {
            // A second CONNECT is a fault of the protocol, and never gets here.
            let Read::Packet(packet) = read else { continue };
            match packet {
                FromClient::Publish(publish) => {
                    messages += 1;
                    if self.server.access.may_publish(who, &publish.topic) {
                        packets.push(FromClient::Publish(publish));
                    } else {
                        refuse_publish(&mut self.proto, self.server, who, &publish);
                    }
                }
                FromClient::Subscribe { packet, id, mut filters } => {
                    for filter in &mut filters {
                        if !self.server.access.may_subscribe(who, &filter.filter) {
                            self.server.note_refused("subscribe_not_allowed", who, &filter.filter);
                            filter.refused = Some(SUBSCRIPTION_REFUSED);
                        }
                    }
                    packets.push(FromClient::Subscribe { packet, id, filters });
                }
                FromClient::Disconnect { .. } => {
                    debug!(client = who.client_id, "said goodbye");
                    goodbye = true;
                    packets.push(packet);
                }
                FromClient::PubAck { .. } | FromClient::PubComp { .. } => {
                    trace!(client = who.client_id, "acknowledged");
                    packets.push(packet);
                }
                FromClient::Unsubscribe { .. } | FromClient::PubRec { .. } | FromClient::PubRel { .. } => {
                    packets.push(packet);
                }
            }
        }
        self.slow_down(messages);
        let mut blocked: Option<Waiting> = None;
        if !packets.is_empty() {
            let burst = Input::FromClient(ClientBurst { connection: self.number, packets });
            if let Err(burst) = self.server.inbox.send_ready(burst) {
                let inbox = self.server.inbox.clone();
                blocked = Some(Box::pin(async move { inbox.send(burst).await }));
            }
        }
        if goodbye && blocked.is_none() { Err(End::Goodbye) } else { Ok(blocked) }
    }

    /// Holds a client to its rate: what is above it is read later.
    fn slow_down(&mut self, messages: i64) {
        let rate = i64::from(self.server.limits.messages_per_second);
        if rate == 0 || messages == 0 {
            return;
        }
        let now = self.server.clock.proc();
        let earned = i64::try_from(now.since(self.allowed_at).as_millis()).unwrap_or(i64::MAX).saturating_mul(rate);
        self.allowance = self.allowance.saturating_add(earned).min(rate * 1_000) - messages * 1_000;
        self.allowed_at = now;
        if self.allowance < 0 {
            let wait = self.allowance.unsigned_abs() / rate.unsigned_abs() + 1;
            self.paused_until = now + Span::from_millis(wait);
        }
    }

    /// Encodes what the engine allows, and what else is there already.
    fn send(&mut self, who: &Identity, first: ToSocket, outgoing: &Outgoing) -> Result<(), End> {
        let now = self.server.clock.proc();
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
                    if let Told::TooLarge = self.proto.tell(&what, now) {
                        self.give_up(&what);
                    }
                }
            }
            let full = self.out.len() + self.proto.output().len() >= OUTPUT_BYTES;
            next = if full { None } else { outgoing.recv_ready() };
        }
        Ok(())
    }

    /// The client takes no packets of this size: to the broker, it has refused the message.
    fn give_up(&mut self, what: &ToClient) {
        self.server.facts.handle_refused("delivery_too_large");
        let ToClient::Publish(delivery) = what else { return };
        let Some(packet) = delivery.packet else { return };
        let refused = true;
        self.read.push(Read::Packet(match delivery.qos {
            Qos::AtMostOnce | Qos::AtLeastOnce => FromClient::PubAck { packet, refused },
            Qos::ExactlyOnce => FromClient::PubRec { packet, refused },
        }));
    }

    /// The timer is set again only when it would ring too late: deadlines mostly move away.
    fn arm(&mut self, now: ProcTime, may_read: bool) {
        let far = now + Span::from_secs(60);
        let mut at = far;
        if may_read {
            at = at.min(self.proto.deadline().unwrap_or(far));
            if self.paused_until > now {
                at = at.min(self.paused_until);
            }
        }
        if let Some(since) = self.writing_since {
            at = at.min(since + WRITE_MAX);
        }
        if self.timer.as_ref().is_none_or(|(set, _)| at < *set) {
            self.timer = Some((at, Box::pin(sleep(at.since(now)))));
        }
    }

    /// The last bytes; then the client's side is waited for, or it would see a reset instead.
    pub(super) async fn close(&mut self) {
        self.collect();
        let deadline = sleep(LINGER);
        let ending = async {
            let _ = self.writer.write_all_buf(&mut self.out).await;
            let _ = self.writer.shutdown().await;
            let mut rest = [0; 512];
            while let Ok(1..) = tokio::io::AsyncReadExt::read(&mut self.reader, &mut rest).await {}
        };
        tokio::select! {
            () = ending => {}
            () = deadline => {}
        }
    }
}

impl<S> Drop for Connection<'_, S> {
    fn drop(&mut self) {
        self.server.half_read.fetch_sub(self.half_read, Ordering::Relaxed);
    }
}

fn refuse_publish(proto: &mut Proto, server: &Server, who: &Identity, publish: &ClientPublish) {
    server.note_refused("publish_not_allowed", who, &publish.topic);
    if let Some(packet) = publish.packet {
        // MQTT 3.1.1 has no way to say no: it is told that the message was taken.
        proto.ack(packet, AckReason::NotAuthorized);
    }
}

/// Reads into the one buffer of all connections and decodes from there.
pub(super) async fn read_into<S: AsyncRead + AsyncWrite + Unpin>(
    reader: &mut ReadHalf<S>,
    proto: &mut Proto,
    read: &mut Vec<Read>,
    server: &Server,
) -> Result<(), End> {
    std::future::poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut *reader).poll_read(context, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Err(End::Io(error))),
                Poll::Ready(Ok(())) => Poll::Ready(match buffer.filled() {
                    [] => Err(End::Closed),
                    bytes => match proto.feed(bytes, server.clock.proc(), read) {
                        Ok(()) => Ok(()),
                        Err(fault) => Err(fault.into()),
                    },
                }),
            }
        })
    })
    .await
}
