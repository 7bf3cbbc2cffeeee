//! What is encoded for one connection and not sent.
//!
//! Bytes beyond a few of each connection are counted over all of them. When those are all that
//! there may be, it is crowded: little more is encoded for anybody, what is large waits, and
//! whoever takes nothing has to go soon. Encoded, a message to a thousand clients is there a
//! thousand times; before, it is shared.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, BytesMut};

use crate::model::time::{ProcTime, Span};

/// Bytes beyond which nothing more is encoded.
const BYTES_MAX: usize = 64 * 1024;
/// Bytes of each connection that are not counted, and all that is encoded when it is crowded.
const SMALL_BYTES: usize = 8 * 1024;
/// Bytes of buffers that are kept while there is nothing in them.
const KEPT_BYTES: usize = 32 * 1024;
/// For a client to take what it is sent. Else it is gone.
const WRITE_MAX: Span = Span::from_secs(10);
/// The same, where it takes room that others need.
const WRITE_MAX_CROWDED: Span = Span::from_secs(1);
/// Until a delivery is looked at again for which there was no room.
const LOOK_AGAIN: Span = Span::from_millis(100);

/// Of one connection.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: BytesMut,
    /// The most that was in its memory.
    peak: usize,
    /// As counted in the sum of all.
    counted: usize,
    is_crowded: bool,
    /// Since when it waits for the client.
    since: Option<ProcTime>,
}

