//! Outbox rows to what goes over the wire: the uplink contract.
//!
//! Topic `PREFIX/GATEWAY/data/LANE`. `id = gateway/stream/window/key/time`,
//! each part percent-encoded outside `[A-Za-z0-9._~-]`. What the records look like
//! is in `record.rs`, once; an encoding is one arm in [`Envelope::payload`].

mod record;

use crate::model::ids::push_escaped;

use super::outbox::LaneKind;
use super::outbox::row::Row;

use self::record::{EnvelopeView, RecordView, Records};

/// Room for an envelope, and for a typical record: a guess that saves growing.
const ENVELOPE_BYTES: usize = 256;
/// See `ENVELOPE_BYTES`.
const RECORD_BYTES: usize = 512;

/// Version of the envelope.
pub const ENVELOPE_VERSION: u32 = 1;

/// How an envelope is written. A receiver tells them apart by the first byte: `{`
/// is JSON, a CBOR map starts with 0xa0 to 0xbf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// RFC 8259.
    #[default]
    Json,
    /// RFC 8949; the same keys and values.
    Cbor,
}

/// What all batches of one gateway share.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// First level of every topic.
    pub topic_prefix: &'a str,
    /// The gateway's id, verbatim.
    pub gateway: &'a str,
    /// How it is written.
    pub encoding: Encoding,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Encoding; 2] = [Encoding::Json, Encoding::Cbor];

    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Json => "json",
            Encoding::Cbor => "cbor",
        }
    }
}

impl Envelope<'_> {
    /// The topic of a lane.
    pub fn topic(&self, lane: LaneKind) -> String {
        let mut topic = String::with_capacity(64);
        topic.push_str(self.topic_prefix);
        topic.push('/');
        push_escaped(&mut topic, self.gateway).expect("memory does not fail");
        topic.push_str("/data/");
        topic.push_str(lane.as_str());
        topic
    }

    /// The payload of one batch of rows with their sequence numbers.
    pub fn payload<'r>(
        &self,
        epoch: u64,
        lane: LaneKind,
        rows: impl ExactSizeIterator<Item = (u64, Row<'r>)> + Clone,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(ENVELOPE_BYTES + rows.len() * RECORD_BYTES);
        let records = Records { gateway: self.gateway, rows };
        let view = EnvelopeView { v: ENVELOPE_VERSION, gw: self.gateway, epoch, lane: lane.as_str(), records };
        let written = match self.encoding {
            Encoding::Json => serde_json::to_writer(&mut out, &view).is_ok(),
            Encoding::Cbor => serde_cbor::to_writer(&mut out, &view).is_ok(),
        };
        assert!(written, "a view is plain data, and memory does not fail");
        out
    }
}

/// One record as JSON, as it stands in an envelope.
pub fn record_json(gateway: &str, seq: u64, row: &Row<'_>) -> Vec<u8> {
    serde_json::to_vec(&RecordView { gateway, seq, row }).expect("a view is plain data, memory does not fail")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::aggregate::{Finished, Kind};
    use crate::engine::outbox::row::{self, PaneKind, PaneRow};
    use crate::model::record::TimeSource;
    use crate::model::time::{ClockQuality, EventTime};

    fn pane() -> Vec<u8> {
        let row = PaneRow {
            stream: "climate",
            window: "10s",
            key: "a/b",
            start: EventTime::from_millis(-10_000),
            end: EventTime::from_millis(0),
            opened: EventTime::from_millis(-10_000),
            pane: PaneKind::OnTime,
            revision: 3,
            watermark: None,
            count: 2,
            source: TimeSource::Receive,
            quality: ClockQuality::Unsynced,
            partial: true,
        };
        let mut bytes = Vec::new();
        let results = [Finished::Number(2.0), Finished::Number(0.1), Finished::None].map(|result| (result, false));
        let fields = [("t", results.into_iter())];
        row::write_pane(&mut bytes, &row, &[], &[Kind::Count, Kind::Sum, Kind::Max], 1, fields.into_iter());
        row::write_accumulators(&mut bytes, false, core::iter::empty());
        bytes
    }

    const EXPECTED: &str = r#"{"v":1,"gw":"gw 1","epoch":7,"lane":"live","records":[{"kind":"pane","id":"gw%201/climate/10s/a%2Fb/-10000","rev":3,"seq":9,"stream":"climate","window":"10s","key":"a/b","start_ms":-10000,"end_ms":0,"pane":"on_time","watermark_ms":null,"count":2,"values":{"t":{"count":2,"sum":0.1,"max":null}},"time_source":"receive","time_quality":"unsynced","partial":true,"replaces":[]}]}"#;

    #[test]
    fn the_envelope_is_the_contract_to_the_letter_and_both_encodings_say_the_same() {
        let bytes = pane();
        let payload = |encoding| {
            let envelope = Envelope { topic_prefix: "tidegate", gateway: "gw 1", encoding };
            assert_eq!(envelope.topic(LaneKind::Live), "tidegate/gw%201/data/live");
            envelope.payload(7, LaneKind::Live, [(9, row::read(&bytes).expect("a row"))].into_iter())
        };
        let json = payload(Encoding::Json);
        assert_eq!(core::str::from_utf8(&json), Ok(EXPECTED));
        let cbor: serde_json::Value = serde_cbor::from_slice(&payload(Encoding::Cbor)).expect("CBOR");
        assert_eq!(cbor, serde_json::from_slice::<serde_json::Value>(&json).expect("JSON"));
        assert!(payload(Encoding::Cbor).len() < json.len());
    }
}
