//! The records of one payload, kept until the engine takes them in: whether they count is
//! known only at the end of the payload.

use crate::model::ids::{FieldIx, StateIx};
use crate::model::limits::TEXTS_MAX;
use crate::model::record::RejectReason;

use super::DecodedTime;

/// What a payload holds, in buffers that are reused.
#[derive(Clone, Debug, Default)]
pub struct DecodedBatch {
    records: Vec<Kept>,
    values: Vec<(FieldIx, f64)>,
    states: Vec<(FieldIx, StateIx)>,
    /// Texts that templates take from the payload.
    text: String,
    texts: Vec<TextAt>,
    /// Those of the whole payload; they count for each of its records.
    shared: Vec<TextAt>,
    /// Bytes of the payload.
    payload_bytes: usize,
    crowded: bool,
}

/// Items up to which a list grows by doubling; beyond, by a quarter.
const DOUBLED_MAX: usize = 1_024;
/// What the records of a payload may take for each of its bytes, and beside that: what is
/// denser are no records of a device. A list that grows is held twice while it is moved.
const BYTES_PER_BYTE: usize = 7;
const BYTES_BESIDE: usize = 24 * 1024;

/// The texts of one record, by the places of `MappingSpec::texts`.
pub type Texts<'b> = heapless::Vec<Option<&'b str>, TEXTS_MAX>;

/// Where a text begins and ends; nowhere: [`NO_TEXT`]. Smaller than an option by a third.
pub(super) type TextAt = (u32, u32);

/// There is no text.
pub(super) const NO_TEXT: TextAt = (u32::MAX, 0);

/// One record as it is kept: what is its ends where that of the next begins.
#[derive(Clone, Copy, Debug)]
struct Kept {
    time: Result<DecodedTime, RejectReason>,
    values_end: u32,
    states_end: u32,
    texts_end: u32,
    left_out: u32,
}

/// One record, or the reason why there is none.
#[derive(Clone, Copy, Debug)]
pub struct DecodedEntry {
    /// Its time, or why it is none.
    pub time: Result<DecodedTime, RejectReason>,
    values: (u32, u32),
    states: (u32, u32),
    texts: (u32, u32),
    /// Fields that were there but could not be used: not a number, too large for a float,
    /// out of range, no state, or beyond `limits::FIELDS_MAX` or `limits::STATES_MAX`. The
    /// record goes on without them.
    pub left_out: u32,
}

impl DecodedBatch {
    /// Nothing, of a payload of that size.
    pub(super) fn clear(&mut self, payload_bytes: usize) {
        self.payload_bytes = payload_bytes;
        self.crowded = false;
        clear(&mut self.records);
        clear(&mut self.values);
        clear(&mut self.states);
        clear(&mut self.texts);
        clear(&mut self.shared);
        self.text.clear();
        self.text.shrink_to(DOUBLED_MAX);
    }

    /// It had more records than a payload of its size can have with any sense.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Whether there is no room for another record.
    fn is_full(&self) -> bool {
        let used = size_of_val(self.records.as_slice())
            + size_of_val(self.values.as_slice())
            + size_of_val(self.states.as_slice())
            + size_of_val(self.texts.as_slice())
            + self.text.len();
        used > BYTES_PER_BYTE * self.payload_bytes + BYTES_BESIDE
    }

    /// The whole payload is of no use.
    pub(super) fn reject_all(&mut self, reason: RejectReason) {
        self.clear(self.payload_bytes);
        self.reject(reason);
    }

    /// One record is of no use.
    pub(super) fn reject(&mut self, reason: RejectReason) {
        self.keep_record(Err(reason), 0);
    }

    /// Adds a record of what `values` and `states` give.
    pub(super) fn push(
        &mut self,
        time: DecodedTime,
        values: impl Iterator<Item = (FieldIx, f64)>,
        states: impl Iterator<Item = (FieldIx, StateIx)>,
        texts: &[TextAt],
        left_out: u32,
    ) {
        if self.is_full() {
            self.crowded = true;
            return;
        }
        values.for_each(|value| push(&mut self.values, value));
        states.for_each(|state| push(&mut self.states, state));
        if texts.iter().any(|text| *text != NO_TEXT) {
            for text in texts {
                push(&mut self.texts, *text);
            }
        }
        self.keep_record(Ok(time), left_out);
    }

    fn keep_record(&mut self, time: Result<DecodedTime, RejectReason>, left_out: u32) {
        let (values_end, states_end, texts_end) = (len(&self.values), len(&self.states), len(&self.texts));
        if self.is_full() {
            self.crowded = true;
            return;
        }
        push(&mut self.records, Kept { time, values_end, states_end, texts_end, left_out });
    }

    /// Keeps a text of the payload.
    pub(super) fn keep(&mut self, text: core::fmt::Arguments<'_>) -> TextAt {
        let start = self.text.len();
        core::fmt::Write::write_fmt(&mut self.text, text).expect("memory does not fail");
        let at = |end: usize| u32::try_from(end).expect("a payload is at most 256 KiB");
        (at(start), at(self.text.len()))
    }

    /// A text of the whole payload, for the template text `place`.
    pub(super) fn share(&mut self, place: usize, text: TextAt) {
        if self.shared.len() <= place {
            self.shared.resize(place + 1, NO_TEXT);
        }
        self.shared[place] = text;
    }

    /// How many records there are, those that were rejected among them.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Nothing was read.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The record of that place, in the order of the payload; there are [`DecodedBatch::len`].
    #[inline]
    pub fn record(&self, place: usize) -> DecodedEntry {
        let kept = self.records[place];
        let before = place.checked_sub(1).map(|before| self.records[before]);
        let from = |end: fn(Kept) -> u32| before.map_or(0, end);
        DecodedEntry {
            time: kept.time,
            values: (from(|kept| kept.values_end), kept.values_end),
            states: (from(|kept| kept.states_end), kept.states_end),
            texts: (from(|kept| kept.texts_end), kept.texts_end),
            left_out: kept.left_out,
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = DecodedEntry> {
        (0..self.len()).map(|place| self.record(place))
    }

    /// The numbers of one of the records: finite, each field at most once, by field.
    pub fn values(&self, entry: DecodedEntry) -> &[(FieldIx, f64)] {
        &self.values[entry.values.0 as usize..entry.values.1 as usize]
    }

    /// The states of one of the records, likewise.
    pub fn states(&self, entry: DecodedEntry) -> &[(FieldIx, StateIx)] {
        &self.states[entry.states.0 as usize..entry.states.1 as usize]
    }

    /// The texts of one of the records.
    pub fn texts(&self, entry: DecodedEntry) -> Texts<'_> {
        let own = &self.texts[entry.texts.0 as usize..entry.texts.1 as usize];
        let places = own.len().max(self.shared.len());
        let text = |list: &[TextAt], place: usize| {
            let (from, to) = list.get(place).copied().filter(|at| *at != NO_TEXT)?;
            Some(&self.text[from as usize..to as usize])
        };
        (0..places).map(|place| text(own, place).or_else(|| text(&self.shared, place))).collect()
    }
}

#[inline]
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() && list.len() >= DOUBLED_MAX {
        list.reserve_exact(list.len() / 4);
    }
    list.push(item);
}

/// What a large payload took is given back.
fn clear<T>(list: &mut Vec<T>) {
    list.clear();
    list.shrink_to(DOUBLED_MAX);
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("a payload is at most 256 KiB")
}
