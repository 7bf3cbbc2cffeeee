//! What is retained, to new subscriptions: a piece at a time. A SUBSCRIBE of a few bytes can ask
//! for all of it, and one client can ask a hundred times; everybody else is served in between.
//!
//! Each session has its turn. A subscription that is made again begins again, and there is no
//! more to do than there are subscriptions.
//!
//! How far it has come is not stored. So a session that is stored is told that it has subscribed
//! when the last piece is in its queue: with the power gone before that, its client asks again,
//! and is not left without a part of what is retained.

use std::collections::BTreeMap;

use crate::model::time::Now;

use super::Broker;
use super::deliver::Want;
use super::messages::size_of;
use super::outgoing::ENTRY_BYTES;
use super::packet::{Qos, ToClient};
use super::retained::Retained;
use super::session::{Session, SessionNo};
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
    /// SUBACKs that wait for the last piece.
    answers: BTreeMap<SessionNo, Vec<Answer>>,
}

/// What a SUBSCRIBE is answered with.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) connection: u32,
    pub(super) packet: u16,
    pub(super) codes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Wanted {
    options: Options,
    /// The last topic that was looked at.
    after: Option<Box<str>>,
}

/// Some of what is retained, for one subscription.
struct Piece {
    options: Options,
    found: Vec<(Retained, bool)>,
    looked_at: usize,
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

    /// Answers that a session waits for.
    pub(super) fn answers(&self, session: SessionNo) -> usize {
        self.answers.get(&session).map_or(0, Vec::len)
    }

    /// Nobody waits for them any more.
    pub(super) fn forget_answers(&mut self, session: SessionNo) {
        self.answers.remove(&session);
    }

    fn has(&self, session: SessionNo) -> bool {
        self.first_of(session).is_some_and(|(first, _)| first == session)
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
            let Some(piece) = self.next_piece(now, session, &filter) else { continue };
            left = left.saturating_sub(piece.looked_at.max(1));
            self.offer_piece(now, session, piece);
            self.deliver(session);
            self.answer_who_is_done(session);
        }
    }

    /// True when there is something for [`Broker::catch_up`].
    pub fn is_behind(&self) -> bool {
        !self.catch_up.is_empty()
    }

    /// Answers a SUBSCRIBE, and sends the first piece at once: mostly it is the only one.
    pub(super) fn begin_to_catch_up<'f>(
        &mut self,
        now: Now,
        number: SessionNo,
        answer: Answer,
        fresh: impl Iterator<Item = (&'f str, Options)>,
    ) {
        let (mut left, mut pieces) = (PIECE, Vec::new());
        for (filter, options) in fresh {
            self.catch_up.add(number, filter, options);
            if left > 0
                && let Some(piece) = self.next_piece(now, number, filter)
            {
                left = left.saturating_sub(piece.looked_at.max(1));
                pieces.push(piece);
            }
        }
        let is_durable = self.sessions.get(&number).is_some_and(Session::is_durable);
        if is_durable && self.catch_up.has(number) {
            self.catch_up.answers.entry(number).or_default().push(answer);
        } else {
            self.answer(answer, self.has_new_subscriptions(number));
        }
        for piece in pieces {
            self.offer_piece(now, number, piece);
        }
        self.deliver(number);
    }

    /// When a session has the last piece. What it was sent is durable before it is told.
    pub(super) fn answer_who_is_done(&mut self, number: SessionNo) {
        if self.catch_up.answers.is_empty() || self.catch_up.has(number) {
            return;
        }
        for answer in self.catch_up.answers.remove(&number).unwrap_or_default() {
            self.answer(answer, true);
        }
    }

    fn answer(&mut self, answer: Answer, wait: bool) {
        let Answer { connection, packet, codes } = answer;
        self.send(connection, ToClient::SubAck { packet, codes }, wait);
    }

    fn next_piece(&mut self, now: Now, number: SessionNo, filter: &str) -> Option<Piece> {
        let key = (number, Box::from(filter));
        let Wanted { options, after } = self.catch_up.waiting.get(&key)?.clone();
        let (found, looked_at, next) = self.retained.wanted(now, filter, after.as_deref(), PIECE);
        match (next, self.catch_up.waiting.get_mut(&key)) {
            (Some(next), Some(wanted)) => wanted.after = Some(next),
            (_, _) => _ = self.catch_up.waiting.remove(&key),
        }
        Some(Piece { options, found, looked_at })
    }

    fn offer_piece(&mut self, now: Now, number: SessionNo, piece: Piece) {
        let Piece { options, found, .. } = piece;
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
    }
}
