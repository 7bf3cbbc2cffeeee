//! One connection of the listener: bytes in, packets out; answers in, bytes out. No socket, no
//! clock, no session: those are the caller's and the broker's.
//!
//! **Decision**: of mqtt-protocol-core 0.7.9 only the codec is used, and of that the properties
//! and reason codes of MQTT 5. Its `Connection` answers a repeated message at `QoS` 2 by itself
//! (before it is durable), panics on a legal CONNECT and on packet ids in use, and reads on
//! after errors; its parsers let through what a server must not (`gate.rs`). Without it a
//! PUBLISH costs a quarter, too.
//!
//! Nothing is answered here but PINGREQ and what ends the connection.
//!
//! ```text
//!   silent --CONNECT--> greeted --accept()--> open --DISCONNECT, fault, goodbye()--> closed
//!                          \------refuse()------------------------------------------^
//! ```
//!
//! Bounds: what is not decoded yet is at most one packet and one read; the client's topics
//! under aliases are counted with it ([`Proto::pending_bytes`]).

use bytes::{Buf, BytesMut};

use crate::engine::broker::packet::{Qos, ToClient};
use crate::model::time::{ProcTime, Span};

use super::alias::{Inbound, Outbound};
use super::connect;
use super::fault::Fault;
use super::frame::{self, Frame};
use super::packet::{ClientPublish, FromClient, Hello};
use super::read::{self, Context, Sent};
use super::reply::{AckReason, Goodbye, Refusal, Told};
use super::window::Window;
use super::write::{self, Terms};

/// SUBSCRIBEs and UNSUBSCRIBEs that may be unanswered. One can ask for all that is retained: whoever
/// sends many waits for the answers, and not everybody else.
const REQUESTS_MAX: usize = 4;
/// Packets that are decoded at once: nobody is to wait for thousands of somebody else's.
const PACKETS_MAX: usize = 512;
/// The first byte of a CONNECT.
const CONNECT: u8 = 0x10;

/// What a connection is held to.
#[derive(Clone, Copy, Debug)]
pub struct ProtoLimits {
    /// Bytes of the largest packet.
    pub packet_bytes: usize,
    /// Bytes of the first packet, which anybody may send.
    pub connect_bytes: usize,
    /// Messages at `QoS` 1 and 2 of the client that may be unanswered. At least 1. MQTT 5
    /// clients are told and have to keep to it; of others no more is read meanwhile.
    pub in_flight: u16,
    /// Longest keep-alive of MQTT 5 clients, which stands for "none" and for longer ones: they are
    /// told. Others cannot be, and would be cut off for keeping to what they said. `Span::ZERO`:
    /// no bound.
    pub keep_alive_max: Span,
    /// Topic aliases that a client may use.
    pub topic_alias_max: u16,
    /// From the start to the whole CONNECT.
    pub connect_within: Span,
    /// Longest session expiry; whoever asks for more gets this.
    pub session_expiry_max_secs: u32,
}

/// What is granted with [`Proto::accept`].
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'a> {
    /// The client id, where the client has none.
    pub assigned_client_id: Option<&'a str>,
    /// How long its session outlives the connection.
    pub session_expiry_secs: u32,
}

/// What a connection reads.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// Once, first. Nothing is decoded after it until the client is let in.
    Hello(Box<Hello>),
    /// All else.
    Packet(FromClient),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Silent,
    Greeted,
    Open,
    Closed,
}

/// One connection.
#[derive(Debug)]
pub struct Proto {
    limits: ProtoLimits,
    stage: Stage,
    is_v5: bool,
    /// Not decoded: an incomplete packet, or what came while nothing is read.
    pending: BytesMut,
    out: BytesMut,
    /// When the last whole packet came, or reading went on.
    heard_at: ProcTime,
    /// `Span::ZERO`: none.
    keep_alive: Span,
    /// Where it is not what the client asked for.
    keep_alive_changed_secs: Option<u16>,
    /// Reading is, or was just, stopped by us: silence meanwhile is not the client's.
    was_paused: bool,
    /// What is kept was not looked at yet: there was too much of it.
    has_more: bool,
    window: Window,
    /// Unanswered ones.
    requests: usize,
    inbound: Inbound,
    outbound: Outbound,
    /// Bytes of the largest packet that the client takes.
    client_packet_max: usize,
    asked_session_expiry_secs: u32,
}

impl Proto {
    /// A connection that has just come.
    pub fn new(limits: ProtoLimits, now: ProcTime) -> Proto {
        let limits = ProtoLimits { in_flight: limits.in_flight.max(1), ..limits };
        Proto {
            limits,
            stage: Stage::Silent,
            is_v5: false,
            pending: BytesMut::new(),
            out: BytesMut::new(),
            heard_at: now,
            keep_alive: Span::ZERO,
            keep_alive_changed_secs: None,
            was_paused: false,
            has_more: false,
            window: Window::new(false),
            requests: 0,
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            client_packet_max: usize::MAX,
            asked_session_expiry_secs: 0,
        }
    }

