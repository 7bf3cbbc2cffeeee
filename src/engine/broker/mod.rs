//! The broker behind the listener: sessions, subscriptions, retained messages, last wills.
//!
//! Pure, and part of the state: what a client was promised is in the same commit as what its
//! messages did to the windows.
//!
//! ```text
//!            handle ─▶ connection ─▶ sessions ──┐ subscribe
//! client ─┤                                     ▼
//!            take_publish ─▶ route ─▶ subscriptions ─▶ outgoing (QoS 1, 2) ─┐ deliver
//!                              └────▶ retained                              ▼
//!                                          QoS 0 ──────────────▶ ready ─▶ take_ready
//!                                          after the commit ◀── waiting
//! ```
//!
//! What waits for the commit: CONNACK when a session was made or ended that is stored; SUBACK,
//! UNSUBACK, PUBREL and PUBCOMP of a session that is stored; every delivery that comes from a
//! message at `QoS` 1 or 2. Everything else goes at once. Nothing goes to a connection before
//! its CONNACK, and nothing overtakes at the same `QoS`.
//!
//! Stored are sessions that outlive their connection, with subscriptions and queue, and the
//! retained messages. Deadlines are stored as what is left of them. Not stored: wills (with the
//! process, all connections end at once, and most clients are back before their will says
//! anything true), counters, whose turn it is in a shared subscription.
//!
//! Bounds are [`BrokerLimits`]; filters beyond 1,024 bytes or 128 levels are refused (0x97).

mod catch_up;
mod connection;
mod deliver;
mod inbound;
pub mod limits;
mod messages;
mod outgoing;
pub mod packet;
mod persist;
mod relief;
mod retained;
mod route;
mod session;
mod shared;
pub mod status;
mod subscribe;
mod subscriptions;
#[cfg(test)]
mod tests;
mod will;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::model::time::{ClockQuality, Now, ProcTime, WallTime};

use self::catch_up::CatchUp;
use self::limits::BrokerLimits;
use self::messages::{Messages, size_of};
use self::packet::{ClientEvent, Delivery, Farewell, Message, ToClient};
use self::retained::RetainedStore;
use self::session::{Session, SessionNo};
use self::status::Counters;
use self::subscriptions::{Found, Tree};

pub use self::inbound::Seen;

/// What may be sent at once: beyond, it is asked for before the next packet is taken in. One
/// message to very many subscribers may be more.
const READY_MANY: usize = 2_048;
/// The same for bytes.
const READY_BYTES: usize = 512 * 1024;
/// Entries for which the list keeps its memory.
const READY_KEPT: usize = 2 * READY_MANY;
/// Messages at `QoS` 2 of one client that may be between PUBREC and PUBREL where the client knows
/// no receive maximum: their PUBRELs may be behind others of its messages in its socket.
const INBOUND_V311: usize = 2_048;

/// Bytes of a delivery, its message aside.
const DELIVERY_BYTES: usize = 128;

/// All state of the listener that outlives a packet.
#[derive(Debug)]
pub struct Broker {
    limits: BrokerLimits,
    /// At the last input: what a commit releases is sent by this time.
    now: Now,
    sessions: BTreeMap<SessionNo, Session>,
    names: BTreeMap<Box<str>, SessionNo>,
    next_session: u64,
    links: HashMap<u32, Link, FixedState>,
    tree: Tree,
    /// Bytes of all subscriptions, beside the levels in the tree.
    filter_bytes: usize,
    /// Bytes of those that have changed since the last commit.
    changed_filter_bytes: usize,
    found: Found,
    messages: Messages,
    retained: RetainedStore,
    /// When a session ends or its will is due.
    deadlines: BTreeSet<(ProcTime, SessionNo)>,
    ready: Vec<(u32, ToClient)>,
    /// Bytes of the deliveries among it.
    ready_bytes: usize,
    /// For the coming commit.
    waiting: Vec<(u32, ToClient)>,
    /// Bytes of the deliveries among it.
    waiting_bytes: usize,
    /// Sessions that may send something after it.
    touched: BTreeSet<SessionNo>,
    /// Sessions with changes, of those that are stored.
    dirty: BTreeSet<SessionNo>,
    /// Sessions that were stored and are over.
    ended: BTreeSet<SessionNo>,
    wills: Vec<Arc<Message>>,
    /// Wills that are to be published, while one is.
    announcements: VecDeque<(Option<SessionNo>, Message)>,
    is_announcing: bool,
    catch_up: CatchUp,
    /// Messages at `QoS` 2 of all sessions that are not released.
    inbound: usize,
    counters: Counters,
}

