//! What is known of the listener, for the status document. Counted where it happens, read by
//! the engine thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use serde::Serialize;
use tokio::sync::Notify;

use crate::model::time::{ProcTime, Span};

/// Different reasons that are counted; they are names in the program, so this is never met.
const REASONS_MAX: usize = 64;

/// The same refusal of the same user or address is worth a line in the log again after this.
const TELL_AGAIN: Span = Span::from_secs(3_600);
/// Lines about refusals in that time.
const TOLD_MAX: usize = 256;

/// Counters and troubles of the listener.
#[derive(Debug, Default)]
pub struct ListenerFacts {
    connected: AtomicU64,
    accepted: AtomicU64,
    detail: Mutex<Detail>,
    sockets_changed: Notify,
}

#[derive(Debug, Default)]
struct Detail {
    /// By address: listening, or why not.
    sockets: BTreeMap<String, String>,
    refused: BTreeMap<&'static str, u64>,
    notices: BTreeMap<String, String>,
    told: Told,
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

    /// Something was refused; `whose`: a user, or an address. True when that is worth a line in
    /// the log: the first time in an hour for this reason and whoever it is.
    pub fn handle_refused(&self, now: ProcTime, reason: &'static str, whose: &str) -> bool {
        let mut detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        if detail.refused.len() >= REASONS_MAX && !detail.refused.contains_key(reason) {
            return false;
        }
        *detail.refused.entry(reason).or_default() += 1;
        detail.told.is_news(now, reason, whose)
    }

    /// It listens there; `trouble`: it does not, and why.
    pub fn handle_socket(&self, address: &str, trouble: &str) {
        let mut detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        detail.sockets.insert(address.to_owned(), trouble.to_owned());
        drop(detail);
        self.sockets_changed.notify_one();
    }

    /// Until it listens on another socket, or does not; what was missed counts. For one waiter.
    pub async fn sockets_changed(&self) {
        self.sockets_changed.notified().await;
    }

    /// The first socket that it cannot listen on, and why.
    pub fn unbound(&self) -> Option<String> {
        let detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        let (address, trouble) = detail.sockets.iter().find(|(_, trouble)| !trouble.is_empty())?;
        Some(format!("{address}: {trouble}"))
    }

    /// Something is wrong although it listens; empty: no more.
    ///
    /// True when that is new.
    pub fn set_notice(&self, what: &str, notice: &str) -> bool {
        let mut detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        if notice.is_empty() {
            detail.notices.remove(what).is_some()
        } else {
            let before = detail.notices.insert(what.to_owned(), notice.to_owned());
            before.is_none_or(|before| before != notice)
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

/// What the log has been told. Bounded: a crowd of strangers fills neither memory nor log.
#[derive(Debug, Default)]
struct Told {
    /// By reason and whose, as numbers.
    at: BTreeMap<u64, ProcTime>,
}

impl Told {
    fn is_news(&mut self, now: ProcTime, reason: &str, whose: &str) -> bool {
        let key = FixedState::with_seed(0).hash_one((reason, whose));
        if let Some(at) = self.at.get(&key)
            && now.since(*at) < TELL_AGAIN
        {
            return false;
        }
        if self.at.len() >= TOLD_MAX {
            self.at.retain(|_, at| now.since(*at) < TELL_AGAIN);
        }
        // Full of what is new: these are counted.
        self.at.len() < TOLD_MAX && {
            self.at.insert(key, now);
            true
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
        let at = ProcTime::from_millis;
        assert!(facts.handle_refused(at(0), "bad_password", "anna"));
        assert!(!facts.handle_refused(at(3_599_999), "bad_password", "anna"));
        facts.handle_socket("127.0.0.1:1883", "");
        facts.handle_socket("127.0.0.1:1884", "in use");
        facts.set_notice("password file", "is not there");
        let status = facts.status();
        assert_eq!((status.connected, status.accepted, facts.connected()), (1, 2, 1));
        assert_eq!(status.refused, BTreeMap::from([("bad_password", 2)]));
        assert_eq!(status.sockets, ["127.0.0.1:1883"]);
        assert_eq!(facts.unbound().as_deref(), Some("127.0.0.1:1884: in use"));
        assert_eq!(facts.trouble(), ["listener 127.0.0.1:1884: in use", "listener, password file: is not there"]);
        facts.set_notice("password file", "");
        facts.handle_socket("127.0.0.1:1884", "");
        assert!(facts.trouble().is_empty());
        assert_eq!(facts.unbound(), None);
        drop(two);
        assert_eq!(facts.connected(), 0);
    }

    #[test]
    fn each_user_is_told_once_an_hour_and_a_crowd_fills_no_log() {
        let facts = ListenerFacts::default();
        let at = ProcTime::from_millis;
        assert!(facts.handle_refused(at(0), "bad_password", "anna"));
        assert!(facts.handle_refused(at(0), "bad_password", "bert"), "another user");
        assert!(facts.handle_refused(at(0), "topic", "anna"), "another reason");
        assert!(facts.handle_refused(at(3_600_000), "bad_password", "anna"), "an hour later");
        let crowd = |at| (0..10_000).filter(|who| facts.handle_refused(at, "tls", &who.to_string())).count();
        assert_eq!(crowd(at(3_600_001)), TOLD_MAX - 1);
        assert_eq!(crowd(at(3_600_002)), 0);
        assert_eq!(crowd(at(7_200_001)), TOLD_MAX);
        assert_eq!(facts.status().refused["tls"], 30_000);
    }

    #[test]
    fn a_notice_is_news_when_it_changes() {
        let facts = ListenerFacts::default();
        assert!(facts.set_notice("tls", "no key") && !facts.set_notice("tls", "no key"));
        assert!(
            facts.set_notice("tls", "no certificate") && facts.set_notice("tls", "") && !facts.set_notice("tls", "")
        );
    }
}