    /// Takes bytes and decodes what is whole, `into`, until there are `PACKETS_MAX`. What came
    /// while [`Proto::wants_read`] was false, or beyond that, is kept: see
    /// [`Proto::has_held_back`].
    ///
    /// # Errors
    /// What was decoded before counts all the same. The farewell, where the version has one, is
    /// in the output; nothing is read any more.
    pub fn feed(&mut self, bytes: &[u8], now: ProcTime, into: &mut Vec<Read>) -> Result<(), Fault> {
        if self.stage == Stage::Closed {
            return Ok(());
        }
        self.resume(now);
        let result = if self.pending.is_empty() {
            self.decode(bytes, now, into).map(|done| self.pending.extend_from_slice(&bytes[done..]))
        } else {
            let mut pending = core::mem::take(&mut self.pending);
            pending.extend_from_slice(bytes);
            self.decode(&pending, now, into).map(|done| {
                let rest = pending.len() - done;
                // The rest of a large packet is not kept in its room. (A part that is smaller than
                // what is done costs no more to copy than that did.) And an idle connection
                // holds no buffer at all.
                if rest <= done {
                    self.pending = BytesMut::from(&pending[done..]);
                } else {
                    pending.advance(done);
                    self.pending = pending;
                }
            })
        };
        self.was_paused = !self.wants_read();
        self.has_more = into.len() >= PACKETS_MAX;
        if self.stage == Stage::Closed {
            self.pending = BytesMut::new();
        }
        result.inspect_err(|fault| self.fail(fault))
    }

    /// False: nothing more is decoded for now, so nothing should be read. After the CONNECT until
    /// the client is let in; while so many requests are unanswered as may be; MQTT 3.1.1: while as many messages as may be are unanswered (an
    /// MQTT 5 client keeps to what it was told, or its connection ends); after the end.
    pub fn wants_read(&self) -> bool {
        match self.stage {
            Stage::Silent => true,
            Stage::Open => {
                self.requests < REQUESTS_MAX && (self.is_v5 || self.window.count() < usize::from(self.limits.in_flight))
            }
            Stage::Greeted | Stage::Closed => false,
        }
    }

    /// Bytes were kept that could be decoded now: call [`Proto::feed`], if only with none.
    pub fn has_held_back(&self) -> bool {
        (self.was_paused || self.has_more) && !self.pending.is_empty() && self.wants_read()
    }

    /// Lets the client in, which was [greeted](Read::Hello). Else: nothing.
    pub fn accept(&mut self, session_present: bool, client: &Accepted<'_>, now: ProcTime) {
        if self.stage != Stage::Greeted {
            return;
        }
        let changed = client.session_expiry_secs != self.asked_session_expiry_secs;
        let terms = Terms {
            receive_max: self.limits.in_flight,
            packet_max: u32::try_from(self.limits.packet_bytes).unwrap_or(u32::MAX),
            topic_alias_max: self.limits.topic_alias_max,
            client_id: client.assigned_client_id,
            keep_alive_secs: self.keep_alive_changed_secs,
            session_expiry_secs: changed.then_some(client.session_expiry_secs),
        };
        write::welcome(&mut self.out, session_present, self.is_v5.then_some(terms));
        self.stage = Stage::Open;
        self.heard_at = now;
    }

    /// Turns the client away, which was greeted. Else: nothing is written. Then it is over.
    pub fn refuse(&mut self, why: Refusal) {
        if self.stage == Stage::Greeted {
            let code = if self.is_v5 { why.code() } else { why.return_code() };
            write::refusal(&mut self.out, code, self.is_v5);
        }
        self.close();
    }

    /// Answers a message, with PUBACK or PUBREC, as it came. Nothing for a packet id that
    /// waits for no answer.
    pub fn ack(&mut self, packet: u16, reason: AckReason) {
        if self.stage != Stage::Open {
            return;
        }
        let code = if self.is_v5 { reason.code() } else { 0 };
        if let Some(answer) = self.window.answer(packet, code >= 0x80) {
            write::answer(&mut self.out, answer, packet, code);
        }
    }