impl Output {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// For a last write.
    pub(super) fn rest(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// `fresh`, which is taken out, joins what is there.
    pub(super) fn append(&mut self, fresh: &mut BytesMut) {
        if self.bytes.is_empty() {
            core::mem::swap(&mut self.bytes, fresh);
            if self.peak > KEPT_BYTES {
                // Whoever was sent much once does not keep the memory for it.
                *fresh = BytesMut::new();
                self.peak = 0;
            }
        } else if !fresh.is_empty() {
            self.bytes.extend_from_slice(fresh);
            if fresh.capacity() > KEPT_BYTES {
                *fresh = BytesMut::new();
            }
            fresh.clear();
        }
        self.peak = self.peak.max(self.bytes.len());
    }

    /// Keeps the sum of all, which may be `max`. Most connections have little output most of the
    /// time, and never touch it.
    pub(super) fn count(&mut self, now: ProcTime, sum: &AtomicUsize, max: usize) {
        let len = self.bytes.len();
        if len == 0 {
            self.since = None;
        } else {
            self.since.get_or_insert(now);
        }
        let counted = if len > SMALL_BYTES { len } else { 0 };
        let before = core::mem::replace(&mut self.counted, counted);
        if counted != before {
            sum.fetch_add(counted, Ordering::Relaxed);
            sum.fetch_sub(before, Ordering::Relaxed);
        }
        self.is_crowded = sum.load(Ordering::Relaxed) >= max;
    }

    /// Of a connection that ends.
    pub(super) fn uncount(&mut self, sum: &AtomicUsize) {
        sum.fetch_sub(core::mem::take(&mut self.counted), Ordering::Relaxed);
    }

    /// So many bytes have gone out.
    pub(super) fn handle_sent(&mut self, bytes: usize) {
        self.since = None;
        self.bytes.advance(bytes);
        let rest = self.bytes.len();
        if self.peak > KEPT_BYTES && rest > 0 && rest <= self.peak / 2 {
            // The rest is not kept in the memory of all.
            self.bytes = BytesMut::from(self.bytes());
            self.peak = rest;
        }
    }

    /// True when nothing more is to be encoded, with `fresh` bytes beside it.
    pub(super) fn is_full(&self, fresh: usize) -> bool {
        self.bytes.len() + fresh >= if self.is_crowded { SMALL_BYTES } else { BYTES_MAX }
    }

    /// What the next message may have at most, with `fresh` bytes encoded beside what is here.
    /// Looked up and not remembered: between two turns of one connection all others may have
    /// had theirs. Where nothing is encoded for anybody, one of any size may be.
    pub(super) fn message_max(&self, fresh: usize, sum: &AtomicUsize, max: usize) -> usize {
        let others = sum.load(Ordering::Relaxed);
        if others == 0 && fresh == 0 {
            return usize::MAX;
        }
        let own = self.bytes.len() + fresh;
        max.saturating_sub(others + fresh).max(SMALL_BYTES.saturating_sub(own))
    }

    /// The client has taken nothing for too long. `is_wanted`: others need the room of what waits
    /// behind it.
    pub(super) fn is_stuck(&self, now: ProcTime, is_wanted: bool) -> bool {
        let is_in_the_way = is_wanted || (self.is_crowded && self.counted > 0);
        let max = if is_in_the_way { WRITE_MAX_CROWDED } else { WRITE_MAX };
        self.since.is_some_and(|since| now.since(since) >= max)
    }

    /// When this is to be looked at again. `is_held_back`: a message waits for room.
    pub(super) fn deadline(&self, now: ProcTime, is_held_back: bool) -> Option<ProcTime> {
        // Others may need the room by then.
        let stuck = self.since.map(|since| (since + WRITE_MAX).min(now + WRITE_MAX_CROWDED));
        stuck.into_iter().chain(is_held_back.then(|| now + LOOK_AGAIN)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100_000;

    fn at(millis: u64) -> ProcTime {
        ProcTime::from_millis(millis)
    }

    /// With so many bytes at time 0.
    fn output(bytes: usize, sum: &AtomicUsize) -> Output {
        let mut output = Output::default();
        output.append(&mut BytesMut::from(&vec![7; bytes][..]));
        output.count(at(0), sum, MAX);
        output
    }

    #[test]
    fn output_beyond_a_little_is_counted_until_it_is_sent_or_the_connection_ends() {
        let sum = AtomicUsize::new(0);
        let mut small = output(SMALL_BYTES, &sum);
        assert_eq!((sum.load(Ordering::Relaxed), small.is_full(0)), (0, false));
        let mut large = output(60_000, &sum);
        assert_eq!(sum.load(Ordering::Relaxed), 60_000);
        assert!(!large.is_full(0) && large.is_full(10_000));
        large.handle_sent(20_000);
        large.count(at(0), &sum, MAX);
        assert_eq!(sum.load(Ordering::Relaxed), 40_000);
        large.uncount(&sum);
        small.uncount(&sum);
        assert_eq!(sum.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn when_it_is_crowded_little_is_encoded_and_who_takes_nothing_goes_soon() {
        let sum = AtomicUsize::new(0);
        let mut slow = output(60_000, &sum);
        assert!(!slow.is_stuck(at(9_999), false) && slow.is_stuck(at(10_000), false));
        assert!(!slow.is_stuck(at(999), true) && slow.is_stuck(at(1_000), true));
        assert_eq!(slow.deadline(at(0), false), Some(at(1_000)), "others may need the room by then");
        assert_eq!(slow.deadline(at(9_500), false), Some(at(10_000)));
        let _other = output(60_000, &sum);
        let mut empty = output(0, &sum);
        assert_eq!((empty.message_max(0, &sum, MAX), empty.is_full(SMALL_BYTES)), (SMALL_BYTES, true));
        assert_eq!(empty.deadline(at(0), true), Some(at(100)));
        slow.count(at(500), &sum, MAX);
        assert!(!slow.is_stuck(at(999), false) && slow.is_stuck(at(1_000), false));
        let small = output(10, &sum);
        assert!(!small.is_stuck(at(9_999), false), "it is in nobody's way");
        slow.uncount(&sum);
        empty.count(at(2_000), &sum, MAX);
        assert_eq!((empty.message_max(0, &sum, MAX), empty.deadline(at(2_000), false)), (MAX - 60_000, None));
    }

    #[test]
    fn what_others_were_given_since_the_last_turn_counts() {
        let sum = AtomicUsize::new(0);
        let empty = output(0, &sum);
        assert_eq!(empty.message_max(0, &sum, MAX), usize::MAX, "one of any size, or it would wait for ever");
        assert_eq!(empty.message_max(300, &sum, MAX), MAX - 300);
        let mut other = output(60_000, &sum);
        assert_eq!(empty.message_max(300, &sum, MAX), MAX - 60_300);
        let more = output(50_000, &sum);
        assert_eq!(empty.message_max(300, &sum, MAX), SMALL_BYTES - 300);
        assert_eq!(more.message_max(0, &sum, MAX), 0);
        other.uncount(&sum);
        assert_eq!(empty.message_max(0, &sum, MAX), MAX - 50_000);
    }

    #[test]
    fn memory_is_given_back_when_most_of_it_is_sent() {
        let sum = AtomicUsize::new(0);
        let mut output = output(200_000, &sum);
        output.handle_sent(150_000);
        assert!(output.bytes.capacity() < 60_000);
        let mut fresh = BytesMut::from(&vec![7; 100_000][..]);
        output.append(&mut fresh);
        assert_eq!((output.bytes().len(), fresh.len(), fresh.capacity()), (150_000, 0, 0));
        output.handle_sent(150_000);
        output.append(&mut fresh);
        assert!(output.bytes.capacity() == 0 && fresh.capacity() == 0 && output.peak == 0);
    }
}
