//! Payload to records. One file per format, one line in [`format`].
//!
//! ```text
//! bytes ─ format ▶ visit: a tree, told piece by piece ─ mapper ▶ records
//!         one file each                                 pointer, records, slots, texts, time
//! ```
//!
//! A format walks the payload once and borrows from it. Bad input is a counted reason,
//! never an error that stops anything.

pub mod batch;
mod cbor;
mod cbor_number;
mod csv;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod hostile;
mod influx;
mod json;
mod mapper;
pub mod milesight;
mod number;
pub mod pointer;
mod raw;
mod records;
mod ruuvi;
mod scan;
mod senml;
mod senml_cbor;
mod senml_json;
mod slots;
pub mod sparkplug;
mod teltonika;
mod teltonika_json;
mod texts;
pub mod time;
pub mod visit;

use crate::model::record::RejectReason;
use crate::model::time::EventTime;

use super::fields::FieldTable;
use super::spec::{FormatSpec, StreamSpec, TimeCandidate, TimeSpec};

use self::batch::DecodedBatch;
use self::mapper::Mapper;
use self::visit::{Outcome, Visit};

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

/// One message, as formats see it.
#[derive(Clone, Copy, Debug)]
pub struct Telling<'m> {
    /// Its topic.
    pub topic: &'m str,
    /// Its payload, at most `limits::PAYLOAD_BYTES_MAX`.
    pub payload: &'m [u8],
    /// Formats of one value: how it is called.
    pub field: &'m str,
}

/// How payloads are written. An implementation owns its buffers, and whatever it has to
/// remember between messages.
pub trait Format {
    /// Tells what a payload holds.
    ///
    /// # Errors
    /// Why it holds nothing: then nothing that was told counts.
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome;
}

/// Payloads of one stream to records: a format and the rules of the stream.
pub struct Decoder {
    format: Box<dyn Format + Send>,
    mapper: Mapper,
}

impl core::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Decoder").field("mapper", &self.mapper).finish_non_exhaustive()
    }
}

impl Decoder {
    /// The decoder of a stream. It owns its buffers: one per stream, for good.
    pub fn new(spec: &StreamSpec) -> Decoder {
        Decoder { format: format(&spec.format), mapper: Mapper::new(spec) }
    }

    /// Reads one payload; the records are there until the next one.
    pub fn decode(&mut self, telling: Telling<'_>, fields: &mut FieldTable) -> &DecodedBatch {
        let format = &mut self.format;
        self.mapper.read(fields, |visit| format.tell(telling, visit))
    }

    /// Nothing was read.
    pub(super) fn forget(&mut self) {
        self.mapper.forget();
    }

    /// What was read last.
    pub fn batch(&self) -> &DecodedBatch {
        self.mapper.batch()
    }
}

/// Every format.
fn format(spec: &FormatSpec) -> Box<dyn Format + Send> {
    match spec {
        FormatSpec::Json => Box::<json::Json>::default(),
        FormatSpec::Raw(spec) => Box::new(raw::Raw::new(spec)),
        FormatSpec::Cbor => Box::new(Plain(cbor::tell)),
        FormatSpec::SenmlJson => Box::new(Plain(senml_json::tell)),
        FormatSpec::SenmlCbor => Box::new(Plain(senml_cbor::tell)),
        FormatSpec::Influx => Box::<influx::Influx>::default(),
        FormatSpec::Csv(spec) => Box::new(csv::Csv::new(spec)),
        FormatSpec::Teltonika => Box::<teltonika_json::Teltonika>::default(),
        FormatSpec::Milesight(model) => Box::new(*model),
        FormatSpec::Ruuvi => Box::new(Plain(ruuvi::tell)),
    }
}

/// A format that is nothing but a function.
struct Plain(fn(&[u8], &mut dyn Visit) -> Outcome);

impl Format for Plain {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        (self.0)(telling.payload, visit)
    }
}

/// A guess, for a person, at why `payload` was rejected for `reason`. For logs
/// and samples of rejected payloads only: it allocates and reads the payload
/// again.
pub fn explain(spec: &StreamSpec, payload: &[u8], reason: RejectReason) -> Option<&'static str> {
    let TimeSpec::Fields { candidates, .. } = &spec.mapping.time else { return None };
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
