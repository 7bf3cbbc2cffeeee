//! How a batch is written on a connection, and how large it may be there.

use bytes::Bytes;

use crate::agent::mqtt::packet::{Outgoing, Properties, Terms};
use crate::engine::encode::{ENVELOPE_VERSION, Encoding};
use crate::engine::outbox::LaneKind;
use crate::engine::step::{Batch, UplinkTerms};
use crate::model::limits::{PACKET_BYTES_MAX, UPLINK_WINDOW};

use super::packing::is_packed;

/// What a packet has around topic and payload: its header, the lengths of topic and
/// properties, the packet id, and the properties of [`properties`] at their longest.
const AROUND_BYTES: usize = 256;

/// The envelope's version as a user property.
const VERSION: &str = "1";
const _: () = assert!(ENVELOPE_VERSION == 1, "as in VERSION");

/// What the engine has to keep to on this connection.
pub(super) fn terms(broker: &Terms, topic_bytes_max: usize) -> UplinkTerms {
    let packet_max = broker.packet_max.map_or(PACKET_BYTES_MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    UplinkTerms {
        payload_max: packet_max.min(PACKET_BYTES_MAX).saturating_sub(AROUND_BYTES + topic_bytes_max).max(1),
        window: usize::from(broker.receive_max.unwrap_or(u16::MAX)).min(UPLINK_WINDOW),
    }
}

/// A batch as a packet.
pub(super) fn batch(batch: Batch, packet: u16) -> Outgoing {
    let properties = properties(&batch);
    let Batch { topic, payload, .. } = batch;
    at_least_once(topic, payload, false, packet, properties)
}

/// With MQTT 5 a receiver, a bridge or a rule in the cloud need not open the payload to know
/// what it is; the same stands in the envelope.
fn properties(batch: &Batch) -> Properties {
    let packed = is_packed(&batch.payload);
    let content_type = match batch.encoding {
        _ if packed => "application/zstd",
        Encoding::Json => "application/json",
        Encoding::Cbor => "application/cbor",
    };
    Properties {
        content_type: Some(content_type),
        // Never 0: that would mean that it is of no use already. Rounded up.
        expiry_secs: batch
            .expiry
            .map(|span| u32::try_from(span.as_millis().div_ceil(1_000).max(1)).unwrap_or(u32::MAX)),
        user: vec![
            ("v", VERSION),
            ("lane", batch.lane.as_str()),
            ("encoding", batch.encoding.as_str()),
            ("compression", if packed { "zstd" } else { "none" }),
        ],
        correlation: None,
    }
}

/// The status document as a packet.
pub(super) fn status(topic: &str, document: Vec<u8>, retain: bool, packet: u16) -> Outgoing {
    let properties = Properties { content_type: Some("application/json"), ..Properties::default() };
    at_least_once(topic.to_owned(), document, retain, packet, properties)
}

fn at_least_once(topic: String, payload: Vec<u8>, retain: bool, packet: u16, properties: Properties) -> Outgoing {
    let (payload, packet) = (Bytes::from(payload), Some(packet));
    Outgoing { topic, payload, retain, packet, exactly_once: false, dup: false, properties }
}

/// Bytes of the longest topic of a batch below one of so many bytes.
pub(super) fn data_topic_bytes(base: usize) -> usize {
    base + "data/".len() + LaneKind::ALL.iter().map(|lane| lane.as_str().len()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use crate::agent::mqtt::codec::Codec;
    use crate::agent::mqtt::packet::ToBroker;
    use crate::config::boot::Protocol;
    use crate::engine::step::BatchId;
    use crate::model::time::Span;

    use super::*;

    #[test]
    fn a_payload_of_the_size_that_is_allowed_makes_a_packet_of_the_size_that_is_allowed() {
        let topic = "t".repeat(100);
        for packet_max in [1_000_u32, 16_384, 128 * 1_024] {
            let broker = Terms { packet_max: Some(packet_max), ..Terms::default() };
            let allowed = terms(&broker, topic.len()).payload_max;
            let mut largest = Batch::new(BatchId(1), topic.clone(), vec![b'x'; allowed]);
            largest.lane = LaneKind::Backlog;
            largest.expiry = Some(Span::from_secs(7));
            let mut bytes = BytesMut::new();
            Codec::new(Protocol::V5).encode(ToBroker::Publish(batch(largest, 1)), &mut bytes).expect("written");
            let len = u32::try_from(bytes.len()).expect("small");
            assert!(len <= packet_max && packet_max - len < 256, "{len} of {packet_max}");
        }
    }

    #[test]
    fn what_a_broker_allows_is_never_more_than_we_can_do_and_never_nothing() {
        let silent = terms(&Terms::default(), 50);
        assert_eq!(silent.window, UPLINK_WINDOW);
        assert!(silent.payload_max < PACKET_BYTES_MAX);
        let stingy = Terms { receive_max: Some(1), packet_max: Some(10), ..Terms::default() };
        assert_eq!(terms(&stingy, 50), UplinkTerms { payload_max: 1, window: 1 });
    }

    #[test]
    fn an_expiry_is_rounded_up_to_seconds() {
        let seconds = |millis| {
            let batch = Batch { expiry: Some(Span::from_millis(millis)), ..Batch::new(BatchId(1), "t", "") };
            properties(&batch).expiry_secs
        };
        assert_eq!(
            [seconds(0), seconds(1), seconds(1_001), seconds(u64::MAX)],
            [Some(1), Some(1), Some(2), Some(u32::MAX)]
        );
        assert_eq!(properties(&Batch::new(BatchId(1), "t", "")).expiry_secs, None, "for ever");
    }
}
