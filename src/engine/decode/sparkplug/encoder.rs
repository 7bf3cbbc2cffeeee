//! Payloads as edge nodes send them, for the tests.

use super::protobuf::{put_message, put_varint};

/// One metric.
pub(super) struct Sent {
    bytes: Vec<u8>,
}

impl Sent {
    pub(super) fn named(name: &str) -> Sent {
        let mut bytes = Vec::new();
        put_message(&mut bytes, 1, name.as_bytes());
        Sent { bytes }
    }

    pub(super) fn alias_only(alias: u64) -> Sent {
        Sent { bytes: Vec::new() }.alias(alias)
    }

    pub(super) fn alias(self, alias: u64) -> Sent {
        self.with(2, alias)
    }

    pub(super) fn at(self, millis: u64) -> Sent {
        self.with(3, millis)
    }

    pub(super) fn kind(self, datatype: u64) -> Sent {
        self.with(4, datatype)
    }

    pub(super) fn historical(self) -> Sent {
        self.with(5, 1)
    }

    pub(super) fn int(self, bits: u32) -> Sent {
        self.with(10, bits.into())
    }

    pub(super) fn long(self, bits: u64) -> Sent {
        self.with(11, bits)
    }

    pub(super) fn float(mut self, value: f32) -> Sent {
        self.bytes.push(12 << 3 | 5);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    fn with(mut self, number: u64, value: u64) -> Sent {
        put_varint(&mut self.bytes, number, value);
        self
    }
}

/// One payload; the sequence number comes last, as Tahu writes it.
pub(super) fn payload(seq: Option<u64>, timestamp: Option<u64>, metrics: &[Sent]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(timestamp) = timestamp {
        put_varint(&mut out, 1, timestamp);
    }
    for metric in metrics {
        put_message(&mut out, 2, &metric.bytes);
    }
    if let Some(seq) = seq {
        put_varint(&mut out, 3, seq);
    }
    out
}
