//! From what a format tells to what a stream wants: which members are fields, times and
//! texts, where records begin, what is a number. One walk over the payload, whatever is
//! configured.
//!
//! Rules:
//!
//! - A field that is configured as a state takes a text, a bool, or an integer. Anything
//!   else in it is left out and counted.
//! - Any other value is a number. One beyond a 64-bit float, NaN, or out of the field's range
//!   is left out and the rest is kept. A named field that is null is a field that is not
//!   there; one that is anything else than a number is left out and counted. Texts are
//!   numbers only where `text_numbers` says so.
//! - With `all`, every number counts, named by its path with `.` between the levels and items
//!   by their index; times, and what `except` names, do not.
//! - Of equal keys the last counts, with all that lies below it. With `all` it is the last
//!   number of a path that counts.
//! - Where `records` are configured, a record begins at each place that fits; what is in it is
//!   none of the record around it.
//! - Nothing counts before the whole payload is understood, so that a payload cut short
//!   yields no records.
//!
//! Buffers are kept: after the first payloads nothing is allocated.

use crate::engine::fields::FieldTable;
use crate::engine::spec::{FieldsSpec, StreamSpec};
use crate::model::ids::FieldIx;
use crate::model::limits::TIME_CANDIDATES_MAX;
use crate::model::record::RejectReason;

use super::batch::DecodedBatch;
use super::pointer::{Goal, NodeIx, PointerTrie};
use super::records::{Alive, Places};
use super::slots::Slots;
use super::texts::Texts;
use super::time::{Reading, TimeReader};
use super::visit::{Outcome, OwnTime, Scalar, Visit};

/// How the payloads of one stream are read.
#[derive(Clone, Debug)]
pub(super) struct Mapper {
    trie: PointerTrie,
    time: TimeReader,
    texts: Texts,
    places: Places,
    slots: Slots,
    /// Records that have begun, the innermost last; those behind `depth` are spare.
    open: Vec<Open>,
    depth: usize,
    frames: Vec<Frame>,
    /// Names of the levels down to the present place, for `all`; `prefix` bytes of it stand
    /// before all of them.
    path: String,
    prefix: usize,
    /// Per place of the trie, the last record that had something there.
    visited: Vec<u64>,
    number: u64,
    /// The payload as a whole is a record too.
    whole: bool,
    /// A record within another one was found in the payload.
    framed: bool,
    /// The payload is about something else: records without values are none.
    may_be_empty: bool,
    batch: DecodedBatch,
}

/// What a record has shown so far.
#[derive(Clone, Debug, Default)]
struct Open {
    number: u64,
    /// By candidate; where the format itself gives the time, that is the only one.
    times: [Reading; TIME_CANDIDATES_MAX],
    slots: super::slots::Found,
    texts: super::texts::Found,
    /// It is null: there is none.
    void: bool,
}

/// One level of the walk.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where it is in the trie of the record.
    node: Option<NodeIx>,
    /// And in that of the payload.
    document: Option<NodeIx>,
    /// The child to try first.
    expect: usize,
    /// Which places of `records` may still be reached.
    alive: Alive,
    /// Length of the path above, and where names begin.
    path: usize,
    base: usize,
    /// Every number below counts.
    counts: bool,
    /// A record began here.
    opened: bool,
    /// What counts begins at this very place: a number here has no name of its own.
    nameless: bool,
}

/// A mapper at work on one payload.
pub(super) struct Walk<'w> {
    mapper: &'w mut Mapper,
    fields: &'w mut FieldTable,
}

impl Mapper {
    /// The rules of `spec`.
    pub(super) fn new(spec: &StreamSpec) -> Mapper {
        let mapping = &spec.mapping;
        let time = TimeReader::new(spec);
        let texts = Texts::new(&mapping.texts);
        let fields = goals(&mapping.fields);
        let times = (0_u8..).zip(time.candidates()).map(|(place, pointer)| (pointer.as_str(), Goal::Time(place)));
        let times: Vec<_> = times.collect();
        let trie = PointerTrie::new(fields.into_iter().chain(times.iter().copied()).chain(texts.of_records()));
        Mapper {
            slots: Slots::new(&mapping.fields, mapping.text_numbers),
            places: Places::new(&mapping.records),
            visited: vec![0; trie.len()],
            trie,
            time,
            texts,
            open: Vec::new(),
            depth: 0,
            frames: Vec::new(),
            path: String::new(),
            prefix: 0,
            number: 0,
            whole: false,
            framed: false,
            may_be_empty: false,
            batch: DecodedBatch::default(),
        }
    }

