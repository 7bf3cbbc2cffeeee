//! The device-side broker: `QoS` 1, one persistent session, an in-flight window.
//!
//! It sends in order, again with DUP and in order after a reconnect, and frees a
//! packet id when the PUBACK reaches it. What is on the wire when a connection
//! is torn is lost: deliveries and acknowledgements alike.
//!
//! One rule is kinder than MQTT: a packet id is not given to a message whose
//! twin (same topic and payload) had it before. When such a message is lost on
//! its first way, nobody can tell its redelivery from one of the twin. Brokers
//! that count ids upwards come back to an id long after the agent forgot it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use tidegate::model::rng::Rng;

use super::devices::Message;
use super::plan::{PacketIds, Plan, SessionLoss, as_len};

/// One PUBLISH to the agent.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub packet: Option<u16>,
    pub dup: bool,
    pub message: Rc<Message>,
}

struct InFlight {
    packet: u16,
    message: Rc<Message>,
    /// On the connection of now.
    sent: bool,
    /// On any.
    sent_before: bool,
}

pub(crate) struct Broker {
    window: usize,
    ids: PacketIds,
    loss: SessionLoss,
    next_packet: u16,
    queue: VecDeque<Rc<Message>>,
    in_flight: VecDeque<InFlight>,
    /// What was sent under each id, ever.
    sent_as: BTreeMap<u16, Vec<Rc<Message>>>,
    retained: BTreeMap<String, Rc<Message>>,
    /// Counts sessions; 0: there was none yet.
    session: u64,
    connected: bool,
    /// Sent and not arrived.
    wire: VecDeque<Delivery>,
    /// Acknowledgements on their way back.
    acks: VecDeque<u16>,
}

impl Broker {
    pub(crate) fn new(plan: &Plan) -> Broker {
        Broker {
            window: plan.window,
            ids: plan.ids,
            loss: plan.session,
            next_packet: first_packet(plan.ids),
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            sent_as: BTreeMap::new(),
            retained: BTreeMap::new(),
            session: 0,
            connected: false,
            wire: VecDeque::new(),
            acks: VecDeque::new(),
        }
    }

    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Nothing waits, nothing is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty() && self.wire.is_empty()
    }

    /// A device's message. `copy`: what is kept for new subscriptions.
    pub(crate) fn publish(&mut self, message: Message, copy: Option<Message>) {
        if let Some(copy) = copy {
            self.retained.insert(copy.topic.clone(), Rc::new(copy));
        }
        if message.confirmed && self.session > 0 || self.connected {
            self.queue.push_back(Rc::new(message));
        }
    }

    /// Topics with a retained message.
    pub(crate) fn retained(&self) -> Vec<Rc<Message>> {
        self.retained.values().cloned().collect()
    }

    /// A subscription: the retained messages come once more.
    pub(crate) fn queue_retained(&mut self, copies: Vec<Message>) {
        self.queue.extend(copies.into_iter().map(Rc::new));
    }

    /// CONNECT and CONNACK: true when the session was kept.
    pub(crate) fn connect(&mut self, rng: &mut Rng) -> bool {
        self.connected = true;
        let lost = match self.loss {
            SessionLoss::Never => false,
            SessionLoss::MessagesGone | SessionLoss::ResentUnmarked => rng.chance(4),
        };
        let resumed = self.session > 0 && !lost;
        if !resumed {
            self.start_session();
        }
        for entry in &mut self.in_flight {
            entry.sent = false;
        }
        resumed
    }

    fn start_session(&mut self) {
        let waiting = core::mem::take(&mut self.in_flight).into_iter().map(|entry| entry.message);
        if self.loss == SessionLoss::ResentUnmarked {
            let queued = core::mem::take(&mut self.queue);
            self.queue = waiting.chain(queued).collect();
        } else {
            self.queue.clear();
        }
        self.next_packet = first_packet(self.ids);
        self.session += 1;
    }

    /// The connection is gone. Of what was on the wire, a random part arrived:
    /// acknowledgements here, deliveries at the agent (they are returned).
    pub(crate) fn tear(&mut self, rng: &mut Rng) -> Vec<Delivery> {
        self.connected = false;
        let acked = as_len(rng.between(0, self.acks.len() as u64));
        for packet in self.acks.drain(..).take(acked).collect::<Vec<_>>() {
            self.free(packet);
        }
        self.acks.clear();
        let arrived = as_len(rng.between(0, self.wire.len() as u64));
        let arrived = self.wire.drain(..).take(arrived).collect();
        self.wire.clear();
        self.queue.retain(|message| message.confirmed);
        arrived
    }

    /// Puts on the wire what the window allows, at most `count`.
    pub(crate) fn send(&mut self, count: usize) {
        for _ in 0..count {
            let Some(delivery) = self.next_delivery() else { return };
            self.wire.push_back(delivery);
        }
    }

    /// The next delivery arrives at the agent.
    pub(crate) fn next_arrival(&mut self) -> Option<Delivery> {
        self.wire.pop_front()
    }

    /// The agent sends a PUBACK.
    pub(crate) fn handle_puback(&mut self, packet: u16) {
        self.acks.push_back(packet);
    }

    /// Acknowledgements arrive here.
    pub(crate) fn take_acks(&mut self, count: usize) {
        for packet in self.acks.drain(..count.min(self.acks.len())).collect::<Vec<_>>() {
            self.free(packet);
        }
    }

    fn free(&mut self, packet: u16) {
        self.in_flight.retain(|entry| entry.packet != packet);
    }

    fn next_delivery(&mut self) -> Option<Delivery> {
        if !self.connected {
            return None;
        }
        if let Some(entry) = self.in_flight.iter_mut().find(|entry| !entry.sent) {
            let dup = entry.sent_before;
            (entry.sent, entry.sent_before) = (true, true);
            return Some(Delivery { packet: Some(entry.packet), dup, message: Rc::clone(&entry.message) });
        }
        let next = self.queue.front()?;
        if !next.confirmed {
            let message = self.queue.pop_front()?;
            return Some(Delivery { packet: None, dup: false, message });
        }
        if self.in_flight.len() >= self.window {
            return None;
        }
        let message = self.queue.pop_front()?;
        let packet = self.packet_for(&message);
        self.sent_as.entry(packet).or_default().push(Rc::clone(&message));
        self.in_flight.push_back(InFlight { packet, message: Rc::clone(&message), sent: true, sent_before: true });
        Some(Delivery { packet: Some(packet), dup: false, message })
    }

    fn packet_for(&mut self, message: &Message) -> u16 {
        let is_twin = |known: &Rc<Message>| known.topic == message.topic && known.payload == message.payload;
        let usable = |packet: u16| {
            packet > 0
                && !self.in_flight.iter().any(|entry| entry.packet == packet)
                && !self.sent_as.get(&packet).is_some_and(|sent| sent.iter().any(is_twin))
        };
        let from = if self.ids == PacketIds::LowestFree { 1 } else { self.next_packet };
        let packet = (0..=u16::MAX).map(|step| from.wrapping_add(step)).find(|packet| usable(*packet));
        let packet = packet.expect("the window is far smaller than the number of ids");
        self.next_packet = packet.wrapping_add(1);
        packet
    }
}

fn first_packet(ids: PacketIds) -> u16 {
    match ids {
        PacketIds::Sequential { first } => first,
        PacketIds::LowestFree => 1,
    }
}
