//! Another configuration while the agent runs.
//!
//! Between two commits: all that came before is durable under the old configuration, and the
//! snapshot that follows is of the new one. A crash in between starts with whichever
//! configuration stands in front, and `fit.rs` makes the same of it.
//!
//! A stream that does not change is not touched. One that does goes the way of a restart, through
//! the bytes that it would be stored as: there is one way to fit state to a configuration, and
//! that one is taken at each start.

use crate::model::time::Now;

use super::Engine;
use super::decode::Decoder;
use super::fields::FieldTable;
use super::fit::Stored;
use super::snapshot::{self, Extent};
use super::spec::{FormatSpec, PipelineSpec, StreamSpec};
use super::stream::Stream;
use super::timers::Clocks;
use super::wire::{Damaged, Reader};

impl Engine {
    /// Goes over to other streams, joins and bounds; who the gateway is, what it listens on and
    /// when it commits stay. Nothing may be uncommitted. True when anything differs: a snapshot
    /// has to be durable before the next page.
    ///
    /// # Errors
    /// [`Damaged`]: a stream could not read what it has written, and nothing has changed.
    pub(super) fn reconfigure(&mut self, now: Now, spec: &PipelineSpec) -> Result<bool, Damaged> {
        let spec = PipelineSpec {
            streams: spec.streams.clone(),
            joins: spec.joins.clone(),
            outbox: spec.outbox,
            uplink: spec.uplink,
            ..self.spec.clone()
        };
        if spec == self.spec {
            return Ok(false);
        }
        self.outbox.set_now(now);
        let clocks = self.idle_clock.clocks(now.proc);
        let mut stored = Vec::with_capacity(self.streams.len());
        for (stream, decoder) in self.streams.iter().zip(&self.decoders) {
            let wanted = spec.streams.iter().find(|wanted| wanted.name == stream.spec.name);
            let is_untouched = wanted.is_some_and(|wanted| stream.is_of(wanted));
            stored.push(if is_untouched { None } else { Some(through_bytes(stream, decoder, clocks, &spec)?) });
        }
        // From here on nothing fails.
        let present = core::mem::take(&mut self.streams).into_iter().zip(core::mem::take(&mut self.decoders));
        let stored = present.zip(stored).map(|((stream, decoder), through)| {
            through.unwrap_or_else(|| {
                let decoder = decoder.beside(&stream.spec, &spec);
                Stored { stream, decoder, is_untouched: true }
            })
        });
        (self.open_cost, self.device_cost, self.carry_cost) = (0, 0, 0);
        let untouched = self.fit_streams(&spec, stored.collect(), now).untouched;
        self.outbox.reconfigure(spec.outbox, spec.uplink);
        self.follows_clock = spec.follows_clock();
        self.spec = spec;
        self.fit_joins(now);
        for index in 0..self.streams.len() {
            if untouched.contains(&index) {
                let cost = self.streams[index].window_cost();
                self.charge(index, cost);
            } else {
                self.settle_in(index, clocks, now);
            }
        }
        self.look_at_joins(now, false);
        Ok(true)
    }
}

impl Stream {
    /// It is what this configuration says, and was made under it.
    fn is_of(&self, wanted: &StreamSpec) -> bool {
        let windows = self.spec.windows.get(..self.defined()).unwrap_or_default();
        windows == wanted.windows
            && StreamSpec { windows: Vec::new(), ..self.spec.clone() }
                == StreamSpec { windows: Vec::new(), ..wanted.clone() }
    }
}

impl Decoder {
    /// As it is, beside the streams of another configuration. Of Sparkplug's messages each
    /// stream has a part, and of the memory for them.
    fn beside(self, stream: &StreamSpec, pipeline: &PipelineSpec) -> Decoder {
        if stream.format != FormatSpec::SparkplugB {
            return self;
        }
        let mut saved = Vec::new();
        self.write(&mut saved, Extent::Whole);
        let mut other = Decoder::of(stream, pipeline);
        match other.read(&mut Reader::new(&saved), Extent::Whole) {
            Ok(()) => other,
            Err(Damaged) => self,
        }
    }
}

/// A stream as a restart at this moment would find it.
fn through_bytes(
    stream: &Stream,
    decoder: &Decoder,
    clocks: Clocks,
    pipeline: &PipelineSpec,
) -> Result<Stored, Damaged> {
    let mut bytes = Vec::new();
    snapshot::write_section(&mut bytes, stream, Extent::Whole, clocks, &mut |_| ());
    decoder.write(&mut bytes, Extent::Whole);
    let mut reader = Reader::new(&bytes);
    let mut back = Stream::new(stream.spec.clone());
    back.fields = FieldTable::default();
    snapshot::read_section(&mut reader, &mut back, clocks, Extent::Whole)?;
    (back.fences, back.retiring) = (stream.fences.clone(), stream.retiring.clone());
    back.sampling = stream.sampling.clone();
    let today = pipeline.streams.iter().find(|today| today.name == stream.spec.name).unwrap_or(&stream.spec);
    let mut decoder = Decoder::of(today, pipeline);
    decoder.read(&mut reader, Extent::Whole)?;
    Ok(Stored { stream: back, decoder, is_untouched: false })
}
