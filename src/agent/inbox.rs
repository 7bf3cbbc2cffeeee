//! The one bounded queue into the engine thread: async senders, one blocking
//! receiver.
//!
//! **Full**: messages wait at the sender, which then stops reading its socket;
//! TCP pushes back and the broker queues. Room is counted in bytes, each
//! message as at least 1 KiB, so `INBOX_LEN` small messages or 4 MiB of large
//! ones wait at most, and never a mixture that is larger than either.
//! Messages that arrived in one piece travel in one piece: one wake-up of the
//! engine thread per read of the socket, not per message.
//!
//! Order is kept between everything one task sends. So nothing of a connection
//! can arrive after the `…Down` of that connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flume::{Receiver, RecvTimeoutError, Sender};
use tokio::sync::{Semaphore, oneshot};

use crate::engine::broker::packet::Connect;
use crate::engine::outbox::{LaneKind, Overview, Piece};
use crate::engine::samples::Verdict;
use crate::engine::spec::PipelineSpec;
use crate::engine::step::{Batch, BatchId, Command, LocalRecord, Refusal, UplinkTerms};
use crate::model::limits::{INBOX_BYTES_MAX, INBOX_LEN};
use crate::model::time::Span;

use super::mqtt::listener::outbox::ClientOutbox;
use super::mqtt::listener::packet::FromClient;
use super::rejected::frame::Kept;

/// What a message takes of the inbox at least.
const MESSAGE_COST_MIN: usize = INBOX_BYTES_MAX / INBOX_LEN;

/// What somebody wants to see of the outbox. Answered with copies: nothing is read or
/// encoded on the engine thread.
pub enum Look {
    /// What there is, in numbers.
    Overview(oneshot::Sender<Overview>),
    /// The first rows of a lane at or after a position.
    Piece {
        /// The lane.
        lane: LaneKind,
        /// The position.
        from: u64,
        /// Takes them; `None`: nothing is held there.
        answer: oneshot::Sender<Option<Piece>>,
    },
}

/// Everything that reaches the engine thread.
pub enum Input {
    /// Messages of the device broker.
    Messages(Burst),
    /// The device broker accepted a connection.
    DevicesUp {
        /// Counts connections of this process; part of every delivery tag.
        connection: u32,
        /// The broker kept our session.
        resumed: bool,
        /// Packet ids to acknowledge. Room for every packet id there is, so it
        /// is never full while the broker keeps to the protocol.
        acks: Sender<u16>,
        /// Takes what is to be published on this connection, best effort.
        commands: Sender<Command>,
        /// What is wrong although there is a connection; empty: nothing.
        notice: String,
    },
    /// The broker answered a subscription.
    DevicesSubscribed {
        /// Filters it refused; empty when all is well.
        refused: Vec<String>,
    },
    /// There is no connection to the device broker. Sent for failed attempts too.
    DevicesDown {
        /// For people.
        reason: String,
    },
    /// The uplink's broker accepted a connection.
    UplinkUp {
        /// Takes what is to be published on this connection, and dies with it.
        outbound: Sender<Outbound>,
        /// What the broker allows, when it says so.
        terms: Option<UplinkTerms>,
        /// What is wrong although there is a connection; empty: nothing.
        notice: String,
    },
    /// The uplink's broker acknowledged a batch of the present connection.
    UplinkAcked(BatchId),
    /// It does not take a batch of the present connection.
    UplinkRefused(BatchId, Refusal),
    /// What is wrong with the present uplink connection; empty: nothing any more.
    UplinkNotice(String),
    /// There is no uplink connection. Sent for failed attempts too.
    UplinkDown {
        /// For people.
        reason: String,
        /// The broker has ended it, and a batch in flight may be why.
        blames_a_batch: bool,
    },
    /// The device broker accepted the connection for local results.
    LocalUp {
        /// Takes what is to be published on this connection, and dies with it.
        records: Sender<LocalRecord>,
    },
    /// There is no such connection. Sent for failed attempts too.
    LocalDown {
        /// For people.
        reason: String,
    },
    /// The listener has let a client in.
    ClientUp {
        /// Its connection: [`DeliveryTag::CLIENTS`] or above, never used before.
        ///
        /// [`DeliveryTag::CLIENTS`]: crate::engine::step::DeliveryTag::CLIENTS
        connection: u32,
        /// What it said.
        connect: Box<Connect>,
        /// Takes what it is told.
        outbox: ClientOutbox,
    },
    /// What a client sent.
    FromClient(ClientBurst),
    /// A connection of the listener is over; the last of it.
    ClientDown {
        /// Which.
        connection: u32,
    },
    /// Somebody wants the status document.
    Query(oneshot::Sender<Vec<u8>>),
    /// Somebody wants to look into the outbox.
    Look(Look),
    /// Somebody wants samples of what was rejected to be taken in.
    Replay {
        /// Which; whole ones.
        samples: Vec<Kept>,
        /// Takes what became of each, in this order, once that is durable.
        answer: oneshot::Sender<Vec<Verdict>>,
    },
    /// Another configuration.
    Reconfigure(Box<Reconfigure>),
    /// Somebody far away wants something done.
    Order(Order),
    /// What is wrong with the configuration that was sent; empty: nothing any more.
    ConfigNotice(String),
    /// The network thread runs; the engine thread feeds systemd's watchdog on it.
    Pulse,
    /// Finish: final commit, offline status, then the thread ends.
    Stop {
        /// For the status document.
        reason: &'static str,
    },
}

