//! The records of one payload, kept until the engine takes them in: the decoder
//! may still be interning fields while the first ones are ready.

use crate::model::ids::FieldIx;
use crate::model::record::RejectReason;

use super::{Decoded, DecodedTime};

/// What a payload holds, in buffers that are reused.
#[derive(Default)]
pub(in crate::engine) struct DecodedBatch {
    pub records: Vec<DecodedEntry>,
    pub values: Vec<(FieldIx, f64)>,
}

#[derive(Clone, Copy)]
pub(in crate::engine) struct DecodedEntry {
    pub time: Result<DecodedTime, RejectReason>,
    pub values: (u32, u32),
    pub left_out: u32,
}

impl DecodedBatch {
    pub(in crate::engine) fn clear(&mut self) {
        self.records.clear();
        self.values.clear();
    }

    pub(in crate::engine) fn push(&mut self, result: Result<Decoded<'_>, RejectReason>) {
        let first = self.len();
        let (time, left_out) = match result {
            Ok(decoded) => {
                self.values.extend_from_slice(decoded.values);
                (Ok(decoded.time), decoded.left_out)
            }
            Err(reason) => (Err(reason), 0),
        };
        self.records.push(DecodedEntry { time, values: (first, self.len()), left_out });
    }

    fn len(&self) -> u32 {
        u32::try_from(self.values.len()).expect("a payload is at most 256 KiB")
    }
}