/// A connection that was let in and is not over.
#[derive(Clone, Copy, Debug)]
struct Link {
    session: SessionNo,
    /// It knows a receive maximum, and keeps to it.
    is_v5: bool,
    /// CONNACK is out.
    admitted: bool,
    /// What waits for the commit.
    held: usize,
    /// Deliveries at `QoS` 0 among it.
    held_publishes: usize,
}

impl Broker {
    /// A broker without sessions.
    pub fn new(limits: BrokerLimits) -> Broker {
        Broker {
            limits,
            now: Now { proc: ProcTime::default(), wall: WallTime::from_millis(0), quality: ClockQuality::Unsynced },
            sessions: BTreeMap::new(),
            names: BTreeMap::new(),
            next_session: 0,
            links: HashMap::default(),
            tree: Tree::default(),
            filter_bytes: 0,
            changed_filter_bytes: 0,
            found: Found::default(),
            messages: Messages::default(),
            retained: RetainedStore::default(),
            deadlines: BTreeSet::new(),
            ready: Vec::new(),
            ready_bytes: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            touched: BTreeSet::new(),
            dirty: BTreeSet::new(),
            ended: BTreeSet::new(),
            wills: Vec::new(),
            announcements: VecDeque::new(),
            is_announcing: false,
            catch_up: CatchUp::default(),
            inbound: 0,
            counters: Counters::default(),
        }
    }

    /// Other bounds from now on. What is beyond them stays until it goes by itself.
    pub fn set_limits(&mut self, limits: BrokerLimits) {
        self.limits = limits;
    }

    /// Takes in what a connection reports, but for [`ClientEvent::Publish`], which goes through
    /// [`Broker::take_publish`] and [`Broker::route`]. Of connections that are over, or were not
    /// let in, nothing is taken in.
    pub fn handle(&mut self, now: Now, connection: u32, event: ClientEvent<'_>) {
        self.tick(now);
        if let ClientEvent::Connect(connect) = event {
            return self.handle_connect(now, connection, connect);
        }
        let Some(link) = self.links.get(&connection) else { return };
        // While commits fail, answers pile up.
        let answers_max = self.limits.queue_messages.saturating_add(usize::from(self.limits.in_flight));
        let held_max = match event {
            ClientEvent::Subscribe { .. } | ClientEvent::Unsubscribe { .. } => answers_max,
            ClientEvent::PubRel { .. } | ClientEvent::PubRec { .. } => answers_max.saturating_add(INBOUND_V311),
            ClientEvent::Connect(_)
            | ClientEvent::Publish(_)
            | ClientEvent::PubAck { .. }
            | ClientEvent::PubComp { .. }
            | ClientEvent::Disconnect { .. }
            | ClientEvent::Gone => usize::MAX,
        };
        if link.held + self.catch_up.answers(link.session) >= held_max {
            return self.expel(now, connection, Farewell::QuotaExceeded);
        }
        let session = link.session;
        match event {
            ClientEvent::Connect(_) | ClientEvent::Publish(_) => {}
            ClientEvent::Subscribe { packet, id, filters } => {
                self.handle_subscribe(now, connection, session, packet, id, filters);
            }
            ClientEvent::Unsubscribe { packet, filters } => {
                self.handle_unsubscribe(connection, session, packet, filters);
            }
            ClientEvent::PubAck { packet, .. } => self.handle_puback(session, packet),
            ClientEvent::PubRec { packet, refused } => self.handle_pubrec(connection, session, packet, refused),
            ClientEvent::PubRel { packet } => self.handle_pubrel(connection, session, packet),
            ClientEvent::PubComp { packet } => self.handle_pubcomp(session, packet),
            ClientEvent::Disconnect { with_will, session_expiry_secs } => {
                self.handle_disconnect(now, connection, with_will, session_expiry_secs);
            }
            ClientEvent::Gone => self.close(now, connection),
        }
    }

