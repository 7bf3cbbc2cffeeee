//! Retained messages: the last one of each topic, for whoever subscribes later. All of them
//! are stored.

use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::time::{Now, ProcTime, Span};

use super::limits::BrokerLimits;
use super::messages::{Expiry, size_of};
use super::packet::{Message, Qos};
use super::subscriptions::matches;

/// A retained message.
#[derive(Clone, Debug)]
pub(super) struct Retained {
    pub(super) message: Arc<Message>,
    pub(super) expiry: Option<Expiry>,
    /// There is one of its topic in what is stored: this one or another.
    pub(super) is_stored: bool,
}

/// All of them by topic.
#[derive(Default, Debug)]
pub(super) struct RetainedStore {
    list: BTreeMap<Box<str>, Retained>,
    bytes: usize,
    /// Topics whose message, or its absence, is not durable yet. Those without a message are
    /// stored with one: whatever comes and goes between two commits leaves nothing here.
    pub(super) changed: BTreeSet<Box<str>>,
    /// Messages that were not kept for lack of room.
    pub(super) refused: u64,
}

impl RetainedStore {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Retained> {
        self.list.values()
    }

    pub(super) fn get(&self, topic: &str) -> Option<&Retained> {
        self.list.get(topic)
    }

    /// Keeps a message in place of the one before, or clears that with an empty payload.
    /// Without room there is none: an old one would be taken for the present one.
    pub(super) fn keep(&mut self, now: Now, limits: &BrokerLimits, message: &Arc<Message>) {
        let topic = &*message.topic;
        // Cleared since the last commit, it is stored, too.
        let is_stored = self.list.get(topic).map_or(self.changed.contains(topic), |kept| kept.is_stored);
        self.clear(topic);
        if message.payload.is_empty() {
            return;
        }
        let has_room = |store: &RetainedStore| {
            store.list.len() < limits.retained_messages && store.bytes + size_of(message) <= limits.retained_bytes
        };
        if !has_room(self) {
            self.drop_expired(now);
        }
        if has_room(self) {
            let expiry = Expiry::of(now, message.expiry_secs);
            self.put(Retained { message: Arc::clone(message), expiry, is_stored });
            self.changed.insert(topic.into());
        } else {
            self.refused += 1;
        }
    }

    /// Removes the message of a topic, so that its absence will be stored.
    fn clear(&mut self, topic: &str) {
        match self.list.get(topic).map(|kept| kept.is_stored) {
            Some(true) => _ = self.changed.insert(topic.into()),
            Some(false) => _ = self.changed.remove(topic),
            None => return,
        }
        self.remove(topic);
    }

    /// All that has changed is stored.
    pub(super) fn mark_committed(&mut self) {
        for topic in core::mem::take(&mut self.changed) {
            if let Some(kept) = self.list.get_mut(&topic) {
                kept.is_stored = true;
            }
        }
    }

    pub(super) fn put(&mut self, retained: Retained) {
        self.bytes += size_of(&retained.message);
        if let Some(old) = self.list.insert(retained.message.topic.clone(), retained) {
            self.bytes -= size_of(&old.message);
        }
    }

    pub(super) fn remove(&mut self, topic: &str) {
        if let Some(old) = self.list.remove(topic) {
            self.bytes -= size_of(&old.message);
        }
    }

    fn drop_expired(&mut self, now: Now) {
        let is_over = |kept: &Retained| kept.expiry.is_some_and(|expiry| expiry.left(now) == Span::ZERO);
        let over: Vec<_> = self.list.iter().filter(|(_, kept)| is_over(kept)).map(|(topic, _)| topic.clone()).collect();
        for topic in &over {
            self.clear(topic);
        }
    }

    /// What a new subscription gets, by topic, of the next `count` behind `after`; `true`: only
    /// after the coming commit, because it comes from a message that is not durable yet. Only
    /// topics that begin like the filter are looked at. Also how many those were, and the last of
    /// them; `None`: there are no more.
    pub(super) fn wanted(
        &self,
        now: Now,
        filter: &str,
        after: Option<&str>,
        count: usize,
    ) -> (Vec<(Retained, bool)>, usize, Option<Box<str>>) {
        let literal = filter.find(['+', '#']).map_or(filter, |at| &filter[..at]);
        // `a/#` is for `a`, too.
        let literal = literal.strip_suffix('/').unwrap_or(literal);
        let from = after.map_or(Bound::Included(literal), Bound::Excluded);
        let mut looked_at = 0;
        let (mut found, mut last) = (Vec::new(), None);
        for (topic, kept) in self.list.range::<str, _>((from, Bound::Unbounded)) {
            if !topic.starts_with(literal) {
                return (found, looked_at, None);
            }
            looked_at += 1;
            if matches(filter, topic) && kept.expiry.is_none_or(|expiry| expiry.left(now) > Span::ZERO) {
                let is_held = kept.message.qos > Qos::AtMostOnce && self.changed.contains(topic);
                found.push((kept.clone(), is_held));
            }
            if looked_at == count {
                last = Some(topic.clone());
                break;
            }
        }
        (found, looked_at, last)
    }

    /// Moves the deadlines from one monotonic clock to another.
    pub(super) fn shift(&mut self, from: ProcTime, now: Now) {
        self.list.values_mut().filter_map(|kept| kept.expiry.as_mut()).for_each(|expiry| expiry.shift(from, now));
    }
}
