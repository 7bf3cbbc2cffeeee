//! The buffer of ordered output: readings of one stream that wait for the
//! watermark of their scope.
//!
//! ```text
//! held      (scope, event time, arrival) → the row as it will be sent
//! by time   (event time, arrival, scope): only where a stream has several scopes
//! floors    scope → event time: what was released before the watermark had passed it
//! ```
//!
//! A reading costs O(log n). A row is kept in the form in which it will be sent, so
//! that a release is a copy and nothing has to be looked up again; buffers are
//! reused. The bound is the caller's: `records.rs` says who makes room.
//!
//! Persisted: a page has what was added since the last commit and is still held,
//! which of the older ones are gone, and floors that changed; never the whole buffer.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::time::EventTime;

use super::outbox::row::{self, Row, mark_early};
use super::wire::{Damaged, Reader, put_bytes, put_i64, put_time, put_u64};

/// What a held row takes of a snapshot beside its own bytes, about.
const PLACE_BYTES: usize = 16;
/// Row buffers kept for reuse, and the size up to which they are: at most 2 MiB.
const SPARE_ROWS: usize = 4_096;
/// See `SPARE_ROWS`.
const SPARE_ROW_BYTES: usize = 512;

/// Where a reading is in the order: by event time, of equal ones the first to arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    /// Whose watermark it waits for: the slot of the device, or 0 where there is but one.
    pub scope: u32,
    /// Its event time.
    pub at: EventTime,
    /// Counts the readings that were ever held.
    pub arrival: u64,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    held: BTreeMap<Place, Vec<u8>>,
    by_time: BTreeSet<(EventTime, u64, u32)>,
    floors: BTreeMap<u32, EventTime>,
    next_arrival: u64,
    cost: usize,
    /// Arrivals before this one are durable.
    durable: u64,
    added: Vec<Place>,
    removed: Vec<Place>,
    floors_changed: BTreeSet<u32>,
    spare: Vec<Vec<u8>>,
}

