//! The one command that is sent: begin again, with all names and values.
//!
//! To be published with quality of service 0 and not retained, and not often: the answer is
//! the whole birth of an edge node and all its devices.

use super::payload::datatype;
use super::protobuf::{put_message, put_varint};

/// The metric that every edge node has to have for it.
const REBIRTH: &str = "Node Control/Rebirth";

/// Where an edge node listens.
pub fn rebirth_topic(group: &str, edge: &str) -> String {
    format!("spBv1.0/{group}/NCMD/{edge}")
}

/// What asks an edge node for its births, sent at `now_ms` (since 1970). Without a sequence
/// number: those are the edge node's.
pub fn rebirth_payload(now_ms: u64) -> Vec<u8> {
    let mut metric = Vec::new();
    put_message(&mut metric, 1, REBIRTH.as_bytes());
    put_varint(&mut metric, 3, now_ms);
    put_varint(&mut metric, 4, datatype::BOOLEAN);
    put_varint(&mut metric, 14, 1);
    let mut payload = Vec::new();
    put_varint(&mut payload, 1, now_ms);
    put_message(&mut payload, 2, &metric);
    payload
}

#[cfg(test)]
mod tests {
    use super::super::super::visit::Scalar;
    use super::super::payload::Payload;
    use super::*;

    #[test]
    fn the_command_is_one_true_metric_without_a_sequence_number() {
        let bytes = rebirth_payload(1_713_970_366_000);
        let payload = Payload::parse(&bytes).unwrap();
        assert_eq!((payload.timestamp, payload.seq), (Some(1_713_970_366_000), None));
        let metrics: Vec<_> = payload.metrics().collect();
        assert_eq!(metrics.len(), 1);
        assert_eq!(metrics[0].name, Some("Node Control/Rebirth"));
        assert_eq!((metrics[0].timestamp, metrics[0].datatype), (Some(1_713_970_366_000), 11));
        assert_eq!(metrics[0].scalar(11), Scalar::Bool(true));
        assert_eq!(rebirth_topic("G1", "edge1"), "spBv1.0/G1/NCMD/edge1");
    }
}