/// Another configuration, between two commits.
pub struct Reconfigure {
    /// What the engine is to do.
    pub pipeline: PipelineSpec,
    /// Hash of the whole configuration.
    pub hash: String,
    /// Takes how many the process had before it, or why it stays with the one of before.
    pub answer: oneshot::Sender<Result<u32, String>>,
}

/// What somebody far away may want of the engine.
pub enum Order {
    /// All that was taken in is durable, and what waits for it is done.
    Flush(oneshot::Sender<Result<(), String>>),
    /// The same, and all of the state is in a snapshot.
    Snapshot(oneshot::Sender<Result<(), String>>),
    /// Devices of a stream, behind one of them in the order of their names.
    Devices {
        /// The stream.
        stream: String,
        /// Behind this one; empty: from the first on.
        after: String,
        /// At most so many.
        limit: usize,
        /// Takes a list; `None`: there is no such stream.
        answer: oneshot::Sender<Option<serde_json::Value>>,
    },
}

/// One MQTT PUBLISH, owned. The strings are those of the MQTT client: no copy.
#[derive(Debug)]
pub struct Arrival {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Bytes,
    /// Retained flag.
    pub retain: bool,
    /// Duplicate flag.
    pub dup: bool,
    /// Packet id; `None` at `QoS` 0.
    pub packet: Option<u16>,
}

/// Messages of one connection that arrived together.
#[derive(Debug)]
pub struct Burst {
    /// The connection they came by.
    pub connection: u32,
    /// In the order of arrival.
    pub messages: Vec<Arrival>,
}

/// Packets of one client that arrived together.
#[derive(Debug)]
pub struct ClientBurst {
    /// Its connection.
    pub connection: u32,
    /// In the order of arrival.
    pub packets: Packets,
}

/// Packets in the order of arrival. One alone, the usual case where messages trickle in,
/// travels without a list around it.
#[derive(Debug, Default)]
pub enum Packets {
    /// None.
    #[default]
    None,
    /// One.
    One(FromClient),
    /// More than one.
    Many(Vec<FromClient>),
}

impl Packets {
    /// One more; `expected`: of how many altogether.
    pub fn push(&mut self, packet: FromClient, expected: usize) {
        *self = match core::mem::take(self) {
            Packets::None => Packets::One(packet),
            Packets::One(first) => {
                let mut all = Vec::with_capacity(expected.max(2));
                all.extend([first, packet]);
                Packets::Many(all)
            }
            Packets::Many(mut all) => {
                all.push(packet);
                Packets::Many(all)
            }
        };
    }

    /// All of them.
    pub fn as_slice(&self) -> &[FromClient] {
        match self {
            Packets::None => &[],
            Packets::One(one) => core::slice::from_ref(one),
            Packets::Many(all) => all,
        }
    }
}

/// What goes to the uplink connection.
#[derive(Debug)]
pub enum Outbound {
    /// Publish at `QoS` 1 and report the acknowledgement.
    Batch(Batch),
    /// Publish as the retained status.
    Status {
        /// The document.
        document: Vec<u8>,
        /// How many configurations the process had before the one it speaks of.
        configuration: u32,
    },
    /// Publish as the retained status, wait for its acknowledgement, disconnect.
    Last(Vec<u8>),
}

/// The engine thread is gone; whoever sees this ends too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the engine thread has ended")]
pub struct Closed;

/// A way to tell the engine thread something.
#[derive(Clone)]
pub struct InboxSender {
    queue: Sender<Input>,
    room: Arc<Semaphore>,
}

/// The engine thread's end.
pub struct Inbox {
    queue: Receiver<Input>,
    room: Arc<Semaphore>,
}

/// Both ends.
pub fn inbox() -> (InboxSender, Inbox) {
    let (sender, receiver) = flume::bounded(INBOX_LEN);
    let room = Arc::new(Semaphore::new(INBOX_BYTES_MAX));
    (InboxSender { queue: sender, room: Arc::clone(&room) }, Inbox { queue: receiver, room })
}

impl Arrival {
    fn cost(&self) -> usize {
        (self.topic.len() + self.payload.len()).max(MESSAGE_COST_MIN)
    }
}

impl Burst {
    fn cost(&self) -> u32 {
        bounded(self.messages.iter().map(Arrival::cost).sum())
    }
}

impl ClientBurst {
    fn cost(&self) -> u32 {
        bounded(self.packets.as_slice().iter().map(|packet| packet.bytes().max(MESSAGE_COST_MIN)).sum())
    }
}

/// What so many bytes take of the inbox; all of it at most, so that a message of any size
/// gets through.
fn bounded(bytes: usize) -> u32 {
    u32::try_from(bytes.min(INBOX_BYTES_MAX)).expect("INBOX_BYTES_MAX fits 32 bits")
}