    /// What `tell` tells, as records.
    pub(super) fn read(
        &mut self,
        fields: &mut FieldTable,
        payload_bytes: usize,
        tell: impl FnOnce(&mut dyn Visit) -> Outcome,
    ) -> &DecodedBatch {
        self.batch.clear(payload_bytes);
        self.depth = 0;
        self.frames.clear();
        self.path.clear();
        self.prefix = 0;
        self.may_be_empty = false;
        let mut walk = Walk { mapper: self, fields };
        let outcome = tell(&mut walk);
        match outcome {
            Ok(()) => {
                self.close_all();
                if self.batch.is_crowded() {
                    self.batch.reject_all(RejectReason::TooLarge);
                } else if self.batch.is_empty() && !self.may_be_empty {
                    self.batch.reject(RejectReason::NoValues);
                }
            }
            Err(reason) => self.batch.reject_all(reason),
        }
        &self.batch
    }

    /// Nothing was read.
    pub(super) fn forget(&mut self) {
        self.batch.clear(0);
    }

    /// What was read last.
    pub(super) fn batch(&self) -> &DecodedBatch {
        &self.batch
    }

    fn close_all(&mut self) {
        while self.depth > 0 {
            self.finish_record();
        }
    }

    /// A record begins at the present place.
    fn open(&mut self) {
        if self.open.len() == self.depth {
            self.open.push(Open::default());
        }
        self.number += 1;
        let record = &mut self.open[self.depth];
        self.depth += 1;
        record.number = self.number;
        record.times = [Reading::Missing; TIME_CANDIDATES_MAX];
        record.slots.clear();
        record.texts.clear(self.texts.len());
        record.void = false;
        self.texts.note_keys(&mut record.texts, &mut self.batch, self.places.keys());
    }

    fn finish_record(&mut self) {
        self.depth -= 1;
        let record = &mut self.open[self.depth];
        if record.void {
            return;
        }
        self.slots.finish(&mut record.slots);
        let empty = record.slots.why_empty();
        // What is around records may be nothing but their frame.
        if self.depth == 0 && self.whole && self.framed && empty == Some(RejectReason::NoValues) {
            return;
        }
        let time = match self.time.resolve(&record.times) {
            Ok(time) => time,
            Err(reason) => return self.batch.reject(reason),
        };
        match empty {
            None => self.batch.push(
                time,
                record.slots.values(),
                record.slots.states(),
                record.texts.all(),
                record.slots.left_out(),
            ),
            // Of what is about something else, nothing has to be of interest.
            Some(RejectReason::NoValues) if self.may_be_empty => {}
            Some(reason) => self.batch.reject(reason),
        }
    }

    /// Of equal keys the last counts: what an earlier one has shown is void.
    fn forget_earlier(&mut self, at: NodeIx) {
        let Some(record) = self.open[..self.depth].last_mut() else { return };
        let visited = &mut self.visited[PointerTrie::place(at)];
        if core::mem::replace(visited, record.number) != record.number {
            return;
        }
        for goal in &self.trie.node(at).below {
            match goal {
                Goal::Field(field, _) => record.slots.forget(*field),
                Goal::Time(candidate) => record.times[usize::from(*candidate)] = Reading::Missing,
                Goal::Text(place) => record.texts.forget(*place),
                Goal::All | Goal::Except => {}
            }
        }
    }

    /// Where names begin that begin at the present place: behind what is around it, or with
    /// the prefix of all.
    fn begin_of_names(&self) -> usize {
        if self.path.len() == self.prefix { 0 } else { self.path.len() }
    }

    /// What the trie says about a place that was just entered.
    fn counts_below(&self, node: Option<NodeIx>, above: bool) -> bool {
        let Some(node) = node else { return above };
        let here = &self.trie.node(node).here;
        (above || here.contains(&Goal::All)) && !here.contains(&Goal::Except)
    }
}

