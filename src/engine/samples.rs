//! Samples of what is rejected, so that a person can see what devices really send, mend the
//! configuration, and have the samples taken in again.
//!
//! Rejections are counted exactly and sampled for content. A device that sends garbage a hundred
//! times a second must cost nearly nothing, in time and on the flash, so a gate decides:
//!
//! | | |
//! |---|---|
//! | one stream and reason | the first `limits::SAMPLES_FIRST` at once, then one after 1, 2, 4, … 60 minutes, and every hour; after a pause of twice the wait it begins with a minute again |
//! | all together | 64 at once, then one in 15 s |
//! | waiting to be kept | `limits::SAMPLES_PENDING_MAX` |
//!
//! A sample is handed out after the commit that counts its message. Earlier, a crash would have the broker deliver
//! the message once more, and there would be two samples of it to be taken in.
//!
//! What the gate does not let through is counted and allocates nothing. Several records of one
//! message that are rejected for one reason are one sample.
//!
//! **A sample remembers what of its message was rejected** ([`Part`]): the other records were
//! taken in when the message came, and a replay must not count them again.
//!
//! **A replay** is the message again, through the configuration of now, with the time at which it
//! was received then: receive times and `received_ms` are those of then, and the future guard judges
//! by that clock. It counts as received once more (it was counted as rejected before), is never
//! taken for a redelivery, and is not sampled. What became of it ([`Verdict`]) is an effect, so it is told
//! once it is durable.

use crate::model::ids::Name;
use crate::model::limits::{SAMPLE_BYTES_MAX, SAMPLES_FIRST, SAMPLES_PENDING_MAX};
use crate::model::record::RejectReason;
use crate::model::time::{Now, ProcTime, Span, WallTime};
use crate::model::topic::Captures;

use super::status::SamplesStatus;
use super::step::Message;
use super::stream::Stream;
use super::{Engine, decode};

/// Wait after the first samples of one stream and reason, doubled with each up to [`WAIT_MAX`].
const WAIT_MIN: Span = Span::from_secs(60);
/// Longest wait between two samples of one stream and reason.
const WAIT_MAX: Span = Span::from_secs(3_600);
/// One sample of all in this time, in the long run.
const EVERY: Span = Span::from_secs(15);
/// What all together may be ahead of that.
const AHEAD_MAX: Span = Span::from_secs(15 * 64);
/// Bytes of a topic in a sample: longer ones are cut off.
const TOPIC_MAX: usize = SAMPLE_BYTES_MAX / 4;
/// Records of one message that can be told apart in a sample.
const PLACES_MAX: usize = 64;
/// Reasons for which records of one message are sampled.
const REASONS_MAX: usize = 4;

/// A rejected message, or its begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The stream that it came to.
    pub stream: Name,
    /// Why it was rejected.
    pub reason: RejectReason,
    /// Its topic.
    pub topic: String,
    /// When it was received.
    pub received: WallTime,
    /// Its retained flag.
    pub retain: bool,
    /// Its payload, or the begin of it.
    pub payload: Vec<u8>,
    /// Bytes of the payload as it came.
    pub payload_bytes: usize,
    /// Topic and payload are all there.
    pub is_whole: bool,
    /// What of it was rejected.
    pub part: Part,
    /// A guess at why, for a person.
    pub hint: Option<String>,
}

/// Which of its records a message was sampled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All that there was in it.
    Whole,
    /// Those at these places (bit by bit), of so many.
    Records {
        /// Records in the message.
        of: u32,
        /// A set bit for each that was rejected.
        places: u64,
    },
    /// Some of more records than can be told apart.
    Unknown,
}

/// A sample as a message again.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// Given back in [`Replayed`].
    pub id: u64,
    /// See [`Sample`], as the others.
    pub topic: &'a str,
    /// All of it.
    pub payload: &'a [u8],
    /// Its retained flag.
    pub retain: bool,
    /// When it was received then.
    pub received: WallTime,
    /// What to take in of it.
    pub part: Part,
}

/// A replay whose consequences are durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// That of [`Replay`].
    pub id: u64,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No stream of this configuration takes its topic. Nothing was counted.
    NoStream,
    /// Some of its records were taken in before, and by this configuration it has another number of
    /// them: they cannot be told apart. Nothing was taken in.
    OtherRecords,
    /// It was taken in.
    Taken(Outcome),
}