    /// Writes what the broker says.
    pub fn tell(&mut self, what: &ToClient, now: ProcTime) -> Told {
        let code = |found: bool| if self.is_v5 && !found { 0x92 } else { 0 };
        match (self.stage, what) {
            (Stage::Greeted, ToClient::ConnAck { session_present }) => {
                let session_expiry_secs = self.asked_session_expiry_secs.min(self.limits.session_expiry_max_secs);
                self.accept(*session_present, &Accepted { assigned_client_id: None, session_expiry_secs }, now);
            }
            (Stage::Greeted, ToClient::NoRoom) => self.refuse(Refusal::QuotaExceeded),
            (Stage::Greeted | Stage::Open, ToClient::Disconnect(why)) => self.goodbye(Goodbye::Broker(*why)),
            (Stage::Open, ToClient::SubAck { packet, codes }) => {
                self.requests = self.requests.saturating_sub(1);
                write::suback(&mut self.out, *packet, codes, self.is_v5);
            }
            (Stage::Open, ToClient::UnsubAck { packet, codes }) => {
                self.requests = self.requests.saturating_sub(1);
                write::unsuback(&mut self.out, *packet, codes, self.is_v5);
            }
            (Stage::Open, ToClient::PubRel { packet, found }) => {
                write::release(&mut self.out, *packet, code(*found));
            }
            (Stage::Open, ToClient::PubComp { packet, found }) => {
                write::complete(&mut self.out, *packet, code(*found));
                self.window.complete(*packet);
            }
            (Stage::Open, ToClient::Publish(delivery)) => {
                let topic = &*delivery.message.topic;
                let written = self.is_v5.then(|| self.outbound.look_up(topic));
                if !write::publish(&mut self.out, delivery, written, self.client_packet_max) {
                    return Told::TooLarge;
                }
                if let Some(written) = written {
                    self.outbound.note(topic, written);
                }
            }
            _ => return Told::Closed,
        }
        Told::Written
    }

    /// What waits to be written. Whoever writes takes it out.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// When [`Proto::expired`] is to be called; it may move, and an early call does no harm.
    pub fn deadline(&self) -> Option<ProcTime> {
        match self.stage {
            Stage::Silent => Some(self.heard_at + self.limits.connect_within),
            Stage::Open if self.keep_alive != Span::ZERO && self.wants_read() => Some(self.heard_at + self.keep_alive),
            Stage::Open | Stage::Greeted | Stage::Closed => None,
        }
    }

    /// Whether there is a time after which the client's silence means that it is gone.
    pub fn has_keep_alive(&self) -> bool {
        self.keep_alive != Span::ZERO
    }

    /// Whether the client has been silent for too long. The farewell is in the output then.
    pub fn expired(&mut self, now: ProcTime) -> Option<Fault> {
        self.resume(now);
        self.deadline().filter(|deadline| *deadline <= now)?;
        let fault = if self.stage == Stage::Silent { Fault::ConnectTimeout } else { Fault::KeepAlive };
        self.fail(&fault);
        Some(fault)
    }

