//! SUBSCRIBE and UNSUBSCRIBE, and the retained messages that answer the former.

use std::collections::BTreeMap;

use crate::model::time::Now;

use super::Broker;
use super::catch_up::Answer;
use super::packet::{Filter, Qos, RetainHandling, ToClient};
use super::session::SessionNo;
use super::subscriptions::{Options, Subscriber, Tree, bytes_of, fits, split_shared};

const QUOTA_EXCEEDED: u8 = 0x97;
const NO_SUBSCRIPTION: u8 = 0x11;

/// A subscription that retained messages go to.
struct Fresh<'a> {
    filter: &'a str,
    options: Options,
}

impl Broker {
    pub(super) fn handle_subscribe(
        &mut self,
        now: Now,
        connection: u32,
        number: SessionNo,
        packet: u16,
        id: Option<u32>,
        filters: &[Filter],
    ) {
        let (mut fresh, mut named) = (Vec::new(), BTreeMap::new());
        let mut codes = Vec::with_capacity(filters.len());
        for filter in filters {
            let options = Options {
                qos: filter.qos,
                no_local: filter.no_local,
                retain_as_published: filter.retain_as_published,
                id,
            };
            let known = self.subscribe(number, filter, options);
            codes.push(match known {
                Ok(_) => code_of(filter.qos),
                Err(code) => code,
            });
            let wanted = match (known, filter.retain_handling) {
                (Err(_), _) | (_, RetainHandling::DoNotSend) => false,
                (Ok(_), RetainHandling::Send) => true,
                (Ok(is_known), RetainHandling::SendIfNew) => !is_known,
            };
            if wanted && split_shared(&filter.filter).0.is_none() {
                // Named again in the same packet, it is answered once: else four bytes would bring
                // all that is retained, a thousand times in a packet.
                let at = *named.entry(filter.filter.as_str()).or_insert(fresh.len());
                match fresh.get_mut(at) {
                    Some(before) => *before = Fresh { filter: &filter.filter, options },
                    None => fresh.push(Fresh { filter: &filter.filter, options }),
                }
            }
        }
        let answer = Answer { connection, packet, codes };
        self.begin_to_catch_up(now, number, answer, fresh.iter().map(|fresh| (fresh.filter, fresh.options)));
    }

    pub(super) fn handle_unsubscribe(&mut self, connection: u32, number: SessionNo, packet: u16, filters: &[String]) {
        let mut codes = Vec::with_capacity(filters.len());
        for filter in filters {
            let Some(session) = self.sessions.get_mut(&number) else { return };
            if session.subscriptions.remove(filter.as_str()).is_none() {
                codes.push(NO_SUBSCRIPTION);
                continue;
            }
            codes.push(0);
            self.leave(filter, number);
            self.note_subscription(number, filter);
        }
        let wait = self.has_new_subscriptions(number);
        self.send(connection, ToClient::UnsubAck { packet, codes }, wait);
        self.answer_who_is_done(number);
    }

    /// True when there was one already; the reason code when it cannot be.
    fn subscribe(&mut self, number: SessionNo, filter: &Filter, options: Options) -> Result<bool, u8> {
        if let Some(code) = filter.refused {
            return Err(code);
        }
        let has_room = self.subscription_bytes() + bytes_of(&filter.filter) + Tree::bytes_of(&filter.filter)
            <= self.limits.subscription_bytes;
        let session = self.sessions.get_mut(&number).ok_or(QUOTA_EXCEEDED)?;
        let is_known = session.subscriptions.contains_key(filter.filter.as_str());
        let is_one_too_many = !has_room || session.subscriptions.len() >= self.limits.subscriptions;
        if !fits(&filter.filter) || (!is_known && is_one_too_many) {
            return Err(QUOTA_EXCEEDED);
        }
        session.subscriptions.insert(filter.filter.as_str().into(), options);
        self.filter_bytes += if is_known { 0 } else { bytes_of(&filter.filter) };
        self.tree.insert(&filter.filter, Subscriber { session: number, options });
        self.note_subscription(number, &filter.filter);
        Ok(is_known)
    }

    /// Bytes that all subscriptions take, and what the coming commit has to say of them: while
    /// there is none, they may come and go.
    pub(super) fn subscription_bytes(&self) -> usize {
        self.filter_bytes + self.tree.bytes() + self.changed_filter_bytes
    }

    /// No message goes to a subscription any more, which was there.
    pub(super) fn leave(&mut self, filter: &str, session: SessionNo) {
        self.filter_bytes -= bytes_of(filter);
        self.tree.remove(filter, session);
        self.catch_up.remove(session, filter);
    }

    fn note_subscription(&mut self, number: SessionNo, filter: &str) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        if session.is_durable() {
            if session.changes.subscriptions.insert(filter.into()) {
                self.changed_filter_bytes += bytes_of(filter);
            }
            self.dirty.insert(number);
        }
    }

    pub(super) fn has_new_subscriptions(&self, number: SessionNo) -> bool {
        self.sessions.get(&number).is_some_and(|session| !session.changes.subscriptions.is_empty())
    }
}

fn code_of(qos: Qos) -> u8 {
    match qos {
        Qos::AtMostOnce => 0,
        Qos::AtLeastOnce => 1,
        Qos::ExactlyOnce => 2,
    }
}
