//! Whose a message is: an availability signal, readings of a stream, or nobody's.

use crate::model::ids::{DeviceId, FieldIx, StateIx};
use crate::model::limits::{LABELS_MAX, PAYLOAD_BYTES_MAX};
use crate::model::record::{Record, RejectReason, TimeSource};
use crate::model::template::{Source, Template};
use crate::model::time::{EventTime, Now};
use crate::model::topic::Captures;

use super::calculations::Calculated;
use super::carry::{Datum, Held};
use super::decode::batch::{DecodedBatch, DecodedEntry};
use super::decode::{DecodedTime, Decoder, Telling};
use super::fields::{FieldTable, Known};
use super::ledger::StreamLedger;
use super::redelivery::fingerprint;
use super::spec::{LabelSpec, StreamSpec, TopicSpec};
use super::step::Message;
use super::stream::Stream;
use super::{Canary, Engine};

/// Labels of one record, by place.
pub(super) type Labels = heapless::Vec<Option<DeviceId>, LABELS_MAX>;

/// What is the same for all records of a message.
pub(super) struct Sender<'m> {
    pub(super) stream: usize,
    pub(super) topic: usize,
    pub(super) captures: Captures<'m>,
    /// Where it takes nothing but the topic: whose the records are.
    device: Option<DeviceId>,
}

impl<'m> Sender<'m> {
    /// Of a message on the topic of that place in the stream of that place.
    pub(super) fn new(
        spec: &StreamSpec,
        stream: usize,
        topic: usize,
        captures: Captures<'m>,
    ) -> Result<Sender<'m>, RejectReason> {
        let template = &spec.topics[topic].device;
        let device = if template.is_of_message() {
            Some(template.id(Source::topic(&captures)).ok_or(RejectReason::BadDevice)?)
        } else {
            None
        };
        Ok(Sender { stream, topic, captures, device })
    }
}

/// Reads a payload as one on its topic; the records are in the decoder then.
pub(super) fn read_with(
    decoder: &mut Decoder,
    spec: &StreamSpec,
    fields: &mut FieldTable,
    sender: &Sender<'_>,
    topic: &str,
    payload: &[u8],
) {
    let mut buffer = heapless::String::new();
    let field = spec.topics[sender.topic].field.as_ref();
    let field = field.and_then(|field| field.resolve(Source::topic(&sender.captures), &mut buffer));
    let mut prefix_buffer = heapless::String::new();
    let prefix = spec.topics[sender.topic].prefix.as_ref();
    let prefix = prefix.and_then(|prefix| prefix.resolve(Source::topic(&sender.captures), &mut prefix_buffer));
    let prefix = prefix.unwrap_or_default();
    let telling = Telling { topic, payload, field: field.unwrap_or("value"), prefix };
    decoder.decode(telling, fields);
}

impl Engine {
    pub(super) fn handle_message(&mut self, now: Now, message: Message<'_>) {
        let heard = self.hear_availability(now, message);
        let found = if heard.is_signal { None } else { self.find_stream(message.topic) };
        match found {
            Some((stream, Some((topic, captures)))) => self.take_message(now, stream, topic, captures, message),
            Some((stream, None)) => self.streams[stream].ignore(),
            None => {
                self.remember(message);
                if let Some(stream) = heard.unread {
                    self.reject_availability(now, stream, message);
                } else if !heard.is_signal {
                    // A subscription of before that the broker still holds, or one that is wider
                    // than what is wanted. Nobody wants it.
                    self.unmatched += 1;
                }
            }
        }
        self.acks.extend(message.tag);
    }

