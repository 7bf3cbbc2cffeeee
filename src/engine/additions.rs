//! What was added to open windows since the last commit, one by one.
//!
//! A page that holds the additions is a fraction of one that holds the windows they
//! went to: of a window of one field with the usual aggregates, three bytes instead of
//! forty. Restoring adds them again, by the same code and in the same order, so that
//! the accumulators are the same to the bit.
//!
//! Only additions that change nothing else are noted: to a window that was there at
//! the last commit, did not fire, is not shown by the clock, and holds aggregates of fixed
//! size. Everything else marks its window as `dirty`, which then is written whole.

use crate::model::ids::FieldIx;
use crate::model::limits::ADDITIONS_MAX;
use crate::model::record::{Record, TimeSource};
use crate::model::time::EventTime;

/// One record in one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub slot: u32,
    pub window: u8,
    /// The ledger counts it as `open` there.
    pub settles: bool,
    /// The record has no time of its own.
    pub receive_time: bool,
    /// Values: so many.
    fields: u8,
    /// Values: from here on.
    first: u32,
    /// Start of the window.
    pub start: EventTime,
    pub at: EventTime,
}

/// Additions in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Additions {
    noted: Vec<Noted>,
    values: Vec<(FieldIx, f64)>,
}

impl Additions {
    /// Notes one; false when there is no room for more.
    #[inline]
    pub(super) fn note(&mut self, slot: u32, window: u8, start: EventTime, settles: bool, record: &Record<'_>) -> bool {
        let (Ok(fields), Ok(first)) = (u8::try_from(record.values.len()), u32::try_from(self.values.len())) else {
            return false;
        };
        if self.noted.len() >= ADDITIONS_MAX || self.values.len() >= ADDITIONS_MAX {
            return false;
        }
        let receive_time = record.source == TimeSource::Receive;
        self.noted.push(Noted { slot, window, settles, receive_time, fields, first, start, at: record.at });
        self.values.extend_from_slice(record.values);
        true
    }

    /// Everything so far is durable.
    pub(super) fn clear(&mut self) {
        self.noted.clear();
        self.values.clear();
    }

    /// By window, in the order of slots; those of one window in the order in which they came.
    pub(super) fn by_window(&self) -> Vec<Noted> {
        let mut sorted = self.noted.clone();
        sorted.sort_by_key(|noted| (noted.slot, noted.window, noted.start));
        sorted
    }

    /// The values of one.
    pub(super) fn values(&self, noted: &Noted) -> &[(FieldIx, f64)] {
        &self.values[noted.first as usize..][..usize::from(noted.fields)]
    }
}
