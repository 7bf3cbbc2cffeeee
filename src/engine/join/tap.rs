//! What joins hear from a stream: the panes, records and rises of watermarks of one
//! input. Noted while the stream is at work, looked at when it is done: a join asks
//! the watermarks of several streams.
//!
//! A stream that no join names has no tap, and notes nothing.

use core::ops::Range;

use crate::engine::fields::FieldTable;
use crate::engine::outbox::row::{PaneKind, PaneRow, write_values};
use crate::engine::watermark::Watermark;
use crate::model::record::{Record, TimeSource};
use crate::model::time::EventTime;

/// Which parts of a stream joins want to hear of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Wants {
    /// Bit `w`: panes of window `w`.
    pub windows: u8,
    /// Its records.
    pub records: bool,
}

/// What happened in one stream during one input. Its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Taps {
    /// What is noted.
    pub wants: Wants,
    panes: Vec<PaneNote>,
    records: Vec<RecordNote>,
    rises: Vec<Rise>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct PaneNote {
    window: u8,
    start: EventTime,
    end: EventTime,
    count: u64,
    late: bool,
    look: bool,
    key: Range<usize>,
    row: Range<usize>,
}

#[derive(Clone, Debug)]
struct RecordNote {
    at: EventTime,
    source: TimeSource,
    before: [Watermark; 2],
    device: Range<usize>,
    group: Range<usize>,
    values: Range<usize>,
}

/// A watermark that has risen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Rise {
    /// That of one device, by its slot; or it is under another one now.
    Device(u32),
    /// The one of a group, by its slot.
    Group(u32),
    /// The one of the stream.
    Stream,
}

/// A pane of a window that is joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct TappedPane<'t> {
    pub window: u8,
    pub key: &'t str,
    pub start: EventTime,
    pub end: EventTime,
    pub count: u64,
    /// A record behind the watermark has changed a window that had fired.
    pub late: bool,
    /// The window is open yet: an early or an idle pane.
    pub look: bool,
    /// As it was queued.
    pub row: &'t [u8],
}

/// A record of a stream that is joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct TappedRecord<'t> {
    pub device: &'t str,
    pub group: &'t str,
    pub at: EventTime,
    pub source: TimeSource,
    /// The watermark that it met: of its device, of its group.
    pub before: [Watermark; 2],
    /// As `write_values` writes them.
    pub values: &'t [u8],
}

impl Taps {
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.panes.is_empty() && self.records.is_empty() && self.rises.is_empty()
    }

    pub(in crate::engine) fn clear(&mut self) {
        self.panes.clear();
        self.records.clear();
        self.rises.clear();
        self.bytes.clear();
    }

    /// A pane was queued as `stored`.
    pub(in crate::engine) fn note_pane(&mut self, window: u8, row: &PaneRow<'_>, stored: &[u8]) {
        let is_wanted = self.wants.windows.checked_shr(window.into()).is_some_and(|bits| bits & 1 != 0);
        if !is_wanted || row.pane == PaneKind::Delta {
            return;
        }
        let key = append(&mut self.bytes, row.key.as_bytes());
        let stored = append(&mut self.bytes, stored);
        let late = matches!(row.pane, PaneKind::Late | PaneKind::Final);
        let look = matches!(row.pane, PaneKind::Early | PaneKind::Idle);
        let (start, end, count) = (row.start, row.end, row.count);
        self.panes.push(PaneNote { window, start, end, count, late, look, key, row: stored });
    }

    /// A record was accepted, under these watermarks of its device and its group.
    pub(in crate::engine) fn note_record(&mut self, record: &Record<'_>, before: [Watermark; 2], fields: &FieldTable) {
        if record.values.is_empty() && record.states.is_empty() {
            // A mark, and no reading.
            return;
        }
        let device = append(&mut self.bytes, record.device.as_bytes());
        let group = append(&mut self.bytes, record.group.as_bytes());
        let begin = self.bytes.len();
        let text = |state| fields.states().text(state);
        let name = |field| fields.name(field).expect("a record's fields come from this table").as_str();
        let numbers = record.values.iter().map(|(field, value)| (name(*field), *value));
        let states = record.states.iter().map(|(field, state)| (name(*field), text(*state)));
        write_values(&mut self.bytes, numbers, states);
        let values = begin..self.bytes.len();
        self.records.push(RecordNote { at: record.at, source: record.source, before, device, group, values });
    }

    /// A watermark has risen.
    pub(in crate::engine) fn note_rise(&mut self, rise: Rise) {
        if self.rises.last() != Some(&rise) {
            self.rises.push(rise);
        }
    }

    pub(super) fn panes(&self) -> impl Iterator<Item = TappedPane<'_>> {
        self.panes.iter().map(|note| TappedPane {
            window: note.window,
            key: self.text(&note.key),
            start: note.start,
            end: note.end,
            count: note.count,
            late: note.late,
            look: note.look,
            row: &self.bytes[note.row.clone()],
        })
    }

    pub(super) fn records(&self) -> impl Iterator<Item = TappedRecord<'_>> {
        self.records.iter().map(|note| TappedRecord {
            device: self.text(&note.device),
            group: self.text(&note.group),
            at: note.at,
            source: note.source,
            before: note.before,
            values: &self.bytes[note.values.clone()],
        })
    }

    pub(super) fn rises(&self) -> impl Iterator<Item = Rise> {
        self.rises.iter().copied()
    }

    fn text(&self, range: &Range<usize>) -> &str {
        core::str::from_utf8(&self.bytes[range.clone()]).expect("it was text when it was noted")
    }
}

fn append(bytes: &mut Vec<u8>, more: &[u8]) -> Range<usize> {
    let begin = bytes.len();
    bytes.extend_from_slice(more);
    begin..bytes.len()
}
