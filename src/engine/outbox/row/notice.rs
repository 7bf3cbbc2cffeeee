//! Rows about the agent itself: gaps and alarms.

use super::{TAG_ALARM, TAG_GAP};
use crate::engine::wire::{put_bytes, put_i64, put_str, put_u64};
use crate::model::time::{EventTime, WallTime};

/// Stands for records that had to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRow {
    /// First sequence number of the range; the row's own is the last.
    pub first_seq: u64,
    /// Records lost.
    pub records: u64,
    /// Earliest and latest time among them: window starts or event times.
    pub oldest: EventTime,
    /// See `oldest`.
    pub newest: EventTime,
}

/// Something a person should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmRow<'a> {
    /// When it was noticed.
    pub at: WallTime,
    /// A word for machines.
    pub code: &'a str,
    /// A sentence for people.
    pub text: &'a str,
}

/// Appends a gap.
pub fn write_gap(out: &mut Vec<u8>, row: &GapRow) {
    out.push(TAG_GAP);
    put_u64(out, row.first_seq);
    put_u64(out, row.records);
    put_i64(out, row.oldest.as_millis());
    put_i64(out, row.newest.as_millis());
}

/// Appends an alarm.
pub fn write_alarm(out: &mut Vec<u8>, row: &AlarmRow<'_>) {
    out.push(TAG_ALARM);
    put_i64(out, row.at.as_millis());
    put_str(out, row.code);
    put_bytes(out, row.text.as_bytes());
}
