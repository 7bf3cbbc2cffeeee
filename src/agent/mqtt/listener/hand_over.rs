//! What a client sends, on its way from the socket to the engine thread.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tracing::trace;

use crate::agent::inbox::{ClientBurst, Input, Packets};
use crate::model::time::{ProcTime, Span};

use super::access::Identity;
use super::connection::{Connection, Waiting};
use super::end::End;
use super::packet::FromClient;
use super::proto::{Proto, Read};
use super::reply::AckReason;

/// Bytes read at a time, into one buffer for all connections.
const READ_BYTES: usize = 32 * 1024;

/// "Unspecified error", which is all that both versions have in common: whether it is the topic
/// or the rules that are wrong is in our log and not for strangers.
const SUBSCRIPTION_REFUSED: u8 = 0x80;

thread_local! {
    static SCRATCH: std::cell::RefCell<Box<[u8]>> = std::cell::RefCell::new(vec![0; READ_BYTES].into());
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    /// Sends what was read to the engine thread. `Some`: it is full, and this waits for room.
    pub(super) fn hand_over(&mut self, who: &Identity) -> Result<Option<Waiting>, End> {
        let read = self.read.len();
        if read == 0 {
            return Ok(None);
        }
        let mut packets = Packets::None;
        let mut goodbye = false;
        let mut messages = 0;
        for read_one in self.read.drain(..) {
            // A second CONNECT is a fault of the protocol, and never gets here.
            let Read::Packet(mut packet) = read_one else { continue };
            match &mut packet {
                FromClient::Publish(publish) => {
                    messages += 1;
                    if !self.server.access.may_publish(who, publish.topic()) {
                        self.server.note_refused("publish_not_allowed", who, &self.peer, publish.topic());
                        if let Some(packet) = publish.packet {
                            // MQTT 3.1.1 has no way to say no: it is told that the message was taken.
                            self.proto.ack(packet, AckReason::NotAuthorized);
                        }
                        continue;
                    }
                }
                FromClient::Subscribe { filters, .. } => {
                    for filter in filters {
                        if !self.server.access.may_subscribe(who, &filter.filter) {
                            self.server.note_refused("subscribe_not_allowed", who, &self.peer, &filter.filter);
                            filter.refused = Some(SUBSCRIPTION_REFUSED);
                        }
                    }
                }
                FromClient::Disconnect { .. } => {
                    goodbye = true;
                }
                FromClient::PubAck { .. } | FromClient::PubComp { .. } => {
                    trace!(client = who.client_id, "acknowledged");
                }
                FromClient::Unsubscribe { .. } | FromClient::PubRec { .. } | FromClient::PubRel { .. } => {}
            }
            packets.push(packet, read);
        }
        self.slow_down(messages);
        let mut blocked: Option<Waiting> = None;
        if !packets.as_slice().is_empty() {
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
        let now = self.now;
        let earned = i64::try_from(now.since(self.allowed_at).as_millis()).unwrap_or(i64::MAX).saturating_mul(rate);
        self.allowance = self.allowance.saturating_add(earned).min(rate * 1_000) - messages * 1_000;
        self.allowed_at = now;
        if self.allowance < 0 {
            let wait = self.allowance.unsigned_abs() / rate.unsigned_abs() + 1;
            self.paused_until = now + Span::from_millis(wait);
        }
    }
}

/// Reads into the one buffer of all connections and decodes from there.
pub(super) fn poll_read_into<S: AsyncRead + Unpin>(
    context: &mut Context<'_>,
    stream: Pin<&mut S>,
    proto: &mut Proto,
    read: &mut Vec<Read>,
    now: ProcTime,
) -> Poll<Result<(), End>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buffer = ReadBuf::new(scratch);
        match stream.poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(End::Io(error))),
            Poll::Ready(Ok(())) => Poll::Ready(match buffer.filled() {
                [] => Err(End::Closed),
                bytes => proto.feed(bytes, now, read).map_err(End::from),
            }),
        }
    })
}