impl Ordered {
    /// Readings held.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// True when nothing is held and nothing is known that a record could break.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.held.is_empty() && self.floors.is_empty()
    }

    /// What all of them take of a snapshot, about.
    pub(super) fn cost(&self) -> usize {
        self.cost
    }

    /// What one row adds to that.
    pub(super) fn cost_of(row: &[u8]) -> usize {
        row.len() + PLACE_BYTES
    }

    /// An empty buffer for a row.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(super) fn recycle(&mut self, mut row: Vec<u8>) {
        if self.spare.len() < SPARE_ROWS && row.capacity() <= SPARE_ROW_BYTES {
            row.clear();
            self.spare.push(row);
        }
    }

    /// Holds a row.
    pub(super) fn add(&mut self, scope: u32, at: EventTime, row: Vec<u8>) {
        let place = Place { scope, at, arrival: self.next_arrival };
        self.next_arrival += 1;
        self.insert(place, row);
        // Nothing is committed while the store fails: keep what is still held.
        if self.added.len() > 2 * self.held.len() + 1_024 {
            let held = &self.held;
            self.added.retain(|place| held.contains_key(place));
        }
        self.added.push(place);
    }

    fn insert(&mut self, place: Place, row: Vec<u8>) {
        self.cost += Ordered::cost_of(&row);
        if place.scope != 0 || !self.by_time.is_empty() {
            self.index_by_time();
            self.by_time.insert((place.at, place.arrival, place.scope));
        }
        self.held.insert(place, row);
    }

    /// A stream with one scope needs no second index: made when a second comes.
    fn index_by_time(&mut self) {
        if self.by_time.is_empty() {
            self.by_time = self.held.keys().map(|place| (place.at, place.arrival, place.scope)).collect();
        }
    }

    /// The reading with the lowest event time of all.
    pub(super) fn lowest(&self) -> Option<Place> {
        let by_time =
            self.by_time.first().map(|(at, arrival, scope)| Place { scope: *scope, at: *at, arrival: *arrival });
        by_time.or_else(|| self.held.first_key_value().map(|(place, _)| *place))
    }

    /// The next reading of a scope, if its event time is at most `upto`.
    pub(super) fn next_of(&self, scope: u32, upto: EventTime) -> Option<Place> {
        let first = Place { scope, at: EventTime::MIN, arrival: 0 };
        let last = Place { scope, at: upto, arrival: u64::MAX };
        self.held.range(first..=last).next().map(|(place, _)| *place)
    }

    /// The highest event time that a scope holds.
    pub(super) fn newest_of(&self, scope: u32) -> Option<EventTime> {
        let first = Place { scope, at: EventTime::MIN, arrival: 0 };
        let last = Place { scope, at: EventTime::MAX, arrival: u64::MAX };
        self.held.range(first..=last).next_back().map(|(place, _)| place.at)
    }

    /// Takes a reading out. It is the caller's to recycle the row.
    pub(super) fn take(&mut self, place: Place) -> Option<Vec<u8>> {
        let row = self.held.remove(&place)?;
        self.by_time.remove(&(place.at, place.arrival, place.scope));
        self.cost -= Ordered::cost_of(&row);
        if place.arrival < self.durable {
            self.removed.push(place);
        }
        Some(row)
    }

    /// As [`Ordered::take`], before the watermark: what comes later and is older than
    /// this would break the order.
    pub(super) fn take_early(&mut self, place: Place) -> Option<Vec<u8>> {
        let mut row = self.take(place)?;
        mark_early(&mut row);
        self.raise_floor(place.scope, place.at);
        Some(row)
    }

    /// Nothing of `scope` that is before `at` may be released any more.
    pub(super) fn raise_floor(&mut self, scope: u32, at: EventTime) {
        let floor = self.floors.entry(scope).or_insert(at);
        *floor = at.max(*floor);
        self.floors_changed.insert(scope);
    }

    /// The floor of a scope.
    pub(super) fn floor(&self, scope: u32) -> Option<EventTime> {
        if self.floors.is_empty() { None } else { self.floors.get(&scope).copied() }
    }

    /// The watermark of a scope has passed `upto`: a floor at or below says nothing more.
    pub(super) fn drop_floor(&mut self, scope: u32, upto: EventTime) {
        if self.floor(scope).is_some_and(|floor| floor <= upto) {
            self.floors.remove(&scope);
            self.floors_changed.insert(scope);
        }
    }

    /// The order begins anew, in other scopes.
    pub(super) fn forget_floors(&mut self) {
        self.floors.clear();
    }

    /// True when nothing changed since the last commit.
    pub(super) fn is_committed(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.floors_changed.is_empty()
    }

    /// What changed is durable.
    pub(super) fn mark_committed(&mut self) {
        self.durable = self.next_arrival;
        self.added.clear();
        self.removed.clear();
        self.floors_changed.clear();
    }

    /// Appends what changed since the last commit.
    pub(super) fn write_changes(&self, out: &mut Vec<u8>) {
        put_u64(out, self.next_arrival);
        let added = self.added.iter().filter_map(|place| Some((place, self.held.get(place)?)));
        put_u64(out, added.clone().count() as u64);
        added.for_each(|(place, row)| write_held(out, *place, row));
        put_u64(out, self.removed.len() as u64);
        for place in &self.removed {
            write_place(out, *place);
        }
        put_u64(out, self.floors_changed.len() as u64);
        for scope in &self.floors_changed {
            put_u64(out, u64::from(*scope));
            put_time(out, self.floors.get(scope).copied());
        }
    }

    /// Appends everything.
    pub(super) fn write_all(&self, out: &mut Vec<u8>) {
        put_u64(out, self.next_arrival);
        put_u64(out, self.held.len() as u64);
        for (place, row) in &self.held {
            write_held(out, *place, row);
        }
        put_u64(out, 0);
        put_u64(out, self.floors.len() as u64);
        for (scope, floor) in &self.floors {
            put_u64(out, u64::from(*scope));
            put_time(out, Some(*floor));
        }
    }

    /// Applies what either wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are something else.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        self.next_arrival = reader.u64()?;
        for _ in 0..reader.u64()? {
            let place = read_place(reader)?;
            let bytes = reader.bytes()?;
            let Row::Record(..) = row::read(bytes)? else { return Err(Damaged) };
            if self.held.contains_key(&place) || place.arrival >= self.next_arrival {
                return Err(Damaged);
            }
            self.insert(place, bytes.to_vec());
        }
        for _ in 0..reader.u64()? {
            let place = read_place(reader)?;
            self.take(place).ok_or(Damaged)?;
        }
        for _ in 0..reader.u64()? {
            let scope = reader.uint()?;
            match reader.time()? {
                Some(floor) => _ = self.floors.insert(scope, floor),
                None => _ = self.floors.remove(&scope),
            }
        }
        self.mark_committed();
        Ok(())
    }
}

fn write_held(out: &mut Vec<u8>, place: Place, row: &[u8]) {
    write_place(out, place);
    put_bytes(out, row);
}

fn write_place(out: &mut Vec<u8>, place: Place) {
    put_u64(out, u64::from(place.scope));
    put_i64(out, place.at.as_millis());
    put_u64(out, place.arrival);
}

