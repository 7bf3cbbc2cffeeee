//! Payload to records. One file per format, one line in [`format`].
//!
//! ```text
//! bytes ─ format ▶ visit: a tree, told piece by piece ─ mapper ▶ records
//!         one file each                                 pointer, records, slots, texts, time
//!              └─▶ aftermath: who came or went, who is to be asked
//! ```
//!
//! A format walks the payload once and borrows from it. Bad input is a counted reason,
//! never an error that stops anything.

pub mod batch;
mod cbor;
mod cbor_number;
mod csv;
mod explain;
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

use crate::model::limits::SPARKPLUG_BYTES_MAX;
use crate::model::time::EventTime;

use super::fields::FieldTable;
use super::snapshot::Extent;
use super::spec::{FormatSpec, PipelineSpec, StreamSpec};
use super::wire::{Damaged, Reader, put_bytes};

pub use self::explain::explain;

use self::batch::DecodedBatch;
use self::mapper::Mapper;
use self::sparkplug::coverage::hears_all;
use self::sparkplug::session::Session;
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
    /// With what the names of fields begin; its `/` are levels. Empty: with nothing.
    pub prefix: &'m str,
}

/// How payloads are written. An implementation owns its buffers, and whatever it has to
/// remember between messages.
pub trait Format {
    /// Tells what a payload holds.
    ///
    /// # Errors
    /// Why it holds nothing: then nothing that was told counts.
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome;

    /// What follows from the last payload beside its records; once.
    fn take_aftermath(&mut self) -> Option<Aftermath> {
        None
    }

    /// What it has to remember over a restart, if anything: of `Extent::Changes` what
    /// `load` needs to go on from the last commit.
    fn save(&self, _extent: Extent, _out: &mut Vec<u8>) {}

    /// Takes back what `save` wrote, for changes after all that was before them. What does
    /// not fit is forgotten: a format goes on without memory.
    fn load(&mut self, _extent: Extent, _saved: &[u8]) {}

    /// What was saved is durable.
    fn mark_committed(&mut self) {}
}

/// What a payload says beside its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// Who came or went, all at one moment.
    pub presence: Vec<Presence>,
    /// The topic on which its sender is to be asked to say all again.
    pub rebirth: Option<String>,
    /// Values that could not be named.
    pub left_out: u32,
    /// Values that the sender had held back.
    pub historical: u32,
    /// Names that found no room.
    pub not_kept: u32,
}

/// Somebody came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Where it would publish readings.
    pub topic: String,
    /// It is there.
    pub online: bool,
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
        Decoder::behind(spec, &[], SPARKPLUG_BYTES_MAX)
    }

    /// The decoder of a stream beside those of `pipeline`: what all of them may remember
    /// has a bound, and each has an equal share.
    pub fn of(spec: &StreamSpec, pipeline: &PipelineSpec) -> Decoder {
        let sharing = pipeline.streams.iter().filter(|stream| stream.format == FormatSpec::SparkplugB).count();
        let place = pipeline.streams.iter().position(|stream| stream.name == spec.name);
        Decoder::behind(spec, &pipeline.streams[..place.unwrap_or(0)], SPARKPLUG_BYTES_MAX / sharing.max(1))
    }

    fn behind(spec: &StreamSpec, earlier: &[StreamSpec], room: usize) -> Decoder {
        Decoder { format: format(spec, earlier, room), mapper: Mapper::new(spec) }
    }

    /// Reads one payload; the records are there until the next one.
    pub fn decode(&mut self, telling: Telling<'_>, fields: &mut FieldTable) -> &DecodedBatch {
        let format = &mut self.format;
        self.mapper.read(fields, telling.payload.len(), |visit| {
            if !telling.prefix.is_empty() {
                visit.name_below(telling.prefix);
            }
            format.tell(telling, visit)
        })
    }

    /// Nothing was read.
    pub(super) fn forget(&mut self) {
        self.mapper.forget();
    }

    /// What was read last.
    pub fn batch(&self) -> &DecodedBatch {
        self.mapper.batch()
    }

    /// What follows from it beside its records; once.
    #[inline]
    pub fn take_aftermath(&mut self) -> Option<Aftermath> {
        self.format.take_aftermath()
    }

    /// Appends what the format has to remember.
    pub(super) fn write(&self, out: &mut Vec<u8>, extent: Extent) {
        let mut saved = Vec::new();
        self.format.save(extent, &mut saved);
        put_bytes(out, &saved);
    }

    /// Takes in what `write` wrote, be it of another format.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are cut short.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, extent: Extent) -> Result<(), Damaged> {
        self.format.load(extent, reader.bytes()?);
        Ok(())
    }

    /// What was written is durable.
    pub(super) fn mark_committed(&mut self) {
        self.format.mark_committed();
    }
}

/// Every format. `earlier`: the streams that have the first choice of messages; `room`: bytes
/// that it may remember.
fn format(stream: &StreamSpec, earlier: &[StreamSpec], room: usize) -> Box<dyn Format + Send> {
    match &stream.format {
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
        FormatSpec::SparkplugB => {
            let session = Session::new(room, hears_all(stream, earlier));
            Box::new(sparkplug::format::SparkplugB::new(session))
        }
    }
}

/// A format that is nothing but a function.
struct Plain(fn(&[u8], &mut dyn Visit) -> Outcome);

impl Format for Plain {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        (self.0)(telling.payload, visit)
    }
}