/// Where the records of a replay ended, as in the books of the stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    #[expect(missing_docs, reason = "see StreamLedger, as the others")]
    pub accepted: u64,
    /// Of these: too late for one of the windows, or for the order of readings. They went where the
    /// configuration has late ones go.
    pub late: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub duplicate: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub future: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub ignored: u64,
    #[expect(missing_docs, reason = "see StreamLedger")]
    pub filtered: u64,
    /// Rejected again.
    pub rejected: u64,
    /// Then why: the first reason.
    pub reason: Option<RejectReason>,
    /// And a guess at it.
    pub hint: Option<String>,
    /// What is still to be taken in, by another configuration; `None`: nothing.
    pub rest: Option<Part>,
}

/// Of one stream: what of the message at hand is rejected, and how often samples are taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampling {
    gates: [Gate; RejectReason::ALL.len()],
    /// Samples taken since the start.
    kept: u64,
    /// Rejected messages of which none was taken.
    dropped: u64,
    /// Samples that were replayed.
    replayed: u64,
    /// A replay takes in only these.
    only: Option<Part>,
    /// The record at hand.
    at: usize,
    refusals: heapless::Vec<Refusal, REASONS_MAX>,
    all: Places,
}

/// One reason for which records of the message at hand are rejected.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    reason: RejectReason,
    places: Places,
}

#[derive(Clone, Copy, Debug, Default)]
struct Places {
    count: usize,
    bits: u64,
}

impl Places {
    fn add(&mut self, at: usize) {
        self.count += 1;
        if at < PLACES_MAX {
            self.bits |= 1 << at;
        }
    }

    /// As a part of a message with so many records.
    fn part(self, of: usize) -> Part {
        match u32::try_from(of) {
            _ if self.count >= of => Part::Whole,
            Ok(of) if of as usize <= PLACES_MAX => Part::Records { of, places: self.bits },
            Ok(_) | Err(_) => Part::Unknown,
        }
    }
}

impl Sampling {
    /// A message begins, of which a replay takes in only a part.
    fn begin(&mut self, only: Option<Part>) {
        self.only = only;
        self.at = 0;
        self.refusals.clear();
        self.all = Places::default();
    }

    /// The record at this place is next. False: it is not to be taken in.
    #[inline]
    pub(super) fn select(&mut self, at: usize, of: usize) -> bool {
        self.at = at;
        match self.only {
            None | Some(Part::Whole) => true,
            Some(Part::Records { of: before, places }) => {
                of == before as usize && at < PLACES_MAX && places & (1 << at) != 0
            }
            Some(Part::Unknown) => false,
        }
    }

    pub(super) fn status(&self) -> SamplesStatus {
        SamplesStatus { kept: self.kept, dropped: self.dropped, replayed: self.replayed }
    }

    /// It, or the message as such, is rejected.
    pub(super) fn note(&mut self, reason: RejectReason) {
        self.all.add(self.at);
        if let Some(refusal) = self.refusals.iter_mut().find(|refusal| refusal.reason == reason) {
            refusal.places.add(self.at);
            return;
        }
        let mut places = Places::default();
        places.add(self.at);
        // Beyond REASONS_MAX: counted in the books, and not sampled.
        let _ = self.refusals.push(Refusal { reason, places });
    }
}

/// When the next sample of one stream and reason may be taken.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    taken: u32,
    last: ProcTime,
    wait: Span,
}

impl Gate {
    fn is_open(self, now: ProcTime) -> bool {
        self.taken < SAMPLES_FIRST || now.since(self.last) >= self.wait
    }

    fn pass(&mut self, now: ProcTime) {
        let paused = now.since(self.last).as_millis() > self.wait.as_millis().saturating_mul(2);
        self.taken = self.taken.saturating_add(1);
        self.wait = match self.taken {
            0..SAMPLES_FIRST => Span::ZERO,
            SAMPLES_FIRST => WAIT_MIN,
            _ if paused => WAIT_MIN,
            _ => Span::from_millis(self.wait.as_millis().saturating_mul(2)).min(WAIT_MAX),
        };
        self.last = now;
    }
}

/// The samples of all streams that wait to be kept, and the rate of all together.
#[derive(Debug, Default)]
pub(super) struct Samples {
    waiting: Vec<Sample>,
    /// So many of them may be taken: their messages are counted for good.
    committed: usize,
    /// What was taken is paid for until then, at one in [`EVERY`].
    paid_until: ProcTime,
}

