//! Whose a message is: an availability signal, readings of a stream, or nobody's.

use crate::model::ids::DeviceId;
use crate::model::limits::{LABELS_MAX, PAYLOAD_BYTES_MAX};
use crate::model::record::{Record, RejectReason, TimeSource};
use crate::model::template::{Source, Template};
use crate::model::time::{EventTime, Now};
use crate::model::topic::Captures;

use super::decode::batch::DecodedEntry;
use super::decode::{DecodedTime, Telling};
use super::redelivery::fingerprint;
use super::spec::TopicSpec;
use super::step::Message;
use super::stream::Stream;
use super::{Canary, Engine};

/// Labels of one record, by place.
type Labels = heapless::Vec<Option<DeviceId>, LABELS_MAX>;

/// What is the same for all records of a message.
struct Sender<'m> {
    stream: usize,
    topic: usize,
    captures: Captures<'m>,
    /// Where it takes nothing but the topic: whose the records are.
    device: Option<DeviceId>,
}

impl Engine {
    pub(super) fn handle_message(&mut self, now: Now, message: Message<'_>) {
        let heard = self.hear_availability(now, message);
        let found = if heard.is_signal { None } else { self.find_stream(message.topic) };
        match found {
            Some((stream, Some((topic, captures)))) => self.take_message(now, stream, topic, captures, message),
            Some((stream, None)) => self.streams[stream].ignore(),
            None => {
                if let Some(stream) = heard.unread {
                    self.streams[stream].reject(RejectReason::BadAvailability);
                } else if !heard.is_signal {
                    // A subscription of before that the broker still holds, or one that is wider
                    // than what is wanted. Nobody wants it.
                    self.unmatched += 1;
                }
            }
        }
        self.acks.extend(message.tag);
    }

