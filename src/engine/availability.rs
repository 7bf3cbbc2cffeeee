//! Messages that say who is there: last wills, online topics, bridges that lost their radio.

use crate::model::ids::DeviceId;
use crate::model::template::{Source, Template};
use crate::model::time::Now;
use crate::model::topic::Captures;

use super::Engine;
use super::spec::{AvailabilitySpec, Whom};
use super::step::{Availability, Message};
use super::stream::Stream;

/// Bytes of a payload that may be an availability document. They hold a word and perhaps a
/// time; what is larger is something else.
const DOCUMENT_BYTES_MAX: usize = 4 * 1024;

/// What a message was as an availability signal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// It was one, and nothing else.
    pub is_signal: bool,
    /// The stream on whose availability topic it came with a word that is none of its words.
    pub unread: Option<usize>,
}

impl Engine {
    /// Does what a message says about who is there, for every stream that listens to it.
    #[inline]
    pub(super) fn hear_availability(&mut self, now: Now, message: Message<'_>) -> Heard {
        let mut heard = Heard::default();
        for index in 0..self.streams.len() {
            if !self.streams[index].spec.availability.is_empty() {
                self.hear_for(now, index, message, &mut heard);
            }
        }
        heard
    }

    #[cold]
    fn hear_for(&mut self, now: Now, index: usize, message: Message<'_>, heard: &mut Heard) {
        let again = self.is_known(message);
        for rule in 0..self.streams[index].spec.availability.len() {
            let live = self.idle_clock.read(now.proc);
            let (stream, mut out, _) = self.parts(index, now);
            let rule = &stream.spec.availability[rule];
            let Some(captures) = rule.pattern.match_topic(message.topic) else { continue };
            if again {
                heard.is_signal = true;
                stream.ledger.redelivered += 1;
                stream.changes.ledger = true;
                return;
            }
            if message.payload.is_empty() {
                // A retained word was cleared: it says nothing.
                heard.is_signal = true;
                stream.ignore();
                continue;
            }
            let Some(online) = word(rule, message.payload).and_then(|word| rule.read(&word)) else {
                heard.unread = Some(index);
                continue;
            };
            heard.is_signal = true;
            stream.ledger.availability += 1;
            stream.changes.ledger = true;
            let known = match whom(&rule.devices, &captures) {
                Some(Named::Device(device)) => stream.handle_availability(&mut out, live, device.as_str(), online),
                Some(Named::Below(prefix)) => {
                    let slots = stream.slots_below(prefix.as_str());
                    stream.set_availability(&mut out, live, &slots, online);
                    true
                }
                Some(Named::All) => {
                    stream.handle_availability_of_all(&mut out, live, online);
                    true
                }
                None => false,
            };
            self.unknown_devices += u64::from(!known);
            self.settle_joins(now, index);
        }
    }

    pub(super) fn handle_availability(&mut self, now: Now, signal: Availability<'_>) {
        let live = self.idle_clock.read(now.proc);
        let mut known = signal.device.is_none();
        for index in 0..self.streams.len() {
            if signal.stream.is_some_and(|stream| stream != index) {
                continue;
            }
            let (stream, mut out, _) = self.parts(index, now);
            match signal.device {
                Some(device) => known |= stream.handle_availability(&mut out, live, device, signal.online),
                None => stream.handle_availability_of_all(&mut out, live, signal.online),
            }
            self.settle_joins(now, index);
        }
        self.unknown_devices += u64::from(!known);
    }
}

impl Stream {
    /// Devices whose id begins with `prefix`.
    fn slots_below(&self, prefix: &str) -> Vec<u32> {
        self.devices.devices().filter(|slot| self.devices.name(*slot).starts_with(prefix)).collect()
    }
}

/// Whom a signal is about.
pub(super) enum Named {
    Device(DeviceId),
    Below(DeviceId),
    All,
}

pub(super) fn whom(whom: &Whom, captures: &Captures<'_>) -> Option<Named> {
    let text = |template: &Template| template.id(Source::topic(captures));
    match whom {
        Whom::Device(template) => text(template).map(Named::Device),
        Whom::Below(template) => text(template).map(Named::Below),
        Whom::All => Some(Named::All),
    }
}

/// The word that a payload says. Rare, and small: it may allocate.
pub(super) fn word(rule: &AvailabilitySpec, payload: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(payload).ok().filter(|text| text.len() <= DOCUMENT_BYTES_MAX)?.trim();
    let (Some(pointer), true) = (&rule.pointer, text.starts_with('{')) else {
        return Some(text.trim_matches('"').to_owned());
    };
    let document: serde_json::Value = serde_json::from_str(text).ok()?;
    let value = document.pointer(pointer)?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
