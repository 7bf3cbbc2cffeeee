//! Where what the engine thread says to connections of the listener changes threads.
//!
//! A commit answers many connections at once. A wake-up across threads is a system call, and
//! memory that two cores write to moves between them each time. So the engine thread puts what
//! it has into one list and rings once a round; the network thread deals it out to the
//! connections and wakes them, which costs it nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tokio::sync::Notify;

use super::outbox::{Queue, ToSocket};

/// Entries for which the list keeps its memory while it is empty.
const KEPT_LEN: usize = 4_096;

/// Between the engine thread and all connections.
#[derive(Debug)]
pub struct Exchange {
    handed: Mutex<Vec<(u32, Handed)>>,
    rung: Notify,
    queues: Mutex<HashMap<u32, Arc<Queue>, FixedState>>,
    bytes: AtomicUsize,
    bytes_max: usize,
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
                (None, Handed::ToSocket(what)) => self.release(what.bytes()),
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

    /// Whether so many bytes more may wait.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes().saturating_add(bytes) <= self.bytes_max
    }

    pub(super) fn hold(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn release(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Nothing that is done under these locks can leave something half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
