//! A Sparkplug edge node as it sends: topics, payloads, and numbers that go on.
//!
//! Written from the specification's protobuf schema, without the engine's reader.

#![allow(dead_code, reason = "each test uses its part")]

/// An edge node of group `G`.
pub(crate) struct EdgeNode {
    name: &'static str,
    /// The number of its connection.
    pub(crate) bd_seq: u64,
    next_seq: u8,
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
}

/// One metric.
#[derive(Clone, Default)]
pub(crate) struct Metric(Vec<u8>);

/// A metric with its name and, for births, its alias; a float.
pub(crate) fn named(name: &str, alias: u64) -> Metric {
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, 1, name.as_bytes());
    put_varint(&mut bytes, 2, alias);
    put_varint(&mut bytes, 4, FLOAT);
    Metric(bytes)
}

/// A metric without its name.
pub(crate) fn alias(alias: u64) -> Metric {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, 2, alias);
    Metric(bytes)
}

const UINT64: u64 = 8;
const FLOAT: u64 = 9;

impl Metric {
    /// Its own time.
    pub(crate) fn at(mut self, millis: i64) -> Metric {
        put_varint(&mut self.0, 3, u64::try_from(millis).unwrap());
        self
    }

    /// It was held back.
    pub(crate) fn historical(mut self) -> Metric {
        put_varint(&mut self.0, 5, 1);
        self
    }

    pub(crate) fn value(mut self, value: f32) -> Metric {
        self.0.push(12 << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }
}

impl EdgeNode {
    pub(crate) fn new(name: &'static str) -> EdgeNode {
        EdgeNode { name, bd_seq: 1, next_seq: 0 }
    }

    /// On its connection of that number.
    pub(crate) fn on_connection(mut self, bd_seq: u64) -> EdgeNode {
        self.bd_seq = bd_seq;
        self
    }

    /// Where it listens.
    pub(crate) fn command_topic(&self) -> String {
        format!("spBv1.0/G/NCMD/{}", self.name)
    }

    pub(crate) fn birth(&mut self, at: i64, metrics: &[Metric]) -> Sent {
        self.next_seq = 0;
        let metrics: Vec<_> = [vec![self.bd_seq_metric()], metrics.to_vec()].concat();
        self.numbered("NBIRTH", None, at, &metrics)
    }

    /// The will of its present connection.
    pub(crate) fn death(&self) -> Sent {
        Sent { topic: self.topic("NDEATH", None), payload: payload(None, None, &[self.bd_seq_metric()]) }
    }

    pub(crate) fn data(&mut self, at: i64, metrics: &[Metric]) -> Sent {
        self.numbered("NDATA", None, at, metrics)
    }

    pub(crate) fn device_birth(&mut self, device: &str, at: i64, metrics: &[Metric]) -> Sent {
        self.numbered("DBIRTH", Some(device), at, metrics)
    }

    pub(crate) fn device_data(&mut self, device: &str, at: i64, metrics: &[Metric]) -> Sent {
        self.numbered("DDATA", Some(device), at, metrics)
    }

    pub(crate) fn device_death(&mut self, device: &str, at: i64) -> Sent {
        self.numbered("DDEATH", Some(device), at, &[])
    }

    fn numbered(&mut self, kind: &str, device: Option<&str>, at: i64, metrics: &[Metric]) -> Sent {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        Sent { topic: self.topic(kind, device), payload: payload(Some(seq), Some(at), metrics) }
    }

    fn topic(&self, kind: &str, device: Option<&str>) -> String {
        let device = device.map_or(String::new(), |device| format!("/{device}"));
        format!("spBv1.0/G/{kind}/{}{device}", self.name)
    }

    fn bd_seq_metric(&self) -> Metric {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, 1, b"bdSeq");
        put_varint(&mut bytes, 4, UINT64);
        put_varint(&mut bytes, 11, self.bd_seq);
        Metric(bytes)
    }
}

fn payload(seq: Option<u8>, at: Option<i64>, metrics: &[Metric]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(at) = at {
        put_varint(&mut out, 1, u64::try_from(at).unwrap());
    }
    for metric in metrics {
        put_bytes(&mut out, 2, &metric.0);
    }
    if let Some(seq) = seq {
        put_varint(&mut out, 3, seq.into());
    }
    out
}

fn put_varint(out: &mut Vec<u8>, number: u64, value: u64) {
    varint(out, number << 3);
    varint(out, value);
}

fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}