fn read_place(reader: &mut Reader<'_>) -> Result<Place, Damaged> {
    Ok(Place { scope: reader.uint()?, at: EventTime::from_millis(reader.i64()?), arrival: reader.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::outbox::row::{RecordRow, write_record};
    use crate::model::record::TimeSource;
    use crate::model::time::{ClockQuality, WallTime};

    const fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn row(key: &str, millis: i64) -> Vec<u8> {
        let row = RecordRow {
            stream: "s",
            key,
            event: at(millis),
            received: WallTime::from_millis(0),
            early: false,
            source: TimeSource::Device,
            quality: ClockQuality::Synced,
        };
        let mut bytes = Vec::new();
        write_record(&mut bytes, &row, [("v", 1.5)].into_iter(), [].into_iter());
        bytes
    }

    fn is_early(bytes: &[u8]) -> bool {
        matches!(row::read(bytes), Ok(Row::Record(RecordRow { early: true, .. }, _)))
    }

    #[test]
    fn readings_come_out_by_time_and_equal_ones_as_they_came_in() {
        let mut ordered = Ordered::default();
        for (key, millis) in [("a", 30), ("b", 10), ("c", 10), ("d", 20)] {
            ordered.add(0, at(millis), row(key, millis));
        }
        assert_eq!(ordered.next_of(0, at(9)), None);
        let mut keys = Vec::new();
        while let Some(place) = ordered.next_of(0, at(20)) {
            let bytes = ordered.take(place).expect("it was just found");
            let Ok(Row::Record(reading, _)) = row::read(&bytes) else { panic!("a reading") };
            keys.push(reading.key.to_owned());
        }
        assert_eq!(keys, ["b", "c", "d"]);
        assert_eq!((ordered.len(), ordered.cost()), (1, Ordered::cost_of(&row("a", 30))));
    }

    #[test]
    fn the_lowest_of_all_scopes_makes_room_and_leaves_a_floor_in_its_own() {
        let mut ordered = Ordered::default();
        for (scope, millis) in [(0, 50), (7, 20), (3, 30)] {
            ordered.add(scope, at(millis), row("x", millis));
        }
        let place = ordered.lowest().expect("three are held");
        assert_eq!((place.scope, place.at), (7, at(20)));
        assert!(is_early(&ordered.take_early(place).expect("it is held")));
        assert_eq!((ordered.floor(7), ordered.floor(3)), (Some(at(20)), None));
        ordered.drop_floor(7, at(19));
        assert_eq!(ordered.floor(7), Some(at(20)));
        ordered.drop_floor(7, at(20));
        assert_eq!(ordered.floor(7), None);
        assert_eq!(ordered.lowest().map(|place| place.at), Some(at(30)));
    }

    #[test]
    fn pages_hold_what_changed_and_give_the_same_buffer_as_a_snapshot() {
        let mut ordered = Ordered::default();
        for millis in 0..100 {
            ordered.add(0, at(millis), row("a", millis));
        }
        let mut snapshot = Vec::new();
        ordered.write_all(&mut snapshot);
        ordered.mark_committed();
        assert!(ordered.is_committed());

        for millis in [3, 200] {
            ordered.add(0, at(millis), row("b", millis));
        }
        for _ in 0..10 {
            let place = ordered.next_of(0, at(1_000)).expect("many are held");
            ordered.take_early(place).expect("it is held");
        }
        let mut page = Vec::new();
        ordered.write_changes(&mut page);
        assert!(page.len() < 200, "{} bytes for 11 changes of 100", page.len());

        let mut restored = Ordered::default();
        restored.read(&mut Reader::new(&snapshot)).expect("what was written");
        restored.read(&mut Reader::new(&page)).expect("what was written");
        assert_eq!(restored.held, ordered.held);
        assert_eq!((restored.floors, restored.cost), (ordered.floors.clone(), ordered.cost));
        assert_eq!(restored.next_arrival, ordered.next_arrival);
        for cut in 0..page.len() {
            let mut again = Ordered::default();
            again.read(&mut Reader::new(&snapshot)).expect("what was written");
            assert!(again.read(&mut Reader::new(&page[..cut])).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn what_no_commit_needs_any_more_is_forgotten() {
        let mut ordered = Ordered::default();
        for millis in 0..10_000 {
            ordered.add(0, at(millis), row("a", millis));
            let place = ordered.lowest().expect("one is held");
            let row = ordered.take(place).expect("it is held");
            ordered.recycle(row);
        }
        assert!(ordered.added.len() <= 1_026, "{}", ordered.added.len());
        assert_eq!((ordered.removed.len(), ordered.spare.len()), (0, SPARE_ROWS));
    }
}
