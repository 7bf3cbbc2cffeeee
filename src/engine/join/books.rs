//! The books of joins: whatever a join takes in ends in exactly one place.
//!
//! Window join, in windows of a key: `windows = open + joined + missing +
//! unmatched + expired + evicted + too_large + abandoned`. Interval join, each side
//! in records: `records = open + matched + unmatched + expired + evicted + late +
//! abandoned`.

use serde::Serialize;

use crate::engine::wire::{Damaged, Reader, put_u64};

/// Books of one window join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WindowJoinLedger {
    /// Windows of a key of which at least one side had a pane.
    pub windows: u64,
    /// Not decided yet.
    pub open: u64,
    /// Their first row had all sides.
    pub joined: u64,
    /// Outer: their first row lacked a side.
    pub missing: u64,
    /// Inner: a side had nothing, and can have nothing any more.
    pub unmatched: u64,
    /// Inner: a side had nothing for as long as `ttl`.
    pub expired: u64,
    /// Inner: had to make room while a side had nothing.
    pub evicted: u64,
    /// All sides together are larger than a row may be; no row was made.
    pub too_large: u64,
    /// Inner: the definition of the join changed while a side had nothing.
    pub abandoned: u64,

    /// Outside the balance: rows after the first of their window.
    pub revisions: u64,
    /// Outside the balance: panes that came when their window was closed by `ttl` or
    /// for room.
    pub late: u64,
}

/// Books of one side of an interval join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IntervalSideLedger {
    /// Records that the join was shown.
    pub records: u64,
    /// Waiting for partners.
    pub open: u64,
    /// Had at least one partner, and can have no more.
    pub matched: u64,
    /// Had none, and can have none any more.
    pub unmatched: u64,
    /// Waited as long as `ttl`.
    pub expired: u64,
    /// Had to make room.
    pub evicted: u64,
    /// Behind the watermark of the join when they came; not joined.
    pub late: u64,
    /// The definition of the join changed while they waited.
    pub abandoned: u64,
}

impl WindowJoinLedger {
    fn counts(&mut self) -> [&mut u64; 11] {
        [
            &mut self.windows,
            &mut self.open,
            &mut self.joined,
            &mut self.missing,
            &mut self.unmatched,
            &mut self.expired,
            &mut self.evicted,
            &mut self.too_large,
            &mut self.abandoned,
            &mut self.revisions,
            &mut self.late,
        ]
    }

    /// True when every window is in exactly one place.
    pub fn balances(&self) -> bool {
        let decided = self.joined + self.missing + self.unmatched + self.expired + self.evicted;
        self.windows == self.open + decided + self.too_large + self.abandoned
    }

    pub(super) fn write(mut self, out: &mut Vec<u8>) {
        self.counts().into_iter().for_each(|count| put_u64(out, *count));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<WindowJoinLedger, Damaged> {
        let mut books = WindowJoinLedger::default();
        for count in books.counts() {
            *count = reader.u64()?;
        }
        Ok(books)
    }
}

impl IntervalSideLedger {
    fn counts(&mut self) -> [&mut u64; 8] {
        [
            &mut self.records,
            &mut self.open,
            &mut self.matched,
            &mut self.unmatched,
            &mut self.expired,
            &mut self.evicted,
            &mut self.late,
            &mut self.abandoned,
        ]
    }

    /// True when every record is in exactly one place.
    pub fn balances(&self) -> bool {
        let decided = self.matched + self.unmatched + self.expired + self.evicted + self.late + self.abandoned;
        self.records == self.open + decided
    }

    pub(super) fn write(mut self, out: &mut Vec<u8>) {
        self.counts().into_iter().for_each(|count| put_u64(out, *count));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<IntervalSideLedger, Damaged> {
        let mut books = IntervalSideLedger::default();
        for count in books.counts() {
            *count = reader.u64()?;
        }
        Ok(books)
    }
}
