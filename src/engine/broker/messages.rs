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
        let wall = (now.quality == ClockQuality::Synced)
            .then(|| WallTime::from_millis(now.wall.as_millis().saturating_add(span.as_i64())));
        Some(Expiry { at: now.proc + span, wall })
    }

    /// What is left of it; zero: it has expired.
    pub(super) fn left(self, now: Now) -> Span {
        let left = self.at.since(now.proc);
        match self.wall {
            Some(wall) if now.quality == ClockQuality::Synced => {
                let by_wall = wall.as_millis().saturating_sub(now.wall.as_millis()).max(0);
                left.min(Span::from_millis(by_wall.unsigned_abs()))
            }
            Some(_) | None => left,
        }
    }
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
    pub(super) fn shift(&mut self, from: ProcTime, to: ProcTime) {
        for expiry in self.list.values_mut().filter_map(|kept| kept.expiry.as_mut()) {
            expiry.at = to + expiry.at.since(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(proc: u64, wall: i64, quality: ClockQuality) -> Now {
        Now { proc: ProcTime::from_millis(proc), wall: WallTime::from_millis(wall), quality }
    }

    #[test]
    fn time_without_power_counts_where_the_wall_clock_is_good() {
        let expiry = Expiry::of(at(1_000, 1_000_000, ClockQuality::Synced), Some(10)).expect("it has one");
        assert_eq!(secs_up(expiry.left(at(1_500, 1_000_500, ClockQuality::Synced))), 10);
        assert_eq!(secs_up(expiry.left(at(2_000, 1_001_000, ClockQuality::Synced))), 9);
        assert_eq!(secs_up(expiry.left(at(2_000, 1_500_000, ClockQuality::Synced))), 0, "long off");
        assert_eq!(secs_up(expiry.left(at(2_000, 1_500_000, ClockQuality::Unsynced))), 9, "who knows");
        assert_eq!(secs_up(expiry.left(at(11_000, 0, ClockQuality::Unsynced))), 0);
    }
}