    /// The first stream that a topic belongs to, and which of its topics it is; none of them
    /// when the only streams that it fits ignore it.
    #[inline]
    pub(super) fn find_stream<'m>(&self, topic: &'m str) -> Option<(usize, Option<(usize, Captures<'m>)>)> {
        let mut ignored_by = None;
        for (index, stream) in self.streams.iter().enumerate() {
            let place = |(place, known): (usize, &TopicSpec)| Some((place, known.pattern.match_topic(topic)?));
            let Some(found) = stream.spec.topics.iter().enumerate().find_map(place) else { continue };
            if stream.spec.ignore.iter().all(|pattern| pattern.match_topic(topic).is_none()) {
                return Some((index, Some(found)));
            }
            ignored_by = ignored_by.or(Some((index, None)));
        }
        ignored_by
    }

    fn take_message(&mut self, now: Now, index: usize, topic: usize, captures: Captures<'_>, message: Message<'_>) {
        if !self.is_redelivery(index, message) {
            self.take_in(now, index, topic, captures, message);
        }
    }

    /// Takes the records of a message in.
    pub(super) fn take_records(
        &mut self,
        now: Now,
        index: usize,
        topic: usize,
        captures: Captures<'_>,
        message: Message<'_>,
    ) {
        self.decoders[index].forget();
        let stream = &mut self.streams[index];
        if message.payload.len() > PAYLOAD_BYTES_MAX {
            return stream.reject(RejectReason::TooLarge);
        }
        let sender = match Sender::new(&stream.spec, index, topic, captures) {
            Ok(sender) => sender,
            Err(reason) => return stream.reject(reason),
        };
        if sender.device.as_ref().is_some_and(|device| !stream.is_allowed(device.as_str())) {
            // Before anything of it is read: a stranger takes no place, of whatever kind.
            return stream.reject(RejectReason::DeviceDenied);
        }
        let known = (stream.fields.extent(), stream.taken());
        self.read_payload(&sender, message.topic, message.payload);
        let mut whole = core::mem::take(&mut self.whole);
        for place in 0..self.decoders[index].batch().len() {
            self.take_record(now, &sender, place, message.retain, &mut whole);
        }
        self.whole = whole;
        self.streams[index].forget_strange_fields(known);
        self.take_aftermath(now, index);
    }

    /// Reads a payload of at most `PAYLOAD_BYTES_MAX`; the records are in the decoder then.
    pub(super) fn read_payload(&mut self, sender: &Sender<'_>, topic: &str, payload: &[u8]) {
        let stream = &mut self.streams[sender.stream];
        let decoder = &mut self.decoders[sender.stream];
        read_with(decoder, &stream.spec, &mut stream.fields, sender, topic, payload);
    }

    /// Notes what is known of a message before its payload is read. True when it was taken
    /// in before.
    fn is_redelivery(&mut self, index: usize, message: Message<'_>) -> bool {
        let stream = &mut self.streams[index];
        stream.changes.ledger = true;
        if message.tag.is_none() {
            stream.ledger.unprotected += 1;
            return false;
        }
        if self.is_known(message) {
            self.streams[index].ledger.redelivered += 1;
            return true;
        }
        self.remember(message);
        false
    }

    /// Whether it was taken in before, as far as the broker marks it and we remember.
    pub(super) fn is_known(&self, message: Message<'_>) -> bool {
        let Some(tag) = message.tag.filter(|_| message.dup) else { return false };
        if tag.is_of_client() {
            // Its session has judged.
            return true;
        }
        self.resumed
            && self.canary != Some(Canary::CountRedeliveries)
            && self.redelivery.is_known(tag.packet, fingerprint(message.topic, message.payload))
    }

    pub(super) fn remember(&mut self, message: Message<'_>) {
        if let Some(tag) = message.tag.filter(|tag| !tag.is_of_client()) {
            self.redelivery.remember(tag.packet, fingerprint(message.topic, message.payload));
        }
    }

    /// Takes one of the records of the payload in that was read last.
    #[inline]
    fn take_record(&mut self, now: Now, sender: &Sender<'_>, place: usize, retain: bool, whole: &mut Whole) {
        let live = self.idle_clock.read(now.proc);
        let index = sender.stream;
        let (stream, mut out, decoder) = self.parts(index, now);
        let batch = decoder.batch();
        let entry = batch.record(place);
        if !stream.sampling.select(place, batch.len()) {
            return;
        }
        let (at, source) = match entry.time {
            Err(reason) => return stream.reject(reason),
            Ok(DecodedTime::Receive) => (now.wall.as_event_time(), TimeSource::Receive),
            Ok(DecodedTime::Relative(millis)) => {
                let at = now.wall.as_event_time().as_millis().saturating_add(millis);
                (EventTime::from_millis(at), TimeSource::Receive)
            }
            Ok(DecodedTime::Event(at)) => (at, TimeSource::Device),
        };
        let who = match &sender.device {
            // Nothing of the payload is asked for: the usual case, without a copy.
            Some(_) if !stream.has_groups && stream.calculations.is_empty() => None,
            _ => match stream.who(sender, batch, entry) {
                Ok(who) => Some(who),
                Err(reason) => return stream.reject(reason),
            },
        };
        let device = who.as_ref().map(|who| &who.device).or(sender.device.as_ref());
        let Some(device) = device else { return stream.reject(RejectReason::BadDevice) };
        if !stream.is_allowed(device.as_str()) {
            return stream.reject(RejectReason::DeviceDenied);
        }
        if retain && stream.is_stale_state(device.as_str(), at, source) {
            return stream.ignore();
        }
        let group = who.as_ref().and_then(|who| who.group.as_ref()).map_or("", DeviceId::as_str);
        let sent = Record {
            group,
            source,
            states: batch.states(entry),
            ..Record::new(device.as_str(), at, batch.values(entry))
        };
        let (mut record, mut left_out) = (sent, entry.left_out);
        if stream.spec.carry_forward.is_some() || !stream.calculations.is_empty() {
            match stream.complete(who.as_ref(), &sent, whole) {
                Calculated::Counts(more) => left_out += more,
                Calculated::Filtered => {
                    stream.filter();
                    return stream.remember_unaccepted(&mut out, live, &sent);
                }
                Calculated::Failed => {
                    stream.reject(RejectReason::Expression);
                    return stream.remember_unaccepted(&mut out, live, &sent);
                }
            }
            record = whole.record(&sent);
        }
        let accepted = stream.ledger.accepted;
        stream.accept(&mut out, live, &record, &sent);
        if stream.ledger.accepted > accepted {
            stream.ledger.fields_left_out += u64::from(left_out);
        }
        self.settle_joins(now, index);
    }
}

