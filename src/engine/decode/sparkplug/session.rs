//! The session: messages in, records told, and what follows from them.

use std::collections::BTreeMap;

use crate::model::limits::{SPARKPLUG_BYTES_MAX, SPARKPLUG_EDGES_MAX, SPARKPLUG_METRICS_MAX, SPARKPLUG_NAME_BYTES};
use crate::model::record::RejectReason;

use super::super::visit::{Outcome, OwnTime, Visit};
use super::births::{Births, Room, resolve};
use super::payload::Payload;
use super::topic::{Message, Topic};

/// Bytes of an edge node or a device beside its names and metrics, by estimate.
const ENTRY_BYTES: usize = 128;

/// By group, then by edge node: looked up without building a key.
pub(super) type Groups = BTreeMap<Box<str>, BTreeMap<Box<str>, Edge>>;

/// What is known of the edge nodes that are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub(super) groups: Groups,
    /// What it may take, in bytes.
    pub(super) room: usize,
    /// All that its edge nodes send comes here, so that numbers show what is missing.
    hears_all: bool,
}

/// An edge node between its birth and its death.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Edge {
    /// The number of its connection.
    pub(super) bd_seq: Option<u64>,
    /// The number of its last message; nothing when that had none.
    pub(super) seq: Option<u8>,
    /// Messages of it were missed since its birth.
    pub(super) gap: bool,
    pub(super) metrics: Births,
    /// Devices that are there. Without births: not born again since the edge node was.
    pub(super) devices: BTreeMap<Box<str>, Option<Births>>,
    /// Not all that was born could be kept: what is unknown may have been said.
    pub(super) crowded: bool,
}

/// What followed from a message beside the records that were told.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Why nothing of the message counts; `Ok` also where there was nothing to tell.
    pub outcome: Outcome,
    /// Who came or went, of the group and edge node of the topic.
    pub availability: Vec<Availability>,
    /// Why the edge node of the topic is to be asked for its births.
    pub rebirth: Option<Rebirth>,
    /// Metrics told that the edge node had held back.
    pub historical: u32,
    /// Metrics by an alias that is not known.
    pub left_out: u32,
    /// Metrics, devices and edge nodes that were born beyond a bound.
    pub not_kept: u32,
    /// What is kept of the edge node of the topic, sequence number aside, is not as before.
    pub changed: bool,
}

/// Somebody came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The device; none for the edge node itself.
    pub device: Option<String>,
    /// It is there.
    pub online: bool,
}

/// Why births are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebirth {
    /// Data, or the birth of a device, of somebody whose birth was not heard.
    BeforeBirth,
    /// Messages are missing: a birth may have been among them.
    SequenceGap,
    /// A metric by an alias that no birth has named.
    UnknownAlias,
}

impl Default for Session {
    /// Nobody is there; all the room that there is.
    fn default() -> Session {
        Session::new(SPARKPLUG_BYTES_MAX, true)
    }
}

impl Session {
    /// Nobody is there. It never takes more than `room` bytes. `hears_all`: see `coverage.rs`;
    /// without it no gap is looked for.
    pub fn new(room: usize, hears_all: bool) -> Session {
        Session { groups: BTreeMap::new(), room, hears_all }
    }

    /// As this one was at first.
    pub(super) fn forgotten(&self) -> Session {
        Session::new(self.room, self.hears_all)
    }

    /// Takes in a message: tells `visit` its records, and returns what followed.
    ///
    /// The outcome is an error for `Empty` (a retained message was cleared), `NotInFormat`
    /// (then the session is as before), `UnknownAlias` when no metric could be named, and
    /// `NoValues` for data without metrics. Commands and states of hosts tell nothing.
    pub fn hear(&mut self, topic: &Topic<'_>, payload: &[u8], visit: &mut dyn Visit) -> Heard {
        let Topic::Edge { group, edge, device, message } = *topic else { return Heard::nothing(Ok(())) };
        if message == Message::Command {
            return Heard::nothing(Ok(()));
        }
        if payload.is_empty() {
            return Heard::nothing(Err(RejectReason::Empty));
        }
        let Ok(payload) = Payload::parse(payload) else { return Heard::nothing(Err(RejectReason::NotInFormat)) };
        match (message, device) {
            (Message::Birth, None) => self.hear_node_birth(group, edge, &payload, visit),
            (Message::Birth, Some(device)) => self.hear_device_birth((group, edge, device), &payload, visit),
            (Message::Data, device) => self.hear_data((group, edge), device, &payload, visit),
            (Message::Death, None) => self.hear_node_death(group, edge, &payload),
            (Message::Death, Some(device)) => self.hear_device_death((group, edge), device, &payload),
            (Message::Command, _) => Heard::nothing(Ok(())),
        }
    }