    /// The stream that a topic belongs to, and which of its topics it is; none of them when
    /// the stream wants to ignore it.
    #[inline]
    fn find_stream<'m>(&self, topic: &'m str) -> Option<(usize, Option<(usize, Captures<'m>)>)> {
        self.streams.iter().enumerate().find_map(|(index, stream)| {
            let place = |(place, known): (usize, &TopicSpec)| Some((place, known.pattern.match_topic(topic)?));
            let found = stream.spec.topics.iter().enumerate().find_map(place)?;
            let ignored = stream.spec.ignore.iter().any(|pattern| pattern.match_topic(topic).is_some());
            Some((index, (!ignored).then_some(found)))
        })
    }

    fn take_message(&mut self, now: Now, index: usize, topic: usize, captures: Captures<'_>, message: Message<'_>) {
        if self.is_redelivery(index, message) {
            return;
        }
        let stream = &mut self.streams[index];
        if message.payload.len() > PAYLOAD_BYTES_MAX {
            return stream.reject(RejectReason::TooLarge);
        }
        let spec = &stream.spec.topics[topic];
        let of_message = spec.device.is_of_message();
        let device = if of_message { spec.device.id(Source::topic(&captures)) } else { None };
        if of_message && device.is_none() {
            return stream.reject(RejectReason::BadDevice);
        }
        let mut buffer = heapless::String::new();
        let field = spec.field.as_ref().and_then(|field| field.resolve(Source::topic(&captures), &mut buffer));
        let telling = Telling { topic: message.topic, payload: message.payload, field: field.unwrap_or("value") };
        self.decoders[index].decode(telling, &mut stream.fields);
        let sender = Sender { stream: index, topic, captures, device };
        for place in 0..self.decoders[index].batch().records().len() {
            self.take_record(now, &sender, place, message.retain);
        }
        self.take_aftermath(now, index);
    }

    /// Notes what is known of a message before its payload is read. True when it was taken
    /// in before.
    fn is_redelivery(&mut self, index: usize, message: Message<'_>) -> bool {
        let stream = &mut self.streams[index];
        stream.changes.ledger = true;
        let Some(tag) = message.tag else {
            stream.ledger.unprotected += 1;
            return false;
        };
        let print = fingerprint(message.topic, message.payload);
        let known = self.resumed && message.dup && self.redelivery.is_known(tag.packet, print);
        if known && self.canary != Some(Canary::CountRedeliveries) {
            stream.ledger.redelivered += 1;
            return true;
        }
        self.redelivery.remember(tag.packet, print);
        false
    }

    /// Takes one of the records of the payload in that was read last.
    #[inline]
    fn take_record(&mut self, now: Now, sender: &Sender<'_>, place: usize, retain: bool) {
        let live = self.idle_clock.read(now.proc);
        let index = sender.stream;
        let (stream, mut out, decoder) = self.parts(index, now);
        let batch = decoder.batch();
        let entry = batch.records()[place];
        let (at, source) = match entry.time {
            Err(reason) => return stream.reject(reason),
            Ok(DecodedTime::Receive) => (now.wall.as_event_time(), TimeSource::Receive),
            Ok(DecodedTime::Relative(millis)) => {
                let at = now.wall.as_event_time().as_millis().saturating_add(millis);
                (EventTime::from_millis(at), TimeSource::Receive)
            }
            Ok(DecodedTime::Event(at)) => (at, TimeSource::Device),
        };
        let own;
        let (device, labels) = if let (Some(device), false) = (&sender.device, stream.has_labels) {
            (device, Labels::new())
        } else {
            let texts = batch.texts(entry);
            let source = Source { captures: &sender.captures, texts: &texts, labels: &[] };
            let topic = &stream.spec.topics[sender.topic];
            own = if sender.device.is_none() { topic.device.id(source) } else { sender.device.clone() };
            let Some(device) = &own else { return stream.reject(RejectReason::BadDevice) };
            (device, stream.labels(topic, source))
        };
        if !stream.is_allowed(device.as_str()) {
            return stream.reject(RejectReason::DeviceDenied);
        }
        if retain && stream.is_stale_state(device.as_str(), at, source) {
            return stream.ignore();
        }
        let group = stream.group_label(sender, &labels, batch, entry);
        let group = group.as_ref().map_or("", DeviceId::as_str);
        let (values, states) = (batch.values(entry), batch.states(entry));
        let record = Record { group, source, states, ..Record::new(device.as_str(), at, values) };
        let accepted = stream.ledger.accepted;
        stream.accept(&mut out, live, &record);
        if stream.ledger.accepted > accepted {
            stream.ledger.fields_left_out += u64::from(entry.left_out);
        }
        self.settle_joins(now, index);
    }
}

impl Stream {
    /// The labels of a record, where something asks for them.
    #[cold]
    fn labels(&self, topic: &TopicSpec, source: Source<'_>) -> Labels {
        let label = |(template, spec): (&Template, &super::spec::LabelSpec)| {
            let mut buffer = heapless::String::new();
            let text = template.resolve(source, &mut buffer);
            text.map_or(spec.default.as_deref(), |text| spec.read(text)).and_then(DeviceId::new)
        };
        topic.labels.iter().zip(&self.spec.labels).map(label).collect()
    }

    /// The label of its group.
    #[inline]
    fn group_label(
        &self,
        sender: &Sender<'_>,
        labels: &Labels,
        batch: &super::decode::batch::DecodedBatch,
        entry: DecodedEntry,
    ) -> Option<DeviceId> {
        let template = self.spec.topics[sender.topic].group.as_ref().filter(|_| self.has_groups)?;
        let texts = batch.texts(entry);
        template.id(Source { captures: &sender.captures, texts: &texts, labels })
    }

    /// Whether `allow` and `deny` let a device in.
    #[inline]
    pub(super) fn is_allowed(&self, device: &str) -> bool {
        let rules = &self.spec.rules;
        rules.allow.as_ref().is_none_or(|allow| allow.fit(device)) && !rules.deny.fit(device)
    }
}
