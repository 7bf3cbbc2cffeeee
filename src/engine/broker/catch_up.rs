//! What is retained, to new subscriptions: a piece at a time. A SUBSCRIBE of a few bytes can ask
//! for all of it, and one client can ask a hundred times; everybody else is served in between.
//!
//! Each session has its turn. A subscription that is made again begins again, and there is no
//! more to do than there are subscriptions.

use std::collections::BTreeMap;

use crate::model::time::Now;

use super::Broker;
use super::deliver::Want;
use super::messages::size_of;
use super::outgoing::ENTRY_BYTES;
use super::packet::Qos;
use super::session::SessionNo;
use super::subscriptions::Options;

/// Topics that are looked at for one session before others have their turn.
const PIECE: usize = 256;
/// Topics that are looked at in one go.
const GO: usize = 4 * 1_024;

/// Subscriptions that have not been sent all that is retained.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    waiting: BTreeMap<(SessionNo, Box<str>), Wanted>,
    /// Who had the last turn.
    last: Option<SessionNo>,
}

#[derive(Clone, Debug)]
struct Wanted {
    options: Options,
    /// The last topic that was looked at.
    after: Option<Box<str>>,
}

impl CatchUp {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn add(&mut self, session: SessionNo, filter: &str, options: Options) {
        self.waiting.insert((session, filter.into()), Wanted { options, after: None });
    }

    /// There is no such subscription any more.
    pub(super) fn remove(&mut self, session: SessionNo, filter: &str) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&(session, filter.into()));
        }
    }

    fn first_of(&self, from: SessionNo) -> Option<(SessionNo, Box<str>)> {
        self.waiting.range((from, Box::from(""))..).next().map(|(key, _)| key.clone())
    }

    /// Of the session behind the one that had the last turn.
    fn next(&mut self) -> Option<(SessionNo, Box<str>)> {
        let behind = self.last.map_or(SessionNo(0), |last| SessionNo(last.0.saturating_add(1)));
        let next = self.first_of(behind).or_else(|| self.first_of(SessionNo(0)))?;
        self.last = Some(next.0);
        Some(next)
    }
}

impl Broker {
    /// Sends some of what new subscriptions wait for.
    pub fn catch_up(&mut self, now: Now) {
        self.now = now;
        let mut left = GO;
        while left > 0
            && let Some((session, filter)) = self.catch_up.next()
        {
            left = left.saturating_sub(self.catch_up_on(now, session, &filter).max(1));
            self.deliver(session);
        }
    }

    /// True when there is something for [`Broker::catch_up`].
    pub fn is_behind(&self) -> bool {
        !self.catch_up.is_empty()
    }

    /// The first piece at once: mostly it is the only one.
    pub(super) fn begin_to_catch_up<'f>(
        &mut self,
        now: Now,
        number: SessionNo,
        fresh: impl Iterator<Item = (&'f str, Options)>,
    ) {
        let mut left = PIECE;
        for (filter, options) in fresh {
            self.catch_up.add(number, filter, options);
            if left > 0 {
                left = left.saturating_sub(self.catch_up_on(now, number, filter).max(1));
            }
        }
        self.deliver(number);
    }

    /// Returns how many topics were looked at.
    fn catch_up_on(&mut self, now: Now, number: SessionNo, filter: &str) -> usize {
        let key = (number, Box::from(filter));
        let Some(Wanted { options, after }) = self.catch_up.waiting.get(&key).cloned() else { return 0 };
        let (found, looked_at, next) = self.retained.wanted(now, filter, after.as_deref(), PIECE);
        match (next, self.catch_up.waiting.get_mut(&key)) {
            (Some(next), Some(wanted)) => wanted.after = Some(next),
            (_, _) => _ = self.catch_up.waiting.remove(&key),
        }
        // Not before the subscription itself is durable.
        let wait = self.has_new_subscriptions(number);
        for (retained, is_held) in found {
            let delivery = Want {
                message: &retained.message,
                expiry: retained.expiry,
                qos: options.qos.min(retained.message.qos),
                retain: true,
                subscriptions: options.id.into_iter().collect(),
                wait: wait || is_held,
            };
            if options.qos > Qos::AtMostOnce {
                self.relieve(now, ENTRY_BYTES + size_of(&retained.message), Some(number));
            }
            self.offer(now, number, delivery, &mut None);
        }
        looked_at
    }
}
