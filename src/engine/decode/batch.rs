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
    texts: Vec<Option<TextAt>>,
    /// Those of the whole payload; they count for each of its records.
    shared: Vec<Option<TextAt>>,
}

/// The texts of one record, by the places of `MappingSpec::texts`.
pub type Texts<'b> = heapless::Vec<Option<&'b str>, TEXTS_MAX>;

type TextAt = (u32, u32);

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
    /// Nothing.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.values.clear();
        self.states.clear();
        self.text.clear();
        self.texts.clear();
        self.shared.clear();
    }

    /// The whole payload is of no use.
    pub(super) fn reject_all(&mut self, reason: RejectReason) {
        self.clear();
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
        texts: &[Option<TextAt>],
        left_out: u32,
    ) {
        values.for_each(|value| push(&mut self.values, value));
        states.for_each(|state| push(&mut self.states, state));
        if texts.iter().any(Option::is_some) {
            texts.iter().for_each(|text| push(&mut self.texts, *text));
        }
        self.keep_record(Ok(time), left_out);
    }

    fn keep_record(&mut self, time: Result<DecodedTime, RejectReason>, left_out: u32) {
        let (values_end, states_end, texts_end) = (len(&self.values), len(&self.states), len(&self.texts));
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
    pub(super) fn share(&mut self, place: usize, text: Option<TextAt>) {
        if self.shared.len() <= place {
            self.shared.resize(place + 1, None);
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
        let at = |place: usize| own.get(place).copied().flatten().or(self.shared.get(place).copied().flatten());
        (0..places).map(|place| at(place).map(|(from, to)| &self.text[from as usize..to as usize])).collect()
    }
}

/// Grows by an eighth: a payload of the smallest records there are must not take twice the
/// memory that they need.
#[inline]
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 8 + 32);
    }
    list.push(item);
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("a payload is at most 256 KiB")
}