    fn hear_node_birth(&mut self, group: &str, edge: &str, payload: &Payload<'_>, visit: &mut dyn Visit) -> Heard {
        let mut heard = tell(payload, None, visit).of_birth();
        heard.availability.push(Availability { device: None, online: true });
        let before = self.remove(group, edge);
        heard.changed = before.is_some();
        let devices = before.map(|edge| edge.devices).unwrap_or_default();
        let mut born = Edge {
            bd_seq: bd_seq(payload),
            seq: self.sequence(payload),
            // They are there until their own deaths or that of the edge node.
            devices: devices.into_keys().map(|device| (device, None)).collect(),
            ..Edge::default()
        };
        let own_bytes = born.bytes(group, edge);
        let bytes = self.room.saturating_sub(self.bytes());
        let fits = group.len().max(edge.len()) <= SPARKPLUG_NAME_BYTES
            && self.edges() < SPARKPLUG_EDGES_MAX
            && own_bytes <= bytes;
        if !fits {
            heard.not_kept += 1;
            return heard;
        }
        let room = Room { metrics: SPARKPLUG_METRICS_MAX, bytes: bytes - own_bytes };
        let (metrics, not_kept) = Births::of(payload, room);
        born.metrics = metrics;
        born.crowded = not_kept > 0;
        heard.not_kept += not_kept;
        self.groups.entry(group.into()).or_default().insert(edge.into(), born);
        heard.changed = true;
        heard
    }

    fn hear_device_birth(
        &mut self,
        (group, edge, device): (&str, &str, &str),
        payload: &Payload<'_>,
        visit: &mut dyn Visit,
    ) -> Heard {
        let mut heard = tell(payload, None, visit).of_birth();
        if !self.hears_all && self.has_room_for(group, edge) {
            // The birth of its edge node may never come here.
            self.groups.entry(group.into()).or_default().entry(edge.into()).or_default();
        }
        let (total, room, seq) = (self.bytes(), self.room, self.sequence(payload));
        let Some(known) = self.edge_mut(group, edge) else {
            // Not online yet: the death of its edge node could not take it along.
            heard.rebirth = self.has_room_for(group, edge).then_some(Rebirth::BeforeBirth);
            return heard;
        };
        heard.changed = true;
        if !known.follow(seq) {
            heard.rebirth = Some(Rebirth::SequenceGap);
        }
        let before = known.devices.remove(device).map_or(0, |births| device_bytes(device, births.as_ref()));
        let bytes = room.saturating_sub(total - before);
        let own_bytes = device_bytes(device, None);
        if device.len() > SPARKPLUG_NAME_BYTES || own_bytes > bytes {
            known.crowded = true;
            heard.not_kept += 1;
            return heard;
        }
        // Nor is one online that is not kept, for the same reason.
        heard.availability.push(Availability { device: Some(device.to_owned()), online: true });
        let metrics = SPARKPLUG_METRICS_MAX.saturating_sub(known.metrics_kept());
        let (births, not_kept) = Births::of(payload, Room { metrics, bytes: bytes - own_bytes });
        known.devices.insert(device.into(), Some(births));
        known.crowded |= not_kept > 0;
        heard.not_kept += not_kept;
        heard
    }

