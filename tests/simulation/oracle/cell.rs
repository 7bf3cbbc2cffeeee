//! What is in one window, and the books of one stream.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tidegate::engine::spec::WindowSpec;

use crate::devices::{Datum, Reading};

/// stream, window, whose it is, the time in the id.
pub(crate) type Key = (String, String, String, i64);

/// One window's content: all of its records.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub spec: Rc<WindowSpec>,
    pub count: u64,
    pub receive_time: bool,
    pub end: i64,
    /// The time in its id.
    pub opened: i64,
    pub fields: BTreeMap<&'static str, Vec<(i64, Datum)>>,
    /// The watermark has passed its end.
    pub fired: bool,
    /// Sessions: the times in the ids of others that are part of it.
    pub absorbed: BTreeSet<i64>,
    /// Its definition is gone, or its stream.
    pub undefined: bool,
    /// It lacks what comes behind a border.
    pub is_cut: bool,
}

/// One record on its way into windows.
#[derive(Clone, Copy)]
pub(crate) struct Taken<'a> {
    pub device: &'a str,
    pub at: i64,
    pub wall: i64,
    pub reading: &'a Reading,
}

impl Cell {
    pub(crate) fn new(spec: &Rc<WindowSpec>, opened: i64, end: i64) -> Cell {
        Cell {
            spec: Rc::clone(spec),
            count: 0,
            receive_time: false,
            end,
            opened,
            fields: BTreeMap::new(),
            fired: false,
            absorbed: BTreeSet::new(),
            undefined: false,
            is_cut: false,
        }
    }

    pub(crate) fn add(&mut self, record: &Taken<'_>) {
        self.count += 1;
        self.receive_time |= record.reading.at.is_none();
        for (name, value) in &record.reading.values {
            self.fields.entry(name).or_default().push((record.at, value.clone()));
        }
    }

    /// What is in both.
    pub(crate) fn with(&self, other: &Cell) -> Cell {
        let mut both = self.clone();
        both.count += other.count;
        both.receive_time |= other.receive_time;
        both.is_cut |= other.is_cut;
        for (name, values) in &other.fields {
            both.fields.entry(name).or_default().extend(values.iter().cloned());
        }
        both
    }

    /// It was over at that watermark, with its lateness.
    pub(crate) fn has_expired(&self, watermark: Option<i64>) -> bool {
        let over = self.end - 1 + self.spec.lateness.as_i64();
        watermark.is_some_and(|watermark| watermark >= over)
    }

    /// What is published does not follow from its records alone.
    pub(crate) fn may_be_partial(&self) -> bool {
        self.undefined || self.is_cut
    }
}

/// The books of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Books {
    pub received: u64,
    pub accepted: u64,
    pub duplicate: u64,
    pub future: u64,
    pub ignored: u64,
    pub redelivered: u64,
    pub unprotected: u64,
    pub rejected: BTreeMap<&'static str, u64>,
    pub fields_left_out: u64,
    pub expired: u64,
    /// Gaps, restarts and missing ones of sequence numbers.
    pub sequence: [u64; 3],
    pub passed_on: PassedOn,
    /// By name.
    pub windows: BTreeMap<String, WindowBooks>,
}

/// Readings that are passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PassedOn {
    pub accepted: u64,
    pub open: u64,
    pub on_time: u64,
    pub early: u64,
    pub side_output: u64,
}

/// The books of one window definition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WindowBooks {
    pub accepted: u64,
    pub side_output: u64,
    pub backfilled: u64,
    pub no_window: u64,
    pub dropped: u64,
}