    /// Bytes that are kept for the client beside the output: what is not decoded, and topics
    /// under its aliases.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len() + self.inbound.bytes()
    }

    /// Sends the client away: DISCONNECT in MQTT 5, a refusal where it is not let in yet.
    pub fn goodbye(&mut self, why: Goodbye) {
        match self.stage {
            Stage::Open if self.is_v5 => write::disconnect(&mut self.out, why.code()),
            Stage::Greeted => {
                // CONNACK has fewer codes than DISCONNECT.
                let why = why.as_refusal();
                let code = if self.is_v5 { why.code() } else { why.return_code() };
                write::refusal(&mut self.out, code, self.is_v5);
            }
            Stage::Silent | Stage::Open | Stage::Closed => {}
        }
        self.close();
    }

    /// It is over: to be closed as soon as the output is written.
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    fn close(&mut self) {
        self.stage = Stage::Closed;
        self.pending = BytesMut::new();
    }

    /// Silence counts from now on, where it was ours.
    fn resume(&mut self, now: ProcTime) {
        if self.was_paused && self.wants_read() {
            self.was_paused = false;
            self.heard_at = now;
        }
    }

    /// Decodes packets as long as there are whole ones and they are wanted. Bytes of them.
    fn decode(&mut self, bytes: &[u8], now: ProcTime, into: &mut Vec<Read>) -> Result<usize, Fault> {
        let mut done = 0;
        while self.wants_read() && done < bytes.len() && into.len() < PACKETS_MAX {
            let left = &bytes[done..];
            let found = if self.stage == Stage::Silent {
                self.first(left)?
            } else {
                frame::frame(left, self.limits.packet_bytes)?
            };
            let Some(frame) = found else { break };
            self.packet(frame, now, into)?;
            done += frame.bytes;
        }
        Ok(done)
    }

    /// The first packet. Its version is learnt before anything can be wrong with it, as far as
    /// it is there: the refusal is in it.
    fn first<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, Fault> {
        if let Some(first) = bytes.first().filter(|first| **first != CONNECT) {
            return Err(Fault::NotMqtt(*first));
        }
        let found = frame::frame(bytes, self.limits.connect_bytes);
        match &found {
            Ok(Some(frame)) => self.is_v5 = connect::is_v5(frame.body)?,
            Ok(None) => {}
            Err(_) => {
                let body =
                    bytes.iter().skip(1).position(|byte| *byte < 0x80).map_or(&[][..], |last| &bytes[last + 2..]);
                self.is_v5 = connect::is_v5(body) == Ok(true);
            }
        }
        found
    }

    fn packet(&mut self, frame: Frame<'_>, now: ProcTime, into: &mut Vec<Read>) -> Result<(), Fault> {
        if self.stage == Stage::Silent {
            let mut hello = connect::read(frame.body, self.is_v5)?;
            self.greeted(&hello);
            let expiry_secs = &mut hello.connect.session_expiry_secs;
            *expiry_secs = (*expiry_secs).min(self.limits.session_expiry_max_secs);
            into.push(Read::Hello(Box::new(hello)));
            return Ok(());
        }
        self.heard_at = now;
        let mut context = Context {
            is_v5: self.is_v5,
            aliases: &mut self.inbound,
            session_expiry_secs: self.asked_session_expiry_secs,
        };
        match read::packet(frame, &mut context)? {
            Sent::Ping => write::pong(&mut self.out),
            Sent::Packet(mut packet) => {
                match &mut packet {
                    FromClient::Publish(publish) => self.open(publish)?,
                    FromClient::Disconnect { session_expiry_secs, .. } => {
                        let max = self.limits.session_expiry_max_secs;
                        *session_expiry_secs = session_expiry_secs.map(|secs| secs.min(max));
                        self.stage = Stage::Closed;
                    }
                    FromClient::Subscribe { .. } | FromClient::Unsubscribe { .. } => self.requests += 1,
                    FromClient::PubAck { .. }
                    | FromClient::PubRec { .. }
                    | FromClient::PubRel { .. }
                    | FromClient::PubComp { .. } => {}
                }
                into.push(Read::Packet(packet));
            }
        }
        Ok(())
    }

    fn open(&mut self, publish: &ClientPublish) -> Result<(), Fault> {
        let Some(packet) = publish.packet else { return Ok(()) };
        self.window.open(packet, publish.qos == Qos::ExactlyOnce)?;
        if self.window.count() > usize::from(self.limits.in_flight) {
            return Err(Fault::ReceiveMaximum(self.limits.in_flight));
        }
        Ok(())
    }

    fn greeted(&mut self, hello: &Hello) {
        let asked = Span::from_secs(hello.keep_alive_secs.into());
        let max = self.limits.keep_alive_max;
        let is_changed = self.is_v5 && max != Span::ZERO && (asked == Span::ZERO || asked > max);
        if is_changed {
            let secs = u16::try_from(max.as_millis() / 1_000).unwrap_or(u16::MAX).max(1);
            self.keep_alive_changed_secs = Some(secs);
        }
        let secs = self.keep_alive_changed_secs.unwrap_or(hello.keep_alive_secs);
        self.keep_alive = Span::from_millis(u64::from(secs) * 1_500);
        self.asked_session_expiry_secs = hello.connect.session_expiry_secs;
        self.client_packet_max = hello.packet_max.map_or(usize::MAX, |max| max as usize);
        self.window = Window::new(self.is_v5);
        self.inbound = Inbound::new(if self.is_v5 { self.limits.topic_alias_max } else { 0 });
        self.outbound = Outbound::new(hello.topic_alias_max);
        self.stage = Stage::Greeted;
        self.was_paused = true;
    }

    /// Says what is wrong, as far as the version has words for it, and closes.
    fn fail(&mut self, fault: &Fault) {
        match (self.stage, fault) {
            (Stage::Silent, Fault::Version(level)) => {
                // Above 5 something newer speaks, which knows the form of 5. Bridges set the
                // highest bit and are of 3.1.1.
                let (code, is_v5) = if matches!(level, 6..0x80) { (fault.code(), true) } else { (1, false) };
                write::refusal(&mut self.out, code, is_v5);
            }
            (Stage::Silent, _) if self.is_v5 => write::refusal(&mut self.out, fault.code(), true),
            (Stage::Silent, Fault::ClientId(_)) => {
                write::refusal(&mut self.out, Refusal::BadClientId.return_code(), false);
            }
            (Stage::Open, _) if self.is_v5 => write::disconnect(&mut self.out, fault.code()),
            _ => {}
        }
        self.close();
    }
}

#[cfg(test)]
mod tests;
