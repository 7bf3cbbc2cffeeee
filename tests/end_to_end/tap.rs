//! What passed a wire, read from the bytes themselves: which messages reached the
//! agent's socket, and which of its own the other end acknowledged.

#![allow(dead_code, reason = "shared by several test programs, each uses a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;

/// All connections of one wire.
#[derive(Default)]
pub(crate) struct Tap {
    heard: Mutex<Option<Heard>>,
}

/// Topics and payloads, in the order in which they passed.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    /// PUBLISH packets that were written to the agent's socket, repetitions too.
    pub(crate) delivered: Vec<Message>,
    /// Of the agent, acknowledged by the broker.
    pub(crate) acked: Vec<Message>,
}

type Message = (String, Vec<u8>);

impl Tap {
    /// From now on, in new connections.
    pub(crate) fn start(&self) {
        *self.heard.lock().unwrap() = Some(Heard::default());
    }

    /// What was heard since the start.
    pub(crate) fn heard(&self) -> Heard {
        self.heard.lock().unwrap().clone().expect("the tap was started")
    }

    /// For one connection.
    pub(crate) fn listen(self: &Arc<Tap>) -> Listener {
        Listener { tap: Arc::clone(self), said: Vec::new(), shared: Arc::default() }
    }
}

/// Understands one direction of one connection; a clone the other.
#[derive(Clone)]
pub(crate) struct Listener {
    tap: Arc<Tap>,
    /// The beginning of a packet.
    said: Vec<u8>,
    shared: Arc<Mutex<Shared>>,
}

/// Of both directions.
#[derive(Default)]
struct Shared {
    has_properties: bool,
    /// By packet id, what the agent published last.
    published: BTreeMap<u16, Message>,
}

impl Listener {
    /// These bytes went on.
    pub(crate) fn hear(&mut self, by_agent: bool, bytes: &[u8]) {
        let mut heard = self.tap.heard.lock().unwrap();
        let Some(heard) = heard.as_mut() else { return };
        self.said.extend_from_slice(bytes);
        while let Some((header, length)) = complete(&self.said) {
            let packet: Vec<u8> = self.said.drain(..header + length).collect();
            let mut shared = self.shared.lock().unwrap();
            shared.hear(heard, by_agent, packet[0], &packet[header..]);
        }
    }
}

impl Shared {
    fn hear(&mut self, heard: &mut Heard, by_agent: bool, first: u8, body: &[u8]) {
        match first >> 4 {
            // The protocol's name, then its level.
            CONNECT => self.has_properties = body[6] >= 5,
            PUBLISH => {
                let mut at = 2 + usize::from(u16_at(body, 0));
                let topic = String::from_utf8_lossy(&body[2..at]).into_owned();
                let id = (first >> 1 & 3 > 0).then(|| u16_at(body, at));
                at += if id.is_some() { 2 } else { 0 };
                if self.has_properties {
                    let (digits, length) = varint(&body[at..]).expect("a whole packet");
                    at += digits + length;
                }
                let message = (topic, body[at..].to_vec());
                match id {
                    Some(id) if by_agent => _ = self.published.insert(id, message),
                    _ if by_agent => {}
                    _ => heard.delivered.push(message),
                }
            }
            PUBACK if !by_agent => heard.acked.extend(self.published.remove(&u16_at(body, 0))),
            _ => {}
        }
    }
}

/// Lengths of header and body of the first packet, once all of it is here.
fn complete(bytes: &[u8]) -> Option<(usize, usize)> {
    let (digits, length) = varint(bytes.get(1..)?)?;
    (bytes.len() >= 1 + digits + length).then_some((1 + digits, length))
}

/// How many bytes it takes, and its value.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let digits = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
    Some((digits, bytes[..digits].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f))))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
