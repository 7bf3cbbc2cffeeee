//! What a commit covers: the page, the acknowledgements, and what is over once
//! both are durable.

use crate::model::time::Now;

use super::Engine;
use super::broker::Broker;
use super::decode::Decoder;
use super::snapshot::{Extent, STATE_VERSION, write_definition, write_past, write_section};
use super::step::{Effect, Step};
use super::stream::Stream;
use super::wire::{put_time, put_u64};

/// Bytes after which a part of a snapshot is handed over.
const PIECE_BYTES: usize = 64 * 1024;

impl Engine {
    /// Unacknowledged messages of the coming commit.
    pub fn uncommitted_messages(&self) -> usize {
        self.acks.len()
    }

    /// True when a commit would write nothing and acknowledge nothing.
    pub fn is_committed(&self) -> bool {
        self.acks.is_empty()
            && self.replays.is_empty()
            && self.outbox.is_committed()
            && self.redelivery.is_committed()
            && self.streams.iter().all(Stream::is_committed)
            && self.joins.is_committed()
            && self.commands.is_committed()
            && self.broker.as_ref().is_none_or(Broker::is_committed)
    }

    /// What has to be made durable, and what may be done then. Changes nothing:
    /// after a failed commit the same step is made again, with whatever came since.
    pub fn step(&self, now: Now, writes: Vec<u8>) -> Step {
        let mut writes = writes;
        writes.clear();
        if !self.is_committed() {
            self.write_page(now, &mut writes);
        }
        let acks = self.acks.iter().copied().map(Effect::Ack);
        let replays = self.replays.iter().cloned().map(Effect::Replayed);
        let commands = self.commands.waiting().cloned().map(Effect::Command);
        Step { writes, effects: acks.chain(replays).chain(commands).collect() }
    }

    fn write_page(&self, now: Now, out: &mut Vec<u8>) {
        let clocks = self.idle_clock.clocks(now.proc);
        out.push(STATE_VERSION);
        put_u64(out, clocks.live.since(self.stored_at.live).as_millis());
        put_u64(out, clocks.proc.since(self.stored_at.proc).as_millis());
        put_time(out, self.partial_before);
        self.redelivery.write_changes(out);
        self.outbox.write_changes(out);
        for (stream, decoder) in self.streams.iter().zip(&self.decoders) {
            // What a decoder remembers changes with a message only, and the books with it.
            if stream.is_committed() {
                out.push(0);
            } else {
                out.push(1);
                write_section(out, stream, Extent::Changes, clocks, &mut |_| ());
                decoder.write(out, Extent::Changes);
            }
        }
        self.joins.write_changes(out, self.idle_clock.read(now.proc));
        if let Some(broker) = &self.broker {
            broker.write_changes(now, out);
        }
    }

    /// Everything, for a snapshot.
    pub fn snapshot(&self, now: Now) -> Vec<u8> {
        let mut state = Vec::new();
        self.write_snapshot(now, &mut |piece| state.extend_from_slice(piece));
        state
    }

    /// The same, in pieces of some `PIECE_BYTES`: the state of many devices is large,
    /// and whoever packs it needs it only once.
    pub fn write_snapshot(&self, now: Now, sink: &mut dyn FnMut(&[u8])) {
        let clocks = self.idle_clock.clocks(now.proc);
        let mut out = Vec::with_capacity(PIECE_BYTES * 2);
        let mut hand_over = |out: &mut Vec<u8>| {
            if out.len() >= PIECE_BYTES {
                sink(out);
                out.clear();
            }
        };
        out.push(STATE_VERSION);
        put_time(&mut out, self.partial_before);
        self.redelivery.write_all(&mut out);
        self.outbox.write_all(&mut out, &mut hand_over);
        put_u64(&mut out, self.streams.len() as u64);
        for (stream, decoder) in self.streams.iter().zip(&self.decoders) {
            write_definition(&mut out, stream);
            write_section(&mut out, stream, Extent::Whole, clocks, &mut hand_over);
            decoder.write(&mut out, Extent::Whole);
            hand_over(&mut out);
        }
        self.joins.write_all(&mut out, self.idle_clock.read(now.proc));
        for stream in &self.streams {
            stream.fences.write(&mut out);
        }
        for stream in &self.streams {
            write_past(&mut out, stream);
            hand_over(&mut out);
        }
        self.graves.write(&mut out);
        if let Some(broker) = &self.broker {
            hand_over(&mut out);
            broker.write_all(now, &mut out, &mut hand_over);
        }
        sink(&out);
    }

    /// What a step or snapshot wrote is durable: its rows may be published, its
    /// messages are no longer waiting. `written`: the moment that was encoded, unless
    /// there was nothing to write.
    pub fn mark_committed(&mut self, written: Option<Now>) {
        if let Some(now) = written {
            self.stored_at = self.idle_clock.clocks(now.proc);
        }
        self.acks.clear();
        self.replays.clear();
        self.samples.mark_committed();
        self.redelivery.mark_committed();
        self.outbox.mark_committed();
        for stream in &mut self.streams {
            stream.mark_committed();
        }
        self.decoders.iter_mut().for_each(Decoder::mark_committed);
        self.commands.mark_committed();
        self.joins.mark_committed();
        if let Some(broker) = &mut self.broker {
            broker.mark_committed();
        }
    }
}