impl Samples {
    fn has_room(&self, now: ProcTime) -> bool {
        self.waiting.len() < SAMPLES_PENDING_MAX && self.paid_until.since(now) < AHEAD_MAX
    }

    fn push(&mut self, now: ProcTime, sample: Sample) {
        self.paid_until = self.paid_until.max(now) + EVERY;
        self.waiting.push(sample);
    }

    /// Everything so far is durable.
    pub(super) fn mark_committed(&mut self) {
        self.committed = self.waiting.len();
    }

    fn take(&mut self) -> Vec<Sample> {
        match core::mem::take(&mut self.committed) {
            // Nearly always, and nothing is allocated for it.
            0 => Vec::new(),
            committed => self.waiting.drain(..committed).collect(),
        }
    }
}

impl Engine {
    /// The samples since the last call whose rejection is durable, at most
    /// `limits::SAMPLES_PENDING_MAX`. While nobody takes them, no more are made.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.samples.take()
    }

    /// Takes a message in, and samples of what is rejected of it.
    pub(super) fn take_in(
        &mut self,
        now: Now,
        index: usize,
        topic: usize,
        captures: Captures<'_>,
        message: Message<'_>,
    ) {
        self.streams[index].sampling.begin(None);
        self.take_records(now, index, topic, captures, message);
        if !self.streams[index].sampling.refusals.is_empty() {
            self.sample(now, index, message);
        }
    }

    /// Rejects what a stream cannot read of its availability topics.
    pub(super) fn reject_availability(&mut self, now: Now, index: usize, message: Message<'_>) {
        self.decoders[index].forget();
        let stream = &mut self.streams[index];
        stream.sampling.begin(None);
        stream.reject(RejectReason::BadAvailability);
        self.sample(now, index, message);
    }

    fn sample(&mut self, now: Now, index: usize, message: Message<'_>) {
        let records = self.decoders[index].batch().len().max(1);
        let stream = &mut self.streams[index];
        for refusal in stream.sampling.refusals.clone() {
            let gate = &mut stream.sampling.gates[refusal.reason as usize];
            if !gate.is_open(now.proc) || !self.samples.has_room(now.proc) {
                stream.sampling.dropped += 1;
                continue;
            }
            gate.pass(now.proc);
            stream.sampling.kept += 1;
            let topic = prefix(message.topic, TOPIC_MAX);
            let payload = &message.payload[..message.payload.len().min(SAMPLE_BYTES_MAX - topic.len())];
            let sample = Sample {
                stream: stream.spec.name.clone(),
                reason: refusal.reason,
                topic: topic.to_owned(),
                received: now.wall,
                retain: message.retain,
                payload: payload.to_owned(),
                payload_bytes: message.payload.len(),
                is_whole: topic.len() == message.topic.len() && payload.len() == message.payload.len(),
                part: refusal.places.part(records),
                hint: decode::explain(&stream.spec, message.payload, refusal.reason).map(Into::into),
            };
            self.samples.push(now.proc, sample);
        }
    }

    /// See the module's description.
    pub(super) fn handle_replay(&mut self, now: Now, replay: Replay<'_>) {
        let verdict = self.replay(Now { wall: replay.received, ..now }, replay);
        self.replays.push(Replayed { id: replay.id, verdict });
    }

    fn replay(&mut self, then: Now, replay: Replay<'_>) -> Verdict {
        let Replay { topic, payload, retain, part, .. } = replay;
        let Some((index, found)) = self.find_stream(topic) else { return Verdict::NoStream };
        let message = Message { topic, payload, retain, dup: false, tag: None };
        let before = self.streams[index].ledger.clone();
        let late: Vec<u64> = self.streams[index].late().collect();
        self.streams[index].sampling.begin(Some(part));
        match found {
            Some((place, captures)) => self.take_records(then, index, place, captures, message),
            None => self.streams[index].ignore(),
        }
        let records = self.decoders[index].batch().len().max(1);
        let stream = &mut self.streams[index];
        let fits = match part {
            Part::Whole => true,
            Part::Records { of, .. } => of as usize == records,
            Part::Unknown => false,
        };
        if !fits && stream.ledger == before {
            return Verdict::OtherRecords;
        }
        stream.changes.ledger = true;
        let sampling = &mut stream.sampling;
        sampling.replayed += 1;
        let reason = sampling.refusals.first().map(|refusal| refusal.reason);
        let rest = match (sampling.all.count, part) {
            (0, _) => None,
            // The message as such, before its records were looked at.
            _ if !fits => Some(part),
            (refused, Part::Records { places, .. }) if refused == places.count_ones() as usize => Some(part),
            _ => Some(sampling.all.part(records)),
        };
        let ledger = &stream.ledger;
        Verdict::Taken(Outcome {
            accepted: ledger.accepted - before.accepted,
            late: stream.late().zip(late).map(|(after, before)| after - before).max().unwrap_or(0),
            duplicate: ledger.duplicate - before.duplicate,
            future: ledger.future - before.future,
            ignored: ledger.ignored - before.ignored,
            filtered: ledger.filtered - before.filtered,
            rejected: ledger.rejected_total() - before.rejected_total(),
            reason,
            hint: reason.and_then(|reason| decode::explain(&stream.spec, payload, reason)).map(Into::into),
            rest,
        })
    }
}

