//! What stands for rows that are not sent: how many, of which devices, from when.

use std::collections::BTreeMap;

use crate::engine::wire::Damaged;
use crate::model::limits::GAP_ITEMS_MAX;
use crate::model::time::EventTime;

use super::row::{self, GapItem, GapReason, GapRow, Row};

/// A gap as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    row: Vec<u8>,
    /// Records it stands for.
    pub records: u64,
    /// Why.
    pub reason: GapReason,
    /// It may be published. Not before a commit: after a crash the rows are back.
    pub durable: bool,
    /// Its place in the order over all lanes: that of the row which caused it.
    pub order: u64,
}

/// Counts what is lost.
struct Lost<'a> {
    total: Count,
    items: BTreeMap<(&'a str, &'a str), Count>,
}

#[derive(Clone, Copy)]
struct Count {
    records: u64,
    oldest: EventTime,
    newest: EventTime,
}

impl Gap {
    /// For some rows.
    pub(super) fn of<'a>(first_seq: u64, rows: impl Iterator<Item = &'a [u8]>, reason: GapReason) -> Gap {
        let mut lost = Lost::default();
        for row in rows.filter_map(|bytes| row::read(bytes).ok()) {
            let (stream, key) = row.subject();
            let count = Count { records: 1, oldest: row.time(), newest: row.time() };
            lost.total.add(count);
            if !stream.is_empty() {
                lost.add((stream, key), count);
            }
        }
        lost.write(first_seq, reason)
    }

    /// For rows of which only that much is known.
    pub(super) fn unknown(first_seq: u64, records: u64, times: (EventTime, EventTime), reason: GapReason) -> Gap {
        let total = Count { records, oldest: times.0, newest: times.1 };
        Lost { total, items: BTreeMap::new() }.write(first_seq, reason)
    }

    /// From its stored form.
    pub(super) fn read(bytes: &[u8]) -> Result<Gap, Damaged> {
        let Row::Gap(row, _) = row::read(bytes)? else { return Err(Damaged) };
        Ok(Gap { row: bytes.to_vec(), records: row.records, reason: row.reason, durable: true, order: 0 })
    }

    /// One for this and the rows that follow it.
    pub(super) fn joined(&self, next: &Gap) -> Gap {
        let mut lost = Lost::default();
        let mut first_seq = 0;
        for (place, gap) in [self, next].into_iter().enumerate() {
            let Ok(Row::Gap(row, items)) = row::read(&gap.row) else { continue };
            if place == 0 {
                first_seq = row.first_seq;
            }
            lost.total.add(Count { records: row.records, oldest: row.oldest, newest: row.newest });
            for item in items.iter() {
                let count = Count { records: item.records, oldest: item.oldest, newest: item.newest };
                lost.add((item.stream, item.key), count);
            }
        }
        Gap { durable: false, order: next.order, ..lost.write(first_seq, self.reason) }
    }

    /// Its stored form.
    pub(super) fn row(&self) -> &[u8] {
        &self.row
    }
}

impl<'a> Lost<'a> {
    fn add(&mut self, subject: (&'a str, &'a str), count: Count) {
        if let Some(item) = self.items.get_mut(&subject) {
            item.add(count);
        } else if self.items.len() < GAP_ITEMS_MAX {
            self.items.insert(subject, count);
        }
    }

    fn write(&self, first_seq: u64, reason: GapReason) -> Gap {
        let Count { records, oldest, newest } = self.total;
        let items: Vec<_> = self
            .items
            .iter()
            .map(|(&(stream, key), count)| GapItem {
                stream,
                key,
                records: count.records,
                oldest: count.oldest,
                newest: count.newest,
            })
            .collect();
        let mut row = Vec::new();
        row::write_gap(&mut row, &GapRow { first_seq, records, oldest, newest, reason }, items.into_iter());
        Gap { row, records, reason, durable: false, order: 0 }
    }
}

impl Default for Lost<'_> {
    fn default() -> Self {
        let total = Count { records: 0, oldest: EventTime::MAX, newest: EventTime::MIN };
        Lost { total, items: BTreeMap::new() }
    }
}

impl Count {
    fn add(&mut self, other: Count) {
        self.records += other.records;
        self.oldest = self.oldest.min(other.oldest);
        self.newest = self.newest.max(other.newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::outbox::row::{LateReason, LateRow, write_late};
    use crate::model::record::TimeSource;
    use crate::model::time::{ClockQuality, Span, WallTime};

    fn late(key: &str, at: i64) -> Vec<u8> {
        let row = LateRow {
            stream: "s",
            window: "w",
            key,
            event: EventTime::from_millis(at),
            received: WallTime::from_millis(at),
            reason: LateReason::Future,
            lag: Span::ZERO,
            source: TimeSource::Device,
            quality: ClockQuality::Synced,
        };
        let mut bytes = Vec::new();
        write_late(&mut bytes, &row, core::iter::empty(), core::iter::empty());
        bytes
    }

    #[test]
    fn a_gap_says_of_which_devices_how_many_and_from_when() {
        let rows = [late("a", 5), late("b", 3), late("a", 9)];
        let gap = Gap::of(7, rows.iter().map(Vec::as_slice), GapReason::Evicted);
        let more = Gap::of(10, core::iter::once(late("b", 1).as_slice()), GapReason::Evicted);
        let joined = gap.joined(&more);
        let Ok(Row::Gap(row, items)) = row::read(joined.row()) else { panic!("a gap") };
        assert_eq!((row.first_seq, row.records, joined.records), (7, 4, 4));
        assert_eq!((row.oldest.as_millis(), row.newest.as_millis()), (1, 9));
        let found: Vec<_> = items.iter().map(|item| (item.key, item.records, item.oldest.as_millis())).collect();
        assert_eq!(found, [("a", 2, 5), ("b", 2, 1)]);
        assert_eq!(Gap::read(joined.row()).expect("a gap").records, 4);
    }

    #[test]
    fn more_devices_than_there_is_room_for_are_counted_all_the_same() {
        let rows: Vec<_> = (0..200).map(|number| late(&format!("device {number}"), number)).collect();
        let gap = Gap::of(0, rows.iter().map(Vec::as_slice), GapReason::Evicted);
        let Ok(Row::Gap(row, items)) = row::read(gap.row()) else { panic!("a gap") };
        assert_eq!((row.records, items.len()), (200, GAP_ITEMS_MAX));
    }
}
