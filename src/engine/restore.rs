//! From stored bytes to an engine. A snapshot is read under the definitions that it carries,
//! its pages are applied, and only then the result is fitted to the configuration of today
//! (`fit.rs`).

use crate::model::time::{ProcTime, Span};

use super::Engine;
use super::broker::Broker;
use super::decode::Decoder;
use super::fence::{Fences, Graves};
use super::fields::FieldTable;
use super::join::Joins;
use super::outbox::Outbox;
use super::redelivery::Redelivery;
use super::snapshot::{self, Definition, Extent};
use super::spec::{Meaning, PipelineSpec, StreamSpec};
use super::stream::Stream;
use super::timers::Clocks;
use super::wire::{Damaged, Reader};

impl Engine {
    /// Reads a snapshot. Returns the engine as it was, under the definitions of then.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are not a snapshot of a known version.
    pub(super) fn read_snapshot(spec: &PipelineSpec, bytes: &[u8]) -> Result<Engine, Damaged> {
        let mut reader = snapshot::open(bytes)?;
        let broker = Some(spec.broker.unwrap_or_default());
        let mut engine = Engine::new(PipelineSpec { streams: Vec::new(), joins: Vec::new(), broker, ..spec.clone() });
        engine.partial_before = reader.time()?;
        engine.redelivery = Redelivery::default();
        engine.redelivery.read(&mut reader)?;
        engine.outbox = Outbox::read_all(&mut reader, spec.outbox, spec.uplink)?;
        for _ in 0..reader.u64()? {
            let definition = snapshot::read_definition(&mut reader)?;
            let mut stream = Stream::new(spec_of(definition, spec).ok_or(Damaged)?);
            stream.fields = FieldTable::default();
            snapshot::read_section(&mut reader, &mut stream, Clocks::default(), Extent::Whole)?;
            // Of today's format: it forgets what another one has kept.
            let mut decoder = Decoder::of(&stream.spec, spec);
            decoder.read(&mut reader, Extent::Whole)?;
            engine.decoders.push(decoder);
            engine.streams.push(stream);
        }
        engine.joins = Joins::read_all(&mut reader, &engine.streams)?;
        if !reader.is_empty() {
            for stream in &mut engine.streams {
                stream.fences = Fences::read(&mut reader)?;
            }
        }
        if snapshot::has_past(bytes) {
            for stream in &mut engine.streams {
                snapshot::read_past(&mut reader, stream)?;
            }
            engine.graves = Graves::read(&mut reader)?;
        }
        read_broker(engine.broker.as_mut(), &mut reader, ProcTime::default())?;
        if reader.is_empty() { Ok(engine) } else { Err(Damaged) }
    }

    /// Applies a page on top.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are not a page that follows.
    pub(super) fn apply_page(&mut self, bytes: &[u8]) -> Result<(), Damaged> {
        let mut reader = snapshot::open(bytes)?;
        let (live, proc) = (Span::from_millis(reader.u64()?), Span::from_millis(reader.u64()?));
        let written = Clocks { live: self.stored_at.live.plus(live), proc: self.stored_at.proc + proc };
        self.stored_at = written;
        self.partial_before = reader.time()?;
        self.redelivery.read(&mut reader)?;
        self.outbox.apply_changes(&mut reader)?;
        for (stream, decoder) in self.streams.iter_mut().zip(&mut self.decoders) {
            if reader.u8()? == 1 {
                snapshot::read_section(&mut reader, stream, written, Extent::Changes)?;
                decoder.read(&mut reader, Extent::Changes)?;
            }
        }
        self.joins.apply_changes(&mut reader, written.live)?;
        read_broker(self.broker.as_mut(), &mut reader, written.proc)?;
        if reader.is_empty() { Ok(()) } else { Err(Damaged) }
    }
}

/// What stands last, where there was a listener.
fn read_broker(broker: Option<&mut Broker>, reader: &mut Reader<'_>, written: ProcTime) -> Result<(), Damaged> {
    match broker.filter(|_| !reader.is_empty()) {
        Some(broker) => broker.read(reader, written),
        None => Ok(()),
    }
}

/// The spec under which stored state is read: the definition of then, and
/// whatever else the stream has today.
fn spec_of(definition: Definition, spec: &PipelineSpec) -> Option<StreamSpec> {
    let today = spec.streams.iter().find(|stream| stream.name == definition.name);
    let mut then = today.cloned().or_else(|| StreamSpec::retired(&definition.name))?;
    then.name = definition.name;
    then.windows = definition.windows;
    then.watermark.scope = definition.scope;
    // Said behind the streams, by whoever knew it.
    then.meaning = Meaning::default();
    Some(then)
}
