//! Messages that wait for at least one client: each kept, counted and stored once, however
//! many wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::time::{ClockQuality, Now, ProcTime, Span, WallTime};

use super::packet::{Message, Publish};

/// Names a message; never used again within a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct MessageNo(pub(super) u64);

/// Bytes that a message takes beside what it says: its blocks of memory, and its place.
const MESSAGE_BYTES: usize = 192;

/// 2026-01-01.
const MADE_MS: i64 = 1_767_225_600_000;

/// When a message is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expiry {
    /// By the monotonic clock, which stands still while the agent does not run.
    pub(super) at: ProcTime,
    /// By the wall clock, when that could be trusted as the message came: a command must not
    /// outlive its time because the gateway was without power.
    pub(super) wall: Option<WallTime>,
}

/// A message and its end.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) message: Arc<Message>,
    pub(super) expiry: Option<Expiry>,
    /// Entries of queues.
    uses: u32,
}

/// The messages by number.
#[derive(Default, Debug)]
pub(super) struct Messages {
    list: BTreeMap<MessageNo, Kept>,
    next: u64,
    bytes: usize,
}

impl Expiry {
    /// Of a message that comes now.
    pub(super) fn of(now: Now, secs: Option<u32>) -> Option<Expiry> {
        let span = Span::from_secs(u64::from(secs?));
        let wall = is_trusted(now).then(|| WallTime::from_millis(now.wall.as_millis().saturating_add(span.as_i64())));
        Some(Expiry { at: now.proc + span, wall })
    }

    /// What is left of it; zero: it has expired. While the agent runs, the clock that nobody sets
    /// decides.
    pub(super) fn left(self, now: Now) -> Span {
        self.at.since(now.proc)
    }

    /// After a start: from a monotonic clock that was at `from` when this was stored to the one of
    /// today. How long the agent did not run, only the wall clock can say.
    pub(super) fn shift(&mut self, from: ProcTime, now: Now) {
        self.at = now.proc + self.at.since(from);
        if let Some(wall) = self.wall.filter(|_| is_trusted(now)) {
            let by_wall = wall.as_millis().saturating_sub(now.wall.as_millis()).max(0);
            self.at = self.at.min(now.proc + Span::from_millis(by_wall.unsigned_abs()));
        }
    }
}

/// A clock that shows a time before this program was made was never set.
fn is_trusted(now: Now) -> bool {
    now.quality == ClockQuality::Synced && now.wall.as_millis() >= MADE_MS
}

/// Whole seconds of it, a part of one counting as one.
pub(super) fn secs_up(span: Span) -> u32 {
    u32::try_from(span.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// Bytes that a message is counted with.
pub(super) fn size_of(message: &Message) -> usize {
    MESSAGE_BYTES + message.bytes()
}

/// The message that a PUBLISH brings.
pub(super) fn message_of(publish: &Publish<'_>) -> Message {
    Message {
        topic: publish.topic.into(),
        payload: publish.payload.into(),
        qos: publish.qos,
        retain: publish.retain,
        expiry_secs: publish.expiry_secs,
        properties: publish.properties.cloned().map(Box::new),
    }
}

impl Messages {
    pub(super) fn get(&self, number: MessageNo) -> Option<&Kept> {
        self.list.get(&number)
    }

    /// Bytes of all of them and of the entries that need them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a message; nothing needs it yet, see [`Messages::hold`].
    pub(super) fn add(&mut self, message: Arc<Message>, expiry: Option<Expiry>) -> MessageNo {
        let number = MessageNo(self.next);
        self.put(number, message, expiry);
        number
    }

    /// Keeps it under the number that it was stored with.
    pub(super) fn put(&mut self, number: MessageNo, message: Arc<Message>, expiry: Option<Expiry>) {
        self.next = self.next.max(number.0.saturating_add(1));
        self.bytes += size_of(&message);
        if let Some(old) = self.list.insert(number, Kept { message, expiry, uses: 0 }) {
            self.bytes -= size_of(&old.message);
        }
    }

    /// One more entry needs it, which takes bytes itself. False: there is none of that number.
    pub(super) fn hold(&mut self, number: MessageNo, entry_bytes: usize) -> bool {
        let Some(kept) = self.list.get_mut(&number) else { return false };
        kept.uses += 1;
        self.bytes += entry_bytes;
        true
    }

    /// One entry less needs it.
    pub(super) fn release(&mut self, number: MessageNo, entry_bytes: usize) {
        let Some(kept) = self.list.get_mut(&number) else { return };
        self.bytes = self.bytes.saturating_sub(entry_bytes);
        kept.uses = kept.uses.saturating_sub(1);
        self.drop_unused(number);
    }

    /// Forgets it unless an entry needs it.
    pub(super) fn drop_unused(&mut self, number: MessageNo) {
        if self.list.get(&number).is_some_and(|kept| kept.uses == 0)
            && let Some(kept) = self.list.remove(&number)
        {
            self.bytes -= size_of(&kept.message);
        }
    }

    /// Moves the deadlines from one monotonic clock to another.
    pub(super) fn shift(&mut self, from: ProcTime, now: Now) {
        self.list.values_mut().filter_map(|kept| kept.expiry.as_mut()).for_each(|expiry| expiry.shift(from, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(proc: u64, wall: i64, quality: ClockQuality) -> Now {
        Now { proc: ProcTime::from_millis(proc), wall: WallTime::from_millis(wall), quality }
    }

    fn left_after(expiry: Expiry, now: Now) -> u32 {
        let mut expiry = expiry;
        expiry.shift(ProcTime::from_millis(2_000), now);
        secs_up(expiry.left(now))
    }

    #[test]
    fn time_without_power_counts_where_the_wall_clock_is_good() {
        let wall = |after: i64| MADE_MS + 1_000_000 + after;
        let came = at(1_000, wall(0), ClockQuality::Synced);
        let expiry = Expiry::of(came, Some(10)).expect("it has one");
        // Nine seconds are left at 2 s, when the agent ends; its next clock begins at 0.
        assert_eq!(left_after(expiry, at(0, wall(1_000), ClockQuality::Synced)), 9);
        assert_eq!(left_after(expiry, at(0, wall(5_000), ClockQuality::Synced)), 5);
        assert_eq!(left_after(expiry, at(0, wall(500_000), ClockQuality::Synced)), 0, "long off");
        assert_eq!(left_after(expiry, at(0, wall(500_000), ClockQuality::Unsynced)), 9, "who knows");
        assert_eq!(left_after(expiry, at(0, 0, ClockQuality::Synced)), 9, "a clock that was never set");
        let unset = Expiry::of(at(1_000, 5_000, ClockQuality::Synced), Some(10)).expect("it has one");
        assert_eq!(left_after(unset, at(0, wall(0), ClockQuality::Synced)), 9, "it was set meanwhile");
    }

    #[test]
    fn a_clock_that_is_set_while_the_agent_runs_changes_nothing() {
        let expiry = Expiry::of(at(1_000, MADE_MS, ClockQuality::Synced), Some(10)).expect("it has one");
        for wall in [0, MADE_MS, MADE_MS + 1_000_000_000] {
            assert_eq!(secs_up(expiry.left(at(2_000, wall, ClockQuality::Synced))), 9);
        }
        assert_eq!(expiry.left(at(11_000, MADE_MS, ClockQuality::Synced)), Span::ZERO);
    }
}