impl Engine {
    /// Takes in a record that nothing is calculated from, with what is carried forward.
    pub(super) fn accept_completed(&mut self, now: Now, index: usize, sent: &Record<'_>) {
        let live = self.idle_clock.read(now.proc);
        let mut whole = core::mem::take(&mut self.whole);
        whole.begin(sent);
        let (stream, mut out, _) = self.parts(index, now);
        stream.carry_into(sent, &mut whole);
        stream.accept(&mut out, live, &whole.record(sent), sent);
        self.whole = whole;
    }
}

/// A record as it counts: with what is carried forward and computed. Buffers that are used
/// again, so that nothing is allocated per record.
#[derive(Debug, Default)]
pub(super) struct Whole {
    values: Vec<(FieldIx, f64)>,
    states: Vec<(FieldIx, StateIx)>,
}

impl Whole {
    /// Begins with what was sent.
    pub(super) fn begin(&mut self, sent: &Record<'_>) {
        self.values.clear();
        self.values.extend_from_slice(sent.values);
        self.states.clear();
        self.states.extend_from_slice(sent.states);
    }

    /// Adds a value of before, unless the field is there. Both lists stay in the order of
    /// the fields.
    pub(super) fn add(&mut self, held: &Held) {
        let value = self.values.binary_search_by_key(&held.field, |(field, _)| *field);
        let state = self.states.binary_search_by_key(&held.field, |(field, _)| *field);
        if let (Err(among_values), Err(among_states)) = (value, state) {
            match held.datum {
                Datum::Number(value) => self.values.insert(among_values, (held.field, value)),
                Datum::State(state) => self.states.insert(among_states, (held.field, state)),
            }
        }
    }

    /// What was sent, made whole.
    pub(super) fn record<'r>(&'r self, sent: &Record<'r>) -> Record<'r> {
        Record { values: &self.values, states: &self.states, ..*sent }
    }
}

/// Whose a record is.
pub(super) struct Who {
    pub(super) device: DeviceId,
    pub(super) labels: Labels,
    /// The label of its group.
    pub(super) group: Option<DeviceId>,
}

impl Stream {
    /// Makes a record whole: what is carried forward first, and then what is calculated.
    /// `who` is known where anything is.
    fn complete(&mut self, who: Option<&Who>, sent: &Record<'_>, whole: &mut Whole) -> Calculated {
        whole.begin(sent);
        self.carry_into(sent, whole);
        let Some(who) = who.filter(|_| !self.calculations.is_empty()) else { return Calculated::Counts(0) };
        self.calculations.apply(&self.spec, &self.fields, who, sent.at, &mut whole.values, &whole.states)
    }

    /// Whose a record is.
    pub(super) fn who(
        &self,
        sender: &Sender<'_>,
        batch: &DecodedBatch,
        entry: DecodedEntry,
    ) -> Result<Who, RejectReason> {
        let topic = &self.spec.topics[sender.topic];
        let texts = batch.texts(entry);
        let source = Source { captures: &sender.captures, texts: &texts, labels: &[] };
        let device = match &sender.device {
            Some(device) => Some(device.clone()),
            None => topic.device.id(source),
        };
        let labels = if self.has_labels { self.labels(topic, source) } else { Labels::new() };
        // No closure here: rustc 1.95 breaks off at it.
        let group = match &topic.group {
            Some(group) => group.id(Source { captures: &sender.captures, texts: &texts, labels: &labels }),
            None => None,
        };
        Ok(Who { device: device.ok_or(RejectReason::BadDevice)?, labels, group })
    }

    /// The labels of a record.
    fn labels(&self, topic: &TopicSpec, source: Source<'_>) -> Labels {
        let label = |(template, spec): (&Template, &LabelSpec)| {
            let mut buffer = heapless::String::new();
            let text = template.resolve(source, &mut buffer);
            text.map_or(spec.default.as_deref(), |text| spec.read(text)).and_then(DeviceId::new)
        };
        topic.labels.iter().zip(&self.spec.labels).map(label).collect()
    }

    /// Names that came with nothing but rejected records take no place: a stream has few.
    #[inline]
    fn forget_strange_fields(&mut self, (known, taken): (Known, u64)) {
        if self.taken() == taken {
            self.fields.shrink(known);
        }
    }

    /// Records of which something may be kept. What the filter had no answer for may be
    /// carried forward.
    #[inline]
    fn taken(&self) -> u64 {
        let StreamLedger { accepted, filtered, future, duplicate, rejected, .. } = &self.ledger;
        accepted + filtered + future + duplicate + rejected[RejectReason::Expression as usize]
    }

    /// Whether `allow` and `deny` let a device in.
    #[inline]
    pub(super) fn is_allowed(&self, device: &str) -> bool {
        let rules = &self.spec.rules;
        rules.allow.as_ref().is_none_or(|allow| allow.fit(device)) && !rules.deny.fit(device)
    }
}