impl Visit for Walk<'_> {
    fn start_record(&mut self) {
        let Walk { mapper, .. } = self;
        mapper.close_all();
        mapper.path.truncate(mapper.prefix);
        mapper.frames.clear();
        mapper.framed = false;
        let whole = mapper.places.start();
        mapper.whole = whole;
        if whole {
            mapper.open();
        }
        let node = whole.then_some(PointerTrie::ROOT);
        let counts = whole && mapper.counts_below(node, false);
        mapper.frames.push(Frame {
            node,
            document: mapper.texts.document_root(),
            expect: 0,
            alive: mapper.places.all(),
            path: mapper.prefix,
            base: 0,
            counts,
            opened: whole,
            nameless: false,
        });
    }

    fn enter(&mut self, key: &str) -> bool {
        let Walk { mapper, .. } = self;
        let Some(top) = mapper.frames.last_mut() else { return false };
        let node = top.node.and_then(|node| mapper.trie.child(node, key, &mut top.expect));
        if node.is_none() && !top.counts && top.document.is_none() && top.alive.is_none() {
            return false;
        }
        let Frame { document, alive, base, counts: above, .. } = *top;
        let document = document.and_then(|node| mapper.texts.document_child(node, key));
        let alive = mapper.places.step(alive, key);
        let opened = mapper.places.is_reached(alive);
        let path = mapper.path.len();
        let mut frame = Frame { node, document, expect: 0, alive, path, base, counts: false, opened, nameless: opened };
        if opened {
            mapper.framed = true;
            mapper.open();
            frame.node = Some(PointerTrie::ROOT);
            frame.base = mapper.begin_of_names();
            frame.counts = mapper.counts_below(frame.node, false);
        } else {
            frame.counts = mapper.counts_below(node, above);
            if frame.counts && !above {
                frame.base = mapper.begin_of_names();
                frame.nameless = true;
            } else if above {
                push_level(&mut mapper.path, frame.base, key);
            }
        }
        if frame.node.is_none() && frame.document.is_none() && frame.alive.is_none() && !frame.counts {
            mapper.path.truncate(path);
            mapper.places.back(frame.alive);
            return false;
        }
        if !opened && let Some(node) = node {
            mapper.forget_earlier(node);
        }
        mapper.frames.push(frame);
        true
    }

    fn leave(&mut self) {
        let Walk { mapper, .. } = self;
        let Some(frame) = mapper.frames.pop() else { return };
        mapper.path.truncate(frame.path);
        mapper.places.back(frame.alive);
        if frame.opened {
            mapper.finish_record();
        }
    }

    fn scalar(&mut self, value: Scalar<'_>) {
        let Walk { mapper, fields } = self;
        let Some(frame) = mapper.frames.last().copied() else { return };
        if let Some(node) = frame.document {
            mapper.texts.note_document(node, value, &mut mapper.batch);
        }
        let Some(record) = mapper.open[..mapper.depth].last_mut() else { return };
        if frame.opened && mapper.frames.len() > 1 && value == Scalar::Null {
            record.void = true;
        }
        let mut is_time = false;
        if let Some(node) = frame.node {
            for goal in &mapper.trie.node(node).here {
                match *goal {
                    Goal::Field(field, rank) => mapper.slots.take(&mut record.slots, field, rank, value, fields),
                    Goal::Time(candidate) => {
                        is_time = true;
                        let candidate = usize::from(candidate);
                        record.times[candidate] = mapper.time.read(candidate, value.into());
                    }
                    Goal::Text(place) => record.texts.note(place, value, &mut mapper.batch),
                    Goal::All | Goal::Except => {}
                }
            }
        }
        if frame.counts && !is_time {
            let name = match &mapper.path[frame.base..] {
                "" if frame.nameless => "value",
                name => name,
            };
            mapper.slots.place(&mut record.slots, name, value, fields);
        }
    }

    fn name_below(&mut self, levels: &str) {
        let Walk { mapper, .. } = self;
        mapper.path.clear();
        for level in levels.split('/') {
            push_level(&mut mapper.path, 0, level);
        }
        mapper.prefix = mapper.path.len();
    }

    fn tree(&mut self) {
        self.scalar(Scalar::Opaque);
    }

    fn own_time(&mut self, time: OwnTime<'_>) {
        if !self.mapper.time.is_own() {
            return;
        }
        let reading = self.mapper.time.read_own(time);
        if let Some(record) = self.mapper.open[..self.mapper.depth].last_mut() {
            record.times[0] = reading;
        }
    }

    fn nothing(&mut self) {
        self.mapper.may_be_empty = true;
    }

    fn reject_record(&mut self, reason: RejectReason) {
        let Walk { mapper, .. } = self;
        mapper.depth = 0;
        mapper.frames.clear();
        mapper.batch.reject(reason);
    }
}

/// Where the fields are.
fn goals(fields: &FieldsSpec) -> Vec<(&str, Goal)> {
    match fields {
        FieldsSpec::Named(named) => {
            let mut goals = Vec::new();
            for (index, field) in (0_u16..).zip(named) {
                let ranked = (0_u8..).zip(&field.pointers);
                goals.extend(ranked.map(|(rank, pointer)| (pointer.as_str(), Goal::Field(FieldIx(index), rank))));
            }
            goals
        }
        FieldsSpec::All { below, except } => {
            let except = except.iter().map(|pointer| (pointer.as_str(), Goal::Except));
            core::iter::once((below.as_str(), Goal::All)).chain(except).collect()
        }
    }
}

fn push_level(path: &mut String, base: usize, key: &str) {
    if path.len() > base {
        path.push('.');
    }
    path.push_str(key);
}
