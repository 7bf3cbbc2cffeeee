//! A client as it should be: it keeps its half of a session, sends again what was not
//! acknowledged, and at `QoS` 2 takes nothing twice. It reads and answers when it likes to.

use std::collections::{BTreeSet, VecDeque};

use super::super::{Qos, ToClient};
use super::books::Told;

/// Messages that it has in flight at most.
pub(super) const IN_FLIGHT: u16 = 4;
/// It uses these packet ids in turn.
const PACKETS: u16 = 7;

/// What is on its way to it.
#[derive(Clone, Debug)]
pub(super) enum In {
    Said(ToClient),
    /// PUBACK or PUBREC.
    Ack(u16),
    /// A message at `QoS` 1 or 2, with what it is to the books.
    Message {
        packet: u16,
        qos: Qos,
        instance: u64,
    },
}

/// What became of what it has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read {
    /// The message of that number is acknowledged.
    Acknowledged(u64),
    /// A message at `QoS` 2 that it did not have.
    Once(u64),
    Other,
}

/// A message that is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) packet: u16,
    pub(super) told: Told,
    /// `QoS` 2: PUBREC came.
    pub(super) released: bool,
}

/// What it has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Ack(u16),
    Rec(u16),
    Comp(u16),
}

#[derive(Default, Debug)]
pub(super) struct Client {
    pub(super) connection: Option<u32>,
    /// CONNACK was read.
    pub(super) is_in: bool,
    pub(super) inbox: VecDeque<In>,
    pub(super) sent: Vec<Sent>,
    /// Packet ids that are to be sent, or released, once more.
    pub(super) again: VecDeque<u16>,
    pub(super) answers: Vec<Answer>,
    /// It has forgotten its session, and nobody has said yet that there is a new one.
    is_blank: bool,
    /// At `QoS` 2, what it has and was not told to forget.
    having: BTreeSet<u16>,
    last_packet: u16,
}

impl Client {
    pub(super) fn cut(&mut self) {
        let Client { sent, is_blank, having, last_packet, .. } = core::mem::take(self);
        *self = Client { sent, is_blank, having, last_packet, ..Client::default() };
    }

    /// It connects. Whether it begins anew, which it has to until that was answered.
    pub(super) fn connect(&mut self, connection: u32, clean: bool) -> bool {
        self.cut();
        self.connection = Some(connection);
        if clean {
            self.forget();
        }
        self.is_blank
    }

    /// Its session is over.
    pub(super) fn forget(&mut self) {
        self.is_blank = true;
        self.sent.clear();
        self.having.clear();
    }

    /// A packet id for something new; `None`: not now.
    pub(super) fn packet(&mut self) -> Option<u16> {
        if self.sent.len() >= usize::from(IN_FLIGHT) || !self.again.is_empty() {
            return None;
        }
        loop {
            self.last_packet = self.last_packet % PACKETS + 1;
            if self.sent.iter().all(|sent| sent.packet != self.last_packet) {
                return Some(self.last_packet);
            }
        }
    }

    /// Reads one thing, if there is one.
    pub(super) fn read(&mut self) -> Option<Read> {
        match self.inbox.pop_front()? {
            In::Ack(packet) => {
                let at = self.sent.iter().position(|sent| sent.packet == packet)?;
                let told = self.sent[at].told;
                if told.qos == Qos::AtLeastOnce {
                    self.sent.remove(at);
                } else if !self.sent[at].released {
                    self.sent[at].released = true;
                    self.again.push_back(packet);
                }
                return Some(Read::Acknowledged(told.no));
            }
            In::Said(ToClient::ConnAck { session_present }) => {
                if !session_present {
                    self.forget();
                }
                (self.is_in, self.is_blank) = (true, false);
                self.again = self.sent.iter().map(|sent| sent.packet).collect();
            }
            In::Message { packet, qos: Qos::ExactlyOnce, instance } => {
                self.answers.push(Answer::Rec(packet));
                if self.having.insert(packet) {
                    return Some(Read::Once(instance));
                }
            }
            In::Message { packet, .. } => self.answers.push(Answer::Ack(packet)),
            In::Said(ToClient::PubRel { packet, .. }) => {
                self.having.remove(&packet);
                self.answers.push(Answer::Comp(packet));
            }
            In::Said(ToClient::PubComp { packet, .. }) => self.sent.retain(|sent| sent.packet != packet),
            In::Said(
                ToClient::NoRoom
                | ToClient::SubAck { .. }
                | ToClient::UnsubAck { .. }
                | ToClient::Publish(_)
                | ToClient::Disconnect(_),
            ) => {}
        }
        Some(Read::Other)
    }
}
