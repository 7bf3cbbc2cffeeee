//! The records of one payload, kept until the engine takes them in: whether they count is
//! known only at the end of the payload.

use crate::model::ids::{FieldIx, StateIx};
use crate::model::limits::TEXTS_MAX;
use crate::model::record::RejectReason;

use super::DecodedTime;

/// What a payload holds, in buffers that are reused.
#[derive(Clone, Debug, Default)]
pub struct DecodedBatch {
    records: Vec<DecodedEntry>,
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
        self.records.clear();
        self.reject(reason);
    }

    /// One record is of no use.
    pub(super) fn reject(&mut self, reason: RejectReason) {
        let none = (0, 0);
        self.records.push(DecodedEntry { time: Err(reason), values: none, states: none, texts: none, left_out: 0 });
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
        let (value, state, text) = (len(&self.values), len(&self.states), len(&self.texts));
        self.values.extend(values);
        self.states.extend(states);
        self.texts.extend_from_slice(texts);
        self.records.push(DecodedEntry {
            time: Ok(time),
            values: (value, len(&self.values)),
            states: (state, len(&self.states)),
            texts: (text, len(&self.texts)),
            left_out,
        });
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

    /// The records, in the order of the payload.
    pub fn records(&self) -> &[DecodedEntry] {
        &self.records
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
        let shared = |place: usize| self.shared.get(place).copied().flatten();
        let text = |(place, own): (usize, &Option<TextAt>)| {
            own.or_else(|| shared(place)).map(|(from, to)| &self.text[from as usize..to as usize])
        };
        own.iter().enumerate().map(text).collect()
    }
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("a payload is at most 256 KiB")
}
