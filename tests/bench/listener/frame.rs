//! Frames of one publisher, written once: what changes per message is patched in place.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where the packet id stands: behind the fixed header (2 bytes) and the topic.
fn id_at(topic: &str) -> usize {
    2 + 2 + topic.len()
}

/// 100 bytes, as a device that measures a few things sends them.
fn payload() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let text = format!(r#"{{"ts":{now},"value":21.50,"humidity":41.5,"battery":3.30,"rssi":-71,"counter":100000000}}"#);
    format!("{text:<100}")
}

/// A clean session of MQTT 3.1.1 without keep-alive.
pub(crate) fn connect(client: usize) -> Vec<u8> {
    let id = format!("load-{client}");
    let body = [b"\x00\x04MQTT\x04\x02\x00\x00".as_slice(), &text(&id)].concat();
    packet(0x10, &body)
}

fn text(content: &str) -> Vec<u8> {
    [&u16::try_from(content.len()).unwrap().to_be_bytes(), content.as_bytes()].concat()
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let len = u8::try_from(body.len()).unwrap();
    assert!(len < 128, "one byte of length");
    [&[first, len], body].concat()
}

/// One `QoS` 1 PUBLISH of a client, with the place of its packet id.
pub(crate) struct Publish {
    bytes: Vec<u8>,
    id_at: usize,
}

impl Publish {
    pub(crate) fn new(client: usize) -> Publish {
        // Short, so that the remaining length fits one byte: 2 + 13 + 2 + 100 bytes.
        let topic = format!("d/{:04}/b", client % 10_000);
        let body = [text(&topic), vec![0, 0], payload().into_bytes()].concat();
        Publish { bytes: packet(0x32, &body), id_at: id_at(&topic) }
    }

    /// Appends it under this id.
    pub(crate) fn write(&self, id: u16, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        let at = begin + self.id_at;
        out[at..at + 2].copy_from_slice(&id.to_be_bytes());
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Takes the PUBACKs off the front of `input`, and calls with each id. Anything else is an
/// error of the server.
pub(crate) fn acks(input: &mut Vec<u8>, mut each: impl FnMut(u16)) {
    let whole = input.len() / 4 * 4;
    for ack in input[..whole].chunks_exact(4) {
        assert_eq!(ack[..2], [0x40, 2], "a PUBACK, not {ack:02x?}");
        each(u16::from_be_bytes([ack[2], ack[3]]));
    }
    input.drain(..whole);
}