impl Input {
    /// What it takes of the inbox; `None`: its length is the bound.
    fn cost(&self) -> Option<u32> {
        if let Input::Messages(burst) = self {
            Some(burst.cost())
        } else if let Input::FromClient(burst) = self {
            Some(burst.cost())
        } else {
            None
        }
    }
}

impl InboxSender {
    /// Waits for room. For everything but messages the queue's length is the bound.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn send(&self, input: Input) -> Result<(), Closed> {
        if let Some(cost) = input.cost() {
            // Given back by the receiver, once the messages are out of memory.
            self.room.acquire_many(cost).await.map_err(|_| Closed)?.forget();
        }
        self.queue.send_async(input).await.map_err(|_| Closed)
    }

    /// Sends when nothing has to be waited for; else hands the input back.
    ///
    /// # Errors
    /// The input, when the inbox is full or the engine thread gone.
    pub fn send_ready(&self, input: Input) -> Result<(), Input> {
        let mut room = None;
        if let Some(cost) = input.cost() {
            match self.room.try_acquire_many(cost) {
                Ok(taken) => room = Some(taken),
                Err(_full) => return Err(input),
            }
        }
        self.queue.try_send(input).map_err(flume::TrySendError::into_inner)?;
        if let Some(room) = room {
            room.forget();
        }
        Ok(())
    }
}

impl Inbox {
    /// The next input; `None` after `wait` without one.
    ///
    /// # Errors
    /// [`Closed`]: nobody is left who could send.
    pub fn recv(&self, wait: Span) -> Result<Option<Input>, Closed> {
        match self.queue.recv_timeout(Duration::from_millis(wait.as_millis())) {
            Ok(input) => Ok(Some(input)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Closed),
        }
    }

    /// The next input, when one is waiting.
    pub fn recv_ready(&self) -> Option<Input> {
        self.queue.try_recv().ok()
    }

    /// Frees a burst whose messages have been handled and says what room it takes
    /// up until that is given back.
    pub fn free(&self, burst: Burst) -> usize {
        let room = burst.cost() as usize;
        drop(burst);
        room
    }

    /// As [`Inbox::free`].
    pub fn free_client(&self, burst: ClientBurst) -> usize {
        let room = burst.cost() as usize;
        drop(burst);
        room
    }

    /// Gives room back to the senders.
    pub fn give_back(&self, room: usize) {
        self.room.add_permits(room);
    }

    /// Both at once.
    pub fn release(&self, burst: Burst) {
        self.give_back(self.free(burst));
    }

    /// At least three quarters full: the senders are about to be held back.
    pub fn is_crowded(&self) -> bool {
        self.room.available_permits() <= INBOX_BYTES_MAX / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(payloads: &[usize]) -> Input {
        let messages = payloads.iter().map(|bytes| Arrival {
            topic: String::new(),
            payload: Bytes::from(vec![0; *bytes]),
            retain: false,
            dup: false,
            packet: None,
        });
        Input::Messages(Burst { connection: 1, messages: messages.collect() })
    }

    fn take(inbox: &Inbox) {
        match inbox.recv_ready() {
            Some(Input::Messages(burst)) => inbox.release(burst),
            _ => panic!("a burst is waiting"),
        }
    }

    #[test]
    fn small_messages_are_bounded_by_number_and_large_ones_by_bytes() {
        let (sender, inbox) = inbox();
        for _ in 0..INBOX_LEN / 64 {
            sender.send_ready(burst(&[1; 64])).unwrap_or_else(|_| panic!("there is room"));
        }
        assert!(inbox.is_crowded());
        assert!(sender.send_ready(burst(&[1])).is_err(), "one more than INBOX_LEN");
        take(&inbox);
        sender.send_ready(burst(&[64 * 1_024])).unwrap_or_else(|_| panic!("as many bytes as were freed"));
        assert!(sender.send_ready(burst(&[1])).is_err());
    }

    #[test]
    fn a_message_larger_than_the_inbox_gets_through_alone() {
        let (sender, inbox) = inbox();
        sender.send_ready(burst(&[2 * INBOX_BYTES_MAX])).unwrap_or_else(|_| panic!("alone"));
        assert!(sender.send_ready(burst(&[0])).is_err());
        take(&inbox);
        assert!(!inbox.is_crowded());
        sender.send_ready(burst(&[0])).unwrap_or_else(|_| panic!("all room is back"));
    }

    #[test]
    fn other_inputs_pass_a_full_inbox() {
        let (sender, inbox) = inbox();
        sender.send_ready(burst(&[INBOX_BYTES_MAX])).unwrap_or_else(|_| panic!("alone"));
        sender.send_ready(Input::Stop { reason: "test" }).unwrap_or_else(|_| panic!("no message, no bytes"));
        take(&inbox);
        assert!(matches!(inbox.recv(Span::ZERO), Ok(Some(Input::Stop { .. }))));
        drop(sender);
        assert!(matches!(inbox.recv(Span::ZERO), Err(Closed)));
    }
}