    fn hear_data(
        &mut self,
        (group, edge): (&str, &str),
        device: Option<&str>,
        payload: &Payload<'_>,
        visit: &mut dyn Visit,
    ) -> Heard {
        let seq = self.sequence(payload);
        let Some(known) = self.edge_mut(group, edge) else {
            let mut heard = tell(payload, None, visit).of_data();
            heard.rebirth = if self.has_room_for(group, edge) { self.unborn(heard.left_out) } else { None };
            return heard;
        };
        let in_order = known.follow(seq);
        let births = match device {
            None => Some(&known.metrics),
            Some(device) => known.devices.get(device).and_then(Option::as_ref),
        };
        let mut heard = tell(payload, births, visit).of_data();
        heard.rebirth = match (in_order, known.crowded, births.is_some()) {
            (false, _, _) => Some(Rebirth::SequenceGap),
            (true, true, _) => None,
            (true, false, false) => self.unborn(heard.left_out),
            (true, false, true) => (heard.left_out > 0).then_some(Rebirth::UnknownAlias),
        };
        heard
    }

    /// Whether somebody whose birth was not heard is to be asked for it: where not all comes
    /// here, only when it is missed.
    fn unborn(&self, left_out: u32) -> Option<Rebirth> {
        (self.hears_all || left_out > 0).then_some(Rebirth::BeforeBirth)
    }

    fn hear_node_death(&mut self, group: &str, edge: &str, payload: &Payload<'_>) -> Heard {
        let mut heard = Heard::nothing(Ok(()));
        let born_as = self.edge_mut(group, edge).and_then(|known| known.bd_seq);
        if born_as.zip(bd_seq(payload)).is_some_and(|(born, died)| born != died) {
            return heard;
        }
        heard.availability.push(Availability { device: None, online: false });
        let known = self.remove(group, edge);
        heard.changed = known.is_some();
        let devices = known.map(|known| known.devices).unwrap_or_default();
        heard
            .availability
            .extend(devices.into_keys().map(|device| Availability { device: Some(device.into()), online: false }));
        heard
    }

    fn hear_device_death(&mut self, (group, edge): (&str, &str), device: &str, payload: &Payload<'_>) -> Heard {
        let mut heard = Heard::nothing(Ok(()));
        heard.availability.push(Availability { device: Some(device.to_owned()), online: false });
        let seq = self.sequence(payload);
        if let Some(known) = self.edge_mut(group, edge) {
            heard.changed = known.devices.remove(device).is_some();
            if !known.follow(seq) {
                heard.rebirth = Some(Rebirth::SequenceGap);
            }
        }
        heard
    }

    fn edge_mut(&mut self, group: &str, edge: &str) -> Option<&mut Edge> {
        self.groups.get_mut(group)?.get_mut(edge)
    }

    pub(super) fn remove(&mut self, group: &str, edge: &str) -> Option<Edge> {
        let edges = self.groups.get_mut(group)?;
        let removed = edges.remove(edge);
        if edges.is_empty() {
            self.groups.remove(group);
        }
        removed
    }

    /// The number of a message; none where numbers say nothing. One beyond 255 is none either.
    fn sequence(&self, payload: &Payload<'_>) -> Option<u8> {
        payload.seq.filter(|_| self.hears_all).and_then(|seq| u8::try_from(seq).ok())
    }

    /// Edge nodes that are there.
    pub fn edges(&self) -> usize {
        self.groups.values().map(BTreeMap::len).sum()
    }

    /// False where the birth of this edge node would not be kept, and so need not be asked for.
    fn has_room_for(&self, group: &str, edge: &str) -> bool {
        group.len().max(edge.len()) <= SPARKPLUG_NAME_BYTES
            && self.edges() < SPARKPLUG_EDGES_MAX
            && self.bytes() + Edge::default().bytes(group, edge) <= self.room
    }

    /// What is kept takes so much, in memory and saved, by estimate.
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        for (group, edges) in &self.groups {
            bytes += edges.iter().map(|(edge, known)| known.bytes(group, edge)).sum::<usize>();
        }
        bytes
    }
}

impl Edge {
    /// Takes in the number of the next message. False when messages are missing before it,
    /// and from then on until the edge node is born again: the request may have been lost.
    fn follow(&mut self, seq: Option<u8>) -> bool {
        let expected = self.seq.map(|last| last.wrapping_add(1));
        self.seq = seq;
        self.gap |= expected.zip(seq).is_some_and(|(expected, seq)| seq != expected);
        !self.gap
    }

