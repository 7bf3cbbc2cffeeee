//! What is known of the listener, for the status document. Counted where it happens, read by
//! the engine thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// Different reasons that are counted; they are names in the program, so this is never met.
const REASONS_MAX: usize = 64;

/// Counters and troubles of the listener.
#[derive(Debug, Default)]
pub struct ListenerFacts {
    connected: AtomicU64,
    accepted: AtomicU64,
    detail: Mutex<Detail>,
}

#[derive(Debug, Default)]
struct Detail {
    /// By address: listening, or why not.
    sockets: BTreeMap<String, String>,
    refused: BTreeMap<&'static str, u64>,
    notices: BTreeMap<&'static str, String>,
}

/// The listener in the status document.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// Addresses it listens on.
    pub sockets: Vec<String>,
    /// Connections now, logged in or not.
    pub connected: u64,
    /// Connections since the start.
    pub accepted: u64,
    /// Connections that were refused or ended, and messages and subscriptions that were refused,
    /// by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

impl ListenerFacts {
    /// A connection came. It is gone when the result is dropped.
    pub fn handle_connection(self: &std::sync::Arc<Self>) -> Connected {
        self.connected.fetch_add(1, Ordering::Relaxed);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Connected(std::sync::Arc::clone(self))
    }

    /// Connections now.
    pub fn connected(&self) -> usize {
        usize::try_from(self.connected.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Something was refused. True the first time, which is worth a line in the log.
    pub fn handle_refused(&self, reason: &'static str) -> bool {
        let mut detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        if detail.refused.len() >= REASONS_MAX && !detail.refused.contains_key(reason) {
            return false;
        }
        let count = detail.refused.entry(reason).or_default();
        *count += 1;
        *count == 1
    }

    /// It listens there; `trouble`: it does not, and why.
    pub fn handle_socket(&self, address: &str, trouble: &str) {
        let mut detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        detail.sockets.insert(address.to_owned(), trouble.to_owned());
    }

    /// Something is wrong although it listens; empty: no more.
    pub fn set_notice(&self, what: &'static str, notice: &str) {
        let mut detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        if notice.is_empty() {
            detail.notices.remove(what);
        } else {
            detail.notices.insert(what, notice.to_owned());
        }
    }

    /// What is wrong, for people.
    pub fn trouble(&self) -> Vec<String> {
        let detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        let sockets = detail.sockets.iter().filter(|(_, trouble)| !trouble.is_empty());
        let sockets = sockets.map(|(address, trouble)| format!("listener {address}: {trouble}"));
        sockets.chain(detail.notices.iter().map(|(what, notice)| format!("listener, {what}: {notice}"))).collect()
    }

    /// For the status document.
    pub fn status(&self) -> ListenerStatus {
        let detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        let sockets = detail.sockets.iter().filter(|(_, trouble)| trouble.is_empty());
        ListenerStatus {
            sockets: sockets.map(|(address, _)| address.clone()).collect(),
            connected: self.connected.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: detail.refused.clone(),
        }
    }
}

/// One connection, as long as it is there.
#[derive(Debug)]
pub struct Connected(std::sync::Arc<ListenerFacts>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_happens_is_counted_and_the_first_of_a_kind_is_told() {
        let facts = Arc::new(ListenerFacts::default());
        let one = facts.handle_connection();
        let two = facts.handle_connection();
        drop(one);
        assert!(facts.handle_refused("bad_password"));
        assert!(!facts.handle_refused("bad_password"));
        facts.handle_socket("127.0.0.1:1883", "");
        facts.handle_socket("127.0.0.1:1884", "in use");
        facts.set_notice("password file", "is not there");
        let status = facts.status();
        assert_eq!((status.connected, status.accepted, facts.connected()), (1, 2, 1));
        assert_eq!(status.refused, BTreeMap::from([("bad_password", 2)]));
        assert_eq!(status.sockets, ["127.0.0.1:1883"]);
        assert_eq!(facts.trouble(), ["listener 127.0.0.1:1884: in use", "listener, password file: is not there"]);
        facts.set_notice("password file", "");
        facts.handle_socket("127.0.0.1:1884", "");
        assert!(facts.trouble().is_empty());
        drop(two);
        assert_eq!(facts.connected(), 0);
    }
}
