//! The records of one payload, kept until the engine takes them in: the decoder
//! may still be interning fields while the first ones are ready.

use crate::model::ids::{FieldIx, StateIx};
use crate::model::record::RejectReason;

use super::{Decoded, DecodedTime};

/// What a payload holds, in buffers that are reused.
#[derive(Default)]
pub(in crate::engine) struct DecodedBatch {
    pub records: Vec<DecodedEntry>,
    values: Vec<(FieldIx, f64)>,
    states: Vec<(FieldIx, StateIx)>,
}

#[derive(Clone, Copy)]
pub(in crate::engine) struct DecodedEntry {
    pub time: Result<DecodedTime, RejectReason>,
    values: (u32, u32),
    states: (u32, u32),
    pub left_out: u32,
}

impl DecodedBatch {
    pub(in crate::engine) fn clear(&mut self) {
        self.records.clear();
        self.values.clear();
        self.states.clear();
    }

    pub(in crate::engine) fn push(&mut self, result: Result<Decoded<'_>, RejectReason>) {
        let (first, first_state) = (len(&self.values), len(&self.states));
        let (time, left_out) = match result {
            Ok(decoded) => {
                self.values.extend_from_slice(decoded.values);
                self.states.extend_from_slice(decoded.states);
                (Ok(decoded.time), decoded.left_out)
            }
            Err(reason) => (Err(reason), 0),
        };
        let (values, states) = ((first, len(&self.values)), (first_state, len(&self.states)));
        self.records.push(DecodedEntry { time, values, states, left_out });
    }

    /// The numbers of one of the records.
    pub(in crate::engine) fn values(&self, entry: DecodedEntry) -> &[(FieldIx, f64)] {
        &self.values[entry.values.0 as usize..entry.values.1 as usize]
    }

    /// The states of one of the records.
    pub(in crate::engine) fn states(&self, entry: DecodedEntry) -> &[(FieldIx, StateIx)] {
        &self.states[entry.states.0 as usize..entry.states.1 as usize]
    }
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("a payload is at most 256 KiB")
}