    pub(super) fn metrics_kept(&self) -> usize {
        self.metrics.len() + self.devices.values().flatten().map(Births::len).sum::<usize>()
    }

    fn bytes(&self, group: &str, edge: &str) -> usize {
        let devices: usize = self.devices.iter().map(|(device, births)| device_bytes(device, births.as_ref())).sum();
        ENTRY_BYTES + group.len() + edge.len() + self.metrics.bytes() + devices
    }
}

fn device_bytes(device: &str, births: Option<&Births>) -> usize {
    ENTRY_BYTES + device.len() + births.map_or(0, Births::bytes)
}

/// How the metrics of one payload fared.
#[derive(Clone, Copy, Default)]
struct Told {
    metrics: u32,
    historical: u32,
    left_out: u32,
}

impl Told {
    fn of_birth(self) -> Heard {
        let named = self.metrics > 0 || self.left_out == 0;
        self.heard(if named { Ok(()) } else { Err(RejectReason::UnknownAlias) })
    }

    fn of_data(self) -> Heard {
        self.heard(match (self.metrics, self.left_out) {
            (0, 0) => Err(RejectReason::NoValues),
            (0, _) => Err(RejectReason::UnknownAlias),
            (_, _) => Ok(()),
        })
    }

    fn heard(self, outcome: Outcome) -> Heard {
        Heard { historical: self.historical, left_out: self.left_out, ..Heard::nothing(outcome) }
    }
}

impl Heard {
    fn nothing(outcome: Outcome) -> Heard {
        Heard {
            outcome,
            availability: Vec::new(),
            rebirth: None,
            historical: 0,
            left_out: 0,
            not_kept: 0,
            changed: false,
        }
    }
}

/// Tells the metrics that can be named, a record for each run of equal times.
fn tell(payload: &Payload<'_>, births: Option<&Births>, visit: &mut dyn Visit) -> Told {
    let mut told = Told::default();
    let mut record_at = None;
    for metric in payload.metrics() {
        let Some((name, datatype)) = resolve(&metric, births) else {
            told.left_out += 1;
            continue;
        };
        let at = metric.timestamp.or(payload.timestamp);
        if record_at != Some(at) {
            record_at = Some(at);
            visit.start_record();
            if let Some(at) = at {
                visit.own_time(OwnTime::Millis(i64::try_from(at).unwrap_or(i64::MAX)));
            }
        }
        visit.member(name, metric.scalar(datatype));
        told.metrics += 1;
        told.historical += u32::from(metric.is_historical);
    }
    told
}

/// The number of the connection, in births and deaths of edge nodes.
fn bd_seq(payload: &Payload<'_>) -> Option<u64> {
    payload.metrics().filter(|metric| metric.name == Some("bdSeq")).find_map(|metric| metric.count())
}

#[cfg(test)]
mod tests {
    use crate::engine::decode::hostile;
    use crate::engine::decode::visit::spy::told;

    use super::super::encoder::{Sent, payload};
    use super::*;

    const NBIRTH: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/sparkplug-b/001.payload");
    const NDATA: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/sparkplug-b/002.payload");
    const NO_TIME: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/sparkplug-b/004.payload");
    const NULL_NAN: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/sparkplug-b/005.payload");
    const STATE: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/sparkplug-b/007.payload");
    const OLD_STATE: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/sparkplug-b/008.payload");
    const CUT: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/sparkplug-b/010.payload");

    /// What the session tells, and what follows; in one line of words after the records.
    fn hear(session: &mut Session, topic: &str, payload: &[u8]) -> String {
        let mut what = String::new();
        let records = told(|visit| {
            let heard = session.hear(&Topic::parse(topic).unwrap(), payload, visit);
            what = words(&heard);
            heard.outcome
        });
        if what.is_empty() { records } else { format!("{records} |{what}") }
    }

