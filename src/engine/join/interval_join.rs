//! Interval joins: pairs of records of two streams that are near in event time.
//!
//! Flink's `IntervalJoinOperator` with one key per device or group, whose watermark
//! W is the lower one of both sides: a record before W is late and not joined; any
//! other meets what the other side has in its interval, both bounds included, and
//! is kept until W has reached the last time at which a partner could be. What
//! Flink does not have are the bounds: a time to live, and a number of records.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::engine::outbox::row::write_pair;
use crate::engine::spec::KeySpec;
use crate::engine::timers::LiveTime;
use crate::engine::watermark::Watermark;
use crate::model::ids::Name;
use crate::model::limits::JOIN_RECORDS_PER_KEY_MAX;
use crate::model::record::TimeSource;
use crate::model::time::{EventTime, Span};

use super::Scene;
use super::books::IntervalSideLedger;
use super::tap::TappedRecord;
use super::waiting::{Wait, Waiting};

/// One record that waits; in the order of key, side and time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RecordId {
    pub key: Arc<str>,
    /// 0 left, 1 right.
    pub side: u8,
    pub at: EventTime,
    /// Tells records of the same time apart, in the order of arrival.
    pub number: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub values: Box<[u8]>,
    pub source: TimeSource,
    /// It had a partner.
    pub matched: bool,
    /// The watermark at which it goes.
    pub until: EventTime,
    pub deadline: LiveTime,
    pub wait: Option<Wait>,
}

/// A stream of the join.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// Place of the stream.
    pub stream: usize,
    /// Its name.
    pub name: Name,
}

/// Why a record goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Watermark,
    Ttl,
    Room,
    Redefined,
}

/// State of one interval join.
#[derive(Clone, Debug)]
pub(super) struct IntervalJoin {
    pub name: Name,
    pub sides: [Side; 2],
    pub lower_ms: i64,
    pub upper_ms: i64,
    pub key: KeySpec,
    pub ttl: Span,
    /// Bytes that its records may take.
    pub budget: usize,
    pub records: BTreeMap<RecordId, Kept>,
    pub deadlines: BTreeSet<(LiveTime, RecordId)>,
    pub books: [IntervalSideLedger; 2],
    /// Pairs that were made.
    pub pairs: u64,
    pub next_number: u64,
    pub changes: Changes,
    /// Records by key.
    keys: BTreeMap<Arc<str>, usize>,
    pub waiting: Waiting<RecordId>,
    bytes: usize,
}

/// What a commit has to write.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    pub any: bool,
    pub dirty: BTreeSet<RecordId>,
    pub removed: BTreeSet<RecordId>,
}

/// Bytes of a record beside its key and values: an estimate of memory and snapshot.
const RECORD_COST: usize = 96;

fn cost(id: &RecordId, kept: &Kept) -> usize {
    RECORD_COST + id.key.len() + kept.values.len()
}

/// Saturates: a device chooses these numbers.
fn shifted(at: EventTime, millis: i64) -> EventTime {
    EventTime::from_millis(at.as_millis().saturating_add(millis))
}

impl IntervalJoin {
    pub(super) fn new(
        name: Name,
        sides: [Side; 2],
        (lower_ms, upper_ms): (i64, i64),
        key: KeySpec,
        ttl: Span,
        budget: usize,
    ) -> IntervalJoin {
        IntervalJoin {
            name,
            sides,
            lower_ms,
            upper_ms,
            key,
            ttl,
            budget,
            records: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            books: [IntervalSideLedger::default(); 2],
            pairs: 0,
            next_number: 0,
            changes: Changes::default(),
            keys: BTreeMap::new(),
            waiting: Waiting::new(2),
            bytes: 0,
        }
    }

