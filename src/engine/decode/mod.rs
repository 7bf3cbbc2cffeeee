//! Payload to records. One file per format, one line in `decoder`.
//!
//! A decoder borrows: it walks the payload once and hands out each record as it
//! finds it, from buffers that it keeps. Bad input is a counted reason, never an
//! error that stops anything.

pub(in crate::engine) mod batch;
mod json;
pub mod pointer;
mod scan;
pub mod time;
pub mod visit;

use crate::model::ids::{FieldIx, StateIx};
use crate::model::record::RejectReason;
use crate::model::time::EventTime;

use super::fields::FieldTable;
use super::spec::{FormatSpec, StreamSpec, TimeCandidate, TimeSpec};

/// The time of a decoded record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodedTime {
    /// The payload says so.
    Event(EventTime),
    /// Configured, or allowed as a fallback: the receive time.
    Receive,
    /// So many milliseconds after the receive time (negative: before).
    Relative(i64),
}

/// One record as the payload has it.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    /// Its time.
    pub time: DecodedTime,
    /// Finite numbers by field, each field at most once, in the order of the table.
    pub values: &'a [(FieldIx, f64)],
    /// States by field, for fields that are configured as such; in the same order.
    pub states: &'a [(FieldIx, StateIx)],
    /// Fields that were there but could not be used: not a number, too large
    /// for a float, no state, or beyond `limits::FIELDS_MAX` or `limits::STATES_MAX`. The
    /// record goes on without them.
    pub left_out: u32,
}

/// A payload format.
pub trait Decoder {
    /// Calls `each` once per record in the payload, or once with the reason for
    /// which there is none.
    fn decode(
        &mut self,
        payload: &[u8],
        fields: &mut FieldTable,
        each: &mut dyn FnMut(Result<Decoded<'_>, RejectReason>),
    );
}

/// The decoder of a stream. It owns its buffers: one per stream, for good.
pub fn decoder(spec: &StreamSpec) -> Box<dyn Decoder + Send> {
    match &spec.format {
        FormatSpec::Json(fields) => Box::new(json::JsonDecoder::new(spec, fields)),
    }
}

/// A guess, for a person, at why `payload` was rejected for `reason`. For logs
/// and samples of rejected payloads only: it allocates and reads the payload
/// again.
pub fn explain(spec: &StreamSpec, payload: &[u8], reason: RejectReason) -> Option<&'static str> {
    let TimeSpec::Fields { candidates, .. } = &spec.time else { return None };
    let FormatSpec::Json(_) = &spec.format;
    let document: serde_json::Value = serde_json::from_slice(payload).ok()?;
    let raw = |candidate: &TimeCandidate| match document.pointer(&candidate.pointer) {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    // As the reader: the first that is there, or one that says that none is.
    let there = candidates.iter().map(|candidate| (candidate, raw(candidate)));
    let (candidate, raw) = there
        .clone()
        .find(|(candidate, raw)| !raw.is_empty() && time::is_said(&candidate.format, raw))
        .or_else(|| there.clone().find(|(_, raw)| !raw.is_empty()))
        .or_else(|| there.clone().next())?;
    time::hint(reason, &candidate.format, &raw)
}