    /// Wills that were published since the last call: signals of availability for the windows.
    /// Their subscribers have them already.
    pub fn take_wills(&mut self) -> Vec<Arc<Message>> {
        core::mem::take(&mut self.wills)
    }

    /// What may be sent now, in order for each connection.
    pub fn take_ready(&mut self, perform: &mut dyn FnMut(u32, ToClient)) {
        for (connection, what) in self.ready.drain(..) {
            perform(connection, what);
        }
        self.ready_bytes = 0;
        self.ready.shrink_to(READY_KEPT);
    }

    /// True when somebody waits for a commit.
    pub fn waits_for_commit(&self) -> bool {
        !self.waiting.is_empty() || !self.touched.is_empty()
    }

    /// So much may be sent that it should be, before more comes in.
    pub fn has_much_ready(&self) -> bool {
        self.ready.len() >= READY_MANY || self.ready_bytes >= READY_BYTES
    }

    /// Deliveries at `QoS` 0 that a slow connection had no room for.
    pub fn note_dropped(&mut self, deliveries: u64) {
        self.counters.dropped_slow += deliveries;
    }

    /// Says something to a connection: at once, or after the commit when it, or what is before
    /// it, has to wait.
    fn send(&mut self, connection: u32, what: ToClient, wait: bool) {
        let Some(link) = self.links.get_mut(&connection) else { return };
        let is_publish = matches!(what, ToClient::Publish(_));
        let bytes = self.waiting_bytes + bytes_beside(self.waiting.last(), &what);
        if !wait && link.admitted && !(is_publish && link.held_publishes > 0) {
            self.counters.delivered += u64::from(is_publish);
            self.put_ready(connection, what);
        } else if is_publish && (link.held_publishes >= self.limits.queue_messages || bytes > self.limits.queue_bytes) {
            self.counters.dropped_queue_full += 1;
        } else {
            link.held += 1;
            link.held_publishes += usize::from(is_publish);
            self.waiting_bytes = bytes;
            self.waiting.push((connection, what));
        }
    }

    fn put_ready(&mut self, connection: u32, what: ToClient) {
        self.ready_bytes += bytes_beside(self.ready.last(), &what);
        self.ready.push((connection, what));
    }

    /// What a step or snapshot wrote is durable: what waited for it may be sent.
    pub fn mark_committed(&mut self) {
        self.forget_changes();
        self.changed_filter_bytes = 0;
        self.waiting_bytes = 0;
        for (connection, what) in core::mem::take(&mut self.waiting) {
            let is_publish = matches!(what, ToClient::Publish(_));
            match self.links.get_mut(&connection) {
                Some(link) => {
                    link.admitted |= matches!(what, ToClient::ConnAck { .. });
                    (link.held, link.held_publishes) = (0, 0);
                }
                // It is over; but what it is told last is told in order.
                None if matches!(what, ToClient::ConnAck { .. } | ToClient::Disconnect(_)) => {}
                None => continue,
            }
            self.counters.delivered += u64::from(is_publish);
            self.put_ready(connection, what);
        }
        for number in core::mem::take(&mut self.touched) {
            if let Some(session) = self.sessions.get_mut(&number) {
                session.outgoing.mark_committed();
                self.deliver(number);
            }
        }
    }
}

/// Bytes that one more delivery takes while it waits. Those of one message come one after the
/// other, and share it.
fn bytes_beside(last: Option<&(u32, ToClient)>, what: &ToClient) -> usize {
    let ToClient::Publish(Delivery { message, .. }) = what else { return 0 };
    let shares = matches!(last, Some((_, ToClient::Publish(last))) if Arc::ptr_eq(&last.message, message));
    DELIVERY_BYTES + if shares { 0 } else { size_of(message) }
}
