//! Payload to records. One file per format, one line in `decoder`.
//!
//! A decoder borrows: it walks the payload once and hands out each record as it
//! finds it, from buffers that it keeps. Bad input is a counted reason, never an
//! error that stops anything.

pub(in crate::engine) mod batch;
#[cfg(test)]
mod hostile;
mod json;
#[cfg_attr(not(test), expect(dead_code, reason = "wired by the mapper"))]
pub mod milesight;
pub mod pointer;
#[cfg_attr(not(test), expect(dead_code, reason = "wired by the mapper"))]
mod ruuvi;
mod scan;
pub mod sparkplug;
#[cfg_attr(not(test), expect(dead_code, reason = "wired by the mapper"))]
mod teltonika;
pub mod time;
pub mod visit;

use crate::model::ids::{FieldIx, StateIx};
use crate::model::record::RejectReason;
use crate::model::time::EventTime;

use super::fields::FieldTable;
use super::spec::{FormatSpec, StreamSpec, TimeSpec};

/// The time of a decoded record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodedTime {
    /// The payload says so.
    Event(EventTime),
    /// Configured, or allowed as a fallback: the receive time.
    Receive,
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
    let TimeSpec::Field { pointer, format, .. } = &spec.time else { return None };
    let FormatSpec::Json(_) = &spec.format;
    let document: serde_json::Value = serde_json::from_slice(payload).ok()?;
    let value = document.pointer(pointer).unwrap_or(&serde_json::Value::Null);
    let raw = match (value.as_str(), value.is_null()) {
        (Some(text), _) => text.to_owned(),
        (None, true) => String::new(),
        (None, false) => value.to_string(),
    };
    time::hint(reason, *format, &raw)
}
