//! Where what the engine thread says to connections of the listener changes threads.
//!
//! A commit answers many connections at once. A wake-up across threads is a system call, and
//! memory that two cores write to moves between them each time. So the engine thread puts what
//! it has into one list and rings once a round; the network thread deals it out to the
//! connections and wakes them, which costs it nothing.
//!
//! Here is counted what memory all of it takes. A message that is large, or retained, is counted
//! once, however many connections it waits for, and as long as it waits for one of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use tokio::sync::Notify;

use crate::engine::broker::packet::Message;

use super::outbox::{DELIVERY_BYTES, Queue, ToSocket};

/// Entries for which the list keeps its memory while it is empty.
const KEPT_LEN: usize = 4_096;

/// Bytes of a delivery whose message is counted once. Below, it is counted with each delivery.
const LARGE_BYTES: usize = 4 * 1024;

/// Between the engine thread and all connections.
#[derive(Debug)]
pub struct Exchange {
    handed: Mutex<Vec<(u32, Handed)>>,
    rung: Notify,
    queues: Mutex<HashMap<u32, Arc<Queue>, FixedState>>,
    bytes: AtomicUsize,
    bytes_max: usize,
    /// How many connections a message that is counted once waits for, by its address.
    shared: Mutex<HashMap<usize, usize, FixedState>>,
}

/// What a connection is handed.
#[derive(Debug)]
pub(super) enum Handed {
    /// Something to send.
    ToSocket(ToSocket),
    /// There will be nothing more.
    End,
}

impl Exchange {
    /// Deliveries of at most so many bytes wait for all connections together, beside the first
    /// of each.
    pub fn new(bytes_max: usize) -> Arc<Exchange> {
        Arc::new(Exchange {
            handed: Mutex::default(),
            rung: Notify::new(),
            queues: Mutex::default(),
            bytes: AtomicUsize::new(0),
            bytes_max,
            shared: Mutex::default(),
        })
    }

    /// Bytes of deliveries that wait now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets the connections have what was handed over: after a round of the engine thread.
    pub fn ring(&self) {
        if !lock(&self.handed).is_empty() {
            self.rung.notify_one();
        }
    }

    /// On the network thread, for ever: deals out what was handed over.
    pub async fn deal(&self) {
        let mut handed = Vec::new();
        loop {
            self.rung.notified().await;
            self.deal_once(&mut handed);
        }
    }

    /// `spare`: an empty list, for its memory.
    pub(super) fn deal_once(&self, spare: &mut Vec<(u32, Handed)>) {
        core::mem::swap(spare, &mut *lock(&self.handed));
        let queues = lock(&self.queues);
        for (connection, what) in spare.drain(..) {
            match (queues.get(&connection), what) {
                (Some(queue), what) => queue.put(what),
                (None, Handed::ToSocket(what)) => self.release(&what),
                (None, Handed::End) => {}
            }
        }
        drop(queues);
        spare.shrink_to(KEPT_LEN);
    }

    pub(super) fn hand(&self, connection: u32, what: Handed) {
        lock(&self.handed).push((connection, what));
    }

    pub(super) fn add(&self, connection: u32, queue: Arc<Queue>) {
        lock(&self.queues).insert(connection, queue);
    }

    pub(super) fn remove(&self, connection: u32) {
        lock(&self.queues).remove(&connection);
    }

    /// Whether there is room for it.
    pub(super) fn has_room(&self, what: &ToSocket) -> bool {
        let Some(message) = what.message() else { return true };
        let is_there = is_shared(what) && lock(&self.shared).contains_key(&address(message));
        let needed = if is_there { DELIVERY_BYTES } else { what.bytes() };
        self.bytes().saturating_add(needed) <= self.bytes_max
    }

    /// Less than half of the room is left.
    pub(super) fn is_crowded(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    /// Counts it, until it is released.
    pub(super) fn hold(&self, what: &ToSocket) {
        let Some(message) = what.message() else { return };
        let mut bytes = what.bytes();
        if is_shared(what) {
            let mut shared = lock(&self.shared);
            let waits = shared.entry(address(message)).or_default();
            *waits += 1;
            if *waits > 1 {
                bytes = DELIVERY_BYTES;
            }
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn release(&self, what: &ToSocket) {
        let Some(message) = what.message() else { return };
        let mut bytes = what.bytes();
        if is_shared(what) {
            let mut shared = lock(&self.shared);
            if let Entry::Occupied(mut waits) = shared.entry(address(message)) {
                *waits.get_mut() -= 1;
                if *waits.get() == 0 {
                    waits.remove();
                } else {
                    bytes = DELIVERY_BYTES;
                }
            }
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// It is counted once.
fn is_shared(what: &ToSocket) -> bool {
    what.bytes() >= LARGE_BYTES || what.is_retained()
}

/// No other message has it, as long as somebody waits for this one.
fn address(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}

/// Nothing that is done under these locks can leave something half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