impl Stream {
    /// Records that were late, of the readings that are passed on and then of each window.
    fn late(&self) -> impl Iterator<Item = u64> {
        let windows = self.windows.iter().map(|books| books.side_output + books.backfilled + books.dropped);
        core::iter::once(self.records.side_output).chain(windows)
    }
}

/// The begin of a text, of at most so many bytes.
fn prefix(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> ProcTime {
        ProcTime::from_millis(minutes * 60_000)
    }

    /// The minutes at which a gate opens to somebody who tries in each of these.
    fn opened(gate: &mut Gate, tries: impl Iterator<Item = u64>) -> Vec<u64> {
        tries
            .filter(|at| {
                let open = gate.is_open(minutes(*at));
                if open {
                    gate.pass(minutes(*at));
                }
                open
            })
            .collect()
    }

    #[test]
    fn the_first_pass_at_once_and_then_ever_fewer_down_to_one_an_hour() {
        let mut gate = Gate::default();
        let flood = (0..10).map(|_| 7).chain(8..400);
        assert_eq!(opened(&mut gate, flood), [7, 7, 7, 7, 8, 10, 14, 22, 38, 70, 130, 190, 250, 310, 370]);
        assert!(!gate.is_open(ProcTime::from_millis(430 * 60_000 - 1)), "a millisecond before");
        assert!(gate.is_open(minutes(430)));
        assert_eq!(opened(&mut gate, 491..496), [491, 492, 494], "after a pause it begins anew");
    }

    #[test]
    fn all_together_are_bounded_by_what_waits_and_by_a_rate() {
        let sample = Sample {
            stream: Name::new("s").expect("a name"),
            reason: RejectReason::NotJson,
            topic: String::new(),
            received: WallTime::from_millis(0),
            retain: false,
            payload: Vec::new(),
            payload_bytes: 0,
            is_whole: true,
            part: Part::Whole,
            hint: None,
        };
        let mut samples = Samples::default();
        let mut taken = Vec::new();
        for minute in 0..2 {
            let mut count = 0;
            for _ in 0..1_000 {
                while samples.has_room(minutes(minute)) {
                    samples.push(minutes(minute), sample.clone());
                    count += 1;
                }
                assert!(samples.waiting.len() <= SAMPLES_PENDING_MAX);
                samples.mark_committed();
                samples.take();
            }
            taken.push(count);
        }
        assert_eq!(taken, [64, 4]);
    }

    #[test]
    fn records_of_a_message_are_told_apart_up_to_64_of_them() {
        let of = |places: &[usize], records| {
            let mut found = Places::default();
            for at in places {
                found.add(*at);
            }
            found.part(records)
        };
        assert_eq!(of(&[0], 1), Part::Whole);
        assert_eq!(of(&[0, 1, 2], 3), Part::Whole);
        assert_eq!(of(&[0, 2], 3), Part::Records { of: 3, places: 0b101 });
        assert_eq!(of(&[63], 64), Part::Records { of: 64, places: 1 << 63 });
        assert_eq!(of(&[64], 65), Part::Unknown);
        assert_eq!(of(&(0..65).collect::<Vec<_>>(), 65), Part::Whole);
    }

    #[test]
    fn a_topic_is_cut_between_characters() {
        assert_eq!((prefix("aü", 2), prefix("aü", 3), prefix("aü", 9)), ("a", "aü", "aü"));
    }
}
