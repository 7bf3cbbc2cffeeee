//! What a payload says beside its records: who came or went, and what its sender is to be
//! asked for.
//!
//! It comes after the records: those of a birth make a device known, and then it is online.
//! Who is meant is said as the topic on which readings come. The stream's topics and their
//! `device` make the same id of it as of the readings; where they take no such readings, or
//! the id needs the payload, nobody is meant.

use crate::model::ids::DeviceId;
use crate::model::template::Source;
use crate::model::time::Now;

use super::Engine;
use super::decode::{Aftermath, Presence};
use super::stream::Stream;

impl Engine {
    /// Does what the payload that was read last says beside its records.
    #[inline]
    pub(super) fn take_aftermath(&mut self, now: Now, index: usize) {
        let has_records = !self.decoders[index].batch().is_empty();
        match self.decoders[index].take_aftermath() {
            Some(aftermath) => self.follow_up(now, index, aftermath, has_records),
            None if has_records => {}
            None => self.streams[index].ignore(),
        }
    }

    #[cold]
    fn follow_up(&mut self, now: Now, index: usize, aftermath: Aftermath, has_records: bool) {
        let Aftermath { presence, rebirth, left_out, historical, not_kept } = aftermath;
        if presence.is_empty() {
            if !has_records {
                self.streams[index].ignore();
            }
        } else {
            self.note_presence(now, index, &presence);
        }
        let asked = rebirth.is_some_and(|topic| self.commands.ask_for_rebirth(now, topic));
        let ledger = &mut self.streams[index].ledger;
        ledger.fields_left_out += u64::from(left_out);
        ledger.historical += u64::from(historical);
        ledger.births_not_kept += u64::from(not_kept);
        ledger.rebirths_requested += u64::from(asked);
    }

    fn note_presence(&mut self, now: Now, index: usize, presence: &[Presence]) {
        let live = self.idle_clock.read(now.proc);
        let (stream, mut out, _) = self.parts(index, now);
        stream.ledger.availability += 1;
        let mut unknown = 0;
        for online in [false, true] {
            let meant = presence.iter().filter(|one| one.online == online);
            let slots: Vec<_> = meant
                .filter_map(|one| stream.device_at(&one.topic))
                .filter_map(|device| {
                    let slot = stream.devices.find(device.as_str());
                    unknown += u64::from(slot.is_none());
                    slot
                })
                .collect();
            // All at one moment: no watermark goes on without some and waits for others.
            stream.set_availability(&mut out, live, &slots, online);
        }
        self.unknown_devices += unknown;
        self.settle_joins(now, index);
    }
}

impl Stream {
    /// Whose readings come on `topic`; nobody's where they are not taken.
    fn device_at(&self, topic: &str) -> Option<DeviceId> {
        let (spec, captures) =
            self.spec.topics.iter().find_map(|known| Some((known, known.pattern.match_topic(topic)?)))?;
        if self.spec.ignore.iter().any(|pattern| pattern.match_topic(topic).is_some()) {
            return None;
        }
        let device = if spec.device.is_of_message() { spec.device.id(Source::topic(&captures)) } else { None };
        device.filter(|device| self.is_allowed(device.as_str()))
    }
}