    /// A side has accepted a record.
    pub(super) fn handle_record(&mut self, scene: &mut Scene<'_>, side: u8, record: &TappedRecord<'_>) {
        self.changes.any = true;
        let [of_device, of_group] = record.before;
        let (key, own) = match self.key {
            KeySpec::Device | KeySpec::Stream => (record.device, of_device),
            KeySpec::Group => (record.group, of_group),
        };
        let books = &mut self.books[usize::from(side)];
        books.records += 1;
        // The watermark of the join before this record: its own side may have risen since.
        let other = &self.sides[usize::from(1 - side)];
        let watermark = own.min(scene.watermark_of_key(other.stream, self.key, key));
        if watermark.time().is_some_and(|time| record.at < time) {
            books.late += 1;
            return;
        }
        books.open += 1;
        let known = self.keys.get_key_value(key).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| Arc::from(key));
        if self.keys.get(&key).is_some_and(|records| *records >= JOIN_RECORDS_PER_KEY_MAX) {
            self.evict_oldest_of(&key);
        }
        let id = RecordId { key, side, at: record.at, number: self.next_number };
        self.next_number += 1;
        let deadline = scene.live.plus(self.ttl);
        let values = Box::from(record.values);
        let until = self.until(side, record.at, watermark);
        let mut kept = Kept { values, source: record.source, matched: false, until, deadline, wait: None };
        self.pair(scene, &id, &mut kept);
        self.insert(id.clone(), kept);
        self.changes.dirty.insert(id.clone());
        self.look(scene, &id);
        while self.bytes > self.budget
            && let Some((_, id)) = self.deadlines.first()
        {
            let id = id.clone();
            self.let_go(&id, Cause::Room);
        }
    }

    /// The watermark at which a record goes that comes under `watermark`: at the last time
    /// at which a partner can be, not before its own, and by a watermark that has risen
    /// since. (Flink sets a timer, which fires when a watermark comes.)
    fn until(&self, side: u8, at: EventTime, watermark: Watermark) -> EventTime {
        let reach = if side == 0 { self.upper_ms } else { self.lower_ms.saturating_neg() };
        let until = shifted(at, reach.max(0));
        watermark.time().map_or(until, |time| until.max(time + Span::MILLI))
    }

    /// Makes the pairs of a new record, in order of the partners' times.
    fn pair(&mut self, scene: &mut Scene<'_>, id: &RecordId, kept: &mut Kept) {
        let (lower, upper) = if id.side == 0 {
            (self.lower_ms, self.upper_ms)
        } else {
            (self.upper_ms.saturating_neg(), self.lower_ms.saturating_neg())
        };
        let bound = |millis, number| RecordId {
            key: Arc::clone(&id.key),
            side: 1 - id.side,
            at: shifted(id.at, millis),
            number,
        };
        let range = (Bound::Included(bound(lower, 0)), Bound::Included(bound(upper, u64::MAX)));
        for (other_id, other) in self.records.range_mut(range) {
            if !other.matched {
                other.matched = true;
                self.changes.dirty.insert(other_id.clone());
            }
            kept.matched = true;
            self.pairs += 1;
            let (mine, other) = ((id, &*kept), (other_id, &*other));
            let [left, right] = if id.side == 0 { [mine, other] } else { [other, mine] };
            let receive = [left.1.source, right.1.source].contains(&TimeSource::Receive);
            let source = if receive { TimeSource::Receive } else { TimeSource::Device };
            let sides =
                [(self.sides[0].name.as_str(), &*left.1.values), (self.sides[1].name.as_str(), &*right.1.values)];
            let names = (self.name.as_str(), &*id.key);
            let quality = scene.now.quality;
            scene.outbox.push(scene.lane(false), |out| {
                write_pair(out, names, [left.0.at, right.0.at], (source, quality), sides);
            });
        }
    }

    /// A watermark of a side has risen.
    pub(super) fn advance(&mut self, scene: &mut Scene<'_>, side: usize, scope: &str) {
        let watermark = scene.watermark(self.sides[side].stream, scope);
        while let Some(id) = self.waiting.pop_reached(side, scope, watermark) {
            if let Some(kept) = self.records.get_mut(&id) {
                kept.wait = None;
            }
            self.look(scene, &id);
        }
    }

    /// Looks at the records of a key, which is under another watermark now.
    pub(super) fn look_at_key(&mut self, scene: &mut Scene<'_>, key: &str) {
        let first = RecordId { key: Arc::from(key), side: 0, at: EventTime::MIN, number: 0 };
        let ids = self.records.range(first..).map(|(id, _)| id).take_while(|id| &*id.key == key);
        for id in ids.cloned().collect::<Vec<_>>() {
            self.unwait(&id);
            self.look(scene, &id);
        }
    }

    /// Lets go of what has waited long enough.
    pub(super) fn expire(&mut self, live: LiveTime) {
        while let Some((at, id)) = self.deadlines.first()
            && *at <= live
        {
            let id = id.clone();
            self.let_go(&id, Cause::Ttl);
        }
    }

    /// Looks at every record: after a restore, and at the end of a bounded input.
    pub(super) fn look_at_all(&mut self, scene: &mut Scene<'_>) {
        for id in self.records.keys().cloned().collect::<Vec<_>>() {
            self.unwait(&id);
            self.look(scene, &id);
        }
        while self.bytes > self.budget
            && let Some((_, id)) = self.deadlines.first()
        {
            let id = id.clone();
            self.let_go(&id, Cause::Room);
        }
    }

    /// Lets go of a record that can have no partner any more; else it waits on.
    fn look(&mut self, scene: &Scene<'_>, id: &RecordId) {
        let Some(until) = self.records.get(id).map(|kept| kept.until) else { return };
        let wait = self
            .sides
            .iter()
            .enumerate()
            .find_map(|(place, side)| scene.wait_for((place, side.stream), self.key, &id.key, until));
        let Some(wait) = wait else { return self.let_go(id, Cause::Watermark) };
        if let Some(kept) = self.records.get_mut(id) {
            self.waiting.add(&wait, id.clone());
            kept.wait = Some(wait);
        }
    }

    pub(super) fn let_go(&mut self, id: &RecordId, cause: Cause) {
        let Some(kept) = self.remove(id) else { return };
        let books = &mut self.books[usize::from(id.side)];
        books.open -= 1;
        match cause {
            Cause::Watermark if kept.matched => books.matched += 1,
            Cause::Watermark => books.unmatched += 1,
            Cause::Ttl => books.expired += 1,
            Cause::Room => books.evicted += 1,
            Cause::Redefined => books.abandoned += 1,
        }
    }

    /// The one with the earliest event time.
    fn evict_oldest_of(&mut self, key: &Arc<str>) {
        let first = |side| {
            let begin = RecordId { key: Arc::clone(key), side, at: EventTime::MIN, number: 0 };
            let (id, _) = self.records.range(begin..).next()?;
            (id.key == *key && id.side == side).then(|| id.clone())
        };
        let oldest = [first(0), first(1)].into_iter().flatten().min_by_key(|id| (id.at, id.number));
        if let Some(oldest) = oldest {
            self.let_go(&oldest, Cause::Room);
        }
    }

    fn unwait(&mut self, id: &RecordId) {
        if let Some(wait) = self.records.get_mut(id).and_then(|kept| kept.wait.take()) {
            self.waiting.remove(&wait, id.clone());
        }
    }

    /// Puts a record where it belongs; it does not wait yet.
    pub(super) fn insert(&mut self, id: RecordId, kept: Kept) {
        self.remove(&id);
        self.changes.removed.remove(&id);
        self.bytes += cost(&id, &kept);
        *self.keys.entry(Arc::clone(&id.key)).or_default() += 1;
        self.deadlines.insert((kept.deadline, id.clone()));
        self.records.insert(id, kept);
    }

    pub(super) fn remove(&mut self, id: &RecordId) -> Option<Kept> {
        self.unwait(id);
        let kept = self.records.remove(id)?;
        self.bytes -= cost(id, &kept);
        self.deadlines.remove(&(kept.deadline, id.clone()));
        if let Some(records) = self.keys.get_mut(&id.key) {
            *records -= 1;
            if *records == 0 {
                self.keys.remove(&id.key);
            }
        }
        self.changes.any = true;
        self.changes.dirty.remove(id);
        self.changes.removed.insert(id.clone());
        Some(kept)
    }
}