    fn words(heard: &Heard) -> String {
        let mut words = Vec::new();
        for change in &heard.availability {
            let who = change.device.as_deref().unwrap_or("node");
            words.push(format!(" {who} {}", if change.online { "online" } else { "offline" }));
        }
        words.extend(heard.rebirth.map(|rebirth| format!(" rebirth:{rebirth:?}")));
        let counts = [(heard.historical, "historical"), (heard.left_out, "left_out"), (heard.not_kept, "not_kept")];
        words.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!(" {word}:{count}")));
        words.concat()
    }

    fn birth(bd_seq: u64) -> Vec<u8> {
        payload(
            Some(0),
            Some(1_000),
            &[Sent::named("bdSeq").kind(8).long(bd_seq), Sent::named("t").alias(1).kind(9).float(1.5)],
        )
    }

    fn death(bd_seq: u64) -> Vec<u8> {
        payload(None, Some(2_000), &[Sent::named("bdSeq").kind(8).long(bd_seq)])
    }

    fn data(seq: u64) -> Vec<u8> {
        payload(Some(seq), Some(3_000), &[Sent::alias_only(1).float(2.5)])
    }

    /// A node with one device, both born; the last sequence number is 1.
    fn born() -> Session {
        let mut session = Session::default();
        let _ = hear(&mut session, "spBv1.0/G/NBIRTH/e", &birth(3));
        let device = payload(Some(1), Some(1_000), &[Sent::named("p/flow").alias(7).kind(3).int(5)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/DBIRTH/e/d", &device), "record @1000ms p/flow=5 | d online");
        session
    }

    #[test]
    fn a_birth_tells_all_its_metrics_and_brings_the_node_online() {
        assert_eq!(
            hear(&mut Session::default(), "spBv1.0/G1/NBIRTH/edge1", NBIRTH),
            "record @1713970366000ms bdSeq=3 Node Control/Rebirth=false line/temp=21.5 line/count=18446744073709551615 \
             line/offset=-5 line/total=-9007199254740993 | node online"
        );
    }

    #[test]
    fn f122_each_metric_has_the_time_of_its_own_and_the_payloads_is_for_those_without() {
        let mut session = Session::default();
        let _ = hear(&mut session, "spBv1.0/G1/NBIRTH/edge1", NBIRTH);
        assert_eq!(
            hear(&mut session, "spBv1.0/G1/NDATA/edge1", NDATA),
            "record @1713970366990ms line/temp=21.75\nrecord @1713970366995ms line/offset=-6"
        );
        let metrics = [
            Sent::alias_only(1).at(10).float(1.0),
            Sent::alias_only(2).at(10).long(2),
            Sent::alias_only(1).float(3.0),
            Sent::alias_only(1).at(10).float(4.0),
        ];
        assert_eq!(
            hear(&mut session, "spBv1.0/G1/NDATA/edge1", &payload(Some(2), Some(20), &metrics)),
            "record @10ms line/temp=1.0 line/count=2\nrecord @20ms line/temp=3.0\nrecord @10ms line/temp=4.0"
        );
    }

    #[test]
    fn without_any_time_a_record_has_none_and_named_metrics_need_no_birth() {
        let told = hear(&mut Session::default(), "spBv1.0/G1/DDATA/edge1/pump7", NO_TIME);
        assert_eq!(told, "record flow=2.0 | rebirth:BeforeBirth");
    }

    #[test]
    fn null_and_nan_are_told_as_they_are() {
        assert_eq!(
            hear(&mut Session::default(), "spBv1.0/G1/DDATA/edge1/pump7", NULL_NAN),
            "record @1713970967000ms flow=null pressure=NaN state=\"RUN\" | rebirth:BeforeBirth"
        );
    }

    #[test]
    fn what_is_cut_is_not_in_the_format_and_changes_nothing() {
        let mut session = born();
        let before = session.clone();
        assert_eq!(hear(&mut session, "spBv1.0/G1/DDATA/edge1/pump7", CUT), "rejected: not_in_format");
        assert_eq!(hear(&mut session, "spBv1.0/G/NDEATH/e", b""), "rejected: empty");
        for (topic, whole) in [("spBv1.0/G/NBIRTH/e", birth(4)), ("spBv1.0/G/NDATA/e", data(2))] {
            let cuts =
                (1..whole.len()).filter(|cut| hear(&mut session, topic, &whole[..*cut]).contains("not_in_format"));
            assert!(cuts.count() >= whole.len() - 4, "all but those between two fields");
            session = before.clone();
        }
    }

    #[test]
    fn states_of_hosts_and_commands_tell_nothing() {
        let mut session = born();
        let before = session.clone();
        assert_eq!(hear(&mut session, "spBv1.0/STATE/host1", STATE), "");
        assert_eq!(hear(&mut session, "STATE/host1", OLD_STATE), "");
        assert_eq!(hear(&mut session, "spBv1.0/G/NCMD/e", &data(2)), "");
        assert_eq!(hear(&mut session, "spBv1.0/G/DCMD/e/d", b"anything"), "");
        assert_eq!(session, before);
    }

    #[test]
    fn f123_a_gap_in_the_sequence_asks_for_a_rebirth_and_the_data_count() {
        let mut session = born();
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(2)), "record @3000ms t=2.5");
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(4)), "record @3000ms t=2.5 | rebirth:SequenceGap");
        assert_eq!(
            hear(&mut session, "spBv1.0/G/NDATA/e", &data(5)),
            "record @3000ms t=2.5 | rebirth:SequenceGap",
            "the request may have been lost"
        );
        let _ = hear(&mut session, "spBv1.0/G/NBIRTH/e", &birth(3));
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(1)), "record @3000ms t=2.5");
        assert_eq!(
            hear(&mut session, "spBv1.0/G/DDEATH/e/d", &payload(Some(7), None, &[])),
            " | d offline rebirth:SequenceGap"
        );
    }

    #[test]
    fn who_hears_a_part_only_sees_no_gaps_and_asks_for_aliases_all_the_same() {
        let mut session = Session::new(SPARKPLUG_BYTES_MAX, false);
        let _ = hear(&mut session, "spBv1.0/G/NBIRTH/e", &birth(3));
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(77)), "record @3000ms t=2.5");
        let unknown = payload(Some(3), Some(1), &[Sent::alias_only(99).float(1.0)]);
        assert!(hear(&mut session, "spBv1.0/G/NDATA/e", &unknown).contains("rebirth:UnknownAlias"));

        let device = payload(Some(1), Some(1), &[Sent::named("x").alias(7).kind(9).float(1.0)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/DBIRTH/f/d", &device), "record @1ms x=1.0 | d online");
        let by_alias = payload(Some(9), Some(1), &[Sent::alias_only(7).float(2.0)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/DDATA/f/d", &by_alias), "record @1ms x=2.0");
        let other = hear(&mut session, "spBv1.0/G/DDATA/f/other", &by_alias);
        assert_eq!(other, "rejected: unknown_alias | rebirth:BeforeBirth left_out:1");
        let by_name = payload(Some(9), Some(1), &[Sent::named("x").kind(9).float(2.0)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/DDATA/never-born/d", &by_name), "record @1ms x=2.0");
    }

    #[test]
    fn the_sequence_goes_round_over_the_node_and_its_devices() {
        let mut session = born();
        for seq in 2..=255 {
            assert!(!hear(&mut session, "spBv1.0/G/NDATA/e", &data(seq)).contains("rebirth"), "{seq}");
        }
        let device = payload(Some(0), None, &[Sent::alias_only(7).int(u32::MAX)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/DDATA/e/d", &device), "record p/flow=-1", "typed by the birth");
        assert!(!hear(&mut session, "spBv1.0/G/NDATA/e", &data(1)).contains("rebirth"));
        assert!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(1)).contains("rebirth:SequenceGap"), "twice the same");
    }

    #[test]
    fn a_message_without_a_number_shows_no_gap_and_hides_none_for_long() {
        let mut session = born();
        let unnumbered = payload(None, Some(3_000), &[Sent::alias_only(1).float(2.5)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &unnumbered), "record @3000ms t=2.5");
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(9)), "record @3000ms t=2.5");
        assert!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(11)).contains("rebirth:SequenceGap"));
    }

    #[test]
    fn an_alias_that_is_not_known_is_left_out_and_asks_for_a_rebirth() {
        let mut session = born();
        let half = payload(Some(2), Some(1), &[Sent::alias_only(99).float(1.0), Sent::alias_only(1).float(2.0)]);
        assert_eq!(
            hear(&mut session, "spBv1.0/G/NDATA/e", &half),
            "record @1ms t=2.0 | rebirth:UnknownAlias left_out:1"
        );
        let none = payload(Some(3), Some(1), &[Sent::alias_only(99).float(1.0)]);
        assert_eq!(
            hear(&mut session, "spBv1.0/G/NDATA/e", &none),
            "rejected: unknown_alias | rebirth:UnknownAlias left_out:1"
        );
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &payload(Some(4), Some(1), &[])), "rejected: no_values");
    }

    #[test]
    fn data_before_a_birth_ask_for_it() {
        let mut session = Session::default();
        assert_eq!(
            hear(&mut session, "spBv1.0/G/NDATA/e", &data(5)),
            "rejected: unknown_alias | rebirth:BeforeBirth left_out:1"
        );
        let device = payload(Some(1), Some(1), &[Sent::named("x").alias(7).kind(9).float(1.0)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/DBIRTH/e/d", &device), "record @1ms x=1.0 | rebirth:BeforeBirth");
        let mut session = born();
        assert_eq!(
            hear(&mut session, "spBv1.0/G/DDATA/e/other", &payload(Some(2), Some(1), &[Sent::alias_only(7).int(1)])),
            "rejected: unknown_alias | rebirth:BeforeBirth left_out:1"
        );
    }

    #[test]
    fn a_death_takes_the_node_and_all_its_devices_offline() {
        let mut session = born();
        assert_eq!(hear(&mut session, "spBv1.0/G/NDEATH/e", &death(3)), " | node offline d offline");
        assert_eq!(session, Session::default());
        assert!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(2)).contains("rebirth:BeforeBirth"));
        assert_eq!(hear(&mut session, "spBv1.0/G/NDEATH/e", &death(3)), " | node offline", "of a node not known");
    }

    #[test]
    fn a_death_of_an_earlier_connection_is_passed_over() {
        let mut session = born();
        assert_eq!(hear(&mut session, "spBv1.0/G/NDEATH/e", &death(2)), "");
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(2)), "record @3000ms t=2.5");
        let unnumbered = payload(None, Some(2_000), &[]);
        assert_eq!(hear(&mut session, "spBv1.0/G/NDEATH/e", &unnumbered), " | node offline d offline");
    }

    #[test]
    fn a_new_birth_makes_old_aliases_void_and_devices_still_go_with_the_node() {
        let mut session = born();
        let other = payload(
            Some(0),
            Some(1),
            &[Sent::named("bdSeq").kind(8).long(4), Sent::named("u").alias(1).kind(9).float(1.0)],
        );
        assert_eq!(hear(&mut session, "spBv1.0/G/NBIRTH/e", &other), "record @1ms bdSeq=4 u=1.0 | node online");
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &data(1)), "record @3000ms u=2.5");
        let device = payload(Some(2), Some(1), &[Sent::alias_only(7).int(1)]);
        assert!(hear(&mut session, "spBv1.0/G/DDATA/e/d", &device).ends_with("rebirth:BeforeBirth left_out:1"));
        assert_eq!(hear(&mut session, "spBv1.0/G/NDEATH/e", &death(3)), "", "the will of the first connection");
        assert_eq!(hear(&mut session, "spBv1.0/G/NDEATH/e", &death(4)), " | node offline d offline");
    }

    #[test]
    fn f121_what_was_held_back_is_told_between_what_is_new_and_counted() {
        let mut session = born();
        let metrics = [
            Sent::alias_only(1).at(500).historical().float(1.0),
            Sent::alias_only(1).at(900).float(2.0),
            Sent::alias_only(1).at(600).historical().float(3.0),
        ];
        assert_eq!(
            hear(&mut session, "spBv1.0/G/NDATA/e", &payload(Some(2), Some(900), &metrics)),
            "record @500ms t=1.0\nrecord @900ms t=2.0\nrecord @600ms t=3.0 | historical:2"
        );
    }

    #[test]
    fn edge_nodes_beyond_the_bound_are_not_kept_and_not_asked_again() {
        let mut session = Session::default();
        for edge in 0..SPARKPLUG_EDGES_MAX {
            assert!(!hear(&mut session, &format!("spBv1.0/G/NBIRTH/{edge}"), &birth(1)).contains("not_kept"));
        }
        assert!(hear(&mut session, "spBv1.0/H/NBIRTH/e", &birth(1)).ends_with("node online not_kept:1"));
        assert_eq!(session.edges(), SPARKPLUG_EDGES_MAX);
        assert_eq!(hear(&mut session, "spBv1.0/H/NDATA/e", &data(1)), "rejected: unknown_alias | left_out:1");
        let named = payload(Some(1), Some(1), &[Sent::named("x").kind(9).float(1.0)]);
        assert_eq!(hear(&mut session, "spBv1.0/H/NDATA/e", &named), "record @1ms x=1.0");
        assert!(
            hear(&mut session, "spBv1.0/G/NBIRTH/7", &birth(2)).ends_with("node online"),
            "one that is kept is born again"
        );
    }

    #[test]
    fn metrics_beyond_the_bound_are_not_kept_and_not_asked_again() {
        let mut session = Session::default();
        let sent: Vec<_> = (0..SPARKPLUG_METRICS_MAX as u64 + 5)
            .map(|alias| Sent::named(&format!("m{alias}")).alias(alias).kind(9).float(1.0))
            .collect();
        assert!(
            hear(&mut session, "spBv1.0/G/NBIRTH/e", &payload(Some(0), Some(1), &sent))
                .ends_with("node online not_kept:5")
        );
        let last = payload(Some(1), Some(1), &[Sent::alias_only(SPARKPLUG_METRICS_MAX as u64 + 4).float(1.0)]);
        assert_eq!(hear(&mut session, "spBv1.0/G/NDATA/e", &last), "rejected: unknown_alias | left_out:1");
        let device = payload(Some(2), Some(1), &[Sent::named("x").alias(9).kind(9).float(1.0)]);
        assert!(hear(&mut session, "spBv1.0/G/DBIRTH/e/d", &device).ends_with("d online not_kept:1"));
    }

    #[test]
    fn all_together_stays_below_its_bytes() {
        let mut session = Session::default();
        let name = "x".repeat(SPARKPLUG_NAME_BYTES - 4);
        let sent: Vec<_> = (1_000..3_000)
            .map(|alias| Sent::named(&format!("{name}{alias}")).alias(alias).kind(9).float(1.0))
            .collect();
        let mut not_kept = 0;
        for edge in 0..20 {
            let topic = format!("spBv1.0/G/NBIRTH/{edge}");
            let topic = Topic::parse(&topic).unwrap();
            let _ = told(|visit| {
                let heard = session.hear(&topic, &payload(Some(0), Some(1), &sent), visit);
                not_kept += heard.not_kept;
                heard.outcome
            });
        }
        assert!(not_kept > 0);
        assert!(session.bytes() <= SPARKPLUG_BYTES_MAX && session.bytes() > SPARKPLUG_BYTES_MAX - 1_000);
        let mut saved = Vec::new();
        session.save(&mut saved);
        assert!(saved.len() <= session.bytes());
        assert_eq!(Session::load(&saved), Some(session));
    }

    #[test]
    fn no_input_makes_it_fall_over() {
        let device = payload(Some(1), Some(1_000), &[Sent::named("p/flow").alias(7).kind(3).int(5)]);
        let seeds = [NBIRTH, NDATA, NO_TIME, NULL_NAN, CUT, STATE, &birth(3), &death(3), &data(2), &device];
        let topics = [
            "spBv1.0/G/NBIRTH/e",
            "spBv1.0/G/NDATA/e",
            "spBv1.0/G/DBIRTH/e/d",
            "spBv1.0/G/DDATA/e/d",
            "spBv1.0/G/NDEATH/e",
            "spBv1.0/G/DDEATH/e/d",
        ];
        let mut session = Session::default();
        let mut turn = 0;
        hostile::survives(&seeds, |bytes, visit| {
            turn += 1;
            let heard = session.hear(&Topic::parse(topics[turn % topics.len()]).unwrap(), bytes, visit);
            assert!(session.bytes() <= SPARKPLUG_BYTES_MAX);
            heard.outcome
        });
    }
}
